"""
A service's own document, made of its endpoints and examined before anybody gets it (AGIS v01 sections 8 and 9).

An AGIS document conforms or it does not: one endpoint that breaks the grammar would make the whole of no use to its
readers. So what cannot be said in AGIS is left out, and is told with the rule that it breaks.
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
class Service:
    """What a document says of the service itself."""

    name: str
    agtp: str
    """Its address."""

    description: str
    version: str
    """Of what it offers."""

    domain: str = ""
    namespace: str = ""
    negotiable: bool = False
    data_classes: Sequence[Mapping[str, Any]] = ()
    anonymous: bool = False
    """Whether who shows no credential may read what the service says of itself."""

    about: Mapping[str, Any] = field(default_factory=dict)
    """``prepared_for``: whose document it is."""


@dataclass(frozen=True, kw_only=True)
class Own:
    """A document that conforms, and what is not in it."""

    document: Mapping[str, Any]
    left_out: Mapping[str, Finding]
    """By ``METHOD /path``, the first rule that each breaks."""

    warnings: Sequence[Finding]


class Unpublishable(ValueError):
    """The service itself cannot be said in AGIS: the message names the rule."""


def own(service: Service, entries: Iterable[Mapping[str, Any]]) -> Own:
    """
    The document of endpoints.

    :param entries: each as :func:`agtphost.agis.endpoints.exported` has it.
    :raises Unpublishable: what is wrong concerns no endpoint, or no endpoint is left.
    """
    kept = list(entries)
    left_out: dict[str, Finding] = {}
    while True:
        document = _document(service, kept, left_out)
        verdict = validate_value(document)
        wrong = [finding for finding in verdict.findings if finding.severity is Severity.ERROR]
        if not wrong:
            return Own(document=document, left_out=left_out, warnings=verdict.findings)
        names = {f"{entry['method']} {entry['path']}" for entry in kept}
        broken = {finding.place: finding for finding in reversed(wrong) if finding.place in names}
        kept = [entry for entry in kept if f"{entry['method']} {entry['path']}" not in broken]
        if not broken or not kept:
            raise Unpublishable(f"{wrong[0].rule.name}: {wrong[0].place}: {wrong[0].message}")
        left_out.update(broken)


def examined(service: Service, entries: Sequence[Mapping[str, Any]]) -> Sequence[Finding]:
    """What is found in the document of endpoints, none of them left out."""
    return validate_value(_document(service, entries, ())).findings


def _document(service: Service, entries: Sequence[Mapping[str, Any]], left_out: Iterable[str]) -> dict[str, Any]:
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
