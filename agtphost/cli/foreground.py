"""Run a host in this process in the foreground until it is stopped: no daemon, and no PID file."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from twisted.internet.task import LoopingCall
from twisted.logger import (
    FileLogObserver,
    ILogObserver,
    LogEvent,
    Logger,
    LogLevel,
    formatEvent,
    globalLogBeginner,
    globalLogPublisher,
)
from zope.interface import implementer

from agtphost.cli.failures import configuration_error
from agtphost.cli.output import print_note
from agtphost.config import load
from agtphost.errors import ConfigurationError, Problem
from agtphost.host import listener
from agtphost.host.host_loader import load_host
from agtphost.host.log_file import FILE, KEEP, observer_of
from agtphost.host.root import HostService
from agtphost.host.start_failure import StandardError, StartFailed

LOOK = 1.0
"""Seconds between checks whether the terminal still exists."""


class _ReasonCollector(StandardError):
    """A standard error stream that keeps the reasons of a refused start, for the command to print."""

    def __init__(self) -> None:
        self.problems: Sequence[Problem] = ()

    def tell(self, file: Path, problems: Sequence[Problem]) -> None:
        self.problems = problems

    def close(self) -> None:
        """Do nothing, because this stream holds no resource."""


@implementer(ILogObserver)
class _Console:
    """A log observer that prints the start and errors of a host, and calls ``ready`` when the host is ready."""

    def __init__(self, ready: Callable[[], None]) -> None:
        self._ready = ready

    def __call__(self, event: LogEvent) -> None:
        if event.get("log_format") == listener.READY:
            self._ready()
        elif event.get("log_namespace") == listener.__name__ or event["log_level"] >= LogLevel.error:
            print_note(formatEvent(event))


class _LoggedRecords(logging.Handler):
    """Writes what modules log by Python's ``logging`` into the host's log, where twistd puts standard error."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record at its level; wrong arguments are reported as by any handler, and raise nothing."""
        level = LogLevel.error if record.levelno >= logging.ERROR else LogLevel.warn
        try:
            text = self.format(record)
        except Exception:
            self.handleError(record)
        else:
            Logger(namespace=record.name).emit(level, "{text}", text=text)


def serve(file: Path, log_file: Path, ready: Callable[[], None]) -> None:
    """
    Run a host until SIGINT, SIGTERM, or the end of the terminal that it was started from.

    :param file: its ``host.toml``.
    :param log_file: file of the log; only the start and errors are printed to standard error.
    :param ready: called once, when the port accepts connections and its servers had time to start.
    :raises agtphost.cli.failures.CommandError: the host cannot start.
    """
    from twisted.internet import reactor

    observer: FileLogObserver = observer_of({FILE: str(log_file), KEEP: "1"})  # type: ignore[assignment]
    globalLogBeginner.beginLoggingTo([observer], redirectStandardIO=False)
    logging.getLogger().addHandler(_LoggedRecords(logging.WARNING))
    reasons = _ReasonCollector()
    try:
        host = HostService(load_host(load(file, os.environ), os.environ), reactor, os.environ, reasons)
        globalLogPublisher.addObserver(_Console(ready))
        host.startService()
    except ConfigurationError as error:
        raise configuration_error(error) from None
    except StartFailed:
        raise configuration_error(ConfigurationError(reasons.problems)) from None
    reactor.addSystemEventTrigger("before", "shutdown", host.stopService)
    _end_with_terminal(reactor)
    reactor.run()


def _end_with_terminal(reactor: Any) -> None:
    """Stop the reactor when the terminal closes; SIGHUP cannot serve for this, because it reloads the configuration."""
    if not _has_terminal():
        return

    def look() -> None:
        if not _has_terminal():
            reactor.stop()

    watch = LoopingCall(look)
    watch.clock = reactor
    watch.start(LOOK)


def _has_terminal() -> bool:
    """Return whether the process was started from a terminal that still exists."""
    try:
        os.tcgetpgrp(sys.stdout.fileno())
    except OSError:
        return False
    return True
