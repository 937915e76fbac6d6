"""The end of stdin: what was asked before is answered, what nobody waits for is not waited for."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCNotification, JSONRPCRequest, JSONRPCResponse

from agtphost.bridge import stdio
from agtphost.bridge.stdio import Incoming, Outgoing, Owed


def asked(number: int, method: str = "tools/call") -> SessionMessage:
    return SessionMessage(JSONRPCRequest(jsonrpc="2.0", id=number, method=method))


def answer(number: int) -> SessionMessage:
    return SessionMessage(JSONRPCResponse(jsonrpc="2.0", id=number, result={}))


def cancelled(number: int) -> SessionMessage:
    return SessionMessage(
        JSONRPCNotification(jsonrpc="2.0", method="notifications/cancelled", params={"requestId": number})
    )


class Sink:
    """A stream that takes everything."""

    async def send(self, item: SessionMessage) -> None:
        pass


async def until_the_end(before: list[SessionMessage], after: list[SessionMessage]) -> list[str]:
    """What happens in which order where ``before`` comes in, stdin is closed, and ``after`` goes out."""
    owed, order = Owed(), []

    async def items() -> AsyncIterator[SessionMessage]:
        for item in before:
            yield item

    async def read() -> None:
        async for _ in Incoming(items(), owed):
            pass
        order.append("end")

    async def write() -> None:
        out: Any = Outgoing(Sink(), owed)
        for item in after:
            await anyio.wait_all_tasks_blocked()
            order.append("answer")
            await out.send(item)

    async with anyio.create_task_group() as group:
        group.start_soon(read)
        group.start_soon(write)
    return order


def test_the_end_is_told_after_the_last_answer() -> None:
    """Two requests are owed an answer each; the end comes behind both."""
    assert anyio.run(until_the_end, [asked(1), asked(2)], [answer(2), answer(1)]) == ["answer", "answer", "end"]


@pytest.mark.parametrize(
    "before",
    [[], [asked(1), cancelled(1)], [asked(1, "subscriptions/listen")]],
    ids=["nothing", "cancelled", "endless"],
)
def test_what_gets_no_answer_is_not_waited_for(before: list[SessionMessage]) -> None:
    """Nothing asked, a request that was cancelled, one that only its client ends."""
    assert anyio.run(until_the_end, before, [answer(9)])[0] == "end"


def test_it_is_not_waited_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request that stays without an answer holds the end up for a while."""
    monkeypatch.setattr(stdio, "LAST_WORDS", 0.01)
    assert anyio.run(until_the_end, [asked(1)], []) == ["end"]
