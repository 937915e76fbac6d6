"""Addresses, anchors and dynamic references: followed by what is counted, and by what is checked."""

from __future__ import annotations

import importlib.metadata
import json
import time
from collections.abc import Iterator, Mapping
from typing import Any

import jsonschema
import pytest

from agtphost.contract.schema_rules import MAX_SCHEMAS, Walk, self_contained
from agtphost.contract.schema_violations import join, remote_references
from agtphost.contract.schemas import CompiledSchema, SchemaError, TooCostly, compile_schema
from tests.measuring import measured
from tests.pypi import document
from tests.rows import each_row

DIALECTS = {
    "draft2020-12": "https://json-schema.org/draft/2020-12/schema",
    "draft2019-09": "https://json-schema.org/draft/2019-09/schema",
    "draft7": "http://json-schema.org/draft-07/schema#",
    "draft6": "http://json-schema.org/draft-06/schema#",
}

SUITE = [
    *(
        ("draft2020-12", name)
        for name in ("anchor", "defs", "dynamicRef", "ref", "refRemote", "infinite-loop-detection")
    ),
    *(("draft2020-12", name) for name in ("unevaluatedProperties", "unevaluatedItems")),
    *(("draft2020-12", f"optional/{name}") for name in ("anchor", "dynamicRef", "id", "unknownKeyword")),
    *(("draft2019-09", name) for name in ("anchor", "defs", "recursiveRef", "ref", "refRemote")),
    *(("draft2019-09", f"optional/{name}") for name in ("anchor", "id", "unknownKeyword")),
    *((draft, name) for draft in ("draft7", "draft6") for name in ("ref", "definitions", "refRemote", "optional/id")),
]
"""The official suite's files about references, as the source package of the reference implementation brings them."""


def suite(name: str) -> Any:
    """A file of the official JSON-Schema-Test-Suite."""
    version = importlib.metadata.version("jsonschema")
    return json.loads(document("jsonschema", version, f"json/{name}.json").read_text())


def bundled(schema: dict[str, Any], draft: str) -> dict[str, Any]:
    """The schema with the suite's documents in its ``$defs`` that it would fetch: one document, as the draft has it."""
    inside = {}
    for name in ("tree", "extendible-dynamic-ref", "detached-dynamicref"):
        if f"{name}.json" in json.dumps(schema):
            address = f"http://localhost:1234/{draft}/{name}.json"
            inside[name] = {"$id": address, **suite(f"remotes/{draft}/{name}")}
            inside[name]["$id"] = address
    return {**schema, "$defs": {**schema.get("$defs", {}), **inside}} if inside else schema


def judged(schema: dict[str, Any]) -> CompiledSchema:
    """Compiled as a tool's; what its type says stands beside it, as a tool takes an object and the suite's do not."""
    rest = {name: value for name, value in schema.items() if name != "type"}
    if schema.get("type", "object") != "object":
        rest["allOf"] = [*rest.get("allOf", ()), {"type": schema["type"]}]
        schema = rest
    return compile_schema(schema, role="tool")


@each_row(("draft", "name"), SUITE, ids=lambda each: str(each))
def test_the_official_suite(draft: str, name: str) -> None:
    """Every case is decided as the suite says, or the schema is refused because it refers to another document."""
    decided = refused = 0
    for group in suite(f"tests/{draft}/{name}"):
        if not isinstance(group["schema"], dict):
            continue
        schema = bundled({"$schema": DIALECTS[draft], **group["schema"]}, draft)
        try:
            compiled = judged(schema)
        except SchemaError as error:
            assert "nothing is fetched" in str(error), (group["description"], str(error))
            assert list(remote_references(schema)), group["description"]
            refused += 1
            continue
        for case in group["tests"]:
            said = (group["description"], case["description"])
            assert compiled.is_valid(case["data"]) == case["valid"], said
            assert bool(compiled.faults(case["data"])) != case["valid"], said
            decided += 1
    assert decided or name == "refRemote" or (name in ("defs", "definitions") and refused)
    assert not refused or name in ("ref", "refRemote", "defs", "definitions")


TREE = {
    "$id": "https://example.com/strict-tree",
    "$dynamicAnchor": "node",
    "$ref": "tree",
    "unevaluatedProperties": False,
    "$defs": {
        "tree": {
            "$id": "tree",
            "$dynamicAnchor": "node",
            "type": "object",
            "properties": {
                "data": {"type": "string"},
                "children": {"type": "array", "items": {"$dynamicRef": "#node"}},
            },
        }
    },
}

LISTS = {
    "properties": {"names": {"$ref": "names"}, "ages": {"$ref": "ages"}},
    "$defs": {
        "list": {
            "$id": "list",
            "type": "array",
            "items": {"$dynamicRef": "#item"},
            "$defs": {"any": {"$dynamicAnchor": "item"}},
        },
        "names": {"$id": "names", "$ref": "list", "$defs": {"i": {"$dynamicAnchor": "item", "type": "string"}}},
        "ages": {"$id": "ages", "$ref": "list", "$defs": {"i": {"$dynamicAnchor": "item", "type": "integer"}}},
    },
}

HONEST: Mapping[str, tuple[dict[str, Any], Any, Any]] = {
    "anchor": (
        {"properties": {"a": {"$ref": "#n"}}, "$defs": {"x": {"$anchor": "n", "type": "null"}}},
        {"a": None},
        {"a": 1},
    ),
    "a tree that is extended": (TREE, {"children": [{"data": "x"}]}, {"children": [{"daat": "x"}]}),
    "one list of several kinds": (LISTS, {"names": ["a"], "ages": [1]}, {"names": ["a"], "ages": ["b"]}),
    "one list, the other kind": (LISTS, {"names": ["a"]}, {"names": [1]}),
}  # fmt: skip


@each_row("name", HONEST)
@each_row("role", ["output", "tool"])
def test_such_schemas_are_taken_and_enforced(name: str, role: Any) -> None:
    """For endpoints and for tools; the reference implementation says the same."""
    schema, good, bad = HONEST[name]
    compiled = compile_schema(schema, role=role)
    assert compiled.is_valid(good) and not compiled.is_valid(bad)
    reference = jsonschema.Draft202012Validator(schema)
    assert reference.is_valid(good) and not reference.is_valid(bad)
    assert compiled.schema is schema
    plain = jsonschema.Draft202012Validator(self_contained(schema))
    assert plain.is_valid(good) and not plain.is_valid(bad)
    assert not list(remote_references(schema))


def test_recursion_of_2019() -> None:
    """``$recursiveRef`` leads to the outermost resource that has ``$recursiveAnchor``."""
    schema = {
        "$schema": DIALECTS["draft2019-09"],
        "$id": "https://example.com/strict-tree",
        "$recursiveAnchor": True,
        "$ref": "tree",
        "unevaluatedProperties": False,
        "$defs": {
            "tree": {
                "$id": "tree",
                "$recursiveAnchor": True,
                "properties": {"data": {}, "children": {"items": {"$recursiveRef": "#"}}},
            }
        },
    }
    compiled = compile_schema(schema, role="tool")
    assert compiled.is_valid({"children": [{"data": 1}]})
    assert not compiled.is_valid({"children": [{"daat": 1}]})


FAULTS: Mapping[str, tuple[dict[str, Any], str]] = {
    "no such anchor": ({"$ref": "#a"}, "/$ref: does not lead to a schema"),
    "no such dynamic anchor": ({"$dynamicRef": "#a"}, "/$dynamicRef: does not lead to a schema"),
    "an anchor of another resource": (
        {"$ref": "#a", "$defs": {"x": {"$id": "urn:x:y", "$defs": {"z": {"$anchor": "a"}}}}},
        "nothing is fetched: #a",
    ),
    "a remote address": ({"$ref": "http://127.0.0.1:9/schema"}, "nothing is fetched: http://127.0.0.1:9"),
    "a place of a resource that is no schema": (
        {"$ref": "urn:x:y#/enum/0", "$defs": {"x": {"$id": "urn:x:y", "enum": [{}]}}},
        "does not lead to a schema",
    ),
    "an anchor in a value": ({"$ref": "#a", "enum": [{"$anchor": "a"}]}, "does not lead to a schema"),
    "an anchor twice": ({"$defs": {"a": {"$anchor": "n"}, "b": {"$anchor": "n"}}}, "is used twice"),
    "an address twice": ({"$defs": {"a": {"$id": "urn:x:y"}, "b": {"$id": "urn:x:y"}}}, "is used twice"),
    "an address relative to nothing": (
        {"$id": "urn:x:y", "$defs": {"a": {"$id": "z"}}},
        "/$defs/a/$id: is relative, but a base address is missing",
    ),
    "an address with a fragment": ({"$defs": {"a": {"$id": "urn:x:y#z"}}}, "is not an address without a fragment"),
    "an address that is no text": ({"$defs": {"a": {"$id": 1}}}, "is not an address without a fragment"),
    "an anchor that is no name": ({"$defs": {"a": {"$anchor": "#x"}}}, "is not a name"),
    "an anchor that is no text": ({"$defs": {"a": {"$dynamicAnchor": []}}}, "is not a name"),
    "a reference that is no text": ({"$dynamicRef": 1}, "does not lead to a schema"),
    "a circle by an anchor": ({"$anchor": "a", "$ref": "#a"}, "without going down"),
    "a circle by a dynamic anchor": ({"$dynamicAnchor": "a", "allOf": [{"$dynamicRef": "#a"}]}, "without going down"),
    "a circle by an address": ({"$id": "urn:x:y", "not": {"$ref": "urn:x:y"}}, "without going down"),
    "doubling": (
        {"$dynamicAnchor": "a", "properties": {"x": {"allOf": [{"$dynamicRef": "#a"}, {"$ref": "#a"}]}}},
        "more than 256 schemas",
    ),
    "a resource of another dialect": (
        {"$defs": {"a": {"$id": "urn:x:y", "$schema": "http://json-schema.org/draft-07/schema#"}}},
        "is not the dialect of the whole schema",
    ),
    "another dialect's keyword": ({"$recursiveRef": "#"}, "is not followed in"),
}


@each_row("name", FAULTS)
@each_row("role", ["output", "tool"])
def test_what_leads_nowhere_is_a_fault(name: str, role: Any) -> None:
    """When the schema is loaded or listed, with the place; nothing is fetched to find out."""
    schema, sentence = FAULTS[name]
    with pytest.raises(SchemaError) as caught:
        compile_schema(schema, role=role)
    assert sentence in str(caught.value)


def ways(kinds: int) -> dict[str, Any]:
    """Resources that are reached with ever other anchors: two to the power of ``kinds`` ways to write them out."""
    inner: dict[str, Any] = {
        f"step{at}": {
            "$id": f"step{at}",
            "properties": {each: {"$ref": f"{each}{at}"} for each in ("with", "without")},
        }
        for at in range(kinds)
    }
    for at in range(kinds):
        following = f"step{at + 1}" if at + 1 < kinds else "end"
        inner[f"with{at}"] = {"$id": f"with{at}", "$dynamicAnchor": f"a{at}", "$ref": following}
        inner[f"without{at}"] = {"$id": f"without{at}", "$ref": following}
    last = {f"p{at}": {"$dynamicRef": f"#a{at}"} for at in range(kinds)}
    defaults = {f"d{at}": {"$dynamicAnchor": f"a{at}"} for at in range(kinds)}
    inner["end"] = {"$id": "end", "properties": last, "$defs": defaults}
    return {"$ref": "step0", "$defs": inner}


@measured
def test_writing_out_is_bounded() -> None:
    """
    A few anchors in all combinations are taken; many are refused before they are written out.

    The bound leaves room for a slow machine, on which the refusal takes half a second of CPU.
    """
    compile_schema(ways(2), role="tool")
    begun = time.process_time()
    with pytest.raises(SchemaError, match=f"more than {MAX_SCHEMAS} schemas when its dynamic references are followed"):
        compile_schema(ways(12), role="tool")
    assert time.process_time() - begun < 5


def costly(reference: dict[str, Any], target: dict[str, Any]) -> dict[str, Any]:
    """Objects in an array, each of which is compared with many alternatives behind a reference."""
    alternatives = {"oneOf": [{"type": "object", "required": [f"q{at}"]} for at in range(120)]}
    return {
        "type": "object",
        "properties": {"a": {"type": "array", "items": reference}},
        "additionalProperties": False,
        "$defs": {"x": {**target, **alternatives}},
    }


@each_row(
    ("reference", "target"),
    [
        ({"$ref": "#/$defs/x"}, {}),
        ({"$ref": "#n"}, {"$anchor": "n"}),
        ({"$ref": "other"}, {"$id": "other"}),
        ({"$ref": "urn:x:y#n"}, {"$id": "urn:x:y", "$dynamicAnchor": "n"}),
        ({"$dynamicRef": "#n"}, {"$dynamicAnchor": "n"}),
        ({"$dynamicRef": "#/$defs/x"}, {}),
    ],
)
def test_what_a_reference_leads_to_costs(reference: dict[str, Any], target: dict[str, Any]) -> None:
    """However it is written, the estimate follows it; a value beyond the budget is refused before it is checked."""
    compiled = compile_schema(costly(reference, target), role="input")
    with pytest.raises(TooCostly):
        compiled.is_valid({"a": [{"k": "x"}] * 8_000})
    assert not compiled.is_valid({"a": [{"k": "x"}]})
    assert compiled.is_valid({"a": [{"q7": "x"}]})


def nested(schema: Any) -> Iterator[Any]:
    """Everything inside a schema."""
    yield schema
    for inner in schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ():
        yield from nested(inner)


@pytest.mark.parametrize("schema", [TREE, LISTS, ways(2)])
def test_nothing_moving_is_left_for_the_validator(schema: dict[str, Any]) -> None:
    """What the compiled validator reads has plain references alone, so it can follow nothing that was not counted."""
    walk = Walk(schema, closed=False)
    assert not walk.faults
    for part in nested(walk.cleaned):
        if isinstance(part, dict):
            assert not part.keys() & {"$id", "$anchor", "$dynamicRef", "$dynamicAnchor"}
            assert str(part.get("$ref", "#")).startswith("#")


@each_row(
    ("base", "reference", "address"),
    [
        ("schema:///", "tree", "schema:///tree"),
        ("agtp://host/a/b", "../c", "agtp://host/c"),
        ("https://example.com/a.json", "//other.example/b", "https://other.example/b"),
        ("https://example.com/a.json", "/b/./c", "https://example.com/b/c"),
        ("urn:x:y", "urn:a:b", "urn:a:b"),
        ("urn:x:y", "", "urn:x:y"),
        ("urn:x:y", "z", None),
    ],
)
def test_addresses_are_joined(base: str, reference: str, address: str | None) -> None:
    """RFC 3986 section 5.2, for schemes of every kind."""
    assert join(base, reference) == address
