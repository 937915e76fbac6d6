"""The table of refusals: one token for one outcome, whatever protocol the upstream speaks."""

from __future__ import annotations

from agtphost.upstream.failures import (
    AnswerTooLong,
    CallCancelled,
    ErrorAnswer,
    NotApproved,
    NotReading,
    RulesUnmatched,
    UnreadableAnswer,
    UnsendableCall,
    UpstreamBusy,
    UpstreamDown,
    UpstreamFailure,
    UpstreamLost,
    UpstreamRefused,
    UpstreamTimeout,
)
from agtphost.upstream.refusals import refusal
from agtphost.vocabulary import jsontext
from tests.rows import each_row

ROWS = [
    (UpstreamTimeout("t"), 408, "upstream-timeout", None),
    (CallCancelled("c"), 409, "upstream-cancelled", None),
    (UnsendableCall("u"), 422, "upstream-call-refused", None),
    (UpstreamBusy("b"), 429, "upstream-busy", "1"),
    (UnreadableAnswer("u"), 500, "upstream-answer-refused", None),
    (AnswerTooLong(9), 500, "upstream-answer-too-long", None),
    (UpstreamFailure("f"), 500, "upstream-failed", None),
    (UpstreamDown("backoff", 7, "r"), 503, "upstream-down", "7"),
    (UpstreamLost("l", sent=False), 503, "upstream-down", "1"),
    (UpstreamLost("l", exit_code=3), 503, "upstream-lost", "1"),
    (NotReading("n"), 503, "upstream-lost", "1"),
    (UpstreamRefused(401, "r"), 503, "upstream-refused", "1"),
    (NotApproved("n"), 503, "upstream-down", "1"),
]

ERRORS = [
    ("mcp", -32602, 422, "tool-arguments-refused"),
    ("mcp", -32021, 422, "capability-missing"),
    ("mcp", "odd", 500, "tool-failed"),
    ("a2a", -32602, 422, "a2a-request-refused"),
    ("a2a", -32001, 404, "a2a-task-not-found"),
    ("a2a", 7, 500, "a2a-error"),
    ("acp", 404, 404, "acp-not-found"),
    ("acp", 429, 429, "upstream-busy"),
    ("acp", 502, 503, "upstream-refused"),
]


@each_row(
    ("protocol", "named"),
    [("mcp", {"mcp_server": "one"}), ("a2a", {"upstream": "one"}), ("acp", {"upstream": "one"})],
)
@each_row(("failure", "status", "reason", "retry"), ROWS)
def test_one_outcome_has_one_reason(
    protocol: str, named: dict[str, str], failure: UpstreamFailure, status: int, reason: str, retry: str | None
) -> None:
    """Status, reason and Retry-After are those of the table for each protocol; the upstream is named."""
    said = refusal(protocol, "one", failure)
    assert (said.status, said.reason, dict(said.headers).get("Retry-After")) == (status, reason, retry)
    assert named.items() <= said.details.items()
    assert "one" in said.explanation
    assert said.remedy or isinstance(failure, CallCancelled) or type(failure) is UpstreamFailure


@each_row(("protocol", "code", "status", "reason"), ERRORS)
def test_errors_of_a_protocol_are_told_whole(protocol: str, code: object, status: int, reason: str) -> None:
    """
    By their code, of ACP by the HTTP status; the error itself is the caller's to read.

    The control: an answer whose body is no error of the protocol is one that was refused below it.
    """
    error = {"code": code, "message": "m", "data": [1]}
    failure: UpstreamFailure = ErrorAnswer(error)
    if protocol == "acp":
        assert isinstance(code, int)
        failure = UpstreamRefused(code, body=jsontext.encode(error))
        assert refusal("acp", "one", UpstreamRefused(code, body=b"no error")).reason == "upstream-refused"
    said = refusal(protocol, "one", failure, {"task_id": "t"})
    assert (said.status, said.reason) == (status, reason)
    assert said.details["task_id"] == "t"
    if reason != "upstream-refused":
        assert said.details["result"] == {"error": error}


def test_every_kind_of_failure_is_in_the_table() -> None:
    """The control: a new kind without a row is noticed. Errors of a protocol have that protocol's own tables."""

    def kinds(kind: type[UpstreamFailure]) -> set[type[UpstreamFailure]]:
        return {kind}.union(*map(kinds, kind.__subclasses__()))

    shared = {kind for kind in kinds(UpstreamFailure) if kind.__module__ == UpstreamFailure.__module__}
    assert shared == {type(row[0]) for row in ROWS} | {ErrorAnswer, RulesUnmatched}
