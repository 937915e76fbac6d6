"""Methods that work on what they are sent, over TLS, each in the draft's own use case (methods v01 sections 3 to 6)."""

from __future__ import annotations

from typing import Any

from tests.system.standard.hosted import Standard

EXPENSES = [{"date": f"2026-01-{day:02}", "amount": 100 + day % 7, "items": 10 + day % 7} for day in range(1, 29)]
EXPENSES[17]["amount"] = 9_800

CONTRACT = """SERVICE AGREEMENT
This Agreement is made on 3 May 2026 between Acme Robotics GmbH ("Supplier") and Borealis Foods Ltd ("Customer").
1. The Supplier shall deliver forty units by June 30, 2026.
2. The Customer must pay EUR 12,500.00 within 30 days of the invoice.
3. The units are painted in grey.
Governing law: Austria
"""

TEXTS = {"type": "array", "items": {"type": "string"}}
CONTRACT_SCHEMA = {
    "type": "object",
    "properties": {
        "parties": TEXTS,
        "dates": {"type": "array", "items": {"type": "string", "format": "date"}},
        "obligation_clauses": TEXTS,
        "governing_law": {"type": "string"},
    },
    "required": ["parties", "dates", "obligation_clauses"],
    "additionalProperties": False,
}

CATALOG = [
    {"name": "headphones", "price": 89.0, "in_stock": True, "tags": ["audio", "travel"]},
    {"name": "amplifier", "price": 450, "in_stock": True, "tags": ["audio"]},
    {"name": "cable", "price": 9.5, "in_stock": False, "tags": ["audio"]},
    {"name": "lamp", "price": 30, "in_stock": True, "tags": ["light"]},
]

VENDOR = {"order_no": "string", "cust_name": "string", "qty": "integer", "unit_price": "number"}
CANONICAL = {
    "type": "object",
    "properties": {
        "order_number": {"type": "string"},
        "customer": {"type": "object", "properties": {"name": {"type": "string"}}},
        "quantity": {"type": "integer"},
        "price_per_unit": {"type": "number"},
    },
    "required": ["order_number", "quantity"],
}


def test_anomalous_spending_is_detected(standard: Standard) -> None:
    """METH-006: the draft's quarterly expenses: the one amount that is far off, with a confidence and the reasoning."""
    call = {"target": EXPENSES, "analysis_type": "anomaly", "time_range": "2026-01-01/2026-03-31", "explain": True}
    (found,) = standard.result("ANALYZE", call)["findings"]
    assert (found["member"], found["index"], found["value"]) == ("amount", 17, 9_800)
    assert 0.9 < found["confidence"] <= 1 and "median" in found["explanation"]
    assert "explanation" not in standard.result("ANALYZE", {**call, "explain": False})["findings"][0]


def test_a_contract_becomes_structured(standard: Standard) -> None:
    """METH-007: the draft's parties, dates and obligation clauses, with a confidence for each field."""
    found = standard.result("EXTRACT", {"source": CONTRACT, "schema": CONTRACT_SCHEMA})
    assert found["data"] == {
        "parties": ["Acme Robotics GmbH", "Borealis Foods Ltd"],
        "dates": ["2026-05-03", "2026-06-30"],
        "obligation_clauses": [
            "The Supplier shall deliver forty units by June 30, 2026.",
            "The Customer must pay EUR 12,500.00 within 30 days of the invoice.",
        ],
        "governing_law": "Austria",
    }
    assert found["confidence"].keys() == found["data"].keys()
    sure = standard.result("EXTRACT", {"source": CONTRACT, "schema": CANONICAL | {"required": []}})
    assert sure["data"].get("quantity") is None or sure["confidence"]["quantity"] < 0.9


def test_a_catalog_is_filtered(standard: Standard) -> None:
    """METH-008: the draft's products in stock, under 200 and of a category; as an object, and as JMESPath."""
    wanted = {"in_stock": True, "price": {"lt": 200}, "tags": {"contains": "audio"}}
    for criteria in (wanted, "in_stock && price < `200` && contains(tags, 'audio')"):
        found = standard.result("FILTER", {"data": CATALOG, "criteria": criteria})
        assert (found["data"], found["count"], found["of"]) == ([CATALOG[0]], 1, 4)


def test_what_is_kept_here_is_filtered_where_it_is(standard: Standard) -> None:
    """METH-006, METH-008, METH-030: ``collection:NAME`` stands for the items that the caller may read."""
    for number, price in enumerate((10, 11, 12, 900)):
        data = {"entity_type": "prices", "data": {"id": f"data-{number}", "price": price}}
        standard.result("REGISTER", data)
    call = {"data": "collection:prices", "criteria": {"id": {"starts_with": "data-"}, "price": {"lt": 12}}}
    assert [each["price"] for each in standard.result("FILTER", call)["data"]] == [10, 11]
    assert standard.ask("FILTER", call, by="stranger").status == 404
    assert standard.ask("FILTER", {**call, "data": "collection:nothing"}).status == 404
    found = standard.result("ANALYZE", {"target": "collection:prices", "analysis_type": "anomaly"})["findings"]
    assert [each["value"] for each in found] == [900]
    merged = standard.result("MERGE", {"sources": ["collection:prices", [{"id": "data-9", "price": 5}]]})["merged"]
    assert len([each for each in merged if str(each.get("id", "")).startswith("data-")]) == 5


def test_an_invoice_is_validated(standard: Standard) -> None:
    """METH-009: the draft's invoice against a schema and business rules; ``strict`` makes failures of warnings."""
    schema = {"type": "object", "properties": {"total": {"type": "number"}}, "required": ["total"]}
    rules = [{"require": {"total": {"lte": 10_000}}, "message": "is over the limit of approval", "severity": "warning"}]
    call = {"target": {"total": 12_000}, "schema": {"schema": schema, "rules": rules}}
    found = standard.result("VALIDATE", call)
    assert (found["valid"], found["errors"]) == (True, [])
    assert found["warnings"][0]["message"] == "is over the limit of approval"
    assert standard.result("VALIDATE", {**call, "strict": True})["status"] == "fail"
    assert standard.result("VALIDATE", {**call, "target": {"total": "12"}})["errors"][0]["path"] == "/total"


def test_an_order_is_mapped_and_converted(standard: Standard) -> None:
    """METH-010, METH-034: the draft's vendor order: MAP makes the mapping, and TRANSFORM converts by it."""
    found = standard.result("MAP", {"source_schema": VENDOR, "target_schema": CANONICAL})
    pairs = {each["source"]: each["target"] for each in found["mapping"]["fields"]}
    assert pairs == {
        "order_no": "order_number",
        "cust_name": "customer.name",
        "qty": "quantity",
        "unit_price": "price_per_unit",
    }
    assert all(0 < each["confidence"] <= 1 for each in found["mapping"]["fields"])
    text = "order_no,cust_name,qty,unit_price\nA-1,Ada,3,9.50\n"
    call = {"source": text, "source_format": "csv", "target_format": CANONICAL, "mapping": found["mapping"]}
    assert standard.result("TRANSFORM", call)["data"] == [
        {"order_number": "A-1", "customer": {"name": "Ada"}, "quantity": 3, "price_per_unit": 9.5}
    ]


def test_records_of_three_regions_are_normalized(standard: Standard) -> None:
    """METH-012: the draft's customers of three regions: one form of dates, telephone numbers, amounts and units."""

    def forms(kind: str, data: Any, locale: str) -> list[Any]:
        found = standard.result("NORMALIZE", {"data": data, "type": kind, "locale": locale})["values"]
        assert [each["original"] for each in found] == data
        return [each["canonical"] for each in found]

    for locale, day in (("en-US", "03/04/2026"), ("de-AT", "04.03.2026"), ("en-GB", "04/03/2026")):
        assert forms("date", [day, "4 March 2026"], locale) == ["2026-03-04", "2026-03-04"]
    assert forms("phone", ["(415) 555-2671", "+43 664 1234567"], "en-US") == ["+14155552671", "+436641234567"]
    assert forms("currency", ["1.234,50 €"], "de-AT") == ["1234.50 EUR"]
    assert forms("unit", ["5 ft"], "en-US") == [{"value": 1.524, "unit": "meter"}]
    assert standard.ask("NORMALIZE", {"data": "1 High Street", "type": "address"}).reason == "provider-missing"


def test_candidates_are_ranked(standard: Standard) -> None:
    """METH-014: the draft's job candidates, by weights and by how they answer a text; ``limit`` gives the first."""
    people = [
        {"name": "Ann", "years": 9, "fit": 0.6, "skills": "bookkeeping, payroll"},
        {"name": "Ben", "years": 4, "fit": 0.9, "skills": "Python services and databases"},
        {"name": "Cid", "years": 1, "fit": 0.2, "skills": "gardening"},
    ]
    found = standard.result("RANK", {"items": people, "criterion": {"weights": {"fit": 3, "years": 1}}})["items"]
    assert [(each["rank"], each["item"]["name"]) for each in found] == [(1, "Ben"), (2, "Ann"), (3, "Cid")]
    assert found[0]["score"] > found[1]["score"] > found[2]["score"]
    text = {"items": people, "criterion": {"text": "python database developer"}, "limit": 1}
    assert [each["item"]["name"] for each in standard.result("RANK", text)["items"]] == ["Ben"]


def test_tickets_are_classified(standard: Standard) -> None:
    """METH-015: the draft's support tickets: labels of the taxonomy, and several only where that is asked for."""
    taxonomy = {"billing": ["invoice", "refund", "charged"], "shipping": ["delivery", "parcel"], "login": ["password"]}
    tickets = ["I was charged twice, and want a refund", "My parcel and the invoice for it never came", "Good morning"]
    call = {"items": tickets, "taxonomy": taxonomy}
    found = [[each["label"] for each in one["labels"]] for one in standard.result("CLASSIFY", call)["items"]]
    assert found[0] == ["billing"] and len(found[1]) == 1 and found[2] == []
    several = standard.result("CLASSIFY", {**call, "multi_label": True})["items"][1]["labels"]
    assert {each["label"] for each in several} == {"billing", "shipping"}
    assert all(0 < each["confidence"] <= 1 for each in several)


def test_an_order_is_calculated(standard: Standard) -> None:
    """METH-016: the draft's order with discount, shipping and tax, to the cent; a text is no formula."""
    goods = {"op": "sum", "over": "lines", "of": {"op": "multiply", "args": [{"var": "price"}, {"var": "qty"}]}}
    off = {"op": "if", "args": [{"op": "gte", "args": [goods, 1_000]}, {"const": "0.95"}, 1]}
    net = {"op": "add", "args": [{"op": "multiply", "args": [goods, off]}, {"var": "shipping"}]}
    formula = {"op": "multiply", "args": [net, {"op": "add", "args": [1, {"var": "tax"}]}]}
    inputs = {"lines": [{"price": "19.99", "qty": 40}, {"price": 0.1, "qty": 3_000}], "shipping": 25, "tax": "0.2"}
    found = standard.result("CALCULATE", {"expression": formula, "inputs": inputs, "currency": "EUR"})
    assert (found["value"], found["inputs"], found["formula"]) == ("1283.54", inputs, formula)
    for text in ("1+1", "__import__('os').getpid()", "9**9**9"):
        reply = standard.ask("CALCULATE", {"expression": text, "inputs": {}})
        assert (reply.status, reply.document["parameter"]) == (422, "expression")


def test_a_proposal_is_evaluated(standard: Standard) -> None:
    """METH-017: the draft's vendor proposal on a weighted scorecard; weights move the composite score."""
    criteria = [
        {"name": "price", "best": 1_000, "worst": 5_000},
        {"name": "delivery", "member": "days", "best": 5, "worst": 30},
        {"name": "compliance", "values": {"certified": 1, "planned": 0.4}},
        {"name": "references", "scale": 10},
    ]
    call = {
        "target": {"price": 2_000, "days": 30, "compliance": "certified", "references": 8},
        "criteria": criteria,
        "weights": {"price": 4, "delivery": 1, "compliance": 3, "references": 2},
    }
    found = standard.result("EVALUATE", call)
    assert [each["score"] for each in found["scores"]] == [0.75, 0.0, 1.0, 0.8]
    assert (found["composite"], found["label"]) == (0.76, "good")
    assert "price" in found["rationale"] and "delivery" in found["rationale"]
    slow = standard.result("EVALUATE", {**call, "weights": {"delivery": 1}, "rubric": {"yes": 0.5, "no": 0}})
    assert (slow["composite"], slow["label"]) == (0.0, "no")


def test_documentation_is_generated(standard: Standard) -> None:
    """METH-018: the draft's API documentation of an OpenAPI document; code is a provider's."""
    body = {"type": "object", "properties": {"guests": {"type": "integer", "minimum": 1}}}
    operation = {
        "summary": "Book a room",
        "parameters": [{"name": "dry", "in": "query", "schema": {"type": "boolean"}, "description": "Only try"}],
        "requestBody": {"content": {"application/json": {"schema": body}}},
    }
    source = {"openapi": "3.1.0", "info": {"title": "Rooms", "version": "1"}, "paths": {"/rooms": {"post": operation}}}
    found = standard.result("GENERATE", {"output_type": "markdown", "source": source})
    assert found["output_type"] == "markdown"
    assert all(
        part in found["content"] for part in ("## POST `/rooms`", "| dry | query | boolean | no |", '"guests": 1')
    )
    assert standard.result("GENERATE", {"output_type": "html", "source": source})["content"].startswith(
        "<h1>Rooms</h1>"
    )
    reply = standard.ask("GENERATE", {"output_type": "code", "source": source})
    assert (reply.status, reply.reason) == (503, "provider-missing")


def test_duplicate_profiles_are_merged(standard: Standard) -> None:
    """METH-030: the draft's customer profiles of two databases: the newest values win, and every conflict is told."""
    one = [{"id": 7, "name": "A. Ng", "mail": "a@old.example", "updated_at": "2024-01-01", "vip": True}]
    two = [{"id": 7, "name": "A. Ng", "mail": "a@new.example", "updated_at": "2026-01-01"}, {"id": 8, "name": "B. Ek"}]
    found = standard.result("MERGE", {"sources": [one, two], "strategy": "latest"})
    assert found["merged"] == [{**one[0], **two[0]}, two[1]]
    assert {each["place"] for each in found["conflicts"]} == {"mail", "updated_at"}
    reply = standard.ask("MERGE", {"sources": [one, two], "strategy": "manual"})
    assert (reply.status, reply.reason) == (409, "merge-conflict")
    settled = {"key": "id", "fields": {"mail": {"source": 0}, "updated_at": {"value": "2026-02-01"}}}
    call = {"sources": [one, two], "strategy": "manual", "conflict_resolution": settled}
    assert standard.result("MERGE", call)["merged"][0]["mail"] == "a@old.example"


def test_what_only_a_provider_can_do(standard: Standard) -> None:
    """METH-011, METH-013, METH-019: 503 that says so, where no endpoint is bound to the method."""
    calls: dict[str, dict[str, Any]] = {
        "TRANSLATE": {"content": "Good morning", "target_language": "de"},
        "PREDICT": {"input": {"logins": 2}},
        "RECOMMEND": {"context": {"bought": ["camera"]}, "goal": "accessories"},
    }
    for method, call in calls.items():
        reply = standard.ask(method, call)
        assert (reply.status, reply.reason) == (503, "provider-missing"), method


PROVIDED = {
    "TRANSLATE": "content target_language source_language formality",
    "PREDICT": "input model_id confidence_floor explain",
    "RECOMMEND": "context goal constraints limit explain",
}
ENDPOINT = """
[[endpoint]]
method = "{method}"
path = "/"
description = "Does {method} by a model of the operator's."
errors = []

[endpoint.semantic]
intent = "Do {method} with what the caller sends."
actor = "agent"
outcome = "The caller has what the model makes of it."
capability = "analysis"
confidence = 0.9
impact = "informational"
is_idempotent = true

[endpoint.handler]
type = "registered_function"
function = "handlers.providing.{method}"

[endpoint.input_schema]
type = "object"
additionalProperties = false
properties = {{ {names} }}

[endpoint.output_schema]
type = "object"
additionalProperties = true
"""

PROVIDING = """
WORDS = {"fr": {"red lamp": "lampe rouge"}, "de": {"red lamp": "rote Lampe"}}


def TRANSLATE(ctx):
    return {"content": WORDS[ctx.input["target_language"]][ctx.input["content"]]}


def PREDICT(ctx):
    return {"predictions": [{"account": each["id"], "confidence": each["months"] / 10} for each in ctx.input["input"]]}


def RECOMMEND(ctx):
    prices = {"strap": 20, "bag": 80, "tripod": 45, "cloth": 5, "lens": 900}
    return {"recommendations": [{"name": name, "price": price, "score": 0.9} for name, price in prices.items()]}
"""


def test_providers_within_the_hosts_rules(standard: Standard) -> None:
    """METH-011, METH-013, METH-019: the draft's catalog, churn and accessories, by functions that a reload brings."""
    folder = standard.config.parent
    endpoints, handlers = folder / "endpoints" / "providing.toml", folder / "handlers" / "providing.py"
    tables = [
        ENDPOINT.format(method=method, names=", ".join(f"{name} = {{}}" for name in names.split()))
        for method, names in PROVIDED.items()
    ]
    endpoints.write_text("".join(tables))
    handlers.write_text(PROVIDING)
    try:
        done = standard.host.agtp("reload")
        assert done.returncode == 0, done.stdout + done.stderr
        for language, said in (("fr", "lampe rouge"), ("de", "rote Lampe")):
            call = {"content": "red lamp", "source_language": "en", "target_language": language}
            found = standard.result("TRANSLATE", call)
            assert found == {"content": said, "source_language": "en", "target_language": language}
        reply = standard.ask("TRANSLATE", {**call, "target_language": "deutsch!"})
        assert (reply.status, reply.document["parameter"]) == (422, "target_language")
        accounts = [{"id": 1, "months": 9}, {"id": 2, "months": 2}]
        found = standard.result("PREDICT", {"input": accounts, "confidence_floor": 0.5})
        assert [each["account"] for each in found["predictions"]] == [1]
        assert standard.ask("PREDICT", {"input": accounts, "confidence_floor": 0.95}).reason == "confidence-too-low"
        call = {"context": {"bought": ["camera"]}, "goal": "accessories", "limit": 3}
        limits = {"budget": 50, "exclusions": ["strap"]}
        found = standard.result("RECOMMEND", {**call, "constraints": limits})["recommendations"]
        assert [each["name"] for each in found] == ["tripod", "cloth"]
        assert len(standard.result("RECOMMEND", call)["recommendations"]) == 3
    finally:
        endpoints.unlink()
        handlers.unlink()
        assert standard.host.agtp("reload").returncode == 0
    assert standard.ask("TRANSLATE", {"content": "x", "target_language": "de"}).reason == "provider-missing"
