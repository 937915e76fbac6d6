"""
Write the log as JSON, one object a line: ``[log] format = "json"``.

Every line of a log file or of standard output is an object: the host's own, those of Twisted, output of handlers, and
access lines, whose members are not nested. ``time`` is UTC with milliseconds. ``message`` is for people; the members
around it are for programs.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, TextIO

from twisted.logger import (
    FileLogObserver,
    ILogObserver,
    LogBeginner,
    LogEvent,
    Logger,
    LoggingFile,
    LogLevel,
    LogPublisher,
    formatEvent,
    globalLogBeginner,
    globalLogPublisher,
)

from agtphost.logs.access_log import MEMBERS as ACCESS_MEMBERS
from agtphost.logs.call_events import SUFFIX
from agtphost.vocabulary.display_names import split_told_apart

OF_CALL = ("caller", "operator", "called", "audit_id", "response_id", "agent_id", "task_id")
"""Members of events that were logged in the course of a call."""

LONGEST = 16_384
"""Characters of a message or a traceback."""


def use_json_lines(beginner: LogBeginner = globalLogBeginner, publisher: LogPublisher = globalLogPublisher) -> None:
    """
    Let every observer that writes to a file write JSON: those that exist, and those with which logging begins later.

    ``twistd`` makes its observer after it has read the configuration, and writes its first lines before it starts the
    host, so they could not be changed by a service.
    """
    _convert(publisher._observers)
    begin = beginner.beginLoggingTo

    def begin_as_json(observers: Iterable[ILogObserver], *args: Any, **options: Any) -> None:
        given = list(observers)
        _convert(given)
        begin(given, *args, **options)

    beginner.beginLoggingTo = begin_as_json  # type: ignore[method-assign]


def _convert(observers: Iterable[ILogObserver]) -> None:
    for observer in observers:
        if isinstance(observer, FileLogObserver):
            observer.formatEvent = to_json_line


@contextmanager
def print_json_lines() -> Iterator[None]:
    """
    Write as JSON lines what is printed and warned of before logging begins, such as by modules that are imported.

    The lines go where the text would go. A module that keeps one of the streams goes on to write JSON.
    """
    before = sys.stdout, sys.stderr, warnings.showwarning
    stdout = _file_of("stdout", sys.stdout, LogLevel.info)
    stderr = _file_of("stderr", sys.stderr, LogLevel.error)

    def warn(message: Warning | str, category: type[Warning], filename: str, lineno: int, *_: Any, **__: Any) -> None:
        if stderr is not None:
            named = {"file": filename, "line": lineno, "category": category.__name__}
            stderr.log.warn("{file}:{line}: {category}: {warning}", warning=str(message), **named)

    sys.stdout, sys.stderr, warnings.showwarning = stdout, stderr, warn
    try:
        yield
    finally:
        sys.stdout, sys.stderr, warnings.showwarning = before
        for file in (stdout, stderr):
            if file is not None and file._buffer:
                file.write("\n")


def _file_of(name: str, stream: TextIO | None, level: Any) -> LoggingFile | None:
    """Return a file that writes JSON lines to a standard stream; None where the process has no such stream."""
    if stream is None:
        return None
    log = Logger(namespace=name, observer=FileLogObserver(stream, to_json_line))
    return LoggingFile(log, level, stream.encoding)


def to_json_line(event: LogEvent) -> str:
    """Return an event as a JSON object in ASCII and a line feed; text chosen by others cannot leave its member."""
    level = event.get("log_level")
    members: dict[str, Any] = {
        "time": _time(event.get("log_time")),
        "level": "info" if level is None else level.name,
        "logger": str(event.get("log_namespace") or event.get("log_system") or ""),
    }
    access = event.get(ACCESS_MEMBERS)
    if isinstance(access, Mapping):
        members |= access
    else:
        members["message"] = _message(event)[:LONGEST]
        members |= {name: str(event[name]) for name in OF_CALL if event.get(name)}
        if "caller" in members:
            # As access lines have it: the label stays the same once a second agent has it, too.
            members["caller"] = split_told_apart(members["caller"])[0]
            members |= {"caller_id": members["agent_id"]} if "agent_id" in members else {}
            members["caller_proven"] = event.get("caller_proven") is True
    failure = event.get("log_failure")
    if failure is not None:
        members["traceback"] = str(failure.getTraceback())[-LONGEST:]
    return json.dumps(members, separators=(",", ":"), default=str) + "\n"


def _time(seconds: Any) -> str:
    when = datetime.fromtimestamp(float(seconds), UTC) if isinstance(seconds, (int, float)) else datetime.now(UTC)
    return when.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _message(event: LogEvent) -> str:
    """Return the text without the call, whose parts are members."""
    form = event.get("log_format")
    if isinstance(form, str) and form.endswith(SUFFIX) and event.get("call"):
        event = {**event, "log_format": form.removesuffix(SUFFIX)}
    return formatEvent(event)
