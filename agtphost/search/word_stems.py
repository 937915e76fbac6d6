"""The words of a text, and their stems: simple, offline, and deterministic."""

from __future__ import annotations

import re
from functools import lru_cache

_WORD = re.compile(r"[^\W_]+")

_INNER_CAPITAL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
"""The end of a word in a name such as ``createIssue``."""

_COMMON = (
    "a about all also an and any are as at be been being but by can could did do does each for from get give had has"
    " have how i if in into is it its let many me more most much my no not of on one only or other our out over please"
    " same she should show so some such tell than that the their them then there these they this those to too up us"
    " want was we were what when where which who whose why will with would you your"
)
STOP_WORDS = frozenset(_COMMON.split())

_ENDINGS = (
    ("ations", ""),
    ("ation", ""),
    ("ities", "ity"),
    ("ings", ""),
    ("ing", ""),
    ("ies", "y"),
    ("ied", "y"),
    ("sses", "ss"),
    ("xes", "x"),
    ("ches", "ch"),
    ("shes", "sh"),
    ("ers", ""),
    ("er", ""),
    ("ed", ""),
    ("ly", ""),
    ("es", "e"),
    ("s", ""),
)


LONGEST_WORD = 64
"""Characters of a word that is stemmed; longer ones are not words, and are not cached."""


def stem(word: str) -> str:
    """
    Return a lower-case word without its most common English endings.

    ``reserve``, ``reserves``, ``reserved`` and ``reserving`` have the same stem.
    """
    return word if len(word) > LONGEST_WORD else _stem(word)


@lru_cache(maxsize=20_000)
def _stem(word: str) -> str:
    if len(word) > 3 and word.isascii() and word.isalpha() and not word.endswith("ss"):
        for ending, instead in _ENDINGS:
            if word.endswith(ending) and len(word) - len(ending) >= 3:
                word = word[: -len(ending)] + instead
                break
    if len(word) > 3 and word[-1] == word[-2] and word[-1] not in "aeiols":
        word = word[:-1]
    return word[:-1] if len(word) > 3 and word.endswith("e") else word


def words(text: str) -> list[str]:
    """Return the lower-case words of a text in their order, without words that every text has."""
    return [word for word in _WORD.findall(text.lower()) if word not in STOP_WORDS]


def terms(text: str) -> list[str]:
    """Return the stems of a text's words in their order."""
    return [stem(word) for word in words(text)]


def split_name(name: str) -> str:
    """Return a name as words: ``createIssue`` as ``create Issue``, ``list_issues`` as ``list issues``."""
    return " ".join(_WORD.findall(_INNER_CAPITAL.sub(" ", name)))


def without_stop_words(text: str) -> str:
    """Return a text without words that every text has; the text itself if it has no others."""
    return " ".join(word for word in text.split() if word.strip(".,:;!?").lower() not in STOP_WORDS) or text
