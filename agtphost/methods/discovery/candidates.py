"""
Candidate search: DISCOVER with ``criteria`` (core v08 section 7.2.2).

Agents, endpoints and tools are ranked by SQLite's full-text search with BM25,
in memory and off the reactor; the index is made anew when what there is has
changed. What the caller may not call, or may not see for its zone, is taken
out before the best are chosen and before scores are given, so it never takes
anybody's place, and nobody's score tells of it.
"""

from __future__ import annotations

import operator
import re
import sqlite3
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any

from twisted.internet.defer import DeferredLock

from agtphost.contract.binding import Binding
from agtphost.contract.built_in_contracts import FILTERED
from agtphost.dispatch.merchants import MERCHANT, MerchantManifest
from agtphost.handlers import parameters
from agtphost.handlers.built_in import Answer, BuiltInContext
from agtphost.iagtp import IAgentDirectory, IPayloadAdapter
from agtphost.identity.agents import Agent
from agtphost.methods import execution
from agtphost.methods.cognitive.relevance import STOP_WORDS, said_in
from agtphost.methods.continuation import Continuations
from agtphost.methods.discovery.filters import Filter, result_type
from agtphost.methods.discovery.visibility import Visibility
from agtphost.vocabulary.newest import keep

DEFAULT_RESULTS = 10
MOST_RESULTS = 100

FURTHEST = 1_000_000
"""``offset`` at most."""

MOST_AUTHORITIES = 64
"""Authorities of which an index keeps what they may call."""

MOST_WORDS = 64
"""Words of the criteria that count."""

LONGEST_CRITERIA = 4_000
"""Characters of the criteria, as text or as JSON."""

EVERYTHING = "*"
"""Criteria that everything meets: the filter alone decides."""

_WORD = re.compile(r"[^\W_]+")

Merchants = Callable[[Agent], MerchantManifest]

Run = Callable[..., Awaitable[Any]]
"""Runs a function with its arguments off the reactor."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """Something that could be found."""

    kind: str
    """``agent``, ``endpoint`` or ``tool``."""

    thing: Agent | Binding
    name: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """What one caller looks for: read on the reactor, carried out in a thread."""

    words: Sequence[str] | None
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


class Index:
    """
    A full-text index, made in the thread that first asks of it.

    :param agents: hosted agents.
    :param bindings: endpoints.
    :param tools: tools of hosted servers.
    """

    def __init__(self, agents: Sequence[Agent], bindings: Sequence[Binding], tools: Sequence[Binding]) -> None:
        self._things = agents, bindings, tools
        self._candidates: list[Candidate] = []
        self._allowed: OrderedDict[tuple[Any, ...], bytes] = OrderedDict()
        self._lock = Lock()
        self._database: sqlite3.Connection | None = None

    def find(self, search: Search) -> tuple[int, list[tuple[Candidate, float]]]:
        """
        Carry out a search.

        :return: how many there are, and those from ``offset`` on, best first, with a score from 0 to 1.
        """
        with self._lock:
            if self._database is None:
                self._database = self._made()
            allowed = self._allowed_to(search)
            total, best, found = 0, 0.0, []
            for number, relevance in self._matches(self._database, search.words):
                candidate = self._candidates[number]
                if not allowed[number] or not search.chosen.admits(candidate.kind, candidate.thing):
                    continue
                if isinstance(candidate.thing, Agent) and not search.sees(candidate.thing):
                    continue
                best = best or relevance
                total += 1
                if search.offset < total <= search.offset + search.limit:
                    found.append((candidate, round(relevance / best, 4) if best else 1.0))
        return total, found

    def _matches(self, database: sqlite3.Connection, words: Sequence[str] | None) -> Iterator[tuple[int, float]]:
        """Numbers of candidates that have any of ``words``, best first, each with its relevance."""
        if words is None:
            return ((number, 1.0) for number in range(len(self._candidates)))
        if not words:
            return iter(())
        # Every word is quoted, so that none can be an operator of the query language.
        query = " OR ".join(f'"{word}"' for word in words)
        return (
            (number, -rank)
            for number, rank in database.execute(
                "SELECT rowid, bm25(entry, 4.0, 1.0) AS rank FROM entry WHERE entry MATCH ? ORDER BY rank, rowid",
                (query,),
            )
        )

    def _allowed_to(self, search: Search) -> bytes:
        """For each candidate 1 or 0: whether the caller may call it. Agents are seen or not, which is asked anew."""
        known = self._allowed.get(search.authority)
        if known is None:
            known = bytes(map(_allows(search), self._candidates))
            keep(self._allowed, search.authority, known, MOST_AUTHORITIES)
        else:
            self._allowed.move_to_end(search.authority)
        return known

    def _made(self) -> sqlite3.Connection:
        agents, bindings, tools = self._things
        self._candidates = [
            *(Candidate("agent", agent, agent.name, _agent_text(agent)) for agent in agents),
            *(Candidate("endpoint", each, _path_text(each), _binding_text(each)) for each in bindings),
            *(Candidate("tool", tool, tool.name.replace(".", " "), _binding_text(tool)) for tool in tools),
        ]
        database = sqlite3.connect(":memory:", check_same_thread=False)
        database.execute("CREATE VIRTUAL TABLE entry USING fts5(name, text, tokenize = 'porter unicode61')")
        database.executemany(
            "INSERT INTO entry (rowid, name, text) VALUES (?, ?, ?)",
            ((number, each.name, each.text) for number, each in enumerate(self._candidates)),
        )
        return database


def _allows(search: Search) -> Callable[[Candidate], bool]:
    """Whether a candidate may be called, as the gates would say."""

    def allows(candidate: Candidate) -> bool:
        thing = candidate.thing
        return isinstance(thing, Agent) or ((search.tools or candidate.kind != "tool") and search.admits(thing))

    return allows


class Candidates:
    """
    Finds what a caller could call.

    :param directory: the hosted agents.
    :param bindings: everything registered; read at every search.
    :param adapters: whose tools are found.
    :param run: takes the search off the reactor.
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
        run: Run,
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
        self._run = run
        self._visibility = visibility
        self._categories = categories
        self._things: list[Any] = []
        self._index = Index((), (), ())
        # One search at a time: however many are asked for, they leave the other threads to others.
        self._turn = DeferredLock()

    @staticmethod
    def wanted(given: Mapping[str, Any]) -> bool:
        """Whether the parameters are those of a search."""
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
            tools=context.assurance >= execution.FLOOR,
            sees=self._visibility.in_searches(context),
            offset=self._continuations.position(context) or parameters.start(given, "offset", FURTHEST),
            limit=parameters.count(given, bound, DEFAULT_RESULTS, MOST_RESULTS),
        )
        index = self._current()
        async with self._turn:
            total, found = await self._run(index.find, search)
        results = [
            {"rank": rank, "score": score, **shown(candidate), **(self._typed(candidate.thing) if kind else {})}
            for rank, (candidate, score) in enumerate(found, search.offset + 1)
        ]
        answer: dict[str, Any] = {"total": total, "returned": len(results), "results": results}
        if search.offset + len(results) < total and results:
            answer["next_offset"] = search.offset + len(results)
            return Answer(result=answer, headers=self._continuations.header(context, answer["next_offset"]))
        return Answer(result=answer)

    def _typed(self, thing: Agent | Binding) -> Mapping[str, Any]:
        """What a search for agents of a role says besides."""
        return typed(thing, self._merchants) if isinstance(thing, Agent) else {}

    def _current(self) -> Index:
        """The index over what there is now."""
        agents = list(self._directory.hosted())
        tools = [tool for adapter in self._adapters for tool in adapter.tools()]
        bindings = [binding for binding in self._bindings() if binding.tier != "A"]
        things = [*agents, *bindings, *tools]
        if len(things) != len(self._things) or not all(map(operator.is_, things, self._things)):
            self._things = things
            self._index = Index(agents, bindings, tools)
        return self._index


def _filter(given: Mapping[str, Any]) -> Any:
    """The ``filter``, with those of its members that stand beside it; None where there is neither."""
    beside = {name: given[name] for name in FILTERED if name in given}
    inside = given.get("filter", {} if beside else None)
    if not beside or not isinstance(inside, dict):
        return inside
    for name in sorted(beside.keys() & inside.keys()):
        if inside[name] != beside[name]:
            raise parameters.invalid(name, f"{name} stands in filter too, with another value.", "Send it once.")
    return {**beside, **inside}


def _words(criteria: Any, present: bool) -> list[str] | None:
    """The words to look for; None for everything."""
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
    words = dict.fromkeys(word for word in _WORD.findall(said.lower()) if word not in STOP_WORDS)
    return list(words)[:MOST_WORDS]


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


def typed(agent: Agent, merchants: Merchants | None) -> dict[str, Any]:
    """An agent's role; of a merchant the manifest too, for a buyer to verify (core v08 section 9)."""
    if agent.role != MERCHANT or merchants is None:
        return {"role": agent.role}
    manifest = merchants(agent)
    return {"role": agent.role, "manifest": manifest.document, "manifest_fingerprint": manifest.fingerprint}


def shown(candidate: Candidate) -> dict[str, Any]:
    """A candidate as the search returns it."""
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
        entry["action"] = thing.details.get("action", execution.TOOL_ACTION)
    return entry
