"""
Candidate search: DISCOVER with ``criteria`` (core v08 section 7.2.2).

Agents, endpoints and tools are ranked by SQLite's full-text search with BM25,
in memory and off the reactor; the index is made anew when what there is has
changed. What the caller may not call, or may not see for its zone, is taken
out before the best are chosen, so it never takes anybody's place.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any

from agtphost.contract.binding import Binding
from agtphost.handlers.context import EndpointContext, EndpointResponse
from agtphost.iagtp import IAgentDirectory, IPayloadAdapter
from agtphost.identity.agents import Agent
from agtphost.methods import execution, parameters
from agtphost.methods.filters import Filter
from agtphost.methods.relevance import STOP_WORDS, said_in

DEFAULT_RESULTS = 10
MOST_RESULTS = 100

MOST_MATCHES = 5_000
"""Matches that are looked at: more than anybody asks for, and bounded."""

MOST_WORDS = 64
"""Words of the criteria that count."""

LONGEST_CRITERIA = 4_000
"""Characters of the criteria, as text or as JSON."""

EVERYTHING = "*"
"""Criteria that everything meets: the filter alone decides."""

_WORD = re.compile(r"[^\W_]+")

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


class Index:
    """A full-text index over candidates, made in the thread that first asks of it."""

    def __init__(self, candidates: Sequence[Candidate]) -> None:
        self.candidates = candidates
        self._lock = Lock()
        self._database: sqlite3.Connection | None = None

    def find(self, words: Sequence[str]) -> list[tuple[int, float]]:
        """The numbers of the candidates that have any of ``words``, best first, with a score from 0 to 1."""
        # Every word is quoted, so that none can be an operator of the query language.
        query = " OR ".join(f'"{word}"' for word in words)
        with self._lock:
            rows = (
                self._made()
                .execute(
                    "SELECT rowid, bm25(entry, 4.0, 1.0) AS rank FROM entry WHERE entry MATCH ? ORDER BY rank LIMIT ?",
                    (query, MOST_MATCHES),
                )
                .fetchall()
            )
        best = -rows[0][1] if rows else 0.0
        return [(number, round(-rank / best, 4) if best else 1.0) for number, rank in rows]

    def _made(self) -> sqlite3.Connection:
        if self._database is None:
            database = sqlite3.connect(":memory:", check_same_thread=False)
            database.execute("CREATE VIRTUAL TABLE entry USING fts5(name, text, tokenize = 'porter unicode61')")
            database.executemany(
                "INSERT INTO entry (rowid, name, text) VALUES (?, ?, ?)",
                ((number, each.name, each.text) for number, each in enumerate(self.candidates)),
            )
            self._database = database
        return self._database


class Candidates:
    """
    Finds what a caller could call.

    :param directory: the hosted agents.
    :param bindings: everything registered; read at every search.
    :param adapters: whose tools are found.
    :param run: takes the search off the reactor.
    :param zones: zone to the further zones that its agents may look into.
    """

    def __init__(
        self,
        directory: IAgentDirectory,
        bindings: Callable[[], Iterable[Binding]],
        adapters: Sequence[IPayloadAdapter],
        run: Run,
        zones: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        self._directory = directory
        self._bindings = bindings
        self._adapters = adapters
        self._run = run
        self._zones = zones or {}
        self._things: list[Any] = []
        self._index = Index(())

    @staticmethod
    def wanted(given: Mapping[str, Any]) -> bool:
        """Whether the parameters are those of a search."""
        return not given.keys().isdisjoint(("criteria", "intent", "filter", "max_results", "limit"))

    async def search(self, context: EndpointContext, disclosed: bool) -> EndpointResponse:
        """
        Answer a search.

        :param disclosed: whether the caller may see the hosted agents.
        :raises agtphost.errors.Refusal: 422 for criteria or a filter that cannot be read.
        """
        given = context.input
        words = _words(given.get("criteria", given.get("intent")), "criteria" in given)
        chosen = Filter.read(given.get("filter"))
        bound = "max_results" if "max_results" in given else "limit"
        limit = parameters.count(given, bound, DEFAULT_RESULTS, MOST_RESULTS)
        index = self._current()
        if words is None:
            found = [(number, 1.0) for number in range(len(index.candidates))]
        elif words:
            found = await self._run(index.find, words)
        else:
            found = []
        visible = self._visible(context, disclosed)
        results: list[dict[str, Any]] = []
        total = 0
        for number, score in found:
            candidate = index.candidates[number]
            if not chosen.admits(candidate.kind, candidate.thing) or not visible(candidate):
                continue
            total += 1
            if len(results) < limit:
                results.append({"rank": total, "score": score, **shown(candidate)})
        return EndpointResponse(result={"total": total, "returned": len(results), "results": results})

    def permitted_zones(self, context: EndpointContext) -> frozenset[str] | None:
        """The zones whose agents the caller may be shown; None where it belongs to none, and sees all."""
        caller = context.caller
        if caller is None or not caller.governance_zone:
            return None
        return frozenset((caller.governance_zone, *self._zones.get(caller.governance_zone, ())))

    def _visible(self, context: EndpointContext, disclosed: bool) -> Callable[[Candidate], bool]:
        zones = self.permitted_zones(context)

        def visible(candidate: Candidate) -> bool:
            thing = candidate.thing
            if isinstance(thing, Binding):
                named = candidate.kind != "tool" or context.assurance >= execution.FLOOR
                return named and context.admits(thing)
            return disclosed and (zones is None or not thing.governance_zone or thing.governance_zone in zones)

        return visible

    def _current(self) -> Index:
        """The index over what there is now."""
        agents = list(self._directory.hosted())
        tools = [tool for adapter in self._adapters for tool in adapter.tools()]
        bindings = [binding for binding in self._bindings() if binding.tier != "A"]
        things = [*agents, *bindings, *tools]
        if len(things) != len(self._things) or any(
            one is not other for one, other in zip(things, self._things, strict=True)
        ):
            self._things = things
            self._index = Index(
                [
                    *(Candidate("agent", agent, agent.name, _agent_text(agent)) for agent in agents),
                    *(Candidate("endpoint", each, _path_text(each), _binding_text(each)) for each in bindings),
                    *(Candidate("tool", tool, tool.name.replace(".", " "), _binding_text(tool)) for tool in tools),
                ]
            )
        return self._index


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
        if thing.posture.trust_tier == 2 and thing.posture.trust_warning:
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
