"""Make valid and invalid inputs from a declared schema."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import jsonschema_rs

from agtphost.conformance.patterns import UnsupportedPattern, make_match

Value = dict[str, Any]

# The regex crate matches in linear time; the limit bounds what compiling one expression may take.
_LINEAR = jsonschema_rs.RegexOptions(size_limit=1 << 20, dfa_size_limit=1 << 20)

TRIES = 24
DEPTH = 8
MOST = 10_000
"""Items of one input, and characters of one text, at most; a target may require any number."""

_FORMATS = {
    "date": "2031-05-04",
    "date-time": "2031-05-04T03:02:01Z",
    "time": "03:02:01Z",
    "duration": "P1D",
    "email": "someone@example.com",
    "hostname": "example.com",
    "ipv4": "192.0.2.1",
    "ipv6": "2001:db8::1",
    "uri": "https://example.com/a",
    "uri-reference": "/a",
    "uuid": "0b3c6f0e-5d4a-4c55-9c8f-2f3d1c0a9b87",
}

_OTHER_TYPES: Mapping[str, object] = {
    "string": 7,
    "integer": "seven",
    "number": "seven",
    "boolean": "yes",
    "array": "no array",
    "object": "no object",
    "null": 7,
}


@dataclass(frozen=True, kw_only=True)
class InputFault:
    """An input that a schema refuses."""

    kind: str
    """``missing``, ``type``, ``undeclared``, ``bound``, ``enum``, ``pattern``."""

    member: str
    """The faulty member of the input."""

    value: Value


class Samples:
    """
    A generator of inputs for one input schema.

    :param schema: the schema of an object.
    :raises ValueError: the schema cannot be compiled.
    """

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._schema = schema
        self._compiled = jsonschema_rs.validator_for(
            dict(schema), validate_formats=False, pattern_options=_LINEAR, offline=True
        )
        self._dice = random.Random(4480)
        self._left = MOST

    @property
    def properties(self) -> Mapping[str, Any]:
        """The declared members."""
        found = self._schema.get("properties")
        return found if isinstance(found, Mapping) else {}

    def admits(self, value: object) -> bool:
        """Return whether the schema admits ``value``."""
        return self._compiled.is_valid(value)

    def valid(self) -> Value | None:
        """Return an input that the schema admits, or None if none could be made."""
        for attempt in range(TRIES):
            self._left = MOST
            made = self._object(self._schema, every=attempt % 2 == 1)
            if self.admits(made):
                return made
        return None

    def faults(self) -> Iterator[InputFault]:
        """Yield inputs that the schema refuses, each for one reason."""
        good = self.valid()
        if good is None:
            return
        for kind, member, value in self._candidates(good):
            if not self.admits(value):
                yield InputFault(kind=kind, member=member, value=value)

    def _candidates(self, good: Value) -> Iterator[tuple[str, str, Value]]:
        for name in self._schema.get("required", ()):
            yield "missing", name, {key: value for key, value in good.items() if key != name}
        yield "undeclared", "conformance_undeclared", {**good, "conformance_undeclared": 1}
        for name, rule in self.properties.items():
            if not isinstance(rule, Mapping):
                continue
            for kind, value in _wrong(rule):
                yield kind, name, {**good, name: value}

    def _object(self, schema: Mapping[str, Any], *, every: bool, depth: int = 0) -> Value:
        properties = schema.get("properties")
        required = schema.get("required", ())
        made = {}
        for name, rule in (properties if isinstance(properties, Mapping) else {}).items():
            if (every or name in required) and depth < DEPTH:
                made[name] = self._value(rule if isinstance(rule, Mapping) else {}, every=every, depth=depth + 1)
        return made

    def _value(self, rule: Mapping[str, Any], *, every: bool, depth: int) -> Any:
        for name in ("const", "default"):
            if name in rule:
                return rule[name]
        for name in ("enum", "examples"):
            if isinstance(rule.get(name), list) and rule[name]:
                return rule[name][0]
        for name in ("anyOf", "oneOf", "allOf"):
            if isinstance(rule.get(name), list) and rule[name] and isinstance(rule[name][0], Mapping):
                return self._value({**rule[name][0]}, every=every, depth=depth + 1)
        kind = rule.get("type", "string")
        if isinstance(kind, list):
            kind = kind[0]
        if kind == "object":
            return self._object(rule, every=every, depth=depth)
        if kind == "array":
            items = rule.get("items", {})
            count = min(int(rule.get("minItems", 1)), self._left)
            self._left -= count
            return [self._value(items, every=every, depth=depth + 1) for _ in range(count)] if depth < DEPTH else []
        makers: dict[str, Callable[[Mapping[str, Any]], Any]] = {
            "integer": _integer,
            "number": _number,
            "string": self._text,
        }
        return makers[kind](rule) if kind in makers else kind == "boolean" or None

    def _text(self, rule: Mapping[str, Any]) -> str:
        least = min(int(rule.get("minLength", 1)), MOST)
        most = int(rule.get("maxLength", max(least, 64)))
        if "pattern" in rule:
            try:
                return make_match(str(rule["pattern"]), self._dice)
            except UnsupportedPattern:
                return "a" * max(least, 1)
        if rule.get("format") in _FORMATS:
            return _FORMATS[rule["format"]]
        return "conformance"[:most].ljust(least, "x")


def _integer(rule: Mapping[str, Any]) -> int:
    least = rule.get("minimum", rule.get("exclusiveMinimum", -1) + 1)
    step = rule.get("multipleOf", 1)
    found = int(-(-least // step) * step)
    return min(found, int(rule["maximum"])) if "maximum" in rule else found


def _number(rule: Mapping[str, Any]) -> float:
    least = rule.get("minimum", rule.get("exclusiveMinimum"))
    most = rule.get("maximum", rule.get("exclusiveMaximum"))
    if least is not None and most is not None:
        return float(least + most) / 2
    if least is not None:
        return float(least) + 1
    return float(most) - 1 if most is not None else 0.5


def _wrong(rule: Mapping[str, Any]) -> Iterator[tuple[str, object]]:
    kind = rule.get("type")
    if isinstance(kind, str) and kind in _OTHER_TYPES:
        yield "type", _OTHER_TYPES[kind]
    if isinstance(rule.get("enum"), list):
        yield "enum", "conformance-none-of-these"
    if kind in ("integer", "number"):
        for name, step in (("minimum", -1), ("maximum", 1), ("exclusiveMinimum", 0), ("exclusiveMaximum", 0)):
            if isinstance(rule.get(name), int | float):
                yield "bound", rule[name] + step
    if kind == "string":
        if isinstance(rule.get("maxLength"), int) and rule["maxLength"] <= 100_000:
            yield "bound", "x" * (rule["maxLength"] + 1)
        if isinstance(rule.get("minLength"), int) and 0 < rule["minLength"] <= MOST:
            yield "bound", "x" * (rule["minLength"] - 1)
        if "pattern" in rule:
            yield "pattern", "\u2603 \u2603"


def samples_of(schema: object) -> Samples | None:
    """Return the samples of a published schema, or None if the schema cannot be used."""
    if not isinstance(schema, Mapping) or schema.get("type") != "object":
        return None
    try:
        return Samples(schema)
    except ValueError:
        return None
