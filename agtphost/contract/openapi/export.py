"""
A manifest's endpoints as OpenAPI 3.1, for readers who do not speak AGTP yet (AGTP-API section 14.2).

The result is derived, says so, and links the manifest, which stays the
authority. Schemas pass through unchanged but for where their inner
references lead. What HTTP cannot say is listed as losses.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from agtphost.contract.manifest import content_digest
from agtphost.contract.schema_rules import self_contained

OPENAPI = "3.1.0"
HTTP_METHODS: Mapping[str, str] = {"REPLACE": "put", "MODIFY": "patch", "REMOVE": "delete"}
"""The replacements of the legacy verbs, read backwards (AGTP-API section 3.1)."""

MUTUAL_TLS = "agtpClientCertificate"
DERIVED = (
    "Derived from an AGTP-API server manifest, which is authoritative: {link} "
    "This document says what an HTTP face of the same endpoints would look like."
)

_PARAMETER = re.compile(r"\{([A-Za-z0-9_]+)\}", re.ASCII)
_SCALARS = ("string", "integer", "number", "boolean")


@dataclass(frozen=True, kw_only=True)
class Exported:
    """What became of a manifest."""

    document: Mapping[str, Any]
    losses: tuple[str, ...]
    """Sentences: what the document does not say, or says otherwise."""

    operations: int


def export_openapi(
    manifest: Mapping[str, Any], *, link: str, server_url: str | None = None, built_ins: bool = False
) -> Exported:
    """
    Render endpoints as an OpenAPI document.

    :param manifest: a sound one; see :func:`~agtphost.contract.manifest_validation.examine`.
    :param link: where the manifest is, an ``agtp://`` URI.
    :param server_url: where an HTTP face answers, if there is one.
    :param built_ins: whether the protocol's own endpoints (tier A) are rendered too.
    """
    return _Export(manifest, link, server_url, built_ins=built_ins).run()


class _Export:
    def __init__(self, manifest: Mapping[str, Any], link: str, server_url: str | None, *, built_ins: bool) -> None:
        self._manifest = manifest
        self._link = link
        self._server_url = server_url
        self._built_ins = built_ins
        self._losses: list[str] = []
        self._paths: dict[str, dict[str, Any]] = {}
        self._shapes: dict[str, str] = {}
        self._schemas: dict[str, Any] = {}
        self._ids: set[str] = set()
        self._certificates = False

    def run(self) -> Exported:
        count = 0
        listed = self._manifest["endpoints"]
        shown = [endpoint for endpoint in listed if self._built_ins or endpoint.get("tier") != "A"]
        for endpoint in shown:
            self._endpoint(endpoint)
            count += 1
        self._general(len(listed) - len(shown), shown)
        return Exported(document=self._document(), losses=tuple(self._losses), operations=count)

    def _general(self, left_out: int, shown: list[Mapping[str, Any]]) -> None:
        """What is lost of every endpoint alike."""
        said = []
        if left_out:
            said.append(f"{left_out} endpoints of the protocol itself are left out")
        if self._server_url is None:
            said.append("no HTTP address is known: servers is left out")
        if any(endpoint.get("required_scopes") for endpoint in shown):
            said.append("required scopes have no counterpart: they stand in x-agtp alone")
        if self._manifest.get("hosted_protocols"):
            said.append("hosted protocols and their tools are left out")
        if shown:
            said.append("the semantic block, sessions, interim messages and Attribution-Records are AGTP's alone")
        self._losses[:0] = said

    def _document(self) -> dict[str, Any]:
        server = self._manifest["server"]
        about: dict[str, Any] = {
            "title": f"{server['server_id']} (derived from AGTP)",
            "version": str(self._manifest["document_version"]),
            "description": DERIVED.format(link=self._link),
            "x-agtp-derived": True,
            "x-agtp-manifest": {
                "href": self._link,
                "agtp_api_version": self._manifest["agtp_api_version"],
                "catalog_version": self._manifest["catalog_version"],
                "content_sha256": content_digest(self._manifest),
            },
        }
        if server.get("operator"):
            about["contact"] = {"name": server["operator"]}
            if re.fullmatch(r"[^@\s]+@[^@\s]+", str(server.get("contact", ""))):
                about["contact"]["email"] = server["contact"]
        document: dict[str, Any] = {"openapi": OPENAPI, "info": about}
        if self._server_url is not None:
            document["servers"] = [{"url": self._server_url}]
        document["paths"] = self._paths
        components: dict[str, Any] = {"schemas": self._schemas}
        if self._certificates:
            components["securitySchemes"] = {
                MUTUAL_TLS: {"type": "mutualTLS", "description": "The caller's AGTP client certificate."}
            }
        document["components"] = components
        return document

    # One endpoint

    def _endpoint(self, endpoint: Mapping[str, Any]) -> None:
        name = f"{endpoint['method']} {endpoint['path']}"
        path, renames = self._path(endpoint["path"])
        for old, new in renames.items():
            self._losses.append(f"{name}: the path's parameter {old!r} is {new!r}, as on the same path elsewhere")
        http, path = self._place(endpoint, name, path)
        identifier = self._identifier(endpoint)
        operation: dict[str, Any] = {
            "operationId": identifier,
            "summary": endpoint["semantic"]["intent"],
            "description": endpoint["description"],
        }
        if endpoint.get("namespace"):
            operation["tags"] = [endpoint["namespace"]]
        if endpoint.get("deprecated"):
            operation["deprecated"] = True
        self._input(operation, endpoint, http, identifier, renames)
        operation["responses"] = self._responses(endpoint, identifier)
        if endpoint.get("min_assurance") == "certificate":
            self._certificates = True
            operation["security"] = [{MUTUAL_TLS: []}]
        own = ("method", "path", "tier", "semantic", "required_scopes", "min_assurance", "deprecated")
        operation["x-agtp"] = {member: endpoint[member] for member in own if member in endpoint}
        self._paths.setdefault(path, {})[http] = operation

    def _path(self, path: str) -> tuple[str, dict[str, str]]:
        """To OpenAPI two templates that differ in names alone are one path; the first one's names count."""
        shape = _PARAMETER.sub("{}", path)
        known = self._shapes.setdefault(shape, path)
        names = zip(_PARAMETER.findall(path), _PARAMETER.findall(known), strict=True)
        return known, {old: new for old, new in names if old != new}

    def _place(self, endpoint: Mapping[str, Any], name: str, path: str) -> tuple[str, str]:
        """The HTTP method, and the path where it is still free."""
        wanted = self._http_method(endpoint)
        taken = self._paths.get(path, {})
        if wanted not in taken:
            return wanted, path
        if "post" not in taken:
            self._losses.append(f"{name}: POST, because {wanted.upper()} of this path is taken")
            return "post", path
        moved = f"{path}:{endpoint['method'].lower()}"
        while moved in self._paths:
            moved += "-again"
        self._losses.append(f"{name}: POST {moved}, because HTTP has no further method for this path")
        return "post", moved

    @staticmethod
    def _http_method(endpoint: Mapping[str, Any]) -> str:
        semantic = endpoint["semantic"]
        schema = endpoint["input_schema"]
        properties = schema.get("properties", {}).values()
        plain = not set(schema) & {"allOf", "anyOf", "oneOf", "not", "if"} and all(
            isinstance(item, Mapping) and item.get("type") in _SCALARS for item in properties
        )
        if semantic["impact"] == "informational" and semantic["is_idempotent"]:
            return "get" if plain else "post"
        wanted = HTTP_METHODS.get(endpoint["method"], "post")
        return wanted if plain or wanted != "delete" else "post"

    def _identifier(self, endpoint: Mapping[str, Any]) -> str:
        slug = re.sub(r"[^A-Za-z0-9]+", "_", endpoint["path"]).strip("_") or "root"
        wanted = found = f"{endpoint['method']}_{slug}"
        number = 2
        while found in self._ids:
            found, number = f"{wanted}_{number}", number + 1
        self._ids.add(found)
        return found

    def _input(
        self,
        operation: dict[str, Any],
        endpoint: Mapping[str, Any],
        http: str,
        identifier: str,
        renames: Mapping[str, str],
    ) -> None:
        schema = endpoint["input_schema"]
        component = f"{identifier}_input"
        self._schemas[component] = _moved(self_contained(schema), component)
        properties = self._schemas[component].get("properties", {})
        in_path = _PARAMETER.findall(endpoint["path"])
        required = schema.get("required", [])
        parameters = [
            _parameter(renames.get(name, name), "path", properties.get(name, {"type": "string"}), required=True)
            for name in in_path
        ]
        rest = [name for name in properties if name not in in_path]
        if http in ("get", "delete"):
            parameters.extend(_parameter(name, "query", properties[name], required=name in required) for name in rest)
        elif rest or not in_path:
            operation["requestBody"] = self._body(component, in_path, required)
        if parameters:
            operation["parameters"] = parameters

    def _body(self, component: str, in_path: list[str], required: list[str]) -> dict[str, Any]:
        schema: dict[str, Any] = {"$ref": f"#/components/schemas/{component}"}
        if in_path:
            # The unchanged schema stays a component; the body is the same without what stands in the path.
            whole = self._schemas[component]
            properties = {name: item for name, item in whole["properties"].items() if name not in in_path}
            schema = {**whole, "properties": properties}
            schema["required"] = [name for name in required if name not in in_path]
            # References into the component lead there all the same.
            schema.pop("$defs", None)
            schema.pop("$schema", None)
        needed = any(name not in in_path for name in required)
        return {"required": needed, "content": {"application/json": {"schema": schema}}}

    def _responses(self, endpoint: Mapping[str, Any], identifier: str) -> dict[str, Any]:
        component = f"{identifier}_output"
        self._schemas[component] = _moved(self_contained(endpoint["output_schema"]), component)
        outcome = endpoint["semantic"]["outcome"]
        found: dict[str, Any] = {
            "200": {
                "description": outcome,
                "content": {"application/json": {"schema": {"$ref": f"#/components/schemas/{component}"}}},
            }
        }
        if endpoint["errors"]:
            named = ", ".join(endpoint["errors"])
            found["422"] = {
                "description": f"The input is wrong, or one of the declared errors: {named}.",
                "content": {
                    "application/json": {
                        "schema": {
                            "type": "object",
                            "properties": {
                                "reason": {"type": "string", "examples": list(endpoint["errors"])},
                                "error": {
                                    "type": "object",
                                    "properties": {"code": {"type": "string"}, "message": {"type": "string"}},
                                },
                            },
                        }
                    }
                },
            }
        found["default"] = {"description": "A refusal with status, reason, explanation and remedy."}
        return found


def _parameter(name: str, place: str, schema: Any, *, required: bool) -> dict[str, Any]:
    return {"name": name, "in": place, "required": required, "schema": schema}


def _moved(schema: Any, component: str) -> Any:
    """A schema whose references lead to where it stands in the document."""
    if isinstance(schema, list):
        return [_moved(item, component) for item in schema]
    if not isinstance(schema, Mapping):
        return schema
    return dict(_moved_members(schema, component))


def _moved_members(schema: Mapping[str, Any], component: str) -> Iterator[tuple[str, Any]]:
    for name, value in schema.items():
        if name == "$ref" and isinstance(value, str) and value.startswith("#"):
            yield name, f"#/components/schemas/{component}{value[1:]}"
        elif name in ("const", "default", "enum", "examples"):
            yield name, value
        else:
            yield name, _moved(value, component)
