"""
The host's log as files of its own: ``twistd --logger agtphost.host.log_file.observer``.

The log names agents, sessions and tasks, so nobody but the host's user can
read it, whatever the umask says, and only so much of it is kept (core v08
section 10.10). What others wrote cannot pass for a line of its own, nor for
commands to a terminal: every event is one line in ASCII, and further lines of
it begin with a tab. Three environment variables say where and how much:
``AGTPHOST_LOG_FILE``, ``AGTPHOST_LOG_OCTETS`` of one file, and
``AGTPHOST_LOG_KEEP``, the number of full files beside it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from twisted.logger import FileLogObserver, ILogObserver, LogEvent, formatEventAsClassicLogText
from twisted.python.logfile import LogFile

FILE = "AGTPHOST_LOG_FILE"
OCTETS = "AGTPHOST_LOG_OCTETS"
KEEP = "AGTPHOST_LOG_KEEP"

USUAL_OCTETS = 10 * 1024 * 1024
USUAL_KEEP = 14
MODE = 0o600

_CONTROL = re.compile(r"[^\n\t\x20-\x7e]")


def observer() -> ILogObserver:
    """
    What twistd writes the log with.

    :raises SystemExit: a variable is missing or wrong, or the file cannot be written.
    """
    return observer_of(os.environ)


def observer_of(environ: Mapping[str, str]) -> ILogObserver:
    """
    The same, for some environment.

    :raises SystemExit: as for :func:`observer`.
    """
    name = environ.get(FILE, "")
    if not name:
        raise SystemExit(f"{FILE} has to name the log file")
    path = Path(name).absolute()
    octets, keep = _number(environ, OCTETS, USUAL_OCTETS), _number(environ, KEEP, USUAL_KEEP)
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, MODE)
        os.fchmod(descriptor, MODE)
        os.close(descriptor)
        # Twisted's log files carry no types.
        made: Any = LogFile
        file = made(path.name, str(path.parent), rotateLength=octets, defaultMode=MODE, maxRotatedFiles=keep)
    except OSError as error:
        raise SystemExit(f"the log file {path} cannot be written: {error.strerror}") from None
    return FileLogObserver(file, line)


def line(event: LogEvent) -> str | None:
    """An event as text: of its control characters only tabs and line feeds are left, each of these with a tab."""
    text = formatEventAsClassicLogText(event)
    if text is None:
        return None
    ascii_only = text.rstrip("\n").encode("ascii", "backslashreplace").decode("ascii")
    return _CONTROL.sub(lambda match: f"\\x{ord(match[0]):02x}", ascii_only) + "\n"


def _number(environ: Mapping[str, str], name: str, usual: int) -> int:
    text = environ.get(name, str(usual))
    if not (text.isascii() and text.isdigit() and 0 < int(text) < 10**12):
        raise SystemExit(f"{name} is not a number greater than 0")
    return int(text)
