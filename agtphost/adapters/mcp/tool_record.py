"""
Puts into the host's own chain what happens to tools: a definition changed and the tool is off, or was approved.

The events are those that other protocols' upstreams have too (:mod:`agtphost.adapters.web.pins`), with ``protocol``
``mcp``, ``upstream`` the server and ``name`` the tool. Each definition is told once, however often a server lists it,
whichever of its instances does, and across restarts of the host: what was told is a state item until the next approval.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger

from agtphost.audit.drafts import HOST_CHAIN, Change, LedgerUnavailable, StaleChange, StreamEvent
from agtphost.audit.state import StateTable
from agtphost.errors import Refusal
from agtphost.vocabulary.status import Status

KIND = "mcp-tool-changed"
"""Of state items; the key is the server and the tool, on a line each."""

CHANGED = "upstream-definition-changed"
APPROVED = "upstream-definition-approved"

MOST_DEFINITIONS = 8
"""Definitions of one tool that are told until one is approved: a server that changes them all day fills no ledger."""

MOST_AT_ONCE = 100
RETRY_SECONDS = 1.0
RETRY_SECONDS_MOST = 60.0

Submit = Callable[[Sequence[Change], Sequence[StreamEvent]], Awaitable[object]]
"""Makes changes and signed events durable together."""

log = Logger(namespace="agtphost.mcp")


class ToolRecord:
    """
    Writes these events.

    :param clock: tries again where the store is down; the tool is off meanwhile.
    :param held: what was told before.
    :param submit: writes.
    """

    def __init__(self, clock: IReactorTime, held: StateTable, submit: Submit) -> None:
        self._clock = clock
        self._held = held
        self._submit = submit
        self._waiting: dict[str, tuple[str, str]] = {}
        self._timer: IDelayedCall | None = None
        self._writing = False
        self._pause = RETRY_SECONDS

    def changed(self, server: str, tool: str, digest: str, approved: str) -> None:
        """Tell that a tool is off because its definition is not the approved one; soon, and once."""
        key = _key(server, tool)
        seen = self._seen(key)
        if digest in seen or len(seen) >= MOST_DEFINITIONS:
            return
        self._waiting[key] = digest, approved
        self._later(0.0)

    async def approved(self, pinned: Change, digest: str, replaced: str, approver: str) -> None:
        """
        Make durable that a definition was approved, and the approval itself with it.

        :param pinned: makes it so; its key names the server and the tool.
        :param approver: the key fingerprint or the Agent-ID.
        :raises Refusal: 409 where the pin changed meanwhile, 503 where the store is down.
        """
        key = pinned.key
        before = self._held.get(pinned.kind, key)
        pinned = replace(pinned, expected=0 if before is None else before.version)
        self._waiting.pop(key, None)
        event = _event(APPROVED, key, sha256=digest, replaced_sha256=replaced, approved_by=approver)
        try:
            await self._submit((Change(kind=KIND, key=key, value=None), pinned), (event,))
        except StaleChange as error:
            raise Refusal(
                Status.CONFLICT,
                "state-conflict",
                "Another approval of the same tool came first.",
                remedy="Look at the tool again, and decide again.",
            ) from error
        except LedgerUnavailable as error:
            raise Refusal(
                Status.UNAVAILABLE,
                "store-unavailable",
                "The approval cannot be recorded, so the tool stays off.",
                remedy="Try again once the host's store works.",
                headers=(("Retry-After", "5"),),
            ) from error

    # Behind these

    def _seen(self, key: str) -> tuple[str, ...]:
        item = self._held.get(KIND, key)
        return () if item is None else tuple(item.value["told"])

    def _later(self, seconds: float) -> None:
        if self._timer is None and not self._writing:
            self._timer = self._clock.callLater(seconds, self._begin)

    def _begin(self) -> None:
        self._timer = None
        self._writing = True
        Deferred.fromCoroutine(self._write()).addBoth(self._written)

    async def _write(self) -> None:
        batch = dict(list(self._waiting.items())[:MOST_AT_ONCE])
        changes, events = [], []
        for key, (digest, approved) in batch.items():
            item = self._held.get(KIND, key)
            told = [*self._seen(key), digest]
            version = 0 if item is None else item.version
            changes.append(Change(kind=KIND, key=key, value={"told": told}, expected=version))
            events.append(_event(CHANGED, key, sha256=digest, approved_sha256=approved))
        await self._submit(changes, events)
        for key, entry in batch.items():
            if self._waiting.get(key) == entry:
                del self._waiting[key]

    def _written(self, outcome: Any) -> None:
        self._writing = False
        if outcome is None:
            self._pause = RETRY_SECONDS
            if self._waiting:
                self._later(0.0)
            return
        if outcome.check(LedgerUnavailable, StaleChange) is None:
            log.failure("changed tools are not told of", outcome)
        # What was told meanwhile, or before the store was read, is not told again.
        self._waiting = {key: entry for key, entry in self._waiting.items() if entry[0] not in self._seen(key)}
        if self._waiting:
            self._later(self._pause)
            self._pause = min(self._pause * 2, RETRY_SECONDS_MOST)


def _key(server: str, tool: str) -> str:
    return f"{server}\n{tool}"


def _event(kind: str, key: str, **fields: object) -> StreamEvent:
    server, _, tool = key.partition("\n")
    named = {"protocol": "mcp", "upstream": server, "name": tool}
    return StreamEvent(chain=HOST_CHAIN, event_type=kind, fields={**named, **fields})
