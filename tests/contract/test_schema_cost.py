"""Schemas times values: what checking costs is told beforehand, and refused beyond the budget."""

from __future__ import annotations

import json
import time
from random import Random
from typing import Any

import pytest

from agtphost.contract.schema_cost import BUDGET
from agtphost.contract.schema_rules import Walk
from agtphost.contract.schemas import SchemaError, TooCostly, compile_schema
from agtphost.vocabulary import jsontext
from tests.measuring import measured
from tests.rows import each_row


def closed(properties: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "additionalProperties": False, **more}


def items(schema: Any, **more: Any) -> dict[str, Any]:
    return closed({"a": {"type": "array", "items": schema}}, **more)


def tower(keyword: str, levels: int) -> dict[str, Any]:
    return {"type": "object"} if not levels else {keyword: [tower(keyword, levels - 1)] * 2}


_RANDOM = Random(11)
_NAMED = {f"p{at}": 1 for at in range(90)}

COSTLY: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "oneOf of 120": (
        items({"oneOf": [{"type": "object", "required": [f"q{at}"]} for at in range(120)]}),
        {"a": [{"k": "x"}] * 8_000},
    ),
    "anyOf of arrays": (
        items({"anyOf": [{"const": [1] * 200 + [at]} for at in range(90)]}),
        {"a": [[1] * 200] * 240},
    ),
    "240 patternProperties": (
        items({"type": "object", "patternProperties": {f"^x{at}.*y": {} for at in range(240)}}),
        {"a": [{f"k{at}": 1 for at in range(20)} for _ in range(1_000)]},
    ),
    "enum of objects": (items({"enum": [{"a": at} for at in range(3_000)]}), {"a": [{"a": 2_999}] * 5_000}),
    "enum of fractions": (items({"enum": [at + 0.5 for at in range(500)]}), {"a": [499.5] * 20_000}),
    "expression without end": (items({"pattern": "a[ab]{400}[cd]"}), {"a": ["ab" * 200_000]}),
    "not an expression": (
        items({"allOf": [{"not": {"pattern": f"[ab]*a[ab]{{30}}[cd]{at}"}} for at in range(20)]}),
        {"a": ["ab" * 10_000] * 20},
    ),
    "names by expressions": (
        closed({"a": {"propertyNames": {"allOf": [{"pattern": f"[a-z]*{at}?.$"} for at in range(90)]}}}),
        {"a": {f"k{at}": 1 for at in range(20_000)}},
    ),
    "dependentRequired": (
        items({"type": "object", "dependentRequired": {name: list(_NAMED) for name in _NAMED}}),
        {"a": [_NAMED] * 250},
    ),
    "unevaluated": (
        items(
            {
                "type": "object",
                "anyOf": [{"properties": {f"p{at}": {"type": "integer"} for at in range(8)}} for _ in range(100)],
                "unevaluatedProperties": False,
            }
        ),
        {"a": [{f"p{at}": 1 for at in range(8)}] * 2_500},
    ),
    **{f"{kind} tower": (items(tower(kind, 6)), {"a": [{}] * 20_000}) for kind in ("anyOf", "allOf", "oneOf")},
    "references that fan out": (
        items({"$ref": "#/$defs/n"}, **{"$defs": {"n": {"allOf": [{"maxLength": 9}] * 200}}}),
        {"a": ["x"] * 20_000},
    ),
    "divisions": (items({"multipleOf": 0.01}), {"a": [19.99] * 30_000}),
    "divisions in alternatives": (
        items({"anyOf": [{"multipleOf": 7 + at} for at in range(200)]}),
        {"a": [9_007_199_254_740_881] * 2_800},
    ),
    "expression with many states at once": (
        items({"anyOf": [{"pattern": "^[ab]{0,200}a[ab]{200}$"}, {"type": "string"}]}),
        {"a": ["".join(_RANDOM.choices("ab", k=400)) for _ in range(600)]},
    ),
}

LEGITIMATE: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "thousands of records": (
        items(closed({f"m{at}": {"type": ["string", "integer"], "maxLength": 80} for at in range(8)}, required=["m0"])),
        {"a": [{f"m{at}": "some text" for at in range(8)}] * 2_500},
    ),
    "a long text beside an identifier": (
        closed({"id": {"type": "string", "pattern": "^[a-z0-9-]{1,64}$"}, "text": {"type": "string"}}),
        {"id": "abc-1", "text": "lorem ipsum " * 60_000},
    ),
    "thousands of addresses": (
        items({"type": "string", "pattern": r"^[A-Za-z0-9_.+-]+@[A-Za-z0-9-]+\.[A-Za-z0-9.-]+$"}),
        {"a": ["somebody@example.com"] * 5_000},
    ),
    **{
        f"10,000 values after {pattern}": (items({"type": "string", "pattern": pattern}), {"a": [value] * 10_000})
        for pattern, value in {
            "^[A-Z]{3,32}$": "ABCDEFGHIJKLMNOPQRSTUVWXYZABCDEF",
            "^[a-z]([a-z0-9-]{0,61}[a-z0-9])?$": "a-host-name-of-some-length",
            "^[a-z0-9]+(-[a-z0-9]+)*$": "a-slug-of-some-length",
            r"^(?:\d{1,3}\.){3}\d{1,3}$": "192.168.100.200",
            "^[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}$": "00000000-0000-4000-8000-000000000000",
            "^.{1,200}$": "Grüße aus Köln",
        }.items()
    },
    "9,500 records with codes": (
        items(closed({name: {"type": "string", "pattern": "^[A-Z]{3,32}$"} for name in ("from", "to")})),
        {"a": [{"from": "HAMBURG", "to": "ROTTERDAM"}] * 9_500},
    ),
    "prices": (items({"type": "number", "multipleOf": 0.01}), {"a": [19.99] * 10_000}),
    "a long list of names": (items({"enum": [f"v{at}" for at in range(5_000)]}), {"a": ["v4999"] * 40_000}),
    "a few alternatives": (
        items({"oneOf": [closed({"kind": {"const": kind}, "n": {"type": "integer"}}) for kind in "abcd"]}),
        {"a": [{"kind": "d", "n": 1}] * 2_500},
    ),
    "dates": (items({"type": "string", "format": "date-time"}), {"a": ["2026-01-01T00:00:00Z"] * 3_000}),
    "a large number beside what is divided": (closed({"n": {"multipleOf": 2}, "m": {}}), {"n": 4, "m": 1e300}),
}


def calibrated() -> float:
    """Seconds of CPU that count as 50 ms here: the reading of a known text took 4 ms where the budget was measured."""
    text = b"[" + b"1," * 100_000 + b"1]"
    best = min(_seconds(lambda: json.loads(text)) for _ in range(5))
    return 0.05 * max(1.0, best / 0.004)


def _seconds(work: Any) -> float:
    begun = time.thread_time()
    work()
    return time.thread_time() - begun


def _check(schema: dict[str, Any], value: Any) -> tuple[str, float]:
    compiled = compile_schema(schema, role="input")
    outcome = ""

    def work() -> None:
        nonlocal outcome
        try:
            if not compiled.is_valid(value):
                outcome = f"{len(compiled.faults(value))} faults"
        except TooCostly as error:
            assert error.reason.remedy
            outcome = error.reason

    best = min(_seconds(work) for _ in range(3))
    return outcome, best


@measured
@each_row("name", COSTLY)
def test_what_costs_too_much_is_refused_before_it_costs(name: str) -> None:
    """Each value is one that a request could bring; the schema is within the rules; the refusal is quick."""
    schema, value = COSTLY[name]
    jsontext.decode(json.dumps(value).encode())
    outcome, seconds = _check(schema, value)
    assert outcome == "value-too-costly"
    assert seconds < calibrated()


@measured
@each_row("name", LEGITIMATE)
def test_large_honest_values_pass(name: str) -> None:
    """Thousands of records, a long text, a long list of codes: within the budget, and within 50 ms."""
    schema, value = LEGITIMATE[name]
    jsontext.decode(json.dumps(value).encode())
    outcome, seconds = _check(schema, value)
    assert outcome == ""
    assert seconds < calibrated()


@each_row("number", [1e300, -1e300, 2.0**64, 5e-324, 1e-300, -1e-30])
def test_numbers_that_nobody_divides_are_refused_where_they_would_be_divided(number: float) -> None:
    """422 number-out-of-range; and where nothing is divided they are numbers like others."""
    with pytest.raises(TooCostly) as caught:
        compile_schema(items({"multipleOf": 7}), role="input").is_valid({"a": [1, number]})
    assert caught.value.reason == "number-out-of-range"
    assert compile_schema(items({"minimum": -1.7e308}), role="input").is_valid({"a": [1, number]})


@each_row(
    ("keyword", "value"),
    [("multipleOf", 1e-300), ("multipleOf", 1e300), ("multipleOf", 2**70), ("minimum", 2**64), ("maximum", -(2**80))],
)
def test_schemas_name_no_such_numbers(keyword: str, value: Any) -> None:
    """A divisor with hundreds of digits, or a bound beyond 2**63, is a fault of the schema."""
    with pytest.raises(SchemaError, match=r"2\*\*63"):
        compile_schema(items({keyword: value}), role="input")


def test_a_value_that_would_cost_much_is_not_walked_to_its_end() -> None:
    """The sum stops where the budget does: ten times the value takes no ten times as long."""
    schema, _ = COSTLY["oneOf of 120"]
    compiled = compile_schema(schema, role="input")

    def refused(count: int) -> float:
        value = {"a": [{"k": "x"} for _ in range(count)]}

        def work() -> None:
            with pytest.raises(TooCostly):
                compiled.is_valid(value)

        return min(_seconds(work) for _ in range(5))

    assert refused(200_000) < 5 * refused(20_000) + 0.02


@measured
def test_the_explanation_is_bounded_too() -> None:
    """
    Each of 200 alternatives explained with a copy of a long text was 800 MB and two seconds: now one fault without.

    The control is that a small value has its fault explained.
    """
    compiled = compile_schema(items({"anyOf": [{"maxLength": at} for at in range(200)]}), role="input")
    value = {"a": ["x" * 1_000_000]}
    assert not compiled.is_valid(value)
    assert _seconds(lambda: compiled.faults(value)) < calibrated()
    assert compiled.faults(value)[0]["message"] == "does not match the schema, and is too large to list its faults"
    assert compiled.faults({"a": ["x" * 300]})[0]["keyword"] == "anyOf"


def test_small_values_are_not_walked() -> None:
    """Ordinary schemas have no budget to keep; others need none for texts that are short."""
    plain = compile_schema(items(closed({"x": {"type": "string"}})), role="input")
    assert plain.is_valid == plain.checks
    dear = compile_schema(COSTLY["oneOf of 120"][0], role="input")
    assert dear.is_valid != dear.checks
    assert dear.free_octets > 1_000
    assert dear.free_octets * 30 * 120 < 4 * BUDGET


@pytest.mark.release
@measured
def test_a_schema_without_the_budget_is_noticed() -> None:
    """The control: what the validator alone needs for one of these values is beyond the bound."""
    schema, value = COSTLY["enum of fractions"]
    compiled = compile_schema(schema, role="input")
    few = {"a": value["a"][:2_000]}
    assert _seconds(lambda: compiled.checks(few)) > calibrated()


AMBIGUOUS = ("^[ab]{0,200}a[ab]{200}$", "^[ab]{0,30}a[ab]{30}$", "[ab]*a[ab]{30}[cd]", "^([ab]{0,10}a){1,10}$")
PLAIN = ("^[A-Z]{3,32}$", "^[a-z]{1,38}[a-z0-9]{1,38}$", r"^[\w.+-]+@[\w-]+\.[\w.-]+$", "^.{1,500}$", "b[a-z]{9}7")


@measured
@each_row("pattern", [*AMBIGUOUS, *PLAIN])
def test_what_an_expression_is_said_to_cost_is_what_it_costs(pattern: str) -> None:
    """
    Measured against the validator: never much less than what it takes, and for a plain one never far more.

    The texts keep every expression busy to their end; the clock is held against how fast this machine is.
    """
    letters = "ab" if pattern in AMBIGUOUS else "abcdefghijklm"
    random = Random(7)
    texts = ["".join(random.choice(letters) for _ in range(400)) for _ in range(300)]
    texts += [text[: 3 + at % 90] for at, text in enumerate(texts)]
    compiled = compile_schema({"items": {"anyOf": [{"pattern": pattern}, {"type": "string"}]}}, role="output")
    bare = compile_schema({"items": {"anyOf": [{"maxLength": 9}, {"type": "string"}]}}, role="output")
    compiled.checks(texts)
    took = min(_seconds(lambda: compiled.checks(texts)) for _ in range(5))
    took -= min(_seconds(lambda: bare.checks(texts)) for _ in range(5))
    said = (cost_of(compiled, texts) - cost_of(bare, texts)) / 1e9
    speed = calibrated() / 0.05
    assert took < 3 * said * speed + 0.002
    assert pattern in AMBIGUOUS or said * speed < 12 * took + 0.004


def cost_of(compiled: Any, texts: list[str]) -> int:
    """What is thought of a list of texts, in nanoseconds."""
    walk = Walk(compiled.schema, closed=True)
    assert walk.budget is not None and walk.budget._start.rest is not None
    state = walk.budget._start.rest
    return sum(state.value + state.character * len(text) for text in texts)
