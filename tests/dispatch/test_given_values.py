"""What a handler or a gate of an operator changes in what it was given stays its own matter."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import pytest
from twisted.internet.defer import ensureDeferred

from agtphost.contract.binding import Binding
from agtphost.contract.schemas import compile_schema
from agtphost.dispatch.failed_calls import KIND
from agtphost.dispatch.gates.plugin import OperatorGate, place_gates
from agtphost.handlers.context import EndpointContext, EndpointError
from agtphost.identity.peer import Assurance, Peer
from agtphost.plugin import CallView
from agtphost.vocabulary.given_values import copy_given
from tests.dispatch.hosts import DispatchHost, Recorder, certificate, document, payload
from tests.dispatch.test_gate_cache import Connected
from tests.dispatch.test_plugin_gate import Plugin

NESTED = {"text": "x", "more": {"names": ["a", "b"]}}
NAMES = {"type": "array", "items": {"type": "string"}}
SHAPE = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "text": {"type": "string"},
        "name": {"type": "string"},
        "more": {"type": "object", "additionalProperties": False, "properties": {"names": NAMES}},
    },
}


def spoil(context: EndpointContext | CallView) -> None:
    """Change everything that can be changed, nested values as well."""
    given: Any = context.input
    for value in given.values():
        if isinstance(value, dict):
            value["names"].append("c")
            value["further"] = True
    given.pop("text", None)
    given["added"] = 1
    for mapping in (context.path_parameters, getattr(context, "forwarded", {})):
        if isinstance(mapping, dict):
            mapping.clear()


def answer(context: EndpointContext) -> Mapping[str, Any]:
    """Tell what was given, then spoil it."""
    told: dict[str, Any] = json.loads(json.dumps({"input": dict(context.input), "path": dict(context.path_parameters)}))
    told["forwarded"] = dict(context.forwarded)
    spoil(context)
    return told


def binding(handler: Callable[[EndpointContext], Any], method: str, path: str, **more: Any) -> Binding:
    given: dict[str, Any] = {"tier": "B", "min_assurance": Assurance.HEADER, "state_changing": False, **more}
    schema = compile_schema(SHAPE, role="input")
    return Binding(method=method, path=path, handler=Recorder(handler), input_schema=schema, **given)


def host_of(handler: Callable[[EndpointContext], Any] = answer, **options: Any) -> DispatchHost:
    more = {"errors": frozenset({"upstream_timeout"})}
    bindings = [binding(handler, "QUERY", "/shelf", **more), binding(handler, "QUERY", "/shelf/{name}", **more)]
    return DispatchHost(bindings=bindings, **options)


def test_path_parameters_of_a_kept_head_are_those_of_the_path() -> None:
    """The next call with the same head gets what is in its path, whatever an earlier handler did to it."""
    connected = Connected(host_of(), learning=True)
    for _ in range(6):
        told = document(connected.ask(("QUERY", "/shelf/top", ()), body=NESTED))["result"]
        assert told == {"input": {**NESTED, "name": "top"}, "path": {"name": "top"}, "forwarded": {}}


def test_a_record_has_the_shape_of_the_input_that_came() -> None:
    host = host_of()
    for _ in range(2):
        assert host.ask("QUERY", "/shelf", NESTED).status == 200
        assert payload(host)["extra"] == {"input_shape": {"text": "string", "more": "object"}}


def test_retry_repeats_the_parameters_that_came() -> None:
    """A handler that failed after it changed its input is called again with what the caller sent."""

    def fail(context: EndpointContext) -> Any:
        spoil(context)
        raise EndpointError("upstream_timeout")

    host = host_of(fail, settings={"methods": {"standard": ["RETRY"]}})
    assert host.ask("QUERY", "/shelf", NESTED, headers={"Task-ID": "t-1"}).status == 422
    (change,) = [each for each in host.ledger.drafts[-1].changes if each.kind == KIND]
    assert change.value is not None and change.value["parameters"] == NESTED


def test_an_operators_gate_changes_nothing_of_the_call() -> None:
    host = host_of()
    gate = OperatorGate(Plugin(spoil), host.clock, 5.0)
    host.rewire(place_gates(host.gates, [("schema", gate)]))
    told = document(host.ask("QUERY", "/shelf/top", NESTED))["result"]
    assert told == {"input": {**NESTED, "name": "top"}, "path": {"name": "top"}, "forwarded": {}}


def test_calls_inside_a_call_share_nothing_with_it() -> None:
    """Neither the input that is passed on, nor the answer, nor the fields of the HTTP request."""

    async def outer(context: EndpointContext) -> Mapping[str, Any]:
        given = {"text": "y", "more": {"names": ["z"]}}
        first = await context.invoke("QUERY", "/shelf", given)
        second = await context.invoke("QUERY", "/shelf", given)
        return {"alike": first == second, "given": given, "first": first, "forwarded": dict(context.forwarded)}

    host = DispatchHost(
        bindings=[
            binding(answer, "QUERY", "/shelf"),
            binding(lambda context: ensureDeferred(outer(context)), "QUERY", "/outer"),
        ]
    )
    peer = Peer(address="127.0.0.1", transport="http", certificate=certificate(), http={"surface": "gateway"})
    peer.forwarded = {"accept-language": "de"}
    told = document(host.ask("QUERY", "/outer", NESTED, peer=peer))["result"]
    assert told["alike"] and told["given"] == {"text": "y", "more": {"names": ["z"]}}
    assert told["forwarded"] == {"accept-language": "de"} and peer.forwarded == {"accept-language": "de"}
    assert told["first"]["input"] == told["given"]


def test_the_answer_to_a_key_is_the_first_one() -> None:
    """A handler that keeps what it answered, and changes it, changes no repetition."""
    kept: dict[str, Any] = {"count": 0, "names": []}

    def count(context: EndpointContext) -> Mapping[str, Any]:
        kept["count"] += 1
        kept["names"].append(context.input["text"])
        return kept

    host = DispatchHost(count)
    keys = [{"Idempotency-Key": key} for key in ("a", "b", "a")]
    first, second, again = [host.ask(body={"text": "x"}, headers=each) for each in keys]
    assert document(first)["result"] == document(again)["result"] == {"count": 1, "names": ["x"]}
    assert document(second)["result"] == {"count": 2, "names": ["x", "x"]}


@pytest.mark.parametrize(
    "given",
    [
        {},
        NESTED,
        MappingProxyType({}),
        MappingProxyType({"text": ["x"]}),
        {"big": 2**200, "float": 1e-300, "text": "é\ud800"},
    ],
    ids=["empty", "nested", "no mapping of its own", "another mapping", "numbers and text"],
)
def test_a_copy_is_equal_and_shares_nothing(given: Mapping[str, Any]) -> None:
    copied = copy_given(given)
    assert copied == dict(given) and type(copied) is dict
    for name, value in copied.items():
        assert value is not given[name] or isinstance(value, (str, int, float))
