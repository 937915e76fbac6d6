"""
No list and no document holds the reactor, however much there is to tell of.

What counts is the CPU time of one turn of the reactor's thread: 20 ms on a host as full as any, and the fifth of that
on one with a tenth of it, which the ordinary run looks at.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from hashlib import sha256
from typing import Any

import pytest
from twisted.internet.defer import Deferred

from agtphost.dispatch.encoding import in_turns
from agtphost.host.core import Core, compose
from agtphost.host.handler_factory import HandlerFactory
from agtphost.host.root import tune_collector
from agtphost.host.services import HostServices
from agtphost.host.upstreams import Upstreams
from agtphost.mcp.feature import McpFront
from agtphost.methods.discovery.description import at_once
from agtphost.testing import TestAgent
from agtphost.vocabulary import jsontext
from agtphost.vocabulary.steps import run_to_end
from tests.host.carried import carried
from tests.measuring import measured
from tests.methods.hosts import Toolbox
from tests.methods.standard.turns import TurnHost
from tests.methods.test_candidates import endpoint
from tests.programmes import length
from tests.rows import each_row
from tests.test_parser_bounds import limit

AGENTS = length(400, 10_000)
ENDPOINTS = length(400, 4_990)
"""With the server of the tools, as many as an AGIS document may tell of."""


def most() -> float:
    """Seconds of a turn, on a machine as fast as the one where the bounds were chosen."""
    return limit() * length(0.14, 0.4)


class Crowded(TurnHost):
    """A host with as many agents, endpoints and tools as there are."""

    def __init__(self, agents: int, endpoints: int, environ: Mapping[str, str] | None = None, **settings: Any) -> None:
        super().__init__({"methods": {"standard": "*"}, **settings}, environ=environ)
        self.tools = endpoints
        self.clerk = self.agent("clerk", scopes=("activation:run", "things:read"))
        self.poor = self.agent("poor", scopes=("activation:run",))
        one = self.agent("hosted", hosted=True).agent
        self.directory.admit(
            replace(one, agent_id=sha256(str(n).encode()).hexdigest(), name=f"hosted{n:05}") for n in range(agents)
        )
        for n in range(endpoints):
            self.endpoint(
                *("QUERY", f"/things/t{n}", lambda context: {}, {"name": "string", "count": "integer"}),
                description=f"Thing {n} of the shop, of which it tells everything",
                required_scopes=["things:read"],
            )

    def upstreams(self, on: HostServices) -> Upstreams:
        tools = Toolbox(
            *(
                endpoint(*("EXECUTE", "/mcp/files", f"Does {n}."), name=f"files.t{n}", required_scopes=("things:read",))
                for n in range(self.tools)
            )
        )
        tools.tools()  # As of a server that listed its tools before the reload.
        return replace(super().upstreams(on), mcp=tools)


@pytest.fixture(scope="module")
def host() -> Iterator[Crowded]:
    front = {"listen": "tcp:8080:interface=127.0.0.1", "anonymous": "clerk"}
    made = Crowded(AGENTS, ENDPOINTS, mcp={"front": front})
    assert len(made.core.services.loaded.directory.list_hosted()) == AGENTS + 1
    made.settle()
    yield made
    made.close()


EXPECTED = ("goal-unsatisfiable", "nothing-found")
"""What some are refused for who may call nothing of it."""


def longest(host: Crowded, caller: TestAgent | None, method: str, path: str, given: Mapping[str, Any]) -> float:
    """The best of six, where the first is too long."""
    found = []
    for _ in range(6):
        answer, seconds = host.longest(method, path, given, caller=caller)
        assert answer.status == 200 or answer.reason in EXPECTED, answer.document
        found.append(seconds)
        if seconds < most():
            break
    return min(found)


CALLS: Mapping[str, tuple[str, str, Mapping[str, Any]]] = {
    "all that can be called": ("DISCOVER", "/methods", {}),
    "tools": ("DISCOVER", "/tools", {}),
    "a document for clients of HTTP": ("DISCOVER", "/methods", {"format": "openapi"}),
    "an AGIS document": ("DESCRIBE", "/", {"format": "agis"}),
    "an AGIS document as YAML": ("DISCOVER", "/", {"format": "agis-yaml"}),
    "what the host can do": ("DESCRIBE", "/", {}),
    "the manifest": ("DISCOVER", "/", {}),
    "a search": ("DISCOVER", "/", {"criteria": "things of the shop"}),
    "everything": ("DISCOVER", "/", {"criteria": "*"}),
    "the namespace": ("DESCRIBE", "/agents", {}),
    "the namespace as YAML": ("DESCRIBE", "/agents", {"format": "yaml"}),
    "agents": ("DISCOVER", "/agents", {}),
    "agents with their roles": ("DISCOVER", "/agents", {"result_type": "any"}),
    "a question about everything": ("QUERY", "/", {"intent": "what is there to tell of things of the shop"}),
    "a plan": ("PLAN", "/", {"goal": "tell of things of the shop"}),
}


NOT_FOR_ALL = ("a question about everything", "a plan")
"""Asked by those alone who say who they are."""


@measured
@pytest.mark.programme
@each_row("name", CALLS)
def test_no_list_holds_the_reactor(host: Crowded, name: str) -> None:
    for caller in (host.clerk, host.poor, None):
        if caller is not None or name not in NOT_FOR_ALL:
            seconds = longest(host, caller, *CALLS[name])
            print(f"{name} for {caller and caller.agent.name}: {seconds * 1000:.1f} ms")
            assert seconds < most()


@pytest.mark.release
@measured
@pytest.mark.programme
def test_a_list_that_is_made_in_the_reactor_is_found(host: Crowded, monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: the namespace document as YAML, made where everybody waits for it."""
    found = host.core.services.registry.match("DESCRIBE", "/agents")
    assert found is not None
    monkeypatch.setattr(found.binding.handler, "_offload", at_once)
    assert longest(host, host.clerk, *CALLS["the namespace as YAML"]) > 2 * most()


CARDS: Mapping[str, tuple[str, str, Mapping[str, Any]]] = {
    "a search among cards": ("FIND", "/cards", {"query": "things of the shop"}),
    "cards by a filter": ("FIND", "/cards", {"filters": {"provider": "nobody"}, "include_metadata": True}),
    "a list of cards": ("QUERY", "/cards", {"limit": 200}),
    "all that meets criteria": ("FIND", "/", {"criteria": "things of the shop"}),
}


@pytest.fixture(scope="module")
def registry() -> Iterator[Crowded]:
    """One whose agents have cards, with every endpoint in each."""
    made = Crowded(length(40, 200), length(60, 1_000), registry={})
    made.settle()
    yield made
    made.close()


@measured
@pytest.mark.programme
@each_row("name", CARDS)
def test_no_card_holds_the_reactor(registry: Crowded, name: str) -> None:
    for caller in (registry.clerk, registry.poor):
        seconds = longest(registry, caller, *CARDS[name])
        print(f"{name} for {caller.agent.name}: {seconds * 1000:.1f} ms")
        assert seconds < most()


def test_a_card_is_written_as_one(registry: Crowded) -> None:
    """Its operations are those of many cards, and written before; the digest is of what is sent."""
    answer, _ = registry.longest("QUERY", "/cards/agent:hosted00001", caller=registry.clerk)
    card = jsontext.decode(answer.body)
    assert len(card["operations"]) == registry.tools
    assert answer.body == jsontext.encode(card)
    assert answer.headers.get("etag") == f'"{sha256(answer.body).hexdigest()}"'


@pytest.fixture
def settled() -> Iterator[Callable[[], None]]:
    """Has the collector of garbage do as in a host that has started."""
    thresholds = gc.get_threshold()
    yield tune_collector
    gc.unfreeze()
    gc.set_threshold(*thresholds)


def taken_up(host: Crowded, *, at_once: bool) -> float:
    """Seconds of the longest turn while another configuration is made, and comes into force."""
    on = host.core.services.with_configuration(host.core.services.loaded)
    factory = HandlerFactory(host.turns, 1, on.lasting.computing)
    made: list[Core] = []

    async def reload() -> None:
        core = await in_turns(compose(on, host.upstreams(on), factory), host.turns)
        await in_turns(core.shown.publication.prepare(), host.turns)
        made.append(core)

    host.settle()
    host.turns.taken.clear()
    if at_once:
        host.turns.counted(lambda: made.append(run_to_end(compose(on, host.upstreams(on), factory))))
    else:
        Deferred.fromCoroutine(reload())
        host.turns.until(lambda: made)
    host.turns.counted(made[0].announce)
    on.lease.release()
    on.registry.clear()
    return max(host.turns.taken)


@pytest.mark.release
@measured
@pytest.mark.programme
def test_another_configuration_holds_nobody_up(settled: Callable[[], None]) -> None:
    """With thousands of endpoints it is made in steps; the control makes it in one turn."""
    host = Crowded(length(100, 2_000), length(2_000, 5_000))
    assert host.core
    settled()
    found = []
    for _ in range(3):
        found.append(taken_up(host, at_once=False))
        if found[-1] < limit() * 0.4:
            break
    print(f"another configuration {min(found) * 1000:.1f} ms")
    assert min(found) < limit() * 0.4 < taken_up(host, at_once=True)
    host.close()


@pytest.mark.release
@measured
@pytest.mark.programme
def test_what_clients_of_mcp_are_told_of_holds_nobody_up(host: Crowded) -> None:
    """The manifest of thousands of endpoints is decoded once, where nobody waits for it."""
    manifest = carried(host, "mcp", McpFront).facts.manifest
    found: list[Mapping[str, Any]] = []
    host.settle()
    host.turns.taken.clear()
    host.turns.callLater(0, lambda: Deferred.fromCoroutine(manifest()).addCallback(found.append))
    host.turns.until(lambda: found)
    print(f"the manifest, read: {max(host.turns.taken) * 1000:.1f} ms")
    assert len(found[0]["endpoints"]) > ENDPOINTS
    assert max(host.turns.taken) < most()
