"""
List everything with an expiry date: certificates, authorities, revocation lists and grants.

Expiry is announced 14 days ahead in the log, in metrics and to operators; ``agtp agent ls`` and ``agtp check`` use this
module too. Signing keys do not expire: an operator replaces them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from twisted.internet.threads import deferToThreadPool
from twisted.logger import Logger

from agtphost.config import Config
from agtphost.config.surfaces import surfaces
from agtphost.dispatch.rights import Rights
from agtphost.host.services import HostServices
from agtphost.identity import expiry
from agtphost.identity.agents import Agent
from agtphost.identity.expiry import Expiring
from agtphost.protocols.periodic import PeriodicService

LOOK_EVERY = 600.0
"""Seconds between two reads of the files."""

TELL_EVERY = 86_400.0
"""Seconds after which the log repeats what expires soon."""

MOST_KEPT = 200
"""How many items are kept, those that expire first: of many agents the next ones matter."""

log = Logger()


def expiring_files(config: Config) -> Iterator[Expiring]:
    """Yield everything whose expiry date is in a file; reads the files."""
    tls = config.tls
    yield from expiry.of_certificates(expiry.HOST, config.host.server_id, tls.certificate)
    for server in tls.server:
        yield from expiry.of_certificates(expiry.HOST, server.name, server.certificate)
    for path in (tls.client_ca, *(each.file for each in tls.client_authority)):
        yield from expiry.of_certificates(expiry.AUTHORITY, path.name, path)
    for path in tls.client_crl:
        yield from expiry.of_lists(path.name, path)
    for surface in surfaces(config):
        if surface.section.certificate is not None:
            yield from expiry.of_certificates(expiry.HTTPS, surface.name, surface.section.certificate)
    yield from agent_certificates(config)
    yield from expiry.of_certificates(expiry.CLIENT, "registrar", config.host.state_dir / "registrar.pem")
    yield from _peer_certificates(config)


def agent_certificates(config: Config) -> Iterator[Expiring]:
    """Yield the certificates in the directories of known agents, by label."""
    folder = config.identity.known_agents
    for path in sorted(folder.glob("*/agent.pem")) if folder.is_dir() else ():
        yield from expiry.of_certificates(expiry.AGENT, path.parent.name, path)


def _peer_certificates(config: Config) -> Iterator[Expiring]:
    """Yield the client certificates that this host presents, and the authorities by which it verifies others."""
    hosts: list[tuple[str, Path | None, Path | None]] = [
        ("[lifecycle] notify", config.lifecycle.notify_cert, config.lifecycle.notify_ca),
        *((peer.server_id, peer.cert, peer.ca) for peer in config.delegation.peers),
        *((witness.uri, witness.cert, witness.ca) for witness in config.audit.witness_host),
        *((anchor.ca.name, None, anchor.ca) for anchor in config.identity.anchor if anchor.ca is not None),
        *((each.expected_issuer, None, each.ca) for each in config.policies.oauth.issuer),
        *((each.name, None, each.ca) for each in (*config.mcp.server, *config.a2a.agent, *config.acp.agent)),
    ]
    for name, certificate, authority in hosts:
        if certificate is not None:
            yield from expiry.of_certificates(expiry.CLIENT, name, certificate)
        if authority is not None:
            yield from expiry.of_certificates(expiry.AUTHORITY, name, authority)


def expiring_grants(rights: Rights, known: Sequence[Agent], now: float) -> Iterator[Expiring]:
    """Yield the grants in force that have an end."""
    names = {agent.agent_id: agent.name for agent in known}
    for agent_id in rights.list_narrowed():
        for grant in rights.grants(agent_id):
            if grant.until is not None and grant.in_force(now):
                name = f"{names.get(agent_id, agent_id)} {grant.allow}"
                yield Expiring(kind=expiry.GRANT, name=name, ends=grant.until)


def expiry_warnings(config: Config, now: float) -> Iterator[str]:
    """Yield the warnings that a start would log, soonest expiry first."""
    for each in sorted(expiring_files(config), key=lambda one: one.ends):
        if each.is_soon(now):
            yield each.describe(now)


class ExpiryWatch(PeriodicService):
    """
    A service that checks expiry dates and logs those that are close, at start and once a day.

    :param services: returns the services of the configuration in force.
    :param known: returns every agent that the host knows.
    """

    name = "expiries"
    failure_message = "certificates that end soon could not be checked"

    def __init__(
        self, reactor: Any, services: Callable[[], HostServices], known: Callable[[], Sequence[Agent]]
    ) -> None:
        super().__init__(reactor, LOOK_EVERY)
        self._reactor = reactor
        self._services = services
        self._known = known
        self._files: tuple[Expiring, ...] = ()
        self._logged_at: dict[Expiring, float] = {}

    @property
    def upcoming(self) -> list[Expiring]:
        """Return what expires first, soonest first."""
        services = self._services()
        grants = expiring_grants(services.rights, self._known(), services.seconds())
        return sorted((*self._files, *grants), key=lambda each: each.ends)[:MOST_KEPT]

    async def _check(self) -> None:
        self._files = await deferToThreadPool(
            self._reactor, self._reactor.getThreadPool(), _read, self._services().config
        )
        now = self._services().seconds()
        soon = [each for each in self.upcoming if each.is_soon(now)]
        self._logged_at = {each: self._logged_at[each] for each in soon if each in self._logged_at}
        for each in soon:
            if now - self._logged_at.get(each, -TELL_EVERY) < TELL_EVERY:
                continue
            self._logged_at[each] = now
            # An operator chose the end of a grant; everything else ends only because it was not renewed.
            say = log.info if each.kind == expiry.GRANT else log.warn
            say("{what}", what=each.describe(now))


def _read(config: Config) -> tuple[Expiring, ...]:
    return tuple(sorted(expiring_files(config), key=lambda each: each.ends)[:MOST_KEPT])
