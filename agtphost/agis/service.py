"""
A service's own AGIS document, built from its endpoints and validated before publication (AGIS v01 sections 8 and 9).

A document conforms or it does not: one endpoint that breaks the grammar would make the whole document useless. So an
endpoint that AGIS cannot express is left out and reported with the rule that it breaks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agtphost.agis.document import VERSION
from agtphost.agis.endpoints import verbs
from agtphost.agis.findings import Finding, Severity
from agtphost.agis.validation import validate_value


@dataclass(frozen=True, kw_only=True)
class AgisService:
    """The service's description of itself in a document."""

    name: str
    agtp: str
    """Address of the service."""

    description: str
    version: str
    """Version of its endpoints."""

    domain: str = ""
    namespace: str = ""
    negotiable: bool = False
    data_classes: Sequence[Mapping[str, Any]] = ()
    anonymous: bool = False
    """Whether clients without credentials may read the document."""

    about: Mapping[str, Any] = field(default_factory=dict)
    """``prepared_for``: who the document is for."""


@dataclass(frozen=True, kw_only=True)
class OwnDocument:
    """A document that conforms, with the endpoints that it leaves out."""

    document: Mapping[str, Any]
    left_out: Mapping[str, Finding]
    """By ``METHOD /path``, the first rule that each endpoint breaks."""

    warnings: Sequence[Finding]


class Unpublishable(ValueError):
    """AGIS cannot express the service itself; the message names the rule."""


def build_own_document(service: AgisService, entries: Iterable[Mapping[str, Any]]) -> OwnDocument:
    """
    Return the document of a service.

    :param entries: endpoints from :func:`agtphost.agis.endpoints.export_endpoint`.
    :raises Unpublishable: a fault belongs to no endpoint, or no endpoint is left.
    """
    kept = list(entries)
    left_out: dict[str, Finding] = {}
    while True:
        document = _document(service, kept, left_out)
        verdict = validate_value(document)
        wrong = [finding for finding in verdict.findings if finding.severity is Severity.ERROR]
        if not wrong:
            return OwnDocument(document=document, left_out=left_out, warnings=verdict.findings)
        names = {f"{entry['method']} {entry['path']}" for entry in kept}
        broken = {finding.place: finding for finding in reversed(wrong) if finding.place in names}
        kept = [entry for entry in kept if f"{entry['method']} {entry['path']}" not in broken]
        if not broken or not kept:
            raise Unpublishable(f"{wrong[0].rule.name}: {wrong[0].place}: {wrong[0].message}")
        left_out.update(broken)


def validate_service(service: AgisService, entries: Sequence[Mapping[str, Any]]) -> Sequence[Finding]:
    """Return the findings of the document with all endpoints."""
    return validate_value(_document(service, entries, ())).findings


def _document(service: AgisService, entries: Sequence[Mapping[str, Any]], left_out: Iterable[str]) -> dict[str, Any]:
    vocabulary: dict[str, Any] = {"declared_verbs": [*verbs(entries)]}
    if service.domain:
        vocabulary["domain"] = service.domain
    if service.namespace:
        vocabulary["namespace"] = service.namespace
    vocabulary["negotiable"] = service.negotiable
    document: dict[str, Any] = {
        "agis": VERSION,
        "service": service.name,
        "agtp": service.agtp,
        "description": service.description,
        "version": service.version,
        "vocabulary": vocabulary,
    }
    if service.negotiable or service.data_classes:
        document["data_manifest"] = {
            "available_data": [dict(entry) for entry in service.data_classes],
            "pre_auth_discovery": service.anonymous,
        }
    if service.about:
        document["prepared_for"] = dict(service.about)
    if names := sorted(left_out):
        document["left_out"] = names
    document["endpoints"] = list(entries)
    return document
