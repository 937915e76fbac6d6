"""
One host per state directory, and one per store, for as long as it lives.

Two hosts on one store do not hear of each other's lifecycle changes: an agent
that is revoked at one goes on at the other. The lock is the kernel's
(``flock``), on a file that holds nothing but the number of the process; it is
gone with the process, however that ends. Commands need none: they read the
store, and write keys, certificates and agents, which a running host takes up.
"""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from pathlib import Path

from agtphost.stores.rows import StoreError
from agtphost.vocabulary.foreign_errors import explain

NAME = "host.lock"


class StateLock:
    """
    The right to use a state directory and a store.

    :param state_dir: the state directory; it exists.
    :param store: the database file; if it is in another directory, that gets a second lock file. None: it has none.
    """

    def __init__(self, state_dir: Path, store: Path | None) -> None:
        self._files = [state_dir / NAME]
        if store is not None and store.parent.resolve() != state_dir.resolve():
            self._files.append(store.with_name(f"{store.name}.lock"))
        self._descriptors: list[int] = []

    def acquire(self) -> None:
        """
        Take the lock without waiting.

        :raises StoreError: another process has it, or it cannot be had.
        """
        try:
            for file in self._files:
                self._descriptors.append(_lock_file(file))
        except BaseException:
            self.release()
            raise

    def holder(self) -> str | None:
        """Return who has the lock, such as ``, pid 12,``; None if it is free. Makes and changes no file."""
        import fcntl  # Windows lacks it, and has commands that import this module to call hosts elsewhere.

        for file in self._files:
            try:
                descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
            except OSError:
                continue  # A missing file is not locked; other errors show when the lock is taken.
            try:
                fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except OSError as error:
                if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
                    return _pid(descriptor)
            finally:
                os.close(descriptor)
        return None

    def release(self) -> None:
        """Release the lock."""
        while self._descriptors:
            os.close(self._descriptors.pop())


def _lock_file(file: Path) -> int:
    """
    Open a file and lock it.

    :raises StoreError: see :meth:`StateLock.acquire`.
    """
    import fcntl

    try:
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise StoreError(f"{file} cannot be opened: {explain(error)}") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
    except OSError as error:
        taken = error.errno in (errno.EWOULDBLOCK, errno.EACCES)
        pid = _pid(descriptor) if taken else ""
        os.close(descriptor)
        if taken:
            raise StoreError(
                f"another host{pid} uses this state: {file} is locked. Stop it first; two hosts do not hear of each "
                "other's revocations"
            ) from None
        raise StoreError(f"{file} cannot be locked: {explain(error)}") from error
    return descriptor


def _pid(descriptor: int) -> str:
    with suppress(OSError, ValueError):
        return f", pid {int(os.pread(descriptor, 32, 0))},"
    return ""
