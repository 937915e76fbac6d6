"""
The rules for schemas: a schema from outside is code that runs on every request.

Only known keywords are accepted, within bounds of size, and only if the work of checking one place of an instance is
bounded (security section 2.2, line "schema", T-JS and T-RX). Three things could make that work grow:

- a pattern: only patterns that RE2 compiles are accepted, which match in linear time;
- a ``$ref`` back to its own place, without a step down into the instance;
- references that multiply: two applications of a schema at one place, each of which leads to two more.

The last is detected by counting how many schemas apply at one place of an instance at every depth, over all ways down.
A schema with its own addresses and anchors is first written out with plain references (:mod:`.schema_references`).
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

import re2

from agtphost.contract.pattern_automaton import Automaton, StepBudget, automaton
from agtphost.contract.schema_cost import LARGEST, Budget, Compiler
from agtphost.contract.schema_keywords import (
    DIALECT,
    LIST,
    MAP,
    MOVING,
    NUMBERS,
    ONE,
    PLAIN,
    SUPPORTED,
    escape,
    moving_of,
)
from agtphost.contract.schema_places import INTO, MAX_APPLIED, MAX_WAYS, AppliedSchemas, SchemaPlace, growth_faults
from agtphost.contract.schema_references import References, TooManySchemas
from agtphost.vocabulary.foreign_errors import explain, original_of

MAX_OCTETS = 64 << 10
"""Octets of a schema's JSON text; the largest real ones have a third of this."""

MAX_DEPTH = 16
"""Depth of nested schemas."""

MAX_SCHEMAS = 1_000
"""Schemas in one document, including the document itself."""

MAX_PATTERN = 512
"""Characters of a regular expression."""

MAX_EXPRESSIONS = 10_000
"""States of all regular expressions together, which bounds the cost of compiling them."""

MAX_STEPS = 60_000
"""Steps of computing the sizes of their automata; about 10 ms."""

MAX_UNIQUE = 256
"""Largest ``maxItems`` with which ``uniqueItems`` is allowed."""

ASSERTED_FORMATS = frozenset(
    {
        *("date", "date-time", "time", "duration", "email", "hostname", "ipv4", "ipv6"),
        *("uri", "uri-reference", "uuid", "json-pointer"),
    }
)
"""The ``format`` values that are checked in endpoints' schemas."""

_OPTIONS = re2.Options()
_OPTIONS.log_errors = False
_OPTIONS.max_mem = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaFault:
    """A fault of a schema."""

    pointer: str
    """JSON pointer to the keyword or schema; empty for the schema itself."""

    message: str
    """What is wrong, as one sentence without its subject."""

    original: str = field(default="", compare=False)
    """The text of a foreign library that the message translates; empty without one."""

    def __str__(self) -> str:
        return f"{self.pointer or '/'}: {self.message}"


def self_contained(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return an accepted schema; one with its own addresses is rewritten to have only references to its own places."""
    walk = Walk(schema, closed=False)
    return walk.cleaned if walk.moving else schema


def tokens(pointer: str) -> tuple[str, ...]:
    """Return the reference tokens of a JSON pointer."""
    return tuple(token.replace("~1", "/").replace("~0", "~") for token in pointer.split("/")[1:])


def may_fit(schema: Any, most: int) -> bool:
    """Return whether a schema can be small enough to be encoded: each member takes at least two octets."""
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


class Walk:
    """
    A checker that passes over a schema once.

    :param closed: whether unknown keywords and formats are faults. Otherwise they are left out of :attr:`cleaned` and
        are only shown to readers.
    :param share: divisor of the bounds of size: 2 allows half of each.
    :param dialect: its URI; None: the schema's own ``$schema``.
    """

    budget: Budget | None
    cleaned: Any

    def __init__(self, schema: Mapping[str, Any], *, closed: bool, share: int = 1, dialect: str | None = None) -> None:
        self._begin(
            str(schema.get("$schema", DIALECT)).removesuffix("#") if dialect is None else dialect, closed, share
        )
        if self._size(schema):
            self.cleaned = self._schema(schema, "", 1)
            if self.moving:
                self._write_out()
                return
            self._resolve()
        if not self.faults:
            applied = AppliedSchemas(self.places, MAX_WAYS // share)
            self.faults.extend(SchemaFault(pointer=at, message=said) for at, said in growth_faults(applied))
            if not self.faults:
                self.applied = max(found.total() for found in applied.everywhere())
                self.budget = _budget(self.places, applied, self._share)

    @classmethod
    def over_part(cls, part: Any, pointer: str, depth: int) -> Walk:
        """
        Walk over a part of an endpoint's schema; references that lead out of it are not followed.

        :param pointer: pointer of the part in the schema.
        :param depth: depth of the part; 1 is the schema itself.
        """
        walk = cls.__new__(cls)
        walk._begin(DIALECT, closed=True, share=1)
        walk.cleaned = walk._schema(part, pointer, depth)
        return walk

    def _begin(self, dialect: str, closed: bool, share: int) -> None:
        self._share = share
        self._octets, self._schemas = MAX_OCTETS // share, MAX_SCHEMAS // share
        self._expressions = MAX_EXPRESSIONS // share
        self.faults: list[SchemaFault] = []
        self._dialect = dialect
        self.moving = False
        """Whether the schema has addresses or anchors, or references to them."""

        self._closed = closed
        self._full = False
        self.places: dict[str, SchemaPlace] = {}
        """Every schema in the schema, by its JSON pointer."""

        self.states: dict[str, int] = {}
        """Every regular expression, with its number of states."""

        self._automata: dict[str, Automaton | None] = {}
        self._allowance = StepBudget(MAX_STEPS // share)
        self.references: list[tuple[str, str]] = []
        """Pointers of schemas with a reference, each with the pointer that it leads to."""

        self.budget = None
        """The cost of values; None if there are faults."""

        self.applied = 1
        """Most schemas that apply at one place."""

        self.branching = False
        """Whether there are alternatives; each of them explains separately why a value does not match."""

        self.cleaned = {}
        """The schema with only the keywords that were checked."""

    def _add_fault(self, pointer: str, message: str, original: str = "") -> None:
        self.faults.append(SchemaFault(pointer=pointer, message=message, original=original))

    def _write_out(self) -> None:
        """Continue with the same schema with every reference rewritten to a place in it."""
        try:
            links = References(self.cleaned, self._dialect, most=self._schemas)
            self.faults.extend(SchemaFault(pointer=pointer, message=message) for pointer, message in links.faults)
            plain = {} if self.faults else links.write_out()
        except TooManySchemas:
            self._add_fault("", f"has more than {self._schemas} schemas when its dynamic references are followed")
        if self.faults:
            return
        walk = Walk(plain, closed=self._closed, share=self._share, dialect=self._dialect)
        self.faults, self.cleaned = walk.faults, walk.cleaned
        self.budget, self.applied, self.branching = walk.budget, walk.applied, walk.branching

    def _size(self, schema: Mapping[str, Any]) -> bool:
        if not may_fit(schema, self._octets):
            self._add_fault("", f"has more than {self._octets} octets")
            return False
        try:
            text = json.dumps(schema, allow_nan=False, separators=(",", ":"), ensure_ascii=False)
            octets = len(text.encode("utf-8"))
        except (TypeError, ValueError, RecursionError) as error:
            self._add_fault("", f"is not JSON: {explain(error)}"[:160])
            return False
        if octets > self._octets:
            self._add_fault("", f"has {octets} octets; the limit is {self._octets}")
        return octets <= self._octets

    def _schema(self, schema: Any, pointer: str, depth: int) -> Any:
        if isinstance(schema, bool):
            self.places[pointer] = SchemaPlace()
            return schema
        if not isinstance(schema, Mapping):
            self._add_fault(pointer, "is neither a schema object nor true or false")
            return True
        if depth > MAX_DEPTH:
            self._add_fault(pointer, f"is more than {MAX_DEPTH} schemas deep")
            return True
        if len(self.places) >= self._schemas:
            if not self._full:
                self._add_fault("", f"has more than {self._schemas} schemas in it")
            self._full = True
            return True
        place = self.places[pointer] = SchemaPlace()
        cleaned: dict[str, Any] = {}
        for keyword, value in schema.items():
            here = f"{pointer}/{escape(keyword)}"
            if keyword in ONE and not isinstance(value, list):
                cleaned[keyword] = self._one(place, keyword, value, here, depth)
            elif keyword in LIST or keyword in ONE:
                cleaned[keyword] = self._list(place, keyword, value, here, depth)
            elif keyword in MAP:
                cleaned[keyword] = self._map(place, keyword, value, here, depth)
            elif keyword in PLAIN:
                self._plain(keyword, value, schema, here, pointer)
                if keyword != "format" or self._closed:
                    place.cost.keyword(keyword, value)
                if keyword == "pattern" and isinstance(value, str):
                    place.cost.expression(value, self.states.get(value, 0), self._automata.get(value))
                if keyword != "format" or not isinstance(value, str) or value in ASSERTED_FORMATS:
                    cleaned[keyword] = value
            elif keyword in moving_of(self._dialect):
                cleaned[keyword] = value
                self.moving = self.moving or bool(pointer) or keyword != "$id"
            else:
                self._unknown(keyword, here, schema, top=not pointer)
        if not pointer and not self.moving:
            cleaned.pop("$id", None)  # No reference leads to it.
        return cleaned

    def _unknown(self, keyword: str, here: str, schema: Mapping[str, Any], *, top: bool) -> None:
        if keyword == "$schema" and (top or "$id" in schema):
            if not top and str(schema[keyword]).removesuffix("#") != self._dialect:
                self._add_fault(here[:160], "is not the dialect of the whole schema")
        elif keyword in MOVING:
            self._add_fault(here[:160], f"is not followed in {self._dialect}"[:160])
        elif self._closed and not keyword.startswith("x-"):
            close = difflib.get_close_matches(keyword, SUPPORTED, 1)
            hint = f"; did you mean {close[0]!r}?" if close else ""
            self._add_fault(here[:160], f"is not a keyword of the supported vocabulary{hint}")

    # Where schemas stand inside a schema

    def _one(self, place: SchemaPlace, keyword: str, value: Any, here: str, depth: int) -> Any:
        cleaned = self._schema(value, here, depth + 1)
        if keyword == "propertyNames":
            place.names = here
        elif keyword in ("unevaluatedProperties", "unevaluatedItems"):
            place.cost.evaluates = True
        if keyword == "items":
            place.rest.append(here)
        elif keyword != "contentSchema":
            getattr(place, INTO[keyword]).append(here)
        return cleaned

    def _list(self, place: SchemaPlace, keyword: str, value: Any, here: str, depth: int) -> Any:
        if not isinstance(value, list) or keyword not in (*LIST, "items"):
            self._add_fault(here, "has a value that the keyword does not accept")
            return []
        self.branching = self.branching or keyword in ("anyOf", "oneOf")
        into = getattr(place, INTO.get(keyword, "indexed"))
        cleaned = []
        for index, item in enumerate(value):
            cleaned.append(self._schema(item, f"{here}/{index}", depth + 1))
            into.append(f"{here}/{index}")
        return cleaned

    def _map(self, place: SchemaPlace, keyword: str, value: Any, here: str, depth: int) -> Any:
        if not isinstance(value, Mapping):
            self._add_fault(here, "is not an object")
            return {}
        if keyword == "dependencies":
            place.cost.keyword(keyword, value)
        cleaned: dict[str, Any] = {}
        for name, item in value.items():
            inner = f"{here}/{escape(name)}"
            if keyword == "patternProperties":
                self._pattern(name, inner)
                place.cost.expression(name, self.states.get(name, 0), self._automata.get(name), names=True)
            if keyword == "dependencies" and isinstance(item, list):
                cleaned[name] = item
                continue
            cleaned[name] = self._schema(item, inner, depth + 1)
            if keyword == "properties":
                place.named[name] = inner
            elif keyword in INTO:
                getattr(place, INTO[keyword]).append(inner)
        return cleaned

    # Keywords with plain values

    def _plain(self, keyword: str, value: Any, schema: Mapping[str, Any], here: str, pointer: str) -> None:
        if keyword == "$ref":
            self._reference(value, here, pointer)
        elif keyword == "pattern":
            self._pattern(value, here)
        elif keyword in NUMBERS:
            self._number(keyword, value, here)
        elif keyword == "uniqueItems" and value is True:
            most = schema.get("maxItems")
            if not isinstance(most, int) or most > MAX_UNIQUE:
                self._add_fault(here, f"needs maxItems of at most {MAX_UNIQUE} in the same schema")
        elif keyword == "format" and self._closed and str(value) not in ASSERTED_FORMATS:
            known = ", ".join(sorted(ASSERTED_FORMATS))
            self._add_fault(here, f"{str(value)[:64]!r} is not one of the supported formats: {known}")

    def _number(self, keyword: str, value: Any, here: str) -> None:
        """Check that a bound or divisor is within the range that every reader of numbers supports."""
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            return  # The dialect's metaschema reports this.
        if isinstance(value, int) and abs(value) > LARGEST:
            self._add_fault(here, "is beyond 2**63")
        elif keyword == "multipleOf" and not 1 / LARGEST <= value <= LARGEST:
            self._add_fault(here, "is not between 2**-63 and 2**63")

    def _pattern(self, value: Any, here: str) -> None:
        if not isinstance(value, str):
            self._add_fault(here[:160], "is not a regular expression")
        elif len(value) > MAX_PATTERN:
            self._add_fault(here[:160], f"is a regular expression of more than {MAX_PATTERN} characters")
        elif value not in self.states and sum(self.states.values()) <= self._expressions:
            try:
                self.states[value] = re2.compile(value, _OPTIONS).programsize
                self._automata[value] = automaton(value, self._allowance)
                if sum(self.states.values()) > self._expressions:
                    self._add_fault("", f"has regular expressions of more than {self._expressions} states in all")
            except (re2.error, UnicodeError) as error:
                message = f"is not a regular expression that matches in linear time: {explain(error)}"
                self._add_fault(here[:160], message, original_of(error)[:400])

    def _reference(self, value: Any, here: str, pointer: str) -> None:
        if not isinstance(value, str):
            self._add_fault(here, "is not a reference to a place in the schema; nothing is fetched")
        elif value != "#" and not value.startswith("#/"):
            self.moving = True
        else:
            self.references.append((pointer, unquote(value[1:])))

    def _resolve(self) -> None:
        for pointer, target in self.references:
            if target in self.places:
                self.places[pointer].same.append(target)
            else:
                self._add_fault(f"{pointer}/$ref", f"does not lead to a schema: #{target[:120]}")


def _budget(places: Mapping[str, SchemaPlace], applied: AppliedSchemas, share: int) -> Budget:
    return Compiler(
        {pointer: place.cost for pointer, place in places.items()},
        {pointer: place.names for pointer, place in places.items() if place.names is not None},
        applied.applied_with,
        applied.steps,
        most=MAX_APPLIED,
        share=share,
    ).budget()
