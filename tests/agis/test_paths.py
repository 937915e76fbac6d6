"""Pass 4: the table of AGIS v01 section 5."""

from __future__ import annotations

from tests.agis.documents import examined, method, rules
from tests.rows import each_row

TABLE = [
    ("FIND", "/reservation", []),
    ("FIND", "/restaurant/{id}", []),
    ("FIND", "/patient-record/{id}", []),
    ("FIND", "/calendar/event/{id}", []),
    ("FIND", "/bookReservation", ["4-case", "4-verb-in-path"]),
    ("FIND", "/get-restaurant", ["4-verb-in-path"]),
    ("FIND", "/reservation?type=dinner", ["4-query"]),
    ("FIND", "/RESERVATION", ["4-case"]),
    ("BOOK", "/book-reservation", ["4-method-in-path"]),
    ("BOOK", "/reservation/book-now", ["4-method-in-path"]),
    ("FIND", "reservation", ["4-slash"]),
    ("FIND", "/restaurant/:id", ["4-parameter"]),
    ("FIND", "/restaurant/<id>", ["4-parameter"]),
    ("FIND", "/patient_record", ["4-case"]),
    ("FIND", "/order/submit", ["4-verb-in-path"]),
    ("FIND", "/order", []),
    ("FIND", "/delivery-order", []),
    ("FIND", "/transfer/{id}/report", []),
    ("BOOK", "/book", []),
    ("FIND", "/", []),
]


@each_row(("verb", "path", "expected"), TABLE)
def test_the_table_of_the_draft(verb: str, path: str, expected: list[str]) -> None:
    """Each line, and the rule that it breaks (AGIS v01 section 5)."""
    verdict = examined(method(verb, path, f"{verb.title()} what the agent wants"))
    assert rules(verdict, "error") == expected
