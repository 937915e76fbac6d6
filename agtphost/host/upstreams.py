"""``[[mcp.server]]``, ``[[a2a.agent]]`` and ``[[acp.agent]]`` entries become services, and what carries payloads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from agtphost.adapters.a2a import A2AAdapter, A2AAgent
from agtphost.adapters.a2a.tasks import TERMINAL
from agtphost.adapters.acp import ACPAdapter, ACPServer
from agtphost.adapters.acp.handlers import TERMINAL as OVER
from agtphost.adapters.mcp.adapter import McpAdapter
from agtphost.adapters.mcp.calls import CallTracker
from agtphost.adapters.mcp.server import McpServer
from agtphost.adapters.operators import OperatorAdapter
from agtphost.audit.drafts import HOST_CHAIN, Change, Draft, StreamEvent
from agtphost.audit.lifecycle import LifecycleState, LifecycleTable
from agtphost.audit.state import StateItem, StateTable
from agtphost.config import Config, MCPServerSection
from agtphost.config.faults import Fault
from agtphost.config.web_upstreams import ACPServerSection
from agtphost.dispatch.sessions import SUSPENSION
from agtphost.errors import ConfigurationError
from agtphost.handlers.authorization import Authorization
from agtphost.host.a2a import a2a_agents, web_rules
from agtphost.host.foundation import Foundation
from agtphost.host.plugins import problems_of
from agtphost.iagtp import ILedger, IPayloadAdapter
from agtphost.upstream.cancellation import Cancellation
from agtphost.upstream.ownership import TaskOwnership
from agtphost.upstream.pins import Pins, Store, Submit
from agtphost.upstream.web import WebUpstream

T = TypeVar("T", MCPServerSection, ACPServerSection)


@dataclass(frozen=True, kw_only=True)
class WebUpstreams:
    """A2A agents and ACP servers, and what carries payloads to them."""

    adapters: tuple[A2AAdapter | ACPAdapter, ...]
    services: tuple[WebUpstream, ...]
    """One service for each upstream."""

    cancellations: tuple[Cancellation, ...]
    """What ends tasks of agents that were stopped: one service for each protocol."""

    a2a: Mapping[str, A2AAgent]
    """The A2A agents by name."""


@dataclass(frozen=True, kw_only=True)
class Upstreams:
    """Every upstream of the host."""

    mcp: McpAdapter
    web: WebUpstreams
    plugins: tuple[OperatorAdapter, ...] = ()
    """Payload adapters that the operator's own packages provide."""

    @property
    def reporting(self) -> tuple[McpAdapter | A2AAdapter | ACPAdapter, ...]:
        """Those that tell of their upstreams."""
        return (self.mcp, *self.web.adapters)

    @property
    def adapters(self) -> tuple[McpAdapter | A2AAdapter | ACPAdapter | OperatorAdapter, ...]:
        """What carries payloads, one for each protocol that is used; MCP always."""
        return (*self.reporting, *self.plugins)

    @property
    def services(self) -> tuple[Any, ...]:
        """One for each upstream, MCP servers first."""
        return (*self.mcp.servers.values(), *self.web.services)


def upstreams(on: Foundation, environ: Mapping[str, str]) -> Upstreams:
    """
    MCP servers, A2A agents and ACP servers, as configured.

    :param environ: what MCP servers inherit.
    :raises ConfigurationError: a key of a card cannot be used.
    """
    config, evidence = on.config, on.evidence
    mcp = mcp_adapter(
        on.reactor,
        config.mcp.server,
        environ,
        held=evidence.held,
        ledger=evidence.ledger,
        authorization=on.authorization,
        production=not config.host.development,
        irreversible=config.approvals.irreversible,
    )
    web = web_upstreams(
        on.reactor,
        config,
        held=evidence.held,
        ledger=evidence.ledger,
        states=evidence.states,
        authorization=on.authorization,
    )
    return Upstreams(mcp=mcp, web=web, plugins=tuple(_operators(on, (mcp, *web.adapters))))


def _operators(on: Foundation, known: Iterable[IPayloadAdapter]) -> Iterator[OperatorAdapter]:
    """
    The adapters of the operator's packages.

    :raises ConfigurationError: two adapters have one name, or carry one payload type.
    """
    names = {"a2a", "acp", *(adapter.name for adapter in known)}
    types = {kind for adapter in known for kind in adapter.payload_types}
    faults: list[Fault] = []
    for at, given in enumerate(on.loaded.plugins.adapters):
        adapter = OperatorAdapter(given, irreversible=on.config.approvals.irreversible)
        taken = [adapter.name] if adapter.name in names else sorted(types & adapter.payload_types)
        if taken:
            faults.append(
                Fault(
                    location=("adapter", at, "plugin"),
                    message=f"names an adapter for {taken[0][:64]!r}, which another adapter has",
                    hint="leave out one of them",
                )
            )
        names.add(adapter.name)
        types |= adapter.payload_types
        yield adapter
    if faults:
        raise ConfigurationError(problems_of(on.config, faults))


def tool_rules(entry: MCPServerSection, irreversible: bool) -> MCPServerSection:
    """Says of which tools a person approves each call, where the entry does not."""
    return entry.model_copy(update={"approval": "irreversible"}) if irreversible and entry.approval is None else entry


def with_rules(entry: T, production: bool) -> T:
    """Says what names that nothing has lead to, where the entry does not: in production they keep the upstream off."""
    settled = entry.unmatched_rules or ("off" if production else "warn")
    return entry.model_copy(update={"unmatched_rules": settled})


def acp_servers(reactor: Any, config: Config, store: Store) -> list[ACPServer]:
    """
    A service for each ``[[acp.agent]]``.

    :param store: where approvals are kept.
    """
    irreversible = config.approvals.irreversible
    entries = [web_rules(with_rules(entry, not config.host.development), irreversible) for entry in config.acp.agent]
    return [ACPServer(reactor, each, pins=Pins("acp", each.name, each.pins, store)) for each in entries]


def _submitter(ledger: ILedger) -> Submit:
    """What writes changes and events that are no answer to anybody."""

    async def submit(changes: Sequence[Change], events: Sequence[StreamEvent]) -> None:
        await ledger.submit(Draft(chain=HOST_CHAIN, payload={}, changes=tuple(changes), events=tuple(events)))

    return submit


def mcp_adapter(
    reactor: Any,
    entries: Iterable[MCPServerSection],
    environ: Mapping[str, str],
    *,
    held: StateTable,
    ledger: ILedger,
    authorization: Authorization,
    production: bool = True,
    irreversible: bool = False,
) -> McpAdapter:
    """
    A service for each entry, and what carries payloads to them.

    :param held: where approved tool definitions are kept, and what goes on.
    :param production: whether rules for tools that there are not keep a server's tools off, unless it says otherwise.
    :param irreversible: whether a person approves each call of an irreversible tool.
    """
    store = Store(held=held, submit=_submitter(ledger), clock=reactor)
    calls = CallTracker(reactor, held)
    servers = [
        McpServer(reactor, entry, environ, calls=calls, pins=Pins("mcp", entry.name, entry.pins, store))
        for entry in (tool_rules(with_rules(entry, production), irreversible) for entry in entries)
    ]

    def suspended(key: str, item: StateItem | None) -> None:
        # SUSPEND with a Task-ID is how a caller gives up what runs under it (adapters rule G6).
        if item is not None and item.value["of"] == "task" and item.value["status"] == "suspended":
            calls.cancel(item.owner, str(item.value["name"]))

    held.watch(SUSPENSION, suspended)
    return McpAdapter(servers, calls=calls, authorization=authorization)


def web_upstreams(
    reactor: Any,
    config: Config,
    *,
    held: StateTable,
    ledger: ILedger,
    states: LifecycleTable,
    authorization: Authorization,
) -> WebUpstreams:
    """
    A service for each ``[[a2a.agent]]`` and ``[[acp.agent]]``; nothing of what there is none of.

    :raises ConfigurationError: a key of a card cannot be used.
    """
    submit = _submitter(ledger)
    adapters: list[A2AAdapter | ACPAdapter] = []
    cancellations: list[Cancellation] = []
    store = Store(held=held, submit=submit, clock=reactor)
    helpers = a2a_agents(reactor, config, store)
    servers = acp_servers(reactor, config, store)
    if helpers:
        links = TaskOwnership(held, "a2a-task")
        a2a = A2AAdapter(helpers, links, authorization)
        adapters.append(a2a)
        cancellations.append(Cancellation("a2a", links, a2a.end, TERMINAL.__contains__, submit, reactor))
    if servers:
        links = TaskOwnership(held, "acp-run")
        acp = ACPAdapter(servers, links, authorization)
        adapters.append(acp)
        cancellations.append(Cancellation("acp", links, acp.end, OVER.__contains__, submit, reactor))
    if cancellations:
        _end_with_callers(held, states, cancellations)
    services = (*helpers, *servers)
    named = {helper.settings.name: helper for helper in helpers}
    return WebUpstreams(adapters=tuple(adapters), services=services, cancellations=tuple(cancellations), a2a=named)


def _end_with_callers(held: StateTable, states: LifecycleTable, cancellations: Sequence[Cancellation]) -> None:
    def suspended(key: str, item: StateItem | None) -> None:
        if item is not None and item.value["status"] == "suspended":
            for each in cancellations:
                each.given_up(item.owner, str(item.value["of"]), str(item.value["name"]))

    def stopped(agent_id: str, state: LifecycleState) -> None:
        if state.stopped:
            for each in cancellations:
                each.agent_stopped(agent_id, state.status.value)

    held.watch(SUSPENSION, suspended)
    states.watch(stopped)
