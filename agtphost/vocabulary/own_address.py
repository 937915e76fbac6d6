"""The ``agtp:`` URIs of this host itself: what it publishes of itself and its agents is taken as a parameter again."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from agtphost.vocabulary.identifiers import is_agent_id
from agtphost.vocabulary.uris import SCHEME

_PREFIX = f"{SCHEME}://"


@dataclass(frozen=True, slots=True)
class OwnAddress:
    """The names and the port by which a host is reached."""

    names: frozenset[str]
    """Lower case, without a port: the server's own name, and the domains that its documents are published under."""

    port: int = 0
    """0 where it is not known: then any port counts."""

    @classmethod
    def of(cls, names: Iterable[str | None], port: int = 0) -> OwnAddress:
        """
        Return the address of a host of these names.

        :param names: each may have a port, which does not count; empty ones are left out.
        """
        return cls(frozenset(name.partition(":")[0].lower() for name in names if name), port)

    def is_reached_by(self, authority: str) -> bool:
        """
        Return whether ``name [ ":" port ]`` is this host.

        A name without a port is this host on whichever port it listens: agents write what people call the host.
        """
        name, colon, port = authority.partition(":")
        if name.lower() not in self.names:
            return False
        return not colon or (port.isdecimal() and (not self.port or int(port) == self.port))

    def local_path(self, text: str) -> str | None:
        """
        Return what an ``agtp:`` URI of this host names, such as ``/agents/librarian`` or ``/``; None for other texts.

        An Agent-ID with this host after ``@`` is ``/agents/`` with that Agent-ID.
        """
        if not text.lower().startswith(_PREFIX):
            return None
        authority, _, path = text[len(_PREFIX) :].partition("/")
        agent_id, at, host = authority.rpartition("@")
        if at:
            return f"/agents/{agent_id}" if not path and is_agent_id(agent_id) and self.is_reached_by(host) else None
        return f"/{path}" if self.is_reached_by(authority) else None

    def agent_label(self, text: str) -> str:
        """Return the name or Agent-ID of the agent that a URI of this host names; other texts as they are."""
        path = self.local_path(text)
        return path.removeprefix("/agents/") if path is not None and path.startswith("/agents/") else text


NOWHERE = OwnAddress(frozenset())
"""The addresses of a host that publishes none of its own URIs."""
