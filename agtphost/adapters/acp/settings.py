"""What the operator says about one ACP server."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from agtphost.adapters.web.settings import PeerSettings


@dataclass(frozen=True, kw_only=True)
class ACPServerSettings(PeerSettings):
    """One ``[[acp.agent]]``: a server of the Agent Communication Protocol (IBM/BeeAI) with its agents."""

    agents: tuple[str, ...] = ()
    """The agents that may be reached; empty: every one that the server lists."""

    pins: Mapping[str, str] = field(default_factory=dict)
    """Approved digests of manifests by agent; without one, the first that is listed is what is approved."""

    unmatched_rules: Literal["off", "warn"] = "warn"
    """What a name in ``agents`` or ``pins`` leads to that the server does not list; ``off``: it is not used at all."""
