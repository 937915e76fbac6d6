"""What every part of a host stands on: one for each configuration, and under all of them the same that lasts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agtphost.audit.leases import Lease
from agtphost.config import Config
from agtphost.dispatch.rights import Rights
from agtphost.handlers.addresses import Addresses
from agtphost.handlers.authorization import Authorization
from agtphost.host.evidence import Evidence
from agtphost.host.floor import state_changing_floor
from agtphost.host.lasting import Lasting
from agtphost.host.loaded import Loaded
from agtphost.host.registry import Registry
from agtphost.host.traces import tracing
from agtphost.identity.peer import Assurance
from agtphost.vocabulary.steps import Executor

if TYPE_CHECKING:
    from agtphost.traces.service import Traces


@dataclass(frozen=True, kw_only=True)
class Foundation:
    """Made first, and given to all that builds something."""

    loaded: Loaded
    reactor: Any
    evidence: Evidence
    authorization: Authorization
    registry: Registry
    lasting: Lasting
    lease: Lease
    """What is watched for this configuration, and no longer."""

    floor: Assurance
    """How surely a caller of what changes state must be known."""

    rights: Rights
    """What the host lets agents do."""

    traces: Traces | None = None
    """Gives calls their spans; None where there are none."""

    seconds: Callable[[], float]
    """The host's time, in seconds since the Unix epoch; see :mod:`agtphost.audit.host_clock`."""

    @classmethod
    def of(cls, loaded: Loaded, reactor: Any, evidence: Evidence) -> Foundation:
        """That of one host, as it starts."""
        seconds = evidence.clock.seconds
        lasting = Lasting.of(loaded, reactor, evidence, seconds)
        traces = tracing(reactor, loaded.config)
        return cls._made(loaded, reactor=reactor, evidence=evidence, lasting=lasting, traces=traces, seconds=seconds)

    def under(self, loaded: Loaded) -> Foundation:
        """That of the same host under another configuration."""
        return self._made(
            loaded,
            reactor=self.reactor,
            evidence=self.evidence,
            lasting=self.lasting,
            traces=self.traces,
            seconds=self.seconds,
        )

    @classmethod
    def _made(cls, loaded: Loaded, **lasting: Any) -> Foundation:
        floor, lease = state_changing_floor(loaded.config), Lease()
        held = lasting["evidence"].held
        with held.leasing.filling(lease):
            rights = Rights(held, lasting["seconds"])
        return cls(
            loaded=loaded,
            authorization=authorization_of(loaded, floor),
            registry=Registry(loaded.policy),
            floor=floor,
            rights=rights,
            lease=lease,
            **lasting,
        )

    @property
    def config(self) -> Config:
        """The whole configuration."""
        return self.loaded.config

    @property
    def latest(self) -> Callable[[], float]:
        """The later of the host's time and the system's, for certificates, tokens and what else others wrote."""
        return self.evidence.clock.latest

    @property
    def offload(self) -> Executor:
        """Calls a function off the reactor."""
        return self.lasting.computing


def authorization_of(loaded: Loaded, floor: Assurance) -> Authorization:
    """Make what tells operators, registrars, people and agents of one configuration apart."""
    config = loaded.config
    addresses = Addresses(people=config.notify.people, groups=config.notify.groups)
    registrars = _registrars(loaded) if config.host.development else ()
    viewers = (*config.admin.viewers, *registrars)
    return Authorization(config.audit.operators, loaded.directory, floor, viewers, addresses, registrars)


def _registrars(loaded: Loaded) -> tuple[str, ...]:
    """
    Return the keys that agents known here were issued with.

    A development host has no operators until somebody lists them: until then whoever has such a key looks at what
    operators see, and approves calls, as it reloads the host and grants what its agents may call.
    """
    issuers = (agent.issuer_fingerprint for agent in loaded.directory.list_known())
    return tuple(each for each in dict.fromkeys(issuers) if each)
