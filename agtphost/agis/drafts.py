"""
Generated documents: verbs, nouns and sentences that conform, with notes for a person to review.

Foreign tools and operations describe themselves in names and prose. What conforms is used unchanged, the rest is
rephrased, and each choice is a review note. The validator's own passes decide what conforms, so a draft and its
validation cannot disagree.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agtphost.agis.document import VERSION, AgisDocument, AgisEndpoint
from agtphost.agis.document_reader import Tree
from agtphost.agis.findings import Finding, Severity
from agtphost.agis.normal import as_yaml
from agtphost.agis.passes import completeness, consistency, method_class, method_syntax, path_syntax
from agtphost.agis.passes.subject import Subject
from agtphost.agis.passes.suggestions import PROHIBITED
from agtphost.agis.validation import Verdict, validate_value
from agtphost.agis.words import Effect, parts, words
from agtphost.contract.openapi.names import QUALIFIERS
from agtphost.contract.openapi.prose import strip_html
from agtphost.vocabulary import uris
from agtphost.vocabulary.catalog import Catalog

PLACEHOLDER_ADDRESS = "agtp://agents.example.com"
"""The placeholder address of a service."""

DRAFT = "1.0.0-draft"
"""The placeholder version of a service."""

INSTEAD = {
    "GET": "RETRIEVE",
    "POST": "SUBMIT",
    "PUT": "REPLACE",
    "DELETE": "REMOVE",
    "PATCH": "MODIFY",
    "HEAD": "CHECK",
    "OPTIONS": "DESCRIBE",
    "CONNECT": "LINK",
    "TRACE": "TRACK",
}
"""Replacements of HTTP's methods (AGIS v01 section 4.3, AGIS v01 appendix C)."""

USUAL = "PERFORM"
"""The verb of an operation that changes something, if nothing better is known."""

_JOINTS = frozenset(
    [
        "A",
        "ALL",
        "AN",
        "AND",
        "AS",
        "AT",
        "BY",
        "FOR",
        "FROM",
        "IN",
        "INTO",
        "NEW",
        "OF",
        "ON",
        "OR",
        "THE",
        "TO",
        "WITH",
    ]
)
_CAPABILITIES = {
    "discovery": "discovery",
    "retrieval": "retrieval",
    "analysis": "analysis",
    "modification": "modification",
    "notification": "notification",
}
_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z])")


@dataclass(frozen=True, slots=True, kw_only=True)
class Review:
    """A note for a person to review."""

    place: str
    """The endpoint, such as ``READ /file``, or ``document``."""

    member: str
    """The member, such as ``outcome``."""

    note: str
    """The note as a sentence."""

    @property
    def line(self) -> str:
        """Return the whole note as one line."""
        return f"{self.place}: {self.member}: {self.note}"


@dataclass(frozen=True, kw_only=True)
class DraftDocument:
    """A generated document with its review notes."""

    document: dict[str, Any]
    reviews: tuple[Review, ...]

    def validate(self) -> Verdict:
        """Return the validator's verdict, which is required before publication (AGIS v01 appendix C)."""
        return validate_value(self.document)

    def text(self, source: str) -> str:
        """
        Return the YAML text, with each note before its member.

        :param source: what the document was made from.
        """
        notes: dict[str, list[Review]] = {}
        for each in self.reviews:
            notes.setdefault(each.place, []).append(each)
        head = {name: value for name, value in self.document.items() if name != "endpoints"}
        lines = [_comment(f"Made from {source}. Check each REVIEW line before you publish this.")]
        lines += [_comment(f"REVIEW {each.member}: {each.note}") for each in notes.get("document", ())]
        lines += [as_yaml(head), "endpoints:\n"]
        for endpoint in self.document["endpoints"]:
            name = f"{endpoint['method']} {endpoint['path']}"
            lines += [_comment(f"REVIEW {each.member}: {each.note}", 2) for each in notes.get(name, ())]
            lines.append(as_yaml({"endpoints": [endpoint]}).partition("\n")[2])
        return "".join(lines)


def _comment(text: str, indent: int = 0) -> str:
    flat = "".join(char if char.isprintable() else " " for char in text)
    return f"{' ' * indent}# {flat}\n"


def draft(
    endpoints: Sequence[Mapping[str, Any]],
    reviews: Iterable[Review],
    *,
    service: str,
    agtp: str | None,
    description: str,
    version: str = "",
    domain: str = "",
    schemas: Mapping[str, Any] | None = None,
) -> DraftDocument:
    """
    Return a document of endpoints.

    :param agtp: address of the service; None if it is unknown.
    :param version: version of the service; empty: :data:`DRAFT`.
    :param domain: domain of the vocabulary; empty: the service's name, marked for review.
    """
    said = [*reviews]
    if agtp is None:
        said.insert(0, Review(place="document", member="agtp", note="the address of the service is unknown"))
    if not domain:
        domain = slug(service) or "service"
        said.insert(0, Review(place="document", member="vocabulary.domain", note=f"{domain} is the service's name"))
    document: dict[str, Any] = {
        "agis": VERSION,
        "service": service,
        "agtp": agtp or PLACEHOLDER_ADDRESS,
        "description": description,
        "version": version or DRAFT,
        "vocabulary": {
            "declared_verbs": [*dict.fromkeys(endpoint["method"] for endpoint in endpoints)],
            "domain": domain,
        },
    }
    if schemas:
        document["schemas"] = dict(schemas)
    document["endpoints"] = [dict(endpoint) for endpoint in endpoints]
    return DraftDocument(document=document, reviews=tuple(said))


def is_address(text: str) -> bool:
    """Return whether a text is an ``agtp:`` address."""
    try:
        uris.parse(text)
    except uris.UriError:
        return False
    return True


def slug(text: str) -> str:
    """Return the words of a text in lower case, joined by hyphens."""
    return "-".join(re.findall(r"[a-z0-9]+", text.lower()))


def line_of(value: Any, longest: int = completeness.LONGEST) -> str:
    """
    Return a text as one printable line without HTML; empty for values that are not text.

    :param longest: characters to which the line is cut.
    """
    text = strip_html(value) if isinstance(value, str) else ""
    flat = " ".join("".join(char if char.isprintable() else " " for char in text).split())
    return flat[:longest].rstrip()


def first_sentence(value: Any) -> str:
    """Return the first sentence of a text's first paragraph, as one line."""
    text = strip_html(value).strip() if isinstance(value, str) else ""
    return line_of(_SENTENCE.split(line_of(re.split(r"\n\s*\n", text)[0], 4_000))[0], 4_000)


@dataclass(kw_only=True)
class DraftEndpoints:
    """Builder of a draft's endpoints, which keeps method and path unique."""

    made: list[dict[str, Any]] = field(default_factory=list)
    reviews: list[Review] = field(default_factory=list)
    _taken: set[tuple[str, str]] = field(default_factory=set)
    _next: dict[tuple[str, str], int] = field(default_factory=dict)
    """Number to try first for a method and path; lower ones are taken."""

    _catalog: Catalog = field(default_factory=Catalog.load)

    def reserve_path(self, method: str, path: str) -> str:
        """Return the path, with a number if the method already has it."""
        found, number = path, self._next.get((method, path), 2)
        while (method, found) in self._taken:
            found, number = _number_path(path, number), number + 1
        self._taken.add((method, found))
        self._next[method, path] = number
        return found

    def add(self, endpoint: dict[str, Any], notes: Iterable[tuple[str, str]]) -> None:
        """Add a complete endpoint, with its review notes as pairs of member and sentence."""
        self.made.append(endpoint)
        name = f"{endpoint['method']} {endpoint['path']}"
        self.reviews += [Review(place=name, member=member, note=note) for member, note in notes]

    def capability(self, method: str) -> str:
        """Return one of AGIS' six capabilities by the catalog's categories of a verb."""
        entry = self._catalog.entry(method)
        named = [_CAPABILITIES[each] for each in entry.categories if each in _CAPABILITIES] if entry else []
        if named:
            return named[0]
        return "retrieval" if reads(method) else "transaction"


def _number_path(path: str, number: int) -> str:
    """Return a path with a number at its last noun; parameters stay unchanged."""
    segments = path.rstrip("/").split("/")
    last = next((at for at in range(len(segments) - 1, 0, -1) if not segments[at].startswith("{")), 0)
    if not last:
        return f"/resource-{number}{path.rstrip('/')}"
    segments[last] = f"{segments[last]}-{number}"
    return "/".join(segments)


# Words


def reads(method: str) -> bool:
    """Return whether a verb finds or computes something and changes nothing."""
    return words().effect(method) in (Effect.READS, Effect.ANALYSES)


@dataclass(frozen=True, kw_only=True)
class ChosenVerb:
    """A verb, and the remaining words of a name."""

    method: str
    rest: tuple[str, ...]
    """The remaining words, in upper case."""

    note: str = ""
    """Why the verb is not the first word; empty if it is."""


def choose_method(name: str, said: str = "", *, usual: str = USUAL) -> ChosenVerb:
    """
    Return the verb of a name: its first word, if that is a verb (AGIS v01 appendix C).

    :param name: ``book_reservation`` and ``bookReservation`` alike.
    :param said: the description, whose first verb is used if the name has none.
    :param usual: the verb if both have none.
    """
    known, found = words(), parts(name)
    while len(found) > 1 and found[0] in QUALIFIERS:
        del found[0]
    first, rest = (found[0], tuple(found[1:])) if found else ("", ())
    if first in PROHIBITED:
        told = consistency.head_verb(known, first_sentence(said))
        if told in PROHIBITED[first].split(" or ") and told != INSTEAD[first]:
            return ChosenVerb(
                method=told, rest=rest, note=f"{first} is a method of HTTP; the description has the verb {told}"
            )
        others = [each for each in PROHIBITED[first].split(" or ") if each != INSTEAD[first]]
        also = f"; also possible: {', '.join(others)}" if others else ""
        note = f"{first} is a method of HTTP, replaced by {INSTEAD[first]}{also}"
        return ChosenVerb(method=INSTEAD[first], rest=rest, note=note)
    last = found[-1] if len(found) > 1 else ""
    if last in known.verbs and last not in known.nouns_too and (first in known.nouns_too or not is_method(first)):
        method = INSTEAD.get(last, last)
        return ChosenVerb(method=method, rest=tuple(found[:-1]), note=f"{name[:64]} has its verb at the end")
    if is_method(first):
        return ChosenVerb(method=first, rest=rest)
    base = known.base(first)
    if base is not None and is_method(base):
        return ChosenVerb(method=base, rest=rest, note=f"{first} is a form of {base}")
    verb = consistency.head_verb(known, first_sentence(said))
    verb = INSTEAD.get(verb, verb) if verb else None
    whole = tuple(found)
    if verb is not None and is_method(verb):
        return ChosenVerb(
            method=verb, rest=whole, note=f"{name[:64]} does not begin with a verb, but its description does"
        )
    note = f"neither {name[:64] or 'a name'} nor its description begins with a verb"
    return ChosenVerb(method=usual, rest=whole, note=note)


def is_method(method: str) -> bool:
    """Return whether a word is a known verb that can be a method."""
    if not method or not words().is_verb(method):
        return False
    subject = _single_endpoint_subject(AgisEndpoint(method=method, path="/x", members={}))
    (endpoint,) = subject.document.endpoints
    found = (*method_syntax.method_findings(subject, endpoint), *method_class.class_findings(subject, endpoint))
    return not _errors(found)


def choose_path(method: str, rest: Sequence[str], others: Iterable[str]) -> tuple[str, str]:
    """
    Return a path of nouns.

    :param rest: the remaining words of a name.
    :param others: alternative names if the words are not nouns, best first.
    :return: the path, and why it is not made of the words alone; empty if it is.
    """
    left = [*rest]
    while left and left[0] in _JOINTS:
        del left[0]
    plain = f"/{'-'.join(left).lower()}" if left else ""
    if plain and path_fits(method, plain):
        return plain, ""
    known = words()
    nouns = [word for word in left if word not in known.verbs or word in known.nouns_too]
    for index in range(len(nouns)):
        path = f"/{'-'.join(nouns[index:]).lower()}"
        if path_fits(method, path):
            return path, f"{plain} has a verb in it"
    named = (f"/{slug(' '.join(parts(other)))}" for other in others)
    path = next((path for path in named if len(path) > 1 and path_fits(method, path)), "/resource")
    return path, "the name has no noun for its object"


def path_fits(method: str, path: str) -> bool:
    """Return whether pass 4 accepts a path."""
    subject = _single_endpoint_subject(AgisEndpoint(method=method, path=path, members={}))
    return not _errors(path_syntax.path_findings(subject, subject.document.endpoints[0]))


def noun_of(path: str) -> str:
    """Return the object of a path, in words."""
    literal = [segment for segment in path.split("/") if segment and not segment.startswith("{")]
    return literal[-1].replace("-", " ") if literal else "resource"


# Sentences


def choose_intent(method: str, path: str, said: Any) -> tuple[str, str]:
    """
    Return a statement of intent: the description, if it is one.

    :return: the intent, and why it differs from the description; empty if it does not.
    """
    whole, first = line_of(said, 4_000), first_sentence(said)
    why = _find_objection(method, path, "intent", first)
    if not why:
        return first, "" if first == whole else f"the first sentence of: {_cut(whole)}"
    own = f"{third_person(method)} the {noun_of(path)} on behalf of the agent"
    return own, f"{why}: {_cut(whole)}" if whole else "the description is missing"


def choose_outcome(method: str, path: str, said: Any = "") -> tuple[str, str]:
    """Return a statement of outcome, and why it differs from the description."""
    first = first_sentence(said)
    if first and not _find_objection(method, path, "outcome", first):
        return first, ""
    noun = noun_of(path)
    if reads(method):
        return f"The agent has the {noun} that it asked for", "made from the name"
    return f"The request to {method.lower()} the {noun} has been carried out", "made from the name"


def third_person(method: str) -> str:
    """Return the third person of a verb, with which statements begin: ``Books``."""
    word = method.capitalize()
    if re.search(r"(?:[sxz]|[cs]h|o)$", word):
        return f"{word}es"
    return f"{word[:-1]}ies" if re.search(r"[^aeiou]y$", word) else f"{word}s"


def _cut(text: str) -> str:
    return text if len(text) <= 200 else f"{text[:197]}..."


def _find_objection(method: str, path: str, member: str, text: str) -> str:
    """Return the validator's objection to a statement; empty if there is none."""
    if not text:
        return "the text is missing"
    block = {"intent": "", "outcome": "", "actor": "agent", member: text}
    subject = _single_endpoint_subject(AgisEndpoint(method=method, path=path, members={"semantic": block}))
    found = [*completeness.check(subject), *(consistency.check(subject) if member == "intent" else ())]
    return next(
        (each.message for each in _errors(found) if f"semantic.{member}" in each.message or _of_pass_6(each)), ""
    )


def _of_pass_6(finding: Finding) -> bool:
    return finding.rule.number == 6


def _single_endpoint_subject(endpoint: AgisEndpoint) -> Subject:
    return Subject(document=AgisDocument(tree=Tree(root={}), endpoints=(endpoint,)))


def _errors(found: Iterable[Finding]) -> list[Finding]:
    """Return errors, and statements longer than recommended, which a draft shortens."""
    return [each for each in found if each.severity is Severity.ERROR or each.rule.name == "AGIS-P5-long"]
