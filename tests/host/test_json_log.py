"""``[log] format = "json"``: every line of the log is one JSON object."""

from __future__ import annotations

import io
import json
import sys
import warnings

from hypothesis import given
from hypothesis import strategies as st
from twisted.logger import LogBeginner, LogEvent, Logger, LogPublisher, globalLogPublisher, textFileLogObserver

from agtphost.handlers.log_context import Call
from agtphost.host.access_log import access_line_writer
from agtphost.host.call_events import mark_event
from agtphost.host.json_log import to_json_line, use_json_lines


def test_observers_of_before_and_after_write_json() -> None:
    """As twistd does it: the first lines are logged before logging begins."""
    publisher = LogPublisher()
    early, late = io.StringIO(), io.StringIO()
    publisher.addObserver(textFileLogObserver(early))
    beginner = LogBeginner(publisher, io.StringIO(), sys, warnings)
    use_json_lines(beginner, publisher)
    log = Logger(namespace="agtphost.test", observer=publisher)
    log.info("before {what}", what="it began")
    beginner.beginLoggingTo([textFileLogObserver(late)], redirectStandardIO=False)
    try:
        raise ValueError("two\nlines")
    except ValueError:
        log.failure("it failed")
    lines = [json.loads(line) for line in late.getvalue().splitlines()]
    assert [(line["message"], line["level"]) for line in lines][-1] == ("it failed", "critical")
    assert "ValueError: two\nlines" in lines[-1]["traceback"]
    assert json.loads(early.getvalue().splitlines()[0])["message"] == "before it began"


def test_a_call_and_an_access_line_are_members() -> None:
    """A program reads the call's parts without parsing a text."""
    call = Call()
    call.caller, call.audit_id, call.agent_id = "demo", "a" * 64, "b" * 64
    event: LogEvent = {"log_format": "it took {n} s", "n": 3, "log_time": 0.5, "log_namespace": "agtphost.x"}
    line = json.loads(to_json_line(mark_event(event, call)))
    assert line["message"] == "it took 3 s"
    assert (line["time"], line["caller"], line["audit_id"]) == ("1970-01-01T00:00:00.500Z", "demo", "a" * 64)

    call.caller, call.operator = "", "anna"
    line = json.loads(to_json_line(mark_event(event, call)))
    assert line["operator"] == "anna" and "caller" not in line, "as access lines name an operator"

    seen: list[LogEvent] = []
    globalLogPublisher.addObserver(seen.append)
    try:
        access_line_writer()({"kind": "agtp", "status": 200})
    finally:
        globalLogPublisher.removeObserver(seen.append)
    line = json.loads(to_json_line(seen[-1]))
    assert (line["kind"], line["status"], line["logger"]) == ("agtp", 200, "agtphost.access")
    assert "message" not in line


@given(st.text(), st.dictionaries(st.text(max_size=10), st.text(max_size=10), max_size=3))
def test_text_of_others_stays_in_its_line(text: str, members: dict[str, str]) -> None:
    """Whatever is logged is one line of ASCII that is one JSON object."""
    line = to_json_line({"log_format": "{text}", "text": text, "log_failure": None, "access": members or None})
    assert line.count("\n") == 1 and line.isascii()
    assert isinstance(json.loads(line), dict)
