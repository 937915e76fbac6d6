"""
Export to OpenAPI 3.1, for HTTP clients (AGTP-API section 14.2).

The document describes a whole manifest, or what one caller may call including tools, as the HTTP gateway accepts it. It
states that it is derived, and links the manifest, which stays authoritative. What HTTP cannot express is listed as
losses.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from agtphost.config.policies import SEED_ALIASES
from agtphost.contract.manifest import content_digest
from agtphost.contract.openapi import components, responses
from agtphost.contract.openapi.http_methods import Verbs
from agtphost.contract.openapi.operations import SCHEMES, Operations
from agtphost.vocabulary import jsontext
from agtphost.vocabulary.catalog import Catalog
from agtphost.vocabulary.jsonslices import object_slices

OPENAPI = "3.1.0"

DERIVED = (
    "Derived from an AGTP-API server manifest, which is authoritative: {link} "
    "This document describes an HTTP form of the same endpoints."
)

CALLABLE = (
    "The operations that the requester of this document may call through this gateway; another caller "
    "gets another document. Every answer has its signed record in the field Attribution-Record."
)

SHARED: Mapping[str, Mapping[str, Any]] = {**responses.SCHEMAS, **components.SCHEMAS}
"""Components of every document."""


@dataclass(frozen=True, kw_only=True)
class ExportResult:
    """The result of an export."""

    document: Mapping[str, Any]
    losses: tuple[str, ...]
    """Sentences about what the document leaves out or changes."""

    operations: int


def export_openapi(
    manifest: Mapping[str, Any],
    *,
    link: str,
    server_url: str | None = None,
    built_ins: bool = False,
    reads: Callable[[str], bool] | None = None,
) -> ExportResult:
    """
    Return the endpoints of a manifest as an OpenAPI document.

    :param manifest: a valid manifest; see :func:`~agtphost.contract.manifest_validation.examine`.
    :param link: the manifest's ``agtp://`` URI.
    :param server_url: URL of an HTTP gateway, if there is one.
    :param built_ins: whether the protocol's own endpoints (tier A) are included.
    :param reads: returns whether a method changes nothing; None: this package's catalog decides.
    """
    listed = manifest["endpoints"]
    shown = [endpoint for endpoint in listed if built_ins or endpoint.get("tier") != "A"]
    aliases = manifest.get("policies", {}).get("methods", {}).get("aliases", SEED_ALIASES)
    operations = Operations(Verbs.from_aliases(aliases, reads or Catalog.load().reads))
    for endpoint in shown:
        operations.add(endpoint)
    losses = (*_general(manifest, len(listed) - len(shown), shown, server_url), *operations.losses)
    document = _document(_derived_info(manifest, link), operations, server_url)
    return ExportResult(document=document, losses=losses, operations=len(shown))


def encode_callable_openapi(
    title: str, version: str, operations: Operations, *, server_url: str, about: Mapping[str, Any]
) -> bytes:
    """
    Encode what one caller may call as an OpenAPI document.

    Operations are made and encoded one at a time, and a schema is forgotten once it is encoded: encoded in one go, the
    document of 5,000 endpoints took 180 MB of memory besides its own 41, and kept other threads waiting for 0.5 s.

    :param operations: all operations of the caller; their schemas are used up.
    :param server_url: URL of the gateway, relative to the document.
    :param about: members of ``info.x-agtp``: who the document is for.
    """
    info = {"title": title, "version": version, "description": CALLABLE, "x-agtp": dict(about)}
    # getvalue() of BytesIO makes no copy, unlike a join.
    text = io.BytesIO()
    text.write(jsontext.encode(_head(info, server_url))[:-1])
    text.write(b',"paths":')
    text.writelines(object_slices(operations.path_items()))
    text.write(b',"components":{"schemas":')
    text.writelines(object_slices(chain(SHARED.items(), operations.pop_schemas())))
    text.write(b"," + jsontext.encode(_beside_schemas())[1:] + b"}")
    return text.getvalue()


def _general(
    manifest: Mapping[str, Any], left_out: int, shown: Sequence[Mapping[str, Any]], server_url: str | None
) -> list[str]:
    """Return the losses that affect all endpoints."""
    said = []
    if left_out:
        said.append(f"{left_out} endpoints of the protocol itself are left out")
    if server_url is None:
        said.append("the HTTP address is unknown, so servers is left out")
    if any(endpoint.get("required_scopes") for endpoint in shown):
        said.append("required scopes have no counterpart in OpenAPI; they are only in x-agtp")
    if manifest.get("hosted_protocols"):
        said.append("hosted protocols and their tools are left out")
    if shown:
        said.append("the semantic block, sessions, interim messages and Attribution-Records exist only in AGTP")
    return said


def _derived_info(manifest: Mapping[str, Any], link: str) -> dict[str, Any]:
    server = manifest["server"]
    about: dict[str, Any] = {
        "title": f"{server['server_id']} (derived from AGTP)",
        "version": str(manifest["document_version"]),
        "description": DERIVED.format(link=link),
        "x-agtp-derived": True,
        "x-agtp-manifest": {
            "href": link,
            "agtp_api_version": manifest["agtp_api_version"],
            "catalog_version": manifest["catalog_version"],
            "content_sha256": content_digest(manifest),
        },
    }
    if server.get("operator"):
        about["contact"] = {"name": server["operator"]}
        if re.fullmatch(r"[^@\s]+@[^@\s]+", str(server.get("contact", ""))):
            about["contact"]["email"] = server["contact"]
    return about


def _document(info: Mapping[str, Any], operations: Operations, server_url: str | None) -> dict[str, Any]:
    document = _head(info, server_url)
    document["paths"] = operations.paths()
    document["components"] = {"schemas": {**SHARED, **operations.schemas}, **_beside_schemas()}
    return document


def _head(info: Mapping[str, Any], server_url: str | None) -> dict[str, Any]:
    """Return the members of a document before ``paths``."""
    head: dict[str, Any] = {"openapi": OPENAPI, "info": dict(info)}
    if server_url is not None:
        head["servers"] = [{"url": server_url}]
    return head


def _beside_schemas() -> dict[str, Any]:
    """Return the components that are the same in every document."""
    return {
        "headers": responses.headers(),
        "securitySchemes": {name: dict(scheme) for name, scheme in SCHEMES.items()},
    }
