"""
Approve the definitions of upstreams once: tools of MCP servers, cards of A2A agents, manifests of ACP agents.

The first definition seen is approved, and stored durably before it counts, unless the configuration names a digest. A
definition that has changed is off until an operator approves it. An approval is a state item; a change or an approval
is also an event that the host signs: design decision 16.

A pin is a digest, which cannot show a difference. So the definition's text is stored as well, as a separate state item:
the text can be evicted for lack of room, and the pin cannot. A text counts only where its SHA-256 is the approved
digest. The text is missing in an older store, for a configured digest whose definition was never seen, and for one that
is too long.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger

from agtphost.audit.drafts import HOST_CHAIN, Change, LedgerUnavailable, StaleChange, StreamEvent
from agtphost.audit.state import StateItem, StateTable
from agtphost.upstream.failures import NotApproved

PIN = "upstream-pin"
"""
The kind of state items for cards and manifests, with the last reported change. The key is the protocol, the upstream
and the name.
"""

TOOL_PIN = "mcp-tool-pin"
"""The kind of state items for tools. The key is the server and the tool, on a line each."""

REPORTED = "mcp-tool-changed"
"""The kind of state items, with the keys of :data:`TOOL_PIN`, for the reported changes of a tool."""

DEFINITION = "upstream-definition"
"""The kind of state items for texts. The key is as that of :data:`PIN`, for tools too."""

PINNED = "upstream-definition-pinned"
CHANGED = "upstream-definition-changed"
APPROVED = "upstream-definition-approved"

MOST_PINS = 8_000
"""Names of one upstream that are approved when first seen, so that one with ever new names does not fill the store."""

MOST_REPORTED = 8
"""Changes of one tool that are reported until one is approved, so that a changing server does not fill the ledger."""

LONGEST = 64 << 10
"""Octets of a text that is stored."""

MOST_OF_ONE = 1 << 20
"""Octets of the stored texts of one upstream, so that one with ever new definitions does not fill the store."""

MOST_AT_ONCE = 200
"""Changes in one commit."""

RETRY_SECONDS = 1.0
RETRY_SECONDS_MOST = 60.0

Submit = Callable[[Sequence[Change], Sequence[StreamEvent]], Awaitable[object]]
"""Makes changes and signed events durable together."""

log = Logger(namespace="agtphost.upstreams")


@dataclass(frozen=True, slots=True, kw_only=True)
class PinStore:
    """The durable store of approvals."""

    held: StateTable
    submit: Submit
    clock: IReactorTime
    """Times the retries of reports that could not be stored; the changed definitions are off in the meantime."""


class Pins:
    """
    The approved digests of one upstream.

    :param protocol: ``mcp``, ``a2a`` or ``acp``.
    :param configured: digests by name, which take precedence.
    :param store: None keeps approvals in memory, and reports no changes.
    """

    def __init__(
        self, protocol: str, upstream: str, configured: Mapping[str, str] | None = None, store: PinStore | None = None
    ) -> None:
        self._protocol = protocol
        self._upstream = upstream
        self._whole = f"{protocol}\n{upstream}"
        self._tools = protocol == "mcp"
        self._kind, self._member = (TOOL_PIN, "sha256") if self._tools else (PIN, "approved")
        self._prefix = f"{upstream}\n" if self._tools else f"{self._whole}\n"
        self._configured = dict(configured or {})
        self._store = store
        self._approved: dict[str, str] = {}
        self._off: set[str] = set()
        self._waiting: dict[str, tuple[str, str]] = {}
        self._timer: IDelayedCall | None = None
        self._writing = False
        self._pause = RETRY_SECONDS
        self.on_approval: Callable[[], None] = lambda: None
        """Called once an operator has approved something that is off."""

        if store is not None:
            store.held.watch(self._kind, self._take_item)

    def approved_digest(self, name: str) -> str:
        """Return the approved digest; empty where the name was never seen."""
        return self._configured.get(name) or self._approved.get(name, "")

    def is_fixed(self, name: str) -> bool:
        """Return whether the configuration sets the digest, so that no other can be approved."""
        return name in self._configured

    # Definitions of an upstream

    async def check(self, texts: Mapping[str, bytes]) -> frozenset[str]:
        """
        Compare an upstream's present definitions with the approved ones, and approve new names.

        :param texts: what is pinned, as canonical JSON, by name.
        :return: the names of what is off.
        :raises NotApproved: as :meth:`remember` does.
        """
        digests = {name: sha256(text).hexdigest() for name, text in texts.items()}
        await self.remember(digests)
        off = self.find_off(digests)
        self.store_texts({name: digest for name, digest in digests.items() if name not in off}, texts.__getitem__)
        return off

    async def remember(self, digests: Mapping[str, str]) -> None:
        """
        Approve what is seen for the first time, as far as there is room.

        :raises NotApproved: the store is down, so that an approval would be lost.
        """
        room = max(MOST_PINS - len(self._approved), 0)
        first = dict([(name, digest) for name, digest in digests.items() if not self.approved_digest(name)][:room])
        if self._store is None:
            self._approved.update(first)
            return
        for at_once in (MOST_AT_ONCE, 1):
            # If another process stored one of them first, that one counts, and the others are tried one by one.
            left = [(name, digest) for name, digest in first.items() if not self.approved_digest(name)]
            for at in range(0, len(left), at_once):
                batch = left[at : at + at_once]
                changes = [self._put(name, digest, expected=0) for name, digest in batch]
                # A server may list thousands of tools; the other protocols have few definitions, each with an event.
                events = [] if self._tools else [self._event(PINNED, name, sha256=digest) for name, digest in batch]
                try:
                    await self._store.submit(changes, events)
                except StaleChange:
                    continue
                except LedgerUnavailable as error:
                    raise NotApproved(f"its definition cannot be pinned durably: {error}") from None

    def find_off(self, digests: Mapping[str, str]) -> frozenset[str]:
        """Return the names whose definition is not the approved one, and report changes to the host's chain."""
        found = {name: digest for name, digest in digests.items() if self.approved_digest(name) != digest}
        for name, digest in found.items():
            told = self._reported_changes(name)
            if (
                self.approved_digest(name)
                and self._store is not None
                and digest not in told
                and len(told) < MOST_REPORTED
            ):
                self._waiting[name] = digest, self.approved_digest(name)
                self._schedule(0.0)
        self._off = (self._off - digests.keys()) | found.keys()
        return frozenset(found)

    def store_texts(self, approved: Mapping[str, str], text: Callable[[str], bytes]) -> None:
        """
        Store the texts of approved definitions, as far as there is room, so that differences can be shown.

        :param approved: digests by name.
        :param text: returns the canonical JSON of a name, which has that digest; called where it is needed.
        """
        changes = list(self._missing(approved, text))
        if changes:
            keeping = Deferred.fromCoroutine(self._store_all(changes))
            keeping.addErrback(lambda failure: log.warn("definitions of {name} are not kept", name=self._upstream))

    # For operators

    def describe(self, name: str, present: bytes | None) -> dict[str, Any] | None:
        """
        Return the approved and the present definition of a name; None where neither is known.

        :param present: canonical JSON of the present definition; None where that is not known.
        """
        approved = self.approved_digest(name)
        if present is None and not approved:
            return None
        both: dict[str, Any] = {"approved": None, "present": None}
        if approved:
            both["approved"] = {"sha256": approved}
            kept = self._text(name, approved)
            if kept is None and present is not None and sha256(present).hexdigest() == approved:
                kept = present.decode()
            if kept is None:
                both["approved"]["unknown"] = "The host has the digest of this definition, but not its text."
            else:
                both["approved"]["definition"] = kept
        if present is not None:
            both["present"] = {"sha256": sha256(present).hexdigest(), "definition": present.decode()}
        return {**both, "off": present is not None and both["present"]["sha256"] != approved}

    def approval(self, name: str, digest: str, approver: str) -> tuple[tuple[Change, ...], StreamEvent]:
        """Return the change and the event that approve a digest, to be committed with the operator's answer."""
        replaced = self._approved.get(name, "")
        event = self._event(APPROVED, name, sha256=digest, replaced_sha256=replaced, approved_by=approver)
        approved = self._put(name, digest, expected=self._version(self._kind, name))
        if self._store is None:
            self.approve(name, digest)
        if not self._tools:
            return (approved,), event
        return (Change(kind=REPORTED, key=approved.key, value=None), approved), event

    def approve(self, name: str, digest: str) -> None:
        """Take an approved digest, which the store, if any, has already."""
        before = self.approved_digest(name)
        self._approved[name] = digest
        if name in self._off and self.approved_digest(name) != before:
            self._waiting.pop(name, None)
            self.on_approval()

    def _take_item(self, key: str, item: StateItem | None) -> None:
        if item is not None and key.startswith(self._prefix):
            self.approve(key.removeprefix(self._prefix), str(item.value[self._member]))

    def _item(self, kind: str, name: str) -> StateItem | None:
        return None if self._store is None else self._store.held.get(kind, f"{self._prefix}{name}")

    def _version(self, kind: str, name: str) -> int:
        item = self._item(kind, name)
        return 0 if item is None else item.version

    def _put(self, name: str, digest: str, expected: int, seen: str = "") -> Change:
        """Return the change that stores a digest. It fails if another change was stored since ``expected``."""
        value = {"sha256": digest} if self._tools else {"approved": digest, "seen": seen}
        return Change(kind=self._kind, key=f"{self._prefix}{name}", value=value, expected=expected)

    def _reported_changes(self, name: str) -> tuple[str, ...]:
        """Return the changes reported since the last approval; of a card or a manifest the last one."""
        item = self._item(REPORTED if self._tools else PIN, name)
        if item is None:
            return ()
        return tuple(item.value["told"]) if self._tools else tuple(filter(None, (item.value["seen"],)))

    def _report_change(self, name: str, digest: str, approved: str) -> Change:
        if not self._tools:
            return self._put(name, approved, expected=self._version(PIN, name), seen=digest)
        told = {"told": [*self._reported_changes(name), digest]}
        return Change(kind=REPORTED, key=f"{self._prefix}{name}", value=told, expected=self._version(REPORTED, name))

    def _event(self, kind: str, name: str, **fields: object) -> StreamEvent:
        named = {"protocol": self._protocol, "upstream": self._upstream, **({"name": name} if name else {})}
        return StreamEvent(chain=HOST_CHAIN, event_type=kind, fields={**named, **fields})

    def _schedule(self, seconds: float) -> None:
        if self._store is not None and self._timer is None and not self._writing:
            self._timer = self._store.clock.callLater(seconds, self._begin)

    def _begin(self) -> None:
        self._timer = None
        self._writing = True
        Deferred.fromCoroutine(self._write()).addBoth(self._finish_write)

    async def _write(self) -> None:
        assert self._store is not None, "without a store nothing is reported"
        batch = dict(list(self._waiting.items())[: MOST_AT_ONCE // 2])
        changes = [self._report_change(name, *entry) for name, entry in batch.items()]
        events = [self._event(CHANGED, name, sha256=new, approved_sha256=old) for name, (new, old) in batch.items()]
        await self._store.submit(changes, events)
        for name, entry in batch.items():
            if self._waiting.get(name) == entry:
                del self._waiting[name]

    def _finish_write(self, outcome: Any) -> None:
        self._writing = False
        if outcome is None:
            self._pause = RETRY_SECONDS
            if self._waiting:
                self._schedule(0.0)
            return
        if outcome.check(LedgerUnavailable, StaleChange) is None:
            log.failure("changed definitions are not reported", outcome)
        # Changes reported by others in the meantime, or before the store was read, are not reported again.
        self._waiting = {
            name: entry for name, entry in self._waiting.items() if entry[0] not in self._reported_changes(name)
        }
        if self._waiting:
            self._schedule(self._pause)
            self._pause = min(self._pause * 2, RETRY_SECONDS_MOST)

    # Texts

    def _text(self, name: str, digest: str) -> str | None:
        """Return the canonical JSON whose SHA-256 is ``digest``; None where it is not stored."""
        item = None if self._store is None else self._store.held.get(DEFINITION, f"{self._whole}\n{name}")
        return None if item is None or item.brief["sha256"] != digest else str(item.value["text"])

    def _missing(self, approved: Mapping[str, str], text: Callable[[str], bytes]) -> Iterator[Change]:
        """Yield the changes that store missing texts."""
        if self._store is None:
            return
        items = self._store.held.items_by(DEFINITION, "upstream", self._whole)
        known = {item.key.rpartition("\n")[2]: item for item in items}
        new = [name for name, digest in approved.items() if name not in known or known[name].brief["sha256"] != digest]
        room = MOST_OF_ONE - sum(item.octets for name, item in known.items() if name not in new) if new else 0
        for name in new:
            octets = text(name)
            if len(octets) > LONGEST:
                continue
            room -= len(octets)
            if room < 0:
                return
            value = {"upstream": self._whole, "sha256": approved[name], "text": octets.decode()}
            yield Change(kind=DEFINITION, key=f"{self._whole}\n{name}", value=value)

    async def _store_all(self, changes: Sequence[Change]) -> None:
        assert self._store is not None, "without a store no text is missing"
        for at in range(0, len(changes), MOST_AT_ONCE):
            await self._store.submit(changes[at : at + MOST_AT_ONCE], ())
