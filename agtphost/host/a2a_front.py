"""``[a2a.front]`` becomes a server, its clients' tasks state items."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from agtphost.adapters.a2a import A2AAgent
from agtphost.adapters.a2a.fronted import FrontedTasks
from agtphost.audit.drafts import HOST_CHAIN, Change, Draft
from agtphost.audit.state import StateItem, StateTable
from agtphost.config import Config
from agtphost.config.surfaces import FRONT
from agtphost.dispatch.sessions import SUSPENSION
from agtphost.errors import ConfigurationError, Problem
from agtphost.host.http_clients import certified, keyholders, principal_of
from agtphost.host.surfaces import Served
from agtphost.http.a2a_front import Exposed, FrontFacts, FrontResource, FrontSettings
from agtphost.http.a2a_relay import Relayed
from agtphost.http.a2a_runs import AWAITING, BEGINNING, BEGINNING_OF_ONE, Runs
from agtphost.http.clients import Clients
from agtphost.iagtp import IDispatcher, IGate, ILedger
from agtphost.identity.agents import Agent
from agtphost.identity.directory import AgentDirectory
from agtphost.identity.keys import Signer
from agtphost.upstream.queue import CallQueue
from agtphost.upstream.supervision import State
from agtphost.vocabulary import jsontext


def fronted_tasks(config: Config, held: StateTable, ledger: ILedger, now: Callable[[], float]) -> FrontedTasks | None:
    """The tasks of A2A clients; None where there is no front."""
    if config.a2a.front.listen is None:
        return None

    async def keep(changes: Sequence[Change]) -> None:
        await ledger.submit(Draft(chain=HOST_CHAIN, payload={}, changes=tuple(changes)))

    tasks = FrontedTasks(held, keep, now)

    def suspended(key: str, item: StateItem | None) -> None:
        if item is not None and item.value["of"] == "task" and item.value["status"] == "suspended":
            tasks.stopped(item.owner, str(item.value["name"]))

    held.watch(SUSPENSION, suspended)
    return tasks


def front_facts(
    config: Config,
    directory: AgentDirectory,
    oauth: IGate | None,
    offered: Callable[[Iterable[Agent]], Collection[Agent]],
    upstreams: Mapping[str, A2AAgent],
) -> FrontFacts | None:
    """
    What the front is about under a configuration; None where there is none.

    :param offered: which agents can be called at present.
    :param upstreams: the A2A agents behind the host, by name.
    :param oauth: the gate that judges tokens of identity providers; None where none are trusted.
    :raises ConfigurationError: for agents that are not hosted.
    """
    given = config.a2a.front
    if given.listen is None:
        return None
    return FrontFacts(
        settings=FrontSettings(
            url=given.url or "",
            timeout=given.timeout,
            disclosed=config.policies.anonymous_discovery and config.policies.agent_disclosure == "public",
        ),
        exposed=_exposed(config, directory, upstreams),
        clients=Clients(
            FRONT,
            agent_id=given.agent_id or "",
            claimed=given.scopes,
            tokens=tuple(token.reveal() for token in given.tokens),
            keyholders=keyholders(config, directory),
            certified=certified if given.client_certificates else None,
            principal=principal_of(oauth) if given.oauth and oauth is not None else None,
        ),
        offered=lambda agent: bool(offered((agent,))),
    )


def a2a_front(
    reactor: Any, facts: FrontFacts, dispatcher: IDispatcher, signer: Signer | None, tasks: FrontedTasks
) -> FrontResource:
    """
    What serves ``[a2a.front]``.

    :param facts: at the start; others take their place by :meth:`FrontResource.turn_to`.
    :param tasks: from :func:`fronted_tasks`.
    """
    runs = Runs(dispatcher, tasks, CallQueue(reactor, BEGINNING, waiting=AWAITING, share=BEGINNING_OF_ONE))
    return FrontResource(facts, dispatcher, runs, signer, reactor)


def surface(resource: FrontResource) -> Served:
    """The surface of ``[a2a.front]``."""
    return Served(name=FRONT, what="the A2A front", resource=resource)


def _exposed(
    config: Config, directory: AgentDirectory, upstreams: Mapping[str, A2AAgent]
) -> dict[str, Exposed | Relayed]:
    given = config.a2a.front
    problems: list[Problem] = []
    exposed: dict[str, Exposed | Relayed] = {}
    for entry in given.agent:
        if entry.upstream is not None:
            exposed[entry.name] = _relayed(upstreams[entry.upstream])
            continue
        agent = directory.by_name(entry.name)
        if agent is None:
            message = f'[[a2a.front.agent]] "{entry.name[:64]}" is no hosted agent'
            problems.append(Problem(message=message, file=str(config.file)))
            continue
        exposed[entry.name] = Exposed(
            agent=agent,
            method=entry.method,
            path=entry.path,
            input=_plain(entry.input),
            text=tuple(entry.text.split(".")) if entry.text else (),
            answer=entry.answer,
        )
    if given.agent_id is not None and directory.by_id(given.agent_id) is None:
        message = "[a2a.front] agent_id is no agent that this host knows"
        problems.append(Problem(message=message, file=str(config.file), hint="add its documents to known_agents"))
    if problems:
        raise ConfigurationError(problems)
    return exposed


def _relayed(agent: A2AAgent) -> Relayed:
    def card() -> Mapping[str, Any] | None:
        known = agent.card
        return None if known is None or agent.state not in (State.UP, State.IDLE) else known.document

    settings = agent.settings
    return Relayed(upstream=settings.name, card=card, pushes=bool(settings.push_origins))


def _plain(value: Mapping[str, Any]) -> dict[str, Any]:
    """A table of the file as JSON has it."""
    plain = jsontext.decode(jsontext.encode(dict(value)))
    assert isinstance(plain, dict), "a table is an object"
    return plain
