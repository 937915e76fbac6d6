"""Pass 8: input, output and errors of every endpoint (AGIS v01 section 7)."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from agtphost.agis.document import AgisEndpoint
from agtphost.agis.document_reader import Place
from agtphost.agis.findings import Finding, Severity
from agtphost.agis.passes.subject import Subject
from agtphost.agis.shorthand import doubts, is_shorthand, schema_of
from agtphost.agis.words import to_snake_case
from agtphost.contract.schema_rules import SchemaFault
from agtphost.contract.schemas import Role, SchemaError, compile_schema

_SNAKE = re.compile(r"[a-z][a-z0-9]*(?:_[a-z0-9]+)*", re.ASCII)
_PARAMETER = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}", re.ASCII)
GENERIC = frozenset(
    {"error", "errors", "failure", "failed", "unknown", "unknown_error", "exception", "other", "invalid"}
)
"""Names that do not describe a failure."""

_SCALARS = frozenset({str, int, float, bool, type(None)})
_SOUND = "a JSON Schema of 2020-12 inside the document"
MOST = 10
"""Faults of one schema that are reported."""

MOST_VALUES = 200_000
"""Values of the shared schemas that contracts refer to, counted for each contract, which includes them each time."""

MOST_GUESSES = 20
"""Names of a document for which a similar name is suggested; each is compared with all known names."""

MOST_KNOWN = 500
"""Known names that are compared."""

LONGEST_GUESS = 64
"""Characters of each name."""


@dataclass(kw_only=True)
class _Shared:
    """The document's schemas, with the remaining budget for examining them."""

    schemas: Mapping[str, Any]
    left: int = MOST_VALUES
    remote: dict[str, tuple[str, Place] | None] = field(default_factory=dict)
    """The first reference of each schema to another document, with its place."""

    known_faults: dict[tuple[Role, str], Sequence[SchemaFault]] = field(default_factory=dict)
    """The faults of each schema, cached because endpoints of one service share many."""

    guesses: int = MOST_GUESSES
    """Remaining searches for similar names."""

    def find_similar(self, name: str, known: Collection[str]) -> str:
        """Return a similar known name, as far as a bounded search finds one; otherwise empty."""
        if not self.guesses or len(name) > LONGEST_GUESS:
            return ""
        self.guesses -= 1
        short = (each for each in islice(known, MOST_KNOWN) if len(each) <= LONGEST_GUESS)
        return next(iter(difflib.get_close_matches(name, short, 1)), "")

    def remote_reference(self, name: str) -> tuple[str, Place] | None:
        """Return the reference of a schema to another document."""
        if name not in self.remote:
            self.remote[name] = _remote(self.schemas[name], ("schemas", name))
        return self.remote[name]

    def faults_of(self, schema: Mapping[str, Any], role: Role, text: str = "") -> Sequence[SchemaFault]:
        """
        Return the faults of a self-contained schema.

        :param text: JSON of the schema, if it is known.
        """
        key = role, text or json.dumps(schema)
        if key not in self.known_faults:
            try:
                compile_schema(schema, role=role)
                self.known_faults[key] = ()
            except SchemaError as error:
                self.known_faults[key] = error.faults[:MOST]
        return self.known_faults[key]


def check(subject: Subject) -> Iterator[Finding]:
    """Yield the faults of the contracts."""
    shared = _Shared(schemas=_shared_schemas(subject))
    for endpoint in subject.document.endpoints:
        for name in ("input", "output"):
            yield from _contract(subject, endpoint, name, shared)
        yield from _parameters(subject, endpoint, shared)
        yield from _errors(subject, endpoint)


def _shared_schemas(subject: Subject) -> Mapping[str, Any]:
    found = subject.document.members.get("schemas")
    return found if isinstance(found, Mapping) else {}


def resolve_contract(contract: Any, shared: Mapping[str, Any], *, closed: bool) -> dict[str, Any]:
    """
    Return a contract as a self-contained JSON Schema: shorthand converted, with the shared schemas it needs.

    :param contract: a mapping or a list.
    :param shared: the document's ``schemas``, which contracts refer to as ``#/schemas/NAME``.
    :param closed: for a shorthand, whether other members are refused.
    """
    schema = schema_of(contract, closed=closed) if is_shorthand(contract) else dict(contract)
    needed = _referenced_schemas(schema, shared)[0] if _refers(schema) else ()
    if not needed:
        return schema
    beside = {**schema.get("$defs", {}), **{name: shared[name] for name in needed}}
    moved: dict[str, Any] = _redirect_references({**schema, "$defs": beside})
    return moved


def _refers(item: Any) -> bool:
    """Return whether a schema contains a reference; most do not, and need no further examination."""
    waiting = [item]
    for each in waiting:
        if type(each) is dict:
            if "$ref" in each:
                return True
            waiting += [value for value in each.values() if type(value) not in _SCALARS]
        elif type(each) is list:
            waiting += [value for value in each if type(value) not in _SCALARS]
        elif type(each) not in _SCALARS:
            return True
    return False


def _referenced_schemas(schema: Any, shared: Mapping[str, Any]) -> tuple[set[str], int]:
    """Return the names of shared schemas that a schema needs, and how many values they have."""
    found: set[str] = set()
    waiting, values = [schema], 0
    while waiting:
        item = waiting.pop()
        values += bool(found)
        if isinstance(item, Mapping):
            target = item.get("$ref")
            if isinstance(target, str) and target.startswith("#/schemas/"):
                name = target.removeprefix("#/schemas/")
                if name in shared and name not in found:
                    found.add(name)
                    waiting.append(shared[name])
            waiting.extend(item.values())
        elif isinstance(item, list):
            waiting.extend(item)
    return found, values


def _redirect_references(item: Any) -> Any:
    """Return a schema with references to the shared schemas redirected to its own copy."""
    if isinstance(item, Mapping):
        return {
            name: value.replace("#/schemas/", "#/$defs/", 1)
            if name == "$ref" and isinstance(value, str)
            else _redirect_references(value)
            for name, value in item.items()
        }
    return [_redirect_references(each) for each in item] if isinstance(item, list) else item


def _contract(subject: Subject, endpoint: AgisEndpoint, name: str, shared: _Shared) -> Iterator[Finding]:
    at, contract = endpoint.place(name), endpoint.members.get(name)
    if contract is None:
        yield subject.finding("8-missing", endpoint.name, endpoint.at, f"it has no {name}", f"{name}: {{type: object}}")
        return
    if not isinstance(contract, (dict, list)) or (isinstance(contract, list) and not is_shorthand(contract)):
        fix = f"{name}: {{type: object, properties: {{}}}}"
        yield subject.finding("8-schema", endpoint.name, at, f"{name} is not a JSON Schema", fix)
        return
    short, text = is_shorthand(contract), ""
    if short:
        message = f"{name} is in the draft's shorthand, and is read as a JSON Schema"
        yield subject.finding("8-shorthand", endpoint.name, at, message, "agtp agis fmt converts it")
        declared = _declarations(contract)
        for item, doubt in doubts(contract):
            where, fix = (*at, *declared(item)), "party_size (integer, minimum: 1)"
            yield subject.finding("8-shorthand", endpoint.name, where, doubt, fix, Severity.WARNING)
    if shared.left < 0:
        return
    needed, values, remote = set[str](), 0, None
    if isinstance(contract, dict) and not short:
        text = json.dumps(contract)
    if _refers(contract) if short else '"$ref"' in text:
        text = ""
        needed, values = _referenced_schemas(contract, shared.schemas)
        remote = _remote(contract, at) or next(filter(None, map(shared.remote_reference, sorted(needed))), None)
    if remote is not None:
        message = f"{name} refers to {remote[0][:100]!r}, but other documents are not read"
        yield subject.finding("8-remote", endpoint.name, remote[1], message, "#/schemas/NAME")
        return
    shared.left -= values
    if shared.left < 0:
        message = f"the schemas of all contracts up to this one have more than {MOST_VALUES} values"
        yield subject.finding("8-schema", endpoint.name, at, message, "split it into several services")
        return
    schema = (
        contract
        if text and isinstance(contract, dict)
        else resolve_contract(contract, shared.schemas, closed=name == "input")
    )
    for fault in shared.faults_of(schema, "tool" if name == "input" else "result", text):
        where = _resolve_pointer(subject, at, fault.pointer)
        yield subject.finding("8-schema", endpoint.name, where, f"{name}{fault.pointer} {fault.message}", _mend(fault))


def _mend(fault: SchemaFault) -> str:
    if fault.pointer.endswith("$ref"):
        return "#/schemas/NAME, with NAME in the document's schemas"
    return "type: object" if fault.pointer == "/type" else _SOUND


def _resolve_pointer(subject: Subject, at: Place, pointer: str) -> Place:
    """Return the place of a value that a pointer into a contract leads to, also in the document's shared schemas."""
    names = [each.replace("~1", "/").replace("~0", "~") for each in pointer.split("/")[1:]]
    root = subject.document.tree.root
    if names[:1] == ["$defs"] and not _leads(root, [*at, *names[:2]]):
        at, names = (), ["schemas", *names[1:]]
    place: Place = at
    for name in names:
        within = _value_at(root, place)
        place = (*place, int(name) if isinstance(within, list) and name.isdigit() else name)
    return place


def _value_at(root: Any, place: Sequence[str | int]) -> Any:
    """Return the value at a place; None if there is none."""
    for name in place:
        try:
            root = root[name]
        except (KeyError, IndexError, TypeError):
            return None
    return root


def _leads(root: Any, place: Sequence[str | int]) -> bool:
    return _value_at(root, place) is not None


def _remote(contract: Any, at: Place) -> tuple[str, Place] | None:
    """Return the first reference of a contract to another document, and its place."""
    waiting: list[tuple[Any, Place]] = [(contract, at)]
    while waiting:
        item, place = waiting.pop()
        if isinstance(item, Mapping):
            target = item.get("$ref")
            if isinstance(target, str) and not target.startswith("#"):
                return target, (*place, "$ref")
            waiting.extend((value, (*place, name)) for name, value in item.items() if isinstance(value, (dict, list)))
        elif isinstance(item, list):
            waiting.extend((value, (*place, index)) for index, value in enumerate(item))
    return None


def _parameters(subject: Subject, endpoint: AgisEndpoint, shared: _Shared) -> Iterator[Finding]:
    contract = endpoint.members.get("input")
    if not isinstance(contract, (dict, list)):
        return
    schema = schema_of(contract, closed=True) if is_shorthand(contract) else contract
    if not isinstance(schema, Mapping) or "$ref" in schema or not isinstance(schema.get("properties", {}), Mapping):
        return
    known, at = schema.get("properties", {}), endpoint.place("input")
    required = schema.get("required", [])
    checked = isinstance(required, list) and not schema.keys() & {"allOf", "anyOf", "oneOf"}
    for index, name in enumerate(required if checked else []):
        if isinstance(name, str) and name not in known:
            message = f"input requires {name[:64]}, but does not declare it"
            fix = f"properties: {{{name[:64]}: {{type: string}}}}"
            yield subject.finding("8-required", endpoint.name, (*at, "required", index), message, fix)
    declared = _declarations(contract)
    for name in known:
        if _SNAKE.fullmatch(name) is None:
            fix = to_snake_case(name) or "a name of letters, digits and underscores"
            message = f"the parameter {name[:64]!r} is not in snake_case"
            where = (*at, *declared(name))
            yield subject.finding("8-snake-case", endpoint.name, where, message, fix)
    for name in dict.fromkeys(_PARAMETER.findall(endpoint.path)):
        if name not in known and known:
            message = f"{{{name}}} of the path is not a parameter of the input"
            yield subject.finding("8-path-parameter", endpoint.name, at, message, f"declare {name}, and require it")
    hints = endpoint.semantic.get("parameter_hints")
    for name in hints if isinstance(hints, Mapping) else ():
        if name not in known and known:
            where = endpoint.place("semantic", "parameter_hints", name)
            message = f"{str(name)[:64]} has hints, but is not a parameter of the input"
            fix = shared.find_similar(str(name), known) or "name a parameter of the input, or remove the hint"
            yield subject.finding("5-unknown-hint", endpoint.name, where, message, fix)


def _declarations(contract: Any) -> Callable[[str], Place]:
    """Return a function that tells where an input declares a parameter."""
    if not is_shorthand(contract):
        return lambda name: ("properties", name)
    found: dict[str, Place] = {}
    groups = [((), contract)] if isinstance(contract, list) else [((key,), given) for key, given in contract.items()]
    for place, items in groups:
        for index, item in enumerate(items if isinstance(items, list) else ()):
            for each in [*item] if isinstance(item, Mapping) else [item]:
                if isinstance(each, str):
                    found.setdefault(each, (*place, index))
                    found.setdefault(each.partition("(")[0].strip(), (*place, index))
    return lambda name: found.get(name, (name,))


def error_names(value: Any) -> list[str] | None:
    """Return the names of ``errors``: texts, or mappings with a ``name``; None if they are neither."""
    if isinstance(value, Mapping):
        return [*value]
    if not isinstance(value, list):
        return None
    names = [each.get("name") if isinstance(each, Mapping) else each for each in value]
    return [name for name in names if isinstance(name, str)] if all(isinstance(name, str) for name in names) else None


def _errors(subject: Subject, endpoint: AgisEndpoint) -> Iterator[Finding]:
    at = endpoint.place("errors")
    if "errors" not in endpoint.members:
        yield subject.finding("8-missing", endpoint.name, endpoint.at, "it has no errors", "errors: []")
        return
    given = endpoint.members["errors"]
    names = error_names(given)
    if names is None:
        listed = given if isinstance(given, list) else []
        wrong = [index for index, each in enumerate(listed) if error_names([each]) is None]
        where = (*at, *wrong[:1])
        fix = "errors: [reservation_unavailable]"
        yield subject.finding("8-errors", endpoint.name, where, "errors is not a list of names", fix)
        return
    for index, name in enumerate(names):
        place = (*at, index) if isinstance(endpoint.members["errors"], list) else (*at, name)
        if name.lower().replace("-", "_") in GENERIC or not name.strip():
            message = f"the error {name[:64]!r} does not describe the failure"
            yield subject.finding("8-generic-error", endpoint.name, place, message, "such as reservation_unavailable")
        elif _SNAKE.fullmatch(name) is None:
            fix = to_snake_case(name) or "a name of letters, digits and underscores"
            yield subject.finding(
                "8-snake-case", endpoint.name, place, f"the error {name[:64]!r} is not in snake_case", fix
            )
