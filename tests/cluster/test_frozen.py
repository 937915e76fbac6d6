"""A host that was frozen or cut off while another one took over runs no handler and commits nothing."""

from __future__ import annotations

import json
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agtphost.identity.envelope import parse_unverified
from agtphost.stores import Selection
from tests import postgres
from tests.cluster.hosts import TAKEOVER_AFTER, Cluster, cluster, describe, gone, probe, probed
from tests.programmes import length
from tests.stores.postgres_proxy import Proxy
from tests.stores.test_postgres import place_of
from tests.system.hosting import Host, agtp, until
from tests.system.raw_link import RawLink, client_context, request
from tests.system.trail import marks

pytestmark = postgres.needed

SUPERSEDED = 75
"""The exit status of a host that another one replaced: docs/standby.rst promises it to supervisors."""

ROUNDS = length(1, 50)
AWAY_SECONDS = length(0.0, 10.0)
"""How long a host is frozen or cut off; it is longer where the takeover takes longer, 3.5 s or so."""

BUSY = 20
LINKS, EACH = 10, 10
"""Connections of a host that is frozen, and requests in each of their sockets."""


@contextmanager
def connected(host: Host) -> Iterator[list[RawLink]]:
    """Connections that have been used."""
    context = client_context(host)
    links = [RawLink(host, context=context) for _ in range(LINKS)]
    try:
        for link in links:
            assert link.ask("ECHO", "/text", {"text": "x"}).status == 200
        yield links
    finally:
        for link in links:
            link.close()


def freeze(
    group: Cluster, leader: str, standby: str, times: list[float], *, revoke: bool = False, busy: int = BUSY
) -> list[str]:
    """
    Freeze the host that serves, fill its sockets, let another one take over, and wake it.

    :param times: takes the seconds until the other host served.
    :param revoke: whether the calling agent is stopped at the other host before that.
    :param busy: calls that it is working at when it is frozen.
    :return: the marks of the calls that were in its sockets.
    """
    frozen, other = group.hosts[leader], group.hosts[standby]
    with connected(frozen) as links, RawLink(frozen) as link:
        # It is in the middle of a transaction, perhaps, which has to end before another host can take the lease.
        link.send(b"".join(request("BOOK", "/stay", {"mark": f"busy-{number}"}) for number in range(busy)))
        frozen.process.send_signal(signal.SIGSTOP)
        since = time.monotonic()
        sent = [f"{leader}-{time.monotonic()}-{number}" for number in range(LINKS * EACH)]
        for number, link in enumerate(links):
            own = sent[number * EACH : (number + 1) * EACH]
            # Without a key nothing is committed before the handler runs: freshness alone stops it.
            link.send(b"".join(request("BOOK", "/stay", {"mark": mark}, Request_ID=mark) for mark in own))
        until(lambda: other.port)
        times.append(time.monotonic() - since)
        if revoke:
            command(group, standby, "agent", "deactivate", "demo", "--reason", "drill")
        stay_away(since)
        frozen.process.send_signal(signal.SIGCONT)
        assert gone(frozen) == SUPERSEDED, frozen.output
    return sent


def stay_away(since: float) -> None:
    """Wait until a host has been away for :data:`AWAY_SECONDS`."""
    time.sleep(max(0.0, since + AWAY_SECONDS - time.monotonic()))


def command(group: Cluster, name: str, *words: str) -> None:
    """Run a command against one of the hosts."""
    config = str(group.hosts[name].config)
    done = agtp(*words, "--config", config, cwd=group.folder, environ=group.environ(name))
    assert done.returncode == 0, done.stdout + done.stderr


def ran(group: Cluster, sent: list[str]) -> list[str]:
    """Return the calls whose handler ran."""
    found = marks(group.config)
    return [mark for mark in sent if found[mark]]


def records_of(group: Cluster, sent: list[str]) -> list[str]:
    """Return the calls with a record."""
    reader = place_of(group.url).open_reader()
    try:
        payloads = [parse_unverified(each.format, each.signed) for each in reader.records(Selection())]
    finally:
        reader.close()
    found = {str(payload.get("request_id")) for payload in payloads}
    return [mark for mark in sent if mark in found]


@pytest.mark.programme
@pytest.mark.slow
@pytest.mark.timeout(60 + 15 * ROUNDS)
@pytest.mark.parametrize("revoke", [False, True], ids=["alone", "agent stopped"])
def test_a_frozen_host_runs_no_handler_when_it_wakes(tmp_path: Path, *, revoke: bool) -> None:
    """
    A hundred requests in its sockets come to nothing, and it ends with status 75; it can stand by again.

    The hosts learn late that they were replaced: a host that ends within the first millisecond would prove little.
    """
    with cluster(tmp_path, "a", "b") as group:
        assert group.hosts["a"].stop() == 0
        group.start("a", fault="late").wait()
        other = group.variant("b")
        configs, leader, standby = {"a": group.config, "b": other}, "a", "b"
        times: list[float] = []
        for _ in range(ROUNDS):
            group.stand_by(standby, fault="late", config=configs[standby])
            sent = freeze(group, leader, standby, times, revoke=revoke)
            assert ran(group, sent) == []
            assert records_of(group, sent) == []
            if revoke:
                command(group, standby, "agent", "reinstate", "demo")
            leader, standby = standby, leader
        print(describe("from the freeze until the other host serves", times))


def test_control_a_host_that_trusts_an_old_beat_runs_handlers(tmp_path: Path) -> None:
    """Without the check, calls are carried out at a host that another one replaced; they have no record."""
    with cluster(tmp_path, "a", "b") as group:
        assert group.hosts["a"].stop() == 0
        group.start("a", fault="trusting").wait()
        group.stand_by("b", config=group.variant("b"))
        # The record of a call that it was working at would end it before it reads its sockets.
        sent = freeze(group, "a", "b", [], busy=0)
        assert ran(group, sent) != []
        assert records_of(group, sent) == []


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    """Provide a way to the database that can be cut."""
    with tempfile.TemporaryDirectory(prefix="agtp-pg-") as own:
        made = Proxy(postgres.server().folder, Path(own))
        yield made
        made.close()


def cut_off(folder: Path, proxy: Proxy, fault: str = "") -> Counter[str]:
    """
    Cut the host that serves off from its store until another one serves; return which calls it carried out.

    :param fault: of the host that is cut off.
    """
    with cluster(folder, "a", "b") as group:
        assert group.hosts["a"].stop() == 0
        ways = (f"host={postgres.server().folder}", f"host={proxy.folder}")
        config, probes = probed(group, "a", ways)
        leader = group.start("a", fault=fault, config=config).wait()
        standby = group.stand_by("b")
        with connected(leader) as links:
            assert links[0].ask("BOOK", "/stay", {"mark": "before"}).status == 200
            # Its statements get no answer, and its ledger does not know yet that none will come.
            proxy.cut, since = (lambda octets: "silence"), time.monotonic()
            if not fault:
                until(lambda: probe(f"{probes}/readyz")[0] == 503)
            standby.wait()
            stay_away(since)
            for link in links:
                link.send(b"".join(request("BOOK", "/stay", {"mark": "replaced"}) for _ in range(EACH)))
            for link in links:
                for _ in range(EACH):
                    refused = link.answer()
                    assert refused is not None and (refused.status, refused.reason) == (503, "store-unavailable")
            proxy.cut = lambda octets: ""
            assert gone(leader) == SUPERSEDED
        assert "was taken over by b (" in leader.output
        assert json.loads(standby.agtp("store", "status", "--json").stdout)["serving"] == "b"
        return marks(group.config)


@pytest.mark.programme
@pytest.mark.slow
def test_a_host_that_is_cut_off_from_its_store_runs_no_handler(tmp_path: Path, proxy: Proxy) -> None:
    """Its clients stay connected, and their calls get 503; it ends with status 75 once it reaches the store again."""
    assert cut_off(tmp_path, proxy) == {"before": 1}


@pytest.mark.release
@pytest.mark.slow
def test_control_a_host_that_is_cut_off_and_trusts_an_old_beat_runs_handlers(tmp_path: Path, proxy: Proxy) -> None:
    """Its calls get 503 too, after they were carried out."""
    assert cut_off(tmp_path, proxy, "trusting")["replaced"] > 0


def block(folder: Path, fault: str = "") -> tuple[Cluster, int]:
    """Have a handler block the reactor of the host that serves for longer than the lease; return the term after it."""
    with cluster(folder, "a", "b") as group:
        assert group.hosts["a"].stop() == 0
        leader = group.start("a", fault=fault).wait()
        standby = group.stand_by("b", config=group.variant("b"))
        with RawLink(leader) as link:
            link.send(request("BOOK", "/stay", {"mark": "long", "blocking": TAKEOVER_AFTER + 2}))
            if fault:
                assert link.answer() is not None
            else:
                standby.wait()
                assert gone(leader) == SUPERSEDED
        return group, group.term()


@pytest.mark.slow
def test_a_host_whose_reactor_hangs_loses_the_lease(tmp_path: Path) -> None:
    """The reactor asks for each beat; the call is not acknowledged, and the log says when the last beat was."""
    group, term = block(tmp_path)
    assert term == 3
    assert " s ago, and has to end" in group.hosts["a"].output
    assert marks(group.config) == {"long": 1}


@pytest.mark.slow
def test_control_a_host_that_sends_beats_by_itself_keeps_it(tmp_path: Path) -> None:
    """With beats from a thread, a host that answers nobody keeps the others out."""
    _, term = block(tmp_path, "tireless")
    assert term == 2
