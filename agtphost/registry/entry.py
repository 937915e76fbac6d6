"""The registry's statements about one card: one shape for generated and registered cards."""

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
"""The kind of registered cards; every other kind is of what is hosted here: ``agent``, ``mcp``, ``a2a``, ``acp`` ..."""

LIVE = "live"
LATE = "late"
LOST = "lost"
STATES = (LIVE, LATE, LOST)
"""States of an agent: seen within one lifetime, silent for one, silent for three."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CardEntry:
    """The registry's entry of one card, without the card's octets."""

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
    """SHA-256 of the card, in hex."""

    number: int
    """Version number: 1, 2, 3 ..."""

    updated: float
    """Seconds since the Unix epoch."""

    status: str = ACTIVE
    successor: str = ""
    source: str = "host"
    """``host``, ``upload``, or the URL that the card is fetched from."""

    owner: str = ""
    """Agent-ID of the agent that registered it; empty for an operator, or the host."""

    public: bool = False
    """Whether strangers can see and call the card; only an operator can set this."""

    public_requested: bool = False
    """Whether the agent that registered the card asked for it to be public, and no operator has decided yet."""

    called_urls: tuple[str, ...] = ()
    """One URL of each origin that calls of the card go to: of its operations, or its endpoint if it has none."""

    lifetime: float | None = None
    """Seconds of its lease; None if it has no lease."""

    lost_since: float | None = None
    """When it was lost, as far as that is durable."""

    pending: str = ""
    """SHA-256 of a changed card that waits for an approval."""

    signature: str = "none"
    """
    Result of checking its signatures: ``verified``, ``invalid``, ``none``, or ``unverified`` if the key is not trusted.
    """

    certification: Any = None
    """The card's own claim about its certification."""

    operations: tuple[tuple[str, str], ...] = ()
    """Names and descriptions of a registered card's operations, for searches."""

    @property
    def etag(self) -> str:
        """Return the strong ETag as HTTP writes it."""
        return f'"{self.digest}"'

    @property
    def last_modified(self) -> str:
        """Return the time of the last change as an HTTP date."""
        return _http_date(int(self.updated))

    def headers(self, state: str) -> tuple[tuple[str, str], ...]:
        """Return the header fields of an answer that is the card itself."""
        return (
            ("ETag", self.etag),
            ("Last-Modified", self.last_modified),
            ("Card-Version", str(self.number)),
            ("Card-State", state),
            ("Card-Status", self.status),
        )

    def to_json(self, state: str, tier: int | None, seen: float | None) -> dict[str, Any]:
        """
        Return the JSON object of the card in lists and searches.

        :param tier: trust tier of the card's agent; None if no agent is known.
        :param seen: when the agent was last seen, in seconds since the Unix epoch.
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
