"""The operator's settings of negotiation: AGTP-API section 10.1.7, and bounds of this project."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from agtphost.config.policies import Policies
from agtphost.config.published import DataClass
from agtphost.identity.peer import Assurance


class OnPolicyChange(Enum):
    """The action of the sweep for contracts of an older recipe (AGTP-API section 10.1.4.1)."""

    GRANDFATHER = "grandfather"
    INVALIDATE = "invalidate"


@dataclass(frozen=True, kw_only=True)
class NegotiationSettings:
    """The settings of ``[policies]`` with ``rcns`` and ``synthesis``, and related ones."""

    policies: Policies
    data_classes: Mapping[str, DataClass]
    """The operator's data classes (core v08 section 7.6), by name."""

    min_assurance: Assurance
    """The lowest assurance with which an agent can negotiate and use a contract."""


GRAVITY: Mapping[str, int] = {"informational": 0, "reversible": 1, "irreversible": 2}
"""Impacts in order of severity."""
