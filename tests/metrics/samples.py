"""Groups and vitals as a host has them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from agtphost.audit.observed_records import ObservedGroup, ObservedRecord
from agtphost.metrics.call_counts import CallCounts
from agtphost.metrics.exposition import Exposition
from agtphost.vocabulary.vitals import ExpiryVital, UpstreamVital, Vitals

METHODS = ("QUERY", "BOOK", "EXECUTE")
STATES = ("up", "idle", "failed")
READERS = UpstreamVital(protocol="mcp", name="files", state="up", restarts=2, eager=True)


def record(
    method: str = "QUERY",
    status: int = 200,
    reason: str = "",
    *,
    seconds: float | None = 0.003,
    caller: str = "",
    label: str = "",
    scopes: Sequence[str] = (),
    durable: bool = True,
    person: str = "",
) -> ObservedRecord:
    """One answer."""
    members: dict[str, Any] = {
        "method": method,
        "status": status,
        "path": "/x",
        **({"reason": reason} if reason else {}),
        **({"acting_principal_id": person} if person else {}),
        **({"extra": {"scopes": list(scopes)}} if scopes else {}),
    }
    return ObservedRecord(
        *("a" * 64, "", ""),
        durable=durable,
        seconds=seconds,
        caller=caller,
        members=members,
        label=label,
        ruling=lambda: "host.toml:31",
    )


def group(*records: ObservedRecord, seconds: float | None = 0.002) -> ObservedGroup:
    """Records of one transaction."""
    return ObservedGroup(records, seconds)


def vitals(**changes: Any) -> Vitals:
    """A host that is well."""
    known: dict[str, Any] = {
        "serving": 1,
        "waiting": 2,
        "connections": 3,
        "listening": True,
        "stopping": False,
        "healthy": True,
        "low": False,
        "records": 40,
        "checkpoint_age": 0.0,
        "witness_ages": {"agtp://w.example": 12.0},
        "open_items": {"escalation": 4},
        "certificate_ends": 86_400.0 * 30,
        "revocation_ends": 86_400.0 * 2,
        "expiries": (
            ExpiryVital(kind="agent-certificate", name="demo", ends=1_800_000_000.0, soon=False, sentence=""),
            ExpiryVital(kind="authority", name="ca.pem", ends=1_900_000_000.0, soon=False, sentence=""),
            ExpiryVital(kind="authority", name="ca.pem", ends=1_990_000_000.0, soon=False, sentence=""),
        ),
        "free_octets": 10**9,
        "spans_lost": {"dropped": 7, "undelivered": 0},
        "upstreams": (READERS,),
        "states": STATES,
    }
    return Vitals(**{**known, **changes})


def scraped(counts: CallCounts, seen: Vitals, accept: str = "") -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """What a scrape reads: values by name and labels."""
    _, octets = Exposition(counts, lambda: seen).render(accept)
    return read(octets.decode())


def read(text: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """The samples of an exposition, by name and labels, as the official parser reads them."""
    found: dict[tuple[str, tuple[tuple[str, str], ...]], float] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            key = (sample.name, tuple(sorted(sample.labels.items())))
            assert key not in found, f"{key} is there twice"
            found[key] = sample.value
    return found
