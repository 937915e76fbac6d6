"""The outcome of a call, before it is sealed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from agtphost.audit.drafts import Change, LifecycleEvent, Sealed, StreamEvent
from agtphost.errors import Refusal
from agtphost.handlers.built_in import Answer
from agtphost.vocabulary.jsonslices import Encoded


@dataclass(frozen=True, slots=True, kw_only=True)
class LifecycleOutcome(Answer):
    """The outcome of a lifecycle method: the event to commit, and the result to build from it."""

    event: LifecycleEvent
    describe: Callable[[Sealed], Mapping[str, Any]]


@dataclass(slots=True)
class Outcome:
    """An answer before it is sealed."""

    status: int
    body: bytes
    content_type: str
    headers: tuple[tuple[str, str], ...] = ()
    own: bool = True
    """Whether the body is JSON of this process's own; False for ready octets that a handler gave."""

    result: Encoded | None = None
    """The ``result`` that the body has in the octets of a server behind the host; None for all others."""

    digest: str = ""
    """SHA-256 of a long body, hex, worked out beforehand; empty: it is short."""

    reason: str = ""
    close: bool = False
    event: LifecycleEvent | None = None
    describe: Callable[[Sealed], Mapping[str, Any]] | None = None
    changes: tuple[Change, ...] = ()
    events: tuple[StreamEvent, ...] = ()
    extra: Mapping[str, Any] | None = None
    continuation: str = ""
    """A Continuation-Token: this is an interim message."""
    scopes: tuple[str, ...] = ()
    """With 262 and 455: the scopes concerned."""
    cause: str = ""
    """What was wrong, where :attr:`reason` is coarser."""

    cure: str = ""
    """The command by which an operator lifts the refusal."""

    conflict: Callable[[], Refusal | None] | None = None
    """Returns the refusal if another request changed one of the items first; None: the usual one."""
