"""Collections: what is kept, who reads and writes it, and the methods that do (methods v01 sections 3, 5.2 and 6)."""

from __future__ import annotations

import random
from typing import Any

import pytest

from agtphost.errors import ConfigurationError
from agtphost.testing import Answer, MemoryHost, TestAgent
from agtphost.vocabulary import jsontext
from tests.programmes import seed_of_chance
from tests.rows import each_row

READING = ("contracts:read",)
WRITING = ("contracts:read", "contracts:write")
OPEN: dict[str, Any] = {"read": [], "write": []}
"""Of a collection that every agent reads and writes."""

SETTINGS: dict[str, Any] = {
    "methods": {
        "standard": "*",
        "collection": [
            {
                "name": "contracts",
                "read": ["contracts:read"],
                "write": ["contracts:write"],
                "schema": {"type": "object", "required": ["title"]},
            },
            {
                "name": "orders",
                **OPEN,
                "max_items": 2_000,
                "remote": [{"name": "warehouse", "pull": "QUERY /warehouse"}],
            },
            {"name": "few", **OPEN, "max_items": 2, "max_share": 1.0},
        ],
    }
}


class Kept:
    """A host with collections, and who calls it."""

    def __init__(self) -> None:
        self.host = MemoryHost(SETTINGS)
        self.clerk = self.host.agent("clerk", scopes=WRITING)
        self.reader = self.host.agent("reader", scopes=READING)
        self.stranger = self.host.agent("stranger", scopes=())

    def ask(self, method: str, by: TestAgent | None = None, /, **given: Any) -> Answer:
        return self.host.call(method, "/", given, caller=by or self.clerk)

    def done(self, method: str, by: TestAgent | None = None, /, **given: Any) -> Any:
        answer = self.ask(method, by, **given)
        assert answer.status == 200, answer.result
        return answer.result

    def refused(self, method: str, by: TestAgent | None = None, /, **given: Any) -> tuple[int, str]:
        answer = self.ask(method, by, **given)
        assert answer.status >= 262, answer.result
        return answer.status, answer.reason


@pytest.fixture(scope="module")
def kept() -> Kept:
    """For all: each test has items of its own."""
    return Kept()


def test_a_contract_is_registered_and_fetched(kept: Kept) -> None:
    """METH-021, METH-001: with its metadata, by who may read it; the draft's contract before it is analysed."""
    entered = kept.done("REGISTER", entity_type="contracts", data={"id": "c-1", "title": "Lease"})
    assert (entered["entity_id"], entered["version"], entered["duplicate"]) == ("c-1", 1, False)
    found = kept.done("FETCH", kept.reader, resource_id="contracts/c-1")
    assert found["content"] == {"id": "c-1", "title": "Lease"} and found["modified"] is True
    assert (found["version"], found["owner"]) == (1, kept.clerk.agent_id)
    assert [link["agent_id"] for link in found["owners"]] == [kept.clerk.agent_id]
    same = kept.done(
        "FETCH", kept.reader, resource_id=f"agtp://{kept.host.config.host.server_id}/collections/contracts/c-1"
    )
    assert same == found
    assert kept.refused("FETCH", kept.stranger, resource_id="contracts/c-1") == (404, "resource-unknown")
    assert kept.refused("FETCH", kept.reader, resource_id="contracts/c-2") == (404, "resource-unknown")
    assert kept.refused("FETCH", kept.reader, resource_id="contracts/c-1", format="pdf")[0] == 422


def test_what_has_not_changed_is_not_sent(kept: Kept) -> None:
    """METH-001: ``if_modified_since`` after the last change has no content; ``version`` is the one that there is."""
    kept.done("REGISTER", entity_type="contracts", data={"id": "c-old", "title": "Lease"})
    changed = kept.done("FETCH", resource_id="contracts/c-old")["last_modified"]
    again = kept.done("FETCH", resource_id="contracts/c-old", if_modified_since=changed)
    assert again["modified"] is False and "content" not in again
    earlier = kept.done("FETCH", resource_id="contracts/c-old", if_modified_since="2020-01-01T00:00:00Z")
    assert earlier["content"]["title"] == "Lease"
    assert kept.done("FETCH", resource_id="contracts/c-old", version=1)["version"] == 1
    assert kept.refused("FETCH", resource_id="contracts/c-old", version=2) == (404, "resource-unknown")
    assert kept.refused("FETCH", resource_id="contracts/c-old", if_modified_since="yesterday") == (422, "invalid-input")


def test_documents_about_agents_are_fetched(kept: Kept) -> None:
    """METH-001: Identity Documents, their status and the namespace, as DESCRIBE has them."""
    agent = kept.host.agent("librarian", hosted=True)
    by_name = kept.done("FETCH", resource_id="/agents/librarian")
    assert by_name["content"]["agent_id"] == agent.agent_id
    assert kept.done("FETCH", resource_id=agent.agent_id)["content"] == by_name["content"]
    assert kept.done("FETCH", resource_id="/agents/librarian/status")["content"]
    assert "librarian" in str(kept.done("FETCH", resource_id="/agents")["content"])
    described = kept.host.call("FETCH", "/agents/librarian", caller=kept.clerk)
    assert described.status == 200, "documents at their own path stay"


def test_a_repeated_registration_is_one(kept: Kept) -> None:
    """METH-021: one ``idempotency_key`` is one entity; for other data it is 409, and of another agent it is another."""
    given = {"entity_type": "orders", "data": {"amount": 7}, "idempotency_key": "onboarding-1"}
    first, second = kept.done("REGISTER", **given), kept.done("REGISTER", **given)
    assert (first["entity_id"], second["duplicate"]) == (second["entity_id"], True)
    assert kept.refused("REGISTER", **{**given, "data": {"amount": 8}}) == (409, "item-exists")
    assert kept.done("REGISTER", kept.reader, **given)["entity_id"] != first["entity_id"]
    assert kept.refused("REGISTER", entity_type="orders", data={"id": first["entity_id"]}) == (409, "item-exists")


def test_what_is_entered_is_held_to_the_collection(kept: Kept) -> None:
    """METH-021: schema 422 with the parameter, scope 403, unknown and closed ones 404, full ones 409."""
    answer = kept.ask("REGISTER", entity_type="contracts", data={"name": "x"})
    assert (answer.status, answer.result["parameter"]) == (422, "data")
    assert kept.refused("REGISTER", kept.reader, entity_type="contracts", data={"title": "x"})[0] == 403
    assert kept.refused("REGISTER", kept.stranger, entity_type="contracts", data={"title": "x"})[0] == 404
    for name in ("nothing", "relations", "bindings", "agents"):
        assert kept.refused("REGISTER", entity_type=name, data={}) == (404, "collection-unknown")
    assert kept.refused("REGISTER", entity_type="orders", data={"id": "../x"})[0] == 422
    assert kept.refused("REGISTER", entity_type="orders", data={"text": "x" * 70_000})[0] == 422
    for number in range(2):
        kept.done("REGISTER", entity_type="few", data={"n": number})
    assert kept.refused("REGISTER", entity_type="few", data={}) == (409, "collection-full")
    assert kept.refused("IMPORT", target="few", source=[{}]) == (409, "collection-full")


def test_orders_above_an_amount_are_found() -> None:
    """METH-002: pending purchase orders above 50,000, by date: the use case of the draft, with ranges and pages."""
    kept = Kept()
    rows = [
        {"id": f"po-{n}", "amount": n * 1_000, "status": "pending" if n % 2 else "paid", "submitted": f"2027-01-{n:02}"}
        for n in range(40, 75)
    ]
    kept.done("IMPORT", target="orders", source=rows)
    query = {"amount": {"gt": 50_000}, "status": "pending"}
    found = kept.done("SEARCH", query=query, scope="orders", sort="-submitted", limit=5)
    assert found["total"] == 12 and found["next_offset"] == 5
    assert [each["id"] for each in found["results"]] == [f"po-{n}" for n in (73, 71, 69, 67, 65)]
    rest = kept.done("SEARCH", query=query, scope=["orders"], sort={"field": "submitted", "order": "desc"}, offset=10)
    assert [each["id"] for each in rest["results"]] == ["po-53", "po-51"] and "next_offset" not in rest
    assert kept.done("SEARCH", query="amount > `73000`", scope="orders")["total"] == 1
    assert kept.done("SEARCH", query="*")["scope"] == ["contracts", "orders", "few"]
    assert kept.done("SEARCH", kept.stranger, query="*")["scope"] == ["orders", "few"]
    assert kept.refused("SEARCH", kept.stranger, query="*", scope="contracts") == (404, "collection-unknown")
    for wrong in ({"query": {"amount": {"above": 1}}}, {"query": "*", "sort": 7}, {"query": "*", "sort": [".."]}):
        assert kept.refused("SEARCH", **wrong)[0] == 422, wrong
    own = kept.done("SEARCH", query={"method": "IMPORT"}, scope="records")
    assert own["total"] == 1 and own["results"][0]["data"]["method"] == "IMPORT"
    assert kept.done("SEARCH", kept.stranger, query={"method": "IMPORT"}, scope="records")["total"] == 0


def test_every_item_is_scanned_once_while_others_come_and_go() -> None:
    """METH-003: whatever stays is in exactly one page, whatever else happens between the pages."""
    kept, seed = Kept(), seed_of_chance()
    rng = random.Random(seed)
    names = [f"i-{n:03}" for n in range(200)]
    kept.done("IMPORT", target="orders", source=[{"id": name, "n": 1} for name in names[::2]])
    seen: list[str] = []
    cursor: dict[str, str] = {}
    while True:
        page = kept.done("SCAN", collection="orders", page_size=rng.randint(1, 20), **cursor)
        seen += [item["id"] for item in page["items"]]
        if page["cursor"] is None:
            break
        cursor = {"cursor": page["cursor"]}
        kept.ask("REGISTER", entity_type="orders", data={"id": rng.choice(names[1::2])})
    assert len(seen) == len(set(seen)) and seen == sorted(seen), seed
    assert set(names[::2]) <= set(seen), seed
    assert kept.refused("SCAN", collection="orders", filter={"n": 1}, **cursor)[0] == 422, "of another query"
    assert kept.refused("SCAN", kept.reader, collection="orders", **cursor)[0] == 422, "of another caller"
    assert kept.refused("SCAN", collection="orders", cursor="made-up")[0] == 422
    assert kept.refused("SCAN", collection="nothing") == (404, "collection-unknown")


def test_all_agents_of_a_zone_are_scanned(kept: Kept) -> None:
    """METH-003: an audit of every agent in a governance zone, page by page."""
    for name in ("one", "two", "three"):
        kept.host.agent(name, hosted=True, zone="zone:partners" if name != "two" else "zone:own")
    found: list[str] = []
    cursor: dict[str, str] = {}
    while True:
        page = kept.done(
            "SCAN", collection="agents", filter={"governance_zone": "zone:partners"}, page_size=1, **cursor
        )
        found += [item["data"]["name"] for item in page["items"]]
        if page["cursor"] is None:
            break
        cursor = {"cursor": page["cursor"]}
    assert sorted(found) == ["one", "three"]


def test_contacts_are_imported_from_csv() -> None:
    """METH-033: the draft's export of a CRM, with what becomes of records that are there, by policy."""
    kept = Kept()
    text = "id,name,city\n1,Ada,London\n2,Grace,New York\n"
    first = kept.done("IMPORT", target="orders", source=text, format="csv")
    assert (first["records"], first["created"]) == (2, 2)
    changed = text.replace("London", "Paris")
    assert kept.done("IMPORT", target="orders", source=changed)["conflicts"] == [{"id": "1", "resolution": "skipped"}]
    merged = kept.done(
        "IMPORT", target="orders", source='{"id": 1, "age": 36}', format="jsonl", conflict_policy="merge"
    )
    assert merged["merged"] == 1
    item = kept.done("FETCH", resource_id="orders/1")
    assert item["content"] == {"id": 1, "name": "Ada", "city": "London", "age": 36} and item["version"] == 2
    kept.done("IMPORT", target="orders", source=[{"id": "1"}], conflict_policy="overwrite")
    assert kept.done("FETCH", resource_id="orders/1")["content"] == {"id": "1"}
    foreign = kept.done(
        "IMPORT", kept.reader, target="orders", source=[{"id": "1", "x": 1}], conflict_policy="overwrite"
    )
    assert foreign["conflicts"] == [{"id": "1", "resolution": "not the caller's"}] and not foreign["overwritten"]
    for wrong in (
        {"source": "https://crm.example/export.csv"},
        {"source": "a,b\n1\n", "format": "csv"},
        {"source": [1, 2]},
        {"source": []},
        {"source": [{}] * 501},
        {"source": [{"id": "a"}, {"id": "a"}]},
        {"source": "{", "format": "json"},
        {"source": "x", "format": "xlsx"},
    ):
        assert kept.refused("IMPORT", target="orders", **wrong)[0] == 422, wrong


def test_a_record_that_does_not_fit_is_named_and_nothing_is_kept() -> None:
    """METH-033: all or nothing."""
    kept = Kept()
    answer = kept.ask("IMPORT", target="contracts", source=[{"id": "ok", "title": "x"}, {"id": "bad"}])
    assert (answer.status, answer.result["parameter"], answer.result["record"]) == (422, "source", 1)
    assert kept.refused("FETCH", resource_id="contracts/ok")[0] == 404


def test_a_link_is_made_once(kept: Kept) -> None:
    """METH-031: two entities, one relation; 404 for an unknown one, 409 for one that is there."""
    kept.done("REGISTER", entity_type="orders", data={"id": "sso-7"})
    kept.done("REGISTER", entity_type="orders", data={"id": "analytics-7"})
    given = {"source": "orders/sso-7", "target": "orders/analytics-7", "relationship": "same-person"}
    link = kept.done("LINK", **given, metadata={"since": 2027})
    assert kept.refused("LINK", **given) == (409, "link-exists")
    assert kept.done("LINK", **{**given, "relationship": "successor"})["link_id"] != link["link_id"]
    assert kept.refused("LINK", **{**given, "target": "orders/nobody"}) == (404, "resource-unknown")
    assert kept.done("SEARCH", query={"target": given["target"]}, scope="relations")["total"] == 2
    assert kept.done("SEARCH", kept.reader, query="*", scope="relations")["total"] == 0, "each sees its own"
    assert kept.done("LINK", kept.reader, **given)["source"] == "orders/sso-7"


def test_a_model_is_embedded_under_a_name(kept: Kept) -> None:
    """METH-036: found in the target under its name; the name is taken then, and the version has to be there."""
    kept.done("REGISTER", entity_type="orders", data={"id": "risk-model", "score": 3})
    kept.done("REGISTER", entity_type="orders", data={"id": "decision"})
    given = {"source": "orders/risk-model", "target": "orders/decision", "binding": "risk"}
    assert kept.refused("EMBED", **given, version=4) == (404, "resource-unknown")
    embedded = kept.done("EMBED", **given, version=1)
    assert (embedded["binding"], embedded["version"]) == ("risk", 1)
    assert kept.refused("EMBED", **given) == (409, "binding-taken")
    assert kept.done("FETCH", resource_id="orders/decision")["embedded"] == {"risk": "orders/risk-model"}
    assert kept.done("FETCH", resource_id="orders/decision/risk")["content"]["score"] == 3
    assert kept.refused("EMBED", **{**given, "target": "orders/none"}) == (404, "resource-unknown")


def test_what_is_kept_is_kept_through_a_restart() -> None:
    """Another process reads the same items, in the order and with the owners that they had."""
    kept = Kept()
    kept.done("REGISTER", entity_type="orders", data={"id": "a"})
    again = MemoryHost(SETTINGS, store=kept.host.store)
    caller = again.agent("clerk", scopes=WRITING)
    assert again.call("FETCH", "/", {"resource_id": "orders/a"}, caller=caller).result["version"] == 1


class Warehouse:
    """What stands behind the endpoints of a remote."""

    def __init__(self) -> None:
        self.items: Any = [{"id": "bolt", "data": {"n": 5}}, {"id": "nut", "data": {"n": 7}}]
        self.taken: list[Any] = []
        self.calls: list[Any] = []

    def pull(self, context: Any) -> Any:
        return {"items": self.items}

    def push(self, context: Any) -> Any:
        self.taken = context.input["items"]
        self.calls.append(self.taken)
        return {}


def synced(warehouse: Warehouse) -> Kept:
    kept = Kept()
    section = SETTINGS["methods"]["collection"][1]
    remote = {"name": "warehouse", "pull": "QUERY /warehouse", "push": "REPLACE /warehouse"}
    kept.host = MemoryHost(
        {"methods": {"standard": ["SYNC", "FETCH", "IMPORT"], "collection": [{**section, "remote": [remote]}]}}
    )
    kept.host.endpoint("QUERY", "/warehouse", warehouse.pull)
    kept.host.endpoint("REPLACE", "/warehouse", warehouse.push, {"items": "array"})
    kept.clerk, kept.reader = kept.host.agent("clerk", scopes=WRITING), kept.host.agent("reader", scopes=READING)
    return kept


def test_an_inventory_is_brought_together_with_its_warehouse() -> None:
    """METH-032: pulled, then both ways, conflicts by policy; no caller names an address."""
    warehouse = Warehouse()
    kept = synced(warehouse)
    given = {"resource": "orders", "remote": "warehouse"}
    first = kept.done("SYNC", **given)
    assert first["changes"] == {"created": 2, "updated": 0, "unchanged": 0, "pushed": 0}
    kept.done("IMPORT", target="orders", source=[{"id": "gear", "n": 1}])
    warehouse.items = [{"id": "bolt", "data": {"n": 6}}, {"id": "nut", "data": {"n": 7}}]
    manual = kept.ask("SYNC", **given, conflict_policy="manual")
    assert (manual.status, manual.reason, manual.result["conflicts"]) == (409, "sync-conflict", ["bolt"])
    assert kept.done("FETCH", resource_id="orders/bolt")["content"] == {"n": 5}, "nothing was changed"
    both = kept.done("SYNC", **given, direction="bidirectional", conflict_policy="local_wins")
    assert both["conflicts"] == [{"id": "bolt", "resolution": "local_wins"}] and both["changes"]["pushed"] == 2
    assert warehouse.taken == [{"id": "bolt", "data": {"n": 5}}, {"id": "gear", "data": {"id": "gear", "n": 1}}]
    kept.done("SYNC", **given)
    assert kept.done("FETCH", resource_id="orders/bolt")["content"] == {"n": 6}


@each_row("data", [{"text": "x" * 60_000}, {"numbers": [1] * 9_000}])
def test_what_is_much_is_pushed_in_parts(data: dict[str, Any]) -> None:
    """METH-032: each part is a call that holds nobody up, and a body that is read; together they are all."""
    warehouse = Warehouse()
    kept = synced(warehouse)
    warehouse.items = []
    names = [f"i{n:02}" for n in range(20)]
    for at in range(0, 20, 5):
        kept.done("IMPORT", target="orders", source=[{"id": name, **data} for name in names[at : at + 5]])
    told = kept.done("SYNC", resource="orders", remote="warehouse", direction="push")
    assert told["changes"]["pushed"] == 20 and len(warehouse.calls) > 1
    assert [each["id"] for part in warehouse.calls for each in part] == names
    assert max(len(jsontext.encode(part)) for part in warehouse.calls) <= 1_048_576


def test_a_remote_that_is_none_or_gone() -> None:
    """METH-032: 404 for what is not configured, an address included; 503 for one that does not answer with items."""
    warehouse = Warehouse()
    kept = synced(warehouse)
    for remote in ("elsewhere", "https://warehouse.example/items"):
        assert kept.refused("SYNC", resource="orders", remote=remote) == (404, "remote-unknown")
    assert kept.refused("SYNC", resource="nothing", remote="warehouse") == (404, "collection-unknown")
    for wrong in ("gone", [{"id": "x"}], [{"id": "../x", "data": 1}], [{"id": "x", "data": 1}] * 501):
        warehouse.items = wrong
        assert kept.refused("SYNC", resource="orders", remote="warehouse") == (503, "remote-unavailable"), wrong


def test_a_collection_that_is_taken_away_keeps_its_items() -> None:
    """A configuration without it answers 404, and the next one that has it has all of its items."""
    kept = Kept()
    kept.done("REGISTER", entity_type="orders", data={"id": "a"})
    for collection, status in (([], 404), ([{"name": "orders", **OPEN, "max_items": 1}], 200)):
        settings = {"methods": {"standard": ["FETCH", "REGISTER"], "collection": collection}}
        host = MemoryHost(settings, store=kept.host.store)
        caller = host.agent("clerk", scopes=WRITING)
        assert host.call("FETCH", "/", {"resource_id": "orders/a"}, caller=caller).status == status
    full = host.call("REGISTER", "/", {"entity_type": "orders", "data": {}}, caller=caller)
    assert (full.status, full.reason) == (409, "collection-full"), "what is there counts, whoever configured it"


@pytest.mark.parametrize("wrong", [{"name": "agents"}, {"name": "Up"}, {"name": "x", "schema": {"type": "nothing"}}])
def test_wrong_collections_are_start_errors(wrong: dict[str, Any]) -> None:
    """Reserved and impossible names, and schemas that are none."""
    with pytest.raises(ConfigurationError):
        host = MemoryHost({"methods": {"standard": "*", "collection": [{**OPEN, **wrong}]}})
        _ = host.core
