"""
Not starting: every reason, and an exit status, also where ``twistd`` made a daemon of the process.

A daemon has no standard error any more, and the process that was started from
a shell waits until the daemon says how its start went. Twisted says so for
each ``Exception``, and never for a ``SystemExit``: that one left the shell
waiting for ever.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from agtphost.errors import Problem

STDERR = 2


class CannotStart(SystemExit, Exception):
    """
    Ends the process with a status, and is told by a daemon to whoever started it.

    Both at once: as a ``SystemExit`` it has no traceback, as an ``Exception`` it is what ``twistd`` hands over.
    """

    def __str__(self) -> str:
        return "the reasons are above and in the log"


class StandardError:
    """
    Where an operator who starts the host reads why it did not, kept over the making of a daemon.

    Made before the process forks; closed as soon as the host is started, or else whoever reads a pipe that is
    the standard error would wait as long as the host lives.
    """

    def __init__(self) -> None:
        self._kept: int | None = None
        with suppress(OSError):  # Somebody closed it: then the log alone is told.
            self._kept = os.dup(STDERR)

    def tell(self, file: Path, problems: Sequence[Problem]) -> None:
        """
        Every reason: to the log (which has taken over ``sys.stderr`` by then), and to a terminal that was left.

        :param file: the configuration.
        """
        text = reasons(file, problems)
        print(text, file=sys.stderr)
        if self._kept is not None and self._moved():
            with suppress(OSError):
                os.write(self._kept, f"{text}\n".encode(errors="backslashreplace"))
        self.close()

    def close(self) -> None:
        """Let go of it."""
        if self._kept is not None:
            os.close(self._kept)
            self._kept = None

    def _moved(self) -> bool:
        """Whether standard error is another file now than it was: then nobody has read what was printed."""
        assert self._kept is not None
        try:
            return not os.path.sameopenfile(self._kept, STDERR)
        except OSError:
            return True


def reasons(file: Path, problems: Sequence[Problem]) -> str:
    """The sentences that every start in vain ends with."""
    return "\n".join((f"agtphost cannot start with {file}:", *(f"  {problem}" for problem in problems)))
