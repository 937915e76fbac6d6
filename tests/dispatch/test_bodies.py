"""Request bodies: core v08 section 5.7, AGTP-091, AGTP-093, T-JB-60."""

from __future__ import annotations

import json

import pytest

from agtphost.contract.binding import Binding
from agtphost.contract.schemas import compile_schema
from agtphost.dispatch.exchange import Exchange
from agtphost.dispatch.gates import body as bodies
from agtphost.errors import Refusal
from agtphost.identity.peer import Assurance, Peer
from agtphost.vocabulary import jsontext, media_types
from agtphost.wire.events import Request
from tests.dispatch.hosts import DispatchHost, Recorder
from tests.memory import request_of
from tests.rows import each_row


@each_row(
    ("body", "content_type", "reason"),
    [
        (b"{}", None, "content-type-missing"),
        (b"{}", "text/plain", "unsupported-media-type"),
        (b"{", "application/json", "malformed-body"),
        (b"a: &x [1]\nb: *x\n", media_types.AGTP_YAML, "malformed-body"),
        (b"!!python/object/apply:os.system ['true']", media_types.AGTP_YAML, "malformed-body"),
        (b"a: 1\na: 2\n", media_types.AGTP_YAML, "malformed-body"),
        (b"1: x\n", media_types.AGTP_YAML, "malformed-body"),
        (b"a: .nan\n", media_types.AGTP_YAML, "malformed-body"),
        (b"a: 2026-01-01\n", media_types.AGTP_YAML, "malformed-body"),
        (b"\xff", media_types.AGTP_YAML, "malformed-body"),
        (b"[" * 5000, media_types.AGTP_YAML, "malformed-body"),
    ],
)
def test_bad_bodies_are_400_with_a_named_reason(body: bytes, content_type: str | None, reason: str) -> None:
    """Each is a 400 that says what was wrong and what would help."""
    with pytest.raises(Refusal) as caught:
        bodies.decode(body, content_type, yaml=True)
    assert (int(caught.value.status), caught.value.reason) == (400, reason)
    assert caught.value.remedy


def test_json_and_yaml_mean_the_same() -> None:
    """AGTP-091: one request, two notations, one value."""
    assert bodies.decode(b'{"a":{"b":[1,"x",true]}}', media_types.JSON) == bodies.decode(
        b"a:\n  b: [1, x, true]\n", media_types.AGTP_YAML, yaml=True
    )


def test_yaml_is_refused_unless_the_operator_asks_for_it() -> None:
    """T-JB-60: 400, with a remedy for the caller and for the operator; the body is not looked at."""
    with pytest.raises(Refusal) as caught:
        bodies.decode(b"a: 1\n", media_types.AGTP_YAML)
    assert (int(caught.value.status), caught.value.reason) == (400, "unsupported-media-type")
    assert media_types.AGTP_JSON in (caught.value.remedy or "")
    assert "yaml = true" in (caught.value.remedy or "")


@each_row(
    ("value", "parameters", "context"),
    [
        ({"a": 1}, {"a": 1}, {}),
        ({"parameters": {"a": 1}, "task_id": "t"}, {"a": 1}, {}),
        ({"method": "QUERY", "parameters": {"a": 1}, "context": {"stream": True}}, {"a": 1}, {"stream": True}),
        ({"parameters": {"a": 1}, "other": 2}, {"parameters": {"a": 1}, "other": 2}, {}),
        ({"method": "QUERY"}, {}, {}),
        ({}, {}, {}),
    ],
)
def test_the_envelope_comes_off(value: object, parameters: object, context: object) -> None:
    """A body with only the envelope's members is an envelope; any other object is the input itself."""
    assert bodies.unwrap(value) == (parameters, context)


@each_row("value", [[], "x", 1, None, {"parameters": []}, {"context": 1, "parameters": {}}])
def test_a_body_that_is_no_object_is_refused(value: object) -> None:
    """Bodies, parameters and context are objects."""
    with pytest.raises(Refusal):
        bodies.unwrap(value)


TYPED = {
    "type": "object",
    "properties": {
        "number": {"type": "integer"},
        "share": {"type": "number"},
        "open": {"type": "boolean"},
        "name": {"type": "string"},
    },
    "additionalProperties": False,
}


def typed_host() -> DispatchHost:
    """An endpoint with a typed parameter in its path, and more that may stand in the query."""
    recorder = Recorder()
    binding = Binding(
        method="QUERY", path="/things/{number}", handler=recorder, tier="B", min_assurance=Assurance.NONE,
        state_changing=False, input_schema=compile_schema(TYPED, role="input"),
    )  # fmt: skip
    return DispatchHost(bindings=[binding])


def test_what_stands_in_a_uri_has_its_declared_type() -> None:
    """AGTP-API section 5.3: typed path parameters, and the query string's beside them; the body's stay as they are."""
    answer = typed_host().ask("QUERY", "/things/42", query="share=0.5&open=true&name=7")
    assert answer.status == 200, answer.body
    assert json.loads(answer.body)["result"]["echo"] == {"number": 42, "share": 0.5, "open": True, "name": "7"}
    for path, query in (("/things/forty", None), ("/things/042", None), ("/things/1.5", None), ("/things/1", "open=1")):
        assert typed_host().ask("QUERY", path, query=query).status == 422
    assert typed_host().ask("QUERY", "/things/1", {"share": "0.5"}).status == 422


ADDRESSED: dict[str, object] = {
    "9007199254740991": 2**53 - 1,
    "-9007199254740992": -(2**53),
    "0.12345678901234567": 0.12345678901234567,
    "1e-07": 1e-07,
    "-2.5E3": -2500.0,
    "9007199254740993": None,
    "1e300": None,
    "1e999": None,
    "0." + "1" * 63: None,
    "nan": None,
    "+1": None,
}


@each_row("text, value", ADDRESSED.items(), ids=ADDRESSED)
def test_a_number_in_a_uri_is_one_that_json_has(text: str, value: object) -> None:
    """All numbers that an OpenAPI document declares can be sent, as clients write them; others are refused."""
    host = typed_host()
    answer = host.ask("QUERY", "/things/1", query=f"share={text.replace('+', '%2B')}")
    assert answer.status == (422 if value is None else 200), answer.body
    if value is not None:
        assert json.loads(answer.body)["result"]["echo"]["share"] == value
    if isinstance(value, int):
        assert json.loads(host.ask("QUERY", f"/things/{text}").body)["result"]["echo"] == {"number": value}


def test_numbers_of_built_ins_may_stand_in_the_query() -> None:
    """A built-in without a schema reads its numbers; its texts stay text, however they look."""
    recorder = Recorder()
    binding = Binding(method="QUERY", path="/", handler=recorder, tier="A", min_assurance=Assurance.NONE,
                      state_changing=False)  # fmt: skip
    host = DispatchHost(bindings=[binding])
    assert host.ask("QUERY", "/", query="max_results=5&confidence_threshold=0.5&task_id=77").status == 200
    assert recorder.calls[-1].input == {"max_results": 5, "confidence_threshold": 0.5, "task_id": "77"}
    assert host.ask("QUERY", "/", query="max_results=x").status == 200
    assert recorder.calls[-1].input == {"max_results": "x"}


def passed_on(value: dict[str, object]) -> Request:
    """Return a request that this process wrote of a decoded value."""
    request = request_of("EXECUTE", "/", jsontext.encode(value))
    request.own, request.value = True, value
    return request


def test_what_this_process_had_decoded_is_not_decoded_again() -> None:
    """The parameters are the very object whose text the body is."""
    value = {"parameters": {"text": "x"}}
    exchange = Exchange(passed_on(value), Peer(address="192.0.2.1"), 0.0)
    bodies.BodyGate().check(exchange)
    assert exchange.parameters is value["parameters"]


def test_a_decoded_value_passes_no_bound_that_its_text_does_not_pass() -> None:
    """What is deep or long is read from its text, with all checks of the decoder."""
    deep: dict[str, object] = {"text": "x"}
    for _ in range(jsontext.MAX_DEPTH):
        deep = {"parameters": deep}
    with pytest.raises(Refusal) as caught:
        bodies.BodyGate().check(Exchange(passed_on(deep), Peer(address="192.0.2.1"), 0.0))
    assert caught.value.reason == "malformed-body"
    long = {"parameters": {"text": "x" * jsontext.OWN}}
    exchange = Exchange(passed_on(long), Peer(address="192.0.2.1"), 0.0)
    bodies.BodyGate().check(exchange)
    assert exchange.parameters == long["parameters"] and exchange.parameters is not long["parameters"]
