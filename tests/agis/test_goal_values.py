"""Values of parameters that a goal names: by name, by hints, by enumeration, pattern and format (AGIS-079)."""

from __future__ import annotations

from typing import Any

from agtphost.agis.goal_values import goal_values
from tests.rows import each_row

ISBN = {"isbn": {"type": "string", "pattern": "^[0-9][0-9-]{8,15}[0-9Xx]$"}}
ROOM: dict[str, Any] = {
    "room": {"type": "string", "enum": ["attic", "garden"]},
    "arrival": {"type": "string", "format": "date"},
    "departure": {"type": "string", "format": "date"},
    "nights": {"type": "integer", "minimum": 1, "maximum": 30},
    "party_size": {"type": "integer"},
}
HINTS = {"party_size": ["for N people", "table for N"], "arrival": ["from DATE"], "departure": ["to {date}"]}
TEXT = {"text": {"type": "string"}}
DATES = {"start_date": ROOM["arrival"], "end": ROOM["arrival"]}
PATH = {"path": {"type": "string"}}

NAMED: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "a pattern": ("look up the book 9780141439518", ISBN, {"isbn": "9780141439518"}),
    "a name before it": ("find isbn 978-0141439518, please", ISBN, {"isbn": "978-0141439518"}),
    "two that fit": ("compare 9780141439518 with 9780141439519", ISBN, {}),
    "none that fits": ("look up the book 12", ISBN, {}),
    "all of a stay": (
        "book the attic room from 2027-03-01 to 2027-03-05 for four people, 3 nights",
        ROOM,
        {"room": "attic", "arrival": "2027-03-01", "departure": "2027-03-05", "nights": 3, "party_size": 4},
    ),
    "beyond the schema": ("stay 31 nights", ROOM, {}),
    "two dates without a word of which is which": ("stay 2027-03-01 2027-03-05", {"arrival": ROOM["arrival"]}, {}),
    "one date for two parameters": ("book the attic room on 2027-03-01", ROOM, {"room": "attic"}),
    "a date that another parameter has": ("book from 2027-03-01", ROOM, {"arrival": "2027-03-01"}),
    "a quoted text": ('echo text = "hello world"', TEXT, {"text": "hello world"}),
    "a name that is an ordinary word": ("echo the text again", TEXT, {}),
    "a file behind the name": ("read the file with path notes/welcome.txt.", PATH, {"path": "notes/welcome.txt"}),
    "a quotation behind the name": ('read path "welcome"', PATH, {"path": "welcome"}),
    "a compound of ordinary words": ("echo the text well-known to all, and say it's it", TEXT, {}),
    "a name in camel case": ("cancel order number 4711", {"orderNumber": {"type": "string"}}, {"orderNumber": "4711"}),
    "a file for the only parameter that is one": ("read welcome.txt", PATH, {"path": "welcome.txt"}),
    "a file below a folder": (
        "show notes/welcome.txt now.",
        {"file_name": TEXT["text"]},
        {"file_name": "notes/welcome.txt"},
    ),
    "two files": ("compare welcome.txt and notes.txt", PATH, {}),
    "one file for two parameters": ("copy welcome.txt", {"source_path": TEXT["text"], "target_path": TEXT["text"]}, {}),
    "a file for what is no path": ("read welcome.txt", TEXT, {}),
    "neither a host, an address, a number nor an abbreviation is a file": (
        "read from example.com, https://a.example/b.txt, ada@b.txt, 1.5 and v1.2, e.g. now",
        PATH,
        {},
    ),
    "a range of dates": (
        "report from 2027-03-01 to 2027-03-05",
        DATES,
        {"start_date": "2027-03-01", "end": "2027-03-05"},
    ),
    "a range in other words": (
        "what happened since 2027-03-01 until 2027-03-05",
        {"from": ROOM["arrival"], "to": ROOM["arrival"]},
        {"from": "2027-03-01", "to": "2027-03-05"},
    ),
    "a range of what names neither end": (
        "fly from 2027-03-01 to 2027-03-05",
        {"departure_date": ROOM["arrival"], "arrival_date": ROOM["arrival"]},
        {},
    ),
    "a range of places": ("drive from Oslo to Bergen", DATES, {}),
    "a boolean": ("urgent = true", {"urgent": {"type": "boolean"}}, {"urgent": True}),
    "a decimal": ("amount: 19.90", {"amount": {"type": "number"}}, {"amount": 19.9}),
    "an address of mail": (
        "write to ada@example.com",
        {"to": {"type": "string", "format": "email"}},
        {"to": "ada@example.com"},
    ),
    "a pattern that any word is of": ("look up tea", {"q": {"type": "string", "pattern": ".*"}}, {}),
    "a pattern that is none": ("look up 5", {"q": {"type": "string", "pattern": "("}}, {}),
    "no schema": ("q = 5", {"q": True}, {}),
    "an enumeration with two of it": ("the attic or the garden", ROOM, {}),
}


@each_row("goal, properties, values", NAMED.values(), ids=NAMED)
def test_what_a_goal_names_is_proposed(goal: str, properties: dict[str, Any], values: dict[str, Any]) -> None:
    """Where there is no choice, and as the schema has it; else nothing."""
    assert goal_values(goal, properties, HINTS) == values


def test_a_long_goal_and_hostile_schemas_are_bounded() -> None:
    """A pattern that backtracks elsewhere is matched in linear time; parameters, phrases and words have a bound."""
    properties = {f"p{number}": {"type": "string", "pattern": "^(([0-9])+.)+$"} for number in range(200)}
    hints = {name: ["for N a b c"] * 50 for name in properties}
    values = {name: f"{name[1:]}{'9' * 8}" for name in [*properties][:64]}
    named = " ".join(f"{name} {value}" for name, value in values.items())
    assert goal_values(f"{named} p64 {'9' * 30} {' ab ' * 100_000}", properties, hints) == values
    assert goal_values(f"{' ab ' * 100_000} p0 {'9' * 30}", properties, hints) == {}, "it stands behind what is read"


def test_phrases_and_properties_of_any_shape_are_read() -> None:
    """What is no schema or no phrase is passed over."""
    hints: Any = {"x": None, "y": "for N", "z": [1]}
    assert goal_values("x 5", {"x": None, "y": 7, "z": {"type": 7}}, hints) == {}
