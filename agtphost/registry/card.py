"""Cards of agents after HAIDIP, as values."""

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
"""What a card can ask of its callers."""

REQUIRED = frozenset({"id", "name", "description", "capabilities", "endpoint", "authentication"})
"""Members that every card has, empty or not."""

ACTIVE = "active"
DEPRECATED = "deprecated"
WITHDRAWN = "withdrawn"

MEDIA_TYPE = "application/agent-card+json"
DEFAULT = "invoke"
"""What the operation of a card is called that lists none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One thing that an agent does."""

    name: str
    description: str = ""
    input_schema: Mapping[str, Any] | None = None
    """JSON Schema, whatever way the card wrote it; None: it says nothing of it."""

    output_schema: Mapping[str, Any] | None = None
    endpoint: str = ""
    """Where it is other than the agent itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """One card that was read."""

    octets: bytes
    """As received: what is given to whoever asks for the card."""

    id: str
    name: str
    description: str
    capabilities: tuple[str, ...]
    endpoint: str
    authentication: str
    """One of :data:`AUTHENTICATION`."""

    operations: tuple[Operation, ...]
    """At least one: a card without any has :data:`DEFAULT` of its ``inputs`` and ``outputs``."""

    tags: tuple[str, ...] = ()
    languages: tuple[str, ...] = ()
    """BCP 47."""

    provider: str = ""
    version: str = ""
    """What the agent calls it."""

    document: Mapping[str, Any] = field(repr=False, compare=False)
    """Decoded."""

    @property
    def substance(self) -> tuple[Any, ...]:
        """What of the card does not change without an approval: name, endpoint, authentication and operations."""
        operations = sorted(
            (each.name, repr(each.input_schema), repr(each.output_schema), each.endpoint) for each in self.operations
        )
        return self.name, self.endpoint, self.authentication, operations

    @property
    def digest(self) -> str:
        """SHA-256 of the octets, hex: the strong ETag."""
        return sha256(self.octets).hexdigest()
