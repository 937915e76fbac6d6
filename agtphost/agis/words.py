"""
The validator's knowledge of words: verbs, their forms and effects.

Verbs are those of the method catalog and of ``words.toml``. There is no dictionary: a word in neither may be a verb of
another language (AGIS v01 section 15).
"""

from __future__ import annotations

import functools
import re
import tomllib
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from importlib import resources

from agtphost.vocabulary.catalog import Catalog

_VOWELS = frozenset("AEIOU")
_WORD = re.compile(r"[A-Za-z]+")
_INNER = re.compile(r"[a-z][A-Z]", re.ASCII)


_NOUN_ENDINGS = ("TION", "SION", "MENT", "NESS", "ANCE", "ENCE", "ABILITY", "SHIP", "HOOD")
"""Endings of nouns that are derived from verbs or adjectives; verbs with these endings are in ``words.toml``."""

_SHORTEST_NOUN = 6
"""Most letters of a word whose ending is ignored: ``PAYMENT`` has seven."""


class Effect(Enum):
    """The effect of a verb, as far as an intent can contradict it."""

    READS = "finds or returns something"
    ANALYSES = "works something out"
    CREATES = "makes something"
    ACTS = "changes something"
    UNKNOWN = ""


@dataclass(frozen=True, kw_only=True)
class Words:
    """The word lists, as sets of upper-case words."""

    verbs: frozenset[str]
    nouns_too: frozenset[str]
    states: frozenset[str]
    things: frozenset[str]
    borderline: frozenset[str]
    irregular: dict[str, str]
    effects: dict[str, Effect]

    def is_verb(self, word: str) -> bool:
        """Return whether a word is a verb in its base form."""
        return word.upper() in self.verbs

    def run_together(self, method: str) -> bool:
        """
        Return whether a method is several words in camel case: ``bOOK`` is one verb, and ``CheckOut`` is two words.
        """
        if _INNER.search(method) is None:
            return False
        return not self.is_verb(method) or parts(method)[0] in self.verbs

    def base(self, word: str) -> str | None:
        """
        Return the verb of which a word is a form: ``BOOKING`` gives ``BOOK``.

        :return: None for a verb in its base form, and for a word that is not a form of a verb.
        """
        word = word.upper()
        if word in self.verbs:
            return None
        if word in self.irregular:
            return self.irregular[word]
        return next((stem for stem in _stems(word) if stem in self.verbs), None)

    def base_of_method(self, method: str) -> str | None:
        """
        Return the verb of which a method is a form; the plural of a form, ``BOOKINGS``, counts as well.

        :return: None for a verb in its base form, and for a word that is not a form of a verb.
        """
        method = method.upper()
        single = method[:-1] if method.endswith("INGS") and method not in self.things else ""
        return self.base(method) or (self.base(single) if single else None)

    def lemma(self, word: str) -> str:
        """Return the verb of a word, or the word, in upper case."""
        return self.base(word) or word.upper()

    def is_act_noun(self, word: str) -> bool:
        """Return whether a word is a noun by its ending, such as RESERVATION, and not a known verb."""
        word = word.upper()
        single = word[:-1] if word.endswith("S") and not word.endswith("SS") else word
        return single not in self.verbs and len(single) > _SHORTEST_NOUN and single.endswith(_NOUN_ENDINGS)

    def american(self, verb: str) -> str:
        """Return the American spelling of a verb: ``SUMMARIZE`` for ``SUMMARISE``."""
        other = f"{verb[:-2]}ZE"
        return other if verb.endswith("SE") and other in self.verbs and other in self.effects else verb

    def effect(self, verb: str) -> Effect:
        """Return the effect of a verb; a known verb in none of the lists acts."""
        return self.effects.get(verb.upper(), Effect.ACTS if self.is_verb(verb) else Effect.UNKNOWN)


def _plural(noun: str) -> str:
    if noun.endswith("Y"):
        return f"{noun[:-1]}IES"
    return f"{noun}{'ES' if noun.endswith(('S', 'X', 'CH', 'SH')) else 'S'}"


def _stems(word: str) -> Iterable[str]:
    """Yield the words of which a word may be a form, likeliest first."""
    if word.endswith("ING") and len(word) > 4:
        yield from _base_forms(word[:-3])
        if word.endswith("YING"):
            yield f"{word[:-4]}IE"
    elif word.endswith("IED"):
        yield f"{word[:-3]}Y"
        yield word[:-1]
    elif word.endswith("ED") and len(word) > 3:
        yield from _base_forms(word[:-2])
    elif word.endswith("IES"):
        yield f"{word[:-3]}Y"
        yield word[:-1]
    elif word.endswith("S") and not word.endswith("SS"):
        yield word[:-1]
        if word.endswith("ES"):
            yield word[:-2]
            if word[-4:-2] in ("SS", "ZZ"):
                yield word[:-3]


def _base_forms(stem: str) -> Iterable[str]:
    """Yield the base forms of a stem before -ED and -ING: unchanged, with E, and with a single final consonant."""
    yield stem
    yield f"{stem}E"
    if len(stem) > 2 and stem[-1] == stem[-2] and stem[-1] not in _VOWELS:
        yield stem[:-1]
    if stem.endswith("CK"):
        yield stem[:-1]


def strip_accents(text: str) -> str:
    """Return a text without its accents: ``BÖOK`` is ``BOOK``."""
    return text if text.isascii() else "".join(char for char in unicodedata.normalize("NFKD", text) if char.isascii())


def to_snake_case(name: str) -> str:
    """Return a name in snake_case: ``partySize`` is ``party_size``."""
    return re.sub(r"[^a-z0-9]+", "_", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()).strip("_")


def to_spaced(segment: str) -> str:
    """Return a path's segment or an identifier with its words separated by spaces."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|[-_\s]+", " ", segment)


def parts(segment: str) -> list[str]:
    """Return the words of a path's segment or an identifier, without digits, in upper case."""
    return [word.upper() for word in _WORD.findall(to_spaced(segment))]


@functools.cache
def words() -> Words:
    """Return the shared lists."""
    lists = tomllib.loads(resources.files(__package__).joinpath("words.toml").read_text("utf-8"))
    named = {name: frozenset(text.split()) for name, text in lists.items() if name != "irregular"}
    irregular = dict(pair.split(":") for pair in lists["irregular"].split())
    catalog = Catalog.load()
    verbs = named["verbs"] | catalog.methods
    # British spellings: SUMMARISE, ANALYSE.
    british = {f"{verb[:-2]}SE": verb for verb in verbs if verb.endswith(("IZE", "YZE"))}
    british = {verb: other for verb, other in british.items() if verb not in verbs}
    verbs |= british.keys()
    effects = {verb: _effect(entry.categories) for verb, entry in catalog.entries.items()}
    effects |= dict.fromkeys(named["reading"], Effect.READS)
    effects |= dict.fromkeys(named["acting"], Effect.ACTS)
    effects |= dict.fromkeys(named["either"], Effect.UNKNOWN)
    effects |= {verb: effects[other] for verb, other in british.items() if other in effects}
    return Words(
        verbs=verbs | named["borderline"],
        nouns_too=named["nouns_too"],
        states=named["states"],
        things=(named["things"] | {*map(_plural, named["things"])}) - verbs,
        borderline=named["borderline"],
        irregular={form: verb for form, verb in irregular.items() if form not in verbs},
        effects=effects,
    )


def _effect(categories: Iterable[str]) -> Effect:
    found = set(categories)
    if found <= {"discovery", "retrieval"}:
        return Effect.READS
    if found <= {"discovery", "retrieval", "analysis"}:
        return Effect.ANALYSES
    if found & {"creation"} and not found & {"transaction", "modification"}:
        return Effect.CREATES
    if found <= {"mechanics"} or found <= {"mechanics", "analysis", "discovery"}:
        return Effect.UNKNOWN
    return Effect.ACTS
