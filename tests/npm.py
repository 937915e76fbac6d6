"""Packages from the npm registry, installed by name into a cache outside of the repository."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

PACKAGES = ("@modelcontextprotocol/server-everything", "@modelcontextprotocol/server-filesystem")


def cache() -> Path:
    """``$AGTPHOST_TEST_NODE``, or a folder below the user's cache."""
    named = os.environ.get("AGTPHOST_TEST_NODE")
    return Path(named) if named else Path.home() / ".cache" / "agtphost-tests" / "node"


def program(name: str) -> str:
    """The path of a program of :data:`PACKAGES`."""
    return str(_found(Path(".bin") / name, PACKAGES))


def document(package: str, name: str, version: str | None = None) -> Path:
    """The path of a file that a package brings; ``version`` is the one that is installed where there is none."""
    return _found(Path(package) / name, (package if version is None else f"{package}@{version}",))


def node() -> Path:
    """Node 22, which some packages need; machines often have an older one."""
    return document("node", "bin/node", "22")


def _found(name: Path, packages: Sequence[str]) -> Path:
    """
    Something below ``node_modules``; the packages are installed first where it is absent.

    Skips the test where this machine has no npm; fails it where npm cannot install.
    """
    folder = cache()
    found = folder / "node_modules" / name
    if not found.exists():
        npm = shutil.which("npm")
        if npm is None:
            pytest.skip("npm is not installed")
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not found.exists():
                command = [npm, "install", "--no-audit", "--no-fund", "--prefix", str(folder), *packages]
                done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
                assert done.returncode == 0, done.stderr
    return found
