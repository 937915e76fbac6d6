"""The access to a target that the operator of a run supplies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from agtphost.conformance.link import Credentials, Endpoint


class Role(Enum):
    """The roles in which a target is called."""

    ANONYMOUS = "anonymous"
    """A caller without certificate and Agent-ID."""

    AGENT = "agent"
    """The agent of ``--cert``."""

    SECOND = "second"
    """Another agent."""

    REGISTRAR = "registrar"
    """The Genesis issuer: a certificate without an agent."""


class Carrier(Enum):
    """A name of what carries requests to a target: ``tls`` or ``quic``."""

    TLS = "tls"
    QUIC = "quic"


@dataclass(frozen=True, kw_only=True)
class Access:
    """
    The address of the target, and the credentials by role.

    :param trust: the authority of the target's certificate; None for the system's.
    :param keys: keys that the target signs with, by kid; without any, those of the manifest are used.
    :param expendable: the Agent-ID of an agent that may be revoked; None forbids every destructive case.
    """

    where: Endpoint
    trust: Path | None = None
    credentials: Mapping[Role, Credentials] = field(default_factory=dict)
    keys: Mapping[str, Ed25519PublicKey] = field(default_factory=dict)
    expendable: str | None = None
    timeout: float = 10.0
    others: Sequence[Credentials] = ()
    """Further agents. The first that the target serves becomes the second agent, if none is given."""

    carrier: Carrier = Carrier.TLS
    plain: bool = False
    """Whether the target reads parameters at the top of the body, and does not support the envelope."""
