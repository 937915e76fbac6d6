"""What a client knows of the carriers of hosts, and which of two attempts is used."""

from __future__ import annotations

import json
import socket
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock

from agtphost.client import CannotConnect, ClientError, TLSRefused
from agtphost.client.cache_files import MOST as MOST_FILES
from agtphost.client.carrier_race import ConnectionRace
from agtphost.client.carriers import (
    ABSENT_SECONDS,
    HEAD_START,
    MOST,
    OFFERED_SECONDS,
    OVERTAKEN,
    REFUSED,
    SILENT_SECONDS,
    CarrierFiles,
    CarrierTable,
    Fallback,
    offered_port,
)
from agtphost.client.reply import Reply
from agtphost.client.requests import Destination
from agtphost.client.tcp_rival import Overtaken, TcpRival
from agtphost.client.twisted_attempts import start_attempt
from agtphost.wire import Headers
from tests.rows import each_row

HOST = Destination("agents.example", 4480)

QUIC = {"carrier": "quic", "port": 4481, "alpn": "agtp"}
MANIFESTS: dict[str, tuple[Any, int | None]] = {
    "none": (None, None),
    "TLS alone": ([{"carrier": "tls", "port": 4480}], None),
    "both": ([{"carrier": "tls", "port": 4480}, QUIC], 4481),
    "the host's number for both": ([{"carrier": "tls", "port": 4481}, QUIC], 8080),
    "the same in another order": ([QUIC, {"carrier": "tls", "port": 4481}], 8080),
    "TLS without a port": ([{"carrier": "tls"}, QUIC], 4481),
    "two of QUIC": ([QUIC, {**QUIC, "port": 9}], 4481),
    "without ALPN": ([{"carrier": "quic", "port": 9}], 9),
    "another protocol": ([{**QUIC, "alpn": "h3"}], None),
    "a port that is a text": ([{**QUIC, "port": "4481"}], None),
    "a port that is true": ([{**QUIC, "port": True}], None),
    "port 0": ([{**QUIC, "port": 0}], None),
    "port 65536": ([{**QUIC, "port": 65536}], None),
    "no objects": (["quic", None, 7], None),
    "no list": ({"quic": 4481}, None),
}


@each_row(("transports", "port"), MANIFESTS.values(), ids=MANIFESTS)
def test_port_that_a_manifest_offers(transports: Any, port: int | None) -> None:
    """Only a well-formed offer of AGTP counts; one number for both carriers means the number that was dialled."""
    assert offered_port({"transports": transports}, 8080) == port


def test_head_start_leaves_time_for_tcp_within_a_second() -> None:
    """QUIC gets 300 ms, so that a network which drops UDP costs a call less than a second."""
    assert HEAD_START == 0.3


class Kept:
    """A memory that shows what is written, and has what was."""

    def __init__(self) -> None:
        self.hosts: dict[Destination, tuple[int | None, float, float]] = {}

    def read(self, destination: Destination) -> tuple[int | None, float, float] | None:
        return self.hosts.get(destination)

    def write(self, destination: Destination, port: int | None, seconds: float, silent: float) -> None:
        self.hosts[destination] = (port, seconds, silent)


def test_what_is_known_ends_with_its_time() -> None:
    """An absence holds for an hour; an offer for a day; nothing is known before and after."""
    table = CarrierTable(None, None)
    assert not table.is_known(HOST, 0)
    table.note_absence(HOST, 0)
    assert table.is_known(HOST, ABSENT_SECONDS - 1) and table.quic_of(HOST, 0) is None
    assert not table.is_known(HOST, ABSENT_SECONDS)
    kept = Kept()
    kept.hosts[HOST] = (4481, OFFERED_SECONDS, 0.0)
    table = CarrierTable(kept, None)
    assert table.quic_of(HOST, 0) == Destination("agents.example", 4481)
    kept.hosts.clear()
    assert table.is_known(HOST, OFFERED_SECONDS - 1) and not table.is_known(HOST, OFFERED_SECONDS)


@pytest.mark.parametrize("status", sorted(REFUSED))
def test_refused_reading_is_remembered_of_its_caller_alone(status: int) -> None:
    """For an hour the caller does not ask again; nothing is known of the host, and nothing is written."""
    kept = Kept()
    for own, other in ((None, "an agent"), ("an agent", None)):
        table = CarrierTable(kept, None)
        refusal = Reply(status=status, text="", headers=Headers(), body=b"", request_line=b"", caller_id=own)
        table.note_manifest(HOST, refusal, {}, 0)
        assert table.is_refused(HOST, own, ABSENT_SECONDS - 1) and not table.is_refused(HOST, own, ABSENT_SECONDS)
        assert not table.is_refused(HOST, other, 0)
    assert not table.is_known(HOST, 0) and kept.hosts == {}


def test_a_fallback_is_reported_and_remembered_for_a_while() -> None:
    """
    QUIC is not tried for five minutes, and then where the manifest says; a host that was down is not reported.

    A host that had moved its QUIC port was tried at the old one for a day.
    """
    reported: list[Fallback] = []
    kept = Kept()
    kept.hosts[HOST] = (4481, 10_000.0, 0.0)
    table = CarrierTable(kept, reported.append)
    assert table.quic_of(HOST, 100) is not None
    table.end_attempt(HOST, 100, connected=False, cause=OVERTAKEN)
    table.end_attempt(HOST, 100, connected=True)
    assert reported == [] and table.quic_of(HOST, 100) is not None
    table.end_attempt(HOST, 100, connected=True, cause=OVERTAKEN)
    assert [each.cause for each in reported] == [OVERTAKEN]
    assert table.quic_of(HOST, 100 + SILENT_SECONDS - 1) is None
    assert kept.hosts[HOST] == (4481, SILENT_SECONDS, SILENT_SECONDS)
    assert CarrierTable(kept, None).quic_of(HOST, SILENT_SECONDS - 1) is None
    kept.hosts.clear()
    assert table.is_known(HOST, 100 + SILENT_SECONDS - 1) and not table.is_known(HOST, 100 + SILENT_SECONDS)


def test_a_suspect_is_called_by_tls_once() -> None:
    """A connection that died within a call is replaced by TLS; where TLS fails too, QUIC is as good as before."""
    reported: list[Fallback] = []
    kept = Kept()
    kept.hosts[HOST] = (4481, 10_000.0, 0.0)
    table = CarrierTable(kept, reported.append)
    for connected in (False, True):
        assert table.quic_of(HOST, 0) is not None
        table.suspect(HOST, "It died.")
        assert table.quic_of(HOST, 0) is None
        table.end_attempt(HOST, 0, connected=connected)
    assert [each.cause for each in reported] == ["It died."]
    assert table.quic_of(HOST, 0) is None


def test_hosts_that_are_remembered_are_bounded() -> None:
    """The oldest is forgotten."""
    table = CarrierTable(None, None)
    for number in range(MOST + 1):
        table.note_absence(Destination("agents.example", number), 0)
    assert [table.is_known(Destination("agents.example", number), 0) for number in (0, 1, MOST)] == [False, True, True]
    assert len(table._hosts) == MOST


# Between commands


@pytest.fixture
def files(tmp_path: Path) -> CarrierFiles:
    return CarrierFiles({"XDG_CACHE_HOME": str(tmp_path)})


def only_file(tmp_path: Path) -> Path:
    (found,) = (tmp_path / "agtphost" / "carriers").iterdir()
    return found


def test_files_give_back_what_was_written(files: CarrierFiles, tmp_path: Path) -> None:
    """Ports and the seconds that are left, of this host alone; nothing once the time is over."""
    assert files.read(HOST) is None
    files.write(HOST, 4481, 50.0, 20.0)
    found = files.read(HOST)
    assert found is not None and found[0] == 4481
    assert 40 < found[1] <= 50 and 10 < found[2] <= 20
    assert files.read(Destination("agents.example", 4482)) is None
    files.write(HOST, None, 50.0, 0.0)
    assert (files.read(HOST) or (0,))[0] is None
    files.write(HOST, 4481, -1.0, 0.0)
    assert files.read(HOST) is None
    assert CarrierFiles({}).read(HOST) is None
    CarrierFiles({}).write(HOST, 4481, 50.0, 0.0)
    for number in range(MOST_FILES + 3):
        files.write(Destination("agents.example", number), 4481, 50.0, 0.0)
    assert len(list((tmp_path / "agtphost" / "carriers").iterdir())) == MOST_FILES


LATER = 9e9
CHANGES = {
    "open to others": None,
    "no JSON": "{",
    "not an object": "[]",
    "no port": json.dumps({"quic": "4481", "until": LATER, "silent_until": 0}),
    "a port too large": json.dumps({"quic": 65536, "until": LATER, "silent_until": 0}),
    "no time": json.dumps({"quic": 4481, "until": None, "silent_until": 0}),
}


@each_row("name", CHANGES)
def test_files_that_are_unusable_do_not_count(files: CarrierFiles, tmp_path: Path, name: str) -> None:
    """What others could have written, and what is of another form, is as if it were not there."""
    files.write(HOST, 4481, 50.0, 0.0)
    text = CHANGES[name]
    if text is None:
        only_file(tmp_path).chmod(0o666)
    else:
        only_file(tmp_path).write_text(text)
    assert files.read(HOST) is None
    only_file(tmp_path).unlink()


def test_a_file_cannot_bind_a_client_for_longer_than_it_would_itself(files: CarrierFiles, tmp_path: Path) -> None:
    """A clock that was set back makes no offer, and no silence, last for years."""
    files.write(HOST, 4481, 50.0, 0.0)
    only_file(tmp_path).write_text(json.dumps({"quic": 4481, "until": LATER, "silent_until": LATER}))
    assert files.read(HOST) == (4481, OFFERED_SECONDS, SILENT_SECONDS)


# The race of the clients with an event loop


class Track:
    """A race whose attempts the test ends."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.attempts: dict[str, Deferred[str]] = {}
        self.cancelled: list[str] = []
        self.causes: list[str] = []
        self.results: list[Any] = []
        self.race: ConnectionRace[Any] = ConnectionRace(
            start_attempt,
            self.clock.callLater,
            lambda: self._attempt("quic"),
            lambda: self._attempt("tls"),
            self.causes.append,
            self.results.append,
        )

    async def _attempt(self, name: str) -> str:
        self.attempts[name] = Deferred(lambda _: self.cancelled.append(name))
        return await self.attempts[name]

    def fail(self, name: str, error: Exception) -> None:
        self.attempts[name].errback(error)

    @property
    def outcome(self) -> Any:
        """The connection, the type of the error, or None."""
        assert len(self.results) <= 1
        return next((type(each) if isinstance(each, Exception) else each for each in self.results), None)


def lost(text: str = "Gone.") -> ClientError:
    return CannotConnect(text)


def test_quic_wins_within_its_head_start() -> None:
    """TCP is not even tried."""
    track = Track()
    track.clock.advance(HEAD_START - 0.01)
    track.attempts["quic"].callback("quic")
    track.clock.advance(10)
    assert (track.outcome, [*track.attempts], track.causes) == ("quic", ["quic"], [])


def test_the_one_that_is_ready_first_wins_and_the_other_is_cancelled() -> None:
    """Both orders, once both are under way."""
    for first, other in (("quic", "tls"), ("tls", "quic")):
        track = Track()
        track.clock.advance(HEAD_START)
        track.attempts[first].callback(first)
        assert (track.outcome, track.cancelled) == (first, [other])
        assert track.causes == ([OVERTAKEN] if first == "tls" else [])


def test_tls_begins_when_quic_fails() -> None:
    """Before the head start is over; the cause is QUIC's."""
    track = Track()
    track.fail("quic", lost("No datagrams."))
    track.attempts["tls"].callback("tls")
    assert (track.outcome, track.causes) == ("tls", ["No datagrams."])
    assert track.clock.getDelayedCalls() == []


def test_a_refusal_of_either_ends_the_race() -> None:
    """An identity that fails is not hidden by the other carrier."""
    for name, other in (("quic", "tls"), ("tls", "quic")):
        track = Track()
        track.clock.advance(HEAD_START)
        track.fail(name, TLSRefused("Not trusted."))
        assert (track.outcome, track.cancelled, track.causes) == (TLSRefused, [other], [])
    early = Track()
    early.fail("quic", TLSRefused("Not trusted."))
    assert (early.outcome, [*early.attempts]) == (TLSRefused, ["quic"])


def test_quic_has_time_where_tcp_fails() -> None:
    """Then QUIC may still win; where it fails too, the error is that of TLS."""
    for wins in (True, False):
        track = Track()
        track.clock.advance(HEAD_START)
        track.fail("tls", lost("No TCP."))
        assert track.outcome is None
        if wins:
            track.attempts["quic"].callback("quic")
            assert (track.outcome, track.causes) == ("quic", [])
        else:
            track.fail("quic", lost("No UDP."))
            assert (str(track.results[0]), track.causes) == ("No TCP.", [])


def test_a_race_that_is_stopped_cancels_both() -> None:
    """A call that is given up leaves no attempt, and no timer."""
    track = Track()
    track.clock.advance(HEAD_START)
    track.race.stop()
    assert (sorted(track.cancelled), track.results) == (["quic", "tls"], [])
    early = Track()
    early.race.stop()
    assert early.cancelled == ["quic"] and early.clock.getDelayedCalls() == []


def test_a_connection_that_comes_too_late_is_ended() -> None:
    """Where both are ready in one turn of the event loop, the second one is not left open."""

    class Link:
        aborted = False

        def abort(self) -> None:
            self.aborted = True

    clock, links, ends, results = Clock(), [Link(), Link()], [], []

    async def connect(number: int) -> Link:
        return links[number]

    def start(work: Any, end: Any) -> Any:
        work.close()
        ends.append(end)
        return lambda: None

    ConnectionRace(start, clock.callLater, lambda: connect(0), lambda: connect(1), lambda _: None, results.append)
    clock.advance(HEAD_START)
    for end, link in zip(ends, links, strict=True):
        end(link)
    assert results == [links[0]]
    assert [link.aborted for link in links] == [False, True]


# The rival of the blocking client


class Ticking:
    """A clock that a test sets."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_rival_is_there_after_the_head_start_alone() -> None:
    """A datagram before that is handed on, and no TCP connection is made; after it TCP ends the wait."""
    clock = Ticking()
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        closing(socket.socket(type=socket.SOCK_DGRAM)) as own,
        closing(socket.socket(type=socket.SOCK_DGRAM)) as other,
    ):
        server.setblocking(False)
        own.bind(("127.0.0.1", 0))
        rival = TcpRival(Destination("127.0.0.1", server.getsockname()[1]), clock)
        other.sendto(b"x", own.getsockname())
        assert rival.wait([own], 5.0)
        own.recv(10)
        with pytest.raises(BlockingIOError):
            server.accept()
        clock.now = HEAD_START
        with pytest.raises(Overtaken):
            rival.wait([own], 5.0)
        with closing(rival.take()) as taken:
            server.accept()[0].close()
            assert taken.getpeername() == server.getsockname()
        rival.close()


def test_rival_tries_each_address(monkeypatch: pytest.MonkeyPatch) -> None:
    """A closed port is left for the next address; with none left QUIC alone is waited for."""
    with socket.create_server(("127.0.0.1", 0)) as was:
        closed = was.getsockname()
    clock = Ticking()
    clock.now = 0.0
    with socket.create_server(("127.0.0.1", 0)) as server, closing(socket.socket(type=socket.SOCK_DGRAM)) as own:
        own.bind(("127.0.0.1", 0))
        for places, arrives in (([closed, server.getsockname()], True), ([closed], False)):
            found = [(socket.AF_INET, socket.SOCK_STREAM, 0, "", place) for place in places]
            monkeypatch.setattr(socket, "getaddrinfo", lambda *_, found=found, **__: found)
            clock.now = 0.0
            with closing(TcpRival(Destination("agents.example", 1), clock)) as rival:
                clock.now = HEAD_START
                if arrives:
                    with pytest.raises(Overtaken):
                        rival.wait([own], 5.0)
                else:
                    own.sendto(b"x", own.getsockname())
                    assert rival.wait([own], 5.0)
