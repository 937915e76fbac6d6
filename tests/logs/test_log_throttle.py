"""What others make the host log: the first few in full, the rest as a count, wherever it is logged."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from twisted.internet.task import Clock
from twisted.logger import LogEvent, Logger, LogLevel, LogPublisher, formatEvent
from twisted.python.failure import Failure

from agtphost.logs.log_throttle import INTERVAL, LOGGED_IN_FULL, MOST_KINDS, LogThrottle, LogThrottling
from tests.rows import each_row

ROOT = Path(__file__).resolve().parents[2] / "agtphost"
TIMES = 1_000
SAYS = re.compile(r"\b_?log\.[a-z]+\(")
LEVELS = {"debug", "info", "warn", "error", "critical", "failure"}


@cache
def lines() -> list[tuple[str, str, str]]:
    """Every line that this program can log: where, how, and its text before anything is put in."""
    return list(_lines())


def _lines() -> Iterator[tuple[str, str, str]]:
    for path in sorted(ROOT.rglob("*.py")):
        if path.parts[len(ROOT.parts)] in ("cli", "bridge"):
            continue  # no hosts
        text = path.read_text()
        if not SAYS.search(text):
            continue
        for node in ast.walk(ast.parse(text)):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args):
                continue
            name, first = node.func.value, node.args[0]
            logger = isinstance(name, ast.Name) and name.id in ("log", "_log")
            if logger and node.func.attr in LEVELS and isinstance(first, ast.Constant):
                where = f"{path.relative_to(ROOT)}:{node.lineno}"
                yield where, node.func.attr, str(first.value)


class Ear:
    """Hears what is logged."""

    def __init__(self) -> None:
        self.events: list[LogEvent] = []
        self.now = 0.0

    def __call__(self, event: LogEvent) -> None:
        self.events.append(event)

    @property
    def texts(self) -> list[str]:
        return [formatEvent(event) for event in self.events]

    def throttle(self, **options: Any) -> LogThrottle:
        return LogThrottle(self, lambda: self.now, **options)


FOREIGN = [
    ("twisted.web.http", "info", "Timing out client: {peer}"),
    ("twisted.web.server", "failure", "Unhandled Error"),
    ("twisted.internet.defer", "failure", "Unhandled error in Deferred:"),
    ("twisted.internet.tcp", "info", "Could not accept new connection ({acceptError})"),
    ("log_legacy", "info", "{log_text}"),
]


def fire(sink: Any, namespace: str, how: str, text: str, times: int) -> None:
    """One line so many times, as a stranger would cause it: each with other particulars."""
    log = Logger(namespace=namespace, observer=sink)
    for number in range(times):
        if how == "failure":
            try:
                raise ValueError(f"of stranger {number}")
            except ValueError:
                log.failure(text, Failure(), peer=number, why=number)
        else:
            log.emit(LogLevel.lookupByName(how), text, peer=number, why=number, address=number)


def test_there_are_lines_to_look_at() -> None:
    """The table below is made from the source: it must have found something."""
    assert len(lines()) > 60


def every_line() -> list[Any]:
    """Those of this program, and of Twisted."""
    own = [pytest.param("agtphost.x", how, text, id=where) for where, how, text in lines()]
    return [*own, *(pytest.param(*each, id=each[0]) for each in FOREIGN)]


@each_row(("namespace", "how", "text"), every_line)
def test_no_line_comes_a_thousand_times(namespace: str, how: str, text: str) -> None:
    """Every line of this program, and what Twisted says of strangers: a few in full, one with the count of the rest."""
    ear = Ear()
    throttle = ear.throttle()
    fire(throttle, namespace, how, text, TIMES)
    assert len(ear.events) == LOGGED_IN_FULL
    ear.now += INTERVAL
    throttle.flush()
    assert len(ear.events) == LOGGED_IN_FULL + 1
    assert ear.texts[-1].startswith(f"{TIMES - LOGGED_IN_FULL} more lines like this one in 60 s")


def test_control_without_it_every_line_is_written() -> None:
    """The count above notices a log that nobody throttles."""
    ear = Ear()
    fire(ear, "agtphost.x", "error", "it failed: {why}", TIMES)
    assert len(ear.events) == TIMES


def test_the_next_event_after_the_time_brings_the_count() -> None:
    """Nothing is left unsaid, even where no timer fires."""
    ear = Ear()
    throttle = ear.throttle()
    fire(throttle, "agtphost.x", "warn", "once more: {why}", LOGGED_IN_FULL + 5)
    ear.now += INTERVAL
    fire(throttle, "agtphost.x", "warn", "once more: {why}", 1)
    assert ear.texts[LOGGED_IN_FULL:] == [
        f"5 more lines like this one in 60 s were left out: once more: {LOGGED_IN_FULL}",
        "once more: 0",
    ]


def test_kinds_are_told_apart_and_bounded() -> None:
    """One server's noise does not hide another's; further kinds than are kept count as one."""
    ear = Ear()
    throttle = ear.throttle(full=1)
    log = Logger(namespace="agtphost.adapters", observer=throttle)
    for server in ("one", "two", "one", "two"):
        log.warn("MCP server {server}: {text}", server=server, text="x")
    assert ear.texts == ["MCP server one: x", "MCP server two: x"]
    ear.events.clear()
    for number in range(5 * MOST_KINDS):
        log.warn(f"kind {number}")
    assert len(ear.events) < MOST_KINDS
    assert len(throttle._kinds) <= MOST_KINDS + 1


def test_what_handlers_of_the_operator_log_passes() -> None:
    """It is his own, and how much of it there is he decides."""
    ear = Ear()
    throttle = ear.throttle()
    fire(throttle, "handlers.stays", "info", "booked {why}", TIMES)
    fire(throttle, "stdout", "info", "{log_io}", TIMES)
    assert len(ear.events) == 2 * TIMES


def test_the_service_stands_before_all_observers_and_leaves_no_trace() -> None:
    """While it runs everything passes through it; afterwards the observers are those that were there."""
    clock, ear = Clock(), Ear()
    publisher = LogPublisher(ear)
    service = LogThrottling(clock, publisher)
    service.startService()
    fire(publisher, "agtphost.x", "warn", "often: {why}", TIMES)
    assert len(ear.events) == LOGGED_IN_FULL
    clock.advance(INTERVAL)
    assert len(ear.events) == LOGGED_IN_FULL + 1
    fire(publisher, "agtphost.x", "warn", "often: {why}", LOGGED_IN_FULL + 1)
    service.stopService()
    assert len(ear.events) == 2 * LOGGED_IN_FULL + 2
    fire(publisher, "agtphost.x", "warn", "often: {why}", TIMES)
    assert len(ear.events) == 2 * LOGGED_IN_FULL + 2 + TIMES
