"""FETCH of an earlier version of an item: kept within bounds, read with the same rights (methods v01 section 3.1)."""

from __future__ import annotations

from typing import Any

import pytest

from agtphost.testing import MemoryHost, TestAgent
from agtphost.vocabulary.quotas import COLLECTION_VERSION
from tests.methods.standard.test_collections import OPEN

SETTINGS: dict[str, Any] = {
    "methods": {
        "standard": "*",
        "collection": [
            {"name": "contracts", "read": ["contracts:read"], "write": [], "versions": 3},
            {"name": "orders", **OPEN},
            {"name": "fleeting", **OPEN, "versions": 0},
            {"name": "jobs", **OPEN, "queue": True},
        ],
    }
}


class Kept:
    """A host, and agents that write and read."""

    def __init__(self) -> None:
        self.host = MemoryHost(SETTINGS)
        self.clerk = self.host.agent("clerk", scopes=("contracts:read",))
        self.stranger = self.host.agent("stranger", scopes=())

    def change(self, name: str, number: int, collection: str = "contracts") -> None:
        given = {"target": collection, "source": [{"id": name, "n": number}], "conflict_policy": "overwrite"}
        answer = self.host.call("IMPORT", "/", given, caller=self.clerk)
        assert answer.status == 200, answer.result

    def fetch(self, resource_id: str, version: Any, by: TestAgent | None = None) -> tuple[int, Any]:
        given = {"resource_id": resource_id, "version": version}
        answer = self.host.call("FETCH", "/", given, caller=by or self.clerk)
        return answer.status, answer.result

    @property
    def stored(self) -> int:
        """Former versions that are kept."""
        held = self.host.core.services.evidence.held
        return len(list(held.all(COLLECTION_VERSION)))


@pytest.fixture
def kept() -> Kept:
    return Kept()


def test_earlier_versions_are_returned_as_they_were(kept: Kept) -> None:
    """Content, version and time of then, and the number of the last one; the last one needs no number."""
    for number in (1, 2, 3):
        kept.change("c-1", number)
    for version in (1, 2, 3):
        status, found = kept.fetch("contracts/c-1", version)
        assert (status, found["content"]["n"], found["version"], found["latest_version"]) == (200, version, version, 3)
    for two in ("2", 2.0):
        assert kept.fetch("contracts/c-1", two)[1]["content"]["n"] == 2
    assert kept.fetch("contracts/c-1", 3.0)[1]["content"]["n"] == 3
    first, last = (kept.fetch("contracts/c-1", version)[1] for version in (1, 3))
    assert first["created_at"] == last["created_at"] and first["last_modified"] <= last["last_modified"]


def test_only_so_many_versions_are_kept(kept: Kept) -> None:
    """The collection says how many; older ones, later ones and no numbers are 404."""
    for number in range(1, 8):
        kept.change("c-1", number)
    statuses = [kept.fetch("contracts/c-1", version)[0] for version in range(1, 9)]
    assert statuses == [404] * 3 + [200] * 4 + [404]
    for wrong in (0, -1, "x", "07", "1.0", 2**53, "9" * 100):
        assert kept.fetch("contracts/c-1", wrong)[0] == 404, wrong
    assert kept.stored == 3


def test_versions_are_read_with_the_rights_of_the_item(kept: Kept) -> None:
    """Who may not read the collection finds no version either."""
    kept.change("c-1", 1)
    kept.change("c-1", 2)
    assert kept.fetch("contracts/c-1", 1, kept.stranger)[0] == 404
    assert kept.fetch("contracts/c-1", 1)[0] == 200


def test_a_transfer_keeps_the_version_before(kept: Kept) -> None:
    """Its owner of then is part of it."""
    kept.change("o-1", 1, "orders")
    given = {
        "resource_id": "orders/o-1",
        "from_principal": kept.clerk.agent_id,
        "to_principal": kept.stranger.agent_id,
    }
    assert kept.host.call("TRANSFER", "/", given, caller=kept.clerk).status == 200
    found = [kept.fetch("orders/o-1", version)[1]["owner"] for version in (1, 2)]
    assert found == [kept.clerk.agent_id, kept.stranger.agent_id]


def test_a_collection_may_keep_none(kept: Kept) -> None:
    """``versions = 0``, and the items of a queue: nothing is stored beside the item."""
    kept.change("f-1", 1, "fleeting")
    kept.change("f-1", 2, "fleeting")
    assert [kept.fetch("fleeting/f-1", version)[0] for version in (1, 2)] == [404, 200]
    submitted = kept.host.call("SUBMIT", "/", {"target": "jobs", "payload": {"id": "j-1"}}, caller=kept.clerk)
    assert submitted.status in (200, 202), submitted.result
    kept.host.call("PULL", "/", {"source": "jobs"}, caller=kept.clerk)
    assert kept.stored == 0


def test_a_version_of_another_place_is_not_taken_for_it(kept: Kept) -> None:
    """What is in a version's place and has another number is not returned."""
    kept.change("c-1", 1)
    kept.change("c-1", 2)
    held = kept.host.core.services.evidence.held
    (item,) = held.all(COLLECTION_VERSION)
    assert item.key == "1 contracts/c-1" and item.value["version"] == 1
    kept.change("c-1", 3)
    kept.change("c-1", 4)
    kept.change("c-1", 5)
    assert held.get(COLLECTION_VERSION, "1 contracts/c-1").value["version"] == 4
    assert kept.fetch("contracts/c-1", 1)[0] == 404
