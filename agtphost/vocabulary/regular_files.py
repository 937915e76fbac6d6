"""Files that an operator names: read what may be a pipe or a device by mistake, notice changes, write long ones."""

from __future__ import annotations

import errno
import io
import os
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer as Buffer

FLUSHED_OCTETS: Final = 4 * 1024 * 1024
"""
Octets of a long file that are written before they are flushed to disk.

Linux keeps half a minute of writes in memory. With a journal in the usual mode of ext4, a commit of the host then waits
until all of that is on disk. During an export of 1.4 GB, 11 to 13 of 5,000 commits took more than 30 ms. With flushes
only one commit did in two runs, and 12 commits in a third run next to other work.
"""

_PASSED = ("/dev/fd/", "/dev/stdin", "/proc/self/fd/")
"""Descriptors that a shell passes by name: ``agtp check <(...)``."""


Stamp = tuple[int, int, int] | None
"""Time of change, size and inode of a file; None for a missing one."""


def stamps(paths: Iterable[Path]) -> dict[Path, Stamp]:
    """Return a stamp of each file that changes with its content; None for a missing file."""
    found: dict[Path, Stamp] = {}
    for path in paths:
        try:
            status = path.stat()
            found[path] = (status.st_mtime_ns, status.st_size, status.st_ino)
        except OSError:
            found[path] = None
    return found


def read_octets(path: Path, most: int = -1) -> bytes:
    """
    Return the content of a file.

    A pipe without a writer would stop the reader, and a device such as ``/dev/zero`` has no end.

    :param most: octets to read at most; -1 reads all.
    :raises OSError: it cannot be read, or is a pipe, a socket or a device (``ENXIO``).
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if not stat.S_ISREG(mode) and not str(path).startswith(_PASSED):
            raise OSError(errno.ENXIO, os.strerror(errno.ENXIO), str(path))
        os.set_blocking(descriptor, True)
        with os.fdopen(descriptor, "rb", closefd=False) as stream:
            return stream.read(most)
    finally:
        os.close(descriptor)


class PacedWriter(io.BufferedWriter):
    """
    A stream to a new, long file, which is flushed to disk every :data:`FLUSHED_OCTETS`.

    :param descriptor: of the file; closed with the stream.
    """

    def __init__(self, descriptor: int) -> None:
        super().__init__(io.FileIO(descriptor, "w"))
        self._unflushed = 0

    def write(self, octets: Buffer, /) -> int:
        """Write octets, and flush them to disk if it is time."""
        written = super().write(octets)
        self._unflushed += written
        if self._unflushed >= FLUSHED_OCTETS:
            self.flush_to_disk()
        return written

    def flush_to_disk(self) -> None:
        """Have all that was written on disk, as at the end of the file."""
        self.flush()
        os.fsync(self.fileno())
        self._unflushed = 0
