"""``[log] format = "json"``: every line of the log is one JSON object."""

from __future__ import annotations

import io
import json
import sys
import warnings
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from twisted.logger import LogBeginner, LogEvent, Logger, LogPublisher, globalLogPublisher, textFileLogObserver

from agtphost.handlers.log_context import Call
from agtphost.logs.access_log import access_line_writer
from agtphost.logs.call_events import mark_event
from agtphost.logs.json_log import print_json_lines, to_json_line, use_json_lines
from agtphost.tap import Options, makeService

LOUD = """
import warnings
warnings.warn("with\\ntwo lines")
print("printed\\nin two lines")
print("the rest", end="")
"""


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
    assert (line["caller_id"], line["caller_proven"]) == ("b" * 64, False)
    call.proven = True
    line = json.loads(to_json_line(mark_event(event, call)))
    assert (line["caller_id"], line["caller_proven"]) == ("b" * 64, True)

    call.caller = f"demo ({'b' * 8}...)"
    line = json.loads(to_json_line(mark_event(event, call)))
    assert (line["caller"], line["caller_id"]) == ("demo", "b" * 64), "the label, also once two agents share it"

    call.caller, call.operator = "", "anna"
    line = json.loads(to_json_line(mark_event(event, call)))
    assert line["operator"] == "anna" and not {"caller", "caller_id"} & set(line), "as access lines name an operator"

    seen: list[LogEvent] = []
    globalLogPublisher.addObserver(seen.append)
    try:
        access_line_writer()({"kind": "agtp", "status": 200})
    finally:
        globalLogPublisher.removeObserver(seen.append)
    line = json.loads(to_json_line(seen[-1]))
    assert (line["kind"], line["status"], line["logger"]) == ("agtp", 200, "agtphost.access")
    assert "message" not in line


def test_what_is_printed_before_logging_begins_is_lines_of_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What an imported module prints and warns of, and why the host cannot start, are objects, too; nothing is lost."""
    (tmp_path / "loud_import.py").write_text(LOUD)
    endpoints = tmp_path / "endpoints"
    endpoints.mkdir()
    handler = '[handler]\nfunction = "loud_import.nothing"\n'
    (endpoints / "loud.toml").write_text(f'method = "QUERY"\npath = "/loud"\n\n{handler}')
    settings = '[host]\nserver_id = "localhost"\nprofile = "development"\n\n[listen]\naddress = "127.0.0.1"\n'
    places = '\n[endpoints]\ndirectory = "endpoints"\npython_path = ["."]\n\n[log]\nformat = "json"\n'
    (tmp_path / "host.toml").write_text(settings + places)
    monkeypatch.setattr(sys, "path", sys.path[:])
    monkeypatch.delitem(sys.modules, "loud_import", raising=False)
    options = Options()
    options.parseOptions(["--config", str(tmp_path / "host.toml")])
    streams = sys.stdout, sys.stderr, warnings.showwarning
    with pytest.raises(SystemExit):
        makeService(options)
    assert (sys.stdout, sys.stderr, warnings.showwarning) == streams
    written = capsys.readouterr()
    out, err = ([json.loads(line) for line in text.splitlines()] for text in written)
    assert [(line["logger"], line["level"], line["message"]) for line in out] == [
        ("stdout", "info", "printed"),
        ("stdout", "info", "in two lines"),
        ("stdout", "info", "the rest"),
    ]
    assert err[0]["level"] == "warn" and err[0]["message"].endswith("loud_import.py:3: UserWarning: with\ntwo lines")
    assert "agtphost cannot start with" in err[1]["message"] and err[1]["level"] == "error"
    assert any("loud.toml" in line["message"] for line in err[2:])


@pytest.mark.parametrize("name", ["stdout", "stderr"])
def test_a_process_without_a_standard_stream_starts(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Where a stream is closed, as by ``>&-``, what is written to it is lost; the rest is lines."""
    monkeypatch.setattr(sys, name, None)
    with print_json_lines():
        print("to the output")
        warnings.warn("to the other", stacklevel=1)
    assert getattr(sys, name) is None
    out, err = ([json.loads(line)["message"] for line in text.splitlines()] for text in capsys.readouterr())
    assert out == ([] if name == "stdout" else ["to the output"])
    assert [line.endswith("UserWarning: to the other") for line in err] == ([] if name == "stderr" else [True])


@given(st.text(), st.dictionaries(st.text(max_size=10), st.text(max_size=10), max_size=3))
def test_text_of_others_stays_in_its_line(text: str, members: dict[str, str]) -> None:
    """Whatever is logged is one line of ASCII that is one JSON object."""
    line = to_json_line({"log_format": "{text}", "text": text, "log_failure": None, "access": members or None})
    assert line.count("\n") == 1 and line.isascii()
    assert isinstance(json.loads(line), dict)
