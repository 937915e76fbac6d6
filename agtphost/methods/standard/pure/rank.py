"""RANK: items by a member, by a weighted sum, or by how well they answer a text (methods v01 section 4.8)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agtphost.handlers import parameters
from agtphost.methods.cognitive.relevance import said_in
from agtphost.methods.standard.pure import material
from agtphost.search.index import Index, SearchEntry, SearchQuery, SearchResult

MAX_WEIGHTS = 32
ORDERS = ("descending", "ascending")
SAID = 4_000
"""Characters of an item that are compared with a text."""


def text_of(call: Mapping[str, Any]) -> str:
    """
    Return the text that the items are compared with; empty where they are ordered by what they say in numbers.

    A text is a member's name where any item has such a number, and else what is looked for.

    :raises agtphost.errors.Refusal: 422 for a text that is too long.
    """
    criterion = material.require(call, "criterion")
    if isinstance(criterion, Mapping) and "text" in criterion:
        return material.text(criterion, "text", parameters.MAX_TEXT)
    if not isinstance(criterion, str):
        return ""
    items = material.rows(call, "items")
    name = criterion.removeprefix("-")
    if any(material.number(material.at(item, name)) is not None for item in items if isinstance(item, Mapping)):
        return ""
    return material.text(call, "criterion", parameters.MAX_TEXT)


def entries(items: Sequence[Any]) -> list[SearchEntry]:
    """Return the items as entries of a search; what an item is called weighs most."""
    return [_entry(item) for item in items]


def _entry(item: Any) -> SearchEntry:
    if isinstance(item, Mapping):
        name = next((item[key] for key in ("title", "name", "label", "subject") if isinstance(item.get(key), str)), "")
        return SearchEntry(name[:256], said_in(dict(item))[:SAID])
    return SearchEntry("", item[:SAID] if isinstance(item, str) else said_in(item)[:SAID])


def rank(call: Mapping[str, Any]) -> dict[str, Any]:
    """Return the result of RANK by numbers, or by the words of a text."""
    text = text_of(call)
    if not text:
        return rank_by_numbers(call)
    items = material.rows(call, "items")
    return listed_by(call, items, Index(entries(items)).search(SearchQuery(text=text, limit=max(len(items), 1))))


def listed_by(call: Mapping[str, Any], items: Sequence[Any], found: SearchResult) -> dict[str, Any]:
    """Return the best items by the search's results; items without a result come last."""
    scores: list[tuple[int, float | None]] = list(found.hits)
    known = {number for number, _ in scores}
    scores += [(number, 0.0) for number in range(len(items)) if number not in known]
    return {**list_best(call, items, scores), "engine": found.engine}


def rank_by_numbers(call: Mapping[str, Any]) -> dict[str, Any]:
    """
    Return the result of RANK by numbers in the items.

    :param call: ``items``; ``criterion``: a member's name (after ``-`` the least first), ``{"member", "order"}``, or
        ``{"weights": {member: weight}}``, where each member counts from its least value, 0, to its largest, 1;
        ``limit``.
    :raises agtphost.errors.Refusal: 422 for anything else.
    """
    items = material.rows(call, "items")
    criterion = material.require(call, "criterion")
    if isinstance(criterion, str):
        criterion = {"member": criterion.removeprefix("-"), "order": ORDERS[criterion.startswith("-")]}
    if not isinstance(criterion, Mapping) or not ("member" in criterion) ^ ("weights" in criterion):
        raise parameters.invalid(
            "criterion",
            "criterion must be a member, weights or a text.",
            'Send "price", {"member": "price", "order": "ascending"}, {"weights": {"rating": 2}} or {"text": "..."}.',
        )
    return list_best(
        call, items, _by_weights(items, criterion) if "weights" in criterion else _by_member(items, criterion)
    )


def list_best(
    call: Mapping[str, Any], items: Sequence[Any], scores: Sequence[tuple[int, float | None]]
) -> dict[str, Any]:
    """Return the best items, each with its score; items without one come last."""
    limit = parameters.count(call, "limit", len(items) or 1, material.MAX_ROWS)
    found = [
        {"rank": rank, "index": index, "score": score, "item": items[index]}
        for rank, (index, score) in enumerate(scores[:limit], 1)
    ]
    return {"items": found, "of": len(items)}


def _by_member(items: Sequence[Any], criterion: Mapping[str, Any]) -> list[tuple[int, float | None]]:
    member = criterion["member"]
    if not material.is_place(member):
        raise parameters.invalid("criterion", "criterion names no member.", 'Send {"member": "price"}.')
    ascending = parameters.choice(criterion, "order", ORDERS, ORDERS[0]) == "ascending"
    values = [material.number(material.at(item, member)) for item in items]
    if items and all(value is None for value in values):
        raise parameters.invalid("criterion", f"No item has a number {member[:64]!r}.", "Name a member with numbers.")
    return _sort_scores(values, ascending)


def _by_weights(items: Sequence[Any], criterion: Mapping[str, Any]) -> list[tuple[int, float | None]]:
    weights = criterion["weights"]
    if not isinstance(weights, Mapping) or not 0 < len(weights) <= MAX_WEIGHTS:
        raise parameters.invalid("criterion", f"weights is not an object of 1 to {MAX_WEIGHTS} members.", "Send less.")
    total = 0.0
    scores = [0.0] * len(items)
    for member, weight in weights.items():
        amount = material.number(weight)
        if amount is None or not amount or not material.is_place(member):
            raise parameters.invalid(
                "criterion", f"The weight of {member[:64]!r} is not a number other than 0.", "Send 2 or -1."
            )
        values = [material.number(material.at(item, member)) for item in items]
        there = [value for value in values if value is not None]
        if items and not there:
            raise parameters.invalid("criterion", f"No item has a number {member[:64]!r}.", "Leave the weight out.")
        least, most = min(there, default=0.0), max(there, default=0.0)
        total += abs(amount)
        for index, value in enumerate(values):
            part = 0.0 if value is None else (value - least) / (most - least) if most > least else 1.0
            scores[index] += abs(amount) * (part if amount > 0 or value is None else 1.0 - part)
    return _sort_scores([round(score / total, 4) for score in scores], ascending=False)


def _sort_scores(values: Sequence[float | None], ascending: bool) -> list[tuple[int, float | None]]:
    sign = 1.0 if ascending else -1.0
    order = sorted(range(len(values)), key=lambda n: (values[n] is None, sign * (values[n] or 0.0)))
    return [(index, values[index]) for index in order]
