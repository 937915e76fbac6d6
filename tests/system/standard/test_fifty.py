"""The draft's own use case of each of the fifty standard methods, on the sample deployment with ``etc/methods``."""

from __future__ import annotations

import base64
import json
import shutil
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from agtphost.client import Reply
from agtphost.client.sync import Buyer
from agtphost.client.sync import Host as Bound
from agtphost.identity.provisioning import provision_development
from agtphost.methods.standard.table import STANDARD
from tests.system.hosting import Host, agtp, sample
from tests.system.standard.hosted import Standard
from tests.system.standard.test_data import (
    CANONICAL,
    CATALOG,
    CONTRACT,
    CONTRACT_SCHEMA,
    EXPENSES,
    VENDOR,
)

SCOPES = (
    *("authorization:grant", "activation:run", "payments:purchase", "governance:sign", "mcp:tools:execute"),
    *("contracts:*", "inventory:*", "knowledge:*", "people:*", "booking:*"),
)


class Fifty(Standard):
    """The sample with everything in ``etc/methods``, as its ``host.toml`` says, and which methods succeeded."""

    def __init__(self, folder: Path) -> None:
        self.config = sample(folder)
        etc = self.config.parent
        for name in ("host.toml", "recipes.toml"):
            with (etc / name).open("a", encoding="utf-8") as file:
                file.write((etc / "methods" / name).read_text(encoding="utf-8"))
        shutil.copyfile(etc / "methods" / "endpoints.toml", etc / "endpoints" / "methods.toml")
        shutil.copyfile(etc / "methods" / "shop.agent.json", etc / "agents" / "shop.agent.json")
        made = agtp("key", "new", "methods/governance.key", cwd=etc)
        assert made.returncode == 0, made.stderr
        provision_development(
            etc / "state", server_id="localhost", hosted=sorted((etc / "agents").glob("*.agent.json"))
        )
        self.ids = {name: _agent_id(etc / "state" / "hosted" / name) for name in ("librarian", "shop")}
        for name, scopes in (("analyst", SCOPES), ("archivist", ("contracts:*",)), ("contractor", ("weather:read",))):
            made = agtp("agent", "new", name, *(word for scope in scopes for word in ("--scope", scope)), cwd=etc)
            assert made.returncode == 0, made.stderr
            self.ids[name] = _agent_id(etc / "state" / "agents" / name)
        self.host = Host(self.config)
        self._clients: dict[str, Bound] = {}
        self.done: set[str] = set()

    def ask(self, method: str, input: Mapping[str, Any], *, by: str = "analyst", path: str = "/", **more: Any) -> Reply:
        """Make a call, and note the method of one that succeeds."""
        reply = super().ask(method, input, by=by, path=path, **more)
        if 200 <= reply.status < 300:
            self.done.add(method)
        return reply

    def inbox(self, name: str) -> list[Any]:
        """Return what an agent was notified of."""
        return list(self.result("QUERY", {}, by=name, path="/notifications")["notifications"])


def _agent_id(folder: Path) -> str:
    return str(json.loads((folder / "document.json").read_text())["agent_id"])


def test_all_fifty_do_their_use_case(tmp_path: Path) -> None:
    """METH-001 to METH-050: the sample does what the draft says that each method is for."""
    fifty = Fifty(tmp_path)
    fifty.host.wait()
    try:
        for category in (acquire, extract, judge, compute, transact, trade, integrate, communicate, orchestrate, run):
            category(fifty)
        assert fifty.done & STANDARD.keys() == STANDARD.keys()
        assert len(STANDARD) == 50
    finally:
        fifty.close()


def acquire(fifty: Fifty) -> None:
    """FETCH, SEARCH, SCAN, PULL, FIND, ANALYZE."""
    entered = fifty.result("REGISTER", {"entity_type": "contracts", "data": {"id": "lease", "title": "Lease"}})
    assert fifty.result("FETCH", {"resource_id": entered["resource_id"]})["content"]["title"] == "Lease"
    rows = "id,amount,status,submitted\no1,60000,pending,2026-02-01\no2,900,pending,2026-01-01\n"
    text = rows + "o3,70000,pending,2026-01-15\no4,80000,paid,2026-01-10\n"
    fifty.result("IMPORT", {"target": "orders", "source": text, "format": "csv"})
    query = {"amount": {"gt": 50_000}, "status": "pending"}
    found = fifty.result("SEARCH", {"query": query, "scope": "orders", "sort": "submitted"})
    assert [each["data"]["id"] for each in found["results"]] == ["o3", "o1"]
    names: list[str] = []
    cursor: dict[str, Any] = {}
    while True:
        given = {"collection": "agents", "filter": {"governance_zone": "zone:development"}, "page_size": 1, **cursor}
        page = fifty.result("SCAN", given)
        names += [item["data"]["name"] for item in page["items"]]
        if page["cursor"] is None:
            break
        cursor = {"cursor": page["cursor"]}
    assert sorted(names) == ["librarian", "shop"]
    fifty.result("SUBMIT", {"target": "packing", "payload": {"order": "o1"}})
    (item,) = fifty.result("PULL", {"source": "packing", "max_items": 5})["items"]
    assert item["data"] == {"order": "o1"}, item
    wanted = {"methods": ["VALIDATE"], "governance_zone": "zone:development"}
    found = fifty.result("FIND", {"criteria": wanted, "namespace": "agents"})
    assert "librarian" in {each["name"] for each in found["entities"]}
    (finding,) = fifty.result("ANALYZE", {"target": EXPENSES, "analysis_type": "anomaly", "explain": True})["findings"]
    assert (finding["index"], finding["value"]) == (17, 9_800) and finding["explanation"]


def extract(fifty: Fifty) -> None:
    """EXTRACT, FILTER, VALIDATE, TRANSFORM and MAP, TRANSLATE, NORMALIZE."""
    found = fifty.result("EXTRACT", {"source": CONTRACT, "schema": CONTRACT_SCHEMA})
    assert found["data"]["parties"] == ["Acme Robotics GmbH", "Borealis Foods Ltd"]
    assert found["data"]["dates"] == ["2026-05-03", "2026-06-30"] and len(found["data"]["obligation_clauses"]) == 2
    assert found["confidence"].keys() == found["data"].keys()
    wanted = {"in_stock": True, "price": {"lt": 200}, "tags": {"contains": "audio"}}
    assert fifty.result("FILTER", {"data": CATALOG, "criteria": wanted})["data"] == [CATALOG[0]]
    schema = {"type": "object", "properties": {"total": {"type": "number"}}, "required": ["total"]}
    rules = [{"require": {"total": {"lte": 10_000}}, "message": "is over the limit", "severity": "error"}]
    found = fifty.result("VALIDATE", {"target": {"total": 12_000}, "schema": {"schema": schema, "rules": rules}})
    assert (found["valid"], found["errors"][0]["message"]) == (False, "is over the limit")
    mapping = fifty.result("MAP", {"source_schema": VENDOR, "target_schema": CANONICAL, "strategy": "semantic"})
    text = "order_no,cust_name,qty,unit_price\nA-1,Ada,3,9.50\n"
    order = {"source": text, "source_format": "csv", "target_format": CANONICAL, "mapping": mapping["mapping"]}
    assert fifty.result("TRANSFORM", order)["data"] == [
        {"order_number": "A-1", "customer": {"name": "Ada"}, "quantity": 3, "price_per_unit": 9.5}
    ]
    for language, said in (("fr", "lampe rouge"), ("de", "rote Lampe")):
        given = {"content": "red lamp", "source_language": "en", "target_language": language}
        assert fifty.result("TRANSLATE", given) == {**given, "content": said}
    forms: list[tuple[str, Any, str, Any]] = [
        ("date", "03/04/2026", "en-US", "2026-03-04"),
        ("phone", "(415) 555-2671", "en-US", "+14155552671"),
        ("currency", "1.234,50 €", "de-AT", "1234.50 EUR"),
        ("unit", "5 ft", "en-US", {"value": 1.524, "unit": "meter"}),
        ("address", "1 high street, leeds, uk", "en-GB", {"street": "1 High Street", "town": "Leeds", "country": "Uk"}),
    ]
    for kind, value, locale, form in forms:
        (found,) = fifty.result("NORMALIZE", {"data": [value], "type": kind, "locale": locale})["values"]
        assert (found["original"], found["canonical"]) == (value, form)


def judge(fifty: Fifty) -> None:
    """PREDICT, RANK, CLASSIFY, EVALUATE, RECOMMEND."""
    accounts = [{"id": 1, "support_calls": 9, "idle_days": 3}, {"id": 2, "support_calls": 2, "idle_days": 15}]
    given = {"input": accounts, "confidence_floor": 0.9, "explain": True}
    (found,) = fifty.result("PREDICT", given)["predictions"]
    assert (found["account"], found["factors"]) == (1, ["support_calls"]) and found["churn"] > 0.9
    people = [{"name": "Ann", "years": 9, "fit": 0.6}, {"name": "Ben", "years": 4, "fit": 0.9}]
    ranked = fifty.result("RANK", {"items": people, "criterion": {"weights": {"fit": 3, "years": 1}}})["items"]
    assert [each["item"]["name"] for each in ranked] == ["Ben", "Ann"]
    words = {"billing": ["refund"], "shipping": ["parcel"], "login": ["password"], "returns": ["return"]}
    taxonomy = words | {"sales": ["price"], "privacy": ["delete"], "outage": ["down"], "praise": ["thanks"]}
    tickets = ["I want a refund", "My parcel never came", "The site is down"]
    labelled = fifty.result("CLASSIFY", {"items": tickets, "taxonomy": taxonomy})["items"]
    assert [each["labels"][0]["label"] for each in labelled] == ["billing", "shipping", "outage"]
    scorecard = [
        {"name": "price", "best": 1_000, "worst": 5_000},
        {"name": "delivery", "member": "days", "best": 5, "worst": 30},
        {"name": "compliance", "keywords": ["ISO 9001", "GDPR"]},
        {"name": "references", "scale": 10},
    ]
    proposal = {"price": 2_000, "days": 30, "compliance": "We follow the GDPR.", "references": 8}
    weights = {"price": 4, "delivery": 1, "compliance": 3, "references": 2}
    scored = fifty.result("EVALUATE", {"target": proposal, "criteria": scorecard, "weights": weights})
    assert [each["score"] for each in scored["scores"]] == [0.75, 0.0, 0.5, 0.8]
    assert scored["composite"] == 0.61 and "price" in scored["rationale"]
    limits = {"budget": 50, "category": "photo"}
    context = {"context": {"bought": ["strap"]}, "goal": "accessories", "constraints": limits, "limit": 3}
    offered = fifty.result("RECOMMEND", context)["recommendations"]
    assert [each["name"] for each in offered] == ["tripod", "cloth"] and all(each["rationale"] for each in offered)


def compute(fifty: Fifty) -> None:
    """CALCULATE, GENERATE, MERGE, QUOTE."""
    goods = {"op": "sum", "over": "lines", "of": {"op": "multiply", "args": [{"var": "price"}, {"var": "qty"}]}}
    off = {"op": "if", "args": [{"op": "gte", "args": [goods, 1_000]}, {"const": "0.95"}, 1]}
    net = {"op": "add", "args": [{"op": "multiply", "args": [goods, off]}, {"var": "shipping"}]}
    formula = {"op": "multiply", "args": [net, {"op": "add", "args": [1, {"var": "tax"}]}]}
    inputs = {"lines": [{"price": "19.99", "qty": 40}, {"price": 0.1, "qty": 3_000}], "shipping": 25, "tax": "0.2"}
    assert fifty.result("CALCULATE", {"expression": formula, "inputs": inputs, "currency": "EUR"})["value"] == "1283.54"
    body = {"type": "object", "properties": {"guests": {"type": "integer", "minimum": 1}}}
    operation = {
        "summary": "Book a room",
        "parameters": [{"name": "dry", "in": "query", "schema": {"type": "boolean"}, "description": "Only try"}],
        "requestBody": {"content": {"application/json": {"schema": body}}},
    }
    source = {"openapi": "3.1.0", "info": {"title": "Rooms", "version": "1"}, "paths": {"/rooms": {"post": operation}}}
    page = fifty.result("GENERATE", {"output_type": "markdown", "source": source})["content"]
    assert all(part in page for part in ("## POST `/rooms`", "| dry | query | boolean | no |", '"guests": 1'))
    one = [{"id": 7, "name": "A. Ng", "mail": "a@old.example", "updated_at": "2024-01-01"}]
    two = [{"id": 7, "name": "A. Ng", "mail": "a@new.example", "updated_at": "2026-01-01"}]
    assert fifty.result("MERGE", {"sources": [one, two], "strategy": "latest"})["merged"] == two
    quote = fifty.result("QUOTE", {"method": "SUMMARIZE", "parameters": {"source": "long"}, "budget_units": ["tokens"]})
    assert quote["estimated_cost"]["tokens"]["expected"] == 8_500


def transact(fifty: Fifty) -> None:
    """REGISTER, SUBMIT, AUTHORIZE, CANCEL, TRANSFER, LOG, PUBLISH."""
    for number in range(3):
        data = {"id": f"ada-{number}", "name": "Ada"}
        made = fifty.result("REGISTER", {"entity_type": "employees", "data": data, "idempotency_key": f"k-{number}"})
        assert made["resource_id"] == f"employees/ada-{number}"
    report = fifty.result("SUBMIT", {"target": "expenses", "payload": {"total": 120}, "priority": 5})
    assert report["tracking_id"]
    given = {"subject": fifty.ids["contractor"], "resource": "SEARCH", "scope": ["contracts:read"], "ttl": 600}
    grant = fifty.result("AUTHORIZE", given)
    query: dict[str, Any] = {"query": {}, "scope": "contracts"}
    assert fifty.ask("SEARCH", query, by="contractor").status == 404
    token = (("Delegation-Token", grant["token"]),)
    assert fifty.ask("SEARCH", query, by="contractor", headers=token).status == 200
    booking = {"id": "board", "room": "12", "attendees": [fifty.ids["archivist"]]}
    room = fifty.result("REGISTER", {"entity_type": "rooms", "data": booking})["resource_id"]
    off = fifty.result("CANCEL", {"target_id": room, "reason": {"code": "ill"}, "notify_parties": True})
    assert off["notified"] == [fifty.ids["archivist"]]
    assert "cancelled" in {each["topic"] for each in fifty.inbox("archivist")}
    parties = {"from_principal": fifty.ids["analyst"], "to_principal": fifty.ids["archivist"]}
    assert fifty.result("TRANSFER", {"resource_id": "contracts/lease", **parties})["ownership_chain"]
    assert fifty.result("FETCH", {"resource_id": "contracts/lease"})["owner"] == fifty.ids["archivist"]
    for step in ("requested", "approved", "sent"):
        logged = fifty.result("LOG", {"event_type": f"wire.{step}", "data": {"n": 1}, "correlation_id": "wire-1"})
        assert len(logged["record_id"]) == 64
    summary = fifty.result("PUBLISH", {"channel": "knowledge", "content": {"summary": "Done."}})["resource_id"]
    assert fifty.result("FETCH", {"resource_id": summary})["content"] == {"summary": "Done."}


def trade(fifty: Fifty) -> None:
    """PURCHASE, with the merchant verified before, and SIGN by the organization's key."""
    shop = f"agtp://{fifty.ids['shop']}@127.0.0.1:{fifty.host.port}"
    buyer = Buyer(fifty.client().client)
    counterparty = buyer.verify(shop)
    given = {"item": "strap", "principal_id": "alice", "amount": {"value": "20.00", "currency": "EUR"}}
    bought = buyer.purchase(shop, "/", given, counterparty=counterparty)
    assert (bought.status, bought.result["status"]) == (200, "confirmed"), bought.body
    fifty.done.add("PURCHASE")
    signed = fifty.result("SIGN", {"payload": {"agreement": 7}, "key_id": "organization-governance"})
    assert signed["signature"] and "agtphost sample" in json.dumps(signed)


def integrate(fifty: Fifty) -> None:
    """LINK, SYNC, IMPORT, CONNECT, EMBED."""
    link = {"source": "employees/ada-0", "target": "employees/ada-1", "relationship": "same person"}
    assert fifty.result("LINK", link)["link_id"]
    assert fifty.result("SYNC", {"resource": "stock", "remote": "warehouse"})["changes"]["created"] == 4
    assert fifty.result("FETCH", {"resource_id": "stock/A1"})["content"]["item"] == "lantern"
    text = "id,name\nc1,Ada\nc2,Bob\n"
    imported = fifty.result("IMPORT", {"source": text, "target": "employees", "format": "csv"})
    assert (imported["records"], imported["created"]) == (2, 2)
    pair = {"source": "telemetry", "destination": "observability", "channel_type": "stream", "ttl": 60}
    assert fifty.result("CONNECT", pair)["channel"] == {"topic": "sensors"}
    embed = {"source": "stock/A1", "target": "employees/ada-0", "binding": "desk"}
    assert fifty.result("EMBED", embed)["binding"] == "desk"


def communicate(fifty: Fifty) -> None:
    """ALERT, BROADCAST, REPLY, SEND, REPORT."""
    soon = (datetime.now(UTC) + timedelta(hours=1)).isoformat(timespec="milliseconds")
    message = {"metric": "db.latency", "value": 950, "threshold": 500}
    alert = {"recipient": "on-call", "message": message, "severity": "critical", "acknowledge_by": soon}
    assert fifty.result("ALERT", {**alert, "escalation_path": fifty.ids["archivist"]})["alert_id"]
    audience = [fifty.ids["archivist"], "on-call"]
    assert fifty.result("BROADCAST", {"audience": audience, "content": "Maintenance on Sunday"})["delivered"] == 3
    asked = {"task_id": "wire-1", "reason": "scope_limit", "context": {}, "recipient": fifty.ids["archivist"]}
    escalation = fifty.result("ESCALATE", asked)["escalation_id"]
    reply = fifty.result("REPLY", {"in_reply_to": escalation, "content": "Go ahead."}, by="archivist")
    assert reply["thread"] == escalation
    mail = {"recipient": "a@b.test", "channel": "email", "content": "Your table is booked."}
    assert fifty.result("SEND", mail)["confirmation"] == {"queued_for": "a@b.test"}
    scope = {"collection": "orders"}
    report = {"report_type": "weekly-sales", "scope": scope, "recipient": fifty.ids["archivist"], "format": "pdf"}
    assert fifty.result("REPORT", report)["delivered"] == 1
    (made,) = (each for each in fifty.inbox("archivist") if each["topic"] == "report")
    assert base64.b64decode(made["content"]["document"]).startswith(b"%PDF-")


def orchestrate(fifty: Fifty) -> None:
    """CHAIN, BATCH, MONITOR, ROUTE, RETRY."""
    report = {"report_type": "weekly", "recipient": fifty.ids["archivist"], "scope": {"rows": "=read.findings"}}
    steps = [
        {"method": "SEARCH", "parameters": {"query": {}, "scope": "orders"}, "capture": "found"},
        {"method": "ANALYZE", "parameters": {"target": "=found.results"}, "capture": "read"},
        {"method": "REPORT", "parameters": report},
    ]
    made = fifty.result("CHAIN", {"steps": steps, "context_propagation": True})
    assert [step["state"] for step in made["steps"]] == ["done"] * 3 and made["status"] == "finished"
    call = {"method": "TRANSLATE", "parameters": {"content": "red lamp", "target_language": "fr"}}
    outcomes = fifty.result("BATCH", {"calls": [call] * 20})["outcomes"]
    assert [each["result"]["content"] for each in outcomes] == ["lampe rouge"] * 20
    agents = [fifty.ids["librarian"], fifty.ids["shop"]]
    watched = {"target": agents, "events": ["trust_score"], "callback": "inbox", "threshold": 0.7}
    assert fifty.result("MONITOR", watched)["threshold"] == {"below": 0.7}
    rule = {"when": "topic == 'books' && tier == 'gold'", "to": "librarian"}
    inquiry = {"payload": {"topic": "books", "tier": "gold"}, "criteria": [rule], "fallback": "ECHO /text"}
    assert fifty.result("ROUTE", inquiry)["handler"] == "librarian"
    assert fifty.ask("BOOK", {"guests": 2}, path="/table", task_id="dinner").status == 422
    again = fifty.result("RETRY", {"original_task_id": "dinner"})
    assert (again["status"], again["result"]["guests"]) == (200, 2) and again["result"]["booking_id"]


def run(fifty: Fifty) -> None:
    """PAUSE, RESUME, RUN, CHECK."""
    steps = [{"method": "ECHO", "path": "/text", "parameters": {"text": "x"}}]
    made = fifty.result("CHAIN", {"steps": steps, "start_at": "2027-06-01T00:00:00Z"})
    paused = fifty.result("PAUSE", {"workflow_id": made["workflow_id"], "reason": "awaits approval"})
    nonce = {"workflow_id": made["workflow_id"], "resumption_nonce": paused["resumption_nonce"]}
    assert fifty.result("RESUME", nonce)["status"] == "scheduled"
    quality = fifty.result("RUN", {"procedure_id": "data-quality", "input": {"dataset": "orders"}})["result"]
    assert (quality["status"], quality["errors"]) == ("pass", [])
    for target in ("files", "librarian", "shop"):
        assert fifty.result("CHECK", {"target": target, "depth": "shallow"})["status"] in ("up", "idle")
