"""List workflows and subscriptions of this host, and resume them at start."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from twisted.application.service import Service
from twisted.internet.defer import Deferred

from agtphost.contract.binding import Binding
from agtphost.dispatch.decision import Objecting
from agtphost.host.services import HostServices
from agtphost.host.upstreams import Upstreams
from agtphost.identity.peer import Assurance
from agtphost.identity.required_assurance import default_assurance
from agtphost.methods.standard.orchestration import monitor_methods, workflow_queries
from agtphost.methods.standard.orchestration.monitor_state import Observed
from agtphost.methods.standard.orchestration.monitors import Monitors
from agtphost.methods.standard.orchestration.workflows import Workflows
from agtphost.upstream.supervision import UpstreamState

WORKFLOW_METHODS = frozenset({"CHAIN", "RETRY", "PAUSE"})

START_TIMEOUT = 10.0
"""Seconds that servers get to start before workflows of an earlier process are resumed in any case."""

LOOK_EVERY = 0.1


class OrchestrationService(Service):
    """
    A service that resumes workflows and subscriptions once their servers run, and lets no further step begin at the
    end.

    :param starting: returns whether some server is still starting.
    :param seconds: how long running steps may take to end at shutdown.
    """

    name = "orchestration"

    def __init__(
        self,
        reactor: Any,
        workflows: Workflows,
        monitors: Monitors,
        starting: Callable[[], bool],
        seconds: float,
    ) -> None:
        self._reactor = reactor
        self._workflows = workflows
        self._monitors = monitors
        self._starting = starting
        self._seconds = seconds
        self._until = 0.0
        self._call: Any = None

    def startService(self) -> None:
        super().startService()  # type: ignore[no-untyped-call]
        self._until = self._reactor.seconds() + START_TIMEOUT
        self._call = self._reactor.callLater(0, self._begin)

    def _begin(self) -> None:
        self._call = None
        if self._starting() and self._reactor.seconds() < self._until:
            self._call = self._reactor.callLater(LOOK_EVERY, self._begin)
            return
        self._workflows.start()
        self._monitors.start()

    def stopService(self) -> Deferred[None]:
        super().stopService()  # type: ignore[no-untyped-call]
        if self._call is not None:
            self._call.cancel()
        self._monitors.stop()
        return Deferred.fromCoroutine(self._workflows.stop(self._seconds))


def orchestration_service(services: HostServices, connected: Callable[[], Upstreams]) -> OrchestrationService:
    """Return the orchestration service of one host."""

    def starting() -> bool:
        return any(service.state is UpstreamState.STARTING for service in connected().services)

    lasting = services.lasting
    return OrchestrationService(
        services.reactor, lasting.workflows, lasting.monitors, starting, services.config.limits.drain_timeout
    )


def observe_configuration(services: HostServices, connected: Upstreams, objection: Objecting) -> None:
    """Let subscriptions observe this configuration."""

    def upstreams() -> Iterable[tuple[str, str]]:
        return ((service.name, service.state.value) for service in connected.services)

    services.lasting.monitors.turn_to(
        Observed(
            held=services.evidence.held,
            directory=services.loaded.directory,
            states=services.evidence.states.state_of,
            upstreams=upstreams,
        ),
        objection,
    )


def orchestration_bindings(services: HostServices) -> tuple[Binding, ...]:
    """
    Return the bindings that list workflows and subscriptions, if any are possible; register INSPECT of a workflow.
    """
    names = services.config.methods.names
    found: list[Binding] = []
    if names & WORKFLOW_METHODS:
        shown = workflow_queries.WorkflowReading(
            services.evidence.held, services.authorization, services.lasting.continuations
        )
        services.registry.add_targets({workflow_queries.TARGET: shown.read})
        statement = "Workflows of the calling agent, and their states."
        found.append(Binding.native("QUERY", workflow_queries.PATH, shown, statement, Assurance.NONE))
    if "MONITOR" in names:
        return (*found, _monitors(services))
    return tuple(found)


def _monitors(services: HostServices) -> Binding:
    listing = monitor_methods.Listing(services.lasting.monitors)
    least = default_assurance(services.floor, changes=False)
    return Binding.native("QUERY", monitor_methods.PATH, listing, "Subscriptions of the calling agent.", least)
