"""Find the clients of HTTP, for every surface: ``[[http.client]]``, client certificates and identity providers."""

from __future__ import annotations

import time
from typing import Any

from twisted.internet.interfaces import ISSLTransport

from agtphost.config import Config, line_of
from agtphost.dispatch.exchange import Exchange
from agtphost.errors import ConfigurationError, Problem
from agtphost.http.clients import HttpClientToken, PrincipalCheck
from agtphost.iagtp import IGate
from agtphost.identity.agents import Agent
from agtphost.identity.certificates import CertificateError
from agtphost.identity.directory import IAgentDirectory
from agtphost.identity.encoding import decode_padded
from agtphost.identity.peer import Peer, PeerCertificate
from agtphost.protocols.peers import peer_of
from agtphost.vocabulary import jsontext
from agtphost.wire.events import Request
from agtphost.wire.headers import Headers

AGENTS = "agtp agent ls prints the agents that this host knows, with their Agent-IDs"


def keyholders(config: Config, directory: IAgentDirectory) -> tuple[HttpClientToken, ...]:
    """
    Return the clients of ``[[http.client]]``, each with its agent.

    :raises ConfigurationError: agents are unknown to this host; a problem for each, with its line.
    """
    found: list[HttpClientToken] = []
    problems: list[Problem] = []
    for index, client in enumerate(config.http.client):
        agent, objection = find_agent(directory, client.agent)
        if client.token is None or not client.agent:
            continue  # Reading the file has reported it.
        if agent is None:
            problems.append(
                Problem(
                    message=f'[[http.client]] "{client.name}" agent {objection}',
                    file=str(config.file),
                    line=line_of(config.file, ("http", "client", index, "agent")),
                    hint=AGENTS,
                )
            )
            continue
        token = client.token.reveal()
        found.append(HttpClientToken(name=client.name, token=token, agent_id=agent.agent_id, scopes=client.scopes))
    if problems:
        raise ConfigurationError(problems)
    return tuple(found)


def find_agent(directory: IAgentDirectory, named: str) -> tuple[Agent | None, str]:
    """Return an agent by its Agent-ID or its name, or why there is none."""
    known = directory.by_id(named) or directory.by_name(named)
    if known is not None:
        return known, ""
    namesakes = [agent for agent in directory.list_known() if agent.name == named]
    if len(namesakes) == 1:
        return namesakes[0], ""
    if namesakes:
        return None, f"is the name of {len(namesakes)} agents that this host knows: write the Agent-ID"
    return None, f"names an agent that this host does not know: {named[:64]}"


def speaker_of(config: Config, directory: IAgentDirectory, place: tuple[str, ...], named: str | None) -> str:
    """
    Return the Agent-ID of the agent in whose name a surface's clients call; empty where none is configured.

    :param place: of the key that names it: ``("gateway", "agent")``.
    :param named: its name or Agent-ID.
    :raises ConfigurationError: this host does not know it.
    """
    if not named:
        return ""
    agent, objection = find_agent(directory, named)
    if agent is None:
        message = f"[{'.'.join(place[:-1])}] {place[-1]} {objection}"
        line = line_of(config.file, place)
        raise ConfigurationError([Problem(message=message, file=str(config.file), line=line, hint=AGENTS)])
    return agent.agent_id


def verified_certificate(transport: Any, address: str) -> PeerCertificate | None:
    """Return the client certificate that TLS has verified, if any."""
    if not ISSLTransport.providedBy(transport):
        return None
    secure: Any = transport
    try:
        return peer_of(secure.getHandle(), address).certificate
    except CertificateError:
        return None


def principal_check(gate: IGate) -> PrincipalCheck:
    """Return a function that verifies a token with the gate that checks it at calls."""

    def principal(token: str) -> str:
        fields = [("Authorization", f"Bearer {token}")]
        request = Request(method="QUERY", path="/", headers=Headers(fields), line=b"")
        exchange = Exchange(request, Peer(address="", transport="http"), time.time())
        gate.check(exchange)
        # The gate has verified the token, so its issuer can be trusted.
        claims = jsontext.decode(decode_padded(token.split(".")[1]))
        issuer = claims.get("iss") if isinstance(claims, dict) else None
        return f"{issuer}\n{exchange.acting_principal}"

    return principal
