"""What the operator says about one A2A agent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from agtphost.adapters.web.settings import PeerSettings

if TYPE_CHECKING:
    from joserfc.jwk import ECKey, OKPKey, RSAKey

CardKey: TypeAlias = "OKPKey | ECKey | RSAKey"
"""A public key that may have signed a card."""


@dataclass(frozen=True, kw_only=True)
class A2AAgentSettings(PeerSettings):
    """One ``[[a2a.agent]]``; ``url`` is where its card is below, at ``/.well-known/agent-card.json``."""

    pin: str = ""
    """SHA-256 of the approved card; empty: the first card that is fetched is what is approved."""

    card_keys: Mapping[str, CardKey] = field(default_factory=dict)
    """Who may have signed the card, by ``kid``; with any, a card that none of them signed is refused."""

    push_url: str = ""
    """Where the agent may send push notifications; callers can never name another place."""

    push_origins: tuple[str, ...] = ()
    """
    Where clients of the front may have the agent push to, such as ``https://hooks.example``, ``http://localhost:*``
    for any port, or ``*``: the agent itself calls them, not this host.
    """
