"""
SUMMARIZE: core v08 section 7.2.5, by choosing the sentences that say most.

A summary has nothing in it that its source does not say word for word. An
operator who has a better one declares an endpoint ``SUMMARIZE /``, which takes
this one's place.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from zope.interface import implementer

from agtphost.errors import Refusal
from agtphost.handlers import parameters
from agtphost.handlers.built_in import Answer, BuiltInContext, IBuiltInHandler
from agtphost.methods.cognitive import relevance
from agtphost.methods.cognitive.documents import Library
from agtphost.search.word_stems import terms
from agtphost.vocabulary import uris
from agtphost.vocabulary.identifiers import is_audit_id
from agtphost.vocabulary.own_address import NOWHERE, OwnAddress
from agtphost.vocabulary.reasons import Reason
from agtphost.vocabulary.steps import Executor

LENGTHS: Mapping[str, tuple[float, int]] = {"brief": (0.1, 3), "standard": (0.3, 8), "detailed": (0.6, 24)}
"""For each length, the share of the sentences that is kept, and how many at most."""

FORMATS = ("prose", "bullets", "structured")
SOURCE = 200_000
"""Characters of a source."""

SMALL = 4_000
"""Characters up to which a summary is not worth a thread."""

FOCUS = 8.0
"""How much more the words of ``focus`` weigh."""

_SCHEMES = ("http:", "https:", "agtp:", "file:", "ftp:", "urn:")
_PLAIN_AUDIENCES = frozenset({"general", "public", "child", "children", "beginner", "layperson", "executive"})


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryOptions:
    """The options of a summary: its length, form and focus."""

    length: str
    focus: str
    plain: bool
    """Whether short sentences of short words are better."""


@implementer(IBuiltInHandler)
class Summary:
    """
    Answers SUMMARIZE on ``/``.

    :param library: the documents that ``document:NAME`` names.
    :param offload: runs the work on long sources in a thread.
    """

    kind = "built_in"

    def __init__(self, library: Library, offload: Executor, address: OwnAddress = NOWHERE) -> None:
        self._address = address
        self._library = library
        self._offload = offload

    async def handle(self, context: BuiltInContext) -> Answer:
        given = context.input
        options = SummaryOptions(
            length=parameters.choice(given, "length", tuple(LENGTHS), "standard"),
            focus=parameters.text(given, "focus") or "",
            plain=(parameters.text(given, "audience") or "").lower() in _PLAIN_AUDIENCES,
        )
        form = parameters.choice(given, "format", FORMATS, "prose")
        text = await self._source(context)
        if len(text) <= SMALL:
            summary = summarize(text, options, form)
        else:
            summary = await self._offload(summarize, text, options, form)
        return Answer(
            result={
                **summary,
                "source_hash": sha256(text.encode()).hexdigest(),
                "length": options.length,
                "format": form,
            }
        )

    async def _source(self, context: BuiltInContext) -> str:
        given = context.input
        source = given.get("source", given.get("content"))
        if source is None:
            raise parameters.invalid("source", "The parameter source is missing.", "Send source.", missing=True)
        if isinstance(source, (dict, list)):
            source = relevance.said_in(source)
        if not isinstance(source, str) or not source.strip() or len(source) > SOURCE:
            raise parameters.invalid(
                "source", f"source must be a text of 1 to {SOURCE} characters.", "Send less, or summarize in parts."
            )
        return await self._resolve_source(context, source) if " " not in source.strip() else source

    async def _resolve_source(self, context: BuiltInContext, source: str) -> str:
        """
        Return the text that a URI reference names. The host fetches nothing from elsewhere (T-SS: no request forgery).
        """
        source = source.strip()
        scheme, _, name = source.partition(":")
        if scheme == "document":
            document = self._library.document(name)
            if document is None:
                raise _source_unresolved("This host exposes no document of that name.", "QUERY / shows sources.")
            return document.text[:SOURCE]
        audit_id = name if scheme == "audit" else source
        if is_audit_id(audit_id):
            record = await context.invoke("INSPECT", "/", {"target": "audit", "audit_id": audit_id})
            return _record_to_text(record.get("payload", {}))
        if scheme.lower() == uris.SCHEME:
            return await self._read_own_uri(context, source)
        if source.lower().startswith(_SCHEMES):
            raise _source_unresolved(
                "This host fetches no sources from other servers.",
                "Send the content itself, document:NAME or an Audit-ID.",
            )
        return source

    async def _read_own_uri(self, context: BuiltInContext, source: str) -> str:
        """Return the content of an ``agtp:`` URI of this host, as the caller may read it."""
        try:
            uri = uris.parse(source)
        except uris.UriError as error:
            raise _source_unresolved(
                error.explanation, "Send an agtp: URI of this host, or the content itself."
            ) from None
        if uri.host and self._address.local_path(source) is None:
            raise _source_unresolved(
                "The URI addresses another host, and this host fetches no sources from other servers.",
                "Send the content itself.",
            )
        path = uri.agent_path + ("/status" if uri.status else "")
        if not path and uri.form is not uris.Form.NAMESPACE:
            document = await context.invoke("DISCOVER", "/methods", {})
            return relevance.said_in([_plain(each) for each in document.get("value", ())])
        return _record_to_text(await context.invoke("DESCRIBE", path or "/agents", {"format": "json"}))


def _plain(entry: Any) -> str:
    return f"{entry.get('method', '')} {entry.get('path', '')}: {entry.get('description', '')}"


def _source_unresolved(explanation: str, remedy: str) -> Refusal:
    return Refusal(Reason.SOURCE_UNRESOLVED, explanation, remedy=remedy, details={"parameter": "source"})


def _record_to_text(payload: Mapping[str, Any]) -> str:
    """Return a record as sentences."""
    known = {name: value for name, value in payload.items() if value not in ("", None)}
    return "\n\n".join(f"{name.replace('_', ' ').capitalize()}: {value}." for name, value in known.items())


def summarize(text: str, options: SummaryOptions, form: str) -> dict[str, Any]:
    """
    Return the sentences of a text with the most information, in their order.

    :return: ``summary`` in the format asked for, ``confidence``, and how much was chosen.
    """
    every = relevance.sentences(text) or [text.strip()]
    worded = [terms(sentence) for sentence in every]
    weights = _weights(worded, options.focus)
    chosen = _choose_sentences(every, worded, weights, options)
    whole = sum(weights.values())
    covered = sum(weights[term] for term in {term for index in chosen for term in worded[index]})
    lines = [every[index] for index in chosen]
    keywords = sorted(weights, key=lambda term: (-weights[term], term))[:8]
    return {
        "summary": _format_summary(lines, form, keywords),
        "confidence": round(covered / whole, 4) if whole else 0.0,
        "sentences": len(lines),
        "sentences_in_source": len(every),
    }


def _weights(worded: list[list[str]], focus: str) -> dict[str, float]:
    """Return the weight of each term: its frequency in the source, increased for terms of the focus."""
    counts = Counter(term for words in worded for term in words)
    most = max(counts.values(), default=1)
    wanted = set(terms(focus))
    return {term: count / most * (FOCUS if term in wanted else 1.0) for term, count in counts.items()}


def _choose_sentences(
    every: list[str], worded: list[list[str]], weights: Mapping[str, float], options: SummaryOptions
) -> list[int]:
    """Choose sentences one by one, each for what it adds to those before; return their indexes."""
    share, most = LENGTHS[options.length]
    wanted = min(len(every), most, max(1, round(len(every) * share)))
    left = dict(weights)
    # Repeated terms count little, except those in focus.
    wanted_terms = set(terms(options.focus))
    scores = {index: _score(words, left, index, every[index], options) for index, words in enumerate(worded)}
    chosen: list[int] = []
    while len(chosen) < wanted:
        best = max(scores, key=lambda index: (scores[index], -index))
        chosen.append(best)
        del scores[best]
        said = set(worded[best])
        for term in said:
            left[term] *= 0.8 if term in wanted_terms else 0.25
        for index in scores:
            if not said.isdisjoint(worded[index]):
                scores[index] = _score(worded[index], left, index, every[index], options)
    return sorted(chosen)


def _score(words: list[str], weights: Mapping[str, float], index: int, sentence: str, options: SummaryOptions) -> float:
    """
    Return the weight of a sentence relative to its length; first sentences score higher, as they often give the topic.
    """
    score = sum(weights[term] for term in set(words)) / (len(words) + 6) * (1.0 + 0.5 / (1 + index))
    if options.plain and words:
        score *= 12 / (12 + len(words)) * 6 / max(6.0, len(sentence) / (sentence.count(" ") + 1))
    return score


def _format_summary(lines: list[str], form: str, keywords: list[str]) -> Any:
    if form == "bullets":
        return "\n".join(f"- {line.lstrip('-*# ')}" for line in lines)
    if form == "structured":
        return {"headline": lines[0], "points": lines[1:], "keywords": keywords}
    return " ".join(lines)
