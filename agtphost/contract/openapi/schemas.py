"""
Conversion of an OpenAPI document's schemas to this host's: JSON Schema 2020-12, closed, without fetching.

OpenAPI 3.0 has its own dialect (``nullable``, boolean ``exclusiveMinimum``); 3.1 is nearly 2020-12. Both contain what
endpoints' schemas may not: formats that are not checked, patterns without linear-time matching, references to any place
of the document.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import unquote

import re2

from agtphost.contract.openapi.prose import strip_html
from agtphost.contract.schema_rules import ASSERTED_FORMATS, MAX_PATTERN, MAX_UNIQUE, tokens
from agtphost.contract.schemas import Role, SchemaError, compile_schema

NESTED = 12
"""Depth of nested schemas beyond which one is left open; the host accepts 16, including definitions."""

DEFINITIONS = 400
"""Most definitions of one schema; beyond that conversion is not attempted."""

REACHES = (64, 3, 2, 1, 0)
"""Depths of references up to which definitions are included; tried in this order until the host accepts the schema."""

LONGEST_INTEGER = 2**53

_TYPES = frozenset({"array", "boolean", "integer", "null", "number", "object", "string"})
_SCHEMA = frozenset(
    {
        *("not", "if", "then", "else", "additionalProperties", "unevaluatedProperties", "propertyNames"),
        *("items", "unevaluatedItems", "contains"),
    }
)
_SCHEMAS = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
_NAMED = frozenset({"properties", "patternProperties", "dependentSchemas"})
_NUMBERS = frozenset({"multipleOf", "maximum", "minimum", "exclusiveMaximum", "exclusiveMinimum"})
_COUNTS = frozenset(
    {
        *("maxLength", "minLength", "maxItems", "minItems"),
        *("maxContains", "minContains", "maxProperties", "minProperties"),
    }
)
_TEXTS = frozenset({"title", "description", "contentEncoding", "contentMediaType"})
_SWITCHES = frozenset({"deprecated", "readOnly", "writeOnly"})
_ABSENT: Mapping[Role, str] = {"input": "readOnly", "output": "writeOnly"}
"""The keyword of properties that are not sent in a direction, and so not required there (OpenAPI 3.0)."""

_VALUES = frozenset({"default", "const", "enum"})
_SILENT = frozenset({"nullable", "example", "examples", "externalDocs", "$comment", "$schema", "definitions", "$defs"})
"""Keywords that are handled elsewhere, or whose loss is not reported."""

_OPTIONS = re2.Options()
_OPTIONS.log_errors = False
_OPTIONS.max_mem = 1 << 20


class OpenAPIReferences:
    """Resolver of the references within one document."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self._document = document

    def find(self, reference: object) -> Any:
        """Return the target of ``#/...``; None if it is outside the document or does not exist."""
        if not isinstance(reference, str) or not reference.startswith("#/"):
            return None
        here: Any = self._document
        for token in tokens(unquote(reference[1:])):
            if isinstance(here, Mapping):
                here = here.get(token)
            elif isinstance(here, list) and token.isdecimal() and int(token) < len(here):
                here = here[int(token)]
            else:
                return None
        return here

    def follow(self, value: Any) -> Mapping[str, Any]:
        """Return an object after following its chain of ``$ref``; empty if that leads nowhere or is circular."""
        for _ in range(16):
            if not isinstance(value, Mapping):
                return {}
            if "$ref" not in value:
                return value
            value = self.find(value["$ref"])
        return {}


class SchemaConverter:
    """
    Converter of the schemas of one document.

    :param references: resolver of the document's references.
    """

    def __init__(self, references: OpenAPIReferences) -> None:
        self._references = references
        self._names: dict[str, str] = {}
        self._named: dict[str, str] = {}
        self._converted: dict[str, tuple[Any, Counter[str]]] = {}
        self._directed: dict[tuple[str, Role], Any] = {}
        self._losses: Counter[str] = Counter()

    def take_losses(self) -> Counter[str]:
        """Return what was lost since the last call, with counts."""
        losses, self._losses = self._losses, Counter()
        return losses

    def convert(self, schema: Any) -> Any:
        """
        Return a schema in this host's vocabulary; its references lead to ``#/$defs/...``.

        :param schema: the schema as in the document.
        """
        return self._schema(schema, 1)

    def complete(self, schema: dict[str, Any], role: Role) -> tuple[dict[str, Any], str | None]:
        """
        Return a converted schema with its definitions, in the fullest form that the host accepts.

        :return: the schema; and a sentence about what had to be left out, or None.
        """
        schema = self._direct(schema, role)
        for spare in (False, True):
            for reach in REACHES:
                whole = self._with_definitions(_without_prose(schema) if spare else schema, reach, role, spare=spare)
                if whole is None or not _compiles(whole, role):
                    continue
                return whole, _left_out(reach, spare=spare)
            if not spare and _compiles(_without_property_schemas(schema), role):
                return _without_property_schemas(
                    schema
                ), "every property accepts any value, because the schema is larger than this host accepts"
        return _bare(role, schema), "the schema accepts any value, because it is larger than this host accepts"

    # Conversion

    def _lose(self, what: str) -> None:
        self._losses[what] += 1

    def _schema(self, schema: Any, depth: int) -> Any:
        if isinstance(schema, bool):
            return schema
        if not isinstance(schema, Mapping):
            self._lose("values that are not schemas")
            return {}
        if depth > NESTED:
            self._lose(f"schemas at a depth of more than {NESTED}")
            return {}
        if "$ref" in schema:
            return self._reference(schema)
        found: dict[str, Any] = {}
        for keyword, value in schema.items():
            self._keyword(found, keyword, value, schema, depth)
        return _nullable(found, schema)

    def _reference(self, schema: Mapping[str, Any]) -> Any:
        reference = schema["$ref"]
        target = self._references.find(reference)
        if not isinstance(target, (Mapping, bool)):
            self._lose("references that lead outside the document, or nowhere")
            return {}
        described = {key: strip_html(schema[key]) for key in ("description",) if isinstance(schema.get(key), str)}
        return {**described, "$ref": f"#/$defs/{self._name(str(reference))}"}

    def _name(self, reference: str) -> str:
        known = self._names.get(reference)
        if known is None:
            wanted = re.sub(r"[^A-Za-z0-9_-]+", "_", tokens(unquote(reference[1:]))[-1])[:64] or "schema"
            taken = self._named
            known, number = wanted, 2
            while known in taken:
                known, number = f"{wanted}_{number}", number + 1
            self._names[reference] = known
            self._named[known] = reference
        return known

    def _keyword(self, found: dict[str, Any], keyword: str, value: Any, schema: Mapping[str, Any], depth: int) -> None:
        if keyword in _SCHEMA and not isinstance(value, list):
            found[keyword] = self._schema(value, depth + 1)
        elif keyword in _SCHEMAS and isinstance(value, list) and value:
            found[keyword] = [self._schema(item, depth + 1) for item in value]
        elif keyword in _NAMED and isinstance(value, Mapping):
            found[keyword] = {
                name: self._schema(item, depth + 1)
                for name, item in value.items()
                if keyword != "patternProperties" or self._matches(name)
            }
        elif keyword in _SILENT or keyword.startswith("x-"):
            return
        else:
            plain = self._plain(keyword, value, schema)
            if plain is not None:
                found[keyword] = plain

    def _plain(self, keyword: str, value: Any, schema: Mapping[str, Any]) -> Any:
        """Return the value of a keyword without schemas; None if it is left out."""
        match keyword:
            case "type":
                named = value if isinstance(value, list) else [value]
                known = [name for name in named if isinstance(name, str) and name in _TYPES]
                if len(known) < len(named):
                    self._lose("types that JSON Schema does not have")
                return (known if isinstance(value, list) else known[0]) if known else None
            case "enum":
                return _distinct(item for item in value if item is not None) if isinstance(value, list) else None
            case "const" | "default":
                return value if _fits(value) else None
            case "required":
                names = value if isinstance(value, list) else []
                return list(dict.fromkeys(name for name in names if isinstance(name, str))) or None
            case "format":
                if isinstance(value, str) and value in ASSERTED_FORMATS:
                    return value
                self._lose(f"the format {str(value)[:40]}")
            case "pattern":
                return value if self._matches(value) else None
            case "uniqueItems":
                most = schema.get("maxItems")
                if value is True and isinstance(most, int) and most <= MAX_UNIQUE:
                    return True
                if value is True:
                    self._lose("uniqueItems without a small maxItems")
            case "dependentRequired":
                return value if isinstance(value, Mapping) else None
            case _:
                return self._simple(keyword, value, schema)
        return None

    def _simple(self, keyword: str, value: Any, schema: Mapping[str, Any]) -> Any:
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if keyword in ("exclusiveMaximum", "exclusiveMinimum") and isinstance(value, bool):
            bound = schema.get("maximum" if keyword == "exclusiveMaximum" else "minimum")
            return bound if value and isinstance(bound, (int, float)) else None
        if keyword in _NUMBERS and number:
            if abs(value) <= LONGEST_INTEGER:
                return value
            self._lose("bounds beyond 2**53")
            return None
        if keyword in _COUNTS and isinstance(value, int) and number and value >= 0:
            return value if value <= LONGEST_INTEGER else None
        if keyword in _TEXTS and isinstance(value, str):
            return strip_html(value)
        if keyword in _SWITCHES and isinstance(value, bool):
            return value or None
        self._lose(f"the keyword {keyword[:40]}")
        return None

    def _matches(self, pattern: Any) -> bool:
        try:
            if isinstance(pattern, str) and len(pattern) <= MAX_PATTERN:
                re2.compile(pattern, _OPTIONS)
                return True
        except (re2.error, UnicodeError):
            pass
        self._lose("patterns that cannot be matched in linear time")
        return False

    # Direction

    def _direct(self, schema: Any, role: Role) -> Any:
        """Return a converted schema that requires no property which is only sent in the other direction."""
        if isinstance(schema, list):
            return [self._direct(item, role) for item in schema]
        if not isinstance(schema, Mapping):
            return schema
        found: dict[str, Any] = {}
        for name, value in schema.items():
            if name in _NAMED and isinstance(value, Mapping):
                found[name] = {key: self._direct(inner, role) for key, inner in value.items()}
            else:
                found[name] = value if name in _VALUES else self._direct(value, role)
        properties, required = schema.get("properties"), schema.get("required")
        if isinstance(properties, Mapping) and isinstance(required, list):
            found["required"] = [name for name in required if not self._is_absent(properties.get(name), role)]
            if not found["required"]:
                del found["required"]
        return found

    def _is_absent(self, schema: Any, role: Role) -> bool:
        """Return whether a converted schema, or one that it refers to, is of a property that is not sent."""
        if not isinstance(schema, Mapping):
            return False
        parts = [part for part in (schema, *schema.get("allOf", ())) if isinstance(part, Mapping)]
        named = (self._named.get(part.get("$ref", "").removeprefix("#/$defs/")) for part in parts)
        targets = (self._references.follow(self._references.find(name)) for name in named if name is not None)
        return any(part.get(_ABSENT[role]) is True for part in (*parts, *targets))

    # Definitions

    def _directed_definition(self, reference: str, role: Role) -> Any:
        body = self._definition(reference)
        if (reference, role) not in self._directed:
            self._directed[reference, role] = self._direct(body, role)
        return self._directed[reference, role]

    def _definition(self, reference: str) -> Any:
        known = self._converted.get(reference)
        if known is None:
            before, self._losses = self._losses, Counter()
            body = self._schema(self._references.find(reference), 2)
            known = self._converted[reference] = body, self._losses
            self._losses = before
        return known[0]

    def _with_definitions(
        self, schema: dict[str, Any], reach: int, role: Role, *, spare: bool
    ) -> dict[str, Any] | None:
        """Return the schema with definitions up to ``reach`` references deep; None if they are far too many."""
        definitions: dict[str, Any] = {}
        used: list[str] = []
        waiting = list(_referenced_names(schema))
        for step in range(reach + 1):
            further: list[str] = []
            for name in waiting:
                if name in definitions or name not in self._named:
                    continue  # A value of a default or an enum may look like a reference.
                if len(definitions) >= DEFINITIONS:
                    return None
                if step == reach:
                    definitions[name] = {}
                    continue
                body = self._directed_definition(self._named[name], role)
                used.append(self._named[name])
                definitions[name] = _without_prose(body) if spare else body
                further.extend(_referenced_names(body))
            waiting = further
        if waiting:
            return None
        for reference in used:
            self._losses |= self._converted[reference][1]
        return {**schema, "$defs": dict(sorted(definitions.items()))} if definitions else schema


def _referenced_names(schema: Any) -> Iterator[str]:
    waiting = [schema]
    while waiting:
        item = waiting.pop()
        if isinstance(item, Mapping):
            reference = item.get("$ref")
            if isinstance(reference, str):
                yield reference.removeprefix("#/$defs/")
            waiting.extend(item.values())
        elif isinstance(item, list):
            waiting.extend(item)


def _compiles(schema: dict[str, Any], role: Role) -> bool:
    try:
        compile_schema(schema, role=role)
    except SchemaError:
        return False
    return True


def _left_out(reach: int, *, spare: bool) -> str | None:
    said = ["descriptions are left out"] if spare else []
    if reach != REACHES[0]:
        said.append(f"schemas more than {reach} references away accept any value")
    return f"{' and '.join(said)}, because the schema is larger than this host accepts" if said else None


def _without_prose(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_without_prose(item) for item in schema]
    if not isinstance(schema, Mapping):
        return schema
    return {
        name: _without_prose(value)
        for name, value in schema.items()
        if name not in ("description", "title", "default") or not isinstance(value, (str, int, float))
    }


def _without_property_schemas(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema's own members, with properties that accept any value."""
    kept = {name: schema[name] for name in ("type", "required", "additionalProperties") if name in schema}
    properties = schema.get("properties", {})
    text = {"type": "string"}
    return kept | {
        "properties": {
            name: text if isinstance(inner, Mapping) and inner.get("type") == "string" else {}
            for name, inner in properties.items()
        }
    }


def _bare(role: Role, schema: Mapping[str, Any]) -> dict[str, Any]:
    if role == "input":
        names: dict[str, Any] = {name: {} for name in schema.get("properties", {})}
        return {"type": "object", "additionalProperties": False, "properties": names}
    return {"type": "object", "additionalProperties": True}


def _distinct(values: Iterator[Any]) -> list[Any] | None:
    found: list[Any] = []
    seen: set[tuple[str, str]] = set()
    for value in values:
        key = (type(value).__name__, repr(value))
        if key not in seen and _fits(value):
            seen.add(key)
            found.append(value)
    return found or None


def _fits(value: Any) -> bool:
    """Return whether TOML can express a value: it has no null, and integers have 64 bits."""
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if item is None or (isinstance(item, int) and abs(item) > LONGEST_INTEGER):
            return False
        if isinstance(item, Mapping):
            waiting.extend(item.values())
        elif isinstance(item, list):
            waiting.extend(item)
    return True


def _nullable(found: dict[str, Any], schema: Mapping[str, Any]) -> dict[str, Any]:
    """Express ``null`` in 2020-12 without the value null, which TOML lacks."""
    kind = found.get("type")
    choices = schema.get("enum")
    null_chosen = isinstance(choices, list) and None in choices
    if "const" in schema and schema["const"] is None:
        return {**found, "type": "null"}
    if not (schema.get("nullable") is True or null_chosen):
        return found
    if "enum" not in found and isinstance(kind, str) and not null_chosen:
        return found if kind == "null" else {**found, "type": [kind, "null"]}
    if "enum" not in found and isinstance(kind, list) and not null_chosen:
        return found if "null" in kind else {**found, "type": [*kind, "null"]}
    if "enum" not in found and null_chosen:
        return {**found, "type": "null"}
    if not any(name in found for name in ("enum", "allOf", "anyOf", "oneOf")):
        return found
    prose: dict[str, Any] = {name: found.pop(name) for name in ("title", "description") if name in found}
    return {**prose, "anyOf": [found, {"type": "null"}]}
