"""What the operator of a run supplies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from agtphost.conformance.link import Credentials, Endpoint


class Who(Enum):
    """The sides from which a target is looked at."""

    ANONYMOUS = "anonymous"
    """No certificate, no Agent-ID."""

    AGENT = "agent"
    """The agent of ``--cert``."""

    SECOND = "second"
    """Another one."""

    REGISTRAR = "registrar"
    """The Genesis issuer: a certificate without an agent."""


@dataclass(frozen=True, kw_only=True)
class Access:
    """
    How to reach the target, and as whom.

    :param trust: the authority of the target's certificate; None for the system's.
    :param keys: keys that the target signs with, by kid; the manifest's where none are given.
    :param expendable: the Agent-ID of an agent whose life may be ended; None forbids every destructive case.
    """

    where: Endpoint
    trust: Path | None = None
    credentials: Mapping[Who, Credentials] = field(default_factory=dict)
    keys: Mapping[str, Ed25519PublicKey] = field(default_factory=dict)
    expendable: str | None = None
    timeout: float = 10.0
    others: Sequence[Credentials] = ()
    """Further agents: the first that the target still serves is the second one, where none is given."""

    plain: bool = False
    """Whether the target reads parameters at the top of the body, and knows no envelope."""
