"""Calls over QUIC: who calls, what is answered, and what ends which call."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
from aioquic.buffer import encode_uint_var
from aioquic.quic.connection import QuicConnection
from aioquic.quic.packet import QuicProtocolVersion
from cryptography import x509
from twisted.internet.defer import succeed

from agtphost.config.tls import TLSServer
from agtphost.protocols import ConnectionLimits
from agtphost.protocols.quic import core
from agtphost.vocabulary.quic_codes import CRYPTO_ERROR, Code
from tests.protocols.authorities import AGENT_ID, issue, revocation_list
from tests.protocols.links import FakeDispatcher, ask, reply
from tests.protocols.loopback import Site
from tests.protocols.quic.network import HOST, Network, QuicClient, QuicHost, logged_failures, quic_site
from tests.protocols.test_tls import ACCEPTED, REFUSED, good

OK = b"AGTP/1.0 200 OK\r\n"

MAX_UDP_PAYLOAD_SIZE, ACK_DELAY_EXPONENT = 0x03, 0x0A
"""Transport parameters (RFC 9000 section 18.2)."""


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return quic_site(tmp_path)


def test_request_of_a_stream_is_answered_on_it(site: Site) -> None:
    """Requests on streams of one connection are answered, each on its own, with the client's certificate."""
    network = Network()
    host = QuicHost(network, site)
    client = QuicClient(network, site, good(site.root)).connect()
    first, second = client.call(), client.call(ends=False)
    answers = client.wait(first, second)
    assert all(answer.startswith(OK) for answer in answers)
    one, two = host.dispatcher.peers
    assert one.certificate is not None and one.certificate.agent_id == AGENT_ID
    assert (one.carrier, one.transport, one.server_name, one.address) == ("quic", "agtp", "localhost", "198.51.100.7")
    assert one.link is two.link and one.leaving is not two.leaving
    client.close()
    network.pass_time(5)
    assert (host.endpoint.links, host.endpoint.connection_ids, host.factory.connections) == (0, 0, 0)


@pytest.mark.parametrize("kind", [*ACCEPTED, *REFUSED])
def test_certificates_have_the_verdict_of_tls(site: Site, kind: str) -> None:
    """A client that TLS refuses is refused, and nothing that came with its Finished reaches the dispatcher."""
    network = Network()
    host = QuicHost(network, site)
    client = QuicClient(network, site, (ACCEPTED | REFUSED)[kind](site.root))
    network.run(lambda: client.is_connected)
    client.call()  # with Finished, or right after it
    network.run(lambda: client.ended or client.closed)
    if kind in ACCEPTED:
        assert client.answers[0].startswith(OK)
    else:
        assert client.closed is not None and CRYPTO_ERROR + 42 <= client.closed.error_code <= CRYPTO_ERROR + 48
        assert client.closed.frame_type is not None  # of the transport, so that other stacks understand it
        assert host.dispatcher.requests == []
        assert host.endpoint.links == 0


@pytest.mark.parametrize(
    ("client_auth", "shown", "served"),
    [("required", False, False), ("required", True, True), ("optional", False, True), ("none", True, True)],
)
def test_certificate_where_it_is_required(tmp_path: Path, client_auth: str, shown: bool, served: bool) -> None:
    """Without a certificate where one is required the handshake ends; where none is asked for, none counts."""
    site = quic_site(tmp_path, client_auth)
    network = Network()
    host = QuicHost(network, site)
    client = QuicClient(network, site, good(site.root) if shown else None)
    network.run(lambda: client.is_connected)
    client.call()
    network.run(lambda: client.ended or client.closed)
    if served:
        [peer] = host.dispatcher.peers
        assert (peer.certificate is not None) is (shown and client_auth != "none")
    else:
        assert client.closed is not None and client.closed.error_code == CRYPTO_ERROR + 116
        assert host.dispatcher.requests == []


def test_revoked_certificate_is_refused(tmp_path: Path) -> None:
    """A certificate on a list of its authority ends the handshake, as on TLS."""
    site = quic_site(tmp_path)
    identity, other = good(site.root), good(site.root)
    crl = tmp_path / "crl.pem"
    crl.write_bytes(revocation_list(site.root, identity))
    site.files = site.files.model_copy(update={"client_crl": (crl,)})
    network = Network()
    host = QuicHost(network, site)
    refused, taken = (
        QuicClient(network, site, each, address=("198.51.100.7", n)) for n, each in enumerate((identity, other), 1)
    )
    network.run(lambda: refused.closed and taken.is_connected)
    assert taken.wait(taken.call())[0].startswith(OK)
    assert refused.closed is not None and refused.closed.error_code == CRYPTO_ERROR + 44
    assert len(host.dispatcher.requests) == 1


@pytest.mark.parametrize(("name", "is_served"), [("other.test", True), ("OTHER.test", True), ("third.test", False)])
def test_a_name_has_the_certificate_that_is_set_for_it(tmp_path: Path, name: str, is_served: bool) -> None:
    """The host shows the certificate of the name that a client asks for, as on TLS, and tells gates which it was."""
    site = quic_site(tmp_path)
    names = x509.SubjectAlternativeName([x509.DNSName("other.test")])
    named = issue(site.root, usage=None, extensions=[(names, False)])
    certificate, key = named.save(tmp_path, "named")
    site.files = site.files.model_copy(
        update={"server": (TLSServer(name="other.test", certificate=certificate, key=key),)}
    )
    network = Network()
    host = QuicHost(network, site)
    client = QuicClient(network, site, name=name).connect()
    assert client.is_connected is is_served
    if is_served:
        client.wait(client.call())
        assert host.dispatcher.peers[0].server_name == "other.test"


def test_new_connections_have_the_certificate_of_a_reload(site: Site, tmp_path: Path) -> None:
    """After a reload a new connection gets the new certificate; one that is open goes on."""
    network = Network()
    host = QuicHost(network, site)
    before = QuicClient(network, site).connect()
    (tmp_path / "other").mkdir()
    other = quic_site(tmp_path / "other")
    host.tls.follow(type(host.tls).load(other.files))
    after = QuicClient(network, other, address=("198.51.100.7", 2)).connect()
    stale = QuicClient(network, site, address=("198.51.100.7", 3)).connect()
    assert after.is_connected and not stale.is_connected
    assert before.wait(before.call())[0].startswith(OK)


def test_other_application_protocols_are_refused(site: Site) -> None:
    """A client that offers neither agtp nor agtp/1.0 gets the alert no_application_protocol."""
    network = Network()
    QuicHost(network, site)
    client = QuicClient(network, site, protocols=("h3",)).connect()
    assert client.closed is not None and client.closed.error_code == CRYPTO_ERROR + 120
    assert QuicClient(network, site, protocols=("agtp/1.0",), address=("198.51.100.7", 2)).connect().is_connected


def test_first_choices_of_the_host_are_taken(site: Site) -> None:
    """Of two protocols agtp is taken, in whichever order a client has them; and of two versions the first of QUIC."""
    network = Network()
    QuicHost(network, site)
    both = [QuicProtocolVersion.VERSION_2, QuicProtocolVersion.VERSION_1]
    options = {"supported_versions": both, "original_version": QuicProtocolVersion.VERSION_1}
    client = QuicClient(network, site, protocols=("agtp/1.0", "agtp"), **options).connect()
    assert client.is_connected and client.core.tls.alpn_negotiated == "agtp"
    assert client.core._version == QuicProtocolVersion.VERSION_1


def test_stream_carries_one_request(site: Site) -> None:
    """What follows a request is not read: STOP_SENDING, and the answer of the first alone."""
    network = Network()
    host = QuicHost(network, site)
    client = QuicClient(network, site).connect()
    number = client.call(ask() + ask(), ends=False)
    client.wait(number)
    network.pass_time(1)
    assert client.answers[number].startswith(OK) and client.answers[number].count(b"AGTP/1.0") == 1
    assert len(host.dispatcher.requests) == 1
    assert client.stopped[number] in (Code.MISUSED, Code.DONE)


def test_refused_surplus_does_not_cancel_the_call(site: Site) -> None:
    """A client resets its direction when it is asked to send no more, and still gets the answer of its request."""
    network = Network()
    dispatcher = FakeDispatcher()
    QuicHost(network, site, dispatcher)
    client = QuicClient(network, site).connect()
    number = client.call(ask() + ask(), ends=False)
    network.run(lambda: number in client.stopped)
    network.pass_time(1)
    dispatcher.answer()
    assert client.wait(number)[0].startswith(OK)
    assert client.stopped[number] == Code.MISUSED and number not in client.reset


def test_an_answer_to_a_request_without_fin_is_whole(site: Site) -> None:
    """The host refuses more octets once it has given the whole answer to QUIC; the client's reset cancels nothing."""
    network = Network()
    dispatcher = FakeDispatcher()
    host = QuicHost(network, site, dispatcher)
    client = QuicClient(network, site, max_stream_data=1000).connect()
    widen = client.core._write_stream_limits
    client.core._write_stream_limits = lambda **arguments: None  # type: ignore[method-assign, assignment]
    number = client.call(ends=False)
    network.run(lambda: dispatcher.waiting)
    dispatcher.answer(b"x" * 5000)
    [link] = host.endpoint._links
    network.run(lambda: link.core.has_received_all(number))
    assert len(client.answers[number]) == 1000 and client.stopped[number] == Code.DONE
    client.core._write_stream_limits = widen  # type: ignore[method-assign]
    client.core.send_ping(1)
    client.flush()
    assert client.wait(number)[0].endswith(b"\r\n\r\n" + b"x" * 5000)
    assert number not in client.reset


def test_end_within_a_request_is_answered(site: Site) -> None:
    """FIN inside a request is refused on the stream, and the connection goes on."""
    network = Network()
    host = QuicHost(network, site)
    client = QuicClient(network, site).connect()
    broken = client.call(ask()[:-4])
    empty = client.call(b"")
    client.wait(broken, empty)
    assert b"400" in client.answers[broken]
    assert host.dispatcher.refusals[0][0] == "incomplete-message"
    assert client.wait(client.call())[0].startswith(OK)


def test_malformed_request_leaves_the_connection(site: Site) -> None:
    """Octets that are not AGTP get the 400 of TCP on their stream; others are answered."""
    network = Network()
    QuicHost(network, site)
    client = QuicClient(network, site).connect()
    broken = client.call(b"\x00\x01nonsense\r\n\r\n")
    assert b"AGTP/1.0 400" in client.wait(broken)[0]
    assert client.wait(client.call())[0].startswith(OK)


def test_quick_call_does_not_wait_for_a_slow_one(site: Site) -> None:
    """Streams have no order between them."""
    network = Network()
    dispatcher = FakeDispatcher()
    QuicHost(network, site, dispatcher)
    client = QuicClient(network, site).connect()
    slow, quick = client.call(), client.call()
    network.run(lambda: len(dispatcher.waiting) == 2)
    first = dispatcher.waiting.pop(0)
    dispatcher.waiting.pop(0).callback(reply(dispatcher.requests[1]))
    client.wait(quick)
    assert slow not in client.answers
    first.callback(reply(dispatcher.requests[0]))
    assert client.wait(slow)[0].startswith(OK)


@pytest.mark.parametrize("way", ["reset", "stop"])
def test_cancelled_call_leaves_the_others(site: Site, way: str) -> None:
    """A call that its client resets, or whose answer it refuses, is left; the calls next to it are answered."""
    network = Network()
    dispatcher = FakeDispatcher()
    QuicHost(network, site, dispatcher)
    client = QuicClient(network, site).connect()
    dropped, other = client.call(ends=False), client.call()
    network.run(lambda: len(dispatcher.waiting) == 2)
    left: list[str] = []
    for name, peer in zip(("dropped", "other"), dispatcher.peers, strict=True):
        peer.leaving.add(lambda name=name: left.append(name))
    if way == "reset":
        client.core.reset_stream(dropped, Code.CANCELLED)
    else:
        client.core.stop_stream(dropped, Code.CANCELLED)
    client.flush()
    network.run(lambda: left)
    assert left == ["dropped"]
    dispatcher.answer()
    dispatcher.waiting.pop(0).callback(reply(dispatcher.requests[1]))
    assert client.wait(other)[0].startswith(OK)
    assert client.answers.get(dropped, b"") == b""


@pytest.mark.parametrize("end", ["streams", "connection"])
def test_a_fault_at_the_end_of_a_stream_leaves_the_ends_of_others(site: Site, end: str) -> None:
    """What follows from the end of one call may fail: the other calls that end in the same turn do end."""
    network, dispatcher = Network(), FakeDispatcher()
    host = QuicHost(network, site, dispatcher)
    client = QuicClient(network, site).connect()
    numbers = [client.call() for _ in range(3)]
    network.run(lambda: len(dispatcher.peers) == 3)
    left: list[int] = []

    def fail() -> None:
        raise RuntimeError("the end of a call")

    dispatcher.peers[0].leaving.add(fail)
    for number, peer in enumerate(dispatcher.peers[1:]):
        peer.leaving.add(partial(left.append, number))
    with logged_failures() as failures:
        if end == "connection":
            client.close()
        for number in numbers if end == "streams" else ():
            client.core.reset_stream(number, Code.CANCELLED)
            client.core.stop_stream(number, Code.CANCELLED)
        client.flush()
        network.pass_time(1)
    assert (left, len(failures), host.endpoint.streams) == ([0, 1], 1, 0)
    assert host.endpoint.links == (end == "streams")


def test_a_fault_at_the_end_of_a_connection_leaves_what_else_ends_with_it(site: Site) -> None:
    """Of the functions that wait for the end of a connection one may fail: all others are called."""
    network = Network()
    host = QuicHost(network, site)
    client = QuicClient(network, site).connect()
    client.wait(client.call())
    parted: list[int] = []

    def fail(number: int) -> None:
        parted.append(number)
        raise RuntimeError("the end of a contract")

    [peer] = host.dispatcher.peers
    assert peer.parting is not None
    peer.parting |= {partial(fail, number) for number in range(3)}
    with logged_failures() as failures:
        client.close()
        network.pass_time(1)
    assert (sorted(parted), len(failures), host.endpoint.links) == ([0, 1, 2], 3, 0)


def test_what_lasts_as_long_as_the_connection_outlives_a_stream(site: Site) -> None:
    """The end of a call is not the end of its connection, which contracts are bound to."""
    network = Network()
    host = QuicHost(network, site)
    client = QuicClient(network, site).connect()
    client.wait(client.call())
    parted: list[int] = []
    [peer] = host.dispatcher.peers
    assert peer.parting is not None
    peer.parting.add(lambda: parted.append(1))
    client.wait(client.call())
    assert parted == []
    client.close()
    network.run(lambda: parted)


def test_a_greeting_counts_for_the_whole_connection(site: Site) -> None:
    """What a host says once on each connection, such as its methods, it does not say on each stream."""
    network = Network()
    host = QuicHost(network, site, FakeDispatcher())
    client = QuicClient(network, site).connect()
    seen = []
    for _ in range(2):
        call = client.call()
        network.run(lambda: host.dispatcher.waiting)
        seen.append(host.dispatcher.peers[-1].greeted)
        host.dispatcher.peers[-1].greeted = True
        host.dispatcher.answer()
        client.wait(call)
        network.pass_time(1)  # The first stream is over once its answer is acknowledged.
    assert seen == [False, True]


def test_long_answer_waits_for_its_reader(site: Site) -> None:
    """An answer of 4 MiB is held back until the client reads, and then is whole."""
    network = Network()
    dispatcher = FakeDispatcher()
    host = QuicHost(network, site, dispatcher)
    client = QuicClient(network, site).connect()
    number = client.call()
    network.run(lambda: dispatcher.waiting)
    dispatcher.answer(b"x" * (4 << 20))
    client.wait(number)
    assert client.answers[number].endswith(b"\r\n\r\n" + b"x" * (4 << 20))
    network.run(lambda: not host.endpoint.streams)


def test_drain_answers_what_is_owed(site: Site) -> None:
    """A host that stops answers what it has begun, and takes nothing new: such a stream has the code that says so."""
    network = Network()
    dispatcher = FakeDispatcher()
    host = QuicHost(network, site, dispatcher)
    client = QuicClient(network, site).connect()
    idle = QuicClient(network, site, address=("198.51.100.7", 2)).connect()
    owed = client.call()
    network.run(lambda: dispatcher.waiting)
    host.endpoint.drain()
    late = client.call()
    network.run(lambda: late in client.reset and idle.closed)
    assert client.reset[late] == Code.ENDING
    dispatcher.answer()
    assert client.wait(owed)[0].startswith(OK)
    network.run(lambda: client.closed)
    assert host.endpoint.links == 0
    assert len(dispatcher.requests) == 1


def test_an_answer_waits_for_a_client_that_is_out_of_reach(site: Site) -> None:
    """For as long as a connection may be idle, and no longer: a client that moved says so with its next PING."""
    network = Network()
    dispatcher = FakeDispatcher()
    host = QuicHost(network, site, dispatcher, limits=ConnectionLimits(idle_timeout=30))
    client = QuicClient(network, site).connect()

    def answer_during_outage(seconds: int) -> int:
        number = client.call()
        network.run(lambda: dispatcher.waiting)
        network.silent_until = network.clock.seconds() + seconds
        dispatcher.answer()
        for _ in range(seconds):
            network.pass_time(1)
            host.factory.sweep()
        return number

    assert client.wait(answer_during_outage(15))[0].startswith(OK)
    answer_during_outage(40)
    assert host.endpoint.streams == 0
    network.pass_time(30)
    host.factory.sweep()
    network.pass_time(0.1)
    assert host.endpoint.links == 0


@pytest.mark.parametrize("is_answered", [True, False])
def test_a_host_that_stops_waits_briefly_for_an_unreachable_client(site: Site, is_answered: bool) -> None:
    """As on TLS: an answer that its client does not acknowledge holds up a stop for three seconds, begun or not."""
    network = Network()
    dispatcher = FakeDispatcher()
    host = QuicHost(network, site, dispatcher)
    client = QuicClient(network, site).connect()
    client.call()
    network.run(lambda: dispatcher.waiting)
    network.silent_until = network.clock.seconds() + 3600
    acts = dispatcher.answer, host.endpoint.drain
    for act in acts if is_answered else reversed(acts):
        act()
        network.pass_time(1)
    assert host.endpoint.streams == 1
    for _ in range(5):
        network.pass_time(1)
        host.factory.sweep()
    assert host.endpoint.streams == 0


def test_idle_connection_is_closed(site: Site) -> None:
    """A connection without calls is closed after the idle timeout, however often the client sends PING."""
    network = Network()
    host = QuicHost(network, site, limits=ConnectionLimits(idle_timeout=60))
    client = QuicClient(network, site).connect()
    for number in range(8):
        client.core.send_ping(number)
        client.flush()
        network.pass_time(10)
        host.factory.sweep()
    assert host.endpoint.links == 0


def test_a_connection_whose_call_runs_is_not_idle(site: Site) -> None:
    """A call may take longer than the idle timeout, as over TLS, where its client keeps the way open with PING."""
    network = Network()
    host = QuicHost(network, site, FakeDispatcher(), ConnectionLimits(idle_timeout=60))
    client = QuicClient(network, site).connect()
    call = client.call()
    for number in range(8):
        client.core.send_ping(number)
        client.flush()
        network.pass_time(10)
        host.factory.sweep()
    host.dispatcher.answer()
    assert client.wait(call)[0].startswith(OK)


@pytest.mark.parametrize("round_trip", [0.7, 1.0, 2.0])
def test_a_client_may_move_to_a_slow_network(site: Site, round_trip: float) -> None:
    """Its proof has the time that a path of unknown length needs: a call is answered after a few round trips."""
    network = Network()
    host = QuicHost(network, site, FakeDispatcher(lambda request, *_: succeed(reply(request, bytes(20_000)))))
    client = QuicClient(network, site).connect()
    client.wait(client.call())
    client.rebind(("203.0.113.9", 1))
    network.delay = round_trip / 2
    assert client.wait(client.call(), seconds=5 * round_trip)[0].startswith(OK)
    [link] = host.endpoint._links
    assert link.address == "203.0.113.9"


@pytest.mark.parametrize("address", ["203.0.113.9", "198.51.100.7"], ids=["address", "port"])
def test_a_new_address_is_another_path(site: Site, address: str) -> None:
    """
    What was measured of the path before says nothing of it (RFC 9000 section 9.4), unless only the port changes.

    What was lost on the path before is no sign of congestion on the new one.
    """
    network = Network(delay=0.3)
    host = QuicHost(network, site, FakeDispatcher(lambda request, *_: succeed(reply(request, bytes(200_000)))))
    client = QuicClient(network, site).connect()
    client.wait(client.call())
    [link] = host.endpoint._links
    recovery: Any = link.core._loss
    number = client.call()
    network.pass_time(2.5 * network.delay)
    client.rebind((address, 1))
    network.delay = 0.02
    client.core.send_ping(0)
    client.flush()
    network.run(lambda: link.core.address == client.address)
    before = recovery.congestion_window
    network.run(lambda: recovery.bytes_in_flight)
    after, known, windows = recovery.congestion_window, recovery._rtt_initialized, [before]
    network.run(lambda: windows.append(recovery.congestion_window) or number in client.ended)
    if address == "203.0.113.9":
        assert (after, known) == (12_000, False) and min(windows) >= 12_000
    else:
        assert (after, known) == (before, True) and before > 12_000


def test_a_connection_has_as_many_requests_as_one_of_tls(site: Site) -> None:
    """After ``requests_per_connection`` it ends with the answers that it owes; a further request is not processed."""
    network, dispatcher = Network(), FakeDispatcher()
    QuicHost(network, site, dispatcher, ConnectionLimits(requests_per_connection=3))
    client = QuicClient(network, site).connect()
    *owed, late = [client.call() for _ in range(4)]
    network.run(lambda: late in client.reset)
    assert (client.reset[late], len(dispatcher.waiting), client.closed) == (Code.ENDING, 3, None)
    while dispatcher.waiting:
        dispatcher.answer()
    assert all(answer.startswith(OK) for answer in client.wait(*owed))
    network.run(lambda: client.closed)
    assert client.closed is not None and client.closed.error_code == Code.ENDING


def test_keys_encrypt_a_bounded_number_of_packets(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection whose keys have had their packets ends after the answers that it owes, as one that is too old."""
    monkeypatch.setattr(core, "MOST_PACKETS_OF_KEYS", 40)
    network, dispatcher = Network(), FakeDispatcher()
    host = QuicHost(network, site, dispatcher)
    client = QuicClient(network, site).connect()
    owed, long = client.call(), client.call()
    network.run(lambda: len(dispatcher.waiting) == 2)
    host.factory.sweep()
    dispatcher.waiting.pop().callback(reply(dispatcher.requests[1], bytes(60_000)))
    assert client.wait(long)[0].startswith(OK)
    host.factory.sweep()
    late = client.call()
    network.run(lambda: late in client.reset)
    assert (client.reset[late], len(dispatcher.requests)) == (Code.ENDING, 2)
    dispatcher.answer()
    assert client.wait(owed)[0].startswith(OK)
    network.run(lambda: client.closed)
    assert client.closed is not None and client.closed.error_code == Code.ENDING


@pytest.mark.parametrize("changes", [0, 10])
def test_client_of_a_killed_host_is_told(site: Site, changes: int) -> None:
    """A host that was started again answers packets of an unknown connection with the reset that its client knows."""
    network = Network()
    QuicHost(network, site)
    client = QuicClient(network, site).connect()
    client.wait(client.call())
    for _ in range(changes):
        client.core.change_connection_id()
        client.flush()
        network.pass_time(0.1)
    token = client.core._peer_cid.stateless_reset_token
    again = QuicHost(network, site)
    client.call(b"AGTP/1.0 QUERY /" + b"x" * 100)
    network.run(lambda: again.endpoint.counts.resets)
    sent = [octets for origin, _, octets in network.carried if origin == ("192.0.2.1", 4480)]
    assert sent[-1][-16:] == token and len(sent[-1]) < 100


class ParameterConnection(QuicConnection):
    """A client's connection with a transport parameter that the library does not send, of two octets at most."""

    parameter = b""

    def _serialize_transport_parameters(self) -> bytes:
        value = self.parameter
        own: bytes = super()._serialize_transport_parameters()  # type: ignore[misc]
        if value[0] == ACK_DELAY_EXPONENT:
            own = own.replace(bytes((ACK_DELAY_EXPONENT, 1, 3)), b"", 1)
        return own + value[:1] + bytes((len(value) - 1,)) + value[1:]


def connected_with(network: Network, site: Site, number: int, value: int) -> QuicClient:
    """Connect a client that sends a transport parameter."""
    parameter = bytes((number,)) + encode_uint_var(value)
    return QuicClient(
        network, site, core=type("Connection", (ParameterConnection,), {"parameter": parameter})
    ).connect()


def test_no_datagram_is_longer_than_its_client_takes(site: Site) -> None:
    """Clients say how long ones they take (RFC 9000 section 18.2), and lose the others."""
    network = Network()
    dispatcher = FakeDispatcher(lambda request, *_: succeed(reply(request, bytes(20_000))))
    QuicHost(network, site, dispatcher, datagram_size=1452)
    client = connected_with(network, site, MAX_UDP_PAYLOAD_SIZE, 1350)
    client.wait(client.call())
    assert max(len(octets) for origin, _, octets in network.carried if origin == HOST) == 1350


def test_delays_of_acknowledgements_are_read_in_the_unit_of_their_client(site: Site) -> None:
    """It is a transport parameter (RFC 9000 section 18.2); in another unit round trips are measured too long."""
    network = Network()
    host = QuicHost(network, site)
    connected_with(network, site, ACK_DELAY_EXPONENT, 10)
    network.pass_time(0.1)
    [link] = host.endpoint._links
    assert link.core._remote_ack_delay_exponent == 10


@pytest.mark.parametrize("size", [1200, 1400])
def test_datagrams_are_as_long_as_the_operator_says(site: Site, size: int) -> None:
    """A long answer goes out in datagrams of the configured size, and in none that is longer."""
    network = Network()
    QuicHost(
        network, site, FakeDispatcher(lambda request, *_: succeed(reply(request, bytes(20_000)))), datagram_size=size
    )
    client = QuicClient(network, site).connect()
    client.wait(client.call())
    assert max(len(octets) for origin, _, octets in network.carried if origin == HOST) == size


def test_client_may_move(site: Site) -> None:
    """A connection whose client has another address goes on, counted for that address."""
    network = Network()
    host = QuicHost(network, site)
    client = QuicClient(network, site, good(site.root)).connect()
    client.wait(client.call())
    client.rebind(("203.0.113.9", 40_000))
    assert client.wait(client.call())[0].startswith(OK)
    network.pass_time(2)
    client.wait(client.call())
    before, after = host.dispatcher.peers[0], host.dispatcher.peers[-1]
    assert (before.address, after.address) == ("198.51.100.7", "203.0.113.9")
    assert after.certificate is not None and after.certificate == before.certificate
    assert after.link is before.link and after.server_name == before.server_name == "localhost"
    assert host.endpoint.counts.moves == 1
    assert host.factory.connections == 1


@pytest.mark.parametrize("before, after", [("127.0.0.1", "203.0.113.9"), ("203.0.113.9", "127.0.0.1")])
def test_a_client_is_local_only_while_it_is(site: Site, before: str, after: str) -> None:
    """Where a call may come from this machine alone, a connection that began there and moved makes none."""
    network = Network()
    host = QuicHost(network, site)
    client = QuicClient(network, site, address=(before, 40_000)).connect()
    client.wait(client.call())
    client.rebind((after, 40_001))
    client.wait(client.call())
    network.pass_time(2)
    client.wait(client.call())
    peers = host.dispatcher.peers
    assert [each.loopback for each in (peers[0], peers[-1])] == [before == "127.0.0.1", after == "127.0.0.1"]


def test_a_client_that_moves_where_there_is_no_room_is_closed(site: Site) -> None:
    """A new address counts as a new connection of it would: one that has its share gets none by moving, either."""
    network = Network()
    host = QuicHost(network, site, limits=ConnectionLimits(connections_per_address=1))
    first = QuicClient(network, site, address=("203.0.113.9", 1)).connect()
    first.wait(first.call())
    second = QuicClient(network, site).connect()
    second.wait(second.call())
    second.rebind(("203.0.113.9", 2))
    number = second.call()
    network.run(lambda: second.closed)
    assert second.closed is not None and second.closed.error_code == Code.TOO_MUCH and number not in second.reset
    assert host.factory.connections == 1
    assert first.wait(first.call())[0].startswith(OK)


@pytest.mark.parametrize(
    ("before", "after", "limits"),
    [
        ("198.51.100.7", "203.0.113.9", ConnectionLimits(connections=1)),
        ("2001:db8::7", "2001:db8::8", ConnectionLimits(connections_per_address=1)),
        ("2001:db8::7", "2001:db8::8", ConnectionLimits(handshakes_per_second_per_address=1)),
    ],
    ids=["full host", "full network", "network without handshakes left"],
)
def test_a_client_that_moves_takes_its_place_along(
    site: Site, before: str, after: str, limits: ConnectionLimits
) -> None:
    """It makes no connection and no handshake: where it has a place, or needs no other, it goes on."""
    network = Network()
    host = QuicHost(network, site, limits=limits)
    client = QuicClient(network, site, address=(before, 1)).connect()
    client.wait(client.call())
    client.rebind((after, 1))
    assert client.wait(client.call())[0].startswith(OK)
    network.pass_time(0.1)
    assert [link.address for link in host.endpoint._links] == [after] and client.closed is None
    assert host.factory.connections == 1 and host.endpoint.counts.moves == 1
    client.close()
    network.pass_time(1)
    assert host.factory.connections == 0 and host.factory._admission.connections == 0


def test_connections_are_counted_once_their_client_is_known(site: Site) -> None:
    """A handshake counts for no address; a client with a certificate is vouched for, one without is not."""
    network = Network()
    host = QuicHost(network, site)
    vouched: list[object] = []
    host.factory.connection_authenticated = vouched.append  # type: ignore[method-assign]
    anonymous = QuicClient(network, site)
    network.run(lambda: host.endpoint.links)
    assert host.endpoint.count_admitted() == 0
    anonymous.connect()
    anonymous.wait(anonymous.call())
    assert host.endpoint.count_admitted() == 1 and vouched == []
    QuicClient(network, site, good(site.root), address=("198.51.100.7", 2)).connect()
    network.pass_time(1)
    assert host.endpoint.count_admitted() == 2 and len(vouched) == 1


def test_old_connection_ends_after_its_calls(site: Site) -> None:
    """A connection that reached its age takes no more requests, as on TLS."""
    network = Network()
    host = QuicHost(network, site, limits=ConnectionLimits(idle_timeout=60, connection_age=90))
    client = QuicClient(network, site).connect()
    for _ in range(3):
        client.wait(client.call())
        network.pass_time(31)
        host.factory.sweep()
    network.pass_time(1)
    assert client.closed is not None and host.endpoint.links == 0


def test_lost_packets_are_counted_beyond_their_connection(site: Site) -> None:
    """Packets that a client did not get are counted, also once the connection is over."""
    network = Network(7, loss=0.3)
    host = QuicHost(network, site)
    client = QuicClient(network, site).connect()
    client.wait(*(client.call() for _ in range(10)), seconds=300)
    network.pass_time(5)
    lost = host.endpoint.packets_lost
    network.loss = 0
    client.close()
    network.pass_time(200)
    assert host.endpoint.links == 0 and host.endpoint.packets_lost >= lost > 0


def test_no_reset_is_longer_than_what_it_answers(site: Site) -> None:
    """A datagram of an unknown connection that is as short as the shortest reset gets none."""
    network = Network()
    host = QuicHost(network, site)
    for length, resets in ((21, 0), (22, 1), (43, 2)):
        network.carry(b"\x40" * length, ("198.51.100.9", 1), ("192.0.2.1", 4480))
        network.pass_time(1)
        assert host.endpoint.counts.resets == resets
    assert [len(octets) for origin, _, octets in network.carried if origin == HOST] == [21, 42]


def test_client_without_an_idle_timeout_has_the_hosts(site: Site) -> None:
    """A client that names an idle timeout of 0, which means that it has none, may be silent while its call runs."""
    network = Network()
    host = QuicHost(network, site, FakeDispatcher())
    client = QuicClient(network, site, idle_timeout=0.0).connect()
    client.core._configuration.idle_timeout = 100  # The library takes its own 0 for no seconds.
    call = client.call()
    network.pass_time(50)
    host.dispatcher.answer()
    assert client.wait(call)[0].startswith(OK)


def test_address_of_ipv4_in_ipv6_is_that_of_ipv4(site: Site) -> None:
    """At a socket of both families a client of IPv4 has its own address and share, and has not moved."""
    network = Network()
    host = QuicHost(network, site, limits=ConnectionLimits(connections_per_address=2))
    for number in range(1, 5):
        client = QuicClient(network, site, address=(f"::ffff:198.51.100.{number}", 50_000)).connect()
        assert client.wait(client.call())[0].startswith(OK)
    assert {link.address for link in host.endpoint._links} == {f"198.51.100.{number}" for number in range(1, 5)}
    assert [peer.address for peer in host.dispatcher.peers] == [f"198.51.100.{number}" for number in range(1, 5)]
    assert host.endpoint.counts.moves == 0
