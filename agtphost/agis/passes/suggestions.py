"""Suggestions for words that are not methods; no suggestion is itself refused (AGIS v01 sections 4.2, 4.3)."""

from __future__ import annotations

from agtphost.agis.words import Words

PROHIBITED = {
    "GET": "FETCH or RETRIEVE",
    "POST": "CREATE or SUBMIT",
    "PUT": "REPLACE",
    "DELETE": "REMOVE",
    "PATCH": "MODIFY",
    "HEAD": "CHECK",
    "OPTIONS": "DESCRIBE",
    "CONNECT": "LINK",
    "TRACE": "TRACK",
}
"""HTTP's methods with their replacements (AGIS v01 section 4.3)."""

INSTEAD = {"OPEN": "UNLOCK, START or CREATE", "VALID": "VALIDATE", "ACTIVE": "ACTIVATE", "AVAILABLE": "CHECK or FIND"}
"""States, with the verbs that lead to them."""

WHAT_IS = "CHECK or FIND"
"""The suggestion for other states."""


def acceptable_method(known: Words, verb: str) -> str:
    """Return a method for the action of a verb; empty if it cannot be known."""
    if verb in PROHIBITED:
        return PROHIBITED[verb].partition(" ")[0]
    return "" if verb in known.states or verb in known.borderline else verb


def method_for(known: Words, word: str) -> str:
    """Return the method that a word means, which may be a form of a verb, an HTTP method, or a state."""
    verb = known.base_of_method(word) or word.upper()
    if verb in known.states:
        return INSTEAD.get(verb, WHAT_IS).partition(" or ")[0].partition(", ")[0]
    return acceptable_method(known, verb) or verb


def split_compound(known: Words, words: list[str]) -> tuple[str, str]:
    """Return the method and the path that several words mean: ``userList`` is LIST on ``/user``."""
    things = known.things | known.states
    last = words[-1] if words[0] in things and known.is_verb(words[-1]) and words[-1] not in known.states else ""
    rest = words[:-1] if last else words[1:]
    return method_for(known, last or words[0]), f"/{'-'.join(word.lower() for word in rest)}"
