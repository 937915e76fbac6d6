"""The table of refusals: one token for one outcome, whatever protocol the upstream speaks."""

from __future__ import annotations

import pytest

from agtphost.adapters.a2a import failures as a2a
from agtphost.adapters.acp import failures as acp
from agtphost.adapters.mcp import refusals as mcp
from agtphost.upstream.failures import (
    Busy,
    Cancelled,
    Down,
    ErrorAnswer,
    Lost,
    NotApproved,
    NotReading,
    Refused,
    Timeout,
    TooLong,
    Unreadable,
    Unsendable,
    UpstreamFailure,
)

ROWS = [
    (Timeout("t"), 408, "upstream-timeout", None),
    (Cancelled("c"), 409, "upstream-cancelled", None),
    (Unsendable("u"), 422, "upstream-call-refused", None),
    (Busy("b"), 429, "upstream-busy", "1"),
    (Unreadable("u"), 500, "upstream-answer-refused", None),
    (TooLong(9), 500, "upstream-answer-too-long", None),
    (UpstreamFailure("f"), 500, "upstream-failed", None),
    (Down("backoff", 7, "r"), 503, "upstream-down", "7"),
    (Lost("l", sent=False), 503, "upstream-down", "1"),
    (Lost("l", exit_code=3), 503, "upstream-lost", "1"),
    (NotReading("n"), 503, "upstream-lost", "1"),
    (Refused(401, "r"), 503, "upstream-refused", "1"),
    (NotApproved("n"), 503, "upstream-down", "1"),
]


@pytest.mark.parametrize(
    ("refusal", "named"),
    [
        (mcp.refusal, {"mcp_server": "one"}),
        (a2a.refusal, {"upstream": "one"}),
        (acp.refusal, {"upstream": "one"}),
    ],
    ids=["mcp", "a2a", "acp"],
)
@pytest.mark.parametrize(("failure", "status", "reason", "retry"), ROWS)
def test_one_outcome_has_one_reason(refusal, named, failure, status, reason, retry) -> None:  # type: ignore[no-untyped-def]
    """Status, reason and Retry-After are those of the table for each protocol; the upstream is named."""
    said = refusal("one", failure)
    assert (said.status, said.reason, dict(said.headers).get("Retry-After")) == (status, reason, retry)
    assert named.items() <= said.details.items()
    assert "one" in said.explanation
    assert said.remedy or isinstance(failure, Cancelled) or type(failure) is UpstreamFailure


def test_every_kind_of_failure_is_in_the_table() -> None:
    """The control: a new kind without a row is noticed. Errors of a protocol have that protocol's own tables."""

    def kinds(kind: type[UpstreamFailure]) -> set[type[UpstreamFailure]]:
        return {kind}.union(*map(kinds, kind.__subclasses__()))

    shared = {kind for kind in kinds(UpstreamFailure) if kind.__module__ == UpstreamFailure.__module__}
    assert shared == {type(row[0]) for row in ROWS} | {ErrorAnswer}
