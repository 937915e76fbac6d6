"""A schema that was put off at the start is compiled by its first call; a long one not in the reactor's thread."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from agtphost.contract.binding import Binding
from agtphost.contract.schemas import LONG, CompiledSchema, defer_compilation
from agtphost.dispatch.gates.endpoint import SchemaGate
from agtphost.errors import Refusal
from tests.dispatch.hosts import DispatchHost, Recorder
from tests.rows import each_row

SCHEMA = {
    "type": "object",
    "additionalProperties": False,
    "properties": {"room": {"type": "string", "maxLength": 4}},
    "required": ["room"],
}


def exchange(schema: CompiledSchema, given: dict[str, Any]) -> Any:
    """What the gate sees of a call."""
    binding = SimpleNamespace(method="BOOK", input_schema=schema, table=None, tier="B")
    request = SimpleNamespace(body=b"{}", path="/room", query=None)
    return SimpleNamespace(binding=binding, request=request, input=given)


@each_row(("given", "refused"), [({"room": "12"}, False), ({"room": "12345"}, True), ({}, True)])
def test_a_long_schema_is_compiled_aside(given: dict[str, Any], refused: bool) -> None:
    """The first call waits for it, and is held to it all the same; the next does not wait."""
    asked: list[Callable[[], None]] = []

    async def aside(function: Callable[[], None]) -> None:
        asked.append(function)
        function()

    gate, schema = SchemaGate(aside), defer_compilation(SCHEMA, LONG + 1, role="input")
    waiting: Any = gate.check(exchange(schema, given))
    assert waiting is not None and not asked and not schema.is_compiled
    with pytest.raises(Refusal if refused else StopIteration) as ended:
        waiting.send(None)
    assert asked == [schema.prepare] and schema.is_compiled
    if refused:
        assert isinstance(ended.value, Refusal) and ended.value.status == 422 and ended.value.details["faults"]
        with pytest.raises(Refusal):
            gate.check(exchange(schema, given))
    else:
        assert gate.check(exchange(schema, given)) is None
    assert len(asked) == 1


def test_a_short_schema_is_compiled_at_once() -> None:
    """A few kilobytes are less work than asking a thread."""
    gate, schema = SchemaGate(_never), defer_compilation(SCHEMA, LONG, role="input")
    assert gate.check(exchange(schema, {"room": "1"})) is None and schema.is_compiled
    assert SchemaGate().check(exchange(defer_compilation(SCHEMA, LONG + 1, role="input"), {"room": "1"})) is None


async def _never(*_: object) -> None:
    raise AssertionError("nothing takes long")


@each_row(("given", "answer", "status"), [("12", "ok", 200), ("12345", "ok", 422), ("12", "not so", 500)])
def test_the_first_call_is_held_to_both_schemas(given: str, answer: str, status: int) -> None:
    """Input and answer of the first call are checked as those of every other."""
    taken = defer_compilation(SCHEMA, LONG + 1, role="input")
    returned = defer_compilation({"type": "object", "properties": {"is": {"const": "ok"}}}, LONG + 1, role="output")
    recorder = Recorder(lambda _: {"is": answer})
    late = Binding(method="QUERY", path="/late", handler=recorder, tier="B", input_schema=taken, output_schema=returned)
    host = DispatchHost(bindings=[late])
    for _ in range(2):
        assert host.ask("QUERY", "/late", {"room": given}).status == status
    assert taken.is_compiled and returned.is_compiled == (status != 422)
    assert len(recorder.calls) == (0 if status == 422 else 2)
