"""What the operator decides about negotiation: AGTP-API section 10.1.7, and our own bounds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from agtphost.contract.semantic import Impact
from agtphost.identity.peer import Assurance


class Mode(Enum):
    """How the gate delivers a contract (AGTP-API section 10.1.3)."""

    CONFIRM_FIRST = "confirm-first"
    OPTIMISTIC = "optimistic"


class OnPolicyChange(Enum):
    """What the sweep does with contracts of an older recipe (AGTP-API section 10.1.4.1)."""

    GRANDFATHER = "grandfather"
    INVALIDATE = "invalidate"


@dataclass(frozen=True, kw_only=True)
class GateSettings:
    """``[policies.rcns]``."""

    enabled: bool = False
    mode: Mode = Mode.CONFIRM_FIRST
    min_trust_tier: int = 1
    """The weakest tier admitted; 1 is the strictest (spec reading 46)."""

    rate_limit_per_minute: int = 10
    contract_ttl: int = 86_400
    """Seconds."""

    preview_ttl: int = 300
    """Seconds that a preview waits to be accepted."""

    on_policy_change: OnPolicyChange = OnPolicyChange.GRANDFATHER


@dataclass(frozen=True, kw_only=True)
class DataClassTerms:
    """One data class of the operator's data manifest (core v08 section 7.6)."""

    sensitivity: str
    requires_authorization: bool

    @property
    def open(self) -> bool:
        """Whether it may be negotiated without credentials (core v08 section 7.5)."""
        return self.sensitivity == "informational" and not self.requires_authorization


@dataclass(frozen=True, kw_only=True)
class Settings:
    """All of it. The defaults let nothing happen."""

    synthesis_enabled: bool = False
    """Whether PROPOSE may be approved at all (spec reading 49)."""

    max_depth: int = 10
    """``max_synthesis_depth``: steps of one synthesized endpoint."""

    by_operator: bool = False
    """``approval = "operator"``: what passes every evaluation still waits for an operator."""

    review: int = 3_600
    """Seconds that an operator has to decide."""

    session_ttl: int = 3_600
    """Seconds that a session-scoped contract lives at most."""

    max_duration: int = 86_400
    """Seconds: the longest duration granted."""

    persistent: bool = False
    """Whether persistent synthesis is ever honoured."""

    max_impact: Impact = Impact.REVERSIBLE
    """The gravest impact that a synthesized endpoint may have."""

    rate_limit_per_minute: int = 10
    """Proposals of one agent."""

    max_contracts: int = 32
    """Contracts of one agent."""

    min_assurance: Assurance = Assurance.CERTIFICATE
    """How surely an agent must be known to negotiate and to use a contract."""

    gate: GateSettings = field(default_factory=GateSettings)
    data_classes: Mapping[str, DataClassTerms] = field(default_factory=dict)


GRAVITY: Mapping[Impact, int] = {Impact.INFORMATIONAL: 0, Impact.REVERSIBLE: 1, Impact.IRREVERSIBLE: 2}
"""Impacts in order."""


def settings_of(policies: Any, data_classes: Any, *, relaxed: bool) -> Settings:
    """
    The settings that a configuration's sections say.

    :param policies: ``[policies]`` with ``rcns`` and ``synthesis``.
    :param data_classes: the entries of ``[[data_class]]``.
    :param relaxed: whether agents known by header alone may negotiate: development on loopback.
    """
    rcns, synthesis = policies.rcns, policies.synthesis
    return Settings(
        synthesis_enabled=policies.synthesis_enabled,
        max_depth=policies.max_synthesis_depth,
        by_operator=synthesis.approval == "operator",
        review=synthesis.review_seconds,
        session_ttl=synthesis.session_ttl_seconds,
        max_duration=synthesis.max_duration_seconds,
        persistent=synthesis.persistent,
        max_impact=Impact(synthesis.max_impact),
        rate_limit_per_minute=synthesis.rate_limit_per_minute,
        max_contracts=synthesis.max_contracts_per_agent,
        min_assurance=Assurance.HEADER if relaxed else Assurance.CERTIFICATE,
        gate=GateSettings(
            enabled=rcns.enabled,
            mode=Mode(rcns.mode),
            min_trust_tier=rcns.min_trust_tier,
            rate_limit_per_minute=rcns.rate_limit_per_minute,
            contract_ttl=rcns.contract_ttl_seconds,
            preview_ttl=rcns.preview_ttl_seconds,
            on_policy_change=OnPolicyChange(rcns.on_policy_change),
        ),
        data_classes={
            entry.name: DataClassTerms(
                sensitivity=entry.sensitivity, requires_authorization=entry.requires_authorization
            )
            for entry in data_classes
        },
    )
