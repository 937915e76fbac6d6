"""What is kept of agents that ended, and when their labels are free."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from agtphost.audit import retention
from agtphost.audit.lifecycle import LifecycleStatus, LifecycleTable
from agtphost.audit.state import StateItem, StateTable
from agtphost.errors import Refusal
from agtphost.identity.directory import AgentDirectory
from agtphost.methods.lifecycle import Lifecycle, LifecycleAuth
from agtphost.stores.rows import ItemRow
from agtphost.vocabulary import jsontext, times
from tests.dispatch.hosts import HOSTED, agent
from tests.rows import each_row

NOW = datetime(2026, 2, 28, 12, tzinfo=UTC).timestamp()
DAY = 86_400


LIBRARIAN = replace(agent(HOSTED, "librarian", hosted=True), genesis=None)


def kept_items(status: LifecycleStatus = LifecycleStatus.RETIRED) -> list[StateItem]:
    """What a table holds after the transition."""
    [change] = retention.retention_changes(LIBRARIAN, status, {"reason": "over"}, NOW)
    assert change.expires_at is None and change.value is not None, "it never expires"
    table = StateTable(lambda: NOW + 100 * 365 * DAY)
    table.apply([ItemRow(change.kind, change.key, b"", 1, change.expires_at, jsontext.encode(change.value))])
    return list(table.all(retention.RETAINED))


@pytest.mark.parametrize(
    ("status", "until"),
    [(LifecycleStatus.RETIRED, "2036-02-28T12:00:00Z"), (LifecycleStatus.DEPRECATED, "2033-02-28T12:00:00Z")],
)
def test_how_long_at_the_least(status: LifecycleStatus, until: str) -> None:
    """AGTP-178: ten years, seven years; the item itself never expires, even a hundred years later."""
    [item] = kept_items(status)
    assert item.value["keep_until"] == until and item.value["status"] == status.value


def test_what_is_not_there() -> None:
    """AGTP-180: no sessions, packages or grants; and nothing is retained of agents that go on."""
    [item] = kept_items()
    assert not {"scopes", "sessions", "package", "authority_scope"} & item.value.keys()
    assert "booking" not in json.dumps(dict(item.value))
    for status in (LifecycleStatus.ACTIVE, LifecycleStatus.SUSPENDED):
        assert retention.retention_changes(LIBRARIAN, status, {}, NOW) == ()


@each_row(("days", "free"), [(0, False), (1, False), (89, False), (90, True), (91, True)])
def test_a_label_is_free_after_ninety_days(days: int, free: bool) -> None:
    """AGTP-171: for another agent; the one that had it comes back under it at any time."""
    items, later = [item.value for item in kept_items()], NOW + days * DAY
    assert (retention.reserved_by("librarian", "f" * 64, items, later) is None) is free
    assert retention.reserved_by("librarian", HOSTED, items, later) is None
    assert retention.reserved_by("another", "f" * 64, items, later) is None


def test_years_after_a_leap_day() -> None:
    """The last of February stands for a day that is missing."""
    leap = datetime(2028, 2, 29, tzinfo=UTC).timestamp()
    assert times.stamp(retention.years_after(leap, 7)) == "2035-02-28T00:00:00Z"


def test_activate_refuses_a_label_that_is_kept() -> None:
    """AGTP-171: 409 label-reserved, naming when the agent before ended; another label passes."""
    items = [item.value for item in kept_items()]
    handler = Lifecycle(
        AgentDirectory([]),
        LifecycleTable().state_of,
        LifecycleAuth.OPEN,
        label_kept=lambda which: retention.reserved_by(which.name, which.agent_id, items, NOW + DAY),
    )
    with pytest.raises(Refusal) as caught:
        handler._require_free_label(replace(LIBRARIAN, agent_id="f" * 64))
    assert (caught.value.status, caught.value.reason) == (409, "label-reserved")
    handler._require_free_label(replace(LIBRARIAN, agent_id="f" * 64, name="another"))
