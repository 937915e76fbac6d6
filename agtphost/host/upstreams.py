"""Build the services of ``[[mcp.server]]``, ``[[a2a.agent]]`` and ``[[acp.agent]]``, and their payload adapters."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

from twisted.application.service import MultiService

from agtphost.adapters.a2a import A2AAdapter, A2AAgent
from agtphost.adapters.a2a.tasks import TERMINAL
from agtphost.adapters.acp import ACPAdapter, ACPServer
from agtphost.adapters.acp.handlers import TERMINAL as OVER
from agtphost.adapters.mcp.adapter import McpAdapter
from agtphost.adapters.mcp.bindings import tool_call
from agtphost.adapters.mcp.call_tracker import CallTracker
from agtphost.adapters.mcp.server import McpServer
from agtphost.adapters.operator_adapter import OperatorAdapter
from agtphost.audit.drafts import HOST_CHAIN, Change, Draft, StreamEvent
from agtphost.audit.lifecycle import LifecycleState, LifecycleTable
from agtphost.audit.state import StateItem, StateTable
from agtphost.config import Config, MCPServerSection, problems_in
from agtphost.config.faults import ConfigFault
from agtphost.config.web_upstreams import ACPServerSection
from agtphost.contract.carried_call import ToolAddress
from agtphost.dispatch.sessions import SUSPENSION
from agtphost.errors import ConfigurationError
from agtphost.handlers.authorization import Authorization
from agtphost.handlers.listening_requests import ListeningRequests
from agtphost.host.a2a import a2a_agents, apply_approval_rule
from agtphost.host.evidence import Evidence
from agtphost.host.server_pool import ServerOrder, ServerPool, ServiceSupply, make_new
from agtphost.host.services import HostServices
from agtphost.iagtp import ILedger, IPayloadAdapter
from agtphost.identity.peer import Assurance, state_owners
from agtphost.upstream.cancellation import AlreadyOver, TaskCancellation
from agtphost.upstream.ownership import OwnedTask, TaskOwnership
from agtphost.upstream.pins import Pins, PinStore, Submit
from agtphost.upstream.web_upstream import WebUpstream

T = TypeVar("T", MCPServerSection, ACPServerSection)


@dataclass(frozen=True, kw_only=True)
class WebUpstreams:
    """The A2A agents and ACP servers, with their payload adapters."""

    adapters: tuple[A2AAdapter | ACPAdapter, ...]
    services: tuple[WebUpstream, ...]
    """One service for each upstream."""

    a2a: Mapping[str, A2AAgent]
    """The A2A agents by name."""


@dataclass(frozen=True, kw_only=True)
class Upstreams:
    """Every upstream of the host."""

    mcp: McpAdapter
    web: WebUpstreams
    plugins: tuple[OperatorAdapter, ...] = ()
    """Payload adapters that the operator's own packages provide."""

    order: ServerOrder | None = None
    """The collector of its servers, by which they are retired."""

    @property
    def reporting(self) -> tuple[McpAdapter | A2AAdapter | ACPAdapter, ...]:
        """Return the adapters that report on their upstreams."""
        return (self.mcp, *self.web.adapters)

    @property
    def adapters(self) -> tuple[McpAdapter | A2AAdapter | ACPAdapter | OperatorAdapter, ...]:
        """Return the payload adapters, one for each protocol in use; MCP always."""
        return (*self.reporting, *self.plugins)

    def find_tool(self, name: str) -> ToolAddress:
        """
        Return where a tool is called that lists call by this name, without a check that there is one.

        A name of no upstream is taken for that of an MCP server's tool, a call of which is refused.
        """
        upstream, dot, tool = name.partition(".")
        place = (upstream, tool) if dot else ("", name)
        for adapter in self.adapters:
            found: ToolAddress | None = adapter.address_of(*place)
            if found is not None:
                return found
        return ToolAddress(path="/", call=replace(tool_call(upstream, tool), constants={"tool": name}))

    def find_action(self, action: str, payload_type: str) -> ToolAddress | None:
        """
        Return where a plugin's tool is called by its action, which a record names; None where no tool is listed so.
        """
        for adapter in self.plugins:
            for tool in adapter.tools():
                if tool.call is not None and (tool.call.action, tool.call.payload_type) == (action, payload_type):
                    return ToolAddress(path=tool.path, call=tool.call)
        return None

    @property
    def services(self) -> tuple[Any, ...]:
        """Return the services of all upstreams, MCP servers first."""
        return (*self.mcp.servers.values(), *self.web.services)


class UpstreamFactory:
    """
    A factory of the upstreams of each configuration, which reuses running servers.

    All configurations share the tracker of calls and the cancellations of tasks.

    :param environ: what MCP servers inherit.
    :param listening: ends what waits for news when the host stops; None: a new service does.
    """

    def __init__(
        self,
        reactor: Any,
        evidence: Evidence,
        environ: Mapping[str, str],
        listening: ListeningRequests | None = None,
    ) -> None:
        self._reactor = reactor
        self._evidence = evidence
        self._environ = environ
        self._submit = _submitter(evidence.ledger)
        self._pins = PinStore(held=evidence.held, submit=self._submit, clock=reactor)
        self.servers = ServerPool(evidence.held.leasing)
        self._calls = call_tracker(reactor, evidence.held, evidence.clock.seconds, listening)
        self.cancellations = TaskCancellations(
            reactor, evidence.held, evidence.states, self._submit, evidence.clock.seconds
        )

    def build(self, services: HostServices) -> Upstreams:
        """
        Return the upstreams of a configuration, not started.

        :raises ConfigurationError: a key of a card cannot be used.
        """
        config, order = services.config, self.servers.new_order()
        mcp = mcp_adapter(
            self._reactor,
            config.mcp.server,
            self._environ,
            pins=self._pins,
            calls=self._calls,
            authorization=services.authorization,
            production=not config.host.development,
            irreversible=config.approvals.irreversible,
            floor=services.floor,
            supply=order,
        )
        web = web_upstreams(self._reactor, config, self._pins, self.cancellations, services.authorization, order)
        plugins = tuple(_operator_adapters(services, (mcp, *web.adapters)))
        return Upstreams(mcp=mcp, web=web, plugins=plugins, order=order)

    def start(self, connected: Upstreams) -> list[Any]:
        """Start the services that do not run yet, and return them."""
        return [] if connected.order is None else self.servers.start(connected.order)

    def adopt(self, connected: Upstreams) -> None:
        """Put upstreams in force."""
        if connected.order is not None:
            self.servers.adopt(connected.order)
        self.cancellations.turn_to(connected.web)

    def discard(self, connected: Upstreams) -> None:
        """Stop the services that belong to no other configuration."""
        if connected.order is not None:
            self.servers.retire(connected.order)


def build_upstreams(services: HostServices, environ: Mapping[str, str]) -> Upstreams:
    """Return the upstreams of a host that has only one configuration."""
    made = UpstreamFactory(services.reactor, services.evidence, environ, services.lasting.listening)
    connected = made.build(services)
    made.adopt(connected)
    return connected


def _operator_adapters(services: HostServices, known: Iterable[IPayloadAdapter]) -> Iterator[OperatorAdapter]:
    """
    Yield the adapters of the operator's packages.

    :raises ConfigurationError: two adapters have one name, or carry one payload type.
    """
    names = {"a2a", "acp", *(adapter.name for adapter in known)}
    types = {kind for adapter in known for kind in adapter.payload_types}
    faults: list[ConfigFault] = []
    for at, given in enumerate(services.loaded.plugins.adapters):
        adapter = OperatorAdapter(given, irreversible=services.config.approvals.irreversible)
        taken = [adapter.name] if adapter.name in names else sorted(types & adapter.payload_types)
        if taken:
            faults.append(
                ConfigFault(
                    location=("adapter", at, "plugin"),
                    message=f"names an adapter for {taken[0][:64]!r}, which another adapter has",
                    hint="leave out one of them",
                )
            )
        names.add(adapter.name)
        types |= adapter.payload_types
        yield adapter
    if faults:
        raise ConfigurationError(problems_in(services.config.file, faults))


def apply_approval_default(entry: MCPServerSection, irreversible: bool) -> MCPServerSection:
    """Return the entry with the default rule on which tools need a person's approval."""
    return entry.model_copy(update={"approval": "irreversible"}) if irreversible and entry.approval is None else entry


def apply_rule_default(entry: T, production: bool) -> T:
    """Return the entry with the default for rules that match nothing: in production they keep the upstream off."""
    settled = entry.unmatched_rules or ("off" if production else "warn")
    return entry.model_copy(update={"unmatched_rules": settled})


def acp_servers(reactor: Any, config: Config, store: PinStore, supply: ServiceSupply = make_new) -> list[ACPServer]:
    """
    Return a service for each ``[[acp.agent]]`` entry.

    :param store: keeps approvals of changed definitions.
    :param supply: returns a running service again where its entry is unchanged.
    """
    irreversible = config.approvals.irreversible
    entries = [
        apply_approval_rule(apply_rule_default(entry, not config.host.development), irreversible)
        for entry in config.acp.agent
    ]

    def make_server(entry: ACPServerSection) -> ACPServer:
        pins = partial(Pins, "acp", entry.name, entry.pins, store)
        return supply("acp", entry.name, entry, lambda: ACPServer(reactor, entry, pins=pins()))

    return [make_server(entry) for entry in entries]


def _submitter(ledger: ILedger) -> Submit:
    """Return a function that records changes and events without an answer to a caller."""

    async def submit(changes: Sequence[Change], events: Sequence[StreamEvent]) -> None:
        await ledger.submit(Draft(chain=HOST_CHAIN, payload={}, changes=tuple(changes), events=tuple(events)))

    return submit


def call_tracker(
    reactor: Any, held: StateTable, now: Callable[[], float], listening: ListeningRequests | None = None
) -> CallTracker:
    """
    Return the tracker of the calls of all MCP servers.

    :param listening: ends what waits for news when the host stops; None: a service of the tracker's own.
    """
    calls = CallTracker(reactor, held, now, listening)

    def note_suspension(key: str, item: StateItem | None) -> None:
        # By SUSPEND with a Task-ID a caller cancels what runs under it (adapters rule G6).
        if item is not None and item.value["of"] == "task" and item.value["status"] == "suspended":
            calls.cancel(item.owner, str(item.value["name"]))

    held.watch(SUSPENSION, note_suspension)
    return calls


def mcp_adapter(
    reactor: Any,
    entries: Iterable[MCPServerSection],
    environ: Mapping[str, str],
    *,
    pins: PinStore,
    calls: CallTracker,
    authorization: Authorization,
    production: bool = True,
    irreversible: bool = False,
    floor: Assurance = Assurance.CERTIFICATE,
    supply: ServiceSupply = make_new,
) -> McpAdapter:
    """
    Return the adapter of MCP, with a service for each entry.

    :param pins: keeps approved tool definitions.
    :param production: whether rules for missing tools keep a server's tools off by default.
    :param irreversible: whether a person approves each call of an irreversible tool.
    :param floor: the default assurance for state changes.
    :param supply: returns a running service again where its entry is unchanged.
    """

    def make_server(entry: MCPServerSection) -> McpServer:
        approved = partial(Pins, "mcp", entry.name, entry.pins, pins)
        return supply(
            "mcp",
            entry.name,
            entry,
            lambda: McpServer(reactor, entry, environ, calls=calls, pins=approved(), floor=floor),
        )

    servers = [
        make_server(apply_approval_default(apply_rule_default(entry, production), irreversible)) for entry in entries
    ]
    return McpAdapter(servers, calls=calls, authorization=authorization)


class TaskCancellations:
    """Cancels tasks behind the host, and knows their owners; shared by all configurations."""

    def __init__(
        self,
        reactor: Any,
        held: StateTable,
        states: LifecycleTable,
        submit: Submit,
        now: Callable[[], float],
    ) -> None:
        self._now = now
        self._reactor = reactor
        self._held = held
        self._submit = submit
        self._links: dict[str, TaskOwnership] = {}
        self._adapters: dict[str, A2AAdapter | ACPAdapter] = {}
        self._cancellations: dict[str, TaskCancellation] = {}
        self.service = MultiService()  # type: ignore[no-untyped-call]
        held.watch(SUSPENSION, self._note_suspension)
        states.watch(self._note_state)

    def owners_of(self, protocol: str, kind: str, is_final: Callable[[str], bool]) -> TaskOwnership:
        """Return the owners of the tasks of a protocol."""
        if protocol not in self._links:
            with self._held.leasing.filling(None):
                links = self._links[protocol] = TaskOwnership(self._held, kind, self._now)
            made = TaskCancellation(
                protocol, links, partial(self._end, protocol), is_final, self._submit, self._reactor
            )
            self._cancellations[protocol] = made
            made.setServiceParent(self.service)  # type: ignore[no-untyped-call]
        return self._links[protocol]

    def turn_to(self, web: WebUpstreams) -> None:
        """Use the upstreams of another configuration."""
        self._adapters = {adapter.name: adapter for adapter in web.adapters}

    async def _end(self, protocol: str, link: OwnedTask) -> str:
        adapter = self._adapters.get(protocol)
        if adapter is None:
            raise AlreadyOver(f"this host no longer has {protocol} upstreams")
        return await adapter.end(link)

    def _note_suspension(self, key: str, item: StateItem | None) -> None:
        if item is not None and item.value["status"] == "suspended":
            for each in self._cancellations.values():
                each.cancel_suspended(item.owner, str(item.value["of"]), str(item.value["name"]))

    def _note_state(self, agent_id: str, state: LifecycleState) -> None:
        if state.is_stopped:
            for each in self._cancellations.values():
                for owner in state_owners(agent_id):
                    each.cancel_of_agent(owner, state.status.value)


def web_upstreams(
    reactor: Any,
    config: Config,
    pins: PinStore,
    cancellations: TaskCancellations,
    authorization: Authorization,
    supply: ServiceSupply = make_new,
) -> WebUpstreams:
    """
    Return the A2A agents and ACP servers of a configuration, with adapters for the protocols in use.

    :param pins: keeps approvals of changed definitions.
    :raises ConfigurationError: a key of a card cannot be used.
    """
    adapters: list[A2AAdapter | ACPAdapter] = []
    helpers = a2a_agents(reactor, config, pins, supply)
    servers = acp_servers(reactor, config, pins, supply)
    if helpers:
        adapters.append(
            A2AAdapter(helpers, cancellations.owners_of("a2a", "a2a-task", TERMINAL.__contains__), authorization)
        )
    if servers:
        links = cancellations.owners_of("acp", "acp-run", OVER.__contains__)
        adapters.append(ACPAdapter(servers, links, authorization))
    named = {helper.settings.name: helper for helper in helpers}
    return WebUpstreams(adapters=tuple(adapters), services=(*helpers, *servers), a2a=named)
