"""All clients with ``quic="auto"``: QUIC where it is offered and answers, else TLS."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
import pytest_twisted
from twisted.internet.defer import Deferred, gatherResults, succeed

from agtphost.client import CannotConnect, ConnectionLost, Timeout, TLSRefused
from agtphost.client.carriers import OVERTAKEN, Fallback
from agtphost.client.requests import Destination
from agtphost.identity.manifest_signature import sign_manifest
from agtphost.protocols.tls import ServerTLS
from agtphost.vocabulary import jsontext, media_types
from agtphost.wire import Headers, Response
from tests.client.drivers import AioDriver, BlockingDriver, Driver, twisted_driver
from tests.client.quic.test_blocking import QuicHost, _held_closing, closed_port
from tests.client.test_manifests import KEY, document
from tests.protocols.authorities import AGENT_ID
from tests.protocols.links import FakeDispatcher, at_once, reply
from tests.protocols.loopback import Host, Site, make_site
from tests.protocols.test_tls import good


class Memory:
    """What a client is to know of carriers, and what it has written."""

    def __init__(self, port: int | None = None) -> None:
        self.port = port
        self.written: list[tuple[Destination, int | None, float, float]] = []

    def read(self, destination: Destination) -> tuple[int | None, float, float] | None:
        return None if self.port is None else (self.port, 1000.0, 0.0)

    def write(self, destination: Destination, port: int | None, seconds: float, silent: float) -> None:
        self.written.append((destination, port, seconds, silent))
        if not seconds:
            self.port = None


class Publishing(FakeDispatcher):
    """
    Publishes a manifest that offers QUIC at a port, and answers everything else.

    :param answer: the other calls.
    """

    def __init__(self, answer: Callable[..., Any] = at_once) -> None:
        super().__init__(self._publish)
        self.answer = answer
        self.port = 0
        self.document: Any = None
        """In place of the manifest."""

        self.is_open = True
        """Whether callers without an Agent-ID are shown the manifest."""

    def _publish(self, request: Any, peer: Any, interim: Any) -> Any:
        if (request.method, request.path) != ("DISCOVER", "/"):
            return self.answer(request, peer, interim)
        if not self.is_open and "agent-id" not in request.headers:
            problem = jsontext.encode({"status": 262, "reason": "anonymous-discovery-disabled"})
            fields = [*reply(request).headers, ("Content-Type", "application/problem+json")]
            return succeed(Response(status=262, headers=Headers(fields), body=problem))
        own = [{"carrier": "tls", "port": 1}, {"carrier": "quic", "port": self.port, "alpn": "agtp"}]
        shown = sign_manifest(document(transports=own), KEY) if self.document is None else self.document
        fields = [*reply(request).headers, ("Content-Type", media_types.MANIFEST_JSON)]
        return succeed(Response(status=200, headers=Headers(fields), body=jsontext.encode(shown)))

    @property
    def calls(self) -> list[tuple[str, str]]:
        """What was asked besides the manifest, and by which carrier."""
        pairs = zip(self.requests, self.peers, strict=True)
        return [(request.method, peer.carrier) for request, peer in pairs if request.method != "DISCOVER"]

    @property
    def readings(self) -> int:
        """How often the manifest was read."""
        return len(self.requests) - len(self.calls)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return make_site(tmp_path)


@pytest.fixture
def long_head_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give QUIC all the time that a busy machine takes, before TLS is tried besides."""
    monkeypatch.setattr("agtphost.client.carrier_race.HEAD_START", 3600.0)
    monkeypatch.setattr("agtphost.client.tcp_rival.HEAD_START", 3600.0)


@pytest.fixture(params=[twisted_driver, BlockingDriver, AioDriver], ids=["twisted", "blocking", "asyncio"])
def make(request: pytest.FixtureRequest, site: Site) -> Callable[..., Driver]:
    """Makes a client that chooses the carrier."""

    def client(**options: Any) -> Driver:
        given = {"timeout": 30.0, "quic": "auto", **options}
        made: Driver = request.param(trust=site.folder / "root.pem", **given)
        return made

    return client


Make = Callable[..., Driver]


def uri(host: Host) -> str:
    return f"agtp://localhost:{host.port}"


@contextmanager
def swallowing() -> Iterator[socket.socket]:
    """A UDP port that takes datagrams and says nothing."""
    with closing(socket.socket(type=socket.SOCK_DGRAM)) as silent:
        silent.bind(("127.0.0.1", 0))
        silent.setblocking(False)
        yield silent


def drain(silent: socket.socket) -> int:
    """How many datagrams have arrived."""
    count = 0
    try:
        while silent.recv(65536):
            count += 1
    except BlockingIOError:
        return count
    return count


@pytest.mark.usefixtures("long_head_start")
@pytest.mark.parametrize("agent", [AGENT_ID, None])
@pytest_twisted.ensureDeferred
async def test_a_manifest_that_only_named_callers_see_is_read_as_the_caller(
    site: Site, make: Make, agent: str | None
) -> None:
    """The caller is named where the host asks for that and the call names it anyway; else it goes over TLS."""
    dispatcher = Publishing()
    dispatcher.is_open = False
    async with QuicHost(site, dispatcher) as host, make(agent_id=agent) as client:
        dispatcher.port = host.quic.port or 0
        assert (await client.call(uri(host), "QUERY")).status == 200
    assert dispatcher.calls == [("QUERY", "quic" if agent else "tls")]
    named = [request.headers.get("agent-id") for request in dispatcher.requests if request.method == "DISCOVER"]
    assert named == ([None, agent] if agent else [None])


@pytest.mark.usefixtures("long_head_start")
@pytest_twisted.ensureDeferred
async def test_refusal_of_an_anonymous_reading_says_nothing_to_named_calls(site: Site, make: Make) -> None:
    """An anonymous call that is refused the manifest goes over TLS; a named one reads it, and both use QUIC then."""
    dispatcher, memory = Publishing(), Memory()
    dispatcher.is_open = False
    async with QuicHost(site, dispatcher) as host, make(agent_id=AGENT_ID, carrier_memory=memory) as client:
        dispatcher.port = host.quic.port or 0
        for _ in range(2):
            assert (await client.call(uri(host), "QUERY", anonymous=True)).status == 200
        assert (dispatcher.readings, memory.written) == (1, [])
        for anonymous in (False, True):
            assert (await client.call(uri(host), "QUERY", anonymous=anonymous)).status == 200
    assert [carrier for _, carrier in dispatcher.calls] == ["tls", "tls", "quic", "quic"]
    assert dispatcher.readings == 3 and [port for _, port, *_ in memory.written] == [dispatcher.port]


@pytest.mark.usefixtures("long_head_start")
@pytest_twisted.ensureDeferred
async def test_the_first_call_learns_of_quic_and_uses_it(site: Site, make: Make) -> None:
    """The manifest is read once, over TLS; all calls go over QUIC, at the port that it names; nothing is reported."""
    dispatcher, reported = Publishing(), []
    async with QuicHost(site, dispatcher) as host, make(on_fallback=reported.append) as client:
        dispatcher.port = host.quic.port or 0
        for method in ("QUERY", "BOOK", "QUERY"):
            assert (await client.call(uri(host), method)).status == 200
    assert dispatcher.calls == [("QUERY", "quic"), ("BOOK", "quic"), ("QUERY", "quic")]
    assert (dispatcher.readings, reported) == (1, [])
    assert dispatcher.peers[0].carrier == "tls"


@pytest.mark.usefixtures("long_head_start")
@pytest_twisted.ensureDeferred
async def test_calls_made_together_read_the_manifest_once(site: Site, make: Make) -> None:
    """The others wait for the one that reads."""
    dispatcher = Publishing()
    async with QuicHost(site, dispatcher) as host, make() as client:
        dispatcher.port = host.quic.port or 0
        await gatherResults([Deferred.fromCoroutine(client.call(uri(host), "QUERY")) for _ in range(3)])  # type: ignore[arg-type]
    assert dispatcher.calls == [("QUERY", "quic")] * 3
    assert dispatcher.readings == 1


FORGED = {
    "unsigned": {**sign_manifest(document(), KEY), "manifest_signature": None},
    "changed after it was signed": {
        **sign_manifest(document(), KEY),
        "transports": [{"carrier": "quic", "port": 9, "alpn": "agtp"}],
    },
    "no manifest": [],
}


@pytest.mark.parametrize("name", FORGED)
@pytest_twisted.ensureDeferred
async def test_an_offer_that_does_not_verify_is_none(site: Site, make: Make, name: str) -> None:
    """Calls go over TLS then, the manifest is not read again for each, and nothing is reported."""
    dispatcher, reported = Publishing(), []
    dispatcher.document = FORGED[name]
    async with Host(site, dispatcher) as host, make(on_fallback=reported.append) as client:
        for _ in range(2):
            await client.call(uri(host), "QUERY")
    assert dispatcher.calls == [("QUERY", "tls")] * 2
    assert (dispatcher.readings, reported) == (1, [])


@pytest_twisted.ensureDeferred
async def test_a_host_that_drops_the_reading_is_called_by_tls(site: Site, make: Make) -> None:
    """That a manifest cannot be read is no error of the call, which shows itself what is wrong, if anything is."""

    def drop_readings(request: Any, peer: Any, interim: Any) -> Any:
        if request.method != "DISCOVER":
            return at_once(request, peer, interim)
        host.factory.cut()
        return Deferred()

    dispatcher = FakeDispatcher(drop_readings)
    async with Host(site, dispatcher) as host, make() as client:
        assert (await client.call(uri(host), "BOOK")).status == 200
    assert [request.method for request in dispatcher.requests] == ["DISCOVER", "BOOK"]


@pytest_twisted.ensureDeferred
async def test_a_silent_port_is_replaced_by_tls_and_left_alone(site: Site, make: Make) -> None:
    """After the head start the call goes out once, over TLS; that is reported once, and UDP is not tried again."""
    dispatcher, reported = Publishing(), []
    with swallowing() as silent:
        memory = Memory(silent.getsockname()[1])
        async with Host(site, dispatcher) as host, make(on_fallback=reported.append, carrier_memory=memory) as client:
            assert (await client.call(uri(host), "BOOK")).status == 200
            assert 1 <= drain(silent) <= 4
            host.factory.cut()  # the next call needs a connection
            assert (await client.call(uri(host), "QUERY")).status == 200
            assert drain(silent) == 0
    assert dispatcher.calls == [("BOOK", "tls"), ("QUERY", "tls")]
    [fallback] = reported
    assert isinstance(fallback, Fallback) and fallback.cause == OVERTAKEN
    assert "QUIC is tried again after 5 minutes" in str(fallback)
    [(_, port, _, silent_for)] = memory.written
    assert port == memory.port and 240 < silent_for < 300.001  # The difference of two sums may be a rounding more.


@pytest.mark.usefixtures("long_head_start")
@pytest_twisted.ensureDeferred
async def test_a_closed_port_is_replaced_by_tls_without_a_wait(site: Site, make: Make) -> None:
    """Where the system reports that nothing listens, TLS is tried without the head start."""
    dispatcher, reported = Publishing(), []
    memory = Memory(closed_port())
    async with Host(site, dispatcher) as host, make(on_fallback=reported.append, carrier_memory=memory) as client:
        assert (await client.call(f"agtp://127.0.0.1:{host.port}", "BOOK")).status == 200
    assert dispatcher.calls == [("BOOK", "tls")]
    assert len(reported) == 1 and "Nothing listens at UDP port" in reported[0].cause


@pytest_twisted.ensureDeferred
async def test_a_host_that_is_down_says_nothing_of_quic(site: Site, make: Make) -> None:
    """Where TCP fails as well, the error is that of TLS, and QUIC is not blamed for it."""
    reported: list[Fallback] = []
    memory = Memory(closed_port())
    async with make(on_fallback=reported.append, carrier_memory=memory) as client:
        with pytest.raises(CannotConnect, match="nothing listens there"):
            await client.call(f"agtp://127.0.0.1:{closed_port()}", "QUERY")
    assert (reported, memory.written) == ([], [])


class DividedHost(QuicHost):
    """A host whose QUIC listener has another certificate than its TLS listener."""

    def __init__(self, site: Site, dispatcher: FakeDispatcher, other: Site) -> None:
        super().__init__(site, dispatcher)
        self.other = ServerTLS.load(other.files)

    async def __aenter__(self) -> QuicHost:
        own, self.tls = self.tls, self.other
        try:
            return await super().__aenter__()
        finally:
            self.tls = own


@pytest.mark.usefixtures("long_head_start")
@pytest_twisted.ensureDeferred
async def test_a_wrong_certificate_over_quic_is_not_hidden_by_tls(
    site: Site, make: Make, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """
    An identity that fails stays an error, though TLS would answer, and nothing was sent.

    What was remembered is forgotten: another host may have the port by now, and the next call reads the manifest again.
    """
    dispatcher, reported = Publishing(), []
    async with DividedHost(site, dispatcher, make_site(tmp_path_factory.mktemp("other"))) as host:
        port = host.quic.port
        memory = Memory(port)
        async with make(on_fallback=reported.append, carrier_memory=memory) as client:
            with pytest.raises(TLSRefused, match="not trusted"):
                await client.call(uri(host), "QUERY")
            assert (dispatcher.requests, reported) == ([], [])
            assert memory.written == [(Destination("localhost", host.port), port, 0.0, 0.0)]
            assert (await client.call(uri(host), "QUERY")).status == 200
    assert (dispatcher.calls, dispatcher.readings, reported) == ([("QUERY", "tls")], 1, [])


@pytest.mark.usefixtures("long_head_start")
@pytest_twisted.ensureDeferred
async def test_a_refused_caller_is_not_tried_again_by_tls(
    site: Site, make: Make, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A host that refuses the client's certificate over QUIC gets no second attempt, and nothing is dispatched."""
    dispatcher, reported = Publishing(), []
    strange = good(make_site(tmp_path_factory.mktemp("strange")).root)
    certificate, key = strange.save(site.folder, "strange")
    async with QuicHost(site, dispatcher) as host:
        memory = Memory(host.quic.port)
        async with make(on_fallback=reported.append, carrier_memory=memory, cert=certificate, key=key) as client:
            with pytest.raises(TLSRefused):
                await client.call(uri(host), "QUERY")
    assert (dispatcher.calls, reported) == ([], [])


@pytest.mark.usefixtures("long_head_start")
@pytest.mark.parametrize(("method", "repeated"), [("QUERY", True), ("BOOK", False)])
@pytest_twisted.ensureDeferred
async def test_a_quic_host_that_dies_within_a_call(site: Site, make: Make, method: str, repeated: bool) -> None:
    """Only a call that may be carried out twice is made again, once and over TLS; any other is an error."""

    def die(request: Any, peer: Any, interim: Any) -> Any:
        if peer.carrier == "tls":
            return at_once(request, peer, interim)
        for link in host.quic.endpoint._links:
            link.core.close(0x05)
            link._wake()
        return Deferred()

    dispatcher, reported = Publishing(die), []
    host = QuicHost(site, dispatcher)
    async with host:
        memory = Memory(host.quic.port)
        async with make(on_fallback=reported.append, carrier_memory=memory) as client:
            if repeated:
                assert (await client.call(uri(host), method)).status == 200
            else:
                with pytest.raises(ConnectionLost, match="before it answered"):
                    await client.call(uri(host), method)
    assert dispatcher.calls == ([(method, "quic"), (method, "tls")] if repeated else [(method, "quic")])
    assert len(reported) == repeated
    assert not repeated or "ended the connection" in reported[0].cause


@pytest.mark.usefixtures("long_head_start")
@pytest_twisted.ensureDeferred
async def test_a_call_that_a_draining_host_has_not_begun_is_made_once(site: Site, make: Make) -> None:
    """Answered with 0x06 a call of any method is made again, and dispatched once."""

    def drain_after_the_first(request: Any, peer: Any, interim: Any) -> Any:
        for link in host.quic.endpoint._links:
            link._draining = len(dispatcher.requests) == 1
        return at_once(request, peer, interim)

    dispatcher = Publishing(drain_after_the_first)
    host = QuicHost(site, dispatcher)
    with _held_closing():
        async with host, make(carrier_memory=(memory := Memory())) as client:
            memory.port = host.quic.port
            for _ in range(2):
                assert (await client.call(uri(host), "BOOK")).status == 200
    assert [method for method, _ in dispatcher.calls] == ["BOOK", "BOOK"]


@pytest.mark.parametrize("is_silent", [True, False])
@pytest_twisted.ensureDeferred
async def test_a_silent_host_is_not_given_more_time(
    site: Site, make: Make, is_silent: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where nothing came for longer than a PING takes, the network is the likely cause; else the call is slow."""
    monkeypatch.setattr("agtphost.client.deadline.LONGEST_SILENCE", 0.3 if is_silent else 3600.0)

    def fall_silent(request: Any, peer: Any, interim: Any) -> Any:
        if request.method == "DESCRIBE":
            return at_once(request, peer, interim)
        monkeypatch.setattr(host.quic.endpoint, "transmit", lambda *_: None)
        return Deferred()

    async with QuicHost(site, FakeDispatcher(fall_silent)) as host, make(quic=True) as client:
        await client.call(uri(host), "DESCRIBE")
        with pytest.raises(Timeout) as caught:
            await client.call(uri(host), "QUERY", timeout=1.0)
    assert ("nothing has come from the host" in str(caught.value)) is is_silent
    assert caught.value.remedy.startswith("Check the network" if is_silent else "Allow it more time.")
