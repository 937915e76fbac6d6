"""Filters of lists and searches of cards: HAIDIP"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from agtphost.handlers.parameters import invalid
from agtphost.registry.card_reader import authentication_of
from agtphost.registry.catalogue import Listed
from agtphost.registry.entry import STATES

MOST_WORDS = 32
LONGEST_WORD = 256

Accepts = Callable[[Listed], bool]

_OWN = frozenset({"id", "name", "description", "kind", "status", "version", "source", "endpoint", "owner", "successor"})
"""Further members of an entry that can be filtered by their value."""


@dataclass(frozen=True, slots=True)
class Filters:
    """The conditions that a card has to meet."""

    accepts: tuple[Accepts, ...] = ()

    def admits(self, listed: Listed) -> bool:
        """Return whether a card meets all conditions."""
        return all(accepts(listed) for accepts in self.accepts)


def read_filters(given: Mapping[str, Any], *, known: Collection[str] = (), prefix: str = "") -> Filters:
    """
    Parse the filters of a list or search.

    :param given: filters by name; names in ``known`` are other parameters and are skipped.
    :param prefix: prefix of names in refusals.
    :raises agtphost.errors.Refusal: 422 that names the invalid filter.
    """
    return Filters(tuple(_filter(name, value, prefix) for name, value in given.items() if name not in known))


def _filter(name: str, value: Any, prefix: str) -> Accepts:
    where = f"{prefix}{name}"
    if name in ("capability", "capabilities"):
        wanted = _words(where, value)
        return lambda listed: wanted <= _casefold(listed.entry.capabilities)
    if name in ("tag", "tags"):
        wanted = _words(where, value)
        return lambda listed: wanted <= _casefold(listed.entry.tags)
    if name in ("language", "supported_language", "supported_languages"):
        wanted = _words(where, value)
        return lambda listed: all(any(_speaks(each, word) for each in listed.entry.languages) for word in wanted)
    if name == "authentication":
        ways = {_read_authentication(where, each) for each in (value if isinstance(value, list) else [value])}
        return lambda listed: listed.entry.authentication in ways
    if name == "provider":
        wanted = _words(where, value)
        return lambda listed: listed.entry.provider.casefold() in wanted
    if name == "state":
        wanted = _words(where, value)
        if not wanted <= set(STATES):
            raise invalid(where, f"{where} is not a known state.", f"Use {', '.join(STATES)}.")
        return lambda listed: listed.state in wanted
    if name in _OWN:
        return _scalar(name, where, value)
    raise invalid(where[:64], f"{where[:64]} is not a filter of cards.", f"Use {', '.join(NAMES)}.")


NAMES = ("capability", "tag", "language", "authentication", "provider", "state", *sorted(_OWN))


def _scalar(name: str, where: str, value: Any) -> Accepts:
    if not isinstance(value, (str, int, float, bool)) or (isinstance(value, str) and len(value) > LONGEST_WORD):
        raise invalid(
            where,
            f"{where} must be a text of at most {LONGEST_WORD} characters, a number, or true or false.",
            f"Send {where} as a single value.",
        )
    member = "number" if name == "version" else name
    wanted = str(value).casefold()
    return lambda listed: str(getattr(listed.entry, member)).casefold() == wanted


def _words(where: str, value: Any) -> set[str]:
    texts = [value] if isinstance(value, str) else value
    if (
        not isinstance(texts, list)
        or not 0 < len(texts) <= MOST_WORDS
        or not all(isinstance(text, str) and 0 < len(text) <= LONGEST_WORD for text in texts)
    ):
        raise invalid(where, f"{where} must be a text or a list of 1 to {MOST_WORDS} texts.", f"Send {where} as text.")
    return {text.casefold() for text in texts}


def _casefold(words: tuple[str, ...]) -> set[str]:
    return {word.casefold() for word in words}


def _speaks(listed: str, wanted: str) -> bool:
    """Return whether a language is the wanted one or a variant of it: ``zh-Hans`` matches ``zh`` (BCP 47)."""
    own = listed.casefold()
    return own == wanted or own.startswith(f"{wanted}-")


def _read_authentication(where: str, value: Any) -> str:
    found = authentication_of(value)
    if found is None:
        raise invalid(where, f"{where} is not a kind of authentication.", "Use none, API key, OAuth2 or mTLS.")
    return found
