"""What the bridge tells of calls that a person approves."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from agtphost.bridge import approvals
from agtphost.bridge.approvals import Notices
from agtphost.client.approvals import PendingApproval
from agtphost.client.mcp.endpoints import tools_of
from agtphost.client.mcp.held import NOTE, held_answer, marked, told_of
from agtphost.client.reply import Reply
from agtphost.vocabulary import jsontext
from agtphost.wire import Headers


class Session:
    """Takes progress messages."""

    def __init__(self) -> None:
        self.told: list[tuple[float, str]] = []
        self.third = asyncio.Event()

    async def report_progress(self, progress: float, total: float | None, message: str) -> None:
        assert total is None
        self.told.append((progress, message))
        if len(self.told) == 3:
            self.third.set()


class Context:
    def __init__(self, session: Session) -> None:
        self.session = session


def test_progress_goes_on_while_a_call_is_held(monkeypatch: pytest.MonkeyPatch) -> None:
    """Again and again, growing as MCP wants it and below what the tool itself begins with; not after the end."""
    monkeypatch.setattr(approvals, "EVERY", 0.001)

    async def story() -> Session:
        session = Session()
        notices = Notices(Context(session))  # type: ignore[arg-type]
        notices.end()
        notices.begin("apr-1\x1b[2J")
        notices.begin("apr-1")
        await asyncio.wait_for(session.third.wait(), 30)
        notices.end()
        telling = asyncio.all_tasks() - {asyncio.current_task()}
        assert len(telling) == 1
        await asyncio.wait(telling, timeout=30)
        assert all(task.cancelled() for task in telling)
        return session

    told = asyncio.run(story()).told
    steps = [progress for progress, _ in told]
    assert steps[:3] == sorted(set(steps[:3])) and steps[0] == 0 and max(steps) < 0.01
    assert told[0][1] == "held for a person to approve: apr-1\\x1b[2J"


def test_a_marked_tool() -> None:
    """A sentence behind the description, and a member of ``_meta`` in place of the host's own."""
    tool = {"name": "a", "description": "Deletes.\n", "approval": "required", "_meta": {"x": 1}, "inputSchema": {}}
    assert marked(tool) == {
        "name": "a",
        "description": f"Deletes.\n\n{NOTE}",
        "_meta": {"x": 1, "agtp/approval": "required"},
        "inputSchema": {},
    }
    assert marked({"name": "a", "_meta": None})["description"] == NOTE
    (endpoint,) = tools_of([{"method": "REMOVE", "path": "/x", "description": "R.", "input_schema": {}}])
    assert marked(endpoint.definition)["_meta"]["agtp/endpoint"] == "REMOVE /x"


@pytest.mark.parametrize("expires_at", ["2026-11-22T14:00:00Z", ""])
def test_what_a_model_reads(expires_at: str) -> None:
    """Which approval, until when, and what to do; escaped, and the same for programs."""
    pending = PendingApproval(approval_id="apr-1\x1b", expires_at=expires_at, digest="d")
    assert told_of(pending).startswith("held for a person: apr-1\\x1b; call again with the same arguments.")
    body: dict[str, Any] = {"reason": "approval-required", "explanation": "Wait\u202e.", "approval_id": "apr-1\x1b"}
    reply = Reply(status=202, text="", headers=Headers([]), body=jsontext.encode(body), request_line=b"")
    answer = held_answer(reply, pending)
    assert answer["isError"] is True and "\u202e" not in str(answer["content"])
    assert set(answer["_meta"]["agtp/approval"]) == {"approval_id", "digest", *(["expires_at"] if expires_at else [])}
