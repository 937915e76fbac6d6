"""
Candidate search: DISCOVER with ``criteria`` (core v08 section 7.2.2).

Agents, endpoints and tools are ranked by :mod:`agtphost.search`, in memory and
off the reactor; the index is made anew when what there is has changed. What
the caller may not call, or may not see for its zone, is taken out before the
best are chosen and before scores are given, so it never takes anybody's place,
and no score reveals it.
"""

from __future__ import annotations

import operator
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any

from agtphost.contract.binding import Binding
from agtphost.contract.built_in_contracts import FILTERED
from agtphost.dispatch.merchants import MERCHANT, MerchantManifest
from agtphost.handlers import parameters
from agtphost.handlers.built_in import Answer, BuiltInContext
from agtphost.iagtp import IAgentDirectory, IPayloadAdapter
from agtphost.identity.agents import Agent
from agtphost.methods import execution
from agtphost.methods.cognitive.relevance import said_in
from agtphost.methods.continuation import Continuations
from agtphost.methods.discovery.filters import Filter, result_type
from agtphost.methods.discovery.visibility import Visibility
from agtphost.search.engine import SearchEngine
from agtphost.search.index import Index, SearchEntry, SearchQuery, SearchResult
from agtphost.vocabulary.lru import keep

DEFAULT_RESULTS = 10
MOST_RESULTS = 100

FURTHEST = 1_000_000
"""``offset`` at most."""

MOST_AUTHORITIES = 64
"""Authorities of which an index keeps what they may call."""

LONGEST_CRITERIA = 4_000
"""Characters of the criteria, as text or as JSON."""

EVERYTHING = "*"
"""Criteria that everything meets: the filter alone decides."""

Merchants = Callable[[Agent], MerchantManifest]


@dataclass(frozen=True, slots=True)
class SearchCandidate:
    """An agent, endpoint or tool that a search can find."""

    kind: str
    """``agent``, ``endpoint`` or ``tool``."""

    thing: Agent | Binding


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """A caller's search and authority, read on the reactor."""

    words: str | None
    """None: everything."""

    chosen: Filter
    authority: tuple[Any, ...]
    """What decides :attr:`admits`, as a key."""

    admits: Callable[[Binding], bool]
    tools: bool
    """Whether the caller may execute at all."""

    sees: Callable[[Agent], bool]
    offset: int
    limit: int


class Known:
    """
    A snapshot of everything that can be found, with the permissions to find it.

    :param agents: hosted agents.
    :param bindings: endpoints.
    :param tools: tools of hosted servers.
    """

    def __init__(self, agents: Sequence[Agent], bindings: Sequence[Binding], tools: Sequence[Binding]) -> None:
        self.candidates = [
            *(SearchCandidate("agent", agent) for agent in agents),
            *(SearchCandidate("endpoint", binding) for binding in bindings),
            *(SearchCandidate("tool", tool) for tool in tools),
        ]
        self.agents = agents
        self.index: Index | None = None
        """Made with the first search."""

        self._allowed: OrderedDict[tuple[Any, ...], bytes] = OrderedDict()
        self._lock = Lock()

    def entries(self) -> list[SearchEntry]:
        """Return the index entries of the candidates, in their order."""
        return [_entry(candidate) for candidate in self.candidates]

    def build_query(self, search: Search) -> SearchQuery:
        """
        Return the search engine's query, with the permitted candidates; runs in a thread, as it checks every candidate.
        """
        chosen, candidates = search.chosen, self.candidates
        among = bytearray(self._allowed_to(search))
        # Whom a caller is shown changes with their lifecycle, so that is asked anew.
        among[: len(self.agents)] = bytes(map(search.sees, self.agents))

        def admits(number: int) -> bool:
            return chosen.admits(candidates[number].kind, candidates[number].thing)

        return SearchQuery(
            text=search.words,
            among=bytes(among),
            admits=admits if chosen.narrows else None,
            offset=search.offset,
            limit=search.limit,
        )

    def _allowed_to(self, search: Search) -> bytes:
        """Return for each candidate 1 or 0: whether the caller may call it. Agents are not called."""
        with self._lock:
            known = self._allowed.get(search.authority)
            if known is None:
                known = bytes(map(_allows(search), self.candidates))
            return keep(self._allowed, search.authority, known, MOST_AUTHORITIES)


def _allows(search: Search) -> Callable[[SearchCandidate], bool]:
    """Return whether the gates would let the caller call a candidate."""

    def allows(candidate: SearchCandidate) -> bool:
        thing = candidate.thing
        return isinstance(thing, Agent) or ((search.tools or candidate.kind != "tool") and search.admits(thing))

    return allows


class Candidates:
    """
    Finds what a caller could call.

    :param directory: the hosted agents.
    :param bindings: everything registered; read at every search.
    :param adapters: whose tools are found.
    :param engine: ranks, off the reactor.
    :param visibility: which agents a caller is shown.
    :param categories: a method's categories in the catalog, for the filter of that name.
    :param continuations: makes the tokens of results that are longer than an answer.
    :param merchants: the manifests of merchants, for ``result_type`` (core v08 section 9).
    """

    def __init__(
        self,
        directory: IAgentDirectory,
        bindings: Callable[[], Iterable[Binding]],
        adapters: Sequence[IPayloadAdapter],
        engine: SearchEngine,
        visibility: Visibility,
        *,
        categories: Callable[[str], Collection[str]] = lambda method: (),
        continuations: Continuations | None = None,
        merchants: Merchants | None = None,
    ) -> None:
        self._merchants = merchants
        self._continuations = continuations or Continuations()
        self._directory = directory
        self._bindings = bindings
        self._adapters = adapters
        self._engine = engine
        self._visibility = visibility
        self._categories = categories
        self._things: list[Any] = []
        self._known = Known((), (), ())

    @staticmethod
    def is_search(given: Mapping[str, Any]) -> bool:
        """Return whether the parameters are those of a search."""
        return not given.keys().isdisjoint(("criteria", "intent", "filter", "max_results", "limit", *FILTERED))

    async def search(self, context: BuiltInContext) -> Answer:
        """
        Answer a search.

        :raises agtphost.errors.Refusal: 422 for criteria or a filter that cannot be read.
        """
        given = context.input
        named = "criteria" in given or "intent" in given
        wanted = _filter(given)
        # A filter alone decides among everything; it is the caller's criteria then.
        criteria = given.get("criteria", given.get("intent")) if named or wanted is None else EVERYTHING
        words = _words(criteria, named)
        kind = result_type(given)
        bound = "max_results" if "max_results" in given else "limit"
        search = Search(
            words=words,
            chosen=Filter.read(wanted, self._categories).only(kind),
            authority=context.authority(),
            admits=context.admits,
            tools=execution.may_execute(context),
            sees=self._visibility.in_searches(context),
            offset=self._continuations.position(context) or parameters.start(given, "offset", FURTHEST),
            limit=parameters.count(given, bound, DEFAULT_RESULTS, MOST_RESULTS),
        )
        known, found = await self._run_search(search)
        hits = [(known.candidates[number], score) for number, score in found.hits]
        more = self._describe_role if kind else schema_of if given.get("include_metadata") is True else _nothing
        results = [
            {"rank": rank, "score": score, **render_candidate(candidate), **more(candidate.thing)}
            for rank, (candidate, score) in enumerate(hits, search.offset + 1)
        ]
        answer: dict[str, Any] = {
            "total": found.total,
            "returned": len(results),
            "results": results,
            **describe_ranking(found),
        }
        if search.offset + len(results) < found.total and results:
            answer["next_offset"] = search.offset + len(results)
            return Answer(result=answer, headers=self._continuations.header(context, answer["next_offset"]))
        return Answer(result=answer)

    async def _run_search(self, search: Search) -> tuple[Known, SearchResult]:
        """Search the snapshot that was current when the search began."""
        known, engine = self._current(), self._engine
        if known.index is None:
            known.index = engine.index(await engine.offload(known.entries))
        return known, await engine.search(known.index, await engine.offload(known.build_query, search))

    def _describe_role(self, thing: Agent | Binding) -> Mapping[str, Any]:
        """Return the role members that a search for agents of a role adds."""
        return describe_role(thing, self._merchants) if isinstance(thing, Agent) else {}

    def _current(self) -> Known:
        """Return the current snapshot, made anew when agents, endpoints or tools have changed."""
        agents = list(self._directory.list_hosted())
        tools = [tool for adapter in self._adapters for tool in adapter.tools()]
        bindings = [binding for binding in self._bindings() if binding.tier != "A"]
        things = [*agents, *bindings, *tools]
        if len(things) != len(self._things) or not all(map(operator.is_, things, self._things)):
            self._things = things
            self._known = Known(agents, bindings, tools)
        return self._known


def _filter(given: Mapping[str, Any]) -> Any:
    """Return ``filter`` merged with filter members given at the top level; None where both are missing."""
    beside = {name: given[name] for name in FILTERED if name in given}
    inside = given.get("filter", {} if beside else None)
    if not beside or not isinstance(inside, dict):
        return inside
    for name in sorted(beside.keys() & inside.keys()):
        if inside[name] != beside[name]:
            raise parameters.invalid(name, f"{name} is also in filter, with another value.", "Send it once.")
    return {**beside, **inside}


def _words(criteria: Any, present: bool) -> str | None:
    """Return the words to search for; None for everything."""
    if criteria == EVERYTHING:
        return None
    usable = isinstance(criteria, dict) or (isinstance(criteria, str) and bool(criteria.strip()))
    if not usable or len(said := said_in(criteria)) > LONGEST_CRITERIA:
        raise parameters.invalid(
            "criteria",
            f"criteria is not a text or an object of 1 to {LONGEST_CRITERIA} characters.",
            'Say what is wanted, such as "book a room"; "*" is met by everything.',
            missing=not present,
        )
    return said


def schema_of(thing: Agent | Binding) -> Mapping[str, Any]:
    """Return the input schema of an endpoint or tool, for the search index."""
    if isinstance(thing, Agent) or thing.input_schema is None:
        return {}
    return {"input_schema": thing.details.get("input_schema", thing.input_schema.schema)}


def _nothing(thing: Agent | Binding) -> Mapping[str, Any]:
    return {}


def describe_ranking(found: SearchResult) -> dict[str, str]:
    """Return the members of an answer that say how its results were ranked."""
    return {name: said for name, said in (("engine", found.engine), ("degraded", found.degraded)) if said}


def _entry(candidate: SearchCandidate) -> SearchEntry:
    thing = candidate.thing
    if isinstance(thing, Agent):
        return SearchEntry(thing.name, _agent_text(thing), _languages(thing.document))
    if candidate.kind == "tool":
        return SearchEntry(thing.name.replace(".", " "), _binding_text(thing))
    return SearchEntry(_path_text(thing), _binding_text(thing))


def _languages(document: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the languages in an agent's document."""
    named = (document.get(name) for name in ("supported_languages", "languages"))
    return tuple(tag for tags in named if isinstance(tags, (list, tuple)) for tag in tags if isinstance(tag, str))


def _agent_text(agent: Agent) -> str:
    document = agent.document
    skills = [said_in(document.get(name)) for name in ("skills", "skills_summary", "capabilities", "job_description")]
    return " ".join((agent.description, *skills))


def _path_text(binding: Binding) -> str:
    return f"{binding.method} {binding.path}".replace("/", " ").replace("{", " ").replace("}", " ")


def _binding_text(binding: Binding) -> str:
    semantic = binding.details.get("semantic", {})
    said = [str(semantic.get(name, "")) for name in ("intent", "outcome", "capability")]
    fields = ()
    if binding.input_schema is not None:
        fields = tuple(binding.input_schema.schema.get("properties", {}))
    return " ".join((binding.description, *said, *fields))


def describe_role(agent: Agent, merchants: Merchants | None) -> dict[str, Any]:
    """Return an agent's role; for a merchant also the manifest, which a buyer verifies (core v08 section 9)."""
    if agent.role != MERCHANT or merchants is None:
        return {"role": agent.role}
    manifest = merchants(agent)
    return {"role": agent.role, "manifest": manifest.document, "manifest_fingerprint": manifest.fingerprint}


def render_candidate(candidate: SearchCandidate) -> dict[str, Any]:
    """Return a candidate as the search returns it."""
    thing = candidate.thing
    if isinstance(thing, Agent):
        entry: dict[str, Any] = {
            "kind": "agent",
            "agent_id": thing.agent_id,
            "name": thing.name,
            "description": thing.description,
            "principal": thing.principal,
            "trust_tier": thing.posture.trust_tier,
            "uri": f"/agents/{thing.name}",
        }
        if thing.governance_zone:
            entry["governance_zone"] = thing.governance_zone
        if thing.posture.trust_warning:
            entry["trust_warning"] = thing.posture.trust_warning
        return entry
    entry = {
        "kind": candidate.kind,
        "name": thing.name or f"{thing.method} {thing.path}",
        "description": thing.description,
        "method": thing.method,
        "path": thing.path,
        "required_scopes": list(thing.required_scopes),
        "min_assurance": thing.min_assurance.label,
    }
    if candidate.kind == "tool":
        entry |= execution.called_by(thing)
    return entry
