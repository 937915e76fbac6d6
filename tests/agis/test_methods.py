"""Passes 2 and 3: the tables of AGIS v01 sections 4.1 to 4.3, and every verb that the host knows in every form."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace

from agtphost.agis.findings import Finding
from agtphost.agis.validation import validate
from agtphost.agis.words import words
from agtphost.vocabulary.catalog import Catalog
from tests.agis.documents import changed, examined, method, rules
from tests.rows import each_row

TABLE = {
    "BOOK": [],
    "FIND": [],
    "SCHEDULE": [],
    "RECONCILE": [],
    "CANCEL": [],
    "AUTHORIZE": [],
    "TRIAGE": [],
    "DISPATCH": [],
    "RESERVE": [],
    "LOCATE": [],
    "BOOKING": ["2-inflected"],
    "BOOK_TABLE": ["2-compound"],
    "BOOK TABLE": ["2-compound"],
    "book-reservation": ["2-compound"],
    "FindRestaurant": ["2-compound"],
    "SEARCH2": ["2-characters"],
    "AVAILABLE": ["3-state"],
    "ACTIVE": ["3-state"],
    "EXISTS": ["3-state"],
    "OPEN": ["3-state"],
    "VALID": ["3-state"],
    "IS": ["3-state"],
    "HAS": ["3-state"],
    "DATA": ["3-noun"],
    "STATUS": ["3-noun"],
    "INFO": ["3-noun"],
    **{name: ["3-http-method"] for name in "GET POST PUT DELETE PATCH HEAD OPTIONS CONNECT TRACE".split()},  # noqa: SIM905
    "BÜCHE": ["2-characters"],
    "get": ["3-http-method"],
}
"""Methods of the draft's tables, and the errors of each."""


@each_row("name", TABLE)
def test_the_tables_of_the_draft(name: str) -> None:
    """Lines of AGIS v01 sections 4.1, 4.2 and 4.3: valid, or refused by the rule that the table names, and no other."""
    verdict = examined(method(name))
    assert rules(verdict, "error") == TABLE[name]
    assert verdict.conforms is not bool(TABLE[name])
    if not TABLE[name]:
        assert not rules(verdict, "warning"), "a method that the draft names as valid deserves no second look"


DOUBTFUL = {
    "PROCESS": ["3-borderline"],
    "YOYAKU": ["3-unknown"],
    "Book": ["2-case"],
    "book": ["2-case"],
    "GENERATEREPORT": ["2-two-words", "3-unknown"],
    "EMBED": [],
    "PING": [],
    "SEED": [],
    "ACCESS": [],
    "ASSESS": [],
    "EMPTY": [],
}
"""Methods that conform, and what is said of each."""


@each_row("name", DOUBTFUL)
def test_what_conforms_and_deserves_a_look(name: str) -> None:
    """A warning is none of a false alarm: the document conforms (AGIS v01 sections 4.2, 9 and 15)."""
    verdict = examined(method(name))
    assert rules(verdict) == DOUBTFUL[name] and verdict.conforms


def test_a_declared_verb_is_the_method_in_any_letters() -> None:
    """Which is said where it is declared, once (AGIS v01 section 4.1 (e))."""
    for declared, lines in (("book", 1), ("BOOK", 0)):
        verdict = examined(changed(("vocabulary.declared_verbs", [declared])))
        assert verdict.conforms and rules(verdict) == ["2-case"] * lines
        assert all((each.place, each.fix) == ("vocabulary.declared_verbs", "BOOK") for each in verdict.findings)


def inflected(verb: str) -> Iterator[str]:
    """The forms of a verb, by the rules of English."""
    stem, vowels = verb, "AEIOU"
    consonant_y = verb.endswith("Y") and verb[-2] not in vowels
    yield f"{verb[:-1]}IES" if consonant_y else f"{verb}{'ES' if verb.endswith(('S', 'X', 'Z', 'CH', 'SH')) else 'S'}"
    if verb.endswith("E"):
        yield from (f"{verb}D", f"{verb if verb.endswith('EE') else verb[:-1]}ING")
        return
    if len(verb) > 2 and verb[-1] not in f"{vowels}WXY" and verb[-2] in vowels and verb[-3] not in vowels:
        yield from (f"{verb}{verb[-1]}ED", f"{verb}{verb[-1]}ING")
    yield from (f"{verb[:-1]}IED" if consonant_y else f"{stem}ED", f"{verb}ING")


@each_row("verb", sorted(Catalog.load().methods))
def test_every_verb_of_the_catalog(verb: str) -> None:
    """Base forms are no forms of anything; every form gives its verb."""
    known = words()
    assert known.base(verb) is None
    for form in inflected(verb):
        assert known.base(form) == verb, form


REFUSED = {"OPEN": "AGIS-P3-state", "CONNECT": "AGIS-P3-http-method", "TRACE": "AGIS-P3-http-method"}
"""Verbs of the catalog that AGIS refuses by name (AGIS v01 sections 4.2 and 4.3)."""


def test_documents_of_all_verbs_and_of_all_their_forms() -> None:
    """Every base form is accepted, every inflected one refused, by a validator that is given a document of them."""
    catalog = sorted(Catalog.load().methods)
    forms = sorted({form for verb in catalog for form in inflected(verb)} - {*catalog})
    assert len(catalog) > 400 and len(forms) > 1_200
    found: dict[str, set[str]] = {}
    fixes: set[str] = set()
    for finding in refused(*(f"{name} /thing" for name in (*catalog, *forms))):
        found.setdefault(finding.place.split()[0], set()).add(finding.rule.name)
        fixes.add(finding.fix)
    expected = {verb: {rule} for verb, rule in REFUSED.items()}
    assert found == expected | {form: {"AGIS-P2-inflected"} for form in forms}
    assert {*catalog} - fixes == {*REFUSED} and not refused(*(f"{first_of(fix)} /thing" for fix in fixes))


def refused(*endpoints: str) -> list[Finding]:
    """What passes 2 to 4 have against endpoints."""
    listed = [dict(zip(("method", "path"), each.rsplit(" ", 1), strict=True)) for each in endpoints]
    findings = validate(json.dumps(changed(("endpoints", listed))).encode()).findings
    return [each for each in findings if each.rule.number in (2, 3, 4) and each.severity.value == "error"]


def first_of(fix: str) -> str:
    """Of several that are suggested."""
    return fix.partition(" or ")[0].partition(", ")[0]


COMPOUND = {
    "getUser": "FETCH /user",
    "post_order": "CREATE /order",
    "connect-device": "LINK /device",
    "IS_ACTIVE": "CHECK /active",
    "openAccount": "UNLOCK /account",
    "userList": "LIST /user",
    "data_get": "FETCH /data",
    "getting-data": "FETCH /data",
    "BOOK TABLE": "BOOK /table",
}
"""Methods of several words, and what is to be written instead."""


def test_a_suggestion_is_not_refused() -> None:
    """Whatever is followed: of compounds, states, things, and methods of HTTP."""
    assert {
        each.place.removesuffix(" /thing"): each.fix for each in refused(*(f"{each} /thing" for each in COMPOUND))
    } == COMPOUND
    known = words()
    others = sorted({*known.states, *known.things, "GET", "HEAD", "OPTIONS", "CONNECT", "TRACE"})
    fixes = {first_of(each.fix) for each in refused(*(f"{each} /thing" for each in others))}
    assert not refused(*COMPOUND.values(), *(fix if " /" in fix else f"{fix} /thing" for fix in fixes))


@each_row(("form", "verb"), sorted(words().irregular.items()))
def test_forms_that_no_rule_makes(form: str, verb: str) -> None:
    """Each is one of a verb that is known."""
    assert words().base(form) == verb and words().is_verb(verb)


def test_lists_that_know_nothing_are_noticed() -> None:
    """Without its verbs, the table above would fail."""
    assert replace(words(), verbs=frozenset()).base("BOOKING") is None


@each_row(
    ("verb", "intent", "rule"),
    [
        ("SUMMARISE", "Summarises a report for the agent", None),
        ("SUMMARIZE", "Summarises a report for the agent", None),
        ("ASSIGN", "Gives a task to a person", None),
        ("QUERY", "Updates the record of a user", "AGIS-P6-contradiction"),
        ("SUMMARISED", "Summarises a report for the agent", "AGIS-P2-inflected"),
        ("LEFT", "Leaves a group", "AGIS-P2-inflected"),
        ("LEARNT", "Learns of a group", "AGIS-P2-inflected"),
        ("COLOURED", "Colours a map", "AGIS-P2-inflected"),
        ("ENROLS", "Enrols a student", "AGIS-P2-inflected"),
        ("ENROL", "Enrolls a student", None),
        ("BOOKINGS", "Books a table", "AGIS-P2-inflected"),
        ("CONTAINS", "Finds what is in a box", "AGIS-P3-state"),
        ("CUSTOMERS", "Finds customers", "AGIS-P3-noun"),
        ("PROPERTIES", "Finds properties", "AGIS-P3-noun"),
    ],
)
def test_words_that_are_written_in_two_ways(verb: str, intent: str, rule: str | None) -> None:
    """British verbs are verbs; what gives may act, and what queries only reads."""
    found = [
        each.rule.name for each in examined(method(verb, "/room", intent)).findings if each.severity.value != "note"
    ]
    assert found == ([] if rule is None else [rule])
