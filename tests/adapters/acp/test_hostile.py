"""ACP servers that are dead, slow, huge or liars: every call ends by its deadline, with its status (P16, T-UP)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import pytest_twisted
from twisted.internet import reactor

from agtphost.adapters.acp import ACPAdapter, ACPServer
from agtphost.config.web_upstreams import ACPServerSection
from agtphost.errors import Refusal
from agtphost.upstream.ownership import TaskOwnership
from agtphost.upstream.supervision import UpstreamState
from tests.adapters.hostile import FAULTS, STREAM_FAULTS, Script, Server, deadline, hostile
from tests.adapters.mcp.hosting import pause, until
from tests.adapters.peers import AdapterCalls, Book, kept, seconds
from tests.measuring import measured

DEADLINE = 0.5
SLACK = 10.0
"""Seconds that a busy machine may be late."""
RUN = {"agent_name": "liar", "input": [{"parts": [{"content": "x"}]}]}


@asynccontextmanager
async def calling(server: Server, *, wait: bool = True, **settings: Any) -> AsyncIterator[AdapterCalls]:
    """A hostile server behind the adapter."""
    made = ACPServerSection(
        name="bee", url=f"http://127.0.0.1:{server.port}", scopes=("a:b",), **{"timeout": DEADLINE, **settings}
    )
    upstream = ACPServer(reactor, made, jitter=lambda: 0.5)
    book = Book()
    async with kept(upstream, wait=wait):
        yield AdapterCalls(ACPAdapter([upstream], TaskOwnership(book, "acp-run")), book)


async def outcome(on: AdapterCalls, *, stream: bool = False) -> tuple[Refusal, float]:
    """How a call ends, and when."""
    began = seconds()
    with pytest.raises(Refusal) as caught:
        await on.call("acp.runs.create", RUN, task_id="R-1", stream=stream)
    return caught.value, seconds() - began


@measured
@pytest.mark.parametrize(("fault", "status"), FAULTS.values(), ids=list(FAULTS))
@pytest_twisted.ensureDeferred
async def test_every_call_ends_by_its_deadline(fault: Script, status: int) -> None:
    """Each fault of an answer has its status, at the latest at the deadline, and the server is asked once."""
    async with hostile() as server:
        server.page("/agents", {"agents": [{"name": "liar"}]})
        server.fault = fault
        async with calling(server, timeout=deadline(status)) as on:
            refusal, took = await outcome(on)
            assert (refusal.status, took < deadline(status) + SLACK) == (status, True), str(refusal)
            assert sum(b"POST /runs" in seen for seen in server.seen) == 1


@measured
@pytest.mark.parametrize(("fault", "status"), STREAM_FAULTS.values(), ids=list(STREAM_FAULTS))
@pytest_twisted.ensureDeferred
async def test_every_stream_ends_by_its_deadline(fault: Script, status: int) -> None:
    """The same of streams."""
    async with hostile() as server:
        server.page("/agents", {"agents": [{"name": "liar"}]})
        server.fault = fault
        async with calling(server, timeout=deadline(status)) as on:
            refusal, took = await outcome(on, stream=True)
            assert (refusal.status, took < deadline(status) + SLACK) == (status, True), str(refusal)


@pytest.mark.parametrize(
    "listed",
    [{"agents": [{"name": 5}]}, {"agents": "x"}, [], {"agents": []}, {"agents": [{"name": "x" * 200}]}],
)
@pytest_twisted.ensureDeferred
async def test_a_list_that_is_none(listed: Any) -> None:
    """A server whose list of agents is nonsense is down, with a reason."""
    async with hostile() as server:
        server.page("/agents", listed)
        async with calling(server, wait=False) as on:
            service = on.adapter.by_name["bee"]
            await until(lambda: service.state is UpstreamState.BACKOFF)
            assert service.snapshot().reason
            refusal, _ = await outcome(on)
            assert (refusal.status, refusal.reason) == (503, "upstream-down")


@measured
@pytest_twisted.ensureDeferred
async def test_a_dead_server_is_503() -> None:
    """A connection refused is 503 with Retry-After at once, and the state is visible."""
    server = Server()
    server.page("/agents", {"agents": [{"name": "liar"}]})
    async with calling(server) as on:
        await server.stop()
        await pause(0.05)
        refusal, took = await outcome(on)
        assert (refusal.status, refusal.reason, took < SLACK) == (503, "upstream-down", True)
        assert on.adapter.hosted_protocols()[0]["state"] == "backoff"


@pytest.mark.parametrize("rules", [{"pins": {"lair": "0" * 64}}, {"agents": ("liar", "lair")}])
@pytest_twisted.ensureDeferred
async def test_a_name_that_is_not_listed_shuts_the_server(rules: dict[str, Any]) -> None:
    """A slip in a pin's name protects nothing: told for operators, and shut where it has to be."""
    async with hostile() as server:
        server.page("/agents", {"agents": [{"name": "liar"}]})
        sentence = "the configuration names 'lair', which it does not list (did you mean 'liar'?)"
        async with calling(server, wait=False, unmatched_rules="off", **rules) as on:
            service = on.adapter.by_name["bee"]
            await until(lambda: service.state is UpstreamState.BACKOFF)
            assert sentence in service.snapshot().reason
            assert "off until that is fixed" in service.snapshot().reason
            assert on.adapter.upstreams()[0]["unmatched_rules"] == ["agent lair"]
            refusal, _ = await outcome(on)
            assert (refusal.status, refusal.reason) == (503, "upstream-down")
        async with calling(server, unmatched_rules="warn", **rules) as on:
            assert on.adapter.by_name["bee"].state is UpstreamState.UP
            assert on.adapter.upstreams()[0]["unmatched_rules"] == ["agent lair"]
        async with calling(server, unmatched_rules="off", agents=("liar",)) as on:
            assert on.adapter.upstreams()[0]["unmatched_rules"] == []
