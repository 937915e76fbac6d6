"""Schemas times values: inputs that are small enough and schemas that are sound, and that cost together."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.attacks.attack import Attack, Target
from tests.attacks.catalogue.parsers import message, sent
from tests.system.raw_link import JSON

_NAMED = {f"p{at}": 1 for at in range(90)}

COSTLY: dict[str, tuple[str, dict[str, Any], list[Any]]] = {
    "multiple-of": (
        "A number divided by hundreds of divisors, or with hundreds of digits, 17 kB of them",
        {"anyOf": [{"multipleOf": 7.5 + at} for at in range(200)]},
        [[9_007_199_254_740_881.0] * 900, [1e300] * 2_500, [5e-324] * 2_000],
    ),
    "one-of": (
        "8,000 objects against 120 alternatives",
        {"oneOf": [{"type": "object", "required": [f"q{at}"]} for at in range(120)]},
        [[{"k": "x"}] * 8_000],
    ),
    "pattern-properties": (
        "A thousand objects against 240 expressions for their names",
        {"type": "object", "patternProperties": {f"^x{at}.*y": {} for at in range(240)}},
        [[{f"k{at}": 1 for at in range(20)}] * 1_000],
    ),
    "enum": (
        "Thousands of objects compared with hundreds",
        {"enum": [{"a": at} for at in range(900)]},
        [[{"a": 899}] * 5_000],
    ),
    "expression": (
        "Long texts against an expression with hundreds of states at once",
        {"pattern": "a[ab]{400}[cd]"},
        [["ab" * 400_000]],
    ),
    "required": (
        "Hundreds of objects against 8,100 dependent names",
        {"type": "object", "dependentRequired": {name: list(_NAMED) for name in _NAMED}},
        [[_NAMED] * 250],
    ),
    "explanation": (
        "A long text that follows none of 200 alternatives: the faults of each would hold a copy of it",
        {"anyOf": [{"maxLength": at} for at in range(200)]},
        [["x" * 1_000_000]],
    ),
}


def toml(value: Any) -> str:
    """A JSON value as inline TOML."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(name)} = {toml(member)}" for name, member in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml, value)) + "]"
    return json.dumps(value)


_ENDPOINT = """
method = "ECHO"
path = "/costly/{name}"
description = "Takes values that are checked against a schema."
errors = []

[handler]
type = "registered_function"
function = "handlers.costly.take"

[semantic]
intent = "Check values against a schema."
actor = "agent"
outcome = "The caller knows that its values follow the schema."
capability = "notification"
confidence = 1.0
impact = "informational"
is_idempotent = true

[input_schema]
type = "object"
additionalProperties = false
properties = {{ a = {{ type = "array", items = {items} }} }}

[output_schema]
type = "object"
additionalProperties = true
"""


def endpoints(folder: Path) -> None:
    """One endpoint per schema, as an operator might declare them."""
    (folder / "handlers" / "costly.py").write_text("def take(context):\n    return {}\n")
    for name, (_, items, _) in COSTLY.items():
        (folder / "endpoints" / f"costly-{name}.toml").write_text(_ENDPOINT.format(name=name, items=toml(items)))


def _run(name: str) -> Callable[[Target, float], None]:
    values = COSTLY[name][2]

    def run(target: Target, seconds: float) -> None:
        bodies = [json.dumps({"a": value}, separators=(",", ":")).encode() for value in values]
        sent(target, seconds, [message(f"/costly/{name}", body, JSON) for body in bodies], (422, 429), agent="demo")

    return run


ATTACKS = tuple(
    Attack(
        name=f"schema-{name}",
        who="agent",
        says=f"{says}: 422, before the validator sees them or with one fault.",
        configure=endpoints,
        run=_run(name),
    )
    for name, (says, _, _) in COSTLY.items()
)
