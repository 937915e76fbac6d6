"""
Conversion of a document to OpenAPI 3.1 for HTTP clients (AGIS v01 section 10, AGIS v01 appendix B).

It follows the transitional binding: ``X-AGIS-Method`` names the method, and the HTTP method is transport. What OpenAPI
cannot express is in ``x-agis``, from which ``from-openapi`` restores the same endpoints.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agtphost.agis.document import AgisDocument, AgisEndpoint
from agtphost.agis.drafts import reads
from agtphost.agis.passes.contracts import error_names, resolve_contract
from agtphost.contract.openapi.export import OPENAPI
from agtphost.contract.openapi.http_methods import Verbs
from agtphost.contract.openapi.operations import Operations
from agtphost.vocabulary import media_types

OWN = "x-agis"
"""The member for what OpenAPI cannot express."""

CONTRACTS = {"input_schema": "input", "output_schema": "output"}
"""The contracts of an endpoint, with their names in AGIS."""

NAMESPACE = "X-AGIS-Namespace"

SAID = "Made from an AGIS document. X-AGIS-Method names the method; the HTTP method only carries it."
"""The end of a description."""

_REFUSED = "422"


def to_openapi(document: AgisDocument, *, server_url: str | None = None) -> tuple[dict[str, Any], tuple[str, ...]]:
    """
    Return a document of operations.

    :param document: a document that conforms.
    :param server_url: URL of an HTTP gateway, if there is one.
    :return: the document; and sentences about the differences in OpenAPI.
    """
    members, vocabulary = document.members, document.vocabulary
    operations = Operations(Verbs(own={}, reads=reads))
    shared = members.get("schemas") or {}
    domain = str(vocabulary.get("domain", ""))
    entries = {f"{each.verb} {each.path}": _entry(each, shared, domain) for each in document.endpoints}
    for entry in entries.values():
        operations.add(entry)
    paths = operations.paths()
    errors = {f"{each.verb} {each.path}": each.members["errors"] for each in document.endpoints}
    for item in paths.values():
        for operation in item.values():
            _rewrite(operation, entries, errors, vocabulary.get("namespace"))
    info: dict[str, Any] = {
        "title": members["service"],
        "version": str(members.get("version") or vocabulary.get("version") or "1.0.0"),
        "description": f"{members['description']}\n\n{SAID}" if members.get("description") else SAID,
    }
    found: dict[str, Any] = {"openapi": OPENAPI, "info": info}
    if server_url is not None:
        found["servers"] = [{"url": server_url}]
    found["paths"] = paths
    found["components"] = {"schemas": dict(operations.schemas)}
    found[OWN] = {"agtp": members["agtp"], "vocabulary": dict(vocabulary)}
    if "data_manifest" in members:
        found[OWN]["data_manifest"] = members["data_manifest"]
    losses = () if server_url is not None else ("the HTTP address is unknown, so servers is left out",)
    return found, (*losses, *operations.losses)


def _entry(endpoint: AgisEndpoint, shared: Mapping[str, Any], domain: str) -> dict[str, Any]:
    """Return an endpoint in the form that operations are made of."""
    block, required = dict(endpoint.semantic), endpoint.members.get("required_scopes")
    return {
        "method": endpoint.verb,
        "path": endpoint.path,
        "namespace": domain,
        "description": block["intent"],
        "semantic": {"is_idempotent": False, **block},
        "input_schema": {"properties": {}, **resolve_contract(endpoint.members["input"], shared, closed=True)},
        "output_schema": resolve_contract(endpoint.members["output"], shared, closed=False),
        "errors": error_names(endpoint.members["errors"]) or [],
        **({"required_scopes": required} if required else {}),
    }


def _rewrite(
    operation: dict[str, Any], entries: Mapping[str, Mapping[str, Any]], errors: Mapping[str, Any], namespace: Any
) -> None:
    """
    Remove the members of this host from an operation: the result is the whole answer, and a refusal names its error.
    """
    said = operation.pop("x-agtp")
    listed = said if isinstance(said, list) else [said]
    for each in listed:
        name = f"{each['method']} {each['path']}"
        each["errors"] = errors[name]
        if isinstance(said, list):
            # Body and answer of a shared operation are alternatives: record which endpoint has which.
            each |= {CONTRACTS[member]: entries[name][member] for member in CONTRACTS}
    operation[OWN] = said
    operation["x-outcome"] = "; or: ".join(dict.fromkeys(each["semantic"]["outcome"] for each in listed))
    if namespace is not None:
        operation.setdefault("parameters", []).append(
            {"name": NAMESPACE, "in": "header", "required": False, "schema": {"type": "string", "enum": [namespace]}}
        )
    operation.pop("security", None)
    given = operation["responses"]
    (content,) = (value for kind, value in given["200"]["content"].items() if kind == media_types.AGTP_JSON)
    result = content["schema"]["properties"]["result"]
    operation["responses"] = {
        "200": {"description": given["200"]["description"], "content": {media_types.JSON: {"schema": result}}}
    }
    if _REFUSED in given:
        schema = {"type": "object", "properties": {"error": {"type": "string", "enum": _error_names(given[_REFUSED])}}}
        operation["responses"][_REFUSED] = {
            "description": given[_REFUSED]["description"],
            "content": {media_types.JSON: {"schema": schema}},
        }


def _error_names(response: Mapping[str, Any]) -> list[str]:
    (content,) = response["content"].values()
    names: list[str] = content["schema"]["properties"]["reason"]["examples"]
    return names
