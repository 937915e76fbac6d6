"""
Rows that follow criteria, found in worker processes: chunk by chunk, as they are stored.

A thread of the host that works out expressions has the interpreter while the calls of all others wait for it. So only
a few rows are looked at there (:func:`is_small`). Of all others the reactor writes chunks, which are text already
where items are long, and a worker says which rows of a chunk are wanted. One chunk of a caller is worked on at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from itertools import chain
from typing import Any, Final

from agtphost.audit.drafts import StoredRecord
from agtphost.audit.state import StateItem
from agtphost.compute.functions import CHARACTERS, Computation, too_costly
from agtphost.methods.inspection.call_targets import brief
from agtphost.methods.standard.collections.store import Item
from agtphost.methods.standard.pure import item_criteria
from agtphost.methods.standard.pure.comparisons import Comparisons
from agtphost.vocabulary import jsontext
from agtphost.vocabulary.jsonslices import Encoded

SMALL: Final = 10_000
"""
Parts of criteria that may be worked out in the host: parts times rows, and once more for each 50 octets of a row.

About 10 ms. A simple condition on 1,500 short items is below it, forty conditions on 40 items are too.
"""

FIRST, MOST = 65_536, 524_288
"""Octets of the first chunk and of the largest: each has twice those of the one before. Most pages need the first."""

SECONDS: Final = 5.0
"""Of processor time for the chunks of one call, as for one computation."""


def render_row(row: Any) -> Any:
    """Return an item, a record or a card as callers see it."""
    if isinstance(row, StateItem):
        return Item(row).to_json()
    if isinstance(row, StoredRecord):
        return {"collection": "records", "id": row.audit_id, "data": brief(row)}
    return row


def is_small(sources: Iterable[Any], condition: item_criteria.Condition) -> bool:
    """Return whether the rows are so few that a thread of the host looks through them: the cost is known beforehand."""
    if not condition.parts:
        return True
    load = 0
    for source in sources:
        load += len(source)
        if (load and not condition.is_plain) or load * condition.parts > SMALL:
            return False
        load += sum(row.octets for row in source if isinstance(row, StateItem)) // CHARACTERS
    return load * condition.parts <= SMALL


class Selection:
    """
    The search of one call.

    :param condition: what rows must follow.
    :param comparisons: receives the comparisons that workers counted.
    :param sources: the rows, which must not change.
    :param kept: which of the matches are kept, by number; None for all.
    :param most: matches after which the rest is not looked at; None for all.
    :param finish: makes the answer when all is found.
    """

    def __init__(
        self,
        condition: item_criteria.Condition,
        comparisons: Comparisons,
        sources: Sequence[Iterable[Any]],
        finish: Callable[[Selection], Any],
        *,
        kept: range | None = None,
        most: int | None = None,
    ) -> None:
        self._condition, self._comparisons = condition, comparisons
        self._kept, self._most, self._finish = kept, most, finish
        self._rows = chain.from_iterable(sources)
        self._next: Any = next(self._rows, None)
        self._chunk: list[Any] = []
        self._octets = FIRST
        self._steps, self._seconds = condition.steps, 0.0
        self.total = 0
        """Rows that follow the criteria, of those that were looked at."""

        self.found: list[tuple[Any, Any]] = []
        """Those of them that are kept, each with the row before it, which is None for the first of all."""

        self.last: Any = None
        """The row that was looked at last."""

    @property
    def is_over(self) -> bool:
        """Whether every row was looked at."""
        return self._next is None

    @property
    def is_late(self) -> bool:
        """Whether the time of the call is used up."""
        return self._seconds > SECONDS

    def proceed(self) -> Any:
        """Return the computation on the next chunk, or the answer."""
        if self.is_over or self.is_late or self.total == self._most:
            return self._finish(self)
        return Computation(function=item_criteria.FUNCTION, read=self._read, finish=self._take)

    def require_end(self) -> None:
        """
        Check that the search came to its end.

        :raises agtphost.errors.Refusal: 422 where the time of the call was used up before.
        """
        if self.is_late and not self.is_over:
            raise too_costly(f"Searching the items takes more than {SECONDS:g} seconds.")

    def _read(self) -> Generator[None, None, Encoded]:
        """Write the next chunk, row by row."""
        self._chunk, texts, octets = [], [], 0
        while self._next is not None and octets < self._octets:
            row = self._next
            text = _text(row)
            texts.append(text)
            octets += len(text)
            self._chunk.append(row)
            self._next = next(self._rows, None)
            yield
        self._octets = min(2 * self._octets, MOST)
        head = {
            "criteria": self._condition.wanted,
            "name": self._condition.name,
            "steps": self._steps,
            "most": None if self._most is None else self._most - self.total,
        }
        return Encoded(b'%b,"items":[%b]}' % (jsontext.encode(head)[:-1], b",".join(texts)))

    def _take(self, result: Any) -> Any:
        """Add what a worker found in a chunk, and continue the search."""
        chunk = self._chunk
        for place in result["found"]:
            if self._kept is None or self.total in self._kept:
                self.found.append((chunk[place], chunk[place - 1] if place else self.last))
            self.total += 1
        self._steps = result["steps"]
        self._seconds += result["seconds"]
        self._comparisons.add(result["comparisons"])
        self.last = chunk[-1]
        return self.proceed()


def _text(row: Any) -> bytes:
    """Return a row as JSON, of which a worker reads ``data``; a long item as it is stored."""
    if isinstance(row, StateItem):
        return row.kept if isinstance(row.kept, bytes) else jsontext.encode({"data": row.kept["data"]})
    return jsontext.encode({"data": render_row(row)["data"]})
