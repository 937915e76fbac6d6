"""Reading of files that an operator names, which may be a pipe or a device by mistake."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

_PASSED = ("/dev/fd/", "/dev/stdin", "/proc/self/fd/")
"""Descriptors that a shell passes by name: ``agtp check <(...)``."""


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
