"""Criteria over stored items, for SEARCH and SCAN: what one chunk of items is looked through with, in a worker."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from agtphost.methods.standard.pure import criteria, queries
from agtphost.methods.standard.pure.comparisons import Comparisons

FUNCTION: Final = "match-items"
"""The registered function."""

Predicate = Callable[[Any], bool]


class Condition:
    """
    Criteria as an object, or JMESPath of one record's data.

    :param wanted: the criteria; ``"*"`` and an empty object hold for every record.
    :param name: the parameter that they are in, for refusals.
    :param comparisons: counts comparisons of a number with a text.
    :param steps: parts of an expression that may still be worked out.
    :raises agtphost.errors.Refusal: 422 for what is neither.
    """

    def __init__(self, wanted: Any, name: str, comparisons: Comparisons, steps: int = queries.MAX_STEPS) -> None:
        self.wanted, self.name = wanted, name
        self._query: queries.Query | None = None
        self.parts = 0
        """How many there are to be worked out for one record; 0 where every record is wanted."""

        if wanted in ("*", {}):
            self.holds: Predicate = lambda record: True
        elif isinstance(wanted, str):
            self._query = queries.condition(wanted, name, steps, comparisons)
            self.holds, self.parts = self._query.holds, self._query.parts
        else:
            self.holds, self.parts = criteria.compile_with_parts(wanted, name, comparisons)

    @property
    def is_plain(self) -> bool:
        """Return whether the steps for every record are at most as many as the parts."""
        return self._query is None or self._query.is_plain

    @property
    def steps(self) -> int:
        """Parts of the expression that may still be worked out."""
        return queries.MAX_STEPS if self._query is None else self._query.left


def match(given: Mapping[str, Any]) -> dict[str, Any]:
    """
    Return the items of one chunk that match criteria.

    :param given: ``criteria``; ``name``, the parameter that they are in; ``steps`` that are left of the call's;
        ``most``, matches after which the rest is not looked at, or null; ``items``, objects with ``data``.
    :return: ``found``, the places of the items that follow the criteria; ``comparisons`` of a number with a text;
        ``steps`` that are left; ``seconds`` of processor time.
    :raises agtphost.errors.Refusal: 422 for an expression that cannot be worked out, or takes too many steps.
    """
    began = time.process_time()
    comparisons = Comparisons()
    condition = Condition(given["criteria"], given["name"], comparisons, given["steps"])
    holds, most = condition.holds, given["most"]
    found: list[int] = []
    for place, item in enumerate(given["items"]):
        if holds(item["data"]):
            found.append(place)
            if len(found) == most:
                break
    return {
        "found": found,
        "comparisons": comparisons.counts(),
        "steps": condition.steps,
        "seconds": time.process_time() - began,
    }


def prepare() -> None:
    """Import what expressions are read with."""
    queries.import_parser()
