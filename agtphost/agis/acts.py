"""
The validator's knowledge of acts: classes of verbs, opposites, phrases, and nouns that name an act.

An act is a verb in its base form, such as ``DELETE``, or a verb with its particle, such as ``TURN-OFF``. The lists are
in ``acts.toml``; forms of verbs are those of :mod:`agtphost.agis.words`.
"""

from __future__ import annotations

import functools
import itertools
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources

from agtphost.agis.words import Words, words

_GAP = 7
"""Words between a verb and its particle: "switches the heating of the house off"."""

_STOPS = frozenset(",.;:!?()")
_PLACES = frozenset({("IN",), ("ON",)})
"""Particles that are prepositions where an object follows."""

_PREFIX = "UN"


@dataclass(frozen=True, kw_only=True)
class Lexicon:
    """The lists of ``acts.toml``, under the names that they have there."""

    classes: dict[str, frozenset[str]]
    methods: dict[str, frozenset[str]]
    readings: dict[str, frozenset[str]]
    contrary: dict[str, frozenset[str]]
    """The acts that exclude each act."""

    allied: dict[str, frozenset[str]]
    """The acts on the same side of a pair of opposites as each act, including itself."""

    agreements: frozenset[tuple[str, ...]]
    """Pairs of a method and an act that agree although their classes do not."""

    phrases: dict[str, tuple[tuple[str, ...], ...]]
    """The rest of each phrase by its verb, longest first."""

    nominals: dict[str, str]
    """The act of each noun."""

    infinitives: frozenset[str]
    """Verbs after "to" that end a phrase: SLEEP of PUT-TO-SLEEP."""

    things: frozenset[str]
    """Nouns of an act that also name its result."""

    grammar: dict[str, frozenset[str]]
    words: Words

    def is_a(self, act: str, *names: str) -> bool:
        """Return whether an act is in one of these classes."""
        return any(act in self.classes[name] for name in names)

    def are_opposites(self, method: str, act: str) -> bool:
        """Return whether a method and an act exclude each other, such as LOCK and UNLOCK."""
        if act == f"{_PREFIX}{method}" or method == f"{_PREFIX}{act}":
            return True
        return act in self.contrary.get(method, ())

    def are_allied(self, method: str, act: str) -> bool:
        """Return whether a method and an act are on the same side of a pair of opposites, such as START and LAUNCH."""
        return act in self.allied.get(method, ())

    def phrase(self, verb: str, rest: Sequence[str]) -> str | None:
        """
        Return the phrase that a verb begins, such as ``TURN-OFF`` of TURN and "the heating off".

        :param rest: the words after the verb, in capitals.
        """
        tails = self.phrases.get(verb, ())
        if tails and any("-" in word for word in rest[:_GAP]):
            rest = [part for word in rest[:_GAP] for part in word.split("-")]  # "the go-ahead"
        for tail in tails:
            for at in range(min(_GAP, len(rest))):
                if rest[at] in _STOPS:
                    break
                if at and tail in _PLACES and at + 1 < len(rest) and rest[at + 1] in self.grammar["determiners"]:
                    continue  # "signs the contract in the name of another".
                if tail in _PLACES and at + 1 < len(rest) and rest[at + 1] in self.grammar["manner"]:
                    continue  # "pays in full".
                if rest[at] == tail[0] and tuple(rest[at : at + len(tail)]) == tail:
                    return "-".join((verb, *tail))
        return None

    def form(self, word: str) -> tuple[str | None, str]:
        """
        Return the form of a verb (``base``, ``third``, ``gerund``, ``past``) that a word has, and its base form.

        :param word: the word in capitals.
        :return: None and the word if it is not a form of a known verb.
        """
        base = word if word in self.words.verbs else self.words.base(word)
        if base is None:
            return None, word
        if base == word:
            return "base", word
        if word.endswith("ING"):
            return "gerund", base
        return ("third" if word.endswith("S") and not word.endswith("SS") else "past"), base

    def act_of_other(self, rest: Sequence[str]) -> int:
        """
        Return the index of the verb of whom a method lets act, as in "lets the job carry on"; 0 if there is none.

        :param rest: the words after "lets", in capitals.
        """
        pronouns = self.grammar["actors"] | self.grammar["anybody"]
        index = 1 if rest and rest[0] in pronouns else 2
        named = index == 1 or (bool(rest) and rest[0] in self.grammar["determiners"])
        return index if named and len(rest) > index and self.form(rest[index])[0] == "base" else 0

    def nominal(self, noun: str) -> str | None:
        """Return the act that a noun names; None for other words."""
        return self.nominals.get(noun)


@functools.cache
def lexicon() -> Lexicon:
    """Return the shared lists."""
    lists = tomllib.loads(resources.files(__package__).joinpath("acts.toml").read_text("utf-8"))
    classes = {name: _set(text) for name, text in lists["classes"].items()}
    opposites = tuple((_set(one), _set(other)) for one, other in lists["opposites"].values())
    everything = [*classes.values(), *(side for pair in opposites for side in pair), _set(lists["grammar"]["light"])]
    tails: dict[str, set[tuple[str, ...]]] = {}
    for act in frozenset().union(*everything):
        verb, *tail = act.split("-")
        if tail:
            tails.setdefault(verb, set()).add(tuple(tail))
    return Lexicon(
        classes=classes,
        methods={name: _set(text) for name, text in lists["methods"].items()},
        readings={name: _set(text) for name, text in lists["readings"].items()},
        contrary=_contrary_acts(opposites),
        allied=_allied_acts(opposites),
        agreements=frozenset(tuple(pair.split(":")) for pair in lists["agreements"]["pairs"].split()),
        phrases={verb: tuple(sorted(found, key=lambda tail: (-len(tail), tail))) for verb, found in tails.items()},
        infinitives=frozenset(
            after for each in tails.values() for tail in each for to, after in itertools.pairwise(tail) if to == "TO"
        )
        & words().verbs,
        nominals=dict(pair.upper().split(":") for pair in lists["nominals"]["forms"].split()),
        things=_set(lists["nominals"]["things"]),
        grammar={name: _set(text) for name, text in lists["grammar"].items()},
        words=words(),
    )


_Pairs = Sequence[tuple[frozenset[str], frozenset[str]]]


def _contrary_acts(pairs: _Pairs) -> dict[str, frozenset[str]]:
    found: dict[str, set[str]] = {}
    for pair in pairs:
        for one, other in (pair, pair[::-1]):
            for act in one:
                found.setdefault(act, set()).update(other - one)
    return {act: frozenset(others) for act, others in found.items()}


def _allied_acts(pairs: _Pairs) -> dict[str, frozenset[str]]:
    found: dict[str, set[str]] = {}
    for side in (side for pair in pairs for side in pair):
        for act in side:
            found.setdefault(act, set()).update(side)
    return {act: frozenset(others) for act, others in found.items()}


def _set(text: str) -> frozenset[str]:
    return frozenset(text.upper().split())
