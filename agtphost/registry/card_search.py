"""
FIND of ``/cards``: the cards that match a description in words best (HAIDIP-014).

An index contains only what one caller may call, so a card that the caller may not see takes no place in the results,
and neither the rarity of words nor scores disclose it. The index holds operations as well as cards: one tool is found
among the hundred of its server, and a card ranks as its best operation does.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from zope.interface import implementer

from agtphost.handlers import parameters
from agtphost.handlers.built_in import Answer, BuiltInContext, IBuiltInHandler
from agtphost.registry.card import WITHDRAWN
from agtphost.registry.catalogue import Cards, Listed
from agtphost.registry.entry import LOST
from agtphost.registry.filters import read_filters
from agtphost.search.engine import SearchEngine
from agtphost.search.index import Index, SearchEntry, SearchQuery, SearchResult
from agtphost.vocabulary import jsontext
from agtphost.vocabulary.lru import keep

DEFAULT = 10
MOST = 200
"""Results of one answer."""

MAX_SKIP = 1_000_000
LONGEST = 4_000
"""Characters of a query."""

MOST_HITS = 2_000
"""Index entries that are examined for one answer: cards, and operations of cards."""

OPERATIONS_PER_CARD = 3
"""Matching operations that are listed with one card."""

MOST_INDEXES = 16
"""Sets of cards whose index is kept; callers with the same rights share one."""

SUMMARY = ("id", "name", "description", "state", "status", "trust", "certification")
"""Members of a result without ``include_metadata``."""

LONGEST_DESCRIPTION = 160
"""Characters of an operation's description in a result."""


@dataclass(frozen=True, slots=True)
class IndexPlace:
    """The card or operation that an index entry describes."""

    card: int
    name: str = ""
    """Name of the operation; empty for the card itself."""

    description: str = ""


@dataclass(frozen=True, slots=True)
class IndexedCards:
    """An index, and the place of each of its entries."""

    index: Index
    places: Sequence[IndexPlace]


@implementer(IBuiltInHandler)
class FindCards:
    """
    Handler of FIND.

    :param engine: the search engine that ranks entries.
    :param logging: whether records hold the text of searches; otherwise they hold its digest and length.
    """

    kind = "built_in"

    def __init__(self, cards: Cards, engine: SearchEngine, *, logging: bool = False) -> None:
        self._cards = cards
        self._engine = engine
        self._logging = logging
        self._known: OrderedDict[bytes, IndexedCards] = OrderedDict()

    async def handle(self, context: BuiltInContext) -> Answer:
        """
        Answer a search.

        :raises agtphost.errors.Refusal: 422 if the query or a filter is invalid.
        """
        began = time.perf_counter()
        given = context.input
        query = given.get("query", "")
        if not isinstance(query, str) or len(query) > LONGEST:
            said = f"query must be a text of at most {LONGEST} characters."
            raise parameters.invalid("query", said, "Describe what is wanted, such as: translate a letter.")
        text = query.strip() or None
        top = parameters.count(given, "top", DEFAULT, MOST)
        skip = parameters.start(given, "skip", MAX_SKIP)
        ranked, whole, lost = (
            _flag(given, name, default)
            for name, default in (("ranked", True), ("include_metadata", False), ("include_unavailable", False))
        )
        asked = given.get("filters", {})
        if not isinstance(asked, dict):
            raise parameters.invalid("filters", "filters must be an object.", "Send filters by name.")
        filters = read_filters(asked, prefix="filters.")
        cards, known = await self._engine.offload(self._collect, self._cards.all(context))

        def admits(number: int) -> bool:
            listed = cards[known.places[number].card]
            return (lost or listed.state != LOST) and filters.admits(listed)

        wanted = SearchQuery(text=text, admits=admits, limit=MOST_HITS)
        found = await self._engine.search(known.index, wanted)
        results = await self._engine.offload(
            lambda: list(self._results(found, known, cards, ranked=ranked and text is not None, whole=whole))
        )
        told: dict[str, Any] = {
            "results": results[skip : skip + top],
            "count": len(results),
            "top": top,
            "skip": skip,
            "query": query,
            "search_time": round((time.perf_counter() - began) * 1000, 3),
            "engine": found.engine or self._engine.name,
        }
        if found.degraded:
            told["degraded"] = found.degraded[:256]
        return Answer(result=told, extra={"search": self._to_record(query)})

    def _collect(self, listed: Iterable[Listed]) -> tuple[list[Listed], IndexedCards]:
        cards = [each for each in listed if each.entry.status != WITHDRAWN]
        return cards, self._index_of(cards)

    def _to_record(self, query: str) -> Mapping[str, Any]:
        """Return the record's members of a search: the query itself only if the operator enabled that."""
        if self._logging:
            return {"query": query[:LONGEST]}
        return {"query_sha256": sha256(query.encode("utf-8", "surrogatepass")).hexdigest(), "query_length": len(query)}

    def _results(
        self, found: SearchResult, known: IndexedCards, cards: Sequence[Listed], *, ranked: bool, whole: bool
    ) -> Iterator[dict[str, Any]]:
        scores: dict[int, float] = {}
        beside: dict[int, list[dict[str, Any]]] = {}
        for number, score in found.hits:
            place = known.places[number]
            scores.setdefault(place.card, score)
            told = beside.setdefault(place.card, [])
            if place.name and found.engine and len(told) < OPERATIONS_PER_CARD:
                told.append({"name": place.name, "description": place.description, "score": round(score, 4)})
        order = list(scores)
        if not ranked:
            order.sort(key=lambda card: (cards[card].entry.name.casefold(), cards[card].entry.id))
        for card in order:
            listed = cards[card]
            result: dict[str, Any] = {"score": round(scores[card], 4), **_summary(listed, whole=whole)}
            if whole:
                result["card"] = jsontext.decode(self._cards.octets(listed))
            if beside[card]:
                result["operations"] = beside[card]
            yield result

    def _index_of(self, cards: Sequence[Listed]) -> IndexedCards:
        """Return the index over some cards; the same cards share one."""
        digest = sha256("\n".join(f"{each.entry.id} {each.entry.digest}" for each in cards).encode()).digest()
        known = self._known.get(digest)
        if known is None:
            places: list[IndexPlace] = []
            entries: list[SearchEntry] = []
            for number, listed in enumerate(cards):
                for place, entry in self._entries(number, listed):
                    places.append(place)
                    entries.append(entry)
            known = keep(self._known, digest, IndexedCards(self._engine.index(entries), places), MOST_INDEXES)
        else:
            self._known.move_to_end(digest)
        return known

    def _entries(self, number: int, listed: Listed) -> Iterator[tuple[IndexPlace, SearchEntry]]:
        entry = listed.entry
        words = (word.replace("-", " ").replace("_", " ") for word in (*entry.capabilities, *entry.tags))
        said = " ".join((entry.description, *words, *entry.languages, entry.provider))
        yield IndexPlace(number), SearchEntry(entry.name, said, entry.languages)
        document = jsontext.decode(self._cards.octets(listed))
        for each in document.get("operations") or ():
            name, description = str(each.get("name", "")), str(each.get("description", ""))
            short = description.strip().partition("\n")[0][:LONGEST_DESCRIPTION]
            yield IndexPlace(number, name, short), SearchEntry(name, description, entry.languages)


def _summary(listed: Listed, *, whole: bool) -> dict[str, Any]:
    """Return a result's members of a card: those of HAIDIP-021, and how far it can be trusted."""
    shown = listed.to_json()
    if whole:
        return shown
    return {name: shown[name] for name in SUMMARY if name in shown}


def _flag(given: Mapping[str, Any], name: str, default: bool) -> bool:
    value = given.get(name, default)
    if not isinstance(value, bool):
        raise parameters.invalid(name, f"{name} must be true or false.", f"Send {name} as true or false.")
    return value
