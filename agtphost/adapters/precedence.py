"""
Give AGTP's header fields precedence over payloads: core v08 section 8.3 (AGTP-272).

No gate ever reads a payload, so nothing in one decides who is calling or what they may do. This module detects payloads
that contradict the headers, and removes such claims before payloads are passed on.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any, cast

from twisted.logger import LogLevel
from zope.interface import implementer

from agtphost.adapters.callers import agent_of
from agtphost.contract.binding import Resolution
from agtphost.handlers.built_in import Answer, BuiltInContext, IBuiltInHandler
from agtphost.vocabulary import scopes

_FIELDS = {
    "agentid": "Agent-ID",
    "ownerid": "Owner-ID",
    "principalid": "Owner-ID",
    "authorityscope": "Authority-Scope",
    "delegationchain": "Delegation-Chain",
    "sessionid": "Session-ID",
    "taskid": "Task-ID",
}
"""Names under which payloads repeat header fields, without case, dots, dashes, underscores and an ``agtp`` prefix."""

Say = Callable[[str, LogLevel], None]
"""Logs one line about an upstream."""

_PREFIXES = ("agtp", "xagtp")


LONGEST_CACHED = 64
"""Characters of a name that is remembered; callers choose the names, and a longer one is read each time."""


def field_of(name: str) -> str | None:
    """Return the header field that a member of a payload repeats, or None."""
    return _find_field(name) if len(name) <= LONGEST_CACHED else _find_field.__wrapped__(name)


@lru_cache(1024)  # calls have the same few members: 48 us of 390 for four names
def _find_field(name: str) -> str | None:
    plain = "".join(character for character in name.lower() if character.isalnum())
    for prefix in _PREFIXES:
        plain = plain.removeprefix(prefix) if plain.startswith(prefix) else plain
    return _FIELDS.get(plain)


def is_claim(name: str) -> bool:
    """Return whether a member of metadata has a name of the host's, or repeats a header field."""
    return name.lower().startswith(("agtp.", "agtp/", "agtp_", "agtp-")) or field_of(name) is not None


def repeats(place: Mapping[str, Any]) -> bool:
    """Return whether an object of a payload has a member that repeats a header field."""
    return any(name == "agent" or field_of(name) is not None for name in place)


def drop_claims(metadata: Any) -> dict[str, Any]:
    """Return metadata without members that belong to the headers or the host."""
    given = metadata if isinstance(metadata, dict) else {}
    return {name: value for name, value in given.items() if not is_claim(name)}


def differences(context: BuiltInContext, *places: Any) -> tuple[str, ...]:
    """
    Return the header fields that a payload contradicts, sorted.

    :param places: objects of the payload whose members may repeat header fields: itself, its metadata.
    """
    return tuple(sorted({field for field, value in _claims(places) if not _matches_header(context, field, value)}))


def log_contradiction(say: Say, context: BuiltInContext, contradicted: tuple[str, ...]) -> dict[str, object]:
    """Log that a payload contradicts header fields, and return the record's members about it."""
    if not contradicted:
        return {}
    named = ", ".join(contradicted)
    say(f"a payload of {agent_of(context)[:16]} contradicts {named}; the header fields count", LogLevel.warn)
    return {"payload_contradicts": list(contradicted)}


def add_mismatch_check(resolution: Resolution, places: tuple[Any, ...], say: Say) -> Resolution:
    """
    Return a resolution whose call first compares the payload with the headers; the same if the payload repeats none.

    :param places: objects of the payload whose members the caller set; other values are ignored.
    """
    # Nearly all are dicts, of which the abstract class need not be asked: it asks in Python.
    given = tuple([each for each in places if (type(each) is dict or isinstance(each, Mapping)) and repeats(each)])
    if not given:
        return resolution
    return replace(resolution, handler=MismatchCheck(cast(IBuiltInHandler, resolution.effective_handler), say, given))


@implementer(IBuiltInHandler)
class MismatchCheck:
    """
    A handler that logs and records where a payload contradicts the header fields, and then calls another handler.

    :param handler: makes the call by the header fields.
    :param say: logs a contradiction.
    :param places: the objects of the payload that have members which repeat header fields.
    """

    __slots__ = ("_handler", "_places", "_say", "kind")

    def __init__(self, handler: IBuiltInHandler, say: Say, places: tuple[Mapping[str, Any], ...]) -> None:
        self.kind = handler.kind
        self._handler = handler
        self._say = say
        self._places = places

    async def handle(self, context: BuiltInContext) -> Any:
        """Return the answer, with the contradicted fields in its record."""
        record = log_contradiction(self._say, context, differences(context, *self._places))
        answer: Any = self._handler.handle(context)
        if isinstance(answer, Awaitable):
            answer = await answer
        if not record or not isinstance(answer, Answer):
            return answer
        return replace(answer, extra={**answer.extra, **record})


def _claims(places: tuple[Any, ...]) -> Iterator[tuple[str, Any]]:
    for place in places:
        if not isinstance(place, Mapping):
            continue
        for name, value in place.items():
            field = field_of(name)
            if field is not None:
                yield field, value
        agent = place.get("agent")
        if isinstance(agent, Mapping) and "id" in agent:
            yield "Agent-ID", agent["id"]


def _matches_header(context: BuiltInContext, field: str, value: Any) -> bool:
    caller = context.caller
    if field == "Agent-ID":
        return caller is not None and value == caller.agent_id
    if field == "Owner-ID":
        return caller is not None and value == caller.owner_id
    if field == "Session-ID":
        return bool(value == context.session_id)
    if field == "Task-ID":
        return bool(value == context.task_id)
    if field == "Authority-Scope":
        return _scopes(value) == context.scopes
    return False


def _scopes(value: Any) -> frozenset[str] | None:
    try:
        if isinstance(value, str):
            return scopes.parse(value)
        return frozenset(value) if isinstance(value, list) else None
    except (scopes.ScopeError, TypeError):
        return None
