"""Schemas: what may be in one, what checking costs, and what a fault says."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import jsonschema
import jsonschema_rs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agtphost.contract.schema_rules import Walk
from agtphost.contract.schemas import MAX_FAULTS, CompiledSchema, Role, SchemaError, compile_schema
from tests.measuring import measured
from tests.rows import each_row

CLOSED = {"type": "object", "additionalProperties": False}


def closed(**properties: Any) -> dict[str, Any]:
    return {**CLOSED, "properties": properties}


def refusal(schema: Any, role: Role = "output") -> str:
    with pytest.raises(SchemaError) as caught:
        compile_schema(schema, role=role)
    assert caught.value.faults
    return str(caught.value)


ROOM = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    **closed(
        room={"type": "string", "pattern": "^[a-z]+$", "maxLength": 8},
        arrival={"type": "string", "format": "date"},
        guests={"type": "integer", "minimum": 1},
        tags={"type": "array", "items": {"enum": ["a", "b"]}, "maxItems": 3, "uniqueItems": True},
        pair={"prefixItems": [{"type": "string"}, {"type": "number"}], "items": False},
    ),
    "required": ["room"],
}


def test_an_ordinary_input_schema() -> None:
    """API-141, API-144: Draft 2020-12, prefixItems included."""
    schema = compile_schema(ROOM, role="input")
    assert schema.schema is ROOM
    assert schema.is_valid({"room": "attic", "arrival": "2026-11-21", "pair": ["a", 1]})
    assert not schema.is_valid({"room": "attic", "arrival": "2026-02-30"})
    assert not schema.is_valid({"room": "attic", "pair": [1, "a"]})
    assert not schema.is_valid({"guests": 2})


def test_faults_say_where_and_what() -> None:
    """API-141: a JSON pointer, a predicate and the keyword for each."""
    schema = compile_schema(ROOM, role="input")
    found = schema.faults({"room": "ATTIC-ROOM", "guests": 0, "tags": ["a", "z"], "x/~y": 1})
    assert {(fault["path"], fault["keyword"]) for fault in found} == {
        ("/room", "pattern"),
        ("/room", "maxLength"),
        ("/guests", "minimum"),
        ("/tags/1", "enum"),
        ("", "additionalProperties"),
    }
    messages = {fault["keyword"]: fault["message"] for fault in found}
    assert messages["minimum"] == "is less than 1"
    assert messages["enum"] == 'is not one of ["a", "b"]'
    assert messages["additionalProperties"] == "has undeclared members: 'x/~y'"
    assert schema.faults({"room": "attic"}) == []


def test_pointers_are_escaped() -> None:
    """RFC 6901: a name with a slash is still one step."""
    schema = compile_schema(closed(**{"a/b~c": {"type": "string"}}), role="input")
    assert schema.faults({"a/b~c": 1})[0]["path"] == "/a~1b~0c"


EVERY_KEYWORD: Mapping[str, tuple[dict[str, Any], Any]] = {
    "type": ({"type": ["string", "null"]}, 1),
    "required": ({"required": ["a"]}, {}),
    "const": ({"const": 1}, 2),
    "multipleOf": ({"multipleOf": 2}, 3),
    "maximum": ({"maximum": 1}, 2),
    "exclusiveMinimum": ({"exclusiveMinimum": 1}, 1),
    "exclusiveMaximum": ({"exclusiveMaximum": 1}, 1),
    "minLength": ({"minLength": 2}, "a"),
    "minItems": ({"minItems": 1}, []),
    "maxItems": ({"maxItems": 0}, [1]),
    "uniqueItems": ({"uniqueItems": True, "maxItems": 9}, [1, 1]),
    "contains": ({"contains": {"const": 1}}, [2]),
    "minProperties": ({"minProperties": 1}, {}),
    "maxProperties": ({"maxProperties": 0}, {"a": 1}),
    "anyOf": ({"anyOf": [{"type": "string"}]}, 1),
    "oneOf": ({"oneOf": [True, True]}, 1),
    "not": ({"not": {}}, 1),
    "format": ({"format": "uuid"}, "x"),
    "false": ({"properties": {"a": False}}, {"a": 1}),
    "unevaluatedProperties": ({"unevaluatedProperties": False}, {"a": 1}),
    "propertyNames": ({"propertyNames": {"maxLength": 1}}, {"ab": 1}),
}


@each_row("keyword", EVERY_KEYWORD)
def test_every_keyword_has_words_for_its_fault(keyword: str) -> None:
    """Nothing falls through to an empty or foreign message."""
    schema, value = EVERY_KEYWORD[keyword]
    (fault,) = compile_schema(schema, role="output").faults(value)
    assert fault["keyword"] == keyword
    assert not fault["message"].startswith("does not follow ") or keyword == "oneOf"


def test_faults_show_no_values_and_are_bounded() -> None:
    """T-SE: a secret in a rejected body does not come back in the refusal, nor does its size."""
    canary = "canary-7d1f"
    schema = compile_schema(
        closed(
            kind={"enum": ["a"]},
            word={"type": "string", "pattern": "^[0-9]$", "maxLength": 3, "format": "date"},
            list={"type": "array", "items": {"type": "integer"}},
            fixed={"const": 1},
        ),
        role="input",
    )
    value = {"kind": canary, "word": canary, "list": [canary] * 100, "fixed": canary}
    found = schema.faults(value | {f"n{number}" * 50: canary for number in range(100)})
    assert canary not in repr(found)
    assert len(found) <= MAX_FAULTS
    assert len(repr(found)) < 4_000


@measured
def test_faults_of_a_huge_instance_cost_little() -> None:
    """A body of 50,000 wrong values is refused with its first fault, not after describing them all."""
    schema = compile_schema({"type": "array", "items": {"type": "string"}}, role="output")
    found, seconds = _timed(lambda: schema.faults(list(range(50_000))))
    assert [fault["path"] for fault in found] == ["/0"]
    assert seconds < 0.05


def _timed(call: Any) -> tuple[Any, float]:
    best = None
    for _ in range(3):
        start = time.thread_time()
        result = call()
        spent = time.thread_time() - start
        best = spent if best is None else min(best, spent)
    assert best is not None
    return result, best


# Roles


@each_row(
    ("change", "fault"),
    [
        ({"type": "array"}, '/type: must be "object"'),
        ({"type": ["object", "null"]}, '/type: must be "object"'),
        ({"additionalProperties": True}, "/additionalProperties: must be false"),
        ({"additionalProperties": {"type": "string"}}, "/additionalProperties: must be false"),
    ],
)
def test_inputs_are_closed_objects(change: dict[str, Any], fault: str) -> None:
    """API-142: refused at registration."""
    assert fault in refusal({**CLOSED, **change}, "input")
    assert "must be" in refusal({}, "input")


def test_undeclared_input_is_refused() -> None:
    """API-142: and an undeclared member at run time."""
    assert not compile_schema(CLOSED, role="input").is_valid({"typo": 1})


def test_outputs_may_have_more_than_they_declare() -> None:
    """API-143: permissive by default, required members enforced either way."""
    schema = {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]}
    permissive = compile_schema(schema, role="output")
    assert permissive.is_valid({"id": "1", "more": 2})
    assert not permissive.is_valid({"more": 2})


@each_row(
    "schema",
    [
        {"properties": {"id": {}}, "additionalProperties": True},
        {"properties": {"id": {}}},
        {"properties": {"id": {}}, "additionalProperties": False},
        {"allOf": [{"properties": {"id": {}}}]},
        {"$ref": "#/$defs/a", "$defs": {"a": {"properties": {"id": {}}}}},
    ],
)
def test_strict_outputs_may_not(schema: dict[str, Any]) -> None:
    """API-143: strict output mode, wherever members are declared; what is published stays as written."""
    strict = compile_schema(schema, role="output", strict=True)
    assert strict.is_valid({"id": 1})
    assert not strict.is_valid({"id": 1, "more": 2})
    assert strict.schema is schema


def test_formats_are_asserted_for_endpoints_and_shown_for_tools() -> None:
    """A tool's server checks by its own reading; an unknown format in an endpoint's schema is a mistake."""
    schema = {"type": "object", "properties": {"to": {"type": "string", "format": "email"}}}
    assert not compile_schema(schema, role="output").is_valid({"to": "nobody"})
    assert compile_schema(schema, role="tool").is_valid({"to": "nobody"})
    odd = {"properties": {"to": {"format": "emial"}}}
    assert "'emial' is not one of the supported formats" in refusal(odd)
    assert compile_schema(odd, role="tool").is_valid({"to": "x"})


@each_row(
    ("dialect", "schema", "good", "bad"),
    [
        ("http://json-schema.org/draft-07/schema#", {"items": [{"type": "string"}]}, ["a"], [1]),
        ("http://json-schema.org/draft-07/schema#", {"dependencies": {"a": ["b"]}}, {"b": 1}, {"a": 1}),
        ("http://json-schema.org/draft-06/schema#", {"const": 1}, 1, 2),
        ("https://json-schema.org/draft/2019-09/schema", {"dependentRequired": {"a": ["b"]}}, {}, {"a": 1}),
        ("https://json-schema.org/draft/2020-12/schema", {"prefixItems": [{"type": "string"}]}, ["a"], [1]),
    ],
)
def test_tools_come_in_several_dialects(dialect: str, schema: dict[str, Any], good: Any, bad: Any) -> None:
    """What MCP servers' libraries emit is read as what it says it is."""
    compiled = compile_schema({"$schema": dialect, "type": "object", "properties": {"x": schema}}, role="tool")
    assert compiled.is_valid({"x": good})
    assert not compiled.is_valid({"x": bad})


def test_endpoints_have_one_dialect() -> None:
    """API-144: Draft 2020-12."""
    assert "/$schema: is not" in refusal({"$schema": "http://json-schema.org/draft-07/schema#"})
    assert "/$schema: is not" in refusal({"$schema": "http://json-schema.org/draft-04/schema#"}, "tool")


def test_unknown_keywords() -> None:
    """A typing error must not pass for a constraint; in tools' schemas it is ignored; x- is free."""
    assert "did you mean 'required'?" in refusal({"requird": ["a"]})
    assert compile_schema({"x-unit": "EUR"}, role="output").is_valid(1)
    assert compile_schema({"nullable": True, "example": 1}, role="tool").is_valid({})


# T-JS and T-RX: what must not get in

DEEP: dict[str, Any] = {}
for _ in range(17):
    DEEP = {"properties": {"a": DEEP}}

ENDLESS: dict[str, Any] = {}
for _ in range(5_000):
    ENDLESS = {"not": ENDLESS}


def _tower(height: int) -> dict[str, Any]:
    floors = {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(height)}
    return {"$ref": "#/$defs/d0", "$defs": floors | {f"d{height}": {"type": "string"}}}


BOMBS: Mapping[str, tuple[Any, str]] = {
    "not a schema": ([], "is not a schema object"),
    "true": (True, "is not a schema object"),
    "remote reference": ({"$ref": "http://127.0.0.1:9/schema"}, "nothing is fetched"),
    "file reference": ({"$ref": "file:///etc/passwd"}, "nothing is fetched"),
    "relative reference": ({"$ref": "other.json"}, "nothing is fetched"),
    "anchor reference": ({"$ref": "#anchor"}, "nothing is fetched"),
    "reference that is no text": ({"$ref": 1}, "nothing is fetched"),
    "dangling reference": ({"$ref": "#/$defs/none"}, "does not lead to a schema"),
    "reference into a value": ({"$ref": "#/const/a", "const": {"a": {}}}, "does not lead to a schema"),
    "reference to itself": ({"$ref": "#"}, "without going down"),
    "circle of two": (
        {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}},
        "without going down",
    ),
    "circle through allOf": ({"allOf": [{"not": {"$ref": "#"}}]}, "without going down"),
    "circle through if": ({"if": {"anyOf": [{"$ref": "#"}]}}, "without going down"),
    "circle through dependentSchemas": ({"dependentSchemas": {"a": {"$ref": "#"}}}, "without going down"),
    "escaped circle": (
        {"$defs": {"a/b": {"$ref": "#/$defs/a~1b"}}, "$ref": "#/$defs/a~1b"},
        "without going down",
    ),
    "tower of allOf": (_tower(40), "more than 256 schemas"),
    "doubling recursion": (
        {"properties": {"a": {"allOf": [{"$ref": "#"}, {"$ref": "#"}]}}},
        "more than 256 schemas",
    ),
    "doubling by alternatives": (
        {"anyOf": [{"properties": {"a": {"$ref": "#"}}}, {"properties": {"a": {"$ref": "#"}}}]},
        "more than 256 schemas",
    ),
    "doubling by overlap": (
        {"properties": {"a": {"$ref": "#"}}, "patternProperties": {"a": {"$ref": "#"}}},
        "more than 256 schemas",
    ),
    "doubling through items": (
        {"items": {"allOf": [{"$ref": "#"}, {"$ref": "#"}]}},
        "more than 256 schemas",
    ),
    "doubling through contains": (
        {"items": {"$ref": "#"}, "contains": {"$ref": "#"}},
        "more than 256 schemas",
    ),
    "too deep": (DEEP, "schemas deep"),
    "endless": (ENDLESS, ""),
    "too many": ({"properties": {f"p{n}": {} for n in range(1_001)}}, "more than 1000 schemas"),
    "100,000 properties": ({"properties": {f"p{n}": {} for n in range(100_000)}}, "octets"),
    "too large": ({"description": "x" * 70_000}, "octets"),
    "large enumeration": ({"enum": [f"value {n}" for n in range(20_000)]}, "octets"),
    "uniqueItems alone": ({"uniqueItems": True}, "needs maxItems"),
    "uniqueItems too long": ({"uniqueItems": True, "maxItems": 257}, "needs maxItems"),
    "recursive reference": ({"$recursiveRef": "#"}, "is not followed in"),
    "vocabulary": ({"$vocabulary": {}}, "is not followed in"),
    "not JSON": ({"const": time.struct_time}, "is not JSON"),
    "not a number": ({"const": float("nan")}, "is not JSON"),
    "wrong type of keyword": ({"minimum": "1"}, "breaks the dialect"),
    "wrong type name": ({"not": {"type": "objct"}}, "breaks the dialect"),
    "wrong required": ({"required": "a"}, "breaks the dialect"),
    "properties that are no object": ({"properties": []}, "is not an object"),
    "allOf that is no list": ({"allOf": {}}, "has a value that the keyword does not accept"),
    "subschema that is no schema": ({"not": 1}, "neither a schema object nor"),
    "many alternatives": ({"anyOf": [{"properties": {f"p{n}": {} for n in range(9)}}] * 90}, ""),
    "wide alternatives": ({"$defs": {"a": {"properties": {f"p{n}": {"$ref": "#"} for n in range(90)}}}}
        | {"allOf": [{"$ref": "#/$defs/a"}] * 100}, ""),
}  # fmt: skip


@measured
@each_row("name", BOMBS)
@each_row("role", ["output", "tool"])
def test_bombs_are_refused(name: str, role: Role) -> None:
    """T-JS: each with its reason, and within 50 ms."""
    schema, reason = BOMBS[name]
    message, seconds = _timed(lambda: _outcome(schema, role))
    assert reason in message
    assert message or not reason
    assert seconds < 0.05


def _outcome(schema: Any, role: Role) -> str:
    try:
        compile_schema(schema, role=role)
    except SchemaError as error:
        return str(error)
    return ""


PATTERNS = [
    *(r"(?=a)b", r"(?!a)b", r"(?<=a)b", r"(?<!a)b", r"(a)\1", r"(?P=n)", r"a{1001}", r"(a{1,100}){1,100}"),
    *(r"a{1000}{1000}", r"(", r"[", r"*a", r"\Z", r"\cA", "a" * 513, r"(?>a)", "\ud800"),
]


@measured
@each_row("pattern", PATTERNS, ids=range(len(PATTERNS)))
def test_patterns_that_need_more_than_linear_time_are_refused(pattern: str) -> None:
    """T-RX: what RE2 does not compile, or is too long, as a pattern and as a property pattern."""
    schemas: list[dict[str, Any]] = [{"pattern": pattern}, {"patternProperties": {pattern: {}}}]
    for schema in schemas:
        message, seconds = _timed(lambda schema=schema: _outcome(schema, "output"))
        assert message
        assert seconds < 0.05


@measured
@each_row("pattern", ["^(a+)+$", "^(a|a)*$", "^(a|aa)+$", "(.*)*x", "^([a-zA-Z]+)*$", "(x+x+)+y"])
def test_notorious_patterns_cost_linear_time(pattern: str) -> None:
    """T-RX: 100,000 characters that keep a backtracking matcher busy for ages are checked within 50 ms."""
    schema = compile_schema({"pattern": pattern}, role="output")
    for text in ("a" * 100_000 + "!", "x" * 100_000):
        _, seconds = _timed(lambda text=text: schema.is_valid(text))
        assert seconds < 0.05


def test_a_pattern_is_anchored_only_where_it_says_so() -> None:
    """JSON Schema 2020-12 section 6.3.3; and "$" is the very end, not the last line feed."""
    assert compile_schema({"pattern": "b"}, role="output").is_valid("abc")
    assert not compile_schema({"pattern": "^b$"}, role="output").is_valid("b\n")
    assert not compile_schema({"pattern": r"^\d$"}, role="output").is_valid("٣")


WELCOME: Mapping[str, tuple[dict[str, Any], Any, Any]] = {
    "list": (
        {"properties": {"next": {"$ref": "#"}, "v": {"type": "integer"}}},
        {"next": {"v": 1}},
        {"next": {"v": "x"}},
    ),
    "tree": (
        {"properties": {"left": {"$ref": "#"}, "right": {"$ref": "#"}}, "additionalProperties": False},
        {"left": {"right": {}}},
        {"left": {"middle": {}}},
    ),
    "expression": (
        {
            "anyOf": [
                {"type": "object", "properties": {"and": {"items": {"$ref": "#"}}}, "required": ["and"]},
                {"type": "object", "properties": {"not": {"$ref": "#"}}, "required": ["not"]},
                {"type": "boolean"},
            ]
        },
        {"and": [True, {"not": False}]},
        {"and": [1]},
    ),
    "many properties": (
        {"properties": {f"p{n}": {"type": "integer"} for n in range(900)}},
        {"p9": 1},
        {"p9": ""},
    ),
}


@each_row("name", WELCOME)
def test_honest_recursion_and_size_are_taken(name: str) -> None:
    """The control: bounds that refused these would be bounds on use."""
    schema, good, bad = WELCOME[name]
    compiled = compile_schema(schema, role="output")
    assert compiled.is_valid(good)
    assert not compiled.is_valid(bad)


def test_all_faults_are_reported_at_once() -> None:
    """With the pointer of each."""
    message = refusal({"properties": {"a": {"pattern": "("}, "b": {"$ref": "x"}}, "uniqueItems": True})
    assert all(place in message for place in ("/properties/a/pattern", "/properties/b/$ref", "/uniqueItems"))


@measured
def test_checking_costs_microseconds() -> None:
    """Design decision 18: compiled at registration, so that the request path pays almost nothing."""
    schema = compile_schema(ROOM, role="input")
    value = {"room": "attic", "arrival": "2026-11-21", "guests": 2}
    _, seconds = _timed(lambda: [schema.is_valid(value) for _ in range(10_000)])
    assert seconds / 10_000 < 10e-6


# Two implementations

SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 9), st.floats(-2, 9, width=16), st.text("abz/", max_size=3)
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.sampled_from("abz"), inner, max_size=3)),
    max_leaves=6,
)
LEAVES = st.one_of(
    st.booleans(),
    st.builds(dict, type=st.sampled_from(["string", "integer", "number", "null", "boolean", "object", "array"])),
    st.builds(dict, minimum=st.integers(-1, 3), exclusiveMaximum=st.integers(0, 9)),
    st.builds(dict, enum=st.lists(SCALARS, min_size=1, max_size=3)),
    st.builds(dict, pattern=st.sampled_from(["^a+b?$", "z", "^[ab]*$", "^.{2}$"])),
    st.builds(dict, minLength=st.integers(0, 2), maxLength=st.integers(1, 3)),
    st.builds(dict, multipleOf=st.integers(1, 3)),
)
SCHEMAS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.builds(
            dict,
            properties=st.dictionaries(st.sampled_from("abz"), inner, max_size=2),
            additionalProperties=inner,
            required=st.lists(st.sampled_from("abz"), max_size=2, unique=True),
        ),
        st.builds(dict, prefixItems=st.lists(inner, min_size=1, max_size=2), items=inner),
        st.builds(dict, contains=inner, minContains=st.integers(0, 2)),
        st.builds(dict, anyOf=st.lists(inner, min_size=1, max_size=3)),
        st.builds(dict, oneOf=st.lists(inner, min_size=1, max_size=3)),
        st.builds(dict, **{"not": inner}),
        st.builds(dict, **{"if": inner, "then": inner, "else": inner}),
        st.builds(dict, propertyNames=inner),
        st.builds(dict, allOf=st.lists(inner, min_size=1, max_size=2), unevaluatedProperties=inner),
        st.builds(dict, items=inner, uniqueItems=st.booleans(), maxItems=st.integers(0, 9)),
    ),
    max_leaves=6,
)


@settings(max_examples=150, deadline=None)
@given(
    schema=SCHEMAS.filter(lambda schema: isinstance(schema, dict)),
    values=st.lists(VALUES, min_size=1, max_size=6),
)
def test_two_implementations_agree(schema: dict[str, Any], values: list[Any]) -> None:
    """The compiled validator and the Python one say the same of every generated instance."""
    compiled = compile_schema(schema, role="output")
    reference = jsonschema.Draft202012Validator(schema)
    for value in values:
        assert compiled.is_valid(value) == reference.is_valid(value)
        assert bool(compiled.faults(value)) != compiled.is_valid(value)


def test_a_validator_that_disagreed_would_be_noticed() -> None:
    """The control: a validator of another schema is not equal to the reference."""
    walk, other = Walk({"type": "integer"}, closed=True), jsonschema_rs.Draft202012Validator({"type": "integer"})
    schema = CompiledSchema({"type": "string"}, lambda: (walk, other))
    assert schema.is_valid("a") != jsonschema.Draft202012Validator(schema.schema).is_valid("a")
