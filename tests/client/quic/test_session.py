"""Calls of a client over QUIC in virtual time: whom it calls, what it sends when, and how each call ends."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from aioquic.quic.packet import QuicProtocolVersion
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID
from twisted.internet.defer import Deferred, succeed

from agtphost.client import CannotConnect, ConnectionLost, ProtocolBroken, TLSRefused
from agtphost.client.deadline import LONGEST_SILENCE, Deadline
from agtphost.client.quic.core import WINDOW
from agtphost.client.quic.errors import Unanswered
from agtphost.client.quic.session import ANSWER_SECONDS, PING_SECONDS
from agtphost.protocols.quic.core import ServerCore
from agtphost.vocabulary.quic_codes import Code
from agtphost.wire.quic.connection import LONGEST_PROBE, BoundedConnection
from tests.client.quic.sessions import ADDRESS, SessionClient, call_of, credentials_of
from tests.protocols.authorities import AGENT_ID, DAY, Identity, issue, now, revocation_list
from tests.protocols.links import FakeDispatcher, reply
from tests.protocols.loopback import Site
from tests.protocols.quic.network import HOST, Network, QuicHost, quic_site
from tests.protocols.test_tls import good

SEED = 20_261_129


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return quic_site(tmp_path)


def serve(site: Site, identity: Identity) -> None:
    """Give the host another certificate."""
    certificate, key = identity.save(site.folder, "other-server")
    site.files = site.files.model_copy(update={"certificate": certificate, "key": key})


def test_calls_are_answered_one_after_the_other(site: Site) -> None:
    """Each call has a stream of its own, shows the client's certificate, and leaves the connection in order."""
    network = Network()
    host = QuicHost(network, site)
    client = SessionClient(network, credentials_of(site, good(site.root))).connect()
    answers = [client.call(call_of(task=f"task-{number}")) for number in range(3)]
    assert [(answer.status, answer.headers.get("task-id")) for answer in answers] == [
        (200, f"task-{number}") for number in range(3)
    ]
    assert client.session.reusable
    assert {peer.certificate and peer.certificate.agent_id for peer in host.dispatcher.peers} == {AGENT_ID}
    client.close()
    network.run(lambda: host.endpoint.links == 0)
    assert not client.session.reusable


def test_a_taken_answer_costs_no_datagram(site: Site) -> None:
    """Of a stream that has ended no more comes: the host is not told how much more it may send on it."""
    network = Network()
    QuicHost(network, site)
    client = SessionClient(network, credentials_of(site, good(site.root))).connect()
    client.call(call_of())
    answer = client.ask(call_of(task="task-2"))
    network.run(lambda: not answer.is_out)
    assert client.found[answer]
    assert client.session.datagrams(network.clock.seconds()) == []


def test_the_first_request_waits_for_the_servers_certificate(site: Site) -> None:
    """Nothing of a request is sent with the first flight: there is no early data."""
    network = Network()
    host = QuicHost(network, site)
    client = SessionClient(network, credentials_of(site))
    assert not client.session.reusable and client.core.configuration.session_ticket is None
    with pytest.raises(AssertionError):
        client.ask(call_of())
    client.connect().call(call_of())
    assert len(host.dispatcher.requests) == 1


def test_the_first_request_leaves_with_the_end_of_the_handshake(site: Site) -> None:
    """The first answer takes two round trips, where TLS takes three; also where little room is left behind it."""
    for size in range(320, 500, 30):
        network = Network(delay=0.075)
        QuicHost(network, site)
        padding = x509.UnrecognizedExtension(x509.ObjectIdentifier("1.3.6.1.4.1.99999.1"), bytes(size))
        identity = issue(site.root, name="agent", extensions=[(padding, False)])
        client = SessionClient(network, credentials_of(site, identity))
        ask_when_ready(network, client)
        network.run(lambda: client.last is not None)  # noqa: B023 - called before the next one is made
        assert client.wait().status == 200
        assert 0.3 <= network.clock.seconds() < 0.4, size


def ask_when_ready(network: Network, client: SessionClient) -> None:
    """Let a client make its call in the turn in which its handshake ends."""

    def take(octets: bytes, origin: Any) -> None:
        client.session.receive(octets, network.clock.seconds())
        if client.session.is_ready and client.last is None:
            client.ask(call_of())
        else:
            client.flush()

    network.receivers[ADDRESS] = take


@pytest.mark.parametrize(
    ("options", "name", "message"),
    [
        ({}, "elsewhere.example", "not for elsewhere.example"),
        ({}, "127.0.0.2", "not for 127.0.0.2"),
        ({"start": now() - 3 * DAY, "end": now() - DAY}, "localhost", "expired"),
        ({"usage": ExtendedKeyUsageOID.CLIENT_AUTH}, "localhost", "not one for servers"),
        ({"issuer": None}, "localhost", "no authority that is trusted here"),
        ({"issuer": "another"}, "localhost", "not trusted"),
    ],
    ids=["name", "address", "expired", "purpose", "self-signed", "authority"],
)
def test_a_bad_server_gets_neither_certificate_nor_request(
    site: Site, options: dict[str, Any], name: str, message: str
) -> None:
    """A server that TLS would refuse is refused within the handshake, in the words of TLS."""
    given = {"issuer": site.root, "usage": ExtendedKeyUsageOID.SERVER_AUTH, "name": "localhost", **options}
    if given["issuer"] == "another":
        given["issuer"] = issue(name="root", authority=True)
    serve(site, issue(given.pop("issuer"), **given))
    network = Network()
    host = QuicHost(network, site)
    client = SessionClient(network, credentials_of(site, good(site.root)), name=name).connect()
    assert isinstance(client.session.fault, TLSRefused)
    assert message in str(client.session.fault)
    assert client.session.fault.remedy
    network.pass_time(5)
    assert host.dispatcher.requests == [] and host.endpoint.links == 0
    assert not any(link.core.client_chain for link in host.endpoint._links)


def test_a_server_without_the_check_is_not_used(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: where the library does not come by the check of the certificate, the connection is refused."""
    monkeypatch.setattr("agtphost.client.quic.core.ClientCore._initialize", BoundedConnection._initialize)
    network = Network()
    QuicHost(network, site)
    client = SessionClient(network, credentials_of(site)).connect()
    assert not client.session.is_ready
    assert isinstance(client.session.fault, TLSRefused)


def test_a_server_without_the_key_of_its_certificate_is_refused(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """A certificate that anybody can copy is no proof: the server signs the handshake with its key."""
    choose, other = ServerCore._choose_certificate, issue()

    def choose_without_key(self: ServerCore, context: Any, name: str | None) -> None:
        choose(self, context, name)
        context.certificate_private_key = other.key

    monkeypatch.setattr(ServerCore, "_choose_certificate", choose_without_key)
    network = Network()
    host = QuicHost(network, site)
    client = SessionClient(network, credentials_of(site)).connect()
    assert isinstance(client.session.fault, TLSRefused)
    assert not client.core.is_verified and host.dispatcher.requests == []


def test_servers_may_open_no_streams(site: Site) -> None:
    """A host is told that the client takes neither requests nor pushes."""
    network = Network()
    host = QuicHost(network, site)
    SessionClient(network, credentials_of(site)).connect()
    [link] = host.endpoint._links
    core: Any = link.core
    assert (core._remote_max_streams_bidi, core._remote_max_streams_uni) == (0, 0)


@pytest.mark.parametrize("kind", ["revoked", "strange", "missing"])
def test_a_refused_client_certificate_is_named(site: Site, kind: str) -> None:
    """The host refuses a client after the client's side of the handshake: the error is that of TLS all the same."""
    identity: Identity | None = good(site.root)
    message = {"revoked": "was revoked", "strange": "authority of the client", "missing": "wants a client certificate"}
    if kind == "revoked":
        assert identity is not None
        crl = site.folder / "crl.pem"
        crl.write_bytes(revocation_list(site.root, identity))
        site.files = site.files.model_copy(update={"client_crl": (crl,)})
    elif kind == "strange":
        identity = good(issue(name="another", authority=True))
    else:
        identity = None
        site.files = site.files.model_copy(update={"client_auth": "required"})
    network = Network()
    host = QuicHost(network, site)
    client = SessionClient(network, credentials_of(site, identity)).connect()
    client.ask(call_of())
    with pytest.raises(TLSRefused, match=message[kind]):
        client.wait()
    assert host.dispatcher.requests == []


def test_another_application_protocol_is_refused(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """A QUIC server without AGTP is refused, whichever side notices."""
    monkeypatch.setattr("agtphost.protocols.quic.core.PROTOCOLS", ("h3",))
    network = Network()
    QuicHost(network, site)
    client = SessionClient(network, credentials_of(site)).connect()
    assert isinstance(client.session.fault, TLSRefused)
    assert "does not speak AGTP" in str(client.session.fault)


def test_a_silent_network_is_noticed_after_a_few_transmissions(site: Site) -> None:
    """Without any datagram of the server the client gives up after three seconds and at most six transmissions."""
    network = Network()
    client = SessionClient(network, credentials_of(site))
    network.run(lambda: client.session.fault, seconds=ANSWER_SECONDS)
    assert isinstance(client.session.fault, Unanswered)
    assert network.clock.seconds() == pytest.approx(ANSWER_SECONDS, abs=0.01)
    assert 3 <= len(network.carried) <= 6
    assert {len(octets) for _, _, octets in network.carried} == {1200}


def test_garbage_is_no_answer(site: Site) -> None:
    """Datagrams that are not the server's do not count as its answer."""
    network = Network()
    client = SessionClient(network, credentials_of(site))
    for kind in (b"\x00", b"\x40", b"\xc0\x00\x00\x00\x01"):
        network.carry(kind + bytes(100), HOST, ADDRESS)
    network.run(lambda: client.session.fault, seconds=ANSWER_SECONDS)
    assert isinstance(client.session.fault, Unanswered)


def test_a_closed_port_is_noticed_at_the_first_report(site: Site) -> None:
    """Before the handshake one report of the network is enough; one that may be forged ends no open connection."""
    network = Network()
    unanswered = SessionClient(network, credentials_of(site))
    unanswered.session.note_unreachable()
    assert isinstance(unanswered.session.fault, CannotConnect)
    QuicHost(network, site, FakeDispatcher())
    client = SessionClient(network, credentials_of(site)).connect()
    client.ask(call_of())
    for _ in range(2):
        client.session.note_unreachable()
    assert client.session.fault is None
    client.session.note_unreachable()
    assert isinstance(client.session.fault, ConnectionLost)


def test_an_answer_larger_than_the_windows_is_whole(site: Site) -> None:
    """An answer of 2 MiB arrives whole, and the server may never be further ahead of its reader than the windows."""
    network = Network()
    dispatcher = FakeDispatcher()
    QuicHost(network, site, dispatcher)
    client = SessionClient(network, credentials_of(site)).connect()
    call = client.ask(call_of())
    network.run(lambda: dispatcher.waiting)
    dispatcher.answer(b"x" * (2 << 20))
    ahead: list[int] = []

    def is_whole() -> bool:
        ahead.extend(each.max_stream_data_local - call.consumed for each in client.core._streams.values())
        return bool(client.replies)

    network.run(is_whole)
    assert client.replies[-1].body == b"x" * (2 << 20)
    assert 0 < max(ahead) <= WINDOW
    assert client.core._local_max_data.value <= (2 << 20) + 5 * WINDOW


def test_a_server_that_leaves_gaps_is_cut_off(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that sends beyond the window that it was given ends its connection, and nothing is kept."""
    network = Network()
    dispatcher = FakeDispatcher()
    QuicHost(network, site, dispatcher)
    client = SessionClient(network, credentials_of(site)).connect()
    client.ask(call_of())
    network.run(lambda: dispatcher.waiting)
    stream = client.core._streams[0]
    stream.max_stream_data_local = 1000  # as if the server did not obey
    dispatcher.answer(b"x" * 5000)
    with pytest.raises(ConnectionLost):
        client.wait()
    assert client.core.termination is not None and client.core.termination.error_code == 0x03  # FLOW_CONTROL_ERROR


def test_an_answer_beyond_the_limits_is_refused(site: Site) -> None:
    """The client's limits hold as over TLS: a body that is declared too large is an error, before it is read."""
    network = Network()
    dispatcher = FakeDispatcher()
    QuicHost(network, site, dispatcher)
    client = SessionClient(network, credentials_of(site)).connect()
    client.session._limits = client.session._limits.__class__(body=100)
    call = client.ask(call_of())
    network.run(lambda: dispatcher.waiting)
    dispatcher.answer(b"x" * (1 << 20))
    with pytest.raises(ProtocolBroken):
        client.wait()
    assert call.consumed < WINDOW


@pytest.mark.parametrize(("begun", "code"), [(False, 0x05), (True, 0x05), (True, Code.ENDING)])
def test_a_host_that_ends_within_a_call_is_named(site: Site, begun: bool, code: int) -> None:
    """A connection that ends before the answer is complete is lost; the error says whether any of it had arrived."""
    network = Network()
    dispatcher = FakeDispatcher()
    host = QuicHost(network, site, dispatcher)
    client = SessionClient(network, credentials_of(site)).connect()
    client.ask(call_of())
    network.run(lambda: dispatcher.waiting)
    [link] = host.endpoint._links
    if begun:
        link.core.send_stream_data(0, b"AGTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nab")
        link._wake()
        network.pass_time(1)
    link.core.close(code)
    link._wake()
    with pytest.raises(ConnectionLost, match="within its answer" if begun else "before it answered") as lost:
        client.wait()
    assert (lost.value.answered, lost.value.unprocessed) == (begun, False)


def test_a_stream_that_ends_within_the_answer_is_an_error_of_its_call(site: Site) -> None:
    """An answer that is cut off is no answer, and the connection serves the next call."""
    network = Network()
    dispatcher = FakeDispatcher()
    host = QuicHost(network, site, dispatcher)
    client = SessionClient(network, credentials_of(site)).connect()
    client.ask(call_of())
    network.run(lambda: dispatcher.waiting)
    [link] = host.endpoint._links
    link.core.send_stream_data(0, b"AGTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nab", end_stream=True)
    link._wake()
    with pytest.raises(ConnectionLost, match="within its answer"):
        client.wait()
    assert client.session.reusable


def test_a_host_that_drains_says_which_call_was_not_begun(site: Site) -> None:
    """A call that meets the end of a host is known to be unprocessed, and its connection serves no more."""
    network = Network()
    host = QuicHost(network, site)
    client = SessionClient(network, credentials_of(site)).connect()
    [link] = host.endpoint._links
    link._draining = True  # The notice that the host sends to idle connections is still on its way.
    client.ask(call_of("BOOK"))
    with pytest.raises(ConnectionLost) as lost:
        client.wait()
    assert lost.value.unprocessed and not lost.value.answered
    assert not client.session.reusable
    assert host.dispatcher.requests == []


def test_a_host_that_was_started_again_is_noticed(site: Site) -> None:
    """The stateless reset of a host that knows the connection no more ends it within a round trip."""
    network = Network()
    QuicHost(network, site)
    client = SessionClient(network, credentials_of(site)).connect()
    client.call(call_of())
    QuicHost(network, site)
    began = network.clock.seconds()
    client.ask(call_of(body=b"x" * 100))
    with pytest.raises(ConnectionLost, match="does not know"):
        client.wait()
    assert network.clock.seconds() - began < 0.1


def test_a_call_that_is_given_up_leaves_the_connection(site: Site) -> None:
    """Cancelling resets the stream: the host hears of it, and the next call needs no handshake."""
    network = Network()
    dispatcher = FakeDispatcher()
    host = QuicHost(network, site, dispatcher)
    client = SessionClient(network, credentials_of(site)).connect()
    client.ask(call_of())
    network.run(lambda: dispatcher.waiting)
    left: list[int] = []
    dispatcher.peers[0].leaving.add(lambda: left.append(1))
    client.give_up()
    network.run(lambda: left)
    dispatcher.answer()
    client.ask(call_of(task="task-2"))
    network.run(lambda: dispatcher.waiting)
    dispatcher.answer()
    assert client.wait().headers.get("task-id") == "task-2"
    assert host.factory.connections == 1


def test_a_slow_call_keeps_its_way_open(site: Site) -> None:
    """While a call waits, something is sent every fifteen seconds; between calls nothing is."""
    network = Network()
    dispatcher = FakeDispatcher()
    QuicHost(network, site, dispatcher)
    client = SessionClient(network, credentials_of(site)).connect()
    client.ask(call_of())
    network.run(lambda: dispatcher.waiting)
    network.pass_time(1)

    def sent() -> int:
        return sum(origin == ADDRESS for origin, _, _ in network.carried)

    before = sent()
    network.pass_time(60)  # Translators forget after 30 seconds, and a PING may be lost.
    assert 4 <= sent() - before <= 12
    dispatcher.answer()
    assert client.wait().status == 200
    network.pass_time(1)
    before = sent()
    network.pass_time(2 * PING_SECONDS)
    assert sent() == before


def test_no_answer_is_lost_or_doubled_on_a_bad_network(site: Site) -> None:
    """With a tenth of the datagrams lost, doubled and late, each call is dispatched once and has its own answer."""
    for seed in range(SEED, SEED + 6):
        network = Network(seed, loss=0.1, doubled=0.1, jitter=0.05)

        def answer(request: Any, peer: Any, interim: Any, network: Network = network) -> Any:
            late: Deferred[Any] = Deferred()
            octets = (request.headers.get("task-id") or "").encode() * network.random.choice((1, 100, 3000))
            network.clock.callLater(network.random.random(), late.callback, reply(request, octets))
            return late

        host = QuicHost(network, site, FakeDispatcher(answer))
        client = SessionClient(network, credentials_of(site), patience=20).connect()
        for number in range(4):
            name = f"task-{seed}-{number}"
            answered = client.call(call_of(task=name))
            assert answered.headers.get("task-id") == name, seed
            assert answered.body and answered.body == name.encode() * (len(answered.body) // len(name)), seed
        assert len(host.dispatcher.requests) == 4, seed


def test_octets_behind_an_answer_end_the_use_of_the_connection(site: Site) -> None:
    """A server that says more than it was asked is not called again on this connection."""
    network = Network()
    dispatcher = FakeDispatcher(lambda request, peer, interim: succeed(reply(request)))
    host = QuicHost(network, site, dispatcher)
    client = SessionClient(network, credentials_of(site)).connect()
    [link] = host.endpoint._links
    finish = link.finish

    def finish_with_more(number: int) -> None:
        link.core.send_stream_data(number, b"AGTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n")
        finish(number)

    link.finish = finish_with_more  # type: ignore[method-assign]
    assert client.call(call_of()).status == 200
    network.pass_time(1)
    assert not client.session.reusable


def test_only_quic_version_1_is_offered(site: Site) -> None:
    """Neither version 2 nor a downgrade is negotiated."""
    client = SessionClient(Network(), credentials_of(site))
    assert client.core.configuration.supported_versions == [QuicProtocolVersion.VERSION_1]
    assert issubclass(ServerCore, BoundedConnection)


@pytest.mark.parametrize("lost", ["request", "answer"])
def test_an_outage_is_over_a_few_seconds_after_its_end(site: Site, lost: str) -> None:
    """What is lost for 44 seconds arrives within three seconds of their end, by few probes of a silent peer."""
    network = Network()
    dispatcher = FakeDispatcher()
    QuicHost(network, site, dispatcher)
    client = SessionClient(network, credentials_of(site)).connect()
    if lost == "request":
        network.silent_until = network.clock.seconds() + 44
        client.ask(call_of("BOOK"))
    else:
        client.ask(call_of("BOOK"))
        network.run(lambda: dispatcher.waiting)
        network.silent_until = network.clock.seconds() + 44
        dispatcher.answer(b"x" * 3000)
    sent = len(network.carried)
    network.pass_time(44)
    assert len(network.carried) - sent < 60
    if lost == "request":
        network.run(lambda: dispatcher.waiting, 3.5)
        dispatcher.answer()
    assert client.wait(seconds=3.5).status == 200


def test_a_host_learns_of_an_address_that_changed_before_the_handshake_was_confirmed(site: Site) -> None:
    """Probes of the handshake, for which the host has no keys any more, have something with them that it can read."""
    network = Network()
    dispatcher = FakeDispatcher()
    QuicHost(network, site, dispatcher)
    client = SessionClient(network, credentials_of(site, good(site.root))).connect()
    client.ask(call_of("BOOK"))
    receive = network.receivers.pop(ADDRESS)
    network.run(lambda: dispatcher.waiting)
    client.address = ("203.0.113.9", 40_000)
    network.receivers[client.address] = receive
    dispatcher.answer()
    assert client.wait(seconds=5).status == 200


def test_a_handshake_is_probed_several_times_before_a_host_gives_it_up(site: Site) -> None:
    """The client's last flight is lost until shortly before the host's patience ends."""
    network = Network()
    host = QuicHost(network, site)
    client = SessionClient(network, credentials_of(site, good(site.root)))
    network.run(lambda: any(origin == HOST for origin, _, _ in network.carried))
    network.silent_until = host.factory.limits.handshake_timeout - 1
    client.connect()
    assert client.call(call_of()).status == 200


def test_client_whose_handshake_took_a_host_too_long_is_told(site: Site) -> None:
    """Its last flight arrives after the host gave the handshake up: the call ends then, and not a minute later."""
    network = Network()
    host = QuicHost(network, site)
    client = SessionClient(network, credentials_of(site, good(site.root)))
    network.run(lambda: any(origin == HOST for origin, _, _ in network.carried))
    network.silent_until = host.factory.limits.handshake_timeout + 2
    client.connect().ask(call_of())
    network.run(lambda: network.clock.seconds() > network.silent_until)
    with pytest.raises(ConnectionLost, match="does not know"):
        client.wait(seconds=3.5)
    assert host.endpoint.counts.handshakes == {"late": 1}


def test_silence_before_a_call_says_nothing_of_the_network(site: Site) -> None:
    """A host sends nothing while no call waits: the error of a short call names the time, and asks for more."""
    network = Network(delay=0.2)
    QuicHost(network, site)
    client = SessionClient(network, credentials_of(site)).connect()
    client.call(call_of())
    network.pass_time(LONGEST_SILENCE + 5)
    deadline = Deadline(network.clock.seconds, 0.3)
    deadline.count_silence = lambda: client.session.count_silence(network.clock.seconds())
    client.ask(call_of())
    network.pass_time(0.3)
    assert deadline.count_silence() > LONGEST_SILENCE
    assert deadline.timeout_error().remedy == "Allow it more time."


def test_a_call_after_an_outage_without_one_is_probed_every_three_seconds(site: Site) -> None:
    """In the outage the client has doubled its pause between probes; its request, which is lost, does not wait so."""
    network = Network(delay=0.03)
    host = QuicHost(network, site)
    client = SessionClient(network, credentials_of(site))
    network.run(lambda: any(link.core._handshake_confirmed for link in host.endpoint._links))
    network.silent_until = network.clock.seconds() + 25
    network.pass_time(25)
    network.silent_until = network.clock.seconds() + 0.01
    client.ask(call_of())
    assert client.wait(seconds=LONGEST_PROBE + 0.5).status == 200
