"""Schemas that are checked at the start and compiled later: nothing is let through that cannot be compiled."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest

from agtphost.contract import schema_pool, schemas
from agtphost.contract.schema_check import SchemaChecks
from agtphost.contract.schema_pool import SchemaPool
from agtphost.contract.schemas import RecentSchemas, SchemaError, compile_schema, defer_compilation, is_pattern
from tests.programmes import length, seed_of_chance
from tests.rows import each_row

OBJECT = {"type": "object", "additionalProperties": False}


def doubled(levels: int) -> dict[str, Any]:
    """Definitions each of which applies the next one twice."""
    made = {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(levels)}
    return {**made, f"d{levels}": {"type": "string"}}


UNSOUND: tuple[tuple[str, dict[str, Any]], ...] = (
    ("no dialect's keyword value", {"properties": {"a": {"$ref": "#/$defs/a"}}, "$defs": {"a": {"minimum": "5"}}}),
    ("unknown keyword", {"$defs": {"a": {"minimun": 5}}}),
    ("no schema there", {"properties": {"a": {"$ref": "#/$defs/b"}}, "$defs": {"a": {}}}),
    ("no schema behind a definition", {"properties": {"a": {"$ref": "#/$defs/a"}}, "$defs": {"a": {"$ref": "#/x"}}}),
    ("circle", {"properties": {"a": {"$ref": "#/$defs/a"}}, "$defs": {"a": {"$ref": "#/$defs/a"}}}),
    (
        "circle of two",
        {"properties": {"a": {"$ref": "#/$defs/a"}}, "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}},
    ),
    ("multiplying", {"properties": {"a": {"$ref": "#/$defs/d0"}}, "$defs": doubled(9)}),
    ("pattern", {"$defs": {"a": {"pattern": "(?=a)"}}}),
    ("name's pattern", {"patternProperties": {"(a)\\1": {}}}),
    ("format", {"$defs": {"a": {"format": "iban"}}}),
    ("size", {"$defs": {f"a{n}": {"description": "x" * 700} for n in range(100)}}),
    ("schemas", {"$defs": {f"a{n}": {"properties": {f"p{m}": {} for m in range(50)}} for n in range(25)}}),
    ("depth", {"properties": {"a": {"items": {"items": {"items": {"items": {"items": 5}}}}}}}),
    ("expressions", {"$defs": {f"a{n}": {"pattern": f"^[a-z]{{9{n:02}}}$"} for n in range(30)}}),
)


@each_row(("what", "schema"), UNSOUND)
def test_what_cannot_be_compiled_is_found_at_the_start(
    what: str, schema: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pool that has compiled enough says the same of a faulty schema as a compilation."""
    monkeypatch.setattr(schema_pool, "MAX_COMPILED", 0)
    whole = {**OBJECT, **schema}
    with pytest.raises(SchemaError) as direct:
        compile_schema(whole, role="input")
    with pytest.raises(SchemaError) as pooled:
        SchemaPool().compile(whole, "input", strict=False)
    assert pooled.value.faults == direct.value.faults


def drawn(chance: random.Random, depth: int, names: list[str]) -> Any:
    """Some schema, most often a sound one."""
    kind = chance.randrange(12 if depth < 3 else 5)
    if kind == 0:
        return {"$ref": f"#/$defs/{chance.choice(names)}"}
    if kind < 4:
        return chance.choice(
            [{"type": "string"}, {"type": "integer", "minimum": 1}, {}, True, {"pattern": "^a+$"}, {"enum": ["a", 1]}]
        )
    if kind == 4:
        return {"$ref": "#/properties/p0"} if chance.random() < 0.3 else {"type": ["string", "null"]}

    def inner() -> Any:
        return drawn(chance, depth + 1, names)

    if kind < 8:
        return {"type": "object", "properties": {f"p{n}": inner() for n in range(chance.randrange(1, 4))}}
    if kind == 8:
        return {"type": "array", "items": inner()}
    if kind == 9:
        return {chance.choice(["allOf", "anyOf", "oneOf"]): [inner() for _ in range(chance.randrange(1, 4))]}
    return {chance.choice(["additionalProperties", "not", "contains", "unevaluatedProperties"]): inner()}


def halves(seed: int, times: int) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Schemas, and the definitions that several of them have."""
    chance = random.Random(seed)
    for _ in range(times):
        names = [f"n{n}" for n in range(chance.randrange(1, 6))]
        definitions = {name: drawn(chance, 0, names) for name in names}
        for _ in range(3):
            properties = {f"p{n}": drawn(chance, 1, names) for n in range(3)}
            yield {**OBJECT, "properties": properties}, definitions


def test_what_is_put_off_can_be_compiled() -> None:
    """Of schemas drawn by chance, none that is certain to be compiled is refused later, and most sound ones are."""
    checks = SchemaChecks(is_pattern)
    held: list[Any] = []
    certain = sound = 0
    for own, definitions in halves(seed_of_chance(), length(400, 20_000)):
        held.append(definitions)
        measured = checks.measure(own, definitions)
        try:
            compile_schema({**own, "$defs": definitions}, role="input")
            sound += 1
        except SchemaError:
            assert not measured, (own, definitions)
        certain += measured > 0
    assert sound * 0.95 <= certain <= sound


def test_a_schema_that_was_put_off_works_when_it_is_asked() -> None:
    """It is compiled by the first question about it, and answers as one that was compiled."""
    schema = {**OBJECT, "properties": {"a": {"type": "string", "maxLength": 2}}, "required": ["a"]}
    later, now = defer_compilation(schema, 9_000, role="input"), compile_schema(schema, role="input")
    assert later.takes_long and not later.is_compiled and not now.takes_long
    for value in ({"a": "b"}, {"a": "bcd"}, {}, {"a": "b", "c": 1}):
        assert later.is_valid(value) == now.is_valid(value)
        assert later.faults(value) == now.faults(value)
    assert later.is_compiled and not later.takes_long and later.free_octets == now.free_octets
    later.release()
    assert later.takes_long and later.checks({"a": "b"}) and later.is_compiled
    with pytest.raises(AttributeError):
        _ = later.other


def test_what_was_compiled_first_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of those that were put off as many octets are held as there is room for, and none that nobody has any more."""
    monkeypatch.setattr(schemas, "RECENT", RecentSchemas(2_500))
    made = [defer_compilation({**OBJECT, "title": str(n)}, 1_000, role="input") for n in range(3)]
    for each in made:
        assert each.is_valid({})
    assert [each.is_compiled for each in made] == [False, True, True]
    assert made[0].is_valid({}) and [each.is_compiled for each in made] == [True, False, True]
    del made[2], each
    assert schemas.RECENT.octets <= 2_000


def test_only_the_first_schemas_are_compiled_at_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """An ordinary host compiles all of its schemas; one with thousands the first, and each definition is read once."""
    definitions = {"d": {"type": "object", "properties": {"x": {"type": "string"}}}}
    many = [
        {**OBJECT, "title": f"{n}", "properties": {"a": {"$ref": "#/$defs/d"}}, "$defs": definitions} for n in range(50)
    ]
    compiled = [SchemaPool().compile(each, "input", strict=False).is_compiled for each in many]
    assert all(compiled)
    monkeypatch.setattr(schema_pool, "MAX_COMPILED", 500)
    pool = SchemaPool()
    made = [pool.compile({**each, "$defs": {"d": dict(definitions["d"])}}, "input", strict=False) for each in many]
    assert 1 <= sum(each.is_compiled for each in made) < 10
    assert len({id(each.schema["$defs"]["d"]) for each in made}) == 1
    assert pool.compile(dict(many[-1]), "input", strict=False) is made[-1]
