"""
A file that takes space on the store's disk, to be given back piece by piece when the disk is full.

Any process can take free space of a disk. The space of this file is reserved for the store until it is needed, and is
given back in small pieces, so that another process that fills the disk gets little of it.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

PIECE = 2 * 1024 * 1024
"""Octets given back in one step: enough for some dozen transactions."""


class Ballast:
    """
    A file that reserves disk space for the store; used by one thread.

    :param path: the file, next to the database.
    :param octets: how much space it reserves; with 0 no file is made.
    """

    def __init__(self, path: Path, octets: int) -> None:
        self.path = self._path = path
        self.whole = self._whole = octets
        self._left = path.stat().st_size if path.exists() else 0

    @property
    def remaining(self) -> int:
        """The octets that the file still reserves."""
        return self._left

    @property
    def missing(self) -> int:
        """Octets it should hold and does not."""
        return self._whole - self._left

    def hold(self, most: int | None = None) -> None:
        """
        Take all of it. Blocks.

        :param most: octets that it holds at the most from now on; None: all that it should.
        :raises OSError: the disk has not that much; what is there is kept.
        """
        whole = self._whole if most is None else min(most, self._whole)
        if not self._whole:
            with suppress(FileNotFoundError):
                self._path.unlink()
            return
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            try:
                os.ftruncate(descriptor, min(os.fstat(descriptor).st_size, self._whole))
                if whole:
                    os.posix_fallocate(descriptor, 0, whole)
            finally:
                self._left = os.fstat(descriptor).st_size
        finally:
            os.close(descriptor)

    def give_back(self) -> int:
        """
        Let go of a piece.

        :return: its octets; 0 where nothing is left.
        :raises OSError: the file cannot be changed.
        """
        if not self._left:
            return 0
        rest = max(0, self._left - PIECE)
        descriptor = os.open(self._path, os.O_RDWR)
        try:
            os.ftruncate(descriptor, rest)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        given, self._left = self._left - rest, rest
        return given
