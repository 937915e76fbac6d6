"""A host in this process, in the foreground, until somebody stops it: no daemon, and no file with its number."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click
from twisted.internet.task import LoopingCall
from twisted.logger import (
    FileLogObserver,
    ILogObserver,
    LogEvent,
    LogLevel,
    formatEvent,
    globalLogBeginner,
    globalLogPublisher,
)
from zope.interface import implementer

from agtphost.cli.failures import misconfigured
from agtphost.cli.output import visible
from agtphost.config import load
from agtphost.errors import ConfigurationError, Problem
from agtphost.host import listener
from agtphost.host.loaded import load_host
from agtphost.host.log_file import FILE, KEEP, observer_of
from agtphost.host.root import Host
from agtphost.host.standing_down import CannotStart, StandardError

LOOK = 1.0
"""Seconds between two looks whether the terminal is still there."""


class _Reasons(StandardError):
    """Keeps why a start was refused, for the command to tell."""

    def __init__(self) -> None:
        self.problems: Sequence[Problem] = ()

    def tell(self, file: Path, problems: Sequence[Problem]) -> None:
        self.problems = problems

    def close(self) -> None:
        """There is nothing to let go of."""


@implementer(ILogObserver)
class _Console:
    """Shows what whoever started the host should see of its log, and hears when it is ready."""

    def __init__(self, ready: Callable[[], None]) -> None:
        self._ready = ready

    def __call__(self, event: LogEvent) -> None:
        if event.get("log_format") == listener.READY:
            self._ready()
        elif event.get("log_namespace") == listener.__name__ or event["log_level"] >= LogLevel.error:
            click.echo(visible(formatEvent(event)), err=True)


def serve(file: Path, log_file: Path, ready: Callable[[], None]) -> None:
    """
    Run a host until SIGINT, SIGTERM, or the end of the terminal that it was started from.

    :param file: its ``host.toml``.
    :param log_file: where its log goes; on standard error are its start and errors alone.
    :param ready: called once, when the port accepts and its servers have had their chance.
    :raises CommandError: it cannot start.
    """
    from twisted.internet import reactor

    observer: FileLogObserver = observer_of({FILE: str(log_file), KEEP: "1"})  # type: ignore[assignment]
    globalLogBeginner.beginLoggingTo([observer], redirectStandardIO=False)
    reasons = _Reasons()
    try:
        host = Host(load_host(load(file, os.environ), os.environ), reactor, os.environ, reasons)
        globalLogPublisher.addObserver(_Console(ready))
        host.startService()
    except ConfigurationError as error:
        raise misconfigured(error) from None
    except CannotStart:
        raise misconfigured(ConfigurationError(reasons.problems)) from None
    reactor.addSystemEventTrigger("before", "shutdown", host.stopService)
    _end_with_terminal(reactor)
    reactor.run()


def _end_with_terminal(reactor: Any) -> None:
    """SIGHUP has the host read its files again, so a terminal that is closed ends it in this way."""
    if not _has_terminal():
        return

    def look() -> None:
        if not _has_terminal():
            reactor.stop()

    watch = LoopingCall(look)
    watch.clock = reactor
    watch.start(LOOK)


def _has_terminal() -> bool:
    """Whether it was started from one, and that is still there."""
    try:
        os.tcgetpgrp(sys.stdout.fileno())
    except OSError:
        return False
    return True
