"""Agent cards of HAIDIP, as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

NONE = "none"
API_KEY = "api_key"
OAUTH2 = "oauth2"
MTLS = "mtls"
AUTHENTICATION = (NONE, API_KEY, OAUTH2, MTLS)
"""The kinds of authentication that a card can require of its callers."""

REQUIRED = frozenset({"id", "name", "description", "capabilities", "endpoint", "authentication"})
"""Members that every card must have; they may be empty."""

ACTIVE = "active"
DEPRECATED = "deprecated"
WITHDRAWN = "withdrawn"

MEDIA_TYPE = "application/agent-card+json"
DEFAULT = "invoke"
"""The name of the single operation of a card that lists none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CardOperation:
    """An operation that an agent offers."""

    name: str
    description: str = ""
    input_schema: Mapping[str, Any] | None = None
    """JSON Schema, also where the card uses the shorthand; None if the card states nothing about the input."""

    output_schema: Mapping[str, Any] | None = None
    endpoint: str = ""
    """URL of the operation; empty if it is the card's own endpoint."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentCard:
    """An agent card that was parsed."""

    octets: bytes
    """The card as it was received; callers get these octets."""

    id: str
    name: str
    description: str
    capabilities: tuple[str, ...]
    endpoint: str
    authentication: str
    """One of :data:`AUTHENTICATION`."""

    operations: tuple[CardOperation, ...]
    """At least one: a card without operations has :data:`DEFAULT`, made of its ``inputs`` and ``outputs``."""

    tags: tuple[str, ...] = ()
    languages: tuple[str, ...] = ()
    """Language tags (BCP 47)."""

    provider: str = ""
    version: str = ""
    """The agent's own version text."""

    document: Mapping[str, Any] = field(repr=False, compare=False)
    """The decoded JSON object."""

    @property
    def substance(self) -> tuple[Any, ...]:
        """Return what may not change without an approval: name, endpoint, authentication and operations."""
        operations = sorted(
            (each.name, repr(each.input_schema), repr(each.output_schema), each.endpoint) for each in self.operations
        )
        return self.name, self.endpoint, self.authentication, operations

    @property
    def digest(self) -> str:
        """Return the SHA-256 of the octets in hex, which is the strong ETag."""
        return sha256(self.octets).hexdigest()
