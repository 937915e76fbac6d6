"""
JSON Schemas: checked and compiled at registration, used on every request (AGTP-API section 6.4 and 13.3).

Endpoints' schemas are Draft 2020-12. Tools of hosted servers may also have the drafts that their libraries emit.
:mod:`.schema_rules` defines what a schema may contain.

``format`` is asserted in endpoints' schemas, for the names in :data:`~.schema_rules.ASSERTED_FORMATS`; others are
refused there. In tools' schemas it is an annotation, as in the drafts' default: the tool's server checks it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from threading import Lock
from typing import Any, Literal
from weakref import WeakKeyDictionary

import jsonschema_rs

from agtphost.contract.schema_cost import Budget
from agtphost.contract.schema_cost import TooCostly as TooCostly
from agtphost.contract.schema_keywords import DIALECT as DIALECT
from agtphost.contract.schema_keywords import DRAFT_2019, escape
from agtphost.contract.schema_rules import SchemaFault, Walk
from agtphost.contract.schema_violations import MAX_SHOWN, describe_break, describe_violation

Role = Literal["input", "output", "tool", "result"]

_ANY_DRAFT = ("tool", "result")
"""Roles of foreign schemas, of any supported draft."""

MAX_FAULTS = 16
"""Faults reported for one instance."""

MAX_EXPLAINED = 20_000
"""
Size of an instance up to which all faults are searched: values, times depth, times schemas that apply at one place.

Each fault that the validator describes holds a copy of the faulty value, including those of alternatives.
"""

TEXT = 50
"""Characters that take as long to copy as one value."""

DIALECTS: Mapping[str, type[jsonschema_rs.Validator]] = {
    DIALECT: jsonschema_rs.Draft202012Validator,
    DRAFT_2019: jsonschema_rs.Draft201909Validator,
    "http://json-schema.org/draft-07/schema": jsonschema_rs.Draft7Validator,
    "http://json-schema.org/draft-06/schema": jsonschema_rs.Draft6Validator,
}
"""The dialects of tools' schemas, with their compilers."""

# The regex crate matches in linear time; the limit bounds what compiling one expression may take.
_LINEAR = jsonschema_rs.RegexOptions(size_limit=1 << 20, dfa_size_limit=1 << 20)


class SchemaError(ValueError):
    """
    A schema cannot be used by this host.

    :param faults: everything that is wrong with it.
    """

    def __init__(self, faults: Sequence[SchemaFault]) -> None:
        super().__init__("; ".join(str(fault) for fault in faults[:MAX_FAULTS]))
        self.faults = tuple(faults)


LONG = 4_096
"""Octets of a schema that compiles within some milliseconds in the reactor."""

_WORKING = ("_applied", "_branching", "_budget", "_iter_errors", "_validate", "checks", "free_octets", "is_valid")
"""Members that a compiled schema has only while it is compiled."""


class CompiledSchema:
    """
    A schema that passed the checks, ready to validate instances; made by :func:`compile_schema`.

    ``is_valid(value)`` returns whether ``value`` matches the schema, in less than a microsecond for an ordinary body.
    It raises :exc:`TooCostly` for a value that cannot be checked within the budget, and ValueError for a value that
    JSON cannot express, which only a handler's answer can be.

    A deferred schema is compiled at its first use, and again if it was evicted in between.

    :param schema: the schema as given.
    :param work: compiles it.
    :param octets: size of its JSON, if it is deferred.
    """

    __slots__ = (*_WORKING, "__weakref__", "_work", "octets", "schema")

    is_valid: Callable[[Any], bool]
    checks: Callable[[Any], bool]
    """Does the same for values whose JSON text has at most :attr:`free_octets`; these cost little."""

    free_octets: int
    schema: Mapping[str, Any]
    """The schema as given."""

    _applied: int
    _branching: bool
    _budget: Budget
    _iter_errors: Callable[[Any], Iterable[jsonschema_rs.ValidationError]]
    _validate: Callable[[Any], None]

    octets: int

    def __init__(
        self, schema: Mapping[str, Any], work: Callable[[], tuple[Walk, jsonschema_rs.Validator]], octets: int = 0
    ) -> None:
        self.schema = schema
        self._work = work
        self.octets = octets

    def __getattr__(self, name: str) -> Any:
        if name not in _WORKING:
            raise AttributeError(name)
        self.prepare()
        return getattr(self, name)

    @property
    def takes_long(self) -> bool:
        """Return whether compiling it is still to be done and takes many milliseconds, so it needs a thread."""
        return self.octets > LONG and not self.is_compiled

    def prepare(self) -> None:
        """Compile it as one of the schemas that are evicted when others need the room."""
        self.compile()
        RECENT.keep(self)

    @property
    def is_compiled(self) -> bool:
        """Return whether it can be used without being compiled first."""
        try:
            object.__getattribute__(self, "is_valid")
        except AttributeError:
            return False
        return True

    def compile(self) -> None:
        """
        Compile the schema.

        :raises SchemaError: with every fault found.
        """
        walk, validator = self._work()
        budget = walk.budget
        assert budget is not None
        self._applied = walk.applied
        self._branching = walk.branching
        self.checks = validator.is_valid
        self.free_octets = budget.free_octets
        self._budget = budget
        self._iter_errors = validator.iter_errors
        self._validate = validator.validate
        # Set this last: :attr:`is_compiled` looks only at it.
        self.is_valid = validator.is_valid if budget.free else self._is_affordable_and_valid

    def release(self) -> None:
        """Drop the compiled members; they are made again when needed."""
        for name in reversed(_WORKING):
            with suppress(AttributeError):
                delattr(self, name)

    def _is_affordable_and_valid(self, value: Any) -> bool:
        self._budget.require(value)
        return self.checks(value)

    def faults(self, value: Any) -> list[dict[str, Any]]:
        """
        Return the faults of ``value``, at most :data:`MAX_FAULTS`; call it only for an invalid value.

        :return: ``path`` (a JSON pointer into the instance), ``message`` (a predicate: "is longer than 8 characters")
            and ``keyword``. Values are never shown, only shortened names of properties. A large value has only its
            first fault, or, if the schema has alternatives, the fault that it is too large.
        """
        if _is_explainable(value, MAX_EXPLAINED // self._applied):
            return [_describe(error) for error in islice(self._iter_errors(value), MAX_FAULTS)]
        if self._branching:
            return [
                {"path": "", "message": "does not match the schema, and is too large to list its faults", "keyword": ""}
            ]
        return [_describe(error) for error in self._first(value)]

    def _first(self, value: Any) -> Iterable[jsonschema_rs.ValidationError]:
        # The library copies the value that a fault is in: 15 ms for 15,000 objects where one text should be.
        named = isinstance(value, dict) and len(value) <= NAMES
        for error in self._iter_errors(_outline(value, 3)):
            if error.kind.name == "type" or (error.kind.name in _OF_NAMES and not error.instance_path and named):
                return (error,)
        try:
            self._validate(value)
        except jsonschema_rs.ValidationError as error:
            return (error,)
        return ()


def compile_schema(schema: Mapping[str, Any], *, role: Role, strict: bool = False, share: int = 1) -> CompiledSchema:
    """
    Check a schema and compile it.

    :param schema: JSON as Python values.
    :param role: ``input`` must be a closed object (AGTP-API section 13.3); ``output`` may allow more than it declares;
        ``tool`` is an MCP tool's schema of any supported draft, unknown keywords ignored; ``result`` is like ``tool``,
        but does not need to be an object.
    :param strict: for an ``output``: undeclared members are faults too.
    :param share: 2 allows half of the size, 4 a quarter: for schemas that are compiled while others wait.
    :raises SchemaError: with every fault found.
    """
    if not isinstance(schema, Mapping):
        raise SchemaError([SchemaFault(pointer="", message="is not a schema object")])
    compiled = CompiledSchema(schema, partial(_compile, schema, role, strict, share))
    compiled.compile()
    return compiled


def defer_compilation(schema: Mapping[str, Any], octets: int, *, role: Role, strict: bool = False) -> CompiledSchema:
    """
    Return a checked schema that is compiled at its first use.

    :param octets: size of its JSON.
    """
    return CompiledSchema(schema, partial(_compile, schema, role, strict, 1), octets)


def _compile(schema: Mapping[str, Any], role: Role, strict: bool, share: int) -> tuple[Walk, jsonschema_rs.Validator]:
    faults = [*form_faults(schema, role)]
    walk = Walk(schema, closed=role not in _ANY_DRAFT, share=share)
    faults.extend(walk.faults)
    if faults:
        raise SchemaError(faults)
    cleaned = _close_output(walk.cleaned) if strict else walk.cleaned
    return walk, _validator(cleaned, dialect_of(schema), asserting=role not in _ANY_DRAFT)


def form_faults(schema: Mapping[str, Any], role: Role) -> Iterator[SchemaFault]:
    """Yield faults of a schema as a whole: a wrong dialect, or not an object although its role needs one."""
    yield from _dialect_faults(schema, role)
    yield from _shape_faults(schema, role)


def is_pattern(pattern: str) -> bool:
    """Return whether a regular expression can be compiled within the validator's limits."""
    try:
        DIALECTS[DIALECT]({"pattern": pattern}, pattern_options=_LINEAR, offline=True)
    except (ValueError, jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError):
        return False
    return True


class RecentSchemas:
    """
    Cache of schemas that were compiled at their first use; the oldest is evicted if there is no room.

    :param most: octets of their JSON.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._held: WeakKeyDictionary[CompiledSchema, int] = WeakKeyDictionary()
        self._lock = Lock()

    @property
    def octets(self) -> int:
        """Return the octets of the cached schemas."""
        return sum(self._held.values())

    def keep(self, compiled: CompiledSchema) -> None:
        """Add a compiled schema, and release others for it."""
        octets = compiled.octets
        with self._lock:
            self._held[compiled] = octets
            total = self.octets
            for each, size in list(self._held.items()):
                if total <= self.most or each is compiled:
                    break
                total -= size
                del self._held[each]
                each.release()


MAX_RECENT = 16 << 20
"""Octets of JSON of the schemas that stay compiled; compiled they take about five times as much."""

RECENT = RecentSchemas(MAX_RECENT)
"""The cache of this process; a host has thousands of schemas only after an import."""


def dialect_of(schema: Mapping[str, Any]) -> str:
    """Return the URI of a schema's dialect, without ``#`` at the end."""
    return str(schema.get("$schema", DIALECT)).removesuffix("#")


def _dialect_faults(schema: Mapping[str, Any], role: Role) -> Iterable[SchemaFault]:
    supported = DIALECTS.keys() if role in _ANY_DRAFT else (DIALECT,)
    if dialect_of(schema) not in supported:
        yield SchemaFault(pointer="/$schema", message=f"is not {' or '.join(supported)}")


def _shape_faults(schema: Mapping[str, Any], role: Role) -> Iterable[SchemaFault]:
    kind = schema.get("type")
    if role == "input" and kind != "object":
        yield SchemaFault(pointer="/type", message='must be "object": an input is an object')
    if role == "tool" and kind not in ("object", None):
        yield SchemaFault(pointer="/type", message='must be "object": a tool takes an object')
    if role == "input" and schema.get("additionalProperties") is not False:
        yield SchemaFault(pointer="/additionalProperties", message="must be false: an input has no undeclared members")


def _close_output(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return an output schema that refuses what no keyword of it evaluates."""
    kept = dict(schema)
    if kept.get("additionalProperties") is True:
        del kept["additionalProperties"]
    return kept if kept.get("additionalProperties") is False else {**kept, "unevaluatedProperties": False}


def _validator(schema: Any, dialect: str, *, asserting: bool) -> jsonschema_rs.Validator:
    try:
        return DIALECTS[dialect](schema, validate_formats=asserting, pattern_options=_LINEAR, offline=True)
    except jsonschema_rs.ValidationError as error:
        pointer = "".join(f"/{escape(token)}" for token in error.instance_path)
        fault = SchemaFault(pointer=pointer[:160], message=f"breaks the dialect: {describe_break(error)}"[:160])
        raise SchemaError([fault]) from error
    except (ValueError, jsonschema_rs.ReferencingError) as error:
        message = "cannot be compiled: it refers to a schema that it does not contain, or has a value out of range"
        raise SchemaError([SchemaFault(pointer="", message=message)]) from error


_OF_NAMES = ("required", "additionalProperties")
"""Keywords that ask for the names of an object's members, and not for their values."""

NAMES = 100
"""Members of an object that its outline has; with more it has none."""


def _outline(value: Any, depth: int) -> Any:
    """Return a small value with the same types, down to a depth, and the same names of members."""
    if isinstance(value, dict):
        kept = value if depth and len(value) <= NAMES else {}
        return {name: _outline(member, depth - 1) for name, member in kept.items()}
    if isinstance(value, list):
        return []
    return value[:NAMES] if isinstance(value, str) else value


def _is_explainable(value: Any, most: int) -> bool:
    """Return whether an instance's values, including its texts, times its depth are at most ``most``."""
    count = 1
    level = [value]
    depth = 0
    while level:
        depth += 1
        below: list[Any] = []
        for item in level:
            if isinstance(item, (dict, list)):
                count += len(item)
                below.extend(item.values() if isinstance(item, dict) else item)
                if isinstance(item, dict):
                    count += sum(map(len, item)) // TEXT
            elif isinstance(item, str):
                count += len(item) // TEXT
            if count * depth > most:
                return False
        level = below
    return True


def _describe(error: jsonschema_rs.ValidationError) -> dict[str, Any]:
    path = "".join(f"/{escape(token)[:MAX_SHOWN]}" for token in error.instance_path)
    return {"path": path, "message": describe_violation(error), "keyword": _keyword(error)}


def _keyword(error: jsonschema_rs.ValidationError) -> str:
    keyword = error.kind.name
    return keyword if keyword != "falseSchema" else "false"
