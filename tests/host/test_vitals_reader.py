"""What is asked of a host's parts when somebody looks."""

from __future__ import annotations

import json
from typing import Any

from agtphost.audit.state import StateTable
from agtphost.host.vitals_reader import PendingApprovals
from agtphost.stores.rows import ItemRow
from agtphost.vocabulary.quotas import APPROVAL


def row(key: str, version: int = 1, **changes: Any) -> ItemRow:
    """An approval as it lies in the store; None instead of a value removes it."""
    value = {"status": "pending", "until": 1_100.0, "use_by": 0, "created": 1, "caller": "c", "digest": key, **changes}
    octets = None if "gone" in changes else json.dumps(value).encode()
    return ItemRow(APPROVAL, key, b"\x01" * 32, version, 9_000_000, octets)


def test_approvals_wait_until_they_are_decided_or_over() -> None:
    """Those that were there before count too; each change, and time, makes them fewer."""
    now = [1_000.0]
    held = StateTable(lambda: now[0])
    held.replace([row("a"), row("b", status="accepted")])
    pending = PendingApprovals(held, lambda: now[0])
    assert pending.count() == 1
    held.apply([row("c"), row("d", until=2_000.0)])
    assert pending.count() == 3
    held.apply([row("c", 2, status="rejected")])
    assert pending.count() == 2
    now[0] = 1_500.0
    assert pending.count() == 1
    held.apply([row("d", 2, gone=True)])
    assert pending.count() == 0
    held.replace([])
    assert pending._until == {}, "nothing is remembered of what is gone"
