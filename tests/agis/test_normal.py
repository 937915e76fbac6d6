"""The canonical form: the same in both notations, stable, and what is mended on the way (AGIS v01 section 10)."""

from __future__ import annotations

import json
import re
from typing import Any

import yaml

from agtphost.agis.document import AgisDocument
from agtphost.agis.normal import as_json, as_yaml, to_canonical
from agtphost.agis.shorthand import is_shorthand, schema_of
from agtphost.agis.validation import validate
from tests.agis.documents import DOCUMENT, ENDPOINT, changed, examined
from tests.rows import each_row

ODD = [
    "yes",
    "1.0",
    "null",
    "a: b",
    "- x",
    "#",
    "é – ü",
    "two\nlines",
    "",
    " ",
    "0x1f",
    "2026-11-22",
    "~",
    "{a}",
    '"',
    "'",
]


def document(value: Any) -> AgisDocument:
    """The document of values whose structure is sound."""
    found = validate(json.dumps(value).encode()).document
    assert found is not None
    return found


@each_row("text", ODD)
def test_both_notations_say_the_same(text: str) -> None:
    """Whatever text is in it: YAML and JSON are read back as the same values."""
    value = to_canonical(document(changed(("description", text or "x"), ("endpoints.0.semantic.note", text))))
    for written in (as_yaml(value), as_json(value)):
        again = validate(written.encode())
        assert again.document is not None, again.findings
        assert again.document.tree.root == value
        assert (as_yaml if written[0] != "{" else as_json)(to_canonical(again.document)) == written, "it is stable"


def test_the_order_of_members() -> None:
    """That of the draft's tables; what is not in them comes after."""
    shuffled = dict(reversed([*DOCUMENT.items(), ("x_note", 1)]))
    assert [*to_canonical(document(shuffled))] == [
        *("agis", "service", "agtp", "description", "version", "vocabulary", "endpoints", "x_note")
    ]


def test_methods_are_in_capitals() -> None:
    """And nothing else is changed unless that is asked for."""
    told = changed(
        ("endpoints.0.method", "book"), ("endpoints.0.path", "/getRoom"), ("vocabulary.declared_verbs", ["Book"])
    )
    value = to_canonical(document(told))
    assert (value["endpoints"][0]["method"], value["endpoints"][0]["path"]) == ("BOOK", "/getRoom")
    assert value["vocabulary"]["declared_verbs"] == ["BOOK"]


def test_endpoints_keep_their_shape() -> None:
    """Names stay names, and items items."""
    members = {name: value for name, value in ENDPOINT.items() if name not in ("method", "path")}
    value = to_canonical(document(changed(("endpoints", {"book   /reservation": members}))))
    assert [*value["endpoints"]] == ["BOOK /reservation"]


@each_row("endpoints", [{"book /a": ENDPOINT, "BOOK /a": ENDPOINT}, {"BOOK /a": ENDPOINT}])
def test_nothing_is_lost_that_differs_in_capitals(endpoints: dict[str, Any]) -> None:
    """What stands there twice stands there twice, so that the validator says it."""
    given = document(changed(("endpoints", endpoints), ("vocabulary.declared_verbs", ["book", "BOOK"])))
    value = to_canonical(given)
    assert len(value["endpoints"]) == len(endpoints) and value["vocabulary"]["declared_verbs"] == ["BOOK", "BOOK"]


SHORTHAND: list[tuple[Any, dict[str, Any], list[str]]] = [
    (
        {"required": ["a (integer, minimum: 1, maximum: 20)", "b"], "optional": ["c (ISO8601)"]},
        {
            "a": {"type": "integer", "minimum": 1, "maximum": 20},
            "b": {},
            "c": {"type": "string", "format": "date-time"},
        },
        ["a", "b"],
    ),
    ({"required": [{"a (integer, minimum": "1)"}]}, {"a": {"type": "integer", "minimum": 1}}, ["a"]),
    (
        ["status (string, enum: [CONFIRMED, PENDING])"],
        {"status": {"type": "string", "enum": ["CONFIRMED", "PENDING"]}},
        [],
    ),
    (
        {"rooms": ["array of rooms"], "when": "date"},
        {"rooms": {"type": "array"}, "when": {"type": "string", "format": "date"}},
        [],
    ),
    ({"a": {"type": "string"}}, {"a": {"type": "string"}}, []),
    (
        {"required": ["month (string", {"format": "date)"}, "b (integer", {"minimum": 1}, {"maximum": "9)"}, "c"]},
        {
            "month": {"type": "string", "format": "date"},
            "b": {"type": "integer", "minimum": 1, "maximum": 9},
            "c": {},
        },
        ["month", "b", "c"],
    ),
]


@each_row(("contract", "properties", "required"), SHORTHAND)
def test_what_the_shorthand_stands_for(contract: Any, properties: dict[str, Any], required: list[str]) -> None:
    """Names, types, bounds and choices; an input is closed (AGIS v01 section 7)."""
    assert is_shorthand(contract)
    schema = schema_of(contract, closed=True)
    assert schema["properties"] == properties and schema.get("required", []) == required
    assert schema["additionalProperties"] is False
    assert examined(changed(("endpoints.0.output", contract))).conforms


@each_row("contract", [{"type": "object"}, {"$ref": "#/schemas/Room"}, {"anyOf": []}, "text", 1])
def test_what_is_none(contract: Any) -> None:
    """A JSON Schema is taken for one."""
    assert not is_shorthand(contract)


def test_shared_schemas() -> None:
    """What contracts refer to is looked at with them, through references of their own."""
    shared = {
        "Room": {"type": "object", "properties": {"next": {"$ref": "#/schemas/Name"}}},
        "Name": {"type": "string"},
    }
    ours = {"type": "object", "properties": {"party_size": {"$ref": "#/schemas/Room"}}}
    assert examined(changed(("schemas", shared), ("endpoints.0.input", ours))).conforms
    broken = {**shared, "Name": {"type": "word"}}
    assert not examined(changed(("schemas", broken), ("endpoints.0.input", ours))).conforms
    assert not examined(changed(("endpoints.0.input", ours))).conforms, "there is no such schema"


def test_numbers_are_decimal() -> None:
    """In standard notation (AGIS v01 section 10), unless nobody could read them so; and texts are no numbers."""
    numbers = {"minimum": 1e-5, "maximum": 1e22, "multipleOf": 2.5e-8, "exclusiveMaximum": 1e300, "default": -1.5}
    given = document(
        changed(
            ("endpoints.0.input", {"type": "object", "properties": {"size": {"type": "number", **numbers}}}),
            ("description", 'Of 1e-5 and "2e22'),
        )
    )
    value = to_canonical(given)
    for text, values in ((as_yaml(value), yaml.safe_load), (as_json(value), json.loads)):
        assert values(text) == value
        assert re.findall(r"[0-9.]+e[-+]?[0-9]+", text.replace(".0e", "e")) == ["1e-5", "2e22", "1e+300"]
        assert "10000000000000000000000.0" in text and "0.000000025" in text and "0.00001" in text
