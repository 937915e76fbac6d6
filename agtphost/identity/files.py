"""
Files that appear whole or not at all.

A key or certificate that a crash left half written would keep the host from
starting, so each file is written under a temporary name, flushed to disk, and only then renamed.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path

PRIVATE = 0o600
"""Keys: for the owner alone."""

PUBLIC = 0o644
"""Certificates and documents: the directory above them decides who gets that far."""


def _write_beside(path: Path, octets: bytes, mode: int) -> Path:
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            os.fchmod(stream.fileno(), mode)
            stream.write(octets)
            stream.flush()
            os.fsync(stream.fileno())
    except OSError as error:
        # A disk that fills up: the error names no file, and what was written of it takes the last of the space.
        with contextlib.suppress(OSError):
            temporary.unlink()
        error.filename = error.filename or str(path)
        raise
    return temporary


def _flush_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_once(path: Path, octets: bytes, mode: int) -> None:
    """
    Create ``path``, durably.

    :raises FileExistsError: it is there already; nothing changed.
    :raises OSError: it could not be written; nothing changed.
    """
    temporary = _write_beside(path, octets, mode)
    try:
        try:
            os.link(temporary, path)
        except FileExistsError:
            raise
        except OSError:  # A file system without hard links.
            if path.exists():
                raise FileExistsError(f"{path} exists") from None
            temporary.rename(path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            temporary.unlink()
    _flush_directory(path.parent)


def replace(path: Path, octets: bytes, mode: int, *, owner: tuple[int, int] | None = None) -> None:
    """
    Give ``path`` new content, durably; readers see the old or the new, never a part.

    :param owner: user and group that the file gets; None for those of this process.
    :raises OSError: it could not be written, or the owner not be set; the old content stays.
    """
    temporary = _write_beside(path, octets, mode)
    try:
        made = temporary.stat()
        if owner is not None and owner != (made.st_uid, made.st_gid):
            os.chown(temporary, *owner)
        temporary.replace(path)
    except OSError:
        temporary.unlink()
        raise
    _flush_directory(path.parent)


def rename(source: Path, target: Path) -> None:
    """
    Move a file within its directory, durably, in the place of what is there.

    :raises OSError: it could not be moved.
    """
    source.replace(target)
    _flush_directory(target.parent)


def make_directory(path: Path) -> None:
    """Create ``path`` and what is missing above it for the owner alone; what exists keeps its mode."""
    missing = []
    current = path
    while not current.exists():
        missing.append(current)
        current = current.parent
    for directory in reversed(missing):
        directory.mkdir(mode=0o700, exist_ok=True)
