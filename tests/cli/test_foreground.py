"""A host in the foreground: what the modules of its endpoints log."""

from __future__ import annotations

import logging

from twisted.logger import LogEvent, LogLevel, formatEvent, globalLogPublisher

from agtphost.cli.foreground import _LoggedRecords


def test_what_a_module_logs_is_in_the_log_of_the_host() -> None:
    """By Python's logging, at its level and under its name; braces of a message are no format."""
    log = logging.getLogger("handlers.rooms")
    handler, seen = _LoggedRecords(logging.WARNING), list[LogEvent]()
    log.addHandler(handler)
    log.propagate = False  # pytest's own handler raises.
    globalLogPublisher.addObserver(seen.append)
    try:
        log.info("no")
        log.warning("room %s has {no} bed", 7)
        log.warning("wrong %d", "arguments")
        try:
            raise ValueError("wrong")
        except ValueError:
            log.exception("it failed")
    finally:
        globalLogPublisher.removeObserver(seen.append)
        log.removeHandler(handler)
        log.propagate = True
    warned, failed = (event for event in seen if event["log_namespace"] == "handlers.rooms")
    assert (warned["log_level"], formatEvent(warned)) == (LogLevel.warn, "room 7 has {no} bed")
    assert failed["log_level"] is LogLevel.error and "ValueError: wrong" in formatEvent(failed)
