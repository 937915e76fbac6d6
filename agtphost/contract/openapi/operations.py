"""
The operations of an exported OpenAPI document: endpoints and hosted tools, at their HTTP methods and paths.

Schemas pass through unchanged, except for the targets of their inner references, what client generators need and, in
input, bounds of numbers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from agtphost.contract.openapi import responses
from agtphost.contract.openapi.components import Components, bound_members
from agtphost.contract.openapi.http_methods import BODILESS, HttpPlace, Verbs, naming
from agtphost.vocabulary import media_types
from agtphost.vocabulary.tool_paths import tool_path

MUTUAL_TLS = "agtpClientCertificate"
BEARER = "bearer"

SCHEMES: Mapping[str, Mapping[str, Any]] = {
    BEARER: {"type": "http", "scheme": "bearer", "description": "A token that the operator issued to the agent."},
    MUTUAL_TLS: {"type": "mutualTLS", "description": "The caller's AGTP client certificate."},
}

AGENT_NAME = "^[A-Za-z0-9_-]{1,64}$"
"""Pattern of agents' names in paths."""

_CONTROLS = "\\x00-\\x1f\\x7f-\\x9f\u2028\u2029"
"""For a class of characters; written so that ECMAScript, RE2 and Python read it alike."""

QUERY_TEXT = f"^[^{_CONTROLS}]*$"
"""Pattern of texts in a query, where control characters are refused even percent-encoded."""

PATH_TEXT = f"^(\\.{{0,2}}[^.{_CONTROLS}]|\\.{{3}})[^{_CONTROLS}]*$"
"""Pattern of texts in a path: not empty, no dot segment, no control characters."""

PARAMETER = re.compile(r"\{([A-Za-z0-9_]+)\}", re.ASCII)
OWN = (
    "method",
    "path",
    "tier",
    "semantic",
    "required_scopes",
    "min_assurance",
    "deprecated",
    "approval",
    "server",
    "tool",
)
"""Members that ``x-agtp`` repeats, because HTTP cannot express them."""


@dataclass(kw_only=True, eq=False)
class _Operation:
    """An HTTP method on a path, with the endpoints that it calls; several are distinguished by the request."""

    place: HttpPlace
    path: str
    endpoints: list[Mapping[str, Any]] = field(default_factory=list)
    inputs: list[str] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)
    """Names of the components of their output schemas."""

    renames: Mapping[str, str] = field(default_factory=dict)


class Operations:
    """
    Collector of operations and the schemas that they refer to.

    :param verbs: the meaning of HTTP methods on this host.
    :param anonymous: whether clients without credentials may call them too.
    :param stream: whether clients can ask for events.
    """

    def __init__(self, verbs: Verbs, *, anonymous: bool = False, stream: bool = False) -> None:
        self._verbs = verbs
        self._anonymous = anonymous
        self._stream = stream
        self._at: dict[str, dict[str, _Operation]] = {}
        self._shapes: dict[str, str] = {}
        self._ids: set[str] = set()
        self._bodies: dict[str, dict[str, Any]] = {}
        self._components = Components()
        self.schemas = self._components.schemas
        self.losses: list[str] = []
        """Sentences about differences to the endpoints."""

    def add(self, endpoint: Mapping[str, Any], prefix: str = "") -> None:
        """
        Add an endpoint.

        :param endpoint: the endpoint's entry in the manifest.
        :param prefix: prefix of its path, if only one agent offers it.
        """
        name = f"{endpoint['method']} {endpoint['path']}"
        path, renames = self._path(prefix + endpoint["path"])
        for old, new in renames.items():
            self.losses.append(
                f"{name}: the path's parameter {old!r} is named {new!r}, as in another operation of the same path"
            )
        taken = self._at.setdefault(path, {})
        free = self._verbs.free_place(endpoint, taken)
        if free is None:
            # GET and DELETE have no body to distinguish endpoints by; POST is always among the candidates.
            shared = [taken[verb] for verb in ("post", "patch", "put") if verb in taken]
            operation = next((each for each in shared if each.place.named), taken["post"])
            self.losses.append(f"{name}: shares {operation.place.verb.upper()} on its path with other endpoints")
        else:
            operation = taken[free.verb] = _Operation(place=free, path=path, renames=renames)
            wanted = next(self._verbs.places(endpoint))
            if free != wanted:
                self.losses.append(f"{name}: {free.verb.upper()}, because {wanted.verb.upper()} on the path is taken")
        self._join(operation, endpoint, self._identifier(endpoint["method"], prefix + endpoint["path"]))

    def add_tool(self, tool: Mapping[str, Any], prefix: str = "") -> None:
        """
        Add a hosted tool at its own path.

        :param tool: an endpoint of EXECUTE with the tool's input, with ``server`` and ``tool``, its names, and
            ``structured``, the schema of its structured content, or None.
        """
        name = f"{tool['server']}.{tool['tool']}"
        place = tool_path(tool["server"], tool["tool"])
        if place is None:
            self.losses.append(f"{name}: a path cannot contain that name")
            return
        path = prefix + place
        taken = self._at.setdefault(path, {})
        if "post" in taken:
            self.losses.append(f"{name}: another tool has the same path")
            return
        operation = taken["post"] = _Operation(place=HttpPlace("post", named=False), path=path)
        identifier = self._identifier(*((prefix[1:], tool["server"]) if prefix else (tool["server"],)), tool["tool"])
        self._join(operation, tool, identifier, titled=False)
        if "mcp" not in tool:
            return
        structured = None
        if tool["structured"] is not None:
            content = f"{identifier}_structured"
            self._components.add(content, tool["structured"], titled=False)
            structured = {"$ref": f"#/components/schemas/{content}"}
        self.schemas[f"{identifier}_output"] = responses.tool_response(structured)

    def _join(
        self, operation: _Operation, endpoint: Mapping[str, Any], identifier: str, *, titled: bool = True
    ) -> None:
        operation.endpoints.append(endpoint)
        given, answered = f"{identifier}_input", f"{identifier}_output"
        self._components.add(given, endpoint["input_schema"], titled=titled, sent=True)
        self._components.add(answered, endpoint["output_schema"], titled=titled)
        operation.inputs.append(given)
        operation.outputs.append(answered)

    def _path(self, path: str) -> tuple[str, dict[str, str]]:
        """
        Return the path under its first parameter names: templates that differ only in names are one path in OpenAPI.
        """
        shape = PARAMETER.sub("{}", path)
        known = self._shapes.setdefault(shape, path)
        names = zip(PARAMETER.findall(path), PARAMETER.findall(known), strict=True)
        return known, {old: new for old, new in names if old != new}

    def _identifier(self, *names: str) -> str:
        """Return a unique name for generated clients, also if case and separators are dropped."""
        slugs = [re.sub(r"[^A-Za-z0-9]+", "_", name).strip("_") or "root" for name in names]
        wanted = found = "_".join(slugs)
        number = 2
        while found.replace("_", "").lower() in self._ids:
            found, number = f"{wanted}_{number}", number + 1
        self._ids.add(found.replace("_", "").lower())
        return found

    # Writing

    def paths(self) -> dict[str, Any]:
        """Return the member ``paths``."""
        return dict(self.path_items())

    def path_items(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the members of ``paths``, each made when it is asked for."""
        for path, taken in self._at.items():
            yield path, {verb: self._render_operation(operation) for verb, operation in sorted(taken.items())}

    def pop_schemas(self) -> Iterator[tuple[str, Any]]:
        """Yield the schemas, and forget each: for a caller that has read the paths, which need them."""
        for name in list(self.schemas):
            yield name, self.schemas.pop(name)

    def _render_operation(self, operation: _Operation) -> dict[str, Any]:
        endpoints, first = operation.endpoints, operation.endpoints[0]
        single = len(endpoints) == 1
        identifier = operation.inputs[0].removesuffix("_input")
        if not single:
            identifier = self._identifier(first["method"], f"{operation.path}/any")
        described = [first["description"]] if single else [_line(each) for each in endpoints]
        written: dict[str, Any] = {
            "operationId": identifier,
            "summary": first["semantic"]["intent"]
            if single
            else f"One of {len(endpoints)} endpoints, chosen by the request",
            "description": "\n".join(described),
            "tags": [_tag(first)],
        }
        if all(each.get("deprecated") for each in endpoints):
            written["deprecated"] = True
        parameters = [*self._address_parameters(operation), *self._naming_parameters(operation)]
        if parameters:
            written["parameters"] = parameters
        body = self._body(operation)
        if body is not None:
            written["requestBody"] = body
        outputs = [{"$ref": f"#/components/schemas/{name}"} for name in operation.outputs]
        written["responses"] = responses.responses(endpoints, outputs, stream=self._stream)
        written["security"] = self._security(endpoints)
        said = [{member: each[member] for member in OWN if member in each} for each in endpoints]
        written["x-agtp"] = said[0] if single else said
        return written

    def _security(self, endpoints: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
        if all(each.get("min_assurance") == "certificate" for each in endpoints):
            return [{MUTUAL_TLS: []}]
        return [*([{}] if self._anonymous else []), {BEARER: []}, {MUTUAL_TLS: []}]

    def _naming_parameters(self, operation: _Operation) -> list[dict[str, Any]]:
        methods = list(dict.fromkeys(each["method"] for each in operation.endpoints))
        if operation.place.named:
            return naming(methods, required=True)
        # The endpoint that the HTTP method means by default needs no name; others that share it do.
        return naming(methods[1:], required=False) if len(methods) > 1 else []

    def _address_parameters(self, operation: _Operation) -> Iterator[dict[str, Any]]:
        """Yield the parameters in the address: those of the path, and the query of methods without a body."""
        seen: set[str] = set()
        for endpoint, component in zip(operation.endpoints, operation.inputs, strict=True):
            properties = self.schemas[component].get("properties", {})
            in_path = PARAMETER.findall(endpoint["path"])
            required = endpoint["input_schema"].get("required", [])
            for name in in_path:
                new = operation.renames.get(name, name)
                if new not in seen:
                    seen.add(new)
                    schema = properties.get(name, {"type": "string"})
                    if endpoint.get("tier") == "A" and name == "name":
                        schema = {**schema, "pattern": AGENT_NAME}
                    yield _parameter(new, "path", _of_address(schema, PATH_TEXT), required=True)
            if operation.place.verb in BODILESS:
                rest = [name for name in properties if name not in in_path]
                yield from (
                    _parameter(name, "query", _of_address(properties[name], QUERY_TEXT), required=name in required)
                    for name in rest
                )

    def _body(self, operation: _Operation) -> dict[str, Any] | None:
        if operation.place.verb in BODILESS:
            return None
        found, needed = [], True
        for endpoint, component in zip(operation.endpoints, operation.inputs, strict=True):
            schema, required = self._body_of(endpoint, component)
            needed = needed and required
            if schema is not None:
                found.append(schema)
        if not found:
            return None
        schema = bound_members(found[0] if len(found) == 1 else {"anyOf": found})
        return {"required": needed, "content": {media_types.JSON: {"schema": schema}}}

    def _body_of(self, endpoint: Mapping[str, Any], component: str) -> tuple[dict[str, Any] | None, bool]:
        in_path = PARAMETER.findall(endpoint["path"])
        whole = self.schemas[component]
        required = whole.get("required", [])
        needed = any(name not in in_path for name in required)
        if not in_path:
            return {"$ref": f"#/components/schemas/{component}"}, needed
        if not any(name not in in_path for name in whole.get("properties", {})):
            return None, False
        # The unchanged schema stays a component; the body's schema lacks the path's parameters.
        properties = {name: item for name, item in whole["properties"].items() if name not in in_path}
        schema = {**whole, "properties": properties}
        schema["required"] = [name for name in required if name not in in_path]
        # References into the component still resolve.
        schema.pop("$defs", None)
        schema.pop("$schema", None)
        return schema, needed


def _tag(endpoint: Mapping[str, Any]) -> str:
    if endpoint.get("namespace"):
        return str(endpoint["namespace"])
    if endpoint.get("tier") == "A":
        return "protocol"
    return str(endpoint["server"]) if endpoint.get("tool") else "endpoints"


def _line(endpoint: Mapping[str, Any]) -> str:
    return f"- `{endpoint['method']} {endpoint['path']}`: {endpoint['description']}"


def _of_address(schema: Any, pattern: str) -> Any:
    """Return the schema of a parameter in an address: a text that declares no pattern follows the given one."""
    free = isinstance(schema, Mapping) and schema.get("type") == "string" and not {"pattern", "enum"} & schema.keys()
    return {**schema, "pattern": pattern} if free else schema


def _parameter(name: str, place: str, schema: Any, *, required: bool) -> dict[str, Any]:
    return {"name": name, "in": place, "required": required, "schema": schema}
