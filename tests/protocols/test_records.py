"""TLS records however they are cut into segments: the same octets as Twisted's own way gives."""

from __future__ import annotations

import gc
import random
import ssl
import weakref
from collections.abc import Iterator
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import pytest
from twisted.internet.error import ConnectionLost
from twisted.internet.protocol import Factory, Protocol
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.protocols.tls import TLSMemoryBIOFactory, TLSMemoryBIOProtocol
from twisted.python.failure import Failure

from agtphost.protocols import records
from agtphost.protocols.openssl import MOST_CONTENT, records_of
from agtphost.protocols.pacing import RECORDS, Pacing
from agtphost.protocols.records import LITTLE, MUCH, RecordwiseTLS
from agtphost.protocols.tls import ServerTLS
from tests.protocols.loopback import Site, make_site


class Collector(Protocol):
    """Keeps what it gets, and answers each portion with its length."""

    def connectionMade(self) -> None:
        self.octets = b""
        self.lost: list[object] = []

    def dataReceived(self, data: bytes) -> None:
        self.octets += data
        self.transport.write(b"%d;" % len(data))

    def connectionLost(self, reason: object = None) -> None:
        self.lost.append(reason)


class Pair:
    """A client of the standard library and the server's side, joined in memory."""

    def __init__(self, site: Site, kind: type[TLSMemoryBIOProtocol], octets_at_once: int = 1 << 20) -> None:
        self._octets_at_once = octets_at_once
        factory = TLSMemoryBIOFactory(ServerTLS.load(site.files), False, Factory.forProtocol(Collector))
        self.collector = Collector()
        self.transport = StringTransport()
        self.server = kind(factory, self.collector)
        self.server.makeConnection(self.transport)
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.client = site.client().wrap_bio(self.incoming, self.outgoing, server_hostname="localhost")
        while True:
            try:
                self.client.do_handshake()
                break
            except ssl.SSLWantReadError:
                self.exchange()
        self.exchange()

    def exchange(self) -> None:
        while octets := self.outgoing.read(self._octets_at_once):
            self.server.dataReceived(octets)
        self.fetch()

    def fetch(self) -> None:
        """Give the client what the server has sent."""
        self.incoming.write(self.transport.value())
        self.transport.clear()

    def sealed(self, octets: bytes) -> bytes:
        """``octets`` as records, not delivered yet."""
        self.client.write(octets)
        return self.outgoing.read()


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return make_site(tmp_path)


def cuts(octets: bytes, chance: random.Random) -> Iterator[bytes]:
    """Segments of any size, one octet included."""
    at = 0
    while at < len(octets):
        size = chance.choice((1, 2, 4, 5, 6, 100, 5000, 40_000))
        yield octets[at : at + size]
        at += size


@pytest.mark.parametrize("seed", range(12))
def test_records_arrive_however_they_are_cut(site: Site, seed: int) -> None:
    """Whole, in pieces, several in one segment, and in any order of these: nothing is lost or doubled."""
    chance = random.Random(seed)
    pair = Pair(site, RecordwiseTLS)
    sent = b""
    for _ in range(60):
        octets = chance.randbytes(chance.choice((1, 10, 500, 16_384, 30_000)))
        sent += octets
        records = pair.sealed(octets)
        for segment in [records] if chance.random() < 0.5 else cuts(records, chance):
            pair.server.dataReceived(segment)
    assert pair.collector.octets == sent
    assert not pair.collector.lost


@pytest.mark.parametrize("octets_at_once", [1, 2, 4, 5, 7])
def test_a_handshake_may_arrive_octet_by_octet(site: Site, octets_at_once: int) -> None:
    """Parts of a record's header that arrive alone are kept; pyOpenSSL refuses to be given nothing."""
    pair = Pair(site, RecordwiseTLS, octets_at_once)
    pair.client.write(b"hello")
    pair.exchange()
    assert pair.collector.octets == b"hello"


@pytest.mark.parametrize("kind", [RecordwiseTLS, TLSMemoryBIOProtocol])
def test_answers_of_every_size_arrive_whole_and_in_order(site: Site, kind: type[TLSMemoryBIOProtocol]) -> None:
    """Nothing, a little, what just fits one record, and what does not; after the end is asked for, nothing more."""
    pair = Pair(site, kind)
    pair.server.dataReceived(pair.sealed(b"?"))
    assert pair.collector.octets == b"?"
    sizes = (1, 0, 2_000, MOST_CONTENT - 1, MOST_CONTENT, MOST_CONTENT + 1, 3, 100_000, 7)
    sent = b"1;" + b"".join(bytes([65 + number]) * size for number, size in enumerate(sizes))
    for number, size in enumerate(sizes):
        pair.server.write(bytes([65 + number]) * size)
    pair.fetch()
    got = b""
    while len(got) < len(sent):
        got += pair.client.read(100_000)
    assert got == sent
    pair.server.loseConnection()
    pair.server.write(b"late")
    pair.fetch()
    with suppress(ssl.SSLZeroReturnError):
        assert pair.client.read(100) == b""


@pytest.mark.parametrize("known", [True, False])
def test_where_the_parts_of_pyopenssl_are_not_known_all_goes_its_way(
    site: Site, monkeypatch: pytest.MonkeyPatch, known: bool
) -> None:
    """Nothing is lost or doubled then either; and they are known, as it is."""
    pair = Pair(site, RecordwiseTLS)
    if not known:
        monkeypatch.setattr(records, "records_of", lambda connection: records_of(object()))
    for size in (5, 3_000, 20_000):
        pair.server.dataReceived(pair.sealed(b"x" * size))
        pair.server.write(b"y" * size)
        pair.fetch()
        while not (got := pair.client.read(100_000)).endswith(b"y"):
            assert got.endswith(b";")
    assert pair.collector.octets == b"x" * 23_005
    assert (pair.server._records is not None) is known


def test_whatever_else_was_to_be_sent_goes_along(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there is more than one record, as with a peer that takes short ones only, none of it stays."""
    monkeypatch.setattr(records, "SPARE", 8)  # Of every record the last octets are more than there is room for.
    pair = Pair(site, RecordwiseTLS)
    pair.server.dataReceived(pair.sealed(b"?"))
    pair.fetch()
    assert pair.client.read(10) == b"1;"
    for size in (1, 300, MOST_CONTENT):
        pair.server.write(b"x" * size)
        pair.fetch()
        assert pair.client.read(MOST_CONTENT) == b"x" * size


def test_a_segment_of_one_record_is_known_as_one(site: Site) -> None:
    """The short way is really taken, again after pieces that ended with a record."""
    pair = Pair(site, RecordwiseTLS)
    seen: list[bool] = []
    account = pair.server._is_record
    pair.server._is_record = lambda segment: seen.append(account(segment)) or seen[-1]
    pair.server.dataReceived(pair.sealed(b"one"))
    two = pair.sealed(b"two")
    pair.server.dataReceived(two[:10])
    pair.server.dataReceived(two[10:])
    pair.server.dataReceived(pair.sealed(b"three"))
    pair.server.dataReceived(pair.sealed(b"four") + pair.sealed(b"five"))
    pair.server.dataReceived(pair.sealed(b"six"))
    assert seen == [True, False, False, True, False, True]
    assert pair.collector.octets == b"onetwothreefourfivesix"


@pytest.mark.parametrize("kind", [RecordwiseTLS, TLSMemoryBIOProtocol])
def test_an_end_and_a_forgery_are_noticed_both_ways(site: Site, kind: type[TLSMemoryBIOProtocol]) -> None:
    """A close_notify in a record of its own ends the connection; so does a record with one bit changed."""
    pair = Pair(site, kind)
    try:
        pair.client.unwrap()
    except ssl.SSLWantReadError:
        pair.server.dataReceived(pair.outgoing.read())
    assert pair.transport.disconnecting or pair.collector.lost
    forged = Pair(site, kind)
    record = bytearray(forged.sealed(b"data"))
    record[-1] ^= 1
    forged.server.dataReceived(bytes(record))
    assert forged.collector.octets == b""
    assert forged.transport.disconnecting or forged.collector.lost


@pytest.mark.parametrize(("kind", "kept"), [(RecordwiseTLS, False), (TLSMemoryBIOProtocol, True)])
@pytest.mark.parametrize("greeted", [False, True], ids=["in the handshake", "in use"])
def test_who_leaves_without_a_word_is_forgotten_at_once(
    site: Site, kind: type[TLSMemoryBIOProtocol], kept: bool, greeted: bool
) -> None:
    """Not when garbage is next collected: until then OpenSSL's part of every connection would stay. Twisted's stays."""
    gc.collect()
    gc.disable()
    try:
        if greeted:
            server = Pair(site, kind).server
        else:
            factory = TLSMemoryBIOFactory(ServerTLS.load(site.files), False, Factory.forProtocol(Collector))
            server = kind(factory, Collector())
            server.makeConnection(StringTransport())
            outgoing = ssl.MemoryBIO()
            client = site.client().wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="localhost")
            with suppress(ssl.SSLWantReadError):
                client.do_handshake()
            server.dataReceived(outgoing.read())
        gone = weakref.ref(server)
        server.connectionLost(Failure(ConnectionLost()))
        del server
        assert (gone() is not None) is kept
    finally:
        gc.enable()


@pytest.mark.parametrize("begun", [False, True], ids=["at a record", "within a header"])
def test_tiny_records_are_decrypted_in_portions(site: Site, begun: bool) -> None:
    """A segment of a thousand records takes many turns of the reactor; meanwhile nothing more is read."""
    clock, pair = Clock(), Pair(site, RecordwiseTLS)
    pair.server.record_turns = Pacing(clock, 2, 1)
    sealed = b"".join(pair.sealed(b"x") for _ in range(1_000))
    first = 3 if begun else 0
    pair.server.dataReceived(sealed[:first])
    pair.server.dataReceived(sealed[first:])
    taken = []
    while pair.transport.producerState == "paused":
        taken.append(len(pair.collector.octets))
        clock.advance(1)
    assert pair.collector.octets == b"x" * 1_000 and pair.transport.bufferSize == LITTLE
    assert taken[0] <= 3 * RECORDS
    assert max(later - earlier for earlier, later in pairwise(taken)) <= 2 * RECORDS
    pair.server.dataReceived(pair.sealed(b"y" * 16_384))
    assert pair.transport.bufferSize == MUCH, "large records are read by the many octets"


def test_a_pause_outlasts_the_records_that_waited(site: Site) -> None:
    """Where the protocol above asked for no more, the socket is read again when it says so."""
    clock, pair = Clock(), Pair(site, RecordwiseTLS)
    pair.server.record_turns = Pacing(clock, 1, 1)
    pair.server.dataReceived(b"".join(pair.sealed(b"x") for _ in range(RECORDS * 3)))
    pair.server.pauseProducing()
    clock.pump([1] * 5)
    assert pair.collector.octets == b"x" * (RECORDS * 3) and pair.transport.producerState == "paused"
    pair.server.resumeProducing()
    assert pair.transport.producerState == "producing"
    pair.server.dataReceived(b"".join(pair.sealed(b"x") for _ in range(RECORDS * 3)))
    pair.server.pauseProducing()
    pair.server.resumeProducing()
    assert pair.transport.producerState == "paused", "records still wait"
