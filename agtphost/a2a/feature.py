"""The feature of ``[a2a.front]``: clients of A2A reach hosted agents; their tasks are state items."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from zope.interface import implementer

from agtphost.a2a.front import A2aFrontFacts, A2aFrontResource, A2aFrontSettings, ExposedAgent
from agtphost.a2a.messages import text_member
from agtphost.a2a.relay import RelayedAgent
from agtphost.a2a.runs import MOST_WAITING_TASKS, STORING_TASKS, STORING_TASKS_PER_CLIENT, TaskRuns
from agtphost.adapters.a2a import A2AAdapter, A2AAgent
from agtphost.adapters.a2a.front_tasks import FrontTaskTable, front_bindings
from agtphost.audit.drafts import HOST_CHAIN, Change, Draft
from agtphost.audit.state import StateItem
from agtphost.config import Config, line_of
from agtphost.config.faults import ConfigFault
from agtphost.config.surfaces import FRONT
from agtphost.config.web_upstreams import A2A, FrontAgent
from agtphost.contract.binding import Binding
from agtphost.contract.built_in_contracts import contract_of
from agtphost.dispatch.sessions import SUSPENSION
from agtphost.errors import ConfigurationError, Problem
from agtphost.features import Contribution, IBindingTable, IFeature, Services
from agtphost.http.clients import HttpClients
from agtphost.http.served_surface import ServedSurface
from agtphost.http_clients import keyholders, speaker_of, verified_certificate
from agtphost.identity.agents import Agent
from agtphost.identity.directory import IAgentDirectory
from agtphost.methods.discovery.visibility import Visibility
from agtphost.upstream.queue import CallQueue
from agtphost.upstream.supervision import UpstreamState
from agtphost.vocabulary import jsontext


@dataclass(frozen=True, kw_only=True)
class CarriedFront:
    """The front with the tasks of its clients, which continue over a reload."""

    tasks: FrontTaskTable
    surface: ServedSurface

    def note_suspension(self, key: str, item: StateItem | None) -> None:
        """Withdraw a task that is suspended."""
        if item is not None and item.value["of"] == "task" and item.value["status"] == "suspended":
            self.tasks.withdraw_suspended(item.owner, str(item.value["name"]))


@implementer(IFeature)
class A2aFrontFeature:
    """The feature of ``[a2a.front]``, which is on where the section has ``listen``."""

    settings_schema = None

    def check(self, settings: A2A, config: Config) -> Iterable[ConfigFault]:
        """Return no faults: reading the configuration checks the section."""
        return ()

    def build(self, settings: A2A, services: Services, previous: CarriedFront | None) -> Contribution:
        """
        Return the front, which lives as long as the host, and takes these settings when they come into force.

        :raises ConfigurationError: the configuration names agents that are not hosted.
        """
        if settings.front.listen is None:
            return Contribution()
        facts = _facts(services)
        if previous is None:
            made = _front(services, facts)
            services.state.watch(SUSPENSION, made.note_suspension)
        else:
            made = previous
            made.tasks.follow(services.state)
            services.state.follow(SUSPENSION, made.note_suspension)
        return Contribution(
            bindings=front_bindings(made.tasks),
            surfaces=[made.surface],
            activate=partial(made.surface.resource.turn_to, facts),
            carried=made,
        )


def _front(services: Services, facts: A2aFrontFacts) -> CarriedFront:
    async def keep(changes: Sequence[Change]) -> None:
        await services.ledger.submit(Draft(chain=HOST_CHAIN, payload={}, changes=tuple(changes)))

    reactor, dispatcher = services.reactor, services.host.dispatcher
    tasks = FrontTaskTable(services.state, keep, services.clock)
    storing = CallQueue(reactor, STORING_TASKS, waiting=MOST_WAITING_TASKS, share=STORING_TASKS_PER_CLIENT)
    resource = A2aFrontResource(facts, dispatcher, TaskRuns(dispatcher, tasks, storing), services.key, reactor)
    return CarriedFront(tasks=tasks, surface=ServedSurface(name=FRONT, what="the A2A front", resource=resource))


def _facts(services: Services) -> A2aFrontFacts:
    """
    Return what the front needs to know under a configuration.

    :raises ConfigurationError: the configuration names agents that are not hosted.
    """
    config, directory = services.config, services.directory
    given = config.a2a.front
    speaker, objections = _calling_agent(config, directory)
    if problems := [*_find_unknown(config, directory), *objections]:
        raise ConfigurationError(problems)
    trusts = given.oauth and bool(config.policies.oauth.issuer)
    visibility = Visibility.for_policies(config.policies, services.host.state_of, services.authorization)
    return A2aFrontFacts(
        settings=A2aFrontSettings(
            url=given.url or "",
            timeout=given.timeout,
            disclosed=config.policies.anonymous_discovery and config.policies.agent_disclosure == "public",
        ),
        read_agents=partial(_read_agents, services),
        clients=HttpClients(
            FRONT,
            agent_id=speaker,
            claimed=given.scopes,
            tokens=tuple(token.reveal() for token in given.tokens),
            keyholders=keyholders(config, directory),
            certified=verified_certificate if given.client_certificates else None,
            principal=services.host.check_principal if trusts else None,
        ),
        offered=lambda agent: bool(visibility.filter_offered((agent,))),
    )


def _find_unknown(config: Config, directory: IAgentDirectory) -> Iterator[Problem]:
    """Yield a problem for each agent of the front that is not hosted."""
    for index, entry in enumerate(config.a2a.front.agent):
        if entry.upstream is None and directory.by_name(entry.name) is None:
            yield Problem(
                message=f'[[a2a.front.agent]] "{entry.name[:64]}" is not a hosted agent',
                file=str(config.file),
                line=line_of(config.file, ("a2a", "front", "agent", index, "name")),
                hint="agtp agent ls prints the agents of this host; write upstream = NAME for one of [[a2a.agent]]",
            )


def _read_agents(services: Services) -> Mapping[str, ExposedAgent | RelayedAgent]:
    """Return the agents that the front shows, by name."""
    adapters, directory = services.table.adapters, services.directory
    upstreams: Mapping[str, A2AAgent] = next((each.by_name for each in adapters if isinstance(each, A2AAdapter)), {})
    exposed: dict[str, ExposedAgent | RelayedAgent] = {}
    for entry in services.config.a2a.front.agent:
        agent = directory.by_name(entry.name)
        if entry.upstream is not None:
            exposed[entry.name] = _relay_to(upstreams[entry.upstream])
        elif agent is not None:
            exposed[entry.name] = _expose(agent, entry, services.table)
    return exposed


def _expose(agent: Agent, entry: FrontAgent, table: IBindingTable) -> ExposedAgent:
    template = _to_plain(entry.input)
    schema = next((_schema_of(each) for each in table.bindings_at(entry.path) if each.method == entry.method), {})
    text = text_member(schema, template) if entry.text is None else entry.text
    return ExposedAgent(
        agent=agent,
        method=entry.method,
        path=entry.path,
        input=template,
        text=tuple(text.split(".")) if text else (),
        answer=entry.answer,
        schema=schema,
    )


def _calling_agent(config: Config, directory: IAgentDirectory) -> tuple[str, list[Problem]]:
    """
    Return the Agent-ID of the agent that calls for clients of the front, empty where none is named; and the problems.
    """
    try:
        return speaker_of(config, directory, ("a2a", "front", "agent_id"), config.a2a.front.agent_id), []
    except ConfigurationError as error:
        return "", list(error.problems)


def _schema_of(binding: Binding) -> Mapping[str, Any]:
    """Return the input schema of a binding; that of a built-in is in its contract."""
    if binding.input_schema is not None:
        return binding.input_schema.schema
    return contract_of(binding.method, binding.path).input_schema(binding.path)


def _relay_to(agent: A2AAgent) -> RelayedAgent:
    def card() -> Mapping[str, Any] | None:
        known = agent.card
        return None if known is None or agent.state not in (UpstreamState.UP, UpstreamState.IDLE) else known.document

    settings = agent.settings
    return RelayedAgent(upstream=settings.name, card=card, pushes=bool(settings.push_origins))


def _to_plain(value: Mapping[str, Any]) -> dict[str, Any]:
    """Return a table of the configuration file as plain JSON types."""
    plain = jsontext.decode(jsontext.encode(dict(value)))
    assert isinstance(plain, dict), "a table is an object"
    return plain
