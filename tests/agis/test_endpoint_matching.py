"""A document as a map, and what of it an instruction means: the draft's steps in their order (AGIS v01 section 12)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from agtphost.agis.endpoint_matching import EndpointMatch, ServiceMap
from agtphost.agis.illustrative import from_illustrative
from agtphost.agis.validation import validate_value
from agtphost.cli.root import agtp
from tests.agis.documents import DOCUMENT, changed
from tests.rows import each_row


def endpoint(method: str, path: str, intent: str, **semantic: Any) -> dict[str, Any]:
    """One of a document."""
    block = {"intent": intent, "actor": "agent", "outcome": "It is done", "confidence_guidance": 0.7, **semantic}
    return {
        "method": method,
        "path": path,
        "semantic": block,
        "input": {"type": "object"},
        "output": {"type": "object"},
        "errors": [],
    }


CALENDAR = {
    "agis": "1.0",
    "service": "Calendar",
    "agtp": "agtp://calendar.example.com",
    "vocabulary": {"declared_verbs": ["SCHEDULE", "BOOK", "FIND", "CANCEL"], "namespace": "calendar"},
    "endpoints": [
        endpoint("CANCEL", "/event", "Cancels an event of the calendar"),
        endpoint("FIND", "/event", "Finds events of the calendar"),
        endpoint("BOOK", "/room", "Books a room of the office"),
        endpoint("SCHEDULE", "/event", "Schedules a meeting on behalf of the agent"),
    ],
}


def map_of(root: Any) -> ServiceMap:
    """The map of a document that conforms."""
    verdict = validate_value(root)
    assert verdict.conforms and verdict.document is not None, verdict.findings
    return ServiceMap(document=verdict.document)


def draft(name: str) -> ServiceMap:
    """One of the draft's documents."""
    return map_of(from_illustrative((Path(__file__).parent / "drafts" / f"{name}.txt").read_bytes()).root)


MEANT = {
    "schedule a meeting for Thursday": "SCHEDULE /event",
    "please arrange an appointment": "SCHEDULE /event",
    "Could you find my meetings?": "FIND /event",
    "I would like to book a room": "BOOK /room",
    "reserve the conference room": "BOOK /room",
    "cancel the meeting": "CANCEL /event",
    "CANCELLED EVENTS": "CANCEL /event",
}
"""Instructions to the calendar, and what they mean."""

ARCHIVE = {
    **CALENDAR,
    "vocabulary": {"declared_verbs": ["BOOK", "FETCH", "PRINT"], "namespace": "archive"},
    "endpoints": [
        endpoint("BOOK", "/reading", "Books a room for reading a book"),
        endpoint("FETCH", "/book", "Reads a book of the archive"),
        endpoint("FETCH", "/file", "Reads a file of the archive"),
        endpoint("PRINT", "/poster", "Prints a poster of the office"),
    ],
}


@each_row("instruction", ["read welcome.txt", "Get reports/november.md, please", "fetch data.csv"])
def test_the_name_of_a_file_is_a_file(instruction: str) -> None:
    """The words in the name of a file mean nothing; a method with its namespace is no such name."""
    best = map_of(ARCHIVE).match(instruction)[0]
    assert (best.endpoint.verb, best.endpoint.path) == ("FETCH", "/file"), best
    assert map_of(ARCHIVE).match("archive.PRINT")[0].endpoint.verb == "PRINT"


def test_what_is_meant() -> None:
    """The draft's own instruction among them; the verb counts more than what else is said."""
    calendar = map_of(CALENDAR)
    found = {said: calendar.match(said)[0].endpoint.name for said in MEANT}
    assert found == MEANT
    assert draft("restaurant").match("book a table for four")[0].endpoint.name == "BOOK /reservation"
    assert draft("restaurant").match("find me a restaurant")[0].endpoint.name == "FIND /restaurants"
    assert draft("patients").match("admit the patient")[0].endpoint.name == "ADMIT /patient"
    assert draft("finance").match("send money to Bob")[0].endpoint.name == "TRANSFER /funds"


def test_each_step_has_its_score() -> None:
    """Methods, then nouns, then statements; together they are how sure the choice is."""
    best, *others = map_of(CALENDAR).match("schedule a meeting")
    assert (best.method, best.path, best.intent, best.confidence) == (1.0, 0.7, 1.0, 0.91)
    assert not best.escalate and all(each.confidence < best.confidence for each in others)
    assert {each.endpoint.name: each.method for each in others}["BOOK /room"] == 0.8
    assert map_of(CALENDAR).match("paint the weather") == []
    assert map_of(CALENDAR).match("schedule a meeting", limit=1) == [best]


def test_methods_outrank_nouns_and_nouns_outrank_intents() -> None:
    """AGIS-055: the method that was said wins over a path and an intent that fit, and a path over an intent."""
    office = {
        **CALENDAR,
        "vocabulary": {"declared_verbs": ["BOOK", "CANCEL", "FIND"]},
        "endpoints": [
            endpoint("BOOK", "/room", "Books a room"),
            endpoint("CANCEL", "/event", "Frees the day"),
            endpoint("FIND", "/desk", "Finds a hall with a projector"),
            endpoint("FIND", "/projector", "Finds what is wanted"),
        ],
    }
    first, second, *_ = map_of(office).match("cancel the room")
    assert [each.endpoint.name for each in (first, second)] == ["CANCEL /event", "BOOK /room"]
    assert (first.method, first.path, first.intent) == (1.0, 0.0, 0.0)
    assert (second.method, second.path, second.intent) == (0.0, 1.0, 1.0)
    first, second, *_ = map_of(office).match("find the projector")
    assert [each.endpoint.name for each in (first, second)] == ["FIND /projector", "FIND /desk"]
    assert first.path > second.path and first.intent < second.intent == 1.0
    said = {each.endpoint.name: each.method for each in map_of(office).match("find a book")}
    assert 0.0 < said["BOOK /room"] < said["FIND /desk"] == 1.0, "a verb that is not the first may be a noun"


def test_the_map() -> None:
    """The vocabulary comes first, then its endpoints; methods have their namespace."""
    calendar = map_of(CALENDAR)
    assert list(calendar.verbs) == CALENDAR["vocabulary"]["declared_verbs"]  # type: ignore[index]
    assert [each.path for each in calendar.verbs["SCHEDULE"]] == ["/event"]
    assert calendar.qualified_method(calendar.verbs["BOOK"][0]) == "calendar.BOOK"
    plain = map_of(DOCUMENT)
    assert plain.qualified_method(plain.document.endpoints[0]) == "BOOK"


def first(*semantic: tuple[str, Any]) -> EndpointMatch:
    """How the one endpoint of a document answers ``book the table``."""
    return map_of(changed(*((f"endpoints.0.semantic.{name}", value) for name, value in semantic))).match(
        "book the table"
    )[0]


def test_confidence_is_compared_with_guidance() -> None:
    """What a service asks for, and at least .85 of what cannot be undone; two that answer alike are for a person."""
    assert first().confidence == 0.91 and first().needed == 0.9 and not first().escalate
    assert "0.91 is less than the required 0.95" in first(("confidence_guidance", 0.95)).escalate
    assert first(("confidence_guidance", 0.1)).needed == 0.1
    assert first(("confidence_guidance", 0.1), ("impact_tier", "irreversible")).needed == 0.85
    twins = {**CALENDAR, "endpoints": [endpoint("BOOK", f"/{room}", "Books it") for room in ("east", "west")]}
    twins["vocabulary"] = {"declared_verbs": ["BOOK"]}
    one, two = map_of(twins).match("book something")
    assert one.alike and two.alike and "another endpoint" in one.escalate
    assert map_of(twins).match("book something", limit=1)[0].alike


def agis(*words: str, text: str | None = None) -> Result:
    """What the command does."""
    return CliRunner().invoke(agtp, ["agis", *words], input=text, prog_name="agtp")


@pytest.fixture()
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A document that conforms, and one that does not."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "calendar.agis").write_text(json.dumps(CALENDAR))
    (tmp_path / "broken.agis").write_text(json.dumps(changed(("endpoints.0.method", "GET"))))
    yield tmp_path


def test_match_proposes_the_values_that_an_instruction_names(files: Path) -> None:
    """AGIS-079: for people and for programs, by the input schema of the endpoint and its hints."""
    document = json.loads(json.dumps(CALENDAR))
    room = document["endpoints"][2]
    room["input"] = {"type": "object", "properties": {"people": {"type": "integer"}, "day": {"format": "date"}}}
    room["semantic"]["parameter_hints"] = {"people": ["for N people"]}
    Path("rooms.agis").write_text(json.dumps(document))
    said = "book a room for four people on 2027-03-01"
    told = json.loads(agis("match", "rooms.agis", said, "--json").output)
    assert told["matches"][0]["parameters"] == {"people": 4, "day": "2027-03-01"}
    assert "with people=4, day=2027-03-01" in agis("match", "rooms.agis", said).output
    assert json.loads(agis("match", "rooms.agis", "book a room", "--json").output)["matches"][0]["parameters"] == {}


def test_the_commands(files: Path) -> None:
    """Of files; the exit status says whether somebody should be asked."""
    done = agis("match", "calendar.agis", "schedule a meeting")
    assert done.exit_code == 0 and "SCHEDULE /event: Schedules a meeting" in done.output
    told = json.loads(agis("match", "calendar.agis", "schedule a meeting", "--json").output)
    assert told["sure"] and told["matches"][0]["qualified"] == "calendar.SCHEDULE"
    assert told["matches"][0]["scores"] == {"method": 1.0, "path": 0.7, "intent": 1.0}
    done = agis("match", "calendar.agis", "delete the event")
    assert done.exit_code == 1 and "ask a person before" in done.output
    done = agis("match", "calendar.agis", "paint the weather")
    assert done.exit_code == 1 and "no endpoint has a word of the instruction" in done.output
    assert agis("match", "calendar.agis", " ").exit_code == 2
    done = agis("match", "calendar.agis", "book a room", "--model", ".")
    assert done.exit_code == 2 and "--by-meaning" in done.output
    done = agis("map", "calendar.agis")
    assert done.exit_code == 0 and "SCHEDULE, BOOK, FIND, CANCEL" in done.output
    told = json.loads(agis("map", "calendar.agis", "--json").output)
    assert [each["path"] for each in told["endpoints"]] == ["/event", "/event", "/room", "/event"]
    for words in (("map", "broken.agis"), ("match", "broken.agis", "book")):
        done = agis(*words)
        assert done.exit_code == 1 and "AGIS-P3-http-method" in done.output


def test_two_services_are_told_apart(files: Path) -> None:
    """By the namespaces of their methods (AGIS v01 section 8.2); of one service methods stand alone."""
    for name in ("logistics", "workflow"):
        document = changed(("vocabulary.namespace", name), ("service", name))
        (files / f"{name}.agis").write_text(json.dumps(document))
    said = agis("map", "logistics.agis", "workflow.agis").output
    assert "\nlogistics.BOOK  /reservation" in said and "\nworkflow.BOOK  /reservation" in said
    assert "logistics.BOOK" not in agis("map", "logistics.agis").output
    told = json.loads(agis("map", "logistics.agis", "workflow.agis", "--json").output)
    assert [each["endpoints"][0]["qualified"] for each in told] == ["logistics.BOOK", "workflow.BOOK"]
    assert agis("map", "logistics.agis", "broken.agis").exit_code == 1


def test_intents_are_found_by_meaning(files: Path) -> None:
    """With the static vectors of the extra, what has no word of the instruction has a score all the same."""
    said = "get rid of the gathering"
    by_words = json.loads(agis("match", "calendar.agis", said, "--json").output)
    found = json.loads(agis("match", "calendar.agis", said, "--by-meaning", "--json").output)
    assert by_words["matches"] == [] and found["matches"], (by_words, found)
    assert all(0 < each["scores"]["intent"] <= 1 for each in found["matches"])
    done = agis("match", "calendar.agis", said, "--by-meaning", "--model", "nowhere")
    assert done.exit_code == 2 and "--by-meaning" in done.output
