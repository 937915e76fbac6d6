"""
What a schema may consist of: a schema from outside is code, and code that runs on every request.

Only a known vocabulary is let through, within bounds of size, and only if the
work of checking one place of an instance is bounded (security.md section 2.2,
line "schema", T-JS and T-RX). Three things could make that work grow:

- a pattern: only what RE2 compiles, which matches in linear time;
- ``$ref`` back to where it stands, without having gone down into the instance;
- references that multiply: two applications of a schema at one place, each
  of which leads to two more.

The last is found by counting how many schemas apply at one place of an
instance at every depth, over all ways down.
"""

from __future__ import annotations

import difflib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

import re2

from agtphost.contract.schema_cost import LARGEST, Budget, Compiler, Cost, Step

MAX_OCTETS = 64 << 10
"""Of a schema's JSON text; the largest real ones have a third of this."""

MAX_DEPTH = 16
"""Schemas inside each other."""

MAX_SCHEMAS = 1_000
"""Schemas in one document, the document itself included."""

MAX_PATTERN = 512
"""Characters of a regular expression."""

MAX_EXPRESSIONS = 10_000
"""States of all regular expressions together: what compiling them may cost."""

MAX_UNIQUE = 256
"""``maxItems`` that makes ``uniqueItems`` affordable."""

MAX_APPLIED = 256
"""Schemas that may apply at one place of an instance."""

MAX_WAYS = 20_000
"""Steps from a schema down to another: what counting may cost."""

INSTANCE_DEPTH = 64
"""How deep an instance can be: :data:`agtphost.vocabulary.jsontext.MAX_DEPTH`."""

ASSERTED_FORMATS = frozenset(
    {
        *("date", "date-time", "time", "duration", "email", "hostname", "ipv4", "ipv6"),
        *("uri", "uri-reference", "uuid", "json-pointer"),
    }
)
"""The ``format`` values that are checked, not just shown, in endpoints' schemas."""

_ONE = frozenset(
    {
        *("not", "if", "then", "else", "additionalProperties", "unevaluatedProperties", "propertyNames"),
        *("items", "additionalItems", "unevaluatedItems", "contains", "contentSchema"),
    }
)
_LIST = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
_MAP = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies"})
_PLAIN = frozenset(
    {
        *(
            "type",
            "enum",
            "const",
            "multipleOf",
            "maximum",
            "exclusiveMaximum",
            "minimum",
            "exclusiveMinimum",
        ),
        *("maxLength", "minLength", "pattern", "maxItems", "minItems", "uniqueItems", "maxContains"),
        *("minContains", "maxProperties", "minProperties", "required", "dependentRequired", "format"),
        *("contentEncoding", "contentMediaType", "title", "description", "default", "deprecated"),
        *("readOnly", "writeOnly", "examples", "$comment", "$ref"),
    }
)
_NUMBERS = frozenset({"multipleOf", "maximum", "exclusiveMaximum", "minimum", "exclusiveMinimum"})
_TOP = frozenset({"$schema", "$id"})
_MOVING = frozenset(
    {
        "$id",
        "id",
        "$anchor",
        "$dynamicRef",
        "$dynamicAnchor",
        "$recursiveRef",
        "$recursiveAnchor",
        "$vocabulary",
    }
)
"""Keywords that change what a reference means, or what a keyword does."""

_SUPPORTED = _ONE | _LIST | _MAP | _PLAIN

_OPTIONS = re2.Options()
_OPTIONS.log_errors = False
_OPTIONS.max_mem = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaFault:
    """One thing wrong with a schema."""

    pointer: str
    """JSON pointer to the keyword or schema; empty for the schema itself."""

    message: str
    """What is wrong, as one sentence without its subject."""

    def __str__(self) -> str:
        return f"{self.pointer or '/'}: {self.message}"


def escape(token: str | int) -> str:
    """One reference token of a JSON pointer (RFC 6901 section 3)."""
    return str(token).replace("~", "~0").replace("/", "~1")


def tokens(pointer: str) -> tuple[str, ...]:
    """The reference tokens of a JSON pointer."""
    return tuple(token.replace("~1", "/").replace("~0", "~") for token in pointer.split("/")[1:])


def plausible(schema: Any, most: int) -> bool:
    """Whether writing a schema out to measure it is worth while: no member takes less than two octets."""
    waiting: list[Any] = [schema]
    octets = 0
    while waiting and octets <= most:
        item = waiting.pop()
        if isinstance(item, str):
            octets += len(item)
        elif isinstance(item, (dict, list)):
            octets += 2 * len(item)
            if octets <= most:
                waiting.extend(item)
                waiting.extend(item.values() if isinstance(item, dict) else ())
    return octets <= most


@dataclass(slots=True)
class _Place:
    """One schema, and where it leads: what counting needs."""

    same: list[str] = field(default_factory=list)
    """Schemas that apply at the same place of the instance."""

    named: dict[str, str] = field(default_factory=dict)
    other: list[str] = field(default_factory=list)
    """For properties that are not in ``named``."""

    every: list[str] = field(default_factory=list)
    """For any property."""

    indexed: list[str] = field(default_factory=list)
    rest: list[str] = field(default_factory=list)
    """For items beyond ``indexed``."""

    items: list[str] = field(default_factory=list)
    """For any item."""

    cost: Cost = field(default_factory=Cost)
    names: str | None = None
    """The schema that names of properties are checked against."""


_INTO: Mapping[str, str] = {
    **dict.fromkeys(("not", "if", "then", "else"), "same"),
    **dict.fromkeys(("allOf", "anyOf", "oneOf", "dependentSchemas", "dependencies", "propertyNames"), "same"),
    "additionalProperties": "other",
    "patternProperties": "every",
    "unevaluatedProperties": "every",
    "prefixItems": "indexed",
    "additionalItems": "rest",
    "contains": "items",
    "unevaluatedItems": "items",
}


class Walk:
    """
    One pass over a schema.

    :param closed: whether unknown keywords and formats are faults. Else they
        are left out of :attr:`cleaned` and shown to nobody but readers.
    :param share: what part of the bounds of size the schema may use up: 2 is half of each.
    """

    def __init__(self, schema: Mapping[str, Any], *, closed: bool, share: int = 1) -> None:
        self._octets, self._schemas = MAX_OCTETS // share, MAX_SCHEMAS // share
        self._expressions, ways = MAX_EXPRESSIONS // share, MAX_WAYS // share
        self.faults: list[SchemaFault] = []
        self._closed = closed
        self._full = False
        self._places: dict[str, _Place] = {}
        self._states: dict[str, int] = {}
        self._references: list[tuple[str, str]] = []
        self.budget: Budget | None = None
        """What values may cost; None where there are faults."""

        self.applied = 1
        """Schemas that apply at one place at the most."""

        self.branching = False
        """Whether there are alternatives, each of which explains for itself why a value does not follow it."""

        self.cleaned: Any = {}
        """The schema with nothing but keywords that were checked."""

        if self._size(schema):
            self.cleaned = self._schema(schema, "", 1)
            self._resolve()
        if not self.faults:
            applied = _Applied(self._places, ways)
            self.faults.extend(_growth(applied))
            if not self.faults:
                self.applied = max(found.total() for found in applied.everywhere())
                self.budget = _budget(self._places, applied)

    def _say(self, pointer: str, message: str) -> None:
        self.faults.append(SchemaFault(pointer=pointer, message=message))

    def _size(self, schema: Mapping[str, Any]) -> bool:
        if not plausible(schema, self._octets):
            self._say("", f"has more than {self._octets} octets")
            return False
        try:
            text = json.dumps(schema, allow_nan=False, separators=(",", ":"), ensure_ascii=False)
            octets = len(text.encode("utf-8"))
        except (TypeError, ValueError, RecursionError) as error:
            self._say("", f"is not JSON: {error}"[:160])
            return False
        if octets > self._octets:
            self._say("", f"has {octets} octets; {self._octets} are the most")
        return octets <= self._octets

    def _schema(self, schema: Any, pointer: str, depth: int) -> Any:
        if isinstance(schema, bool):
            self._places[pointer] = _Place()
            return schema
        if not isinstance(schema, Mapping):
            self._say(pointer, "is neither a schema object nor true or false")
            return True
        if depth > MAX_DEPTH:
            self._say(pointer, f"is more than {MAX_DEPTH} schemas deep")
            return True
        if len(self._places) >= self._schemas:
            if not self._full:
                self._say("", f"has more than {self._schemas} schemas in it")
            self._full = True
            return True
        place = self._places[pointer] = _Place()
        cleaned: dict[str, Any] = {}
        for keyword, value in schema.items():
            here = f"{pointer}/{escape(keyword)}"
            if keyword in _ONE and not isinstance(value, list):
                cleaned[keyword] = self._one(place, keyword, value, here, depth)
            elif keyword in _LIST or keyword in _ONE:
                cleaned[keyword] = self._list(place, keyword, value, here, depth)
            elif keyword in _MAP:
                cleaned[keyword] = self._map(place, keyword, value, here, depth)
            elif keyword in _PLAIN:
                self._plain(keyword, value, schema, here, pointer)
                if keyword != "format" or self._closed:
                    place.cost.keyword(keyword, value)
                if keyword == "pattern" and isinstance(value, str):
                    place.cost.expression(value, self._states.get(value, 0))
                if keyword != "format" or value in ASSERTED_FORMATS:
                    cleaned[keyword] = value
            else:
                self._unknown(keyword, here, top=not pointer)
        return cleaned

    def _unknown(self, keyword: str, here: str, *, top: bool) -> None:
        if top and keyword in _TOP:
            return
        if keyword in _MOVING:
            self._say(here[:160], "is not supported")
        elif self._closed and not keyword.startswith("x-"):
            close = difflib.get_close_matches(keyword, _SUPPORTED, 1)
            hint = f"; did you mean {close[0]!r}?" if close else ""
            self._say(here[:160], f"is not a keyword of the supported vocabulary{hint}")

    # Where schemas stand inside a schema

    def _one(self, place: _Place, keyword: str, value: Any, here: str, depth: int) -> Any:
        cleaned = self._schema(value, here, depth + 1)
        if keyword == "propertyNames":
            place.names = here
        elif keyword in ("unevaluatedProperties", "unevaluatedItems"):
            place.cost.evaluates = True
        if keyword == "items":
            place.rest.append(here)
        elif keyword != "contentSchema":
            getattr(place, _INTO[keyword]).append(here)
        return cleaned

    def _list(self, place: _Place, keyword: str, value: Any, here: str, depth: int) -> Any:
        if not isinstance(value, list) or keyword not in (*_LIST, "items"):
            self._say(here, "is not what the keyword takes")
            return []
        self.branching = self.branching or keyword in ("anyOf", "oneOf")
        into = getattr(place, _INTO.get(keyword, "indexed"))
        cleaned = []
        for index, item in enumerate(value):
            cleaned.append(self._schema(item, f"{here}/{index}", depth + 1))
            into.append(f"{here}/{index}")
        return cleaned

    def _map(self, place: _Place, keyword: str, value: Any, here: str, depth: int) -> Any:
        if not isinstance(value, Mapping):
            self._say(here, "is not an object")
            return {}
        if keyword == "dependencies":
            place.cost.keyword(keyword, value)
        cleaned: dict[str, Any] = {}
        for name, item in value.items():
            inner = f"{here}/{escape(name)}"
            if keyword == "patternProperties":
                self._pattern(name, inner)
                place.cost.expression(name, self._states.get(name, 0), names=True)
            if keyword == "dependencies" and isinstance(item, list):
                cleaned[name] = item
                continue
            cleaned[name] = self._schema(item, inner, depth + 1)
            if keyword == "properties":
                place.named[name] = inner
            elif keyword in _INTO:
                getattr(place, _INTO[keyword]).append(inner)
        return cleaned

    # Keywords with plain values

    def _plain(self, keyword: str, value: Any, schema: Mapping[str, Any], here: str, pointer: str) -> None:
        if keyword == "$ref":
            self._reference(value, here, pointer)
        elif keyword == "pattern":
            self._pattern(value, here)
        elif keyword in _NUMBERS:
            self._number(keyword, value, here)
        elif keyword == "uniqueItems" and value is True:
            most = schema.get("maxItems")
            if not isinstance(most, int) or most > MAX_UNIQUE:
                self._say(here, f"needs maxItems of at most {MAX_UNIQUE} beside it")
        elif keyword == "format" and self._closed and value not in ASSERTED_FORMATS:
            known = ", ".join(sorted(ASSERTED_FORMATS))
            self._say(here, f"{str(value)[:64]!r} is not one of the formats that are checked: {known}")

    def _number(self, keyword: str, value: Any, here: str) -> None:
        """What is counted or divided by is within what every reader of numbers holds."""
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            return  # The dialect's own schema says so.
        if isinstance(value, int) and abs(value) > LARGEST:
            self._say(here, "is beyond 2**63")
        elif keyword == "multipleOf" and not 1 / LARGEST <= value <= LARGEST:
            self._say(here, "is not between 2**-63 and 2**63")

    def _pattern(self, value: Any, here: str) -> None:
        if not isinstance(value, str):
            self._say(here[:160], "is not a regular expression")
        elif len(value) > MAX_PATTERN:
            self._say(here[:160], f"is a regular expression of more than {MAX_PATTERN} characters")
        elif value not in self._states and sum(self._states.values()) <= self._expressions:
            try:
                self._states[value] = re2.compile(value, _OPTIONS).programsize
                if sum(self._states.values()) > self._expressions:
                    self._say("", f"has regular expressions of more than {self._expressions} states in all")
            except (re2.error, UnicodeError) as error:
                reason = error.args[0].decode(errors="replace") if isinstance(error.args[0], bytes) else error
                self._say(here[:160], f"is not a regular expression that matches in linear time: {reason}")

    def _reference(self, value: Any, here: str, pointer: str) -> None:
        if not isinstance(value, str) or not (value == "#" or value.startswith("#/")):
            self._say(here, "is not a reference within the schema (#/...); nothing is fetched")
        else:
            self._references.append((pointer, unquote(value[1:])))

    def _resolve(self) -> None:
        for pointer, target in self._references:
            if target in self._places:
                self._places[pointer].same.append(target)
            else:
                self._say(f"{pointer}/$ref", f"leads to no schema: #{target[:120]}")


def _budget(places: Mapping[str, _Place], applied: _Applied) -> Budget:
    return Compiler(
        {pointer: place.cost for pointer, place in places.items()},
        {pointer: place.names for pointer, place in places.items() if place.names is not None},
        applied.together,
        applied.steps,
        most=MAX_APPLIED,
    ).budget()


def _growth(counting: _Applied) -> Iterator[SchemaFault]:
    """Refuse references that go in circles, and those that multiply."""
    try:
        applied = counting.largest()
    except _Circle as circle:
        message = "refers to itself without going down into the instance"
        yield SchemaFault(pointer=circle.pointer, message=message)
    except _TooManyWays:
        yield SchemaFault(pointer="", message=f"has more than {counting.most_ways} steps from a schema to another")
    else:
        if applied > MAX_APPLIED:
            yield SchemaFault(
                pointer="", message=f"may apply more than {MAX_APPLIED} schemas to one place of an instance"
            )


class _Circle(Exception):
    def __init__(self, pointer: str) -> None:
        super().__init__(pointer)
        self.pointer = pointer


class _TooManyWays(Exception):
    pass


class _Applied:
    """Counts the schemas that apply at one place of an instance, starting from the whole schema."""

    def __init__(self, places: Mapping[str, _Place], most_ways: int) -> None:
        self._places = places
        self.most_ways = most_ways
        self._together: dict[str, Counter[str]] = {}
        self._open: set[str] = set()
        self._ways = 0

    def largest(self) -> int:
        """The largest count over every depth and way down; some count beyond the limit where one is."""
        down = self._all_ways()
        counts = {pointer: self._together[pointer].total() for pointer in down}
        largest = counts[""]
        at_depth = counts
        for _ in range(INSTANCE_DEPTH):
            if largest > MAX_APPLIED:
                break
            deeper = {
                pointer: max(
                    (sum(times * at_depth[target] for target, times in way.items()) for way in ways),
                    default=0,
                )
                for pointer, ways in down.items()
            }
            largest = max(largest, deeper[""])
            if deeper == at_depth:
                break
            at_depth = deeper
        return largest

    def everywhere(self) -> Iterable[Counter[str]]:
        """The schemas that apply together, for each that was counted."""
        return self._together.values()

    def _all_ways(self) -> dict[str, list[Counter[str]]]:
        """For every schema that can be reached: what each step down from it applies."""
        down: dict[str, list[Counter[str]]] = {}
        waiting = [""]
        while waiting:
            pointer = waiting.pop()
            if pointer not in down:
                down[pointer] = list(self._steps(self.together(pointer)))
                waiting.extend(target for way in down[pointer] for target in way)
        return down

    def together(self, pointer: str) -> Counter[str]:
        """The schemas that apply where ``pointer`` does, itself included, and how many times each."""
        known = self._together.get(pointer)
        if known is not None:
            return known
        if pointer in self._open:
            raise _Circle(pointer)
        self._open.add(pointer)
        found = Counter({pointer: 1})
        for target in self._places[pointer].same:
            found.update(self.together(target))
            if found.total() > MAX_APPLIED:
                # Too many already; what lies beyond would only make counting long.
                break
        self._open.discard(pointer)
        self._together[pointer] = found
        return found

    def _steps(self, together: Counter[str]) -> Iterator[Counter[str]]:
        for _, way in self._ways_down(together):
            yield way

    def steps(self, together: Counter[str]) -> Iterator[tuple[Step, Counter[str]]]:
        """The ways down from a place at which ``together`` apply, each with the schemas that it leads to."""
        self._ways = 0
        return self._ways_down(together)

    def _ways_down(self, together: Counter[str]) -> Iterator[tuple[Step, Counter[str]]]:
        places = [(self._places[pointer], times) for pointer, times in together.items()]
        names: set[str | None] = {name for place, _ in places for name in place.named}
        if any(place.other or place.every for place, _ in places):
            names.add(None)
        for name in names:
            parts = (
                (([place.named[name]] if name in place.named else place.other) + place.every, times)
                for place, times in places
            )
            yield name, self._gather(parts)
        if not any(place.indexed or place.rest or place.items for place, _ in places):
            return
        longest = max(len(place.indexed) for place, _ in places)
        for index in range(longest + 1):
            items = (((place.indexed[index : index + 1] or place.rest) + place.items, times) for place, times in places)
            yield (index if index < longest else -1), self._gather(items)

    def _gather(self, parts: Iterator[tuple[list[str], int]]) -> Counter[str]:
        way: Counter[str] = Counter()
        for targets, times in parts:
            self._ways += 1 + len(targets)
            if self._ways > self.most_ways:
                raise _TooManyWays
            for target in targets:
                way[target] += times
        return way
