"""Draw the calls of a range of time as a table by slots, of which the script makes a chart that selects a range."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from twisted.web.template import Tag, tags

from agtphost.page import elements
from agtphost.page.person_client import PageReply
from agtphost.page.time_range import TimeRange
from agtphost.vocabulary.quantities import lasting

HEADS = ("From (UTC)", "Calls", "Refused")


def draw_histogram(reply: PageReply, chosen: TimeRange, caption: str) -> list[Any]:
    """
    Return the table, with a link to each slot, and what it does not cover.

    :param reply: of INSPECT ``target=records`` with ``summary``.
    """
    found = reply.result
    width = int(found.get("width") or 1)
    slots = reply.entries("slots")
    until = str(found.get("until", ""))
    rows = [
        elements.TableRow(
            (_link(slot, chosen, width, until), calls_of_slot(slot), slot.get("refused")),
            {"data-from": str(slot.get("from")), "data-until": min(_end_of_slot(str(slot.get("from")), width), until)},
        )
        for slot in slots
    ]
    text = f"{caption}: {_range(found)}, by {lasting(width)}"
    table = elements.table(text, HEADS, rows, "No call was made.", chart="range", base=chosen.link("FROM", "UNTIL"))
    return [table, *_partial(reply)]


def calls_of_slot(slot: Mapping[str, Any]) -> int:
    """Return how many records of a slot are of calls; the others are events."""
    return int(slot.get("records") or 0) - int(slot.get("events") or 0)


def _range(found: Mapping[str, Any]) -> str:
    return f"{_short(str(found.get('since', '')))} to {_short(str(found.get('until', '')))} UTC"


def _short(stamp: str) -> str:
    return stamp[:19].replace("T", " ").removesuffix("Z")


def _link(slot: Mapping[str, Any], chosen: TimeRange, width: int, until: str) -> Tag:
    begin = str(slot.get("from"))
    text = begin[:10] if width >= 86_400 else begin[5:16].replace("T", " ") if width >= 60 else begin[11:19]
    link: Tag = tags.a(text, href=chosen.link(begin, min(_end_of_slot(begin, width), until)))
    return link


def _end_of_slot(stamp: str, seconds: int) -> str:
    try:
        moment = datetime.fromisoformat(stamp) + timedelta(seconds=seconds)
    except (ValueError, OverflowError):
        return stamp
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def _partial(reply: PageReply) -> Sequence[Tag]:
    if reply.result.get("complete") is not False:
        return ()
    said = (
        f"Counted back to {_short(str(reply.result.get('since', '')))} UTC only: choose a shorter range for the rest."
    )
    return (tags.p(said, class_="said"),)
