"""What a scrape reads, by the official parser."""

from __future__ import annotations

import time
from collections import Counter
from types import SimpleNamespace
from typing import Any

from prometheus_client import REGISTRY
from prometheus_client.openmetrics import parser as openmetrics

from agtphost.host.vitals_reader import read_quic
from agtphost.metrics.call_counts import LONGEST_PERSON, MOST_PEOPLE, CallCounts
from agtphost.metrics.exposition import Exposition
from agtphost.protocols.quic.counts import QuicCounts
from agtphost.vocabulary.reasons import Reason
from agtphost.vocabulary.vitals import Obstacle, QuicVital, obstacles
from tests.measuring import measured
from tests.metrics.samples import METHODS, READERS, group, record, scraped, vitals


def test_a_scrape_has_calls_and_vitals() -> None:
    """With their labels, and what was counted."""
    counts = CallCounts(METHODS, agents=True)
    counts.count_group(group(record(caller="desk"), record("BOOK", 404, str(Reason.RECORD_NOT_FOUND), seconds=7.0)))
    found = scraped(counts, vitals())
    assert found["agtphost_calls_total", (("method", "QUERY"), ("reason", ""), ("status", "200"))] == 1
    refused = (("method", "BOOK"), ("reason", str(Reason.RECORD_NOT_FOUND)), ("status", "404"))
    assert found["agtphost_calls_total", refused] == 1
    assert found["agtphost_agent_calls_total", (("agent", "desk"),)] == 1
    assert found["agtphost_call_seconds_bucket", (("le", "0.005"), ("method", "QUERY"))] == 1
    assert found["agtphost_call_seconds_bucket", (("le", "5.0"), ("method", "BOOK"))] == 0
    assert found["agtphost_call_seconds_bucket", (("le", "10.0"), ("method", "BOOK"))] == 1
    assert found["agtphost_call_seconds_sum", (("method", "BOOK"),)] == 7
    assert found["agtphost_commit_records_count", ()] == found["agtphost_commit_seconds_count", ()] == 1
    assert found["agtphost_records_sealed_total", (("durable", "true"),)] == 2
    for name, value in (
        ("agtphost_calls_in_flight", 1),
        ("agtphost_calls_waiting", 2),
        ("agtphost_connections", 3),
        ("agtphost_records", 40),
        ("agtphost_ledger_healthy", 1),
        ("agtphost_checkpoint_age_seconds", 0),
        ("agtphost_store_free_bytes", 10**9),
        ("agtphost_escalations_open", 4),
        ("agtphost_certificate_days_left", 30),
        ("agtphost_revocation_list_days_left", 2),
        ("agtphost_ready", 1),
    ):
        assert found[name, ()] == value, name
    assert found["agtphost_witness_age_seconds", (("witness", "agtp://w.example"),)] == 12
    assert found["agtphost_spans_lost_total", (("why", "dropped"),)] == 7
    files = (("protocol", "mcp"), ("server", "files"))
    assert found["agtphost_upstream_restarts_total", files] == 2
    states = {state: found["agtphost_upstream_state", (*files, ("state", state))] for state in ("up", "idle", "failed")}
    assert states == {"up": 1, "idle": 0, "failed": 0}
    assert found["process_resident_memory_bytes", ()] > 1_000_000


def test_counts_of_a_quic_port_are_read() -> None:
    """Each count goes to the member of its name."""
    counts = QuicCounts(handshakes=Counter(done=4), dropped=Counter(version=5), retries=6, lost=100, moves=8)
    port: Any = SimpleNamespace(counts=counts, count_admitted=lambda: 1, streams=2, packets_lost=7)
    wanted = QuicVital(
        port=4480, connections=1, streams=2, handshakes={"done": 4}, dropped={"version": 5}, retries=6, lost=7, moves=8
    )
    assert read_quic(port, 4480) == wanted


def test_connections_are_told_by_carrier_where_there_are_two() -> None:
    """A host without QUIC has one line, as before; with it, each carrier has one, and what QUIC counts follows."""
    plain = scraped(CallCounts(METHODS), vitals())
    assert plain["agtphost_connections", ()] == 3 and not any("quic" in name for name, _ in plain)
    quic = QuicVital(
        port=4480, connections=1, streams=2, handshakes={"done": 4}, dropped={"version": 5}, retries=6, lost=7, moves=8
    )
    found = scraped(CallCounts(METHODS), vitals(quic=quic))
    assert {labels: value for (name, labels), value in found.items() if name == "agtphost_connections"} == {
        (("carrier", "tls"),): 2,
        (("carrier", "quic"),): 1,
    }
    assert {(name, labels): value for (name, labels), value in found.items() if name.startswith("agtphost_quic")} == {
        ("agtphost_quic_handshakes_total", (("outcome", "done"),)): 4,
        ("agtphost_quic_retries_total", ()): 6,
        ("agtphost_quic_datagrams_dropped_total", (("why", "version"),)): 5,
        ("agtphost_quic_packets_lost_total", ()): 7,
        ("agtphost_quic_migrations_total", ()): 8,
        ("agtphost_quic_streams", ()): 2,
    }


def test_people_are_told_apart_where_the_operator_wants_it_and_only_so_many() -> None:
    """A person of an identity provider is in no metric by default; of many, and of long names, little is kept."""
    calls = [record(person=f"person-{number}" + "x" * 300) for number in range(MOST_PEOPLE + 5)]
    counts = CallCounts(METHODS, people=True)
    counts.count_group(group(record(), *calls))
    found = {
        dict(labels)["person"]: value
        for (name, labels), value in scraped(counts, vitals()).items()
        if name == "agtphost_person_calls_total"
    }
    assert len(found) == MOST_PEOPLE + 1 and found["none"] == 1 and found["other"] == 6
    assert max(map(len, found)) == LONGEST_PERSON
    without = CallCounts(METHODS)
    without.count_group(group(*calls))
    assert not any("person" in str(each) for each in scraped(without, vitals()))


def test_what_there_is_none_of_is_not_told() -> None:
    """A certificate without an end, no checkpoint, no list, no disk: no line, and no number that nobody can draw."""
    seen = vitals(
        checkpoint_age=None, revocation_ends=None, free_octets=None, certificate_ends=float("inf"), upstreams=()
    )
    names = {name for name, _ in scraped(CallCounts(METHODS), seen)}
    assert not names & {
        "agtphost_checkpoint_age_seconds",
        "agtphost_revocation_list_days_left",
        "agtphost_store_free_bytes",
        "agtphost_certificate_days_left",
        "agtphost_upstream_state",
        "agtphost_calls_total",
        "agtphost_call_seconds_count",
        "agtphost_agent_calls_total",
    }


def test_open_metrics_where_it_is_asked_for() -> None:
    """As Prometheus asks; the parser of that format is stricter."""
    counts = CallCounts(METHODS)
    counts.count_group(group(record()))
    kind, octets = Exposition(counts, vitals).render("application/openmetrics-text;version=1.0.0,text/plain;q=0.5")
    assert kind.startswith("application/openmetrics-text")
    names = {family.name for family in openmetrics.text_string_to_metric_families(octets.decode())}
    assert {"agtphost_calls", "agtphost_call_seconds", "agtphost_ready"} <= names


def test_two_hosts_of_a_process_count_apart() -> None:
    """Nothing is in the library's own registry."""
    first, second = CallCounts(METHODS), CallCounts(METHODS)
    first.count_group(group(record()))
    one, other = Exposition(first, vitals), Exposition(second, vitals)
    assert "agtphost_calls_total{" in one.render("")[1].decode()
    assert "agtphost_calls_total{" not in other.render("")[1].decode()
    assert not [family.name for family in REGISTRY.collect() if family.name.startswith("agtphost")]


@measured
def test_the_largest_scrape_holds_nothing_up() -> None:
    """Every label at its bound: less than the 50 ms that anything may hold the reactor."""
    methods = [f"M{number}" for number in range(437)]
    counts = CallCounts(methods, agents=True)
    reasons = list(map(str, Reason))
    for number in range(6_000):
        counts.count_group(
            group(record(methods[number % 437], 400, reasons[number % len(reasons)], caller=f"agent-{number}"))
        )
    seen = vitals(upstreams=(READERS,) * 100)
    exposition = Exposition(counts, lambda: seen)
    spent = []
    for _ in range(5):
        began = time.thread_time()
        octets = exposition.render("")[1]
        spent.append(time.thread_time() - began)
    lines = octets.count(b"\n")
    print(f"{lines} lines, {len(octets)} octets, {min(spent) * 1000:.1f} ms")
    assert lines > 3_000 and len(octets) < 1_000_000
    assert min(spent) < 0.15  # 25 to 65 ms of the processor on the machines that measured.


def test_what_keeps_a_host_from_being_ready() -> None:
    """Each thing by itself; an upstream that is started on demand keeps nobody waiting."""
    assert list(obstacles(vitals())) == []
    down = READERS.__class__(protocol="mcp", name="files", state="failed", restarts=9, eager=True)
    lazy = READERS.__class__(protocol="mcp", name="files", state="failed", restarts=9, eager=False)
    assert list(obstacles(vitals(upstreams=(lazy,)))) == []
    for seen, what, why in (
        (vitals(healthy=False), "ledger", "the store takes no records"),
        (vitals(healthy=False, low=True), "ledger", "nearly full"),
        (vitals(stopping=True), "host", "it is stopping"),
        (vitals(listening=False), "listener", "does not accept"),
        (vitals(upstreams=(down,)), "upstream", "mcp.files is failed"),
    ):
        (found,) = obstacles(seen)
        assert isinstance(found, Obstacle) and found.what == what and why in found.why
        assert scraped(CallCounts(METHODS), seen)["agtphost_ready", ()] == 0
