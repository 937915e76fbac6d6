"""
Report a failed start: every reason, and an exit status, even if ``twistd`` made the process a daemon.

A daemon has no standard error, and the process started from a shell waits until the daemon reports how its start went.
Twisted reports each ``Exception``, but never a ``SystemExit``: that left the shell waiting indefinitely.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from twisted.logger import Logger

from agtphost.errors import Problem

log = Logger()

STDERR = 2

SUPERSEDED = 75
"""The exit status of a host from which another one took the store over: started again, it is a standby."""


class StartFailed(SystemExit, Exception):
    """
    An exception that ends the process with a status, and that a daemon reports to its starter.

    It needs both bases: as a ``SystemExit`` it has no traceback, as an ``Exception`` ``twistd`` passes it on.
    """

    def __str__(self) -> str:
        return "the reasons are above and in the log"


def exit_now(status: int) -> NoReturn:
    """
    End the process immediately: nothing that runs is waited for, and no caller gets an answer any more.

    :param status: one of those that ``docs/operations.rst`` lists, "Under systemd".
    """
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(status)


class StandardError:
    """
    The standard error on which an operator reads why a start failed, kept open while the process becomes a daemon.

    Make it before the process forks, and close it once the host has started: otherwise a reader of that pipe would wait
    as long as the host lives.
    """

    def __init__(self) -> None:
        self._descriptor: int | None = None
        with suppress(OSError):  # Standard error may be closed; then only the log gets the reasons.
            self._descriptor = os.dup(STDERR)

    def tell(self, file: Path, problems: Sequence[Problem]) -> None:
        """
        Write every reason to the log (which has replaced ``sys.stderr`` by then), and to the terminal of before.

        :param file: the configuration.
        """
        text = reasons(file, problems)
        print(text, file=sys.stderr)
        for problem in problems:
            if problem.original:
                log.error("{message}; original: {original}", message=problem.message, original=problem.original)
        if self._descriptor is not None and self._is_redirected():
            with suppress(OSError):
                os.write(self._descriptor, f"{text}\n".encode(errors="backslashreplace"))
        self.close()

    def close(self) -> None:
        """Close the kept file descriptor."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _is_redirected(self) -> bool:
        """
        Return whether standard error is another file than before, so that the operator has not seen what was printed.
        """
        assert self._descriptor is not None
        try:
            return not os.path.sameopenfile(self._descriptor, STDERR)
        except OSError:
            return True


def reasons(file: Path, problems: Sequence[Problem]) -> str:
    """Return the text with which every failed start ends."""
    return "\n".join((f"agtphost cannot start with {file}:", *(f"  {problem}" for problem in problems)))
