"""
A document as a map of what a service can do, and what of it somebody's words mean (AGIS v01 section 12).

The draft's steps, in its order: the verb of an instruction against the
methods, its other words against the nouns of the paths, all of it against the
statements of intent, and how sure that is against what each endpoint asks
for. Words are compared by their stems, by groups of words that people use for
the same, and, for statements, by BM25. Nothing is fetched and nothing guessed.
"""

from __future__ import annotations

import functools
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from typing import Any

from agtphost.agis.document import Document, Endpoint
from agtphost.agis.passes.completeness import SURE
from agtphost.agis.words import parts, words
from agtphost.search.lexical import Lexicon
from agtphost.search.words import stem, terms

METHOD, PATH, INTENT = 0.5, 0.3, 0.2
"""How much each step weighs: methods first, then nouns, then statements."""

LIKE = 0.8
"""Of a verb that people use for the same."""

ALSO = 0.4
"""Of a verb that stands in an instruction and is not what it begins with: ``book`` in ``find a book``."""

NOUN = 0.7
"""Of a noun that people use for the same."""

Measure = Callable[[Sequence[tuple[str, str]]], Sequence[float]]

LONGEST = 1_000
"""Characters of an instruction that are read."""

GRAVE = frozenset({"EXECUTE", "CANCEL", "TRANSFER"})
"""Methods that nobody calls unsure, whatever the service asks for (AGIS v01 section 6)."""

_WORD = re.compile(r"[^\W\d_]+")
_AUXILIARY = frozenset(
    [
        *("ABLE", "BE", "CAN", "COULD", "DO", "GO", "HAVE", "HELP", "LET", "LIKE", "LOVE", "MAY", "MUST", "NEED"),
        *("PLEASE", "SHALL", "SHOULD", "TRY", "WANT", "WILL", "WISH", "WOULD"),
    ]
)
"""What an instruction may begin with and is not what it asks for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """An endpoint that may be meant."""

    endpoint: Endpoint
    method: float
    """0 to 1: how near the method is to the instruction's verb."""

    path: float
    """The same of the path's nouns to its other words."""

    intent: float
    """The same of the statement of intent to all of it, compared with the best."""

    needed: float
    """How sure a caller should be: the service's guidance, or more for what cannot be undone."""

    alike: bool = False
    """Whether another one answers as well."""

    @property
    def confidence(self) -> float:
        """0 to 1: how sure the choice is."""
        return round(METHOD * self.method + PATH * self.path + INTENT * self.intent, 3)

    @property
    def escalate(self) -> str:
        """Why a person should be asked first; empty where nothing speaks for it."""
        if self.alike:
            return "another endpoint answers as well"
        if self.confidence < self.needed:
            return f"{self.confidence:.2f} is less than {self.needed:.2f}, which it should be"
        return ""


@dataclass(frozen=True, kw_only=True)
class ServiceMap:
    """What a service can do."""

    document: Document
    """One that conforms: nothing of another is used (AGIS v01 section 14)."""

    _lexicon: list[Lexicon] = field(default_factory=list)

    @property
    def namespace(self) -> str:
        """Empty where it has none."""
        return str(self.document.vocabulary.get("namespace", ""))

    @functools.cached_property
    def verbs(self) -> Mapping[str, list[Endpoint]]:
        """The index that comes first: every verb that the vocabulary declares, and the endpoints that use it."""
        found: dict[str, list[Endpoint]] = {verb.upper(): [] for verb in self.document.vocabulary["declared_verbs"]}
        for endpoint in self.document.endpoints:
            found.setdefault(endpoint.verb, []).append(endpoint)
        return found

    def qualified(self, endpoint: Endpoint) -> str:
        """``logistics.DISPATCH``: the method among those of several services (AGIS v01 section 8.2 (d))."""
        return f"{self.namespace}.{endpoint.verb}" if self.namespace else endpoint.verb

    def match(self, instruction: str, *, limit: int = 5, measure: Measure | None = None) -> list[Match]:
        """
        What an instruction may mean, the likeliest first.

        :param instruction: what somebody said, such as ``schedule a meeting``.
        :param limit: no more than these.
        :param measure: how near pairs of texts are in meaning, -1 to 1; None: statements are found by words alone.
        """
        said = _Said.of(instruction[:LONGEST])
        if not self._lexicon:
            self._lexicon.append(Lexicon(("", _statement(endpoint)) for endpoint in self.document.endpoints))
        exact, near = self._scores(instruction[:LONGEST]), self._scores(" ".join(said.like()))
        scores = [max(one, NOUN * other) for one, other in zip(exact, near, strict=True)]
        if measure is not None and self.document.endpoints:
            pairs = [(instruction[:LONGEST], _statement(endpoint)) for endpoint in self.document.endpoints]
            scores = [max(one, min(1.0, float(other))) for one, other in zip(scores, measure(pairs), strict=True)]
        verbs = {verb: said.method(verb) for verb in self.verbs}
        found = [
            Match(
                endpoint=endpoint,
                method=verbs[endpoint.verb],
                path=said.path(endpoint.path),
                intent=score,
                needed=_needed(endpoint),
            )
            for endpoint, score in zip(self.document.endpoints, scores, strict=True)
        ]
        found = [each for each in found if each.method or each.path or each.intent]
        # Of two that are as sure the one whose method was said comes first: the draft compares methods before all else.
        found.sort(key=lambda each: (-each.confidence, -each.method, -each.path, each.endpoint.name))
        return [*_alike(found[: max(limit, 2)])][:limit]

    def _scores(self, text: str) -> list[float]:
        """How well each statement answers, compared with the best."""
        scores, _ = self._lexicon[0].scores(text, b"\1" * len(self.document.endpoints))
        best = max(scores, default=0.0) or 1.0
        return [score / best for score in scores]


def _alike(found: list[Match]) -> Iterator[Match]:
    """With those marked that nothing tells from the best."""
    top = [each for each in found if each.confidence == found[0].confidence]
    for each in found:
        alone = len(top) == 1 or each not in top
        yield each if alone else Match(**{name: getattr(each, name) for name in Match.__slots__} | {"alike": True})


def _needed(endpoint: Endpoint) -> float:
    given = endpoint.semantic.get("confidence_guidance")
    asked = float(given) if isinstance(given, (int, float)) else 0.0
    grave = endpoint.verb in GRAVE or endpoint.semantic.get("impact_tier") == "irreversible"
    return max(asked, SURE) if grave else asked


def _statement(endpoint: Endpoint) -> str:
    """What is said of an endpoint, with what people say for its parameters."""
    hints = endpoint.semantic.get("parameter_hints")
    phrases = [phrase for each in hints.values() for phrase in each] if isinstance(hints, Mapping) else []
    return " ".join([str(endpoint.semantic.get("intent", "")), *phrases])


@dataclass(frozen=True, kw_only=True)
class _Said:
    """An instruction, as its words."""

    verb: str
    """What it begins with, in its base form; empty where that is no verb."""

    lemmas: frozenset[str]
    """Of all its words; upper-case."""

    nouns: frozenset[str]
    """Stems of all words but that verb."""

    @classmethod
    def of(cls, instruction: str) -> _Said:
        known, verb, left = words(), "", list[str]()
        for word in (found.upper() for found in _WORD.findall(instruction)):
            lemma = known.lemma(word)
            if not verb and not left and known.is_verb(lemma) and lemma not in _AUXILIARY:
                verb = lemma
            elif lemma in _AUXILIARY or not terms(word.lower()):
                continue
            else:
                left.append(word)
        if not verb:
            # "I need a table booked": the first word that is a verb and no noun.
            lemmas = (known.lemma(word) for word in left)
            verb = next((each for each in lemmas if known.is_verb(each) and each not in known.nouns_too), "")
        lemmas = (known.lemma(word) for word in left)
        nouns = frozenset(stem(word.lower()) for word in left)
        return cls(verb=verb, lemmas=frozenset(lemmas), nouns=nouns)

    def like(self) -> Iterator[str]:
        """What people would say for its words, and they themselves."""
        yield from sorted(synonyms().verbs.get(self.verb, frozenset({self.verb})))
        for noun in sorted(self.nouns):
            yield from sorted(synonyms().nouns.get(noun, frozenset({noun})))

    def method(self, verb: str) -> float:
        """How near a method is."""
        if verb == self.verb:
            return 1.0
        if self.verb and verb in synonyms().verbs.get(self.verb, ()):
            return LIKE
        return ALSO if verb in self.lemmas else 0.0

    def path(self, path: str) -> float:
        """How near a path's nouns are: those of the segment that says most."""
        literal = (segment for segment in path.split("/") if segment and not segment.startswith("{"))
        return max((self._segment(segment) for segment in literal), default=0.0)

    def _segment(self, segment: str) -> float:
        near = [self._noun(stem(word.lower())) for word in parts(segment)]
        return round(sum(near) / len(near), 3) if near else 0.0

    def _noun(self, noun: str) -> float:
        if noun in self.nouns:
            return 1.0
        return NOUN if self.nouns & synonyms().nouns.get(noun, frozenset()) else 0.0


@dataclass(frozen=True, kw_only=True)
class Synonyms:
    """Words that people use for the same."""

    verbs: Mapping[str, frozenset[str]]
    """Upper-case, in their base form."""

    nouns: Mapping[str, frozenset[str]]
    """Stems."""


@functools.cache
def synonyms() -> Synonyms:
    """The one set of lists."""
    lists: dict[str, Any] = tomllib.loads(resources.files(__package__).joinpath("synonyms.toml").read_text("utf-8"))
    return Synonyms(
        verbs=_groups([line.split() for line in lists["verbs"].splitlines()]),
        nouns=_groups([[stem(word) for word in line.split()] for line in lists["nouns"].splitlines()]),
    )


def _groups(lines: list[list[str]]) -> Mapping[str, frozenset[str]]:
    found: dict[str, set[str]] = {}
    for line in lines:
        for word in line:
            found.setdefault(word, set()).update(line)
    return {word: frozenset(group) for word, group in found.items()}
