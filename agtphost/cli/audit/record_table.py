"""Records as the rows of a table: for the page of a report, and for spreadsheets."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from agtphost.audit.filters.fields import HOST
from agtphost.audit.summaries import EVENT, READS
from agtphost.cli.output import visible_line
from agtphost.vocabulary.display_names import (
    UNPROVEN,
    caller_name,
    display_name,
    is_unproven,
    operator_name,
    person_name,
)

COLUMNS = (
    *("time", "chain", "number", "caller", "called", "status", "reason", "kind", "audit_id", "verified", "operator"),
    "person",
)

_FORMULA = re.compile(r'(^|;)(?=[\s"]*[=+\-@\uff1d\uff0b\uff0d\uff20])')
"""
Where a spreadsheet reads a formula: an apostrophe is put there.

It is the beginning of a cell. Where a comma is the decimal sign, a semicolon separates cells, too, and quotes after it
are taken away. Spreadsheets for East Asian languages take the wide signs.
"""


@dataclass(frozen=True)
class Row:
    """A record as a row for people, with names instead of identifiers where they are known."""

    time: str
    chain: str
    number: str
    caller: str
    called: str
    status: str
    reason: str
    kind: str
    audit_id: str
    verified: bool
    operator: str = ""
    """The name of the operator who called; empty where none did."""

    person: str = ""
    """The person on whose behalf an agent called; empty where there was none."""

    counted: int = 0
    """How many requests without a separate record a summary counts; 0 for other records."""

    @property
    def who(self) -> str:
        """The name of the caller, for people; without the person on whose behalf it called."""
        return caller_name({"operator": {"name": self.operator}} if self.operator else {}, self.caller)

    @property
    def who_for_whom(self) -> str:
        """The name of the caller with the person on whose behalf it called, for people."""
        return f"{self.who} for {self.person}" if self.person else self.who


def entry_row(
    payload: Mapping[str, Any],
    chain: str,
    number: object,
    audit_id: str,
    names: Mapping[str, str],
    *,
    verified: bool = True,
) -> Row:
    """
    Return the row of a record.

    :param payload: what it has signed.
    :param number: its place in its chain.
    :param names: labels of agents by Agent-ID.
    """
    caller, event = str(payload.get("caller_id", "")), payload.get("event_type")
    count = payload.get("count")
    unproven = f" ({UNPROVEN})" if is_unproven(payload) else ""
    return Row(
        time=str(payload.get("issued_at", "")),
        chain=names.get(chain, chain) or HOST,
        number=str(number),
        caller=f"{names.get(caller, caller)}{unproven}" or person_name(payload),
        called=str(event or display_name(payload)),
        status=str(payload.get("new_status") or payload.get("status") or ""),
        reason=str(payload.get("reason") or ""),
        kind="event" if event else "record",
        audit_id=audit_id,
        verified=verified,
        operator=operator_name(payload),
        person=str(payload.get("acting_principal_id") or ""),
        counted=count if event in (EVENT, READS) and type(count) is int else 0,
    )


def write_table(table: Any, rows: Iterable[Row | Sequence[object]], columns: Sequence[str] = COLUMNS) -> None:
    """
    Write rows for a spreadsheet, in which each cell is one line without control characters, and none is a formula.

    :param table: a writer of the module ``csv``.
    """
    table.writerow(columns)
    for row in rows:
        values = map(partial(getattr, row), COLUMNS) if isinstance(row, Row) else row
        table.writerow([_cell(value) for value in values])


def _cell(value: object) -> str:
    text = ("yes" if value else "no") if isinstance(value, bool) else visible_line(value)
    return _FORMULA.sub(r"\1'", text)
