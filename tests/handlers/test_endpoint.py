"""What type hints and docstrings say of an endpoint, and that a declaration which contradicts them is told."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping
from typing import Annotated, Any, Literal, NotRequired, Optional, TypedDict

import pytest
from pydantic import BaseModel

from agtphost import EndpointContext, EndpointError, endpoint
from agtphost.contract.handler_hints import Hints
from agtphost.errors import ConfigurationError
from agtphost.handlers.endpoint import hints_of
from agtphost.handlers.type_schemas import UnsupportedType, read, schema_of, to_json
from agtphost.testing.host import MemoryHost


class Size(enum.Enum):
    SMALL = "s"
    LARGE = "l"


@dataclasses.dataclass
class Order:
    item: str
    size: Size = Size.SMALL


class Found(TypedDict):
    text: str
    count: NotRequired[int]


class Model(BaseModel):
    name: str
    inner: list[Order] = []


class Deep(BaseModel):
    model: Model


ORDER = {
    "type": "object",
    "properties": {"item": {"type": "string"}, "size": {"type": "string", "enum": ["s", "l"]}},
    "required": ["item"],
    "additionalProperties": False,
}


def test_types_as_schemas() -> None:
    """Each kind of type that can be told."""
    rows: list[tuple[Any, dict[str, Any]]] = [
        (str, {"type": "string"}),
        (bool, {"type": "boolean"}),
        (Optional[int], {"type": ["integer", "null"]}),  # noqa: UP045
        (int | float, {"type": ["integer", "number"]}),
        (Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}),
        (Size, {"type": "string", "enum": ["s", "l"]}),
        (list[Size], {"type": "array", "items": {"type": "string", "enum": ["s", "l"]}}),
        (set[str], {"type": "array", "items": {"type": "string"}, "uniqueItems": True}),
        (dict[str, float], {"type": "object", "additionalProperties": {"type": "number"}}),
        (Mapping[str, Any], {"type": "object"}),
        (Annotated[int, "how many", {"minimum": 1}], {"type": "integer", "description": "how many", "minimum": 1}),
        (Order, ORDER),
        (Order | None, {"anyOf": [ORDER, {"type": "null"}]}),
        (Any, {}),
    ]
    for kind, expected in rows:
        assert schema_of(kind) == expected, kind
    found = schema_of(Found)
    assert found["required"] == ["text"] and set(found["properties"]) == {"text", "count"}
    deep = schema_of(Deep)["properties"]["model"]
    assert deep["properties"]["inner"]["items"]["required"] == ["item"] and "$ref" not in str(deep)


@pytest.mark.parametrize("kind", [bytes, dict[int, str], tuple[int, str], object(), "list[Node]", complex])
def test_types_that_cannot_be_told(kind: Any) -> None:
    """Said, and not told as something else."""
    with pytest.raises(UnsupportedType):
        schema_of(kind)


def test_values_come_as_their_types_and_go_as_json() -> None:
    """What a schema let through, as the function's own types; and back."""
    rows: list[tuple[Any, Any, Any]] = [
        (Order, {"item": "a chair", "size": "l"}, Order("a chair", Size.LARGE)),
        (Order | None, {"item": "a desk"}, Order("a desk")),
        (list[Size] | Size, "s", Size.SMALL),
        (set[str], ["a"], {"a"}),
        (dict[str, Size], {"x": "l"}, {"x": Size.LARGE}),
        (Model, {"name": "n", "inner": [{"item": "i"}]}, Model(name="n", inner=[Order("i")])),
        (int | None, None, None),
    ]
    for kind, value, expected in rows:
        assert read(kind, value) == expected, kind
    assert to_json({"order": Order("i"), "all": [Size.LARGE], "m": Model(name="n")}) == {
        "order": {"item": "i", "size": "s"},
        "all": ["l"],
        "m": {"name": "n", "inner": []},
    }


@endpoint(errors=["sold_out"])
async def buy(context: EndpointContext, order: Order, count: Annotated[int, {"minimum": 1}] = 1) -> Found:
    """
    Buys something
    of the catalogue.

    :param order: what is bought,
        and of which size
    :raises order_unknown: there is no such item
    :raises ValueError: never
    """
    if order.item == "nothing":
        raise EndpointError("order_unknown")
    assert context.caller is not None
    return {"text": f"{context.caller.name} buys {order.item} {order.size.name}", "count": count}


@endpoint
def google(text: str, often: int = 2) -> dict[str, str]:
    """Repeats.

    Args:
        text: what is said
        often (int): how many times

    Raises:
        too_long: nobody would listen
    """
    return {"text": text * often}


def plain(context: EndpointContext) -> dict[str, Any]:
    """Not declared so."""
    return {}


def told(function: Any) -> Hints:
    found = hints_of("x.y", lambda dotted: function)
    assert found is not None
    return found


def test_what_a_function_says() -> None:
    """Description, intent, errors and schemas; of one that is not declared so, nothing."""
    said = told(buy)
    assert (said.description, said.intent) == ("Buys something of the catalogue.", "Buys something of the catalogue.")
    assert said.errors == ("sold_out", "order_unknown") and said.where.partition(":")[0] == __file__
    assert said.input_schema == {
        "type": "object",
        "properties": {
            "order": {"description": "what is bought, and of which size", **ORDER},
            "count": {"type": "integer", "minimum": 1},
        },
        "required": ["order"],
        "additionalProperties": False,
    }
    other = told(google)
    assert (other.description, other.errors) == ("Repeats.", ("too_long",))
    assert other.input_schema is not None
    assert other.input_schema["properties"]["often"] == {"description": "how many times", "type": "integer"}
    assert hints_of("x.y", lambda dotted: plain) is None
    assert google("a", often=3) == {"text": "aaa"}, "for its own tests it is the plain function"


SEMANTIC = {
    "actor": "agent",
    "outcome": "It is bought.",
    "capability": "transaction",
    "confidence": 1.0,
    "impact": "reversible",
    "is_idempotent": False,
}


def declared(function: Any, **members: Any) -> MemoryHost:
    table = {"method": "BOOK", "path": "/orders", "handler": function, "semantic": SEMANTIC, **members}
    return MemoryHost(endpoints=[table])


def test_a_host_answers_by_the_hints() -> None:
    """The gates check what the hints say, the function gets its types, and its errors are declared."""
    host = declared(buy)
    demo = host.agent("demo")
    answer = host.call("BOOK", "/orders", {"order": {"item": "a chair", "size": "l"}}, caller=demo)
    assert answer.result == {"text": "demo buys a chair LARGE", "count": 1}, answer.explanation
    assert host.call("BOOK", "/orders", {"order": {"item": "a chair"}, "count": 0}, caller=demo).status == 422
    refused = host.call("BOOK", "/orders", {"order": {"item": "nothing"}}, caller=demo)
    assert (refused.status, refused.reason) == (422, "order_unknown")


CLOSED = {"type": "object", "additionalProperties": False}
CONTRADICTIONS = [
    (
        {"input_schema": {**CLOSED, "properties": {"order": ORDER, "colour": {}}, "required": ["order"]}},
        "'colour', which the function does not take",
    ),
    ({"input_schema": {**CLOSED, "properties": {"order": ORDER}}}, "does not require 'order'"),
    (
        {"input_schema": {**CLOSED, "properties": {"order": {"type": "string"}}, "required": ["order"]}},
        "declares 'order' as string, but the function's hint is object",
    ),
    ({"output_schema": {"type": "object", "properties": {}, "required": ["price"]}}, "requires 'price'"),
    ({"errors": ["sold_out"]}, "errors does not declare order_unknown"),
]


@pytest.mark.parametrize(("members", "said"), CONTRADICTIONS)
def test_a_contradiction_is_told(members: dict[str, Any], said: str) -> None:
    """The declaration is the authority, and a call would fail: the host does not start, and says where the other is."""
    with pytest.raises(ConfigurationError) as caught:
        declared(buy, **members).core
    (problem,) = caught.value.problems
    assert said in problem.message and __file__ in problem.hint


def test_a_declaration_that_agrees_counts() -> None:
    """It may ask for more than the hints, and describe it otherwise."""
    narrow = {
        **CLOSED,
        "properties": {"order": ORDER, "count": {"type": "integer", "maximum": 3}},
        "required": ["order", "count"],
    }
    host = declared(buy, input_schema=narrow, description="Buys.", errors=["sold_out", "order_unknown", "closed"])
    given = {"order": {"item": "x"}, "count": 4}
    assert host.call("BOOK", "/orders", given, caller=host.agent("demo")).status == 422


@endpoint
def untold(data: bytes) -> dict[str, str]:
    """Takes what JSON does not have."""
    return {}


def test_hints_that_cannot_be_told() -> None:
    """The host does not start, and says which and why, once."""
    with pytest.raises(ConfigurationError) as caught:
        declared(untold).core
    (problem,) = caught.value.problems
    assert "bytes cannot be expressed as a JSON Schema" in problem.message
