"""What the fault of a large value costs, and that it is a fault which the value has."""

from __future__ import annotations

import tracemalloc

from agtphost.contract.schemas import compile_schema
from tests.rows import each_row

MANY_OBJECTS = [{"a": 1}] * 15_000


def test_a_large_wrong_value_is_not_copied_for_its_fault() -> None:
    """15,000 objects where one text should be: 200 kB at most, where a copy of them takes megabytes."""
    schema = compile_schema(
        {"type": "object", "properties": {"text": {"type": "string"}}, "additionalProperties": False}, role="input"
    )
    tracemalloc.start()
    try:
        found = schema.faults({"text": MANY_OBJECTS})
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert found == [{"path": "/text", "message": "is not of type string", "keyword": "type"}]
    assert peak < 200_000, peak


INNER = {"type": "object", "properties": {"d": {"type": "integer"}}, "required": ["d"]}
DEEP = {"type": "object", "properties": {"c": INNER}, "required": ["c"]}
SCHEMA = {
    "type": "object",
    "properties": {
        "list": {"type": "array", "minItems": 1, "maxItems": 20_000},
        "b": {"type": "object", "properties": {"b": DEEP}, "required": ["b"]},
        "kind": {"enum": ["x" * 500]},
        "fixed": {"const": [1, 2, 3]},
    },
    "required": ["list"],
    "additionalProperties": False,
}
RIGHT = {"list": MANY_OBJECTS, "b": {"b": {"c": {"d": 1}}}, "kind": "x" * 500, "fixed": [1, 2, 3]}
WRONG: dict[str, tuple[dict[str, object], str]] = {
    "maxItems": ({"list": MANY_OBJECTS * 2}, "/list"),
    "minItems": ({"list": [], "b": {"b": {"c": {"d": 1}}, "more": MANY_OBJECTS}}, "/list"),
    "required": ({"b": {"b": {"c": {"e": MANY_OBJECTS}}}}, "/b/b/c"),
    "enum": ({"kind": MANY_OBJECTS}, "/kind"),
    "additionalProperties": ({"other": 1}, ""),
    "const": ({"fixed": [1, 2]}, "/fixed"),
}


@each_row("keyword", [*WRONG])
def test_the_fault_of_a_large_value_is_one_that_it_has(keyword: str) -> None:
    """The outline that is looked at first lacks items and members, and none of that is called a fault."""
    compiled = compile_schema(SCHEMA, role="input")
    assert compiled.is_valid(RIGHT)
    changed, path = WRONG[keyword]
    (found,) = compiled.faults(RIGHT | changed)
    assert (found["keyword"], found["path"]) == (keyword, path)
