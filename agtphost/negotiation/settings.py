"""What the operator decides about negotiation: AGTP-API section 10.1.7, and our own bounds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from agtphost.config.policies import Policies
from agtphost.config.published import DataClass
from agtphost.identity.peer import Assurance


class OnPolicyChange(Enum):
    """What the sweep does with contracts of an older recipe (AGTP-API section 10.1.4.1)."""

    GRANDFATHER = "grandfather"
    INVALIDATE = "invalidate"


@dataclass(frozen=True, kw_only=True)
class Settings:
    """``[policies]`` with its ``rcns`` and ``synthesis``, and what negotiation looks up besides."""

    policies: Policies
    data_classes: Mapping[str, DataClass]
    """Those of the operator's data manifest (core v08 section 7.6), by name."""

    min_assurance: Assurance
    """How surely an agent must be known to negotiate and to use a contract."""


GRAVITY: Mapping[str, int] = {"informational": 0, "reversible": 1, "irreversible": 2}
"""Impacts in order."""
