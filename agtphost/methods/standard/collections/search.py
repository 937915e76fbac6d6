"""SEARCH and SCAN: items that follow criteria, and every item once (methods v01 sections 3.2 and 3.3)."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from heapq import merge
from itertools import chain
from typing import Any

from zope.interface import implementer

from agtphost.audit.drafts import StoredRecord
from agtphost.contract.binding import COMPUTE
from agtphost.dispatch.encoding import in_turns
from agtphost.errors import Refusal
from agtphost.handlers import parameters
from agtphost.handlers.authorization import owner_of
from agtphost.handlers.built_in import BuiltInContext, IBuiltInHandler
from agtphost.iagtp import Search
from agtphost.identity.agents import Agent
from agtphost.methods.continuation import PARAMETER
from agtphost.methods.standard.collections.selection import Selection, is_small, render_row
from agtphost.methods.standard.collections.store import Collection
from agtphost.methods.standard.pure.comparisons import Comparisons
from agtphost.methods.standard.pure.item_criteria import Condition, Predicate
from agtphost.methods.standard.pure.material import MISSING, at, is_place
from agtphost.methods.standard.record_scan import RecordScan
from agtphost.methods.standard.services import MethodServices
from agtphost.vocabulary import jsontext
from agtphost.vocabulary.reasons import Reason
from agtphost.vocabulary.sorted_blocks import Snapshot
from agtphost.vocabulary.steps import Slices

LIMIT, MOST = 50, 500
"""Items of one answer: by default, and at most."""

FURTHEST = 1_000_000
ANSWER = 1_048_576
"""Octets of the items of one answer: the rest is the next part's."""

MOST_KEYS = 8
"""Members that are sorted by."""

RECORDS = 1_000
"""Records of the caller that are searched: the newest."""

STEP = 100
"""Agents that are looked at in one go."""

RUN = 500
"""Rows that are sorted in one go."""

CARDS = 200
"""Cards that are searched."""

Ranks = tuple[tuple[int, Any], ...]
"""For each member that is sorted by: of which kind its value is, and the value."""


class Order:
    """A sort order: ``"-amount"``, ``{"field": "amount", "order": "desc"}``, or several in a list."""

    def __init__(self, given: Any) -> None:
        listed = [] if given is None else given if isinstance(given, list) else [given]
        if len(listed) > MOST_KEYS:
            raise _unsortable()
        keys: dict[str, bool] = {}
        for place, down in map(_key, listed):
            keys.setdefault(place, down)  # The second time decides nothing.
        self._keys = list(keys.items())

    def __bool__(self) -> bool:
        return bool(self._keys)

    def ranks(self, data: Any) -> Ranks:
        """Return the sort keys of one record: records without a member come last in both directions."""
        return tuple([(_rank_down if down else _rank)(at(data, place)) for place, down in self._keys])

    @staticmethod
    def select(rows: Iterable[tuple[Ranks, Any]], offset: int, limit: int, slices: Slices) -> tuple[int, list[Any]]:
        """
        Sort rows in parts, and return how many there are, and of the sorted ones those from ``offset`` on.

        Equal ones keep their order. One sort of all of them would keep the interpreter from the reactor's thread: 20 ms
        for 10,000 rows, and that for each member.

        :param slices: pauses between the parts.
        """
        runs: list[list[tuple[Ranks, int, Any]]] = [[]]
        total = 0
        for ranks, row in rows:
            if len(runs[-1]) == RUN:
                runs[-1].sort()
                runs.append([])
                slices.pause()
            # The number decides between equal ones: rows themselves cannot be compared.
            runs[-1].append((ranks, total, row))
            total += 1
        runs[-1].sort()
        found = []
        for place, (_, _, row) in enumerate(merge(*runs)):
            if place >= offset + limit:
                break
            if place >= offset:
                found.append(row)
            slices.pause()
        while runs:
            del runs[-1]  # In parts: other threads cannot use the interpreter during one deletion.
            slices.pause()
        return total, found


def _key(term: Any) -> tuple[str, bool]:
    if isinstance(term, str):
        name, colon, order = term.removeprefix("-").partition(":")
        descending = term.startswith("-") or order == "desc"
        sound = not colon or order in ("asc", "desc")
    elif isinstance(term, Mapping) and term.keys() <= {"field", "order"}:
        name, order = term.get("field", ""), term.get("order", "asc")
        descending, sound = order == "desc", order in ("asc", "desc")
    else:
        raise _unsortable()
    if not sound or not is_place(name):
        raise _unsortable()
    return name, descending


def _unsortable() -> Refusal:
    return parameters.invalid(
        "sort",
        "sort is not a member of the data with an order.",
        'Send "-amount", {"field": "amount", "order": "desc"}.',
    )


_TEXT, _MISSING = 1, 4


class _Down:
    """A text that is sorted from the last to the first."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text

    def __eq__(self, other: object) -> bool:
        return type(other) is _Down and self.text == other.text

    def __lt__(self, other: _Down) -> bool:
        return other.text < self.text

    __hash__ = None  # type: ignore[assignment]


def _rank_down(value: Any) -> tuple[int, Any]:
    """Return the rank of a value that is sorted from the greatest to the least; what is missing stays at the end."""
    kind, plain = _rank(value)
    if kind == _MISSING:
        return kind, plain
    return -kind, _Down(plain) if kind == _TEXT else -plain


def _rank(value: Any) -> tuple[int, Any]:
    """Numbers before texts before truth values; what is none of these, or missing, at the end."""
    if isinstance(value, bool):
        return 2, value
    if isinstance(value, (int, float)):
        return 0, value
    return (1, value) if isinstance(value, str) else (_MISSING if value is MISSING else 3, 0)


def page(rows: Sequence[Mapping[str, Any]], most: int) -> list[Mapping[str, Any]]:
    """Return the first rows that fit into an answer; at least one."""
    shown: list[Mapping[str, Any]] = []
    octets = 0
    for row in rows[:most]:
        octets += len(jsontext.encode(row))
        if shown and octets > ANSWER:
            break
        shown.append(row)
    return shown


def _select_page(
    sources: Iterable[Iterable[Any]], holds: Predicate, order: Order, offset: int, limit: int
) -> tuple[int, Any]:
    """Return the number of matching rows, and the requested part of them: off the reactor."""
    # Of all that follows them, only what is sorted by is kept: a hundred thousand items at length are half a gigabyte.
    every, slices = chain.from_iterable(sources), Slices()
    if not order:
        total, part = 0, list[Any]()
        for row in every:
            slices.pause()
            if holds((seen := render_row(row))["data"]):
                if offset <= total < offset + limit:
                    part.append(seen)
                total += 1
        return total, page(part, limit)

    def rank_matches() -> Iterator[tuple[Ranks, Any]]:
        for row in every:
            slices.pause()
            if holds((seen := render_row(row))["data"]):
                yield order.ranks(seen["data"]), row

    total, part = order.select(rank_matches(), offset, limit, slices)
    return total, page([render_row(row) for row in part], limit)


@implementer(IBuiltInHandler)
class Searching:
    """The handler of SEARCH."""

    kind = "built_in"
    weight = COMPUTE

    def __init__(self, parts: MethodServices) -> None:
        self._parts = parts

    async def handle(self, context: BuiltInContext) -> Any:
        """
        Answer SEARCH, or return the first computation of a long search.

        :raises Refusal: 404 for scopes that are none of the caller's; 422 for criteria that cannot be read.
        """
        given, offload = context.input, self._parts.offload
        comparisons = Comparisons()
        condition, order = Condition(given["query"], "query", comparisons), Order(given.get("sort"))
        limit = parameters.count(given, "limit", LIMIT, MOST)
        offset = parameters.start(given, "offset", FURTHEST)
        names = self._scope(context)
        sources: list[Iterable[Any]] = []
        for name in names:
            if name == "records":
                sources.append(await self._records(context))
            elif name == "cards":
                sources.append(await self._cards(context))
            else:
                collection = self._parts.collections.require_reading(context, name, "scope")
                sources.append(collection.items_after(context))
        # Items come last, as they always have.
        sources.sort(key=lambda source: isinstance(source, Snapshot))

        def answer(total: int, results: list[Any]) -> dict[str, Any]:
            told = {"scope": names, "total": total, "offset": offset, "limit": limit, "results": results}
            if offset + len(results) < total:
                told["next_offset"] = offset + len(results)
            if warnings := comparisons.warnings():
                told["warnings"] = warnings
            return told

        async def finish(selection: Selection) -> dict[str, Any]:
            selection.require_end()
            rows = [row for row, _ in selection.found]
            if order:
                return answer(*await offload(_select_page, [rows], _any, order, offset, limit))
            _, results = await offload(_select_page, [rows], _any, order, 0, limit)
            return answer(selection.total, results)

        if is_small(sources, condition):
            return answer(*await offload(_select_page, sources, condition.holds, order, offset, limit))
        kept = None if order else range(offset, offset + limit)
        return Selection(condition, comparisons, sources, finish, kept=kept).proceed()

    def _scope(self, context: BuiltInContext) -> list[str]:
        scope = context.input.get("scope")
        if scope is None:
            return [each.name for each in self._parts.collections.readable(context) if not each.own]
        names = [scope] if isinstance(scope, str) else scope
        if not names or len(names) > 16 or not all(isinstance(name, str) and name for name in names):
            raise parameters.invalid(
                "scope", "scope is not one to 16 names.", "Name collections, records or cards.", missing=False
            )
        return list(dict.fromkeys(names))

    async def _records(self, context: BuiltInContext) -> list[StoredRecord]:
        """
        Return the caller's own calls, newest first.

        :raises Refusal: as INSPECT does, for a caller that may not read them.
        """
        caller, access = owner_of(context).agent_id, self._parts.access
        access.require_reader(context)
        access.require_subject(context, (caller,))
        back = RecordScan(self._parts.records, Search(caller=caller), RECORDS)
        found: list[StoredRecord] = []
        while len(found) < RECORDS and (page := await back.further()):
            found += page
        return found[:RECORDS]

    async def _cards(self, context: BuiltInContext) -> list[dict[str, Any]]:
        """Return the cards that the registry shows to the caller."""
        if self._parts.find("FIND", "/cards") is None:
            raise Refusal(Reason.COLLECTION_UNKNOWN, details={"parameter": "scope"})
        asked = {"top": CARDS, "include_metadata": True}
        found = await context.invoke("FIND", "/cards", asked)
        return [{"collection": "cards", "id": str(card.get("id")), "data": card} for card in found["results"]]


@implementer(IBuiltInHandler)
class Scan:
    """The handler of SCAN."""

    kind = "built_in"
    weight = COMPUTE

    def __init__(self, parts: MethodServices) -> None:
        self._parts = parts

    async def handle(self, context: BuiltInContext) -> Any:
        """
        Answer SCAN, or return the first computation of a page with a filter.

        :raises Refusal: 404 for an unknown collection; 422 for an invalid cursor.
        """
        given, continuations = context.input, self._parts.continuations
        asked = {name: given[name] for name in ("collection", "filter") if name in given}
        # A cursor is good for its collection and filter: pages may be of other sizes on the way.
        bound = replace(context, input=asked)
        presented = replace(context, input={**asked, **({PARAMETER: given["cursor"]} if "cursor" in given else {})})
        size = parameters.count(given, "page_size", 100, MOST)
        comparisons = Comparisons()
        condition = Condition(given.get("filter", {}), "filter", comparisons)
        try:
            after = str(continuations.position(presented) or "")
        except Refusal as refusal:
            refusal.details = {"parameter": "cursor"}
            raise
        rows = await self._rows(context, given["collection"], after, None if given.get("filter") else size + 1)

        def answer(items: list[Mapping[str, Any]], last: str | None) -> dict[str, Any]:
            cursor = None if last is None else continuations.token(bound, last)
            told = {"collection": given["collection"], "items": items, "count": len(items), "cursor": cursor}
            if warnings := comparisons.warnings():
                told["warnings"] = warnings
            return told

        async def finish(selection: Selection) -> dict[str, Any]:
            items, last = await self._parts.offload(_cut_page, selection.found, size)
            if last is None and not selection.is_over:
                last = render_row(selection.last)["id"]  # The time was over: the next page goes on behind it.
            return answer(items, last)

        if is_small([rows], condition):
            return answer(*await self._parts.offload(_scan_page, rows, condition.holds, size))
        return Selection(condition, comparisons, [rows], finish, most=size + 1).proceed()

    async def _rows(self, context: BuiltInContext, name: str, after: str, most: int | None) -> Iterable[Any]:
        """
        Return the rows after a position, in the order of identifiers: items as they are now, or agents.

        :param most: agents that are needed; None for all, where a filter decides.
        """
        if name == "agents":
            rows: list[Any] = []
            await in_turns(self._agents(context, after, rows, most), self._parts.reactor)
            return rows
        collection: Collection = self._parts.collections.require_reading(context, name, "collection")
        return collection.items_after(context, after)

    def _agents(
        self, context: BuiltInContext, after: str, rows: list[Any], most: int | None
    ) -> Generator[None, None, None]:
        """Agent by agent, into ``rows``."""
        sees = self._parts.visibility.in_lists(context)
        behind = (agent for agent in self._parts.directory.list_hosted() if agent.agent_id > after)
        for number, agent in enumerate(sorted(behind, key=lambda agent: agent.agent_id)):
            if len(rows) == most:
                break
            if sees(agent):
                rows.append(self._agent(agent))
            if number % STEP == 0:
                yield

    def _agent(self, agent: Agent) -> dict[str, Any]:
        return {
            "id": agent.agent_id,
            "data": {
                "agent_id": agent.agent_id,
                "name": agent.name,
                "description": agent.description,
                "governance_zone": agent.governance_zone,
                "trust_tier": agent.posture.trust_tier,
                "status": self._parts.states(agent).status.value,
                "role": agent.role,
            },
        }


def _any(record: Any) -> bool:
    """Accept every record, because earlier steps left out all others."""
    return True


def _scan_page(rows: Iterable[Any], holds: Predicate, size: int) -> tuple[list[Mapping[str, Any]], str | None]:
    """Return a page and its last identifier, which is None where nothing follows."""
    found: list[Mapping[str, Any]] = []
    octets, last, slices = 0, "", Slices()
    for row in rows:
        slices.pause()
        value = render_row(row)
        if not holds(value["data"]):
            last = value["id"]
            continue
        octets += len(jsontext.encode(value))
        if len(found) == size or (found and octets > ANSWER):
            return found, last
        found.append(value)
        last = value["id"]
    return found, None


def _cut_page(matches: Sequence[tuple[Any, Any]], size: int) -> tuple[list[Mapping[str, Any]], str | None]:
    """
    Return a page of matching rows and its last identifier, as :func:`_scan_page` does.

    :param matches: each with the row before it, with which a page ends that has no room for it.
    """
    found: list[Mapping[str, Any]] = []
    octets = 0
    for row, before in matches:
        value = render_row(row)
        octets += len(jsontext.encode(value))
        if len(found) == size or (found and octets > ANSWER):
            return found, str(render_row(before)["id"])
        found.append(value)
    return found, None
