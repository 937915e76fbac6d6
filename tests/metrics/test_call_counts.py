"""What is counted of calls, and that nobody can make it remember words."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable

import pytest

from agtphost.metrics import call_counts
from agtphost.metrics.call_counts import (
    MOST_AGENTS,
    MOST_CALLED,
    MOST_METHODS,
    MOST_MISSING,
    MOST_SERIES,
    NO_AGENT,
    OTHER,
    CallCounts,
    Histogram,
)
from agtphost.vocabulary.reasons import Reason
from tests.metrics.samples import METHODS as KNOWN
from tests.metrics.samples import group, record


def test_calls_are_counted_by_method_status_and_reason() -> None:
    """Refusals by why; a record that ends no call is a record and no call."""
    counts = CallCounts(KNOWN)
    counts.count_group(
        group(record(), record(), record("BOOK", 404, str(Reason.RECORD_NOT_FOUND)), record(seconds=None))
    )
    counts.count_group(group(record("BOOK", 503, str(Reason.STORE_UNAVAILABLE), durable=False), seconds=None))
    missing, store = str(Reason.RECORD_NOT_FOUND), str(Reason.STORE_UNAVAILABLE)
    assert list(counts.calls()) == [("QUERY", 200, "", 2), ("BOOK", 404, missing, 1), ("BOOK", 503, store, 1)]
    assert (counts.durable, counts.undurable) == (4, 1)
    assert sum(counts.groups.counts) == sum(counts.commits.counts) == 1


def test_what_was_called_and_which_scope_was_missing() -> None:
    """By names that no caller chose; of contracts and of what nobody found, scopes are not told."""
    counts, why = CallCounts(KNOWN, agents=True), str(Reason.SCOPE_REQUIRED)
    refused = record("EXECUTE", 455, why, caller="demo", label="files.read_file", scopes=("files:read",))
    negotiated = record("BOOK", 455, why, caller="demo", label="contracts", scopes=("made:up",))
    counts.count_group(
        group(record(label="files.read_file"), refused, refused, negotiated, record("BOOK", 404, "not-found"))
    )
    assert counts.called == {
        ("files.read_file", "answered"): 1,
        ("files.read_file", "refused"): 2,
        ("contracts", "refused"): 1,
        (NO_AGENT, "refused"): 1,
    }
    assert counts.missing == {("files.read_file", "files:read", "host.toml:31", "demo"): 2}


def test_foreign_words_are_other() -> None:
    """Methods that nobody knows and reasons of other hosts, however many."""
    counts = CallCounts(KNOWN)
    for number in range(5_000):
        counts.count_group(
            group(record(f"VERB{number}", 400, f"because-{number}"), record("QUERY", 404, f"why-{number}"))
        )
    assert list(counts.calls()) == [(OTHER, 400, OTHER, 5_000), ("QUERY", 404, OTHER, 5_000)]
    assert set(counts.latencies) == {OTHER, "QUERY"}


def _series(counts: CallCounts) -> int:
    return len(list(counts.calls()))


BOUNDS: list[tuple[Callable[[CallCounts], int], int]] = [
    (_series, MOST_SERIES + 10),
    (lambda counts: len(counts.latencies), MOST_METHODS + 1),
    (lambda counts: len(counts.callers), MOST_AGENTS + 1),
    (lambda counts: len(counts.called), MOST_CALLED + 2),
    (lambda counts: len(counts.missing), MOST_MISSING + 1),
]


def flood(counts: CallCounts) -> Counter[int]:
    """Every method that there may be, every reason, several statuses and many callers."""
    sent: Counter[int] = Counter()
    choice = random.Random(20261122)
    reasons = list(map(str, Reason))
    for number in range(20_000):
        status = choice.choice((200, 400, 403, 404, 409, 422, 455, 503))
        sent[status] += 1
        refused = record(
            *(f"M{number % 400}", status, choice.choice(reasons)),
            caller=f"agent-{number % 999}",
            label=f"tool-{number % 777}",
            scopes=(f"a:{number}",),
        )
        counts.count_group(group(refused))
    return sent


@pytest.mark.parametrize(("measured", "most"), BOUNDS, ids=["series", "latencies", "callers", "called", "missing"])
def test_labels_are_bounded(measured: Callable[[CallCounts], int], most: int) -> None:
    """Also where all values are on the lists; no call is lost in the counts."""
    counts = CallCounts([f"M{number}" for number in range(400)], agents=True)
    sent = flood(counts)
    assert measured(counts) <= most
    counted: Counter[int] = Counter()
    for _, status, _, count in counts.calls():
        counted[status] += count
    assert counted == sent
    assert sum(sum(each.counts) for each in counts.latencies.values()) == sum(counts.callers.values()) == 20_000


@pytest.mark.parametrize("bound", ["MOST_SERIES", "MOST_METHODS", "MOST_AGENTS"])
def test_control_without_its_bound_a_label_grows(bound: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The test above would notice."""
    monkeypatch.setattr(call_counts, bound, 10**9)
    counts = CallCounts([f"M{number}" for number in range(400)], agents=True)
    flood(counts)
    assert any(measured(counts) > most for measured, most in BOUNDS)


def test_callers_are_told_apart_only_on_demand() -> None:
    """By the label that the operator gave them."""
    silent, telling = CallCounts(KNOWN), CallCounts(KNOWN, agents=True)
    named = record(caller="desk")
    named = named._replace(members={**named.members, "caller_id": "aa", "identity_assurance": "header"})
    for counts in (silent, telling):
        counts.count_group(group(record(caller="desk"), record(caller="desk"), record(), named))
    assert silent.callers == {}
    assert telling.callers == {"desk": 2, NO_AGENT: 2}, "a header adds nothing to the calls of an agent"


def test_a_histogram_counts_each_value_once() -> None:
    """At the bound, below it, and above all of them."""
    histogram = Histogram((1, 2, 4))
    for value in (0.5, 1, 1.5, 4, 5):
        histogram.observe(value)
    assert list(histogram.cumulative()) == [("1.0", 2), ("2.0", 3), ("4.0", 4), ("+Inf", 5)]
    assert histogram.total == 12
