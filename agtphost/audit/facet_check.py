"""Whether the rows of ``facet`` are what their digests say, and whether each record names the facet that it signed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from agtphost.audit.record_check import FACET, Examined, Finding
from agtphost.stores.record_index import digest_facet
from agtphost.stores.row_shapes import find_flaw, row_name
from agtphost.stores.rows import Facet
from agtphost.stores.table_interfaces import ITableRows

LISTED = 100
"""Records that are named one by one, of those that contradict one facet."""

MOST_IN_MEMORY = 10_000
"""Facets that are kept during the walk over the records."""


@dataclass(slots=True)
class _Mismatches:
    """Records that name a facet and have signed another one."""

    count: int = 0
    listed: list[tuple[str, str]] = field(default_factory=list)
    """Their names, and how they differ."""


class FacetCheck:
    """
    Compares facets with records.

    A facet that some record has signed is right, so that of a record which has signed another one is wrong. A facet
    that only such records name is wrong itself.
    """

    def __init__(self, rows: ITableRows) -> None:
        self._rows = rows
        self._known: dict[int, Facet | None] = {}
        self._sound: set[int] = set()
        self._mismatches: dict[int, _Mismatches] = {}
        self._wrong: set[int] = set()

    def rows(self) -> Iterator[Finding]:
        """Yield the facets that are not what their digests say."""
        for row in self._rows.facets(None):
            if flaw := find_flaw("facet", row):
                self._wrong.add(row[0])
                yield Finding("facet", row_name("facet", row), flaw)
            elif digest_facet(Facet(*row[2:])) != row[1]:
                self._wrong.add(row[0])
                yield Finding("facet", row_name("facet", row), "digest is not that of the other columns")

    def take(self, row: Sequence[Any], examined: Examined) -> None:
        """Compare the facet that a record names with the one that it has signed."""
        if examined.expected is None or len(row) <= FACET or type(number := row[FACET]) is not int:
            return
        expected = examined.expected.facet
        found = self.find(number)
        if found == expected:
            self._sound.add(number)
        elif number not in self._wrong:
            mismatches = self._mismatches.setdefault(number, _Mismatches())
            mismatches.count += 1
            if len(mismatches.listed) < LISTED:
                mismatches.listed.append((row_name("record", row), _describe(number, found, expected)))

    def find(self, number: int) -> Facet | None:
        """Return the facet of a number; None where no row has it, or one that cannot be a facet."""
        if number not in self._known:
            if len(self._known) >= MOST_IN_MEMORY:
                self._known.clear()
            row = self._rows.facet(number)
            self._known[number] = None if row is None or find_flaw("facet", row) else Facet(*row[2:])
        return self._known[number]

    def mismatches(self) -> Iterator[Finding]:
        """Yield the records, and the facets, of which one has to be wrong."""
        for number, mismatches in sorted(self._mismatches.items()):
            if number not in self._sound and number > 0:
                first, how = mismatches.listed[0]
                explanation = f"{mismatches.count} records that name it differ; record {first}: {how}"
                yield Finding("facet", str(number), explanation)
                if mismatches.count > 3:
                    continue
            for name, how in mismatches.listed:
                yield Finding("record", name, how)
            if mismatches.count > len(mismatches.listed):
                yield Finding("record", "(more)", f"and {mismatches.count - len(mismatches.listed)} further records")


def _describe(number: int, found: Facet | None, expected: Facet) -> str:
    if found is None:
        return f"facet is {number}, which is not there"
    for name, stored, signed in zip(Facet._fields, found, expected, strict=True):
        if stored != signed:
            shown = [value.hex() if isinstance(value, bytes) else str(value) for value in (stored, signed)]
            return f"facet is {number}, whose {name} is {ascii(shown[0])[:80]}, and {ascii(shown[1])[:80]} was signed"
    return f"facet is {number}"
