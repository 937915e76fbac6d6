"""
No list that MCP clients ask for holds the reactor, however much there is to list.

Measured is as in :mod:`tests.methods.test_list_turns`: the CPU time of the longest turn, from the request's first octet
to the answer's last.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from twisted.internet.address import IPv4Address
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock

from agtphost.adapters.mcp.lists import PAGE, list_binding
from agtphost.bridge.host_link import HostLink
from agtphost.client.mcp import endpoints
from agtphost.client.mcp.endpoints import MOST_ENDPOINTS
from agtphost.client.reply import Reply
from agtphost.contract.binding import Binding, Resolution
from agtphost.host.services import HostServices
from agtphost.host.upstreams import Upstreams
from agtphost.http.http_service import HTTP_LIMITS, HttpFactory
from agtphost.http.mounts import Mount, Mounts
from agtphost.mcp.context import ClientConversation, Context
from agtphost.mcp.feature import McpFront
from agtphost.mcp.front import McpFrontFacts, McpFrontResource
from agtphost.mcp.revisions import MODERN
from agtphost.mcp.server import Server
from agtphost.methods.discovery.description import at_once
from agtphost.upstream.supervision import UpstreamState
from agtphost.vocabulary import jsontext
from agtphost.vocabulary.jsonslices import Encoded
from agtphost.vocabulary.mount_paths import MountPath
from agtphost.wire.headers import Headers
from tests.host.carried import carried
from tests.http.test_left_over import TOKEN, mcp
from tests.http.test_mounts import Wire
from tests.measuring import measured
from tests.methods.hosts import Toolbox
from tests.methods.test_list_turns import Crowded, most
from tests.programmes import length

POOR = "fedcba9876543210" * 2
HERE = IPv4Address("TCP", "127.0.0.1", 8080)
ENDPOINTS = length(400, 4_990)
MOST_THINGS = min(ENDPOINTS, int(0.9 * MOST_ENDPOINTS))
"""Of them that are shown: the host has some more."""


class Listing(Toolbox):
    """Adapters whose tools are listed as those of a server that is up."""

    def __init__(self, *tools: Binding) -> None:
        super().__init__(*(replace(tool, details={"mcp": {"inputSchema": {"type": "object"}}}) for tool in tools))
        catalogue = SimpleNamespace(bindings={tool.name: tool for tool in self.bound}, ttl=None, refresh=lambda: None)
        server: Any = SimpleNamespace(state=UpstreamState.UP, catalogue=catalogue)
        self._list = list_binding([server])

    def resolve(self, action: str, payload: Any, server: str | None) -> Resolution:
        if action == "mcp.tools.list":
            return Resolution(binding=self._list, input=payload)
        return super().resolve(action, payload, server)


class Listed(Crowded):
    """A host whose MCP front is asked."""

    def upstreams(self, on: HostServices) -> Upstreams:
        found = super().upstreams(on)
        assert isinstance(found.mcp, Toolbox)
        return replace(found, mcp=Listing(*found.mcp.bound))  # type: ignore[arg-type]

    @property
    def facts(self) -> McpFrontFacts:
        """Of its front."""
        return carried(self, "mcp", McpFront).facts

    def front(self) -> McpFrontResource:
        """One to which every caller is new."""
        return McpFrontResource(self.facts, self.dispatcher, self.turns)

    def asked(self, front: McpFrontResource, *requests: bytes) -> tuple[list[bytes], float]:
        """The bodies of the answers to requests, each over a connection of its own, and the longest turn's seconds."""
        mount = Mount(surface="mcp", path=MountPath("/mcp"), resource=front)
        factory = HttpFactory(Mounts([mount]), HTTP_LIMITS, self.turns)
        wires = []
        self.settle()
        self.turns.taken.clear()
        for octets in requests:
            channel: Any = factory.buildProtocol(HERE)
            wires.append(Wire(hostAddress=HERE))
            channel.makeConnection(wires[-1])
            self.turns.counted(channel.dataReceived, octets)
        self.turns.until(lambda: all(_body(wire) is not None for wire in wires))
        self.settle()
        return [_body(wire) or b"" for wire in wires], max(self.turns.taken)


def _body(wire: Wire) -> bytes | None:
    """Of the answer, once it is whole."""
    head, end, body = wire.value().partition(b"\r\n\r\n")
    if not end:
        return None
    assert head.startswith(b"HTTP/1.1 200 "), wire.value()[:2000]
    said = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])
    return body if len(body) == said else None


@pytest.fixture(scope="module")
def host() -> Iterator[Listed]:
    front = {"listen": "tcp:8080:interface=127.0.0.1"}
    client = {"name": "tests", "token": "env:TOKEN", "agent": "clerk"}
    poor = {"name": "poor", "token": "env:POOR", "agent": "poor"}
    made = Listed(0, ENDPOINTS, {"TOKEN": TOKEN, "POOR": POOR}, mcp={"front": front}, http={"client": [client, poor]})
    made.settle()
    yield made
    made.close()


def _as(token: str, request: bytes) -> bytes:
    return request.replace(TOKEN.encode(), token.encode())


LIST = mcp("tools/list")


def _result(body: bytes) -> dict[str, Any]:
    found = json.loads(body)["result"]
    assert isinstance(found, dict)
    return found


def longest(host: Listed, facts: McpFrontFacts, *requests: bytes) -> float:
    """The best of three fronts to which everything is new, where the first is too long."""
    found = []
    for _ in range(6):
        found.append(host.asked(McpFrontResource(facts, host.dispatcher, host.turns), *requests)[1])
        if found[-1] < most():
            break
    print(f"{len(requests)} at once: {', '.join(f'{seconds * 1000:.1f} ms' for seconds in found)}")
    return min(found)


@measured
@pytest.mark.programme
def test_no_list_of_tools_holds_the_reactor(host: Listed) -> None:
    assert longest(host, host.facts, LIST) < most()
    # The second waits for the first, and both are answered in one turn at worst.
    assert longest(host, host.facts, LIST, LIST) < 2 * most()


@measured
@pytest.mark.programme
def test_a_list_that_is_made_in_the_reactor_is_found(host: Listed) -> None:
    """The control: the front has no thread."""
    assert longest(host, replace(host.facts, offload=at_once), LIST) > most()


@pytest.mark.programme
def test_what_is_listed_is_what_one_thread_would_list(host: Listed, monkeypatch: pytest.MonkeyPatch) -> None:
    """Octet for octet, to several at once; and nobody is shown what another may call."""
    made, read = list[object](), list[bytes]()
    tools_of, methods_of = endpoints.tools_of, endpoints._read_methods
    monkeypatch.setattr(endpoints, "tools_of", lambda given: made.append(given) or tools_of(given))
    monkeypatch.setattr(endpoints, "_read_methods", lambda body: read.append(body) or methods_of(body))
    bodies, _ = host.asked(host.front(), LIST, _as(POOR, LIST), LIST, LIST, _as(POOR, LIST))
    # The tools of all are made once, and who may call which is found out once for each caller.
    assert len(made) == 1
    assert len(read) == 2
    assert len(set(read)) == 2

    shown = [tool.definition for tool in tools_of(made[0]) if tool.path.startswith("/things/")]
    assert len(shown) >= MOST_THINGS
    page = [{"inputSchema": {"type": "object"}, "name": f"files__t{n}"} for n in sorted(map(str, range(ENDPOINTS)))]
    expected = jsontext.encode([*page[:PAGE], *shown])
    mine = [body for number, body in enumerate(bodies) if number not in (1, 4)]
    for body in mine:
        assert body.startswith(b'{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","tools":' + expected + b",")
        assert body == jsontext.encode(json.loads(body))
    for body in (bodies[1], bodies[4]):
        assert not [tool for tool in _result(body)["tools"] if "/things/" in tool["title"]]


class Distant:
    """A host, as the client of a bridge has it: what it says is there at once."""

    def __init__(self, methods: bytes, manifest: Mapping[str, Any]) -> None:
        self._methods, self._manifest = methods, SimpleNamespace(document=manifest)

    async def call(self, uri: str, method: str, *given: Any, **options: Any) -> Reply:
        """The list of methods; and no server has any tool."""
        octets = self._methods if method == "DISCOVER" else jsontext.encode({"result": {"tool_response": {}}})
        return Reply(status=200, text="OK", headers=Headers([]), body=octets, request_line=b"")

    async def manifest(self, uri: str, **options: Any) -> Any:
        """What it says of itself."""
        return self._manifest


@measured
@pytest.mark.programme
@pytest.mark.parametrize("threads", [True, False])
def test_a_list_of_a_bridge_holds_its_reactor_no_longer(
    host: Listed, threads: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has no host beside it, and takes a thread of its reactor's; the control has none."""
    manifest: list[Mapping[str, Any]] = []
    Deferred.fromCoroutine(host.facts.manifest()).addCallback(manifest.append)
    host.turns.until(lambda: manifest)
    answer, _ = host.longest("DISCOVER", "/methods", {}, caller=host.clerk)
    if not threads:
        monkeypatch.setattr(HostLink, "offload", staticmethod(at_once))
    found: list[float] = []
    for _ in range(3):
        link: Any = HostLink(client=Distant(answer.body, manifest[0]), clock=host.turns, uri="agtp://localhost")  # type: ignore[arg-type]
        server, listed = Server(link, host.turns), list[Any]()
        context = Context(
            method="tools/list",
            params={},
            request_id=1,
            revision=MODERN,
            conversation=ClientConversation(),
            channel=Silent(),
        )
        host.settle()
        host.turns.taken.clear()
        begin = partial(Deferred.fromCoroutine, server.answer(context))
        host.turns.counted(lambda begin=begin, listed=listed: begin().addBoth(listed.append))
        host.turns.until(lambda listed=listed: listed)
        assert isinstance(listed[0], Encoded), listed[0]
        assert listed[0].octets.count(b'"title":') >= MOST_THINGS
        found.append(max(host.turns.taken))
    print(f"a bridge: {', '.join(f'{seconds * 1000:.1f} ms' for seconds in found)}")
    assert min(found) < most() if threads else min(found) > most()


class Silent:
    """The way back to a client that is told nothing."""

    def notify(self, method: str, params: Mapping[str, Any]) -> None:
        """Nobody hears it."""

    def ask(self, method: str, params: Mapping[str, Any]) -> Deferred[Mapping[str, Any]]:
        """Never."""
        raise AssertionError(method)


def test_a_list_of_methods_of_more_than_a_body_may_have_is_read(host: Listed) -> None:
    """What a host answers about 3,000 endpoints and as many tools has more than 50,000 names and values."""
    entries = [{"method": "EXECUTE", "path": "/", "tier": "B", "tool": f"files.t{n}"} for n in range(6_000)]
    octets = jsontext.encode([*entries, {"method": "QUERY", "path": "/x", "tier": "B"}])
    with pytest.raises(jsontext.JSONTextError):
        jsontext.decode(octets)
    manifest = {"endpoints": [{"method": "QUERY", "path": path} for path in ("/x", "/y")]}
    link: Any = HostLink(client=Distant(octets, manifest), clock=host.turns, uri="agtp://localhost")  # type: ignore[arg-type]
    listed: list[Any] = []
    Deferred.fromCoroutine(endpoints.Endpoints(link).list_callable("a session")).addBoth(listed.append)
    host.turns.until(lambda: listed)
    assert [tool.key for tool in listed[0]] == ["QUERY /x"]


def test_a_short_list_waits_for_one_that_a_thread_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two sessions of one caller begin together, and the endpoints are made for another caller in between."""
    read = list[bytes]()
    methods_of = endpoints._read_methods
    monkeypatch.setattr(endpoints, "_read_methods", lambda body: read.append(body) or methods_of(body))
    octets = jsontext.encode([{"method": "QUERY", "path": "/p1", "tier": "B"}])
    manifest = {"endpoints": [{"method": "QUERY", "path": f"/p{number}"} for number in range(endpoints.FEW + 1)]}
    link: Any = HostLink(client=Distant(octets, manifest), clock=Clock(), uri="agtp://localhost")  # type: ignore[arg-type]
    threads = list[tuple[Deferred[Any], Any]]()

    def offload(function: Any, *given: Any) -> Deferred[Any]:
        threads.append((Deferred(), partial(function, *given)))
        return threads[-1][0]

    monkeypatch.setattr(HostLink, "offload", staticmethod(offload))
    catalogue, listed = endpoints.Catalogue(), list[Any]()
    caller = endpoints.Endpoints(link, catalogue)
    for session in ("one", "another"):
        Deferred.fromCoroutine(caller.list_callable(session)).addBoth(listed.append)
        catalogue.tools_for(manifest["endpoints"])
    assert (listed, read, len(threads)) == ([], [], 2)
    for waiting, work in threads:
        waiting.callback(work())
    assert [[tool.key for tool in each] for each in listed] == [["QUERY /p1"]] * 2
    assert len(read) == 1
    Deferred.fromCoroutine(caller.list_callable("later")).addBoth(listed.append)
    assert len(listed) == 3 and len(threads) == 2, "alone it is read at once"
