"""What ``[[delegation.peers]]`` needs besides sound keys."""

from __future__ import annotations

from collections.abc import Iterator

from agtphost.config.faults import Fault
from agtphost.config.sections import Config
from agtphost.vocabulary.tomltext import Location

REQUIRED = {
    "uri": "where the host is, such as agtp://agents.example.com",
    "server_id": "what that host calls itself",
    "agents": "the Agent-IDs that it hosts",
    "cert": "a client certificate that the peer's client_ca vouches for: `agtp cert issue` makes one",
    "key": "the private key of cert",
}


def delegation_faults(config: Config) -> Iterator[Fault]:
    """Every fault of the section."""
    hosts: dict[str, int] = {}
    names: set[str] = set()
    for number, peer in enumerate(config.delegation.peers):
        location: Location = ("delegation", "peers", number)
        for name, hint in REQUIRED.items():
            if not getattr(peer, name):
                yield Fault(location=(*location, name), message="is missing", hint=hint)
        for name in ("cert", "key", "ca"):
            path = getattr(peer, name)
            if path is not None and not path.is_file():
                yield Fault(location=(*location, name), message=f"names a file that does not exist: {path}")
        if peer.server_id and peer.server_id == config.host.server_id:
            yield Fault(location=(*location, "server_id"), message="is this host itself")
        if peer.server_id in names:
            yield Fault(location=(*location, "server_id"), message="stands twice")
        names.add(peer.server_id)
        for agent_id in peer.agents:
            if agent_id in hosts and hosts[agent_id] != number:
                yield Fault(
                    location=(*location, "agents"),
                    message=f"names {agent_id[:16]}..., which another peer hosts already",
                    concerns=(("delegation", "peers", hosts[agent_id], "agents"),),
                )
            hosts[agent_id] = number
