"""
Matching of instructions with a service's endpoints (AGIS v01 section 12).

It follows the draft's steps in order. The verb of an instruction is compared with the methods, its other words with the
nouns of the paths, and the whole with the statements of intent; the resulting confidence is compared with what each
endpoint requires. Words are compared by stems, by groups of synonyms, and, for statements, by BM25. Nothing is fetched
and nothing is guessed.
"""

from __future__ import annotations

import functools
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from typing import Any

from agtphost.agis.document import AgisDocument, AgisEndpoint
from agtphost.agis.goal_values import name_files
from agtphost.agis.passes.completeness import SURE
from agtphost.agis.words import parts, words
from agtphost.search.lexical import Lexicon
from agtphost.search.word_stems import stem, terms

METHOD, PATH, INTENT = 0.5, 0.3, 0.2
"""Weights of the steps: methods first, then nouns, then statements."""

LIKE = 0.8
"""Score of a synonym of the verb."""

ALSO = 0.4
"""Score of a verb that is in the instruction but not its first: ``book`` in ``find a book``."""

NOUN = 0.7
"""Score of a synonym of a noun."""

Measure = Callable[[Sequence[tuple[str, str]]], Sequence[float]]

LONGEST = 1_000
"""Characters of an instruction that are read."""

GRAVE = frozenset({"EXECUTE", "CANCEL", "TRANSFER"})
"""Methods that require confidence, for every service (AGIS v01 section 6)."""

_WORD = re.compile(r"[^\W\d_]+")
_AUXILIARY = frozenset(
    [
        *("ABLE", "BE", "CAN", "COULD", "DO", "GO", "HAVE", "HELP", "LET", "LIKE", "LOVE", "MAY", "MUST", "NEED"),
        *("PLEASE", "SHALL", "SHOULD", "TRY", "WANT", "WILL", "WISH", "WOULD"),
    ]
)
"""Verbs at the beginning of an instruction that are not the requested action."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointMatch:
    """An endpoint that an instruction may mean."""

    endpoint: AgisEndpoint
    method: float
    """0 to 1: similarity of the method to the instruction's verb."""

    path: float
    """0 to 1: similarity of the path's nouns to the other words."""

    intent: float
    """0 to 1: similarity of the statement of intent to the instruction, relative to the best."""

    needed: float
    """The confidence that a caller needs: the service's guidance, or more for what is irreversible."""

    alike: bool = False
    """Whether another endpoint matches equally well."""

    @property
    def confidence(self) -> float:
        """Return the confidence of the match, 0 to 1."""
        return round(METHOD * self.method + PATH * self.path + INTENT * self.intent, 3)

    @property
    def escalate(self) -> str:
        """Return why a person should be asked first; empty if there is no reason."""
        if self.alike:
            return "another endpoint matches equally well"
        if self.confidence < self.needed:
            return f"{self.confidence:.2f} is less than the required {self.needed:.2f}"
        return ""


@dataclass(frozen=True, kw_only=True)
class ServiceMap:
    """An index of a service's endpoints by what they do."""

    document: AgisDocument
    """A document that conforms; others are not used (AGIS v01 section 14)."""

    _lexicon: list[Lexicon] = field(default_factory=list)

    @property
    def namespace(self) -> str:
        """Return the namespace of the vocabulary; empty if it has none."""
        return str(self.document.vocabulary.get("namespace", ""))

    @functools.cached_property
    def verbs(self) -> Mapping[str, list[AgisEndpoint]]:
        """Return every verb that the vocabulary declares, with the endpoints that use it."""
        found: dict[str, list[AgisEndpoint]] = {verb.upper(): [] for verb in self.document.vocabulary["declared_verbs"]}
        for endpoint in self.document.endpoints:
            found.setdefault(endpoint.verb, []).append(endpoint)
        return found

    def qualified_method(self, endpoint: AgisEndpoint) -> str:
        """
        Return the method with its namespace, for use with several services (AGIS v01 section 8.2 (d)):
        ``logistics.DISPATCH``.
        """
        return f"{self.namespace}.{endpoint.verb}" if self.namespace else endpoint.verb

    def match(self, instruction: str, *, limit: int = 5, measure: Measure | None = None) -> list[EndpointMatch]:
        """
        Return the endpoints that an instruction may mean, best first.

        :param instruction: the instruction in words, such as ``schedule a meeting``.
        :param limit: most matches to return.
        :param measure: returns the semantic similarity of pairs of texts, -1 to 1; None: statements are compared by
            words only.
        """
        instruction = name_files(instruction[:LONGEST], {f"{self.namespace}.{verb}" for verb in self.verbs})
        said = _Instruction.parse(instruction)
        if not self._lexicon:
            self._lexicon.append(Lexicon(("", _statement(endpoint)) for endpoint in self.document.endpoints))
        exact, near = self._scores(instruction), self._scores(" ".join(said.like()))
        scores = [max(one, NOUN * other) for one, other in zip(exact, near, strict=True)]
        if measure is not None and self.document.endpoints:
            pairs = [(instruction, _statement(endpoint)) for endpoint in self.document.endpoints]
            scores = [max(one, min(1.0, float(other))) for one, other in zip(scores, measure(pairs), strict=True)]
        verbs = {verb: said.method(verb) for verb in self.verbs}
        found = [
            EndpointMatch(
                endpoint=endpoint,
                method=verbs[endpoint.verb],
                path=said.path(endpoint.path),
                intent=score,
                needed=_required_confidence(endpoint),
            )
            for endpoint, score in zip(self.document.endpoints, scores, strict=True)
        ]
        found = [each for each in found if each.method or each.path or each.intent]
        # Of equal matches, the better method comes first, because the draft compares methods first.
        found.sort(key=lambda each: (-each.confidence, -each.method, -each.path, each.endpoint.name))
        return [*_mark_ties(found[: max(limit, 2)])][:limit]

    def _scores(self, text: str) -> list[float]:
        """Return the score of each statement, relative to the best."""
        scores, _ = self._lexicon[0].scores(text, b"\1" * len(self.document.endpoints))
        best = max(scores, default=0.0) or 1.0
        return [score / best for score in scores]


def _mark_ties(found: list[EndpointMatch]) -> Iterator[EndpointMatch]:
    """Yield the matches; those equal to the best are marked."""
    top = [each for each in found if each.confidence == found[0].confidence]
    for each in found:
        alone = len(top) == 1 or each not in top
        yield (
            each
            if alone
            else EndpointMatch(**{name: getattr(each, name) for name in EndpointMatch.__slots__} | {"alike": True})
        )


def _required_confidence(endpoint: AgisEndpoint) -> float:
    given = endpoint.semantic.get("confidence_guidance")
    asked = float(given) if isinstance(given, (int, float)) else 0.0
    grave = endpoint.verb in GRAVE or endpoint.semantic.get("impact_tier") == "irreversible"
    return max(asked, SURE) if grave else asked


def _statement(endpoint: AgisEndpoint) -> str:
    """Return the statement of an endpoint's intent, with the phrases for its parameters."""
    hints = endpoint.semantic.get("parameter_hints")
    phrases = [phrase for each in hints.values() for phrase in each] if isinstance(hints, Mapping) else []
    return " ".join([str(endpoint.semantic.get("intent", "")), *phrases])


@dataclass(frozen=True, kw_only=True)
class _Instruction:
    """The words of an instruction."""

    verb: str
    """The first verb in its base form; empty if there is none."""

    lemmas: frozenset[str]
    """Base forms of all its words, in upper case."""

    nouns: frozenset[str]
    """Stems of all words but the verb."""

    @classmethod
    def parse(cls, instruction: str) -> _Instruction:
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
            # In "I need a table booked", use the first word that is a verb and not a noun.
            lemmas = (known.lemma(word) for word in left)
            verb = next((each for each in lemmas if known.is_verb(each) and each not in known.nouns_too), "")
        lemmas = (known.lemma(word) for word in left)
        nouns = frozenset(stem(word.lower()) for word in left)
        return cls(verb=verb, lemmas=frozenset(lemmas), nouns=nouns)

    def like(self) -> Iterator[str]:
        """Yield the words with their synonyms."""
        yield from sorted(synonyms().verbs.get(self.verb, frozenset({self.verb})))
        for noun in sorted(self.nouns):
            yield from sorted(synonyms().nouns.get(noun, frozenset({noun})))

    def method(self, verb: str) -> float:
        """Return the similarity of a method to the instruction's verb."""
        if verb == self.verb:
            return 1.0
        if self.verb and verb in synonyms().verbs.get(self.verb, ()):
            return LIKE
        return ALSO if verb in self.lemmas else 0.0

    def path(self, path: str) -> float:
        """Return the similarity of a path's nouns, by its best segment."""
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
    """Groups of synonyms."""

    verbs: Mapping[str, frozenset[str]]
    """Verbs by their base form, in upper case."""

    nouns: Mapping[str, frozenset[str]]
    """Stems."""


@functools.cache
def synonyms() -> Synonyms:
    """Return the shared lists."""
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
