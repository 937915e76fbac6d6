"""Calls of the methods on data that went wrong somewhere: each is answered or refused, and nothing else happens."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Any

import pytest

from agtphost.errors import Refusal
from agtphost.methods.standard.pure import (
    classify,
    extraction,
    filter_records,
    map_fields,
    merge,
    normalize,
    rank,
    scorecards,
    statistics,
    templates,
    transform,
    validate,
)
from agtphost.methods.standard.pure.calculate import Calculator
from agtphost.methods.standard.pure.providers import constraint
from agtphost.vocabulary import jsontext
from agtphost.vocabulary.catalog import Catalog
from tests.programmes import length
from tests.system.standard.test_data import CANONICAL, CATALOG, CONTRACT, CONTRACT_SCHEMA, EXPENSES, VENDOR

Work = Callable[[dict[str, Any]], object]

OPENAPI = {
    "openapi": "3.1.0",
    "info": {"title": "Rooms", "version": "1", "description": "All of them"},
    "paths": {
        "/rooms": {
            "parameters": [{"$ref": "#/components/parameters/dry"}],
            "post": {
                "summary": "Book",
                "requestBody": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/room"}}}},
                "responses": {"200": {"content": {"application/json": {"schema": {"type": "array", "items": {}}}}}},
            },
        }
    },
    "components": {
        "parameters": {"dry": {"name": "dry", "in": "query", "schema": {"type": "boolean"}, "required": True}},
        "schemas": {"room": {"allOf": [{"type": "object", "properties": {"n": {"minimum": 3, "type": "integer"}}}]}},
    },
}
SUM = {"op": "sum", "over": "l", "of": {"op": "power", "args": [{"var": "p"}, {"const": "2"}]}}
PRICED = {"type": "object", "properties": {"cost": {"properties": {"net": {"type": "number"}}}}}
SCORED = [{"name": "price", "best": 1, "worst": 5}, {"name": "x", "values": {"a": 1}}, {"name": "t", "keywords": ["y"]}]


def with_result(call: dict[str, Any]) -> dict[str, Any]:
    """Take the member ``found`` for what the provider of the call answered: an object, whatever is in it."""
    found = call.get("found")
    return {"call": call, "found": found if isinstance(found, dict) else {}}


CALLS: list[tuple[Work, dict[str, Any]]] = [
    (statistics.analyze, {"target": EXPENSES, "time_range": "2026-01-01/2026-03-31", "sensitivity": 0.5}),
    (
        lambda call: extraction.check(with_result(call)),
        {
            "source": CONTRACT,
            "schema": CONTRACT_SCHEMA | {"required": []},
            "confidence_threshold": 0.4,
            "found": {
                "data": {"parties": ["Acme"], "dates": ["2026-01-01"]},
                "confidence": {"parties": 0.5, "dates": 0.3},
            },
        },
    ),
    (
        filter_records.filter_records,
        {"data": CATALOG, "criteria": {"any": [{"price": {"lt": 9}}, {"tags": {"contains": "x"}}]}},
    ),
    (filter_records.filter_records, {"data": CATALOG, "criteria": "contains(tags, 'audio') && price < `200`"}),
    (transform.transform, {"source": CATALOG, "target_format": PRICED, "mapping": {"cost.net": "price"}}),
    (transform.transform, {"source": "a,b\n1,2\n", "target_format": "yaml", "mapping": {"x.y": "a"}}),
    (
        lambda call: map_fields.map_fields({**with_result(call), "strategy": call.get("strategy", "exact")}),
        {
            "source_schema": VENDOR,
            "target_schema": CANONICAL,
            "unmapped_policy": "preserve",
            "strategy": "custom",
            "found": {"fields": [{"source": "qty", "target": "quantity", "confidence": 1, "basis": "a list"}]},
        },
    ),
    (normalize.normalize, {"data": ["3 May 2026", "03/04/2026", "31.12.99"], "type": "date", "locale": "en-US"}),
    (normalize.normalize, {"data": ["5 ft", "2 kg"], "type": "unit"}),
    (rank.rank_by_numbers, {"items": CATALOG, "criterion": {"weights": {"price": -1}}, "limit": 2}),
    (
        lambda call: classify.check(with_result(call)),
        {
            "items": ["a refund"],
            "taxonomy": [{"label": "billing"}, "shipping"],
            "found": {"items": [{"labels": [{"label": "billing", "confidence": 0.5}]}]},
        },
    ),
    (Calculator({}).calculate, {"expression": SUM, "inputs": {"l": [{"p": "1.5"}, {"p": 2}]}, "precision": 2}),
    (
        lambda call: scorecards.evaluate(with_result(call)),
        {
            "target": {"price": 3, "x": "a", "t": "y z"},
            "criteria": SCORED,
            "weights": [1, 2, 3],
            "found": {"scores": [{"score": 0.5, "rationale": "half of it"}]},
        },
    ),
    (merge.merge, {"sources": [[{"id": 1, "a": 2}], [{"id": 1, "a": 3}]], "conflict_resolution": {"key": "id"}}),
    (merge.merge, {"sources": [{"a": {"b": 1}}, {"a": {"b": 2}}], "strategy": "union"}),
    (templates.generate, {"output_type": "html", "source": OPENAPI}),
    (templates.generate, {"output_type": "json", "source": CONTRACT_SCHEMA}),
    (templates.generate, {"output_type": "markdown", "source": {"template": "{a.b} {{", "values": {"a": {"b": 1}}}}),
    (validate.Validator(Catalog.load()).validate, {"target": CATALOG[0], "schema": CANONICAL, "strict": True}),
    (validate.Validator(Catalog.load()).validate, {"target": CANONICAL, "schema": "json-schema"}),
    (
        lambda call: constraint(call.get("constraints"))(CATALOG[0]),
        {"constraints": {"budget": 50, "exclusions": ["lamp"]}},
    ),
]

OTHERS: tuple[Any, ...] = (None, True, 0, -1, 2.5, 1e300, 2**53, "", "a", "a.b", "1", "$ref", "\x00", "x" * 300, [], {})


def places(value: Any, above: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Where something stands in a value, from its top on."""
    inner = value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list) else ()
    return [above, *(place for name, each in inner for place in places(each, (*above, name)))]


def mutated(chance: random.Random, call: dict[str, Any]) -> dict[str, Any]:
    """The same call with one to three things replaced, taken out, wrapped, or moved elsewhere."""
    made = deepcopy(call)
    for _ in range(chance.randint(1, 3)):
        found = [place for place in places(made) if place]
        if not found:
            return made
        *above, name = chance.choice(found)
        holder: Any = made
        for each in above:
            holder = holder[each]
        kind = chance.randrange(5)
        if kind == 0:
            del holder[name]
        elif kind == 1:
            holder[name] = [holder[name]]
        elif kind == 2 and isinstance(holder, dict):
            holder[str(chance.choice(OTHERS))[:64]] = holder.pop(name)
        else:
            holder[name] = deepcopy(chance.choice(OTHERS))
    return made


def tried(seed: int, rounds: int) -> int:
    """How many of the calls were answered; the others were refused."""
    chance = random.Random(seed)
    answered = 0
    for number in range(rounds):
        for work, call in CALLS:
            wrong = mutated(chance, call)
            try:
                jsontext.encode(work(wrong))
                answered += 1
            except Refusal as refusal:
                assert 400 <= int(refusal.status) < 504, refusal
            except Exception as error:
                pytest.fail(f"seed {seed}, round {number}: {error!r} of {work} with {wrong!r}")
    return answered


def test_the_calls_are_sound() -> None:
    """Before anything is replaced each is answered."""
    for work, call in CALLS:
        assert work(deepcopy(call)) is not None, call


def test_what_went_wrong_is_answered_or_refused() -> None:
    """METH-006 to METH-019: parameters of no form at all are 422 or an answer, and never an error of the host's."""
    rounds = length(25, 3_000)
    assert 0 < tried(seed=16, rounds=rounds) < rounds * len(CALLS)
