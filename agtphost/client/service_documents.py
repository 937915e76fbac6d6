"""
What a server says of its endpoints, examined before any of it is used (AGIS v01 sections 12 and 14).

An AGIS document that does not conform is not used at all. Its statements are untrusted data, so one that gives orders
to its reader makes the document invalid. A server that speaks no AGIS answers with its manifest, which says the same in
other words.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agtphost.client.errors import VerificationFailed
from agtphost.client.manifests import read_manifest
from agtphost.client.reply import Reply
from agtphost.client.terminal import escape
from agtphost.vocabulary import media_types
from agtphost.vocabulary.paths import PathError, parse_template

if TYPE_CHECKING:
    from agtphost.agis.document import AgisDocument

ACCEPT = f"{media_types.AGIS}, {media_types.MANIFEST_JSON};q=0.5, {media_types.AGTP_JSON};q=0.1"
"""What is asked for: AGIS, where the server has it."""

_ORDERS = re.compile(
    r"\b(?:ignore|disregard|forget) (?:all |any )?(?:of )?(?:the |your )?(?:previous|prior|above|earlier)"
    r"|(?:^|\s)(?:system|assistant)\s*:|<\|",
    re.IGNORECASE,
)


class DocumentRefused(VerificationFailed):
    """A server's AGIS document is none that may be used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """A server's description of one endpoint, as far as a caller needs it before a call."""

    method: str
    path: str
    """The template."""

    intent: str
    outcome: str
    impact: str
    """``informational``, ``reversible``, ``irreversible``; empty where the server does not say."""

    guidance: float | None = None
    """The least confidence that the server recommends."""

    def matches(self, method: str, path: str) -> bool:
        """Return whether a call is one of this endpoint."""
        if method != self.method:
            return False
        try:
            template = parse_template(self.path).segments
        except PathError:
            return False
        given = path[1:].split("/") if path != "/" else []
        return len(given) == len(template) and all(
            part is None or part == segment for part, segment in zip(template, given, strict=True)
        )


def document_of(reply: Reply) -> AgisDocument:
    """
    Return the AGIS document in an answer.

    :raises DocumentRefused: it does not conform, or a statement in it gives orders: nothing of it may be used.
    """
    from agtphost.agis import validate
    from agtphost.agis.findings import Severity

    verdict = validate(reply.body)
    if verdict.document is None or not verdict.conforms:
        first = next(each for each in verdict.findings if each.severity is Severity.ERROR)
        said = f"{first.place}: {first.message} ({first.rule.name})"
        raise DocumentRefused(
            f"The server's AGIS document does not conform: {escape(said)}.",
            "Nothing of it is used; its operator can see every finding with agtp agis validate.",
        )
    for place, text in _texts(verdict.document.members, ()):
        if _ORDERS.search(text):
            raise DocumentRefused(
                f"The server's AGIS document gives orders to its readers, at {escape('.'.join(place))[:200]}.",
                "Nothing of it is used.",
            )
    return verdict.document


def _texts(value: Any, place: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:
    """Return every text in a document, with where it is."""
    if isinstance(value, str):
        yield place, value
    elif isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _texts(inner, (*place, str(name)))
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from _texts(inner, (*place, str(number)))


def definitions_of(reply: Reply) -> tuple[Definition, ...]:
    """
    Return the endpoints that an answer to :data:`ACCEPT` defines.

    :raises DocumentRefused: see :func:`document_of`.
    :raises VerificationFailed: the answer is neither a document nor a manifest.
    """
    label = media_types.essence(reply.headers.get("content-type") or "")
    if label in (media_types.AGIS, media_types.AGIS_YAML):
        return tuple(
            Definition(
                method=endpoint.verb,
                path=endpoint.path,
                intent=str(endpoint.semantic["intent"]),
                outcome=str(endpoint.semantic["outcome"]),
                impact=str(endpoint.semantic.get("impact_tier") or ""),
                guidance=endpoint.semantic.get("confidence_guidance"),
            )
            for endpoint in document_of(reply).endpoints
        )
    listed = read_manifest(reply).get("endpoints")
    return tuple(filter(None, map(_of_manifest, listed if isinstance(listed, list) else ())))


def _of_manifest(entry: Any) -> Definition | None:
    block = entry.get("semantic") if isinstance(entry, dict) else None
    if not isinstance(block, dict) or not all(isinstance(entry.get(name), str) for name in ("method", "path")):
        return None
    said = [block.get(name) for name in ("intent", "outcome")]
    intent, outcome = (text if isinstance(text, str) and not _ORDERS.search(text) else "" for text in said)
    return Definition(
        method=entry["method"], path=entry["path"], intent=intent, outcome=outcome, impact=str(block.get("impact", ""))
    )
