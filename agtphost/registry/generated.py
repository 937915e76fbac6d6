"""
Cards of everything hosted here (HAIDIP-011): agents, MCP servers, and agents behind them.

A card is generated when it is read, from the host's own objects in force, and cached for as long as these objects are
the same, so it never differs from what applies. A caller is shown the operations that it may call. It is shown the
cards with such operations, and the cards of agents that the operator discloses to everybody.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from threading import Lock
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
from agtphost.registry.entry import LIVE, LOST, CardEntry
from agtphost.vocabulary import jsontext
from agtphost.vocabulary.lru import keep

AGENT = "agent"
MOST_KEPT = 4_096
"""Cards that are cached: one for each subject and set of operations."""

MOST_SETS = 64
"""Sets of operations that are cached: agents with the same operations share one encoding."""

Operations = tuple[tuple[str, Binding], ...]

_UP = frozenset({"up", "idle"})


@dataclass(frozen=True, slots=True)
class Subject:
    """A hosted agent or server that has a card."""

    kind: str
    name: str
    title: str
    description: str
    words: tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]
    """Capabilities, tags and languages."""

    provider: str
    version: str
    operations: Operations
    state: str = LIVE
    tier: int | None = None
    agent: Agent | None = None

    @property
    def id(self) -> str:
        """Return the id of its card."""
        return f"{self.kind}:{self.name}"


@dataclass(frozen=True, slots=True, eq=False)
class AdmittedOperations:
    """The operations that a caller may call, of one or many subjects."""

    admitted: Operations
    by_name: Mapping[str, Binding]
    encoded: bytes
    """The operations encoded as in a card."""

    open_to_all: bool


NOTHING = AdmittedOperations((), {}, b"[]", False)
"""The operations of a card that is shown to a caller who may call none of them."""


@dataclass(frozen=True, slots=True)
class GeneratedCard:
    """A generated card and what it was made of."""

    entry: CardEntry
    text_around: tuple[bytes, bytes]
    """The card's text before and after its operations."""

    offered: AdmittedOperations
    state: str
    tier: int | None
    agent: Agent | None

    @property
    def octets(self) -> bytes:
        """Return the card."""
        return b"".join((self.text_around[0], self.offered.encoded, self.text_around[1]))

    @property
    def operations(self) -> Mapping[str, Binding]:
        """Return the operations that the caller may call, by name; the first is the default."""
        return self.offered.by_name


class HostedCards:
    """
    Generator of the cards of what is hosted.

    With thousands of agents and endpoints this takes seconds, so it can run in any thread, and what agents have in
    common is encoded once for all of them.

    :param endpoints: the operator's endpoints.
    :param adapters: payload adapters, which lead to servers and agents behind this host.
    :param server_id: server id of this host.
    :param root: the ``agtp://`` URI of this host; empty: its name, at the usual port.
    :param url: base URL of the registry over HTTP, where agents are invoked; None without HTTP.
    """

    def __init__(
        self,
        directory: IAgentDirectory,
        endpoints: Sequence[Binding],
        adapters: Sequence[IPayloadAdapter],
        visibility: Visibility,
        server_id: str,
        url: str | None = None,
        root: str = "",
        now: Callable[[], float] = time.time,
    ) -> None:
        self._directory = directory
        self._adapters = adapters
        self._visibility = visibility
        self._server_id = server_id
        self._root = root or f"agtp://{server_id}"
        self._url = url
        self._now = now
        self._lock = Lock()
        self._made: OrderedDict[tuple[str, str, AdmittedOperations], GeneratedCard] = OrderedDict()
        self._sets: OrderedDict[tuple[tuple[str, int], ...], AdmittedOperations] = OrderedDict()
        names = distinct_tool_names(
            NamedEndpoint(method=each.method, path=each.path, declared=declared_tool_name(each)) for each in endpoints
        )
        self._endpoints = tuple((names[f"{each.method} {each.path}"], each) for each in endpoints)
        self._common = tuple(each for each in self._endpoints if not each[1].agents)
        self._restricted_agents = frozenset[str]().union(*(each.agents for each in endpoints))

    @staticmethod
    def is_of_host(card_id: str, adapters: Iterable[str] = ()) -> bool:
        """Return whether a card id is reserved: no card can be registered under it."""
        return card_id.partition(":")[0].lower() in (AGENT, "mcp", "a2a", "acp", *adapters)

    def all(self, context: BuiltInContext, after: str = "") -> Iterator[GeneratedCard]:
        """
        Yield cards in the order of their ids: those of which the caller may call something, and public agents.

        Each card is generated when the iterator reaches it.

        :param after: yield only cards with a greater id.
        """
        # Adapters change their servers in the reactor's thread, so these are listed here.
        return self._all(context, list(self._upstreams(context)), after)

    def _all(self, context: BuiltInContext, upstreams: list[Subject], after: str) -> Iterator[GeneratedCard]:
        subjects = [each for each in (*self._agents(context), *upstreams) if each.id > after]
        subjects.sort(key=lambda each: each.id)
        judged: dict[int, AdmittedOperations | None] = {}
        for subject in subjects:
            which = id(subject.operations)
            if which not in judged:
                judged[which] = self._select_admitted(subject.operations, context)
            offered = self._of_public(subject, judged[which])
            if offered is not None:
                yield self._generate(subject, offered)

    def get(self, context: BuiltInContext, card_id: str) -> GeneratedCard | None:
        """Return one card; None if it does not exist or the caller may not see it."""
        kind, _, name = card_id.partition(":")
        subjects = self._agents(context, name) if kind == AGENT else self._upstreams(context, kind, name)
        for subject in subjects:
            if subject.name == name:
                offered = self._of_public(subject, self._select_admitted(subject.operations, context))
                return None if offered is None else self._generate(subject, offered)
        return None

    # What there is

    def _agents(self, context: BuiltInContext, name: str | None = None) -> Iterator[Subject]:
        sees = self._visibility.in_lists(context)
        for agent in self._directory.list_hosted():
            if (name is None or agent.name == name) and sees(agent):
                yield _of_agent(agent, self._operations_of(agent))

    def _operations_of(self, agent: Agent) -> Operations:
        if agent.agent_id not in self._restricted_agents:
            return self._common
        return tuple(each for each in self._endpoints if not each[1].agents or agent.agent_id in each[1].agents)

    def _upstreams(
        self, context: BuiltInContext, kind: str | None = None, name: str | None = None
    ) -> Iterator[Subject]:
        if not execution.may_execute(context):
            return
        for adapter in self._adapters:
            if kind not in (None, adapter.name):
                continue
            tools: dict[str, list[Binding]] = {}
            for tool in adapter.tools():
                tools.setdefault(upstream_of(tool), []).append(tool)
            for told in adapter.hosted_protocols():
                called = str(told["name"])
                if name in (None, called):
                    yield _of_upstream(adapter.name, told, tools.get(called, ()), self._server_id)

    # What is shown of it

    def _select_admitted(self, operations: Operations, context: BuiltInContext) -> AdmittedOperations | None:
        """Return the operations that the caller may call; None if there are none."""
        admitted = tuple((name, each) for name, each in operations if _admits(context, each))
        if not admitted:
            return None
        key = tuple((name, id(each)) for name, each in admitted)
        with self._lock:
            known = self._sets.get(key)
            if known is not None:
                self._sets.move_to_end(key)
                return known
        made = AdmittedOperations(
            admitted,
            dict(admitted),
            jsontext.encode([_operation(name, each) for name, each in admitted]),
            any(each.min_assurance is Assurance.NONE and not each.required_scopes for _, each in admitted),
        )
        with self._lock:
            return keep(self._sets, key, made, MOST_SETS)

    def _of_public(self, subject: Subject, offered: AdmittedOperations | None) -> AdmittedOperations | None:
        """Return what a caller may call of a subject; for a public agent :data:`NOTHING` instead of None."""
        return NOTHING if offered is None and self._is_public(subject) else offered

    def _is_public(self, subject: Subject) -> bool:
        return subject.agent is not None and self._visibility.public

    def _generate(self, subject: Subject, offered: AdmittedOperations) -> GeneratedCard:
        key = subject.id, subject.state, offered
        with self._lock:
            made = self._made.get(key)
            if made is not None and _is_current(made, subject):
                self._made.move_to_end(key)
                return made
        made = self._card(subject, offered)
        with self._lock:
            return keep(self._made, key, made, MOST_KEPT)

    def _card(self, subject: Subject, offered: AdmittedOperations) -> GeneratedCard:
        capabilities, tags, languages = subject.words
        authentication, endpoint = NONE if offered.open_to_all else MTLS, self._endpoint(subject)
        document: dict[str, Any] = {
            "id": subject.id,
            "name": subject.title,
            "description": subject.description,
            "capabilities": list(capabilities),
            "operations": _OperationsPlaceholder(),
            "endpoint": endpoint,
            "authentication": "mTLS" if authentication == MTLS else NONE,
            "supported_languages": list(languages),
            "tags": list(tags),
            "protocols": [subject.kind if subject.kind != AGENT else "agtp"],
            "version": subject.version,
            "provider": subject.provider,
        }
        said = {name: value for name, value in document.items() if name in REQUIRED or value not in ("", [])}
        before, after = _split_card(said)
        digest = sha256(before)
        digest.update(offered.encoded)
        digest.update(after)
        entry = CardEntry(
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
            digest=digest.hexdigest(),
            number=1,
            updated=self._now(),
            public=offered.open_to_all or self._is_public(subject),
            owner="" if subject.agent is None else subject.agent.agent_id,
        )
        return GeneratedCard(entry, (before, after), offered, subject.state, subject.tier, subject.agent)

    def _endpoint(self, subject: Subject) -> str:
        if self._url is not None:
            return f"{self._url.rstrip('/')}/agents/{subject.id}/invoke"
        # A URI has no path but those of agents (core v08 section 6.1): servers are called at the host itself.
        return f"{self._root}/agents/{subject.name}" if subject.kind == AGENT else self._root


def _admits(context: BuiltInContext, binding: Binding) -> bool:
    if not binding.agents:
        return context.admits(binding)
    # The card names the agent, so its bindings are checked without their restriction to agents.
    return context.admits(replace(binding, agents=frozenset()))


def _is_current(made: GeneratedCard, subject: Subject) -> bool:
    """
    Return whether a card is what would be generated now.

    The agent is compared as an object, since agents are immutable except for the posture, and so the trust tier.
    """
    same = made.agent is subject.agent and made.tier == subject.tier
    return same and made.entry.description == subject.description


class _OperationsPlaceholder:
    """A placeholder for the operations of a card."""


def _split_card(card: Mapping[str, Any]) -> tuple[bytes, bytes]:
    """Return the text of a card before and after its operations; there are members on both sides."""
    names = list(card)
    at = names.index("operations")
    before = jsontext.encode({name: card[name] for name in names[:at]})
    after = jsontext.encode({name: card[name] for name in names[at + 1 :]})
    return before[:-1] + b',"operations":', b"," + after[1:]


def declared_tool_name(binding: Binding) -> str | None:
    """Return the tool name that an endpoint's own declaration sets."""
    said = binding.details.get("semantic", {})
    name = said.get("mcp_tool_name") if isinstance(said, Mapping) else None
    return name if isinstance(name, str) else None


def upstream_of(binding: Binding) -> str:
    """Return the configured name of the MCP server, A2A agent or ACP server that a binding calls."""
    for member in ("mcp_server", "a2a_agent", "acp_server"):
        if member in binding.extra:
            return str(binding.extra[member])
    return binding.name.partition(".")[0]


def _words(*given: Any) -> tuple[str, ...]:
    """Return the texts of several lists without duplicates; objects count by their name or id."""
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
        operations=tuple((_operation_name(each, name), each) for each in tools),
        state=LIVE if str(told.get("state", "up")) in _UP else LOST,
    )


def _operation_name(binding: Binding, upstream: str) -> str:
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
