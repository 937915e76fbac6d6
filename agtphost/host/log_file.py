"""
Write the host's log to rotated files: ``twistd --logger agtphost.host.log_file.observer``.

The log names agents, sessions and tasks. So only the host's user can read it, under any umask, and only a limited
amount is kept (core v08 section 10.10). Text from others can imitate neither a log line nor a command to a terminal:
every event is one line in ASCII, and its further lines begin with a tab. Three environment variables configure it:
``AGTPHOST_LOG_FILE``, ``AGTPHOST_LOG_OCTETS`` of one file, and ``AGTPHOST_LOG_KEEP``, the number of rotated files.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from twisted.logger import FileLogObserver, ILogObserver, LogEvent, formatEventAsClassicLogText
from twisted.python.logfile import LogFile

from agtphost.vocabulary.foreign_errors import explain

FILE = "AGTPHOST_LOG_FILE"
OCTETS = "AGTPHOST_LOG_OCTETS"
KEEP = "AGTPHOST_LOG_KEEP"

USUAL_OCTETS = 10 * 1024 * 1024
USUAL_KEEP = 14
MODE = 0o600

_CONTROL = re.compile(r"[^\n\t\x20-\x7e]")


def observer() -> ILogObserver:
    """
    Return the observer with which twistd writes the log.

    :raises SystemExit: a variable is missing or wrong, or the file cannot be written.
    """
    return observer_of(os.environ)


def observer_of(environ: Mapping[str, str]) -> ILogObserver:
    """
    Return the observer that an environment describes.

    :raises SystemExit: as for :func:`observer`.
    """
    name = environ.get(FILE, "")
    if not name:
        raise SystemExit(f"{FILE} is not set: set it to the path of the log file")
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
        raise SystemExit(f"the log file {path} cannot be written: {explain(error)}") from error
    return FileLogObserver(file, line)


def line(event: LogEvent) -> str | None:
    """
    Return an event as text whose only control characters are tabs and line feeds, each line feed followed by a tab.
    """
    text = formatEventAsClassicLogText(event)
    if text is None:
        return None
    ascii_only = text.rstrip("\n").encode("ascii", "backslashreplace").decode("ascii")
    return _CONTROL.sub(lambda match: f"\\x{ord(match[0]):02x}", ascii_only) + "\n"


def _number(environ: Mapping[str, str], name: str, usual: int) -> int:
    text = environ.get(name, str(usual))
    if not (text.isascii() and text.isdigit() and 0 < int(text) < 10**12):
        raise SystemExit(f"{name} is {text[:40]!r}: set it to a whole number greater than 0")
    return int(text)
