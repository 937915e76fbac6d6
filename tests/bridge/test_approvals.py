"""What the bridge tells of calls that a person approves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock

from agtphost.client.approvals import PendingApproval
from agtphost.client.mcp.endpoints import tools_of
from agtphost.client.mcp.held_calls import NOTE, describe_pending, held_answer, mark_approval
from agtphost.client.reply import Reply
from agtphost.mcp.context import ClientConversation, Context
from agtphost.mcp.held_notices import INTERVAL, HeldNotices
from agtphost.vocabulary import jsontext
from agtphost.wire import Headers


class Told:
    """The way back to a client, which keeps what it is told."""

    def __init__(self) -> None:
        self.heard: list[Mapping[str, Any]] = []

    def notify(self, method: str, params: Mapping[str, Any]) -> None:
        assert method == "notifications/progress"
        self.heard.append(params)

    def ask(self, method: str, params: Mapping[str, Any]) -> Deferred[Mapping[str, Any]]:
        raise AssertionError("whoever makes a call is not who decides about it")


def test_progress_goes_on_while_a_call_is_held() -> None:
    """Again and again, growing as MCP wants it and below what the tool itself begins with; not after the end."""
    clock, told = Clock(), Told()
    context = Context(
        method="tools/call",
        params={"_meta": {"progressToken": "p"}},
        request_id=1,
        revision="2025-11-25",
        conversation=ClientConversation(),
        channel=told,
    )
    notices = HeldNotices(context, clock)
    notices.end()
    notices.begin("apr-1\x1b[2J")
    notices.begin("apr-1")
    clock.pump([INTERVAL] * 2)
    assert len(told.heard) == 3
    notices.end()
    clock.pump([INTERVAL] * 2)
    steps = [each["progress"] for each in told.heard]
    assert len(steps) == 3
    assert steps == sorted(set(steps)) and steps[0] == 0 and max(steps) < 0.01
    assert "total" not in told.heard[0]
    assert told.heard[0]["message"] == "held for a person to approve: apr-1\\x1b[2J"


def test_a_marked_tool() -> None:
    """A sentence behind the description, and a member of ``_meta`` in place of the host's own."""
    tool = {"name": "a", "description": "Deletes.\n", "approval": "required", "_meta": {"x": 1}, "inputSchema": {}}
    assert mark_approval(tool) == {
        "name": "a",
        "description": f"Deletes.\n\n{NOTE}",
        "_meta": {"x": 1, "agtp/approval": "required"},
        "inputSchema": {},
    }
    assert mark_approval({"name": "a", "_meta": None})["description"] == NOTE
    (endpoint,) = tools_of([{"method": "REMOVE", "path": "/x", "description": "R.", "input_schema": {}}])
    assert mark_approval(endpoint.definition)["_meta"]["agtp/endpoint"] == "REMOVE /x"


@pytest.mark.parametrize("expires_at", ["2026-11-22T14:00:00Z", ""])
def test_what_a_model_reads(expires_at: str) -> None:
    """Which approval, until when, and what to do; escaped, and the same for programs."""
    pending = PendingApproval(approval_id="apr-1\x1b", expires_at=expires_at, digest="d")
    assert describe_pending(pending).startswith("held for a person: apr-1\\x1b; call again with the same arguments.")
    body: dict[str, Any] = {"reason": "approval-required", "explanation": "Wait\u202e.", "approval_id": "apr-1\x1b"}
    reply = Reply(status=202, text="", headers=Headers([]), body=jsontext.encode(body), request_line=b"")
    answer = held_answer(reply, pending)
    assert answer["isError"] is True and "\u202e" not in str(answer["content"])
    assert set(answer["_meta"]["agtp/approval"]) == {"approval_id", "digest", *(["expires_at"] if expires_at else [])}
