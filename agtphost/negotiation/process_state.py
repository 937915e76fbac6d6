"""The state of negotiations in memory that outlives the configuration."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

from agtphost.identity.peer import Peer
from agtphost.negotiation.call_ceiling import Seen


@dataclass(frozen=True, slots=True)
class _Link:
    """The connection that a contract is bound to."""

    connection: object
    parting: set[Callable[[], None]]
    on_close: Callable[[], None]


class ContractLinks:
    """The connections that contracts are bound to, by ``synthesis_id``."""

    def __init__(self) -> None:
        self._links: dict[str, _Link] = {}
        self._watchers: list[Callable[[str], None]] = []

    def __contains__(self, synthesis_id: str) -> bool:
        return synthesis_id in self._links

    def watch(self, watcher: Callable[[str], None]) -> Callable[[], None]:
        """
        Call ``watcher`` with each contract whose connection is closed.

        :return: a function that ends this.
        """
        self._watchers.append(watcher)
        return lambda: self._watchers.remove(watcher)

    def tie(self, synthesis_id: str, peer: Peer) -> None:
        """Bind a contract to the peer's connection."""

        def parted() -> None:
            self.forget(synthesis_id)
            for watcher in tuple(self._watchers):
                watcher(synthesis_id)

        parting = peer.leaving if peer.parting is None else peer.parting
        self._links[synthesis_id] = _Link(peer.link, parting, parted)
        parting.add(parted)

    def forget(self, synthesis_id: str) -> None:
        """Remove the link of a contract."""
        link = self._links.pop(synthesis_id, None)
        if link is not None:
            link.parting.discard(link.on_close)

    def joins(self, synthesis_id: str, peer: Peer | None) -> bool:
        """Return whether a contract is bound to the peer's connection."""
        link = self._links.get(synthesis_id)
        return link is not None and peer is not None and link.connection is peer.link


@dataclass(frozen=True, kw_only=True)
class NegotiationState:
    """The state of negotiations that outlives a configuration."""

    links: ContractLinks = field(default_factory=ContractLinks)
    proposing: Seen = field(default_factory=OrderedDict)
    """Times of proposals in the last minute, by caller."""

    asking: Seen = field(default_factory=OrderedDict)
    """Times of unregistered requests in the last minute, by caller."""
