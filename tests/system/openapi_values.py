"""
Values by the schemas of an OpenAPI document: what a caller may send by it, and what a service may answer.

Nothing here is the importer's: the document alone says what is right, and a JSON Schema validator of others confirms
each value before it is used.
"""

from __future__ import annotations

import random
import re
import string
from collections.abc import Mapping
from re import _constants as kinds  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any
from urllib.parse import unquote

TEXTS = ("plain", "two words", "a&b=c", "50%+1", "größer/é", 'quo"ted', "a,b;c", "[x]", "tilde~dash-", "line?x#y")
"""What a text is where the document sets no bounds: characters that every place of a request escapes in its own way."""

BY_FORMAT: Mapping[str, str] = {
    "date": "2026-03-04",
    "date-time": "2026-03-04T05:06:07Z",
    "time": "05:06:07Z",
    "email": "who@mail.example",
    "uuid": "0b4a4f0e-5d3c-4a63-9a6e-2f9d1c7b8a11",
    "uri": "https://page.example/a?b=c",
    "url": "https://page.example/a?b=c",
    "uri-reference": "/a?b=c",
    "ipv4": "192.0.2.7",
    "ipv6": "2001:db8::7",
    "hostname": "page.example",
    "byte": "b2N0ZXRz",
    "duration": "P1D",
}

DEEPEST = 12
"""Levels, after which a schema is taken for one without an end."""

FULL = 3
"""Levels down to which optional members are written."""

LONGEST_LIST = 2


class NoValue(Exception):
    """A schema that no value is found for."""


class Values:
    """
    Makes values by the schemas of one document.

    :param chance: decides what the document leaves open.
    :param sending: whether they are sent to the service; False: they are its answers.
    """

    def __init__(self, document: Mapping[str, Any], chance: random.Random, *, sending: bool) -> None:
        self._document = document
        self._chance = chance
        self._left_out = "readOnly" if sending else "writeOnly"

    def follow(self, value: Any) -> Mapping[str, Any]:
        """Return an object with the chain of its ``$ref`` followed."""
        for _ in range(32):
            if not isinstance(value, Mapping) or "$ref" not in value:
                break
            here: Any = self._document
            for token in unquote(str(value["$ref"])).removeprefix("#/").split("/"):
                key = token.replace("~1", "/").replace("~0", "~")
                if isinstance(here, list) and key.isdecimal() and int(key) < len(here):
                    here = here[int(key)]
                else:
                    here = here.get(key) if isinstance(here, Mapping) else None
            value = here
        if isinstance(value, Mapping):
            return value
        if value is True or value is None:
            return {}
        raise NoValue("a reference that leads nowhere")

    def flat(self, schema: Any, depth: int = 0) -> dict[str, Any]:
        """Return a schema with its ``allOf`` merged, and one alternative of ``anyOf`` and ``oneOf`` chosen."""
        if depth > DEEPEST:
            raise NoValue("schemas without an end")
        found = dict(self.follow(schema))
        parts = [*found.pop("allOf", ())]
        for keyword in ("oneOf", "anyOf"):
            alternatives = found.pop(keyword, None)
            if alternatives:
                parts.append(self._chance.choice(alternatives))
        for part in parts:
            found = _merged(found, self.flat(part, depth + 1))
        return found

    def value(self, schema: Any, *, plain: bool = False, depth: int = 0) -> Any:
        """
        Return a value.

        :param plain: texts are letters and digits alone, for places that escape nothing.
        :raises NoValue: none is found.
        """
        if depth > DEEPEST:
            raise NoValue("schemas without an end")
        found = self.flat(schema)
        if "const" in found:
            return found["const"]
        if found.get("enum"):
            choices = [each for each in found["enum"] if each is not None]
            if not choices:
                raise NoValue("only null")
            return self._chance.choice(choices)
        kind = _type_of(found)
        if kind == "object":
            return self._object(found, plain, depth)
        if kind == "array":
            return self._list(found, plain, depth)
        if kind == "boolean":
            return self._chance.choice((True, False))
        if kind in ("integer", "number"):
            return self._number(found, kind)
        if kind == "string":
            return self._text(found, plain)
        raise NoValue(f"the type {kind}")

    def _object(self, schema: Mapping[str, Any], plain: bool, depth: int) -> dict[str, Any]:
        properties = schema.get("properties") or {}
        required = set(schema.get("required") or ())
        made: dict[str, Any] = {}
        for name, inner in properties.items():
            if self.follow(inner).get(self._left_out) is True:
                continue
            if name not in required and (depth >= FULL or self._chance.random() > (0.5 if depth else 0.7)):
                continue
            try:
                made[name] = self.value(inner, plain=plain, depth=depth + 1)
            except NoValue:
                if name in required:
                    raise
        free = schema.get("additionalProperties")
        for name in required - properties.keys():
            made[name] = self.value(free if isinstance(free, Mapping) else {"type": "string"}, depth=depth + 1)
        if not properties and isinstance(free, Mapping) and depth < FULL:
            made["key"] = self.value(free, plain=plain, depth=depth + 1)
        if len(made) < schema.get("minProperties", 0):
            raise NoValue("too few members")
        return made

    def _list(self, schema: Mapping[str, Any], plain: bool, depth: int) -> list[Any]:
        least, most = schema.get("minItems", 0), schema.get("maxItems", LONGEST_LIST)
        count = max(least, min(most, self._chance.randint(1, LONGEST_LIST)))
        if depth >= FULL and not least:
            count = 0
        if count > 20:
            raise NoValue("a long list")
        items = [self.value(schema.get("items", {}), plain=plain, depth=depth + 1) for _ in range(count)]
        if schema.get("uniqueItems"):
            items = [item for at, item in enumerate(items) if item not in items[:at]]
            if len(items) < least:
                raise NoValue("items that differ")
        return items

    def _number(self, schema: Mapping[str, Any], kind: str) -> int | float:
        low, high = schema.get("minimum"), schema.get("maximum")
        above, below = schema.get("exclusiveMinimum", False), schema.get("exclusiveMaximum", False)
        if isinstance(above, bool):
            low = low + 1 if above and low is not None else low
        else:
            low = max(above + 1, above + 1 if low is None else low)
        if isinstance(below, bool):
            high = high - 1 if below and high is not None else high
        else:
            high = min(below - 1, below - 1 if high is None else high)
        # The host refuses integers that a reader with doubles would change (docs/threats.rst).
        low = None if low is None else max(low, -(2**53))
        if low is None:
            low = 1 if high is None or high >= 1 else high - 10
        if high is None:
            high = low + 1000
        step = schema.get("multipleOf", 1)
        first, last = -(-low // step), high // step
        if kind == "number" and first > last and low <= high:
            return low  # type: ignore[no-any-return]
        if first > last:
            raise NoValue("no number is between the bounds")
        found = self._chance.randint(int(first), int(min(last, first + 1000))) * step
        return int(found) if kind == "integer" or float(found).is_integer() else found

    def _text(self, schema: Mapping[str, Any], plain: bool) -> str:
        least, most = schema.get("minLength", 0), schema.get("maxLength")
        pattern, form = schema.get("pattern"), schema.get("format")
        if pattern is not None:
            return self._matching(pattern, least, most)
        if form in BY_FORMAT:
            return BY_FORMAT[form]
        text = "word" + str(self._chance.randint(10, 99)) if plain else self._chance.choice(TEXTS)
        text = text.ljust(min(least, 5000), "x")
        return text if most is None else text[:most].rstrip()

    def _matching(self, pattern: str, least: int, most: int | None) -> str:
        for _ in range(20):
            try:
                text = _sample(parser.parse(pattern), self._chance)
            except (re.error, NotImplementedError):
                break
            if least <= len(text) and (most is None or len(text) <= most) and re.search(pattern, text):
                return text
        raise NoValue(f"no text is found for {pattern}")


def _merged(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    found = {**second, **first}
    if "properties" in first and "properties" in second:
        both = {**second["properties"], **first["properties"]}
        for name in first["properties"].keys() & second["properties"].keys():
            if first["properties"][name] != second["properties"][name]:
                both[name] = {"allOf": [first["properties"][name], second["properties"][name]]}
        found["properties"] = both
    if "required" in first and "required" in second:
        found["required"] = [*dict.fromkeys([*first["required"], *second["required"]])]
    if "enum" in first and "enum" in second:
        found["enum"] = [each for each in first["enum"] if each in second["enum"]]
    return found


def _type_of(schema: Mapping[str, Any]) -> str:
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = next((each for each in kind if each != "null"), "null")
    if kind is not None:
        return str(kind)
    if "properties" in schema or "additionalProperties" in schema:
        return "object"
    return "array" if "items" in schema else "string"


_CATEGORIES: Mapping[Any, str] = {
    kinds.CATEGORY_DIGIT: string.digits,
    kinds.CATEGORY_WORD: string.ascii_letters,
    kinds.CATEGORY_SPACE: " ",
    kinds.CATEGORY_NOT_SPACE: string.ascii_letters,
    kinds.CATEGORY_NOT_DIGIT: string.ascii_letters,
    kinds.CATEGORY_NOT_WORD: "-",
}


def _sample(parsed: Any, chance: random.Random) -> str:
    """Return a text that a regular expression may match, for its usual parts."""
    made: list[str] = []
    for kind, value in parsed:
        if kind is kinds.LITERAL:
            made.append(chr(value))
        elif kind is kinds.NOT_LITERAL:
            made.append("a" if value != ord("a") else "b")
        elif kind is kinds.ANY:
            made.append(chance.choice(string.ascii_letters))
        elif kind is kinds.IN:
            made.append(_one_of(value, chance))
        elif kind in (kinds.MAX_REPEAT, kinds.MIN_REPEAT):
            low, high, inner = value
            times = chance.randint(low, min(int(high), low + 3))
            made.extend(_sample(inner, chance) for _ in range(times))
        elif kind is kinds.SUBPATTERN:
            made.append(_sample(value[-1], chance))
        elif kind is kinds.BRANCH:
            made.append(_sample(chance.choice(value[1]), chance))
        elif kind in (kinds.AT, kinds.ASSERT, kinds.ASSERT_NOT):
            continue  # Whether it holds is seen when the whole text is matched.
        else:
            raise NotImplementedError(str(kind))
    return "".join(made)


def _one_of(parts: Any, chance: random.Random) -> str:
    usual = string.ascii_letters + string.digits + "-_ "
    listed = ""
    negated = False
    for kind, value in parts:
        if kind is kinds.NEGATE:
            negated = True
        elif kind is kinds.LITERAL:
            listed += chr(value)
        elif kind is kinds.RANGE:
            listed += "".join(map(chr, range(value[0], min(value[1], value[0] + 127) + 1)))
        elif kind is kinds.CATEGORY:
            listed += _CATEGORIES[value]
        else:
            raise NotImplementedError(str(kind))
    choices = [each for each in usual if each not in listed] if negated else [*listed]
    letters = [each for each in choices if each.isascii() and each.isalnum()]
    return chance.choice(letters or choices)
