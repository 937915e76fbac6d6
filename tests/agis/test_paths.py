"""Pass 4: the table of section 5."""

from __future__ import annotations

from tests.agis.documents import examined, method, rules
from tests.rows import each_row

TABLE = [
    ("FIND", "/reservation", []),
    ("FIND", "/restaurant/{id}", []),
    ("FIND", "/patient-record/{id}", []),
    ("FIND", "/calendar/event/{id}", []),
    ("FIND", "/bookReservation", ["P4-case", "P4-verb-in-path"]),
    ("FIND", "/get-restaurant", ["P4-verb-in-path"]),
    ("FIND", "/reservation?type=dinner", ["P4-query"]),
    ("FIND", "/RESERVATION", ["P4-case"]),
    ("BOOK", "/book-reservation", ["P4-method-in-path"]),
    ("BOOK", "/reservation/book-now", ["P4-method-in-path"]),
    ("FIND", "reservation", ["P4-slash"]),
    ("FIND", "/restaurant/:id", ["P4-parameter"]),
    ("FIND", "/restaurant/<id>", ["P4-parameter"]),
    ("FIND", "/patient_record", ["P4-case"]),
    ("FIND", "/order/submit", ["P4-verb-in-path"]),
    ("FIND", "/order", []),
    ("FIND", "/delivery-order", []),
    ("FIND", "/transfer/{id}/report", []),
    ("BOOK", "/book", []),
    ("FIND", "/", []),
]


@each_row(("verb", "path", "expected"), TABLE)
def test_the_table_of_the_draft(verb: str, path: str, expected: list[str]) -> None:
    """Each line, and the rule that it breaks (section 5)."""
    verdict = examined(method(verb, path, f"{verb.title()} what the agent wants"))
    assert rules(verdict, "error") == expected
