"""Who may call over HTTP: ``[[http.client]]``, client certificates and identity providers, for every surface alike."""

from __future__ import annotations

import time
from typing import Any

from twisted.internet.interfaces import ISSLTransport

from agtphost.config import Config, line_of
from agtphost.dispatch.exchange import Exchange
from agtphost.errors import ConfigurationError, Problem, Refusal
from agtphost.http.clients import Keyholder, Principal
from agtphost.iagtp import IGate
from agtphost.identity.agents import Agent
from agtphost.identity.certificates import CertificateError
from agtphost.identity.directory import AgentDirectory
from agtphost.identity.encoding import decode_padded
from agtphost.identity.peer import Peer, PeerCertificate
from agtphost.protocols.peers import peer_of
from agtphost.vocabulary import jsontext
from agtphost.wire.events import Request
from agtphost.wire.headers import Headers


def keyholders(config: Config, directory: AgentDirectory) -> tuple[Keyholder, ...]:
    """
    The clients of ``[[http.client]]``, each with its agent.

    :raises ConfigurationError: for every one whose agent this host does not know, with its line.
    """
    found: list[Keyholder] = []
    problems: list[Problem] = []
    for index, client in enumerate(config.http.client):
        agent, objection = agent_named(directory, client.agent)
        if client.token is None:
            continue  # that is told of the file
        if agent is None:
            problems.append(
                Problem(
                    message=f'[[http.client]] "{client.name}" agent {objection}',
                    file=str(config.file),
                    line=line_of(config.file, ("http", "client", index, "agent")),
                    hint="agtp agent ls prints the agents that this host knows, with their Agent-IDs",
                )
            )
            continue
        token = client.token.reveal()
        found.append(Keyholder(name=client.name, token=token, agent_id=agent.agent_id, scopes=client.scopes))
    if problems:
        raise ConfigurationError(problems)
    return tuple(found)


def agent_named(directory: AgentDirectory, named: str) -> tuple[Agent | None, str]:
    """An agent by its Agent-ID or its name, or why there is none."""
    known = directory.by_id(named) or directory.by_name(named)
    if known is not None:
        return known, ""
    namesakes = [agent for agent in directory.list_known() if agent.name == named]
    if len(namesakes) == 1:
        return namesakes[0], ""
    if namesakes:
        return None, f"is the name of {len(namesakes)} agents that this host knows: write the Agent-ID"
    return None, f"is no agent that this host knows: {named[:64]}"


def certified(transport: Any, address: str) -> PeerCertificate | None:
    """The client certificate that TLS has verified."""
    if not ISSLTransport.providedBy(transport):
        return None
    secure: Any = transport
    try:
        return peer_of(secure.getHandle(), address).certificate
    except CertificateError:
        return None


def principal_of(gate: IGate) -> Principal:
    """Judges a token by the same gate that judges it when the call comes."""

    def principal(token: str) -> str:
        fields = [("Authorization", f"Bearer {token}")]
        request = Request(method="QUERY", path="/", headers=Headers(fields), line=b"")
        exchange = Exchange(request, Peer(address="", transport="http"), time.time())
        try:
            gate.check(exchange)
        except Refusal as refusal:
            raise ValueError(refusal.explanation) from None
        # The gate has verified it: now it may be believed which issuer the principal is one of.
        claims = jsontext.decode(decode_padded(token.split(".")[1]))
        issuer = claims.get("iss") if isinstance(claims, dict) else None
        return f"{issuer}\n{exchange.acting_principal}"

    return principal
