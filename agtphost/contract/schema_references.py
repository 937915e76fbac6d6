"""
Resolution of a schema's references into ``#/...`` references only (JSON Schema 2020-12 sections 8.2, 9).

``$id`` makes a resource of a schema within a schema, with its own address that references below are relative to.
``$anchor`` names a place in a resource. ``$dynamicRef`` (``$recursiveRef`` in 2019-09) leads to the outermost resource
on the way that has the ``$dynamicAnchor`` of that name. That depends only on the way, never on the value. So a place
that is reached in several ways with different anchors is written out once for each, and only plain references remain.
Then the schemas that apply can be counted, and the validator follows exactly these.

Nothing is fetched: an address that no ``$id`` of the schema has leads nowhere.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, unquote

from agtphost.contract.schema_keywords import DIALECT, DRAFT_2019, LIST, MAP, MOVING, subschema_pointer, subschemas
from agtphost.contract.schema_violations import BASE, join

_NAME = re.compile(r"[A-Za-z_][-A-Za-z0-9._]*", re.ASCII)
_IN_FRAGMENTS = "/~!$&'()*+,;=:@"
"""Characters that need no escape in a fragment (RFC 3986 section 3.5)."""

_RECURSIVE = ""
"""The name of ``$recursiveAnchor`` among the names of dynamic anchors, which are never empty."""

Scope = tuple[tuple[str, str], ...]
"""For each name of a dynamic anchor, the pointer of the outermost place that has it; sorted."""


class TooManySchemas(Exception):
    """The schema has too many schemas when it is written out."""


@dataclass(slots=True)
class _Resource:
    pointer: str
    base: str
    anchors: dict[str, str] = field(default_factory=dict)
    dynamic: dict[str, str] = field(default_factory=dict)
    """Anchors of ``$dynamicAnchor``; they are in ``anchors`` too."""


def _without_subschemas(keyword: str, value: Any) -> Any:
    """Return a keyword's value without its subschemas, which are inserted one by one."""
    if isinstance(value, list) and (keyword in LIST or keyword == "items"):
        return []
    if isinstance(value, Mapping) and keyword in MAP:
        return {name: item for name, item in value.items() if isinstance(item, list)}
    return value


class References:
    """
    The references of one schema whose keywords were checked.

    :param schema: the schema; it has only known keywords.
    :param dialect: its URI.
    :param most: most schemas that it may have when it is written out.
    """

    def __init__(self, schema: Mapping[str, Any], dialect: str, *, most: int) -> None:
        self.faults: list[tuple[str, str]] = []
        """Pointer and sentence of each fault."""

        self._schema = schema
        self._numbered = dialect not in (DIALECT, DRAFT_2019)
        self._most = most
        self._resources: dict[str, _Resource] = {}
        self._of: dict[str, _Resource] = {}
        self._targets: dict[tuple[str, str], str] = {}
        self._scopes: dict[str, Scope] = {}
        self._names: set[str] = set()
        self._copies: dict[tuple[str, Scope], str] = {}
        self._waiting: list[tuple[str, str, Scope]] = []
        self._places: dict[str, Any] = {}
        self._collect(schema, "", _Resource("", BASE))
        for pointer, place in self._places.items():
            self._resolve(pointer, place)

    # What is where

    def _collect(self, schema: Any, pointer: str, resource: _Resource) -> None:
        if isinstance(schema, Mapping):
            resource = self._enter_resource(schema, pointer, resource)
        elif not pointer:
            return
        self._of[pointer] = resource
        self._places[pointer] = schema
        if not isinstance(schema, Mapping):
            return
        for keyword in ("$anchor", "$dynamicAnchor"):
            if keyword in schema:
                self._anchor(resource, schema[keyword], pointer, keyword)
        if schema.get("$recursiveAnchor") is True and resource.pointer == pointer:
            resource.dynamic[_RECURSIVE] = pointer
        for keyword, inner, item in subschemas(schema):
            self._collect(item, subschema_pointer(pointer, keyword, inner), resource)

    def _enter_resource(self, schema: Mapping[str, Any], pointer: str, resource: _Resource) -> _Resource:
        identifier = schema.get("$id")
        address, _, fragment = identifier.partition("#") if isinstance(identifier, str) else ("", "", "")
        if self._numbered and "$ref" in schema:
            address = fragment = ""  # Up to draft 7, siblings of a reference are ignored.
        elif fragment and self._numbered:
            self._anchor(resource, fragment, pointer, "$id")
        elif fragment or (identifier is not None and not isinstance(identifier, str)):
            self._add_fault(pointer, "$id", "is not an address without a fragment")
        if address:
            base = join(resource.base, address)
            if base is None or base in self._resources:
                self._add_fault(
                    pointer, "$id", "is relative, but a base address is missing" if base is None else "is used twice"
                )
            else:
                resource = self._resources[base] = _Resource(pointer, base)
        if not pointer and resource.base == BASE:
            self._resources[BASE] = resource
        return resource

    def _anchor(self, resource: _Resource, name: Any, pointer: str, keyword: str) -> None:
        if not isinstance(name, str) or _NAME.fullmatch(name) is None:
            self._add_fault(pointer, keyword, "is not a name")
        elif resource.anchors.setdefault(name, pointer) != pointer:
            self._add_fault(pointer, keyword, "is used twice")
        elif keyword == "$dynamicAnchor":
            resource.dynamic[name] = pointer

    def _resolve(self, pointer: str, place: Any) -> None:
        if not isinstance(place, Mapping):
            return
        for keyword in ("$ref", "$dynamicRef", "$recursiveRef"):
            if keyword not in place:
                continue
            target = self._target(self._of[pointer], place[keyword])
            if keyword == "$recursiveRef" and place[keyword] != "#":
                self._add_fault(pointer, keyword, 'is not "#"')
            elif target is None:
                said = str(place[keyword])[:120]
                self._add_fault(
                    pointer, keyword, f"does not lead to a schema in this document, and nothing is fetched: {said}"
                )
            else:
                self._targets[pointer, keyword] = target
                if keyword != "$ref":
                    self._names.add(place[keyword].partition("#")[2])

    def _target(self, resource: _Resource, reference: Any) -> str | None:
        if not isinstance(reference, str):
            return None
        address, _, fragment = reference.partition("#")
        base = join(resource.base, address)
        found = self._resources.get(base) if base is not None and address else resource
        if found is None:
            return None
        fragment = unquote(fragment)
        if not fragment or fragment.startswith("/"):
            target = found.pointer + fragment
            return target if target in self._places else None
        return found.anchors.get(fragment)

    def _add_fault(self, pointer: str, keyword: str, sentence: str) -> None:
        self.faults.append((f"{pointer}/{keyword}"[:160], sentence))

    # The schema without them

    def write_out(self) -> dict[str, Any]:
        """
        Return the schema with only references to its own places; call it only if there are no faults.

        :raises TooManySchemas: it would have more than ``most`` schemas.
        """
        self._place("", ())
        whole: dict[str, Any] = self._copy(self._schema, "", (), whole=True)
        if self._waiting:
            whole["$defs"] = dict(whole.get("$defs", {}))
        while self._waiting:
            name, pointer, scope = self._waiting.pop()
            whole["$defs"][name] = self._copy(self._places[pointer], pointer, scope, whole=False)
        return whole

    def _place(self, pointer: str, scope: Scope) -> None:
        """Note the anchors that are in scope at each place."""
        scope = self._scopes[pointer] = self._scope_within(scope, pointer)
        schema = self._places[pointer]
        if isinstance(schema, Mapping):
            for keyword, inner, _ in subschemas(schema):
                self._place(subschema_pointer(pointer, keyword, inner), scope)

    def _scope_within(self, scope: Scope, pointer: str) -> Scope:
        """Return the anchors in scope after entering the resource of a place: of each name the outermost stays."""
        found = dict(scope)
        for name, target in self._of[pointer].dynamic.items():
            if name in self._names:
                found.setdefault(name, target)
        return tuple(sorted(found.items()))

    def _copy(self, schema: Any, pointer: str, scope: Scope, *, whole: bool) -> Any:
        self._most -= 1
        if self._most < 0:
            raise TooManySchemas
        if not isinstance(schema, Mapping):
            return schema
        scope = self._scope_within(scope, pointer)
        copy: dict[str, Any] = {
            keyword: _without_subschemas(keyword, value)
            for keyword, value in schema.items()
            if keyword not in MOVING and keyword != "$ref" and (whole or keyword not in ("$defs", "definitions"))
        }
        for keyword, inner, item in subschemas(schema):
            if keyword not in copy:
                continue
            made = self._copy(item, subschema_pointer(pointer, keyword, inner), scope, whole=whole)
            if inner is None:
                copy[keyword] = made
            elif isinstance(inner, int):
                copy[keyword].append(made)
            else:
                copy[keyword][inner] = made
        return self._with_reference(copy, schema, pointer, scope)

    def _with_reference(
        self, copy: dict[str, Any], schema: Mapping[str, Any], pointer: str, scope: Scope
    ) -> dict[str, Any]:
        leads = []
        for keyword in ("$ref", "$dynamicRef", "$recursiveRef"):
            if keyword in schema:
                target = self._targets[pointer, keyword]
                name = schema[keyword].partition("#")[2]
                if keyword != "$ref" and self._of[target].dynamic.get(name) == target:
                    target = dict(scope).get(name, target)
                leads.append(self._lead(target, self._scope_within(scope, target)))
        if leads:
            copy["$ref"] = leads[0]
        if len(leads) > 1:
            copy["allOf"] = [*copy.get("allOf", ()), *({"$ref": lead} for lead in leads[1:])]
        return copy

    def _lead(self, target: str, scope: Scope) -> str:
        if self._scopes[target] == scope:
            return f"#{quote(target, safe=_IN_FRAGMENTS)}"
        name = self._copies.get((target, scope))
        if name is None:
            taken = self._schema.get("$defs", {})
            name = f"{len(self._copies)}"
            while name in taken:
                name += "."
            self._copies[target, scope] = name
            self._waiting.append((name, target, scope))
        return f"#/$defs/{name}"
