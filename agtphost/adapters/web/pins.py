"""
What upstreams say of themselves, approved once and for all: cards of A2A agents, manifests of ACP agents.

What is seen first is approved, unless the configuration names a digest. The approval is a state item, so it outlives
the host; what changed since is off until an operator approves it. Each of these moments is an event that the host
signs: design decision 16.
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from hashlib import sha256
from typing import Any

from agtphost.adapters.definitions import Definitions
from agtphost.audit.drafts import HOST_CHAIN, Change, LedgerUnavailable, StaleChange, StreamEvent
from agtphost.audit.state import StateItem, StateTable
from agtphost.upstream.failures import NotApproved

KIND = "upstream-pin"
"""Of state items."""

PINNED = "upstream-definition-pinned"
CHANGED = "upstream-definition-changed"
APPROVED = "upstream-definition-approved"

Submit = Callable[[Sequence[Change], Sequence[StreamEvent]], Awaitable[object]]
"""Makes changes and signed events durable together."""


class Pins:
    """
    The approved digests of one upstream.

    :param protocol: ``a2a`` or ``acp``.
    :param configured: by name; these win over everything.
    :param held: where approvals are kept; None keeps them in memory alone.
    """

    def __init__(
        self,
        protocol: str,
        upstream: str,
        configured: Mapping[str, str],
        held: StateTable | None = None,
        submit: Submit | None = None,
    ) -> None:
        self._protocol = protocol
        self._upstream = upstream
        self._configured = configured
        self._held = held
        self._submit = submit
        self.definitions = Definitions(protocol, upstream, held)
        self._memory: dict[str, dict[str, Any]] = {}
        self.on_approval: Callable[[], None] = lambda: None
        """Called once an operator has approved something."""

        if held is not None:
            held.watch(KIND, self._watched)

    def approved(self, name: str) -> str:
        """The approved digest; empty where nothing was ever seen."""
        return self._configured.get(name) or str(self._known(name).get("approved", ""))

    def fixed(self, name: str) -> bool:
        """Whether the configuration names the digest, so that nobody else can approve another."""
        return name in self._configured

    async def judge(self, texts: Mapping[str, bytes]) -> frozenset[str]:
        """
        Compare what an upstream says now with what is approved.

        :param texts: what is pinned, as canonical JSON, by name.
        :return: the names of what is off.
        :raises NotApproved: the store is down: nothing is approved that would be forgotten.
        """
        changes: list[Change] = []
        events: list[StreamEvent] = []
        changed = set()
        found = {name: sha256(text).hexdigest() for name, text in texts.items()}
        for name, digest in found.items():
            known, approved = self._known(name), self.approved(name)
            if not approved:
                changes.append(self._change(name, {"approved": digest, "seen": ""}))
                events.append(self._event(PINNED, name, sha256=digest))
                continue
            seen = "" if digest == approved else digest
            if seen:
                changed.add(name)
            if seen != known.get("seen", ""):
                changes.append(self._change(name, {"approved": approved, "seen": seen}))
                if seen:
                    events.append(self._event(CHANGED, name, sha256=seen, approved_sha256=approved))
        if changes:
            await self._commit(changes, events)
        approved_now = {name: digest for name, digest in found.items() if name not in changed}
        kept = list(self.definitions.missing(approved_now, texts.__getitem__))
        if kept:
            with contextlib.suppress(NotApproved):  # Without them a difference cannot be shown, and no more.
                await self._commit(kept, ())
        return frozenset(changed)

    def shown(self, name: str, present: bytes | None) -> Mapping[str, Any] | None:
        """The approved and the present definition of that name; None where nothing of it is known."""
        approved = self.approved(name)
        return None if present is None and not approved else self.definitions.shown(name, approved, present)

    def approval(self, name: str, digest: str, approver: str) -> tuple[Change, StreamEvent]:
        """What is committed with the answer to the operator that approves a digest."""
        known = self._known(name)
        event = self._event(
            APPROVED, name, sha256=digest, replaced_sha256=known.get("approved", ""), approved_by=approver
        )
        return self._change(name, {"approved": digest, "seen": ""}), event

    # Behind these

    def _key(self, name: str) -> str:
        return f"{self._protocol}\n{self._upstream}\n{name}"

    def _known(self, name: str) -> Mapping[str, Any]:
        if self._held is None:
            return self._memory.get(name, {})
        item = self._held.get(KIND, self._key(name))
        return {} if item is None else item.value

    def _change(self, name: str, value: Mapping[str, str]) -> Change:
        """On what is known now: a first sight, or an approval, that somebody else's went before is none."""
        item = None if self._held is None else self._held.get(KIND, self._key(name))
        expected = None if self._held is None else 0 if item is None else item.version
        return Change(kind=KIND, key=self._key(name), value=value, expected=expected)

    def _event(self, kind: str, name: str, **fields: object) -> StreamEvent:
        named = {"protocol": self._protocol, "upstream": self._upstream, **({"name": name} if name else {})}
        return StreamEvent(chain=HOST_CHAIN, event_type=kind, fields={**named, **fields})

    async def _commit(self, changes: Sequence[Change], events: Sequence[StreamEvent]) -> None:
        if self._held is None or self._submit is None:
            self._memory.update({change.key.rpartition("\n")[2]: dict(change.value or {}) for change in changes})
            return
        try:
            await self._submit(changes, events)
        except (LedgerUnavailable, StaleChange) as error:
            raise NotApproved(f"what it says of itself cannot be pinned durably: {error}") from None

    def _watched(self, key: str, item: StateItem | None) -> None:
        protocol, upstream, _ = key.split("\n", 2)
        if (protocol, upstream) == (self._protocol, self._upstream) and item is not None and not item.value["seen"]:
            self.on_approval()
