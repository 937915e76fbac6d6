"""
The mark of code that GENERATE made and that was not reviewed (methods v01 sections 4.12 and 10.4).

GENERATE leaves the digest of its code (:func:`mark_change`), VALIDATE that finds the code sound takes it away
(:func:`clear_changes`), and no RUN gets a text that bears one, unless a person approves that very call
(:class:`agtphost.dispatch.gates.procedure.ProcedureGate`).
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from hashlib import sha256
from typing import Any, Final

from agtphost.audit.drafts import Change
from agtphost.audit.state import StateTable
from agtphost.errors import Refusal
from agtphost.vocabulary.reasons import Reason
from agtphost.vocabulary.steps import run_to_end

MARK: Final = "generated-code"
"""The kind of state item: digests of code that was not reviewed."""

KEPT: Final = 30 * 86_400
"""Seconds that a mark lasts."""

PIECE: Final = 32_768
"""Characters of a text, and a line more, that are looked at in one go."""


def digest(code: str) -> str:
    """Return the digest by which a piece of code is known; blank lines and trailing spaces do not change it."""
    return run_to_end(_digesting(code))


def _digesting(code: str) -> Generator[None, None, str]:
    found, separator, at = sha256(), "", 0
    while at <= len(code):
        end = code.find("\n", at + PIECE)
        end = len(code) if end < 0 else end
        lines = "\n".join(filter(None, map(str.rstrip, code[at:end].split("\n"))))
        if lines:
            found.update((separator + lines).encode("utf-8", "surrogatepass"))
            separator = "\n"
        at = end + 1
        yield
    return found.hexdigest()


def mark_change(code: str, owner: str, now: float) -> Change:
    """
    Return the change that GENERATE commits with its answer, where ``output_type`` is ``code``.

    :param owner: the owner of the caller's state (``context.owner``).
    :param now: seconds since the epoch.
    """
    known = digest(code)
    value = {"sha256": known, "made_at": int(now)}
    return Change(kind=MARK, key=known, value=value, owner=owner, expires_at=int((now + KEPT) * 1000))


def clear_changes(held: StateTable, looked_at: Any) -> tuple[Change, ...]:
    """
    Return the changes that VALIDATE commits with its answer where all that it was given is sound.

    :param looked_at: everything that was found sound.
    """
    found = {digest(text) for text in texts(looked_at)}
    items = (held.get(MARK, each) for each in sorted(found))
    return tuple(Change(kind=MARK, key=item.key, value=None, owner=item.owner) for item in items if item is not None)


def require_clear(held: StateTable, value: Any) -> Generator[None, None, None]:
    """
    Check in steps that RUN's input has no generated code that was not reviewed.

    :raises Refusal: 403.
    """
    for text in texts(value):
        if held.get(MARK, (yield from _digesting(text))) is not None:
            raise Refusal(Reason.GENERATED_CODE)


def texts(value: Any) -> Iterator[str]:
    """Yield every text in a JSON value that says anything; of members' names, the long ones."""
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, str):
            if each.strip():
                yield each
        elif isinstance(each, Mapping):
            waiting.extend(each.values())
            waiting.extend(name for name in each if len(name) > 64)
        elif isinstance(each, list):
            waiting.extend(each)
