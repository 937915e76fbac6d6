"""Other AGTP hosts that this one may ask: those of ``[[delegation.peers]]``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True, kw_only=True)
class HostAnswer:
    """The answer of another host, its answering record verified."""

    status: int
    document: Mapping[str, Any]
    """The body; empty where it is not a JSON object."""

    audit_id: str
    doubt: str
    """Why the record does not prove the answer; empty where it does."""


class HostUnreachable(Exception):
    """The host was never asked; the message says why."""


class HostLost(Exception):
    """The host was asked, and no answer came: whether it did what was asked is unknown."""


class PeerHost(Protocol):
    """A host that this one may ask, over its own connection."""

    @property
    def server_id(self) -> str:
        """Return the host's own server ID."""

    @property
    def uri(self) -> str:
        """Return the URI at which it is reached."""

    async def ask(
        self,
        method: str,
        path: str,
        parameters: Mapping[str, Any],
        seconds: float,
        *,
        headers: list[tuple[str, str]] = ...,
        anonymous: bool = ...,
        scopes: Sequence[str] = ...,
        task_id: str | None = ...,
        session_id: str | None = ...,
        idempotency_key: str | None = ...,
    ) -> HostAnswer:
        """
        Send one request once, and check the record of its answer.

        :param seconds: that it may take.
        :param headers: further fields; ``Agent-ID`` names the caller.
        :param anonymous: whether it is sent without an Agent-ID.
        :raises HostUnreachable: the request was never sent.
        :raises HostLost: the request was sent, and no answer came.
        """
