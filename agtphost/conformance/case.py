"""The definition of a case, and how the modules of cases are written."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.resources import files
from typing import Any

from agtphost.conformance.target import Target
from agtphost.conformance.verdict import Need

_HYPHENS = str.maketrans("_/", "--")

Check = Callable[[Target], object]
"""A function that examines the target; it returns if the requirement is met."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """A test of one observation that a requirement calls for."""

    id: str
    """``area.name``; stable."""

    requirements: tuple[str, ...]
    """Ids of the requirements that the case tests."""

    title: str
    """One sentence that states what a passed case shows."""

    needs: tuple[Need, ...] = ()
    check: Check

    @property
    def area(self) -> str:
        """The first part of the id."""
        return self.id.partition(".")[0]


class Cases(list[Case]):
    """
    A list for the cases of one area, with methods that add cases.

    :param area: the first part of their ids.
    """

    def __init__(self, area: str) -> None:
        super().__init__()
        self._area = area

    def row(
        self,
        name: str,
        requirements: str,
        title: str,
        check: Callable[..., object],
        *values: object,
        needs: Sequence[Need] = (),
    ) -> None:
        """
        Add one row of a table.

        :param requirements: ids, separated by spaces.
        :param check: called with the target and ``values``.
        """
        bound: Check = _bind_values(check, values) if values else check
        self.append(
            Case(
                id=f"{self._area}.{name}",
                requirements=tuple(requirements.split()),
                title=title,
                needs=tuple(needs),
                check=bound,
            )
        )

    def case(self, name: str, requirements: str, *needs: Need) -> Callable[[Check], Check]:
        """Add the decorated function; its docstring is the title."""

        def added(check: Check) -> Check:
            self.row(name, requirements, (check.__doc__ or "").strip(), check, needs=needs)
            return check

        return added

    def each(
        self, name: str, requirements: str, rows: Iterable[Any], *needs: Need
    ) -> Callable[[Callable[..., object]], Callable[..., object]]:
        """
        Add the decorated function once for each row of a table; it is called with the target and the values of the row.

        :param name: a template, like ``requirements`` and the docstring, which is the title: ``{0}`` is the first value
            of a row. The resulting name is in lower case, with hyphens.
        :param rows: tuples, or single values that are rows of one value.
        """

        def added(check: Callable[..., object]) -> Callable[..., object]:
            title = (check.__doc__ or "").strip()
            for row in rows:
                values = row if isinstance(row, tuple) else (row,)
                of_row = name.format(*values).lower().translate(_HYPHENS)
                self.row(of_row, requirements.format(*values), title.format(*values), check, *values, needs=needs)
            return check

        return added


def _bind_values(check: Callable[..., object], values: Sequence[object]) -> Check:
    def run_check(target: Target) -> None:
        partial(check, target)(*values)

    return run_check


def load_tables(name: str) -> dict[str, list[tuple[Any, ...]]]:
    """Return the tables of a file of cases, by name; each is a list of rows."""
    tables = tomllib.loads(files(__package__).joinpath("cases", name).read_text())
    return {title: [tuple(row) for row in rows] for title, rows in tables.items()}


def octets(text: str) -> bytes:
    """Return the octets of a text in a table, which has one character for each of them."""
    return text.encode("latin-1")
