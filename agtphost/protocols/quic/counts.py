"""What a UDP port counts, for metrics."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


@dataclass(kw_only=True)
class QuicCounts:
    """The counts of a port since it was opened."""

    handshakes: Counter[str] = field(default_factory=Counter)
    """By outcome: done, refused, late, limit, ending, broken."""

    dropped: Counter[str] = field(default_factory=Counter)
    """Datagrams, by reason."""

    retries: int = 0
    resets: int = 0
    """Stateless resets."""

    lost: int = 0
    """Packets that were lost, of connections that are over."""

    moves: int = 0
    """Connections whose client has another address than before."""
