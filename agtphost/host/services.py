"""Hold the services that every part of a host uses: one set per configuration, over a part that outlives reloads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agtphost.audit.leases import Lease
from agtphost.config import Config
from agtphost.config.tool_requirements import state_changing_floor
from agtphost.dispatch.rights import Rights
from agtphost.dispatch.scope_records import ScopeRecords, apply_statements
from agtphost.handlers.addresses import Addresses
from agtphost.handlers.authorization import Authorization
from agtphost.host.evidence import Evidence
from agtphost.host.host_loader import LoadedHost
from agtphost.host.operators import operators_of
from agtphost.host.process_state import ProcessState
from agtphost.host.registry import BindingRegistry
from agtphost.identity.peer import Assurance, Peer, PeerCertificate
from agtphost.vocabulary.steps import Executor

if TYPE_CHECKING:
    from agtphost.identity.agents import Agent


@dataclass(frozen=True, kw_only=True)
class HostServices:
    """The services that are built first and passed to everything that builds a part of the host."""

    loaded: LoadedHost
    reactor: Any
    evidence: Evidence
    authorization: Authorization
    registry: BindingRegistry
    lasting: ProcessState
    lease: Lease
    """The watchers that end with this configuration."""

    floor: Assurance
    """The least assurance of a caller that changes state."""

    rights: Rights
    """The rights that the host grants to agents."""

    scopes: ScopeRecords
    """The statements of issuers about their agents' scopes."""

    seconds: Callable[[], float]
    """The host's time, in seconds since the Unix epoch; see :mod:`agtphost.audit.host_clock`."""

    @classmethod
    def for_host(cls, loaded: LoadedHost, reactor: Any, evidence: Evidence) -> HostServices:
        """Build the services of a host as it starts."""
        seconds = evidence.clock.seconds
        lasting = ProcessState.for_host(loaded, reactor, evidence, seconds)
        return cls._build(loaded, reactor=reactor, evidence=evidence, lasting=lasting, seconds=seconds)

    def with_configuration(self, loaded: LoadedHost) -> HostServices:
        """Build the services of the same host under another configuration."""
        return self._build(
            loaded,
            reactor=self.reactor,
            evidence=self.evidence,
            lasting=self.lasting,
            seconds=self.seconds,
        )

    @classmethod
    def _build(cls, loaded: LoadedHost, **lasting: Any) -> HostServices:
        floor, lease = state_changing_floor(loaded.config), Lease()
        engine = lasting["lasting"].searching.engine_for(loaded.config, loaded.model, volatile=loaded.volatile)
        held = lasting["evidence"].held
        with held.leasing.filling(lease):
            rights = Rights(held, lasting["seconds"])
            apply_statements(held, loaded.directory)
        return cls(
            loaded=loaded,
            authorization=authorization_of(loaded, floor),
            registry=BindingRegistry(loaded.catalog, loaded.policy, engine),
            floor=floor,
            rights=rights,
            scopes=ScopeRecords(held),
            lease=lease,
            **lasting,
        )

    def still_counts(self, peer: Peer | None, caller: Agent | None) -> bool:
        """
        Return whether the caller of a request that waited has the rights that it had when the request came.

        This configuration is in force, the certificate of the connection, if any, counts, and the agent lost no scope.
        """
        certificate = None if peer is None else peer.certificate
        if self.lasting.directory.in_force is not self.loaded.directory:
            return False
        if caller is not None:
            known = self.lasting.directory.by_id(caller.agent_id)
            if known is None or not caller.scopes <= known.scopes:
                return False
        return certificate is None or self.certificate_counts(certificate)

    def certificate_counts(self, certificate: PeerCertificate) -> bool:
        """Return whether a client certificate is valid now and not revoked, and its agent is not stopped."""
        now, agents = self.seconds(), self.lasting.directory
        agent = None if certificate.agent_id is None else agents.by_id(certificate.agent_id)
        if agent is not None and self.evidence.states.state_of(agent).is_stopped:
            return False
        is_valid = certificate.valid_from <= now <= certificate.valid_to
        return is_valid and not self.loaded.tls.revocations.objection(certificate, now)

    @property
    def config(self) -> Config:
        """The whole configuration."""
        return self.loaded.config

    @property
    def latest(self) -> Callable[[], float]:
        """Return a clock that gives the later of the host's and the system's time, for dates that others wrote."""
        return self.evidence.clock.latest

    @property
    def offload(self) -> Executor:
        """Return the executor that calls functions off the reactor."""
        return self.lasting.computing


def authorization_of(loaded: LoadedHost, floor: Assurance) -> Authorization:
    """Return what distinguishes operators, registrars, people and agents under one configuration."""
    config = loaded.config
    addresses = Addresses(people=config.notify.people, groups=config.notify.groups)
    return Authorization(operators_of(loaded), loaded.directory, floor, addresses)
