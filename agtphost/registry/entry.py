"""What the registry says of one card besides the card itself: one shape for what is hosted and what registered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import format_datetime
from functools import lru_cache
from typing import Any

from agtphost.registry.card import ACTIVE
from agtphost.vocabulary import times

REGISTERED = "registered"
"""The kind of what registered; every other kind is of what is hosted here: ``agent``, ``mcp``, ``a2a``, ``acp`` ..."""

LIVE = "live"
LATE = "late"
LOST = "lost"
STATES = (LIVE, LATE, LOST)
"""Of an agent: heard of within a lifetime, silent for one, silent for three."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One card in the registry, without its octets."""

    id: str
    kind: str
    name: str
    description: str
    capabilities: tuple[str, ...]
    tags: tuple[str, ...]
    languages: tuple[str, ...]
    provider: str
    authentication: str
    endpoint: str
    digest: str
    """SHA-256 of the card, hex."""

    number: int
    """1, 2, 3 ... of its versions."""

    updated: float
    """Seconds since the Unix epoch."""

    status: str = ACTIVE
    successor: str = ""
    source: str = "host"
    """``host``, ``upload``, or the URL that it is fetched from."""

    owner: str = ""
    """Agent-ID of whoever registered it; empty: an operator, or the host."""

    public: bool = False
    """Whether strangers are shown the card and may call it, which only an operator can decide."""

    public_requested: bool = False
    """Whether the agent that registered the card asked for it to be public, and no operator has decided yet."""

    called: tuple[str, ...] = ()
    """A URL of each origin that calls of the card lead to, by its operations, or by the endpoint where it has none."""

    lifetime: float | None = None
    """Seconds of its lease; None: it has none."""

    lost_since: float | None = None
    """When it was lost, as far as that is durable."""

    pending: str = ""
    """SHA-256 of a changed card that waits for an approval."""

    signature: str = "none"
    """What its signatures are worth: ``verified``, ``invalid``, ``none``, or ``unverified``: by a key nobody named."""

    certification: Any = None
    """The card's own claim."""

    operations: tuple[tuple[str, str], ...] = ()
    """Names and descriptions of what a registered card lists, for searches."""

    @property
    def etag(self) -> str:
        """Strong, as HTTP writes it."""
        return f'"{self.digest}"'

    @property
    def last_modified(self) -> str:
        """As HTTP writes it."""
        return _http_date(int(self.updated))

    def headers(self, state: str) -> tuple[tuple[str, str], ...]:
        """Fields of an answer that is the card itself."""
        return (
            ("ETag", self.etag),
            ("Last-Modified", self.last_modified),
            ("Card-Version", str(self.number)),
            ("Card-State", state),
            ("Card-Status", self.status),
        )

    def shown(self, state: str, tier: int | None, seen: float | None) -> dict[str, Any]:
        """
        As lists and searches show it.

        :param tier: trust tier of the agent behind it; None where no agent is known.
        :param seen: when it was heard of last, in seconds since the Unix epoch.
        """
        told: dict[str, Any] = {
            "id": self.id,
            "name": self.name,
            "description": self.description,
            "capabilities": list(self.capabilities),
            "tags": list(self.tags),
            "supported_languages": list(self.languages),
            "provider": self.provider,
            "authentication": self.authentication,
            "endpoint": self.endpoint,
            "kind": self.kind,
            "state": state,
            "status": self.status,
            "version": self.number,
            "etag": self.digest,
            "last_modified": times.stamp(self.updated),
            "seen_at": None if seen is None else times.stamp(seen),
            "source": self.source,
            "trust": {"agtp": tier, "card_signature": self.signature, "pinned": self.digest},
        }
        more: Mapping[str, Any] = {
            "successor": self.successor,
            "certification": self.certification,
            "pending": self.pending,
            "lifetime": self.lifetime,
            "owner": self.owner,
            "public": self.public or None,
            "public_requested": self.public_requested or None,
        }
        told.update((name, value) for name, value in more.items() if value not in (None, ""))
        return told


@lru_cache(1024)
def _http_date(seconds: int) -> str:
    return format_datetime(datetime.fromtimestamp(seconds, UTC), usegmt=True)
