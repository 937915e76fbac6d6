"""Build the server of ``[a2a.front]``; the tasks of its clients are state items."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from agtphost.a2a.front import A2aFrontFacts, A2aFrontResource, A2aFrontSettings, ExposedAgent
from agtphost.a2a.relay import RelayedAgent
from agtphost.a2a.runs import MOST_WAITING_TASKS, STORING_TASKS, STORING_TASKS_PER_CLIENT, TaskRuns
from agtphost.adapters.a2a import A2AAgent
from agtphost.adapters.a2a.front_tasks import FrontTaskTable
from agtphost.audit.drafts import HOST_CHAIN, Change, Draft
from agtphost.audit.state import StateItem, StateTable
from agtphost.config import Config, line_of
from agtphost.config.surfaces import FRONT
from agtphost.contract.binding import Binding
from agtphost.contract.built_in_contracts import contract_of
from agtphost.contract.endpoint_table import Match
from agtphost.dispatch.sessions import SUSPENSION
from agtphost.errors import ConfigurationError, Problem
from agtphost.http.clients import HttpClients
from agtphost.http.served_surface import ServedSurface
from agtphost.http_clients import keyholders, principal_check, speaker_of, verified_certificate
from agtphost.iagtp import IDispatcher, IGate, ILedger
from agtphost.identity.agents import Agent
from agtphost.identity.directory import AgentDirectory
from agtphost.identity.keys import Signer
from agtphost.upstream.queue import CallQueue
from agtphost.upstream.supervision import UpstreamState
from agtphost.vocabulary import jsontext


def front_tasks(config: Config, held: StateTable, ledger: ILedger, now: Callable[[], float]) -> FrontTaskTable | None:
    """Return the tasks of A2A clients, or None without a front."""
    if config.a2a.front.listen is None:
        return None

    async def keep(changes: Sequence[Change]) -> None:
        await ledger.submit(Draft(chain=HOST_CHAIN, payload={}, changes=tuple(changes)))

    tasks = FrontTaskTable(held, keep, now)

    def note_suspension(key: str, item: StateItem | None) -> None:
        if item is not None and item.value["of"] == "task" and item.value["status"] == "suspended":
            tasks.withdraw_suspended(item.owner, str(item.value["name"]))

    held.watch(SUSPENSION, note_suspension)
    return tasks


def front_facts(
    config: Config,
    directory: AgentDirectory,
    oauth: IGate | None,
    offered: Callable[[Iterable[Agent]], Collection[Agent]],
    upstreams: Mapping[str, A2AAgent],
    match: Callable[[str, str], Match | None],
) -> A2aFrontFacts | None:
    """
    Return what the front needs to know under a configuration, or None without a front.

    :param offered: returns those of the given agents that can be called at present.
    :param upstreams: the A2A agents behind the host, by name.
    :param oauth: the gate that checks tokens of identity providers; None where none are trusted.
    :param match: finds the binding of a method and a path.
    :raises ConfigurationError: the configuration names agents that are not hosted.
    """
    given = config.a2a.front
    if given.listen is None:
        return None
    speaker, objections = _calling_agent(config, directory)
    exposed, wrong = _read_exposed(config, directory, upstreams, match)
    if problems := [*wrong, *objections]:
        raise ConfigurationError(problems)
    return A2aFrontFacts(
        settings=A2aFrontSettings(
            url=given.url or "",
            timeout=given.timeout,
            disclosed=config.policies.anonymous_discovery and config.policies.agent_disclosure == "public",
        ),
        exposed=exposed,
        clients=HttpClients(
            FRONT,
            agent_id=speaker,
            claimed=given.scopes,
            tokens=tuple(token.reveal() for token in given.tokens),
            keyholders=keyholders(config, directory),
            certified=verified_certificate if given.client_certificates else None,
            principal=principal_check(oauth) if given.oauth and oauth is not None else None,
        ),
        offered=lambda agent: bool(offered((agent,))),
    )


def a2a_front(
    reactor: Any, facts: A2aFrontFacts, dispatcher: IDispatcher, signer: Signer | None, tasks: FrontTaskTable
) -> A2aFrontResource:
    """
    Return the HTTP resource that serves ``[a2a.front]``.

    :param facts: those at the start; :meth:`A2aFrontResource.turn_to` replaces them.
    :param tasks: from :func:`front_tasks`.
    """
    runs = TaskRuns(
        dispatcher, tasks, CallQueue(reactor, STORING_TASKS, waiting=MOST_WAITING_TASKS, share=STORING_TASKS_PER_CLIENT)
    )
    return A2aFrontResource(facts, dispatcher, runs, signer, reactor)


def build_surface(resource: A2aFrontResource) -> ServedSurface:
    """Return the surface of ``[a2a.front]``."""
    return ServedSurface(name=FRONT, what="the A2A front", resource=resource)


def _read_exposed(
    config: Config,
    directory: AgentDirectory,
    upstreams: Mapping[str, A2AAgent],
    match: Callable[[str, str], Match | None],
) -> tuple[dict[str, ExposedAgent | RelayedAgent], list[Problem]]:
    """Return the agents that the front shows, by name, and the problems of its list."""
    given = config.a2a.front
    problems: list[Problem] = []
    exposed: dict[str, ExposedAgent | RelayedAgent] = {}
    for index, entry in enumerate(given.agent):
        if entry.upstream is not None:
            exposed[entry.name] = _relay_to(upstreams[entry.upstream])
            continue
        agent = directory.by_name(entry.name)
        if agent is None:
            message = f'[[a2a.front.agent]] "{entry.name[:64]}" is not a hosted agent'
            problems.append(
                Problem(
                    message=message,
                    file=str(config.file),
                    line=line_of(config.file, ("a2a", "front", "agent", index, "name")),
                    hint="agtp agent ls prints the agents of this host; write upstream = NAME for one of [[a2a.agent]]",
                )
            )
            continue
        template, found = _to_plain(entry.input), match(entry.method, entry.path)
        schema = {} if found is None else _schema_of(found.binding)
        text = text_member(schema, template) if entry.text is None else entry.text
        exposed[entry.name] = ExposedAgent(
            agent=agent,
            method=entry.method,
            path=entry.path,
            input=template,
            text=tuple(text.split(".")) if text else (),
            answer=entry.answer,
            schema=schema,
        )
    return exposed, problems


def _calling_agent(config: Config, directory: AgentDirectory) -> tuple[str, list[Problem]]:
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


def text_member(schema: Mapping[str, Any], template: Mapping[str, Any]) -> str:
    """
    Return the member of an input that plain text fills: ``text``, or the one required member that takes text.

    Return an empty string if the input has no such member: then the agent takes data only.
    """
    known = schema.get("properties")
    known = known if isinstance(known, Mapping) else {}
    required = schema.get("required", [])
    open_members = [name for name in required if name not in template] if isinstance(required, list) else []
    members = ["text"] if "text" in known and "text" not in template else open_members
    fitting = [name for name in members if _takes_text(known.get(name))]
    return fitting[0] if len(fitting) == 1 and set(open_members) <= set(fitting) else ""


def _takes_text(schema: Any) -> bool:
    if not isinstance(schema, Mapping):
        return schema is not False
    types = schema.get("type", "string")
    return "string" in ([types] if isinstance(types, str) else types)


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
