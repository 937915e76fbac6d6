"""
Documents that are made from something else: verbs, nouns and sentences that conform, and what a person has to look at.

Tools and operations of others say what they do in names and prose. What of
that conforms is used as it is; what does not is said anew, and each thing that
was chosen rather than found is a review note. The validator's own passes
decide what conforms, so a draft and its examination cannot disagree.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agtphost.agis.document import VERSION, Document, Endpoint
from agtphost.agis.findings import Finding, Severity
from agtphost.agis.normal import as_yaml
from agtphost.agis.passes import completeness, consistency, method_class, method_syntax, path_syntax
from agtphost.agis.passes.instead import PROHIBITED
from agtphost.agis.passes.subject import Subject
from agtphost.agis.reading import MAX_OCTETS, Tree
from agtphost.agis.validation import Verdict, validate, validate_value
from agtphost.agis.words import Effect, parts, words
from agtphost.contract.openapi.names import QUALIFIERS
from agtphost.contract.openapi.prose import strip_html
from agtphost.vocabulary import uris
from agtphost.vocabulary.catalog import Catalog

SOMEWHERE = "agtp://agents.example.com"
"""The address of a service that has none yet."""

DRAFT = "1.0.0-draft"
"""The version of a service that has none yet."""

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
"""What is said for HTTP's methods (AGIS v01 section 4.3, AGIS v01 appendix C)."""

USUAL = "PERFORM"
"""The verb of what changes something, and says nothing more."""

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
    """One thing that a person has to look at."""

    place: str
    """``READ /file``, or ``document``."""

    member: str
    """Such as ``outcome``."""

    note: str
    """A sentence."""

    @property
    def line(self) -> str:
        """All of it."""
        return f"{self.place}: {self.member}: {self.note}"


@dataclass(frozen=True, kw_only=True)
class Drafted:
    """A document that was made, and what is to be said of it."""

    document: dict[str, Any]
    reviews: tuple[Review, ...]

    def examined(self) -> Verdict:
        """What the validator says of it, without which it is not published (AGIS v01 appendix C)."""
        return validate_value(self.document)

    def examined_as(self, text: str) -> Verdict:
        """
        The same of what was written: a document that is larger than readers take is of no use to them.

        :param text: of this document.
        """
        octets = text.encode("utf-8")
        return validate(octets) if len(octets) > MAX_OCTETS else self.examined()

    def text(self, source: str) -> str:
        """
        The YAML, with each note in front of what it is about.

        :param source: what it was made from.
        """
        notes: dict[str, list[Review]] = {}
        for each in self.reviews:
            notes.setdefault(each.place, []).append(each)
        head = {name: value for name, value in self.document.items() if name != "endpoints"}
        lines = [_comment(f"Made from {source}. Look at each REVIEW line before this is published.")]
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
) -> Drafted:
    """
    A document of endpoints.

    :param agtp: None where nobody has said where the service will be.
    :param version: of the service; empty: :data:`DRAFT`.
    :param domain: empty: the service's name, for review.
    """
    said = [*reviews]
    if agtp is None:
        said.insert(0, Review(place="document", member="agtp", note="nobody has said where the service will be"))
    if not domain:
        domain = slug(service) or "service"
        said.insert(0, Review(place="document", member="vocabulary.domain", note=f"{domain} is the service's name"))
    document: dict[str, Any] = {
        "agis": VERSION,
        "service": service,
        "agtp": agtp or SOMEWHERE,
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
    return Drafted(document=document, reviews=tuple(said))


def is_address(text: str) -> bool:
    """Whether it is an ``agtp:`` address."""
    try:
        uris.parse(text)
    except uris.UriError:
        return False
    return True


def slug(text: str) -> str:
    """Its words in lower case, joined by hyphens."""
    return "-".join(re.findall(r"[a-z0-9]+", text.lower()))


def line_of(value: Any, longest: int = completeness.LONGEST) -> str:
    """A text as one printable line; empty where it is none."""
    text = strip_html(value) if isinstance(value, str) else ""
    flat = " ".join("".join(char if char.isprintable() else " " for char in text).split())
    return flat[:longest].rstrip()


def first_sentence(value: Any) -> str:
    """The first sentence of a text's first paragraph, as one line."""
    text = strip_html(value).strip() if isinstance(value, str) else ""
    return line_of(_SENTENCE.split(line_of(re.split(r"\n\s*\n", text)[0], 4_000))[0], 4_000)


@dataclass(kw_only=True)
class Endpoints:
    """The endpoints of a draft, one after the other; no two are one."""

    made: list[dict[str, Any]] = field(default_factory=list)
    reviews: list[Review] = field(default_factory=list)
    _taken: set[tuple[str, str]] = field(default_factory=set)
    _next: dict[tuple[str, str], int] = field(default_factory=dict)
    """The number to try first: what is before it is taken."""

    _catalog: Catalog = field(default_factory=Catalog.load)

    def alone(self, method: str, path: str) -> str:
        """The path, with a number where the method has it already."""
        found, number = path, self._next.get((method, path), 2)
        while (method, found) in self._taken:
            found, number = _numbered(path, number), number + 1
        self._taken.add((method, found))
        self._next[method, path] = number
        return found

    def add(self, endpoint: dict[str, Any], notes: Iterable[tuple[str, str]]) -> None:
        """One that is whole, and what is to be said of it: members and sentences."""
        self.made.append(endpoint)
        name = f"{endpoint['method']} {endpoint['path']}"
        self.reviews += [Review(place=name, member=member, note=note) for member, note in notes]

    def capability(self, method: str) -> str:
        """One of AGIS' six, by what the catalog says of a verb."""
        entry = self._catalog.entry(method)
        named = [_CAPABILITIES[each] for each in entry.categories if each in _CAPABILITIES] if entry else []
        if named:
            return named[0]
        return "retrieval" if reads(method) else "transaction"


def _numbered(path: str, number: int) -> str:
    """Another path: its last noun has a number, and parameters stay what they are."""
    segments = path.rstrip("/").split("/")
    last = next((at for at in range(len(segments) - 1, 0, -1) if not segments[at].startswith("{")), 0)
    if not last:
        return f"/resource-{number}{path.rstrip('/')}"
    segments[last] = f"{segments[last]}-{number}"
    return "/".join(segments)


# Words


def reads(method: str) -> bool:
    """Whether a verb finds or works out something, and changes nothing."""
    return words().effect(method) in (Effect.READS, Effect.ANALYSES)


@dataclass(frozen=True, kw_only=True)
class Named:
    """A verb, and the words that are left."""

    method: str
    rest: tuple[str, ...]
    """Upper-case."""

    note: str = ""
    """Why not the first word; empty where it is that."""


def choose_method(name: str, said: str = "", *, usual: str = USUAL) -> Named:
    """
    The verb of a name: its first word, where that is one (AGIS v01 appendix C).

    :param name: ``book_reservation`` and ``bookReservation`` alike.
    :param said: what is said of it, whose first verb counts where the name has none.
    :param usual: the verb where neither has one.
    """
    known, found = words(), parts(name)
    while len(found) > 1 and found[0] in QUALIFIERS:
        del found[0]
    first, rest = (found[0], tuple(found[1:])) if found else ("", ())
    if first in PROHIBITED:
        told = consistency.head_verb(known, first_sentence(said))
        if told in PROHIBITED[first].split(" or ") and told != INSTEAD[first]:
            return Named(method=told, rest=rest, note=f"{first} is a method of HTTP; the description says {told}")
        others = [each for each in PROHIBITED[first].split(" or ") if each != INSTEAD[first]]
        also = f"; also possible: {', '.join(others)}" if others else ""
        note = f"{first} is a method of HTTP, so it is {INSTEAD[first]} here{also}"
        return Named(method=INSTEAD[first], rest=rest, note=note)
    last = found[-1] if len(found) > 1 else ""
    if last in known.verbs and last not in known.nouns_too and (first in known.nouns_too or not fits(first)):
        method = INSTEAD.get(last, last)
        return Named(method=method, rest=tuple(found[:-1]), note=f"{name[:64]} has its verb at the end")
    if fits(first):
        return Named(method=first, rest=rest)
    base = known.base(first)
    if base is not None and fits(base):
        return Named(method=base, rest=rest, note=f"{first} is a form of {base}")
    verb = consistency.head_verb(known, first_sentence(said))
    verb = INSTEAD.get(verb, verb) if verb else None
    whole = tuple(found)
    if verb is not None and fits(verb):
        return Named(method=verb, rest=whole, note=f"{name[:64]} begins with no verb; its description does")
    note = f"neither {name[:64] or 'a name'} nor its description begins with a verb"
    return Named(method=usual, rest=whole, note=note)


def fits(method: str) -> bool:
    """Whether a word is a verb that is known, and may be a method."""
    if not method or not words().is_verb(method):
        return False
    subject = _alone(Endpoint(method=method, path="/x", members={}))
    (endpoint,) = subject.document.endpoints
    found = (*method_syntax.method_findings(subject, endpoint), *method_class.class_findings(subject, endpoint))
    return not _errors(found)


def choose_path(method: str, rest: Sequence[str], others: Iterable[str]) -> tuple[str, str]:
    """
    A path of nouns.

    :param rest: words that are left of a name.
    :param others: what it could be called where they are no nouns, best first.
    :return: the path, and why it is not made of the words alone; empty where it is.
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
    return path, "the name has no noun for what it acts on"


def path_fits(method: str, path: str) -> bool:
    """Whether pass 4 has nothing against a path."""
    subject = _alone(Endpoint(method=method, path=path, members={}))
    return not _errors(path_syntax.path_findings(subject, subject.document.endpoints[0]))


def noun_of(path: str) -> str:
    """What a path is about, in words."""
    literal = [segment for segment in path.split("/") if segment and not segment.startswith("{")]
    return literal[-1].replace("-", " ") if literal else "resource"


# Sentences


def choose_intent(method: str, path: str, said: Any) -> tuple[str, str]:
    """
    A statement of intent: what is said of it, where that is one.

    :return: the intent, and why it is not what was said, or not all; empty where it is.
    """
    whole, first = line_of(said, 4_000), first_sentence(said)
    why = _against(method, path, "intent", first)
    if not why:
        return first, "" if first == whole else f"the first sentence of: {_cut(whole)}"
    own = f"{third(method)} the {noun_of(path)} on behalf of the agent"
    return own, f"{why}: {_cut(whole)}" if whole else "nothing is said of what it does"


def choose_outcome(method: str, path: str, said: Any = "") -> tuple[str, str]:
    """The same of a statement of outcome."""
    first = first_sentence(said)
    if first and not _against(method, path, "outcome", first):
        return first, ""
    noun = noun_of(path)
    if reads(method):
        return f"The agent has the {noun} that it asked for", "made from the name"
    return f"The request to {method.lower()} the {noun} has been carried out", "made from the name"


def third(method: str) -> str:
    """``Books``: the form that statements begin with."""
    word = method.capitalize()
    if re.search(r"(?:[sxz]|[cs]h|o)$", word):
        return f"{word}es"
    return f"{word[:-1]}ies" if re.search(r"[^aeiou]y$", word) else f"{word}s"


def _cut(text: str) -> str:
    return text if len(text) <= 200 else f"{text[:197]}..."


def _against(method: str, path: str, member: str, text: str) -> str:
    """What the validator has against a statement; empty where it has nothing."""
    if not text:
        return "nothing is said"
    block = {"intent": "", "outcome": "", "actor": "agent", member: text}
    subject = _alone(Endpoint(method=method, path=path, members={"semantic": block}))
    found = [*completeness.check(subject), *(consistency.check(subject) if member == "intent" else ())]
    return next(
        (each.message for each in _errors(found) if f"semantic.{member}" in each.message or _of_pass_6(each)), ""
    )


def _of_pass_6(finding: Finding) -> bool:
    return finding.rule.number == 6


def _alone(endpoint: Endpoint) -> Subject:
    return Subject(document=Document(tree=Tree(root={}), endpoints=(endpoint,)))


def _errors(found: Iterable[Finding]) -> list[Finding]:
    """Errors, and what is longer than is recommended: a draft says it shorter."""
    return [each for each in found if each.severity is Severity.ERROR or each.rule.name == "AGIS-P5-long"]
