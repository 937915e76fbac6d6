"""``[delegation]``: how far callers may hand on what they may do (core v08 section 7.2.9)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, ValidationInfo

from agtphost.config import secret
from agtphost.config.faults import ConfigFault, describe_absence
from agtphost.config.values import CanonicalAgentID, FilePath, Items, Seconds, Section, Table, Token, load_context
from agtphost.config.witness_settings import HostURI
from agtphost.identity.keys import KeyFormatError, VerifyingKey
from agtphost.vocabulary.foreign_errors import split
from agtphost.vocabulary.tomltext import Location


def _key(value: Any, info: ValidationInfo) -> VerifyingKey:
    if isinstance(value, VerifyingKey):
        return value
    text = secret.text_of(value)
    try:
        if text.startswith("file:"):
            context = load_context(info)
            return VerifyingKey.load(context.note_file(context.folder / text.removeprefix("file:")))
        return VerifyingKey.from_text(text)
    except (KeyFormatError, OSError) as error:
        raise ValueError(
            f"is not an Ed25519 public key in base64url, nor file:PATH of one: {split(error)[0]}"
        ) from error


PublicKey = Annotated[VerifyingKey, BeforeValidator(_key)]


class DelegationHost(Section):
    """An entry of ``[[delegation.peers]]``: another host, whose agents tasks may be delegated to."""

    uri: HostURI = ""
    """Where it is. Required."""

    server_id: Token = ""
    """What it calls itself, in its records and in the tokens it signs. Required."""

    agents: Items[CanonicalAgentID] = ()
    """The Agent-IDs that it hosts. Required."""

    cert: FilePath | None = None
    """The client certificate that this host shows: one that names no agent. Required."""

    key: FilePath | None = None
    """The certificate's private key. Required."""

    ca: FilePath | None = None
    """Authority of the peer's certificate, where it is not a public one."""

    signing_key: PublicKey | None = None
    """
    What it signs records with. None asks the peer itself, over TLS, and then tokens that it signs for
    its own agents are not believed.
    """

    zone: Token | None = None
    """The governance zone of its agents, where this host does not know their documents."""


class DelegationSection(Section):
    """The section ``[delegation]``: how far callers may hand on what they may do."""

    max_depth: Annotated[int, Field(ge=1, le=5)] = 5
    """Hops of one chain. Calls inside this host nest ten deep, and each hop takes up to two of them."""

    max_deadline: Seconds = 300.0
    """The most seconds for one task, even if its delegator asks for more."""

    zone_bound: bool = False
    """Whether a delegatee has to be in its delegator's governance zone even without AGTP-Zone-ID."""

    governance: Table[Token, PublicKey] = Field(default_factory=dict)
    """Public keys of governance platforms by what they call themselves: base64url, or ``file:PATH``."""

    peers: Items[DelegationHost] = ()
    """The hosts of agents elsewhere."""


_REQUIRED = {
    "uri": "where the host is, such as agtp://agents.example.com",
    "server_id": "what that host calls itself",
    "agents": "the Agent-IDs that it hosts",
    "cert": "a client certificate that the peer's client_ca vouches for: `agtp cert issue` makes one",
    "key": "the private key of cert",
}


def delegation_faults(section: DelegationSection, server_id: str) -> Iterator[ConfigFault]:
    """
    Yield the faults of ``[delegation]`` that concern several keys, or files.

    They are looked for once the value of each single key is valid.

    :param server_id: this host's own.
    """
    hosted_by: dict[str, int] = {}
    server_ids: dict[str, int] = {}
    for number, peer in enumerate(section.peers):
        location: Location = ("delegation", "peers", number)
        for name, hint in _REQUIRED.items():
            if not getattr(peer, name):
                yield ConfigFault(location=(*location, name), message="is missing", hint=hint)
        for name in ("cert", "key", "ca"):
            path = getattr(peer, name)
            if path is not None and not path.is_file():
                yield ConfigFault(location=(*location, name), message=describe_absence(path))
        if peer.server_id and peer.server_id == server_id:
            yield ConfigFault(location=(*location, "server_id"), message="is this host itself")
        if peer.server_id and peer.server_id in server_ids:
            yield ConfigFault(
                location=(*location, "server_id"),
                message="is already used by another peer",
                concerns=(("delegation", "peers", server_ids[peer.server_id], "server_id"),),
            )
        server_ids.setdefault(peer.server_id, number)
        for agent_id in peer.agents:
            if agent_id in hosted_by and hosted_by[agent_id] != number:
                yield ConfigFault(
                    location=(*location, "agents"),
                    message=f"names {agent_id[:16]}..., which another peer hosts already",
                    concerns=(("delegation", "peers", hosted_by[agent_id], "agents"),),
                )
            hosted_by[agent_id] = number
