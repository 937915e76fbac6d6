"""Which operating systems run which part: ``docs/platforms.rst``."""

from __future__ import annotations

import sys

POSIX_MODULES = frozenset({"fcntl", "grp", "pty", "pwd", "resource", "termios", "tty"})
"""Modules of the standard library that Windows lacks."""

NAMES = {"win32": "Windows", "cygwin": "Cygwin", "emscripten": "Emscripten", "wasi": "WASI"}
"""Systems without what a host needs, by ``sys.platform``."""

REMEDY = "Run it on Linux or macOS (WSL counts); `agtp docs platforms` lists what runs where."


def lacks_host(platform: str = sys.platform) -> bool:
    """Return whether no host runs on a system."""
    return platform in NAMES


def explain_platform(what: str, platform: str = sys.platform) -> str:
    """
    Return why something does not run on a system.

    :param what: such as ``agtp run``.
    """
    return f"{what} does not run on {NAMES.get(platform, platform)}: it needs a POSIX system"
