"""
Cards of everything hosted here (HAIDIP-011): agents, MCP servers, and agents behind them.

A card is made when it is read, from what the host itself goes by, and kept for as long as that is the same object: it
cannot say anything else than what is in force. Of its operations a caller is shown those that it may call, and of the
cards those with such operations.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any

from agtphost.contract.binding import Binding
from agtphost.contract.tool_names import NamedEndpoint, distinct_tool_names
from agtphost.handlers.built_in import BuiltInContext
from agtphost.iagtp import IAgentDirectory, IPayloadAdapter
from agtphost.identity.agents import Agent
from agtphost.identity.peer import Assurance
from agtphost.methods import execution
from agtphost.methods.discovery.visibility import Visibility
from agtphost.registry.card import MTLS, NONE, REQUIRED
from agtphost.registry.entry import LIVE, LOST, Entry
from agtphost.vocabulary import jsontext
from agtphost.vocabulary.newest import keep

AGENT = "agent"
MOST_KEPT = 1_024
"""Cards that are kept: one for each thing and what different callers may call of it."""

_UP = frozenset({"up", "idle"})


@dataclass(frozen=True, slots=True)
class Subject:
    """Something hosted, that has a card."""

    kind: str
    name: str
    title: str
    description: str
    words: tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]
    """Capabilities, tags and languages."""

    provider: str
    version: str
    operations: tuple[tuple[str, Binding], ...]
    state: str = LIVE
    tier: int | None = None
    agent: Agent | None = None

    @property
    def id(self) -> str:
        """The card's."""
        return f"{self.kind}:{self.name}"


@dataclass(frozen=True, slots=True)
class Generated:
    """A card that was made, and what it was made of."""

    entry: Entry
    octets: bytes
    operations: Mapping[str, Binding]
    """Those that the caller may call, by name; the first is what is meant where none is named."""

    state: str
    tier: int | None
    agent: Agent | None


class HostedCards:
    """
    Makes the cards of what is hosted.

    :param endpoints: the operator's endpoints.
    :param adapters: what carries payloads to servers and agents behind this host.
    :param server_id: of this host.
    :param url: where clients reach the registry over HTTP, which is where agents are invoked then; None: nowhere.
    """

    def __init__(
        self,
        directory: IAgentDirectory,
        endpoints: Sequence[Binding],
        adapters: Sequence[IPayloadAdapter],
        visibility: Visibility,
        server_id: str,
        url: str | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._directory = directory
        self._adapters = adapters
        self._visibility = visibility
        self._server_id = server_id
        self._url = url
        self._now = now
        self._made: OrderedDict[tuple[Any, ...], Generated] = OrderedDict()
        names = distinct_tool_names(
            NamedEndpoint(method=each.method, path=each.path, declared=declared(each)) for each in endpoints
        )
        self._endpoints = tuple((names[f"{each.method} {each.path}"], each) for each in endpoints)

    @staticmethod
    def is_of_host(card_id: str, adapters: Iterable[str] = ()) -> bool:
        """Whether an identifier is one of those that no card can be registered under."""
        return card_id.partition(":")[0].lower() in (AGENT, "mcp", "a2a", "acp", *adapters)

    def all(self, context: BuiltInContext) -> Iterator[Generated]:
        """Those of which the caller may call something."""
        for subject in (*self._agents(context), *self._upstreams(context)):
            found = self._shown(subject, context)
            if found is not None:
                yield found

    def get(self, context: BuiltInContext, card_id: str) -> Generated | None:
        """One of them; None also where the caller may call nothing of it."""
        kind, _, name = card_id.partition(":")
        subjects = self._agents(context, name) if kind == AGENT else self._upstreams(context, kind, name)
        for subject in subjects:
            if subject.name == name:
                return self._shown(subject, context)
        return None

    # What there is

    def _agents(self, context: BuiltInContext, name: str | None = None) -> Iterator[Subject]:
        sees = self._visibility.in_lists(context)
        for agent in self._directory.hosted():
            if (name is None or agent.name == name) and sees(agent):
                offered = tuple(
                    (called, each)
                    for called, each in self._endpoints
                    if not each.agents or agent.agent_id in each.agents
                )
                yield _of_agent(agent, offered)

    def _upstreams(
        self, context: BuiltInContext, kind: str | None = None, name: str | None = None
    ) -> Iterator[Subject]:
        if context.assurance < execution.FLOOR:
            return
        for adapter in self._adapters:
            if kind not in (None, adapter.name):
                continue
            tools: dict[str, list[Binding]] = {}
            for tool in adapter.tools():
                tools.setdefault(upstream_of(tool), []).append(tool)
            for told in adapter.hosted():
                called = str(told["name"])
                if name in (None, called):
                    yield _of_upstream(adapter.name, told, tools.get(called, ()), self._server_id)

    # What is shown of it

    def _shown(self, subject: Subject, context: BuiltInContext) -> Generated | None:
        admitted = tuple((name, each) for name, each in subject.operations if _admits(context, each))
        if not admitted:
            return None
        key = (subject.id, subject.state, tuple(id(each) for _, each in admitted))
        made = self._made.get(key)
        if made is None or made.agent is not subject.agent or not _same(made, admitted, subject):
            made = self._card(subject, admitted)
            keep(self._made, key, made, MOST_KEPT)
        else:
            self._made.move_to_end(key)
        return made

    def _card(self, subject: Subject, admitted: Sequence[tuple[str, Binding]]) -> Generated:
        capabilities, tags, languages = subject.words
        open_to_all = any(each.min_assurance is Assurance.NONE and not each.required_scopes for _, each in admitted)
        authentication, endpoint = NONE if open_to_all else MTLS, self._endpoint(subject)
        document: dict[str, Any] = {
            "id": subject.id,
            "name": subject.title,
            "description": subject.description,
            "capabilities": list(capabilities),
            "operations": [_operation(name, each) for name, each in admitted],
            "endpoint": endpoint,
            "authentication": "mTLS" if authentication == MTLS else NONE,
            "supported_languages": list(languages),
            "tags": list(tags),
            "protocols": [subject.kind if subject.kind != AGENT else "agtp"],
            "version": subject.version,
            "provider": subject.provider,
        }
        said = {name: value for name, value in document.items() if name in REQUIRED or value not in ("", [])}
        octets = jsontext.encode(said)
        entry = Entry(
            id=subject.id,
            kind=subject.kind,
            name=subject.title,
            description=subject.description,
            capabilities=capabilities,
            tags=tags,
            languages=languages,
            provider=subject.provider,
            authentication=authentication,
            endpoint=endpoint,
            digest=sha256(octets).hexdigest(),
            number=1,
            updated=self._now(),
            public=open_to_all,
            owner="" if subject.agent is None else subject.agent.agent_id,
        )
        return Generated(entry, octets, dict(admitted), subject.state, subject.tier, subject.agent)

    def _endpoint(self, subject: Subject) -> str:
        if self._url is not None:
            return f"{self._url.rstrip('/')}/agents/{subject.id}/invoke"
        place = "agents" if subject.kind == AGENT else subject.kind
        return f"agtp://{self._server_id}/{place}/{subject.name}"


def _admits(context: BuiltInContext, binding: Binding) -> bool:
    if not binding.agents:
        return context.admits(binding)
    # Which agent it is asked of is settled: that of the card.
    return context.admits(replace(binding, agents=frozenset()))


def _same(made: Generated, admitted: Sequence[tuple[str, Binding]], subject: Subject) -> bool:
    """Whether a card that was kept by what was there then is of what is there now."""
    kept = made.operations
    return (
        len(kept) == len(admitted)
        and all(kept.get(name) is each for name, each in admitted)
        and (made.entry.description == subject.description)
    )


def declared(binding: Binding) -> str | None:
    """The name that an endpoint's own declaration gives it as a tool."""
    said = binding.details.get("semantic", {})
    name = said.get("mcp_tool_name") if isinstance(said, Mapping) else None
    return name if isinstance(name, str) else None


def upstream_of(binding: Binding) -> str:
    """The server or agent that a binding leads to, by its name here."""
    for member in ("mcp_server", "a2a_agent", "acp_server"):
        if member in binding.extra:
            return str(binding.extra[member])
    return binding.name.partition(".")[0]


def _words(*given: Any) -> tuple[str, ...]:
    """Texts of lists, each once; of objects in them the name."""
    found: dict[str, None] = {}
    for each in given:
        for item in each if isinstance(each, (list, tuple)) else ():
            word = item.get("name", item.get("id")) if isinstance(item, Mapping) else item
            if isinstance(word, str) and word:
                found[word[:100]] = None
    return tuple(found)


def _of_agent(agent: Agent, offered: tuple[tuple[str, Binding], ...]) -> Subject:
    document = agent.document
    return Subject(
        kind=AGENT,
        name=agent.name,
        title=str(document.get("name") or agent.name),
        description=agent.description,
        words=(
            _words(document.get("capabilities"), document.get("skills_summary"), document.get("skills")),
            _words(document.get("tags")),
            _words(document.get("supported_languages")),
        ),
        provider=agent.principal,
        version=str(document.get("version") or ""),
        operations=offered,
        tier=agent.posture.trust_tier,
        agent=agent,
    )


def _of_upstream(kind: str, told: Mapping[str, Any], tools: Sequence[Binding], server_id: str) -> Subject:
    name, of = str(told["name"]), {"mcp": "MCP server", "a2a": "A2A agent", "acp": "ACP server"}
    lead = next((each for each in tools if each.extra.get("a2a_action") == "a2a.message.send"), None)
    described = lead.description if lead is not None else f"The {of.get(kind, kind)} {name} behind {server_id}."
    return Subject(
        kind=kind,
        name=name,
        title=name,
        description=described,
        words=(_words(told.get("skills"), told.get("agents")), (), ()),
        provider="",
        version="",
        operations=tuple((_called(each, name), each) for each in tools),
        state=LIVE if str(told.get("state", "up")) in _UP else LOST,
    )


def _called(binding: Binding, upstream: str) -> str:
    for member in ("mcp_tool", "a2a_action", "acp_action"):
        if member in binding.extra:
            return str(binding.extra[member])
    return binding.name.removeprefix(f"{upstream}.")


def _operation(name: str, binding: Binding) -> dict[str, Any]:
    told: dict[str, Any] = {"name": name}
    if binding.description:
        told["description"] = binding.description
    if binding.input_schema is not None:
        told["input_schema"] = dict(binding.input_schema.schema)
    if binding.output_schema is not None:
        told["output_schema"] = dict(binding.output_schema.schema)
    return told
