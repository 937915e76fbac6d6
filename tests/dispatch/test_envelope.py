"""Task and session in the envelope: taken where no header names them, checked like headers (AGTP-095, AGTP-272)."""

from __future__ import annotations

from typing import Any

from twisted.logger import globalLogPublisher

from tests.dispatch.hosts import DispatchHost, document, payload
from tests.rows import each_row

TEXT = {"text": "x"}


def test_the_envelope_names_task_and_session() -> None:
    """Core v08 section 5.7: in the answer, the record, and for the handler."""
    host = DispatchHost()
    response = host.ask(body={"task_id": "t-1", "session_id": "s-1", "parameters": TEXT})
    assert response.status == 200 and document(response)["task_id"] == "t-1"
    assert response.headers.get("task-id") == "t-1"
    assert (payload(host)["task_id"], payload(host)["session_id"]) == ("t-1", "s-1")
    assert (host.recorder.calls[0].task_id, host.recorder.calls[0].session_id) == ("t-1", "s-1")


def test_headers_win_and_the_difference_is_logged() -> None:
    """Core v08 section 8.3; one line, however many requests do it."""
    lines: list[Any] = []
    globalLogPublisher.addObserver(lines.append)
    try:
        host = DispatchHost()
        for _ in range(5):
            response = host.ask(body={"task_id": "other", "parameters": TEXT}, headers={"Task-ID": "mine"})
            assert document(response)["task_id"] == "mine"
    finally:
        globalLogPublisher.removeObserver(lines.append)
    assert len([line for line in lines if "envelope" in str(line.get("log_format"))]) == 1


@each_row("member", [7, "", "x" * 129, "a b", ["t"], {"t": 1}])
def test_a_malformed_one_is_refused(member: object) -> None:
    """400, as for a header."""
    host = DispatchHost()
    response = host.ask(body={"task_id": member, "parameters": TEXT})
    assert (response.status, document(response)["reason"]) == (400, "invalid-identifier")
    assert host.recorder.calls == []


def test_parameters_of_that_name_are_parameters() -> None:
    """A bare body has no envelope whose members could be meant."""
    host = DispatchHost()
    response = host.ask("QUERY", "/words", {"task_id": "t-1", "text": "x"})
    assert response.status == 200 and "task_id" not in document(response)
    assert host.recorder.calls[0].input == {"task_id": "t-1", "text": "x"}
