"""
The interface of features: capabilities that an operator can switch on, built for each configuration.

The host's own features and those of other packages use it in the same way. A package names a class, or a function that
takes nothing, as an entry point of the group ``agtphost.features``. A feature of another package is switched on by its
table ``[feature.NAME]``, where NAME is that of the entry point; one of the host by the section that has its name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from twisted.application.service import IService
from zope.interface import Attribute, Interface

from agtphost.audit.interfaces import ILedger, IRemoteWitness
from agtphost.audit.lifecycle import LifecycleState
from agtphost.audit.state import StateTable
from agtphost.config import Config
from agtphost.config.faults import ConfigFault
from agtphost.contract.binding import Binding
from agtphost.contract.carried_call import ToolAddress
from agtphost.contract.interfaces import IPayloadAdapter
from agtphost.contract.policy import MethodPolicy
from agtphost.dispatch.interfaces import IDispatcher, IOperatorGate
from agtphost.dispatch.tracing import Tracer
from agtphost.handlers.authorization import Authorization
from agtphost.handlers.built_in import Target
from agtphost.handlers.peer_hosts import PeerHost
from agtphost.http.served_surface import ServedSurface
from agtphost.identity.agents import Agent
from agtphost.identity.directory import IAgentDirectory
from agtphost.identity.keys import SigningKey, VerifyingKey
from agtphost.identity.peer import PeerCertificate
from agtphost.search.engine import SearchEngine
from agtphost.stores.record_store import IRecordStore
from agtphost.vocabulary.catalog import Catalog
from agtphost.vocabulary.steps import Executor
from agtphost.vocabulary.vitals import Vitals


class IBindingTable(Interface):
    """
    The table of what can be called under one configuration.

    The bindings on a path are known once all features are built, so :meth:`IFeature.build` may keep their readers and
    not call them. The attributes are known before.
    """

    catalog: Catalog = Attribute("Catalog: the methods that exist")
    policy: MethodPolicy = Attribute("MethodPolicy: those that the operator admits, and their aliases")

    search: SearchEngine = Attribute("SearchEngine: ranks what is found by a description, as [search] sets it")
    adapters: Sequence[IPayloadAdapter] = Attribute(
        "Sequence[IPayloadAdapter]: what carries calls of tools on EXECUTE, one for each protocol; that of MCP always"
    )
    endpoints: Sequence[Binding] = Attribute("Sequence[Binding]: the operator's endpoints")

    def methods_at(path: str) -> Sequence[str]:
        """Return the methods bound on a path, sorted; empty if the path is unknown."""

    def bindings_at(path: str) -> Sequence[Binding]:
        """Return what is bound on a path; see :meth:`agtphost.contract.endpoint_table.EndpointTable.bindings_at`."""


class IRunningHost(Interface):
    """The host under the configuration in force, from the time when the whole host is assembled."""

    config: Config = Attribute("Config: the configuration in force")
    dispatcher: IDispatcher = Attribute("IDispatcher: answers requests under the configuration in force")
    offload: Executor = Attribute("Executor: calls functions off the reactor")

    peers: Sequence[PeerHost] = Attribute("Sequence[PeerHost]: other hosts that it may ask, the same until it stops")

    def state_of(agent: Agent) -> LifecycleState:
        """Return the present lifecycle state of an agent."""

    def read_vitals() -> Vitals:
        """Return the host's vital signs."""

    def render_traffic() -> Mapping[str, Any]:
        """Return the calls of the last hour by the minute; see :mod:`agtphost.methods.inspection.traffic`."""

    def witness_keys() -> Sequence[tuple[str, VerifyingKey]]:
        """Return addresses and known keys of the witnesses of the host's log, without asking any of them."""

    async def read_manifest() -> Mapping[str, Any]:
        """Return the published manifest of the host's own endpoints, as callers read it who may not see all of it."""

    def render_agis_summary() -> bytes | None:
        """Return ``agis.json`` (AGIS v01 section 12.2); None if anonymous clients may not see it."""

    def tool_address(upstream: str, tool: str) -> ToolAddress:
        """Return where a tool is called, without a check that there is one; see ``IToolAddresses``."""

    def check_principal(token: str) -> str:
        """
        Return the issuer and the principal of a token of a provider in ``[policies.oauth]``, on two lines.

        :raises agtphost.errors.Refusal: the token is not trusted.
        """

    def watch_agents(watcher: Callable[[str, LifecycleState], None]) -> None:
        """
        Have ``watcher`` called with an Agent-ID and a new state whenever one changes.

        :meth:`IFeature.build` may call this: its watchers are removed with the configuration.
        """

    def is_valid(certificate: PeerCertificate) -> bool:
        """Return whether a client certificate is valid now and not revoked, and its agent is not stopped."""

    def end_call(response_id: str) -> bool:
        """End a call that waits, as if its caller had left; return whether there is one with this Response-ID."""

    def restart_upstream(name: str) -> bool:
        """Restart an upstream, ``PROTOCOL.NAME``, now; return whether there is one."""


@dataclass(frozen=True, kw_only=True)
class Services:
    """The parts of a host that every feature is built from, under one configuration."""

    config: Config
    """The whole configuration."""

    reactor: Any
    """The reactor: timers, and its time in seconds from any beginning."""

    clock: Callable[[], float]
    """Returns the host's time, in seconds since the Unix epoch."""

    ledger: ILedger
    """Seals records. It takes none before the host has started, nor after it has stopped."""

    state: StateTable
    """Stored items. A watcher that :meth:`IFeature.build` adds is removed with the configuration."""

    records: IRecordStore
    """The records of the store, read without blocking."""

    authorization: Authorization
    """Decides who is an operator, and with which role."""

    key: SigningKey | None
    """The host's signing key, which signs records and checkpoints; None on a host that signs nothing."""

    directory: IAgentDirectory
    """The agents of this configuration."""

    table: IBindingTable
    """What can be called under this configuration."""

    host: IRunningHost
    """The host under the configuration in force; for what runs, not for :meth:`IFeature.build`."""


@dataclass(frozen=True, kw_only=True)
class PlacedGate:
    """A check of calls, with its place."""

    gate: IOperatorGate
    after: str = "schema"
    """The gate of the host that it follows; another than the possible ones is an error, which lists these."""


@dataclass(frozen=True, kw_only=True)
class Contribution:
    """The additions of a feature to a host under one configuration."""

    bindings: Sequence[Binding] = ()
    """Methods on paths, for :meth:`agtphost.contract.binding.Binding.native`. A place that is taken is an error."""

    inspect_targets: Mapping[str, Target] = field(default_factory=dict)
    """Values of ``target`` of INSPECT. A name that is taken is an error."""

    gates: Sequence[PlacedGate] = ()
    """Checks of calls. They follow those that ``[[gate]]`` lists after the same gate of the host."""

    services: Sequence[IService] = ()
    """
    Services that the host starts and stops, compared by identity over reloads. One that the configuration before has
    continues; a new one is started before the switch; one that no configuration with calls has any more is stopped.
    """

    surfaces: Sequence[ServedSurface] = ()
    """
    The resources for surfaces of :func:`agtphost.config.surfaces.surfaces`, by name. That of another package's feature
    is ``feature.NAME``; it is served where ``[feature.NAME.http]`` has ``listen``. Listeners are built at the start of
    the host: a reload with other resources is refused, so carry them.
    """

    witnesses: Sequence[IRemoteWitness] = ()
    """Witnesses of the host's checkpoints. They are asked at the start: a reload with other ones is refused."""

    tracer: Tracer | None = None
    """Makes the spans of calls; one feature at most may have one."""

    activate: Callable[[], None] | None = None
    """
    Called in the turn of the reactor in which this configuration replaces another one: for what continues over a reload
    and does something by the configuration.
    """

    carried: object | None = None
    """What the next :meth:`IFeature.build` gets as ``previous``."""


class IFeature(Interface):
    """A capability that an operator can switch on."""

    settings_schema = Attribute(
        """
        dict | type | None: the JSON schema or the dataclass of ``[feature.NAME]``, as for a plugin; None for a feature
        of the host, whose section is part of :class:`agtphost.config.Config`
        """
    )

    def check(settings: Any, config: Config) -> Iterable[ConfigFault]:
        """
        Yield what is wrong with the configuration, beyond the schema; start nothing.

        It may be called in any thread.

        :param settings: as :meth:`build` gets them.
        :return: faults with locations from the top of the file, such as ``("feature", "shelf", "titles")``.
        """

    def build(settings: Any, services: Services, previous: Any) -> Contribution:
        """
        Build the feature for one configuration. Start nothing, and do not change ``previous``.

        The configuration may be refused after this, and calls of the one before still use what that contains.

        :param settings: an instance of the dataclass, a dictionary that follows the schema, or the host's own section.
        :param previous: what the same feature carried in the configuration in force; None at the start, and where the
            feature was off.
        :raises agtphost.errors.ConfigurationError: the configuration names something that cannot be used.
        """
