"""Pass 4: the table of AGIS v01 section 5."""

from __future__ import annotations

from typing import Any

from tests.agis.documents import examined, method, rules
from tests.rows import each_row

SUGGESTED = [
    ("/getUser", {"userId": {}}, "FETCH /user/{user_id}"),
    ("/getUser", {"id": {}, "name": {}}, "FETCH /user/{id}"),
    ("/get-user/{id}", {"id": {}}, "FETCH /user/{id}"),
    ("/getUser", {"first_id": {}, "second_id": {}}, "FETCH /user"),
    ("/room/getGuest", {}, "FETCH /room/guest"),
    ("/user", {"id": {}}, "FETCH or RETRIEVE"),
    ("/get", {}, "FETCH or RETRIEVE"),
]


@each_row(("path", "properties", "expected"), SUGGESTED)
def test_what_to_say_instead(path: str, properties: dict[str, Any], expected: str) -> None:
    """Of a method of HTTP, the whole endpoint is suggested."""
    document = method("GET", path, "Fetches what the agent wants")
    document["endpoints"][0]["input"] = {"type": "object", "properties": properties}
    (told,) = [each for each in examined(document).findings if each.rule.name == "AGIS-P3-http-method"]
    assert told.fix == expected


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
    ("FIND", "/<id>/menu", ["4-first", "4-parameter"]),
    ("FIND", "/patient_record", ["4-case"]),
    ("FIND", "/order/submit", ["4-verb-in-path"]),
    ("FIND", "/order", []),
    ("FIND", "/delivery-order", []),
    ("FIND", "/transfer/{id}/report", []),
    ("BOOK", "/book", []),
    *(("FIND", path, []) for path in ("/deal/{id}", "/ride", "/pull-request", "/spend")),
    ("FIND", "/dealCard", ["4-case", "4-verb-in-path"]),
    ("FIND", "/", []),
]


@each_row(("verb", "path", "expected"), TABLE)
def test_the_table_of_the_draft(verb: str, path: str, expected: list[str]) -> None:
    """Each line, and the rule that it breaks (AGIS v01 section 5)."""
    verdict = examined(method(verb, path, f"{verb.title()} what the agent wants"))
    assert rules(verdict, "error") == expected
