"""
Record which caller and Task-ID each task of an upstream belongs to: durable, and looked up on every call.

An upstream knows only this host, so it would give the same answers about tasks to all callers. Therefore this host
restricts callers to the tasks, runs and conversations that they began themselves.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from agtphost.audit.drafts import Change
from agtphost.audit.state import StateItem, StateTable
from agtphost.vocabulary import jsontext

KEEP_SECONDS = 30 * 86_400
"""Seconds that a link is kept after its last change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnedTask:
    """A task or run of an upstream, linked to its owner."""

    owner: str
    """The state owner of the caller that began it (:func:`agtphost.identity.peer.state_owner`)."""

    upstream: str
    remote_id: str
    """The upstream's id of it; empty for a conversation that has no task."""

    task_id: str
    """The AGTP Task-ID."""

    conversation: str = ""
    """The upstream's id of the conversation: A2A's contextId, ACP's session id."""

    session_id: str = ""
    """The AGTP Session-ID it belongs to; empty where the caller named none."""

    state: str = ""
    """The last state that the upstream reported."""

    updated: int = 0
    """Seconds since the epoch."""

    client: str = ""
    """The owner's client that began it; empty: the owner itself. Clients do not see each other's tasks."""

    shown: str = ""
    """The client's id of the conversation; empty: the same as the upstream's."""

    agent_id: str = ""
    """The Agent-ID that the caller named, where :attr:`owner` is a separate name; empty: the same as the owner."""

    @property
    def key(self) -> str:
        """The key that is unique among links of a kind."""
        named = self.remote_id
        if not named:
            named = f"session\n{self.session_id}" if self.session_id else f"conversation\n{self.conversation}"
        whose = f"{self.owner}\n{self.client}" if self.client else self.owner
        return sha256(f"{whose}\n{self.upstream}\n{named}".encode()).hexdigest()


class TaskOwnership:
    """
    The table of links of one kind.

    :param held: the table of state items that stores them.
    :param kind: the kind of state item.
    :param now: seconds since the epoch.
    """

    def __init__(self, held: StateTable, kind: str, now: Callable[[], float] = time.time) -> None:
        self._kind = kind
        self._now = now
        self._by_key: dict[str, OwnedTask] = {}
        self._by_owner: dict[str, dict[str, OwnedTask]] = {}
        held.watch(kind, self._take_item)

    def _take_item(self, key: str, item: StateItem | None) -> None:
        known = self._by_key.pop(key, None)
        if known is not None:
            self._by_owner[known.owner].pop(key, None)
            if not self._by_owner[known.owner]:
                del self._by_owner[known.owner]
        if item is not None:
            link = self._by_key[key] = _link(item.owner, item.value)
            self._by_owner.setdefault(link.owner, {})[key] = link

    def list_of(self, owner: str, upstream: str, client: str = "") -> Iterator[OwnedTask]:
        """Return a caller's links with an upstream, the last changed first."""
        links = self._by_owner.get(owner, {})
        return (link for link in reversed(list(links.values())) if (link.upstream, link.client) == (upstream, client))

    def list_all_of(self, owner: str) -> tuple[OwnedTask, ...]:
        """Return a caller's links with every upstream of the kind."""
        return tuple(self._by_owner.get(owner, {}).values())

    def by_task(self, owner: str, upstream: str, task_id: str | None) -> OwnedTask | None:
        """Return the newest link of a Task-ID, or None."""
        if task_id is None:
            return None
        return next(
            (link for link in self.list_of(owner, upstream) if link.task_id == task_id and link.remote_id), None
        )

    def by_remote(self, owner: str, upstream: str, remote_id: str, client: str = "") -> OwnedTask | None:
        """Return the link of an upstream's id, or None."""
        named = OwnedTask(owner=owner, upstream=upstream, remote_id=remote_id, task_id="", client=client)
        return self._by_key.get(named.key)

    def find_conversation(self, owner: str, upstream: str, session_id: str | None) -> str:
        """Return the upstream's id of the caller's session; empty where it has none."""
        if session_id is None:
            return ""
        found = (link.conversation for link in self.list_of(owner, upstream) if link.session_id == session_id)
        return next((conversation for conversation in found if conversation), "")

    def owns_conversation(self, owner: str, upstream: str, conversation: str) -> bool:
        """Return whether a caller takes part in a conversation."""
        return any(link.conversation == conversation for link in self.list_of(owner, upstream))

    def changes(self, link: OwnedTask) -> tuple[Change, ...]:
        """Return the changes that store a link; empty if it is stored unchanged."""
        known = self._by_key.get(link.key)
        now = int(self._now())
        if known is not None and _value(known, known.updated) == _value(link, known.updated):
            return ()
        put = Change(
            kind=self._kind,
            key=link.key,
            value=_value(link, now),
            owner=link.owner,
            expires_at=(now + KEEP_SECONDS) * 1000,
        )
        return (put,)

    def removal(self, link: OwnedTask) -> Change:
        """Return the change that removes a link."""
        return Change(kind=self._kind, key=link.key, value=None, owner=link.owner)


def _value(link: OwnedTask, updated: int) -> dict[str, Any]:
    return {
        "upstream": link.upstream,
        "remote_id": link.remote_id,
        "task_id": link.task_id,
        "conversation": link.conversation,
        "session_id": link.session_id,
        "state": link.state,
        "updated": updated,
        # Most links have none of these, and earlier versions stored links without them.
        **({"client": link.client} if link.client else {}),
        **({"shown": link.shown} if link.shown else {}),
        **({"agent_id": link.agent_id} if link.agent_id not in ("", link.owner) else {}),
    }


def _link(owner: str, value: Mapping[str, Any]) -> OwnedTask:
    more = {name: value[name] for name in ("client", "shown", "agent_id") if name in value}
    return OwnedTask(owner=owner, **{name: value[name] for name in _value(_NONE, 0)}, **more)


_NONE = OwnedTask(owner="", upstream="", remote_id="", task_id="")

LONGEST_ID = 256
"""Characters of an identifier that an upstream gives."""


def is_remote_id(value: object) -> bool:
    """Return whether an upstream's identifier can be stored and sent back."""
    return isinstance(value, str) and 0 < len(value) <= LONGEST_ID and value.isprintable()


def fits(value: object, most: int) -> bool:
    """Return whether a value's JSON has at most ``most`` octets."""
    return len(jsontext.encode(value)) <= most
