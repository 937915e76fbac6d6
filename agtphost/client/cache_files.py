"""
Small files in the user's cache directory that one command leaves for the next.

What is read from them is used without further checks, so they count only where no other user can write them.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agtphost.vocabulary import jsontext

MOST = 64
"""Files of a kind that are kept; the oldest is removed first."""

_LARGEST = 16_384
"""Octets of one file."""


def cache_folder(kind: str, environ: Mapping[str, str]) -> Path | None:
    """Return the directory of a kind of files, which need not exist; None without a cache directory."""
    if not hasattr(os, "getuid"):
        return None
    home = environ.get("XDG_CACHE_HOME") or (f"{environ['HOME']}/.cache" if environ.get("HOME") else "")
    return Path(home) / "agtphost" / kind if Path(home).is_absolute() else None


def read_cached(path: Path) -> Any:
    """Return the JSON of a file that only this user can write; None if the file is absent or unusable."""
    try:
        with path.open("rb") as stream:
            if not _is_own(os.fstat(stream.fileno())) or not _is_own(path.parent.stat()):
                return None
            return jsontext.decode(stream.read(_LARGEST))
    except (OSError, ValueError):
        return None


def write_cached(path: Path, text: str) -> None:
    """Write a file, and remove the oldest ones of its directory; does nothing where that is impossible."""
    with contextlib.suppress(OSError):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        others = sorted(path.parent.glob("*.json"), key=lambda each: each.stat().st_mtime)
        for old in others[: max(0, len(others) + 1 - MOST)]:
            old.unlink(missing_ok=True)
        draft = path.with_suffix(f".{os.getpid()}")
        draft.touch(mode=0o600, exist_ok=False)
        try:
            draft.write_text(text, encoding="utf-8")
            draft.replace(path)
        finally:
            draft.unlink(missing_ok=True)


def _is_own(found: os.stat_result) -> bool:
    return found.st_uid == os.getuid() and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
