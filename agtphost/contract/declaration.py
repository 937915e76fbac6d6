"""A checker of one endpoint's TOML table, member by member (AGTP-API sections 5, 6 and 7)."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

from agtphost.contract import handler_reference
from agtphost.contract.declared_names import NO_NAMES, DeclaredNames
from agtphost.contract.definitions import DefinitionFile, DefinitionsError
from agtphost.contract.endpoint import Deprecation, Endpoint, HandlerReference
from agtphost.contract.examples import (
    ENDPOINT,
    example,
    header_cure,
    keyword_example,
    meant_members,
    suggest_methods,
)
from agtphost.contract.handler_hints import HintsError, HintsOf, complete_declaration
from agtphost.contract.metaschema import all_faults
from agtphost.contract.method_parameters import hint, parameter_faults
from agtphost.contract.path_parameters import path_parameter_faults
from agtphost.contract.schema_pool import SchemaPool
from agtphost.contract.schema_rules import tokens
from agtphost.contract.schemas import CompiledSchema, Role, SchemaError
from agtphost.contract.semantic import FOR_TOOLS, MEMBERS, Impact, is_statement, semantic, semantic_faults
from agtphost.identity.peer import Assurance
from agtphost.identity.required_assurance import default_assurance
from agtphost.vocabulary import budget, paths, scopes
from agtphost.vocabulary.catalog import LEGACY, Catalog, is_method_name
from agtphost.vocabulary.identifiers import is_agent_name
from agtphost.vocabulary.tomltext import Location

REQUIRED = (
    *("method", "path", "description", "semantic"),
    *("input_schema", "output_schema", "errors", "handler"),
)
"""AGTP-API section 6.3."""

OPTIONAL = (
    *("namespace", "required_scopes", "deprecated"),
    *("min_assurance", "timeout", "strict_output", "agents", "cost", "action", "approval", "data_classes"),
    *("definitions", "provider"),
)
"""Optional members: those of AGTP-API section 6.3, then members of this project."""

DEFINITIONS = "definitions: "
"""The beginning of messages about a file of definitions that cannot be used."""

REQUIRED_APPROVAL = "required"
"""The one value of ``approval``."""

DEPRECATED = ("deprecated_in", "removed_in", "successor")
"""Members of the ``deprecated`` table; the first one is required."""

RESERVED_DISCOVER = ("methods", "agents", "genesis", "tools", "apis", "patterns", "contracts")
"""First path segments, and beginnings of them, that DISCOVER reserves (AGTP-API section 5.9)."""

LONGEST_TIMEOUT = 86_400.0
"""Seconds: one day."""

FRAMEWORKS = ("mcp", "a2a", "acp")
"""First parts of the actions of carried frameworks: ``mcp.tools.call``."""

_ACTION = re.compile(r"[a-z][a-z0-9]*(?:[-_.][a-z0-9]+)*", re.ASCII)
_ERROR_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,63}", re.ASCII)
_VERSION = re.compile(r"[0-9A-Za-z.+_-]{1,64}", re.ASCII)

Say = Callable[[Location, str, str, str], None]
"""Takes a location in the table, a sentence, a hint, and the text of a foreign library that the sentence translates."""


@dataclass(frozen=True, kw_only=True)
class Rules:
    """The rules that declarations are checked by."""

    catalog: Catalog
    custom: Collection[str] = ()
    """Methods that the catalog lacks: from ``policies.methods``, its profiles, and other supported versions."""

    removed: Collection[str] = ()
    """Methods that earlier catalogs had; an endpoint with one of them is always left out."""

    reserved: Collection[tuple[str, str]] = ()
    """Methods and paths of the host itself (tier A)."""

    irreversible_approved: bool = False
    """Whether a person approves each irreversible call (``[approvals]``)."""

    hints: HintsOf | None = None
    """Returns the hints of a handler function; None if functions are not consulted."""

    standard: Collection[str] = ()
    """Standard methods that are switched on: endpoints with ``provider = true`` are bound for these alone."""

    relaxed: bool = False
    """Whether ``min_assurance`` is ``header`` wherever it is not set: for development on loopback."""

    names: DeclaredNames = field(default=NO_NAMES, compare=False, repr=False)
    """Names that cures of faulty ones propose."""

    schemas: SchemaPool = field(default_factory=SchemaPool, compare=False, repr=False)
    """Cache of compiled schemas of everything that is checked by these rules."""


class Declaration:
    """
    Checker of one endpoint's table.

    :param table: the parsed TOML.
    :param say: called for every fault.
    :param folder: folder of its file; None if the text is not in a file and cannot name a file of definitions.
    :param prefix: the beginning of the headers of its tables: ``endpoint.`` in a file of several.
    """

    def __init__(
        self, table: Mapping[str, Any], rules: Rules, say: Say, folder: Path | None = None, prefix: str = ""
    ) -> None:
        self._table = table
        self._folder = folder
        self._prefix = prefix
        self._definitions: DefinitionFile | None = None
        self._rules = rules
        self._report = say
        self._wrong = False
        self._file = ""
        self._doubtful: frozenset[str] = frozenset()
        """Members of which a part is under a misspelt name: what they lack may be there."""

        self.removed = ""
        """The endpoint's method if the catalog removed it (AGTP-API section 4.5); this is not reported as a fault."""

    def endpoint(self, file: str, line: int) -> Endpoint | None:
        """Return the endpoint; None if anything is wrong."""
        self._file = file
        table, unfound = complete_declaration(self._table, self._rules.hints, self._add_fault)
        if table is None:
            self._add_unfound(unfound)
            return None
        self._table = table
        self._members(self._table, (*REQUIRED, *OPTIONAL), REQUIRED, ())
        self._doubtful = frozenset(meant_members(self._table, (*REQUIRED, *OPTIONAL)).values())
        method, path = self._method(), self._path()
        self._reservations(method, path)
        description, namespace = self._line("description", ()), self._line("namespace", ())
        block = self._semantic()
        self._definitions = self._definition_file()
        taken = self._schema("input_schema", "input")
        given = self._schema("output_schema", "output", strict=self._flag("strict_output"))
        if taken is not None:
            for fault in path_parameter_faults(path, self._table.get("input_schema")):
                self._add_fault(*fault)
        self._hints(block)
        for name, sentence in parameter_faults(method, self._table.get("input_schema")):
            self._add_fault(("input_schema",), sentence, hint(name))
        impact = Impact(block["impact"]) if block is not None else Impact.IRREVERSIBLE
        found = {
            "errors": self._names("errors", _ERROR_NAME.fullmatch, "an error name such as room_unavailable"),
            "required_scopes": self._names("required_scopes", scopes.is_token, "a scope token"),
            "agents": self._names("agents", is_agent_name, "the name of an agent"),
            "handler": self._handler(),
            "deprecated": self._read_deprecation(),
            "min_assurance": self._assurance(impact),
            "timeout": self._timeout(),
            "cost": self._cost(),
            "action": self._action(method, path),
            "data_classes": self._names("data_classes", is_statement, "the name of a data class"),
            "provider": self._flag("provider"),
        }
        found["approval"] = self._approval(impact, found["min_assurance"] is Assurance.NONE)
        if self._wrong or block is None or taken is None or given is None:
            if found["handler"] is not None:
                # The handler is only created for a sound declaration, so report its fault here.
                self._add_unfound(unfound)
            return None
        return Endpoint(
            method=method,
            path=path,
            description=description,
            namespace=namespace or None,
            semantic=semantic(block),
            input_schema=taken,
            output_schema=given,
            file=file,
            line=line,
            **found,  # type: ignore[arg-type]
        )

    def _add_fault(self, location: Location, message: str, hint: str = "", original: str = "") -> None:
        self._wrong = True
        if location and location[0] in self._doubtful:
            return
        hint = hint or self._name_cure(location) or example(ENDPOINT, location)
        self._report(location, message, hint.replace("write [", f"write [{self._prefix}"), original)

    def _add_unfound(self, error: HintsError | None) -> None:
        if error is None:
            return
        where = "" if error.place is None else f"{error.place[0]}:{error.place[1]}: "
        hint = self._name_cure(("handler", "function")) if error.absent else ""
        self._add_fault(("handler", "function"), f"{where}{error}", hint or error.hint)

    def _name_cure(self, location: Location, missing: str = "") -> str:
        """Return a cure with a name that the host's files have; empty if they have none."""
        return self._rules.names.find_cure((*location, missing) if missing else location, self._table, self._file)

    # Members of any kind

    def _members(
        self, table: Mapping[str, Any], known: Collection[str], required: Collection[str], at: Location
    ) -> None:
        inside = "".join(f"{part}." for part in at)
        meant = meant_members(table, known)
        for name in table:
            if name not in known:
                listed = f"leave it out; known here: {', '.join(known)}"
                hint = f"did you mean {meant[name]!r}?" if name in meant else listed
                self._add_fault((*at, name), f"{inside}{name[:64]} is unknown", hint)
        for name in required:
            if name not in table and name not in meant.values():
                self._add_fault(
                    at, f"{inside}{name} is missing", self._name_cure(at, name) or example(ENDPOINT, at, name)
                )

    def _table_at(self, name: str, shape: str) -> Mapping[str, Any] | None:
        value = self._table.get(name)
        if value is not None and not isinstance(value, Mapping):
            self._add_fault(
                (name,), f"{name} must be a table", header_cure(self._table, self._prefix, (name,)) or f"write {shape}"
            )
            return None
        return value

    def _line(self, name: str, at: Location) -> str:
        value = self._table.get(name)
        if value is not None and not is_statement(value):
            self._add_fault((*at, name), f"{name} must be one line of text of 1 to 1000 characters")
        return value if isinstance(value, str) else ""

    def _flag(self, name: str) -> bool:
        value = self._table.get(name, False)
        if not isinstance(value, bool):
            self._add_fault((name,), f"{name} must be true or false", f"write {name} = true, or leave it out")
        return value is True

    def _names(self, name: str, grammar: Callable[[str], object], form: str) -> tuple[str, ...]:
        values = self._table.get(name, [])
        if not isinstance(values, list):
            self._add_fault((name,), f"{name} must be a list")
            return ()
        for index, value in enumerate(values):
            if not isinstance(value, str) or not grammar(value):
                self._add_fault((name, index), f"{name} has {str(value)[:64]!r}, which is not {form}")
            elif value in values[:index]:
                self._add_fault((name, index), f"{name} has {value!r} twice")
        return tuple(map(str, values))

    # Method and path

    def _method(self) -> str:
        method = self._table.get("method")
        if method is None:
            return ""
        catalog = self._rules.catalog
        if not isinstance(method, str) or not is_method_name(method):
            meant = str(method).upper()
            known = catalog.knows(meant) or meant in self._rules.custom
            self._add_fault(
                ("method",),
                f"method {str(method)[:40]!r} is not a method name (3 to 32 letters A-Z)",
                f'write method = "{meant}"' if known else "",
            )
        elif method in LEGACY:
            hint = f"use {catalog.legacy[method]}; callers can still send {method} if an alias maps it"
            self._add_fault(("method",), f"method {method} is an HTTP verb, which new endpoints may not use", hint)
        elif catalog.knows(method) or method in self._rules.custom:
            return method
        elif method in self._rules.removed:
            self.removed, self._wrong = method, True
        else:
            self._add_fault(
                ("method",),
                f"method {method} is not in catalog {catalog.version}",
                suggest_methods(catalog.close_matches(method)),
            )
        return str(method)

    def _path(self) -> str:
        path = self._table.get("path")
        if path is None:
            return ""
        if not isinstance(path, str):
            self._add_fault(("path",), "path must be a text")
            return ""
        for fault in paths.template_faults(path, self._rules.catalog.methods):
            self._add_fault(("path",), f"path {path[:128]}: {fault}")
        return path

    def _reservations(self, method: str, path: str) -> None:
        first = path[1:].partition("/")[0].lower()
        if method == "DISCOVER" and (path == "/" or first.startswith(RESERVED_DISCOVER)):
            self._add_fault(
                ("path",),
                f"DISCOVER {path[:128]} is reserved for the host's own documents",
                "another path, or another method such as QUERY",
            )
        elif first == "agents":
            self._add_fault(("path",), f"path {path[:128]} is reserved: /agents/NAME addresses the agents of this host")
        elif (method, path) in self._rules.reserved:
            self._add_fault(("path",), f"{method} {path[:128]} is answered by the host itself; choose another path")

    def _action(self, method: str, path: str) -> str:
        """Return the application's name for the endpoint, by which ``EXECUTE /`` calls it (core v08 section 7.2.8)."""
        value = self._table.get("action", "")
        if "action" not in self._table:
            return ""
        if not isinstance(value, str) or len(value) > 64 or _ACTION.fullmatch(value) is None:
            self._add_fault(("action",), f"action {str(value)[:64]!r} is not a valid name such as reserve-flight")
        elif value.partition(".")[0] in FRAMEWORKS:
            self._add_fault(
                ("action",),
                f"action {value!r} begins with the name of a framework, which is reserved: {', '.join(FRAMEWORKS)}",
            )
        if method != "EXECUTE":
            self._add_fault(
                ("action",),
                f"action is allowed only with method EXECUTE, and this endpoint has {method or 'no method'}",
            )
        if "{" in path:
            self._add_fault(("action",), "an endpoint with an action must not have parameters in its path")
        return str(value)

    def _hints(self, block: Mapping[str, Any] | None) -> None:
        """Check that ``parameter_hints`` name only parameters that exist."""
        schema = self._table.get("input_schema")
        properties = schema.get("properties", {}) if isinstance(schema, Mapping) else {}
        for name in block.get("parameter_hints", {}) if block is not None else ():
            if isinstance(properties, Mapping) and name not in properties:
                known = f"its parameters: {', '.join(map(str, properties)) or 'none'}"
                at = ("semantic", "parameter_hints", name)
                self._add_fault(
                    at, f"semantic.parameter_hints.{str(name)[:64]} is not a parameter of input_schema", known
                )

    # Blocks

    def _semantic(self) -> Mapping[str, Any] | None:
        block = self._table_at("semantic", "[semantic] with " + ", ".join(MEMBERS))
        if block is None:
            return None
        self._members(block, (*MEMBERS, *FOR_TOOLS), (), ("semantic",))
        meant = meant_members(block, (*MEMBERS, *FOR_TOOLS))
        faults = list(semantic_faults(block, self._rules.catalog.categories))
        for member, sentence in faults:
            if member in block or member not in meant.values():
                self._add_fault(("semantic", member), sentence)
        return None if faults else {name: value for name, value in block.items() if name in (*MEMBERS, *FOR_TOOLS)}

    def _schema(self, name: str, role: Role, *, strict: bool = False) -> CompiledSchema | None:
        schema = self._table_at(name, f"[{name}] with a JSON Schema")
        if schema is None:
            return None
        shared = self._definitions
        if shared is None and "definitions" in self._table:
            return None  # The definitions are missing, which is already reported.
        whole = schema if shared is None else shared.complete(schema)
        try:
            return self._rules.schemas.compile(whole, role, strict=strict)
        except SchemaError as error:
            reported: list[tuple[str, ...]] = []
            for fault in all_faults(whole, error):
                where = tuple(tokens(fault.pointer))
                if any(where[: len(outer)] == outer and where != outer for outer in reported if outer):
                    continue  # The value around it is to be written anew.
                reported.append(where)
                said = f"{name} {fault}"
                if shared is not None and where[:1] == ("$defs",) and shared.has_given(schema, where[1:2]):
                    said += f", at {shared.file.name}:{shared.line(where[1])}"
                self._add_fault(
                    (name, *where),
                    said,
                    header_cure(self._table, self._prefix, (name, *where)) or keyword_example(where, fault.message),
                    fault.original,
                )
            return None

    def _definition_file(self) -> DefinitionFile | None:
        """Return the file of definitions that the endpoint's schemas share with others."""
        value = self._table.get("definitions")
        if value is None:
            return None
        if not isinstance(value, str) or not value:
            self._add_fault(
                ("definitions",), "definitions must be the name of a file", 'write definitions = "NAME.json"'
            )
        elif self._folder is None:
            self._add_fault(
                ("definitions",), "definitions names a file, but this text is not in a file", "write $defs instead"
            )
        else:
            try:
                return self._rules.schemas.definitions(self._folder / value)
            except DefinitionsError as error:
                self._add_fault(("definitions",), f"{DEFINITIONS}{value[:128]} {error}", error.hint)
        return None

    def _handler(self) -> HandlerReference | None:
        block = self._table_at("handler", handler_reference.FORM)
        if block is None:
            return None
        errors, schema = self._table.get("errors"), self._table.get("input_schema")
        return handler_reference.read_handler(
            block,
            errors if isinstance(errors, list) else None,
            schema if isinstance(schema, Mapping) else {},
            members=self._members,
            say=self._add_fault,
        )

    def _read_deprecation(self) -> Deprecation | None:
        block = self._table_at("deprecated", "[deprecated] with deprecated_in")
        if block is None:
            return None
        self._members(block, DEPRECATED, DEPRECATED[:1], ("deprecated",))
        for member in ("deprecated_in", "removed_in"):
            value = block.get(member)
            if value is not None and (not isinstance(value, str) or _VERSION.fullmatch(value) is None):
                self._add_fault(("deprecated", member), f"deprecated.{member} must be a version such as 2.1.0")
        successor = block.get("successor", {})
        if not isinstance(successor, Mapping):
            self._add_fault(("deprecated", "successor"), "deprecated.successor must be a table of method and path")
            successor = {}
        self._members(successor, ("method", "path"), (), ("deprecated", "successor"))
        method, path = successor.get("method"), successor.get("path")
        if method is not None and (not isinstance(method, str) or not is_method_name(method)):
            self._add_fault(("deprecated", "successor", "method"), "deprecated.successor.method is not a method name")
        if path is not None and (not isinstance(path, str) or any(paths.template_faults(path))):
            self._add_fault(("deprecated", "successor", "path"), "deprecated.successor.path is not a path")
        return Deprecation(
            deprecated_in=str(block.get("deprecated_in")),
            removed_in=block.get("removed_in"),
            successor_method=method,
            successor_path=path,
        )

    def _assurance(self, impact: Impact) -> Assurance:
        value = self._table.get("min_assurance")
        if value is None:
            floor = Assurance.HEADER if self._rules.relaxed else Assurance.CERTIFICATE
            return default_assurance(floor, changes=impact is not Impact.INFORMATIONAL)
        labels = {level.label: level for level in Assurance}
        if value not in labels:
            self._add_fault(("min_assurance",), f"min_assurance is not one of {', '.join(labels)}: {value!r:.64}")
        return labels.get(str(value), Assurance.CERTIFICATE)

    def _approval(self, impact: Impact, anonymous: bool) -> bool:
        """Return whether a person approves each call, by the declaration or by ``[approvals] irreversible``."""
        value = self._table.get("approval")
        if value not in (None, REQUIRED_APPROVAL):
            self._add_fault(
                ("approval",),
                f"approval has the unknown value {value!r:.64}",
                'write approval = "required", or leave it out',
            )
        needed = value == REQUIRED_APPROVAL or (self._rules.irreversible_approved and impact is Impact.IRREVERSIBLE)
        if needed and anonymous:
            self._add_fault(
                ("min_assurance",), "min_assurance is none, but an approval needs a known caller", "leave it out"
            )
        return needed

    def _cost(self) -> Mapping[str, Decimal] | None:
        value = self._table.get("cost")
        if value is None:
            return None
        try:
            if not isinstance(value, str):
                raise budget.BudgetError("it must be a text")
            return budget.parse(value) or None
        except budget.BudgetError as error:
            self._add_fault(("cost",), f"cost is not a valid price: {error}", 'write "tokens=500, USD=0.02"')
            return None

    def _timeout(self) -> float | None:
        value = self._table.get("timeout")
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= LONGEST_TIMEOUT:
            self._add_fault(
                ("timeout",), f"timeout must be a number of seconds up to {LONGEST_TIMEOUT:.0f}, not {value!r:.64}"
            )
            return None
        return float(value)
