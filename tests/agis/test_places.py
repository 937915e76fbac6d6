"""One finding for each fault, on the line and in the column of what is wrong, with what to write instead."""

from __future__ import annotations

import pytest

from agtphost.agis.validation import MOST, validate
from tests.agis.documents import ENDPOINT, changed, examined, rules
from tests.rows import each_row

TEXT = """\
agis: "1.0"
service: Tables
agtp: agtp://tables.example.com
description: Tables of restaurants.
version: 1.0.0
vocabulary: {declared_verbs: [BOOK], domain: hospitality}
schemas:
  Far: {type: object, properties: {menu: {$ref: "https://far.example/menu.json"}}}
  Odd: {type: object, properties: {size: {type: large}}}
endpoints:
  - method: BOOK
    path: /reservation
    semantic:
      intent: Books a table on behalf of the agent
      actor: agent
      outcome: A confirmed reservation exists
    input: {type: object, required: [size], properties: {size: {type: integer}}}
    output: {type: object}
    errors: [reservation_unavailable]
"""
INPUT = "{type: object, required: [size], properties: {size: {type: integer}}}"


def _input(contract: str) -> tuple[str, str]:
    return INPUT, contract


@each_row(
    ("change", "rule", "line", "column"),
    [
        # Contracts: the value itself, in the endpoint or in the document's schemas.
        (_input("{type: object, properties: {size: {type: integer, minimum: many}}}"), "8-schema", 17, 62),
        (_input("{type: object, properties: {size: {$ref: '#/schemas/None'}}}"), "8-schema", 17, 47),
        (_input("{type: object, properties: {size: {$ref: 'file:///etc/passwd'}}}"), "8-remote", 17, 47),
        (_input("{type: object, properties: {size: {$ref: '#/schemas/Far'}}}"), "8-remote", 8, 43),
        (_input("{type: object, properties: {size: {$ref: '#/schemas/Odd'}}}"), "8-schema", 9, 43),
        (_input("{type: object, required: [size, day], properties: {size: {type: integer}}}"), "8-required", 17, 44),
        (_input("{required: [size (integer), dayOf (string)]}"), "8-snake-case", 17, 40),
        (_input("{required: [size (intger)]}"), "8-shorthand", 17, 24),
        (_input("{required: [size (integer)], optional: [note, size]}"), "8-shorthand", 17, 24),
        (_input('{required: ["size (integer"]}'), "8-snake-case", 17, 24),
        (("[reservation_unavailable]", "[no_table, 5]"), "8-errors", 19, 24),
        (("actor: agent", "actor: agent\n      parameter_hints: {size: many}"), "5-hints", 16, 25),
        # Texts that are none.
        (("of restaurants", "of\x01restaurants"), "1-unreadable", 4, 23),
        (("of restaurants", "of\x00restaurants"), "1-unreadable", 4, 23),
        (("1.0.0", "yes"), "1-unreadable", 5, 10),
        (("1.0.0", "2026-01-02"), "1-unreadable", 5, 10),
        (("1.0.0", "12:30"), "1-unreadable", 5, 10),
        (("1.0.0", "010"), "1-unreadable", 5, 10),
        (("1.0.0", "0x1F"), "1-unreadable", 5, 10),
        (("1.0.0", "1_000"), "1-unreadable", 5, 10),
        (("1.0.0", "1.0.0\nsuppressions: [{rule: AGIS-P3-border, reason: x}]"), "1-suppression", 6, 16),
        (("1.0.0", "1.0.0\nsuppressions: [{rule: AGIS-P3-borderline}]"), "1-suppression", 6, 16),
        (("    path", "\tpath"), "1-unreadable", 12, 1),
        # What the draft says of paths and methods.
        (("/reservation\n", "/{id}/reservation\n"), "4-first", 12, 5),
        (("/reservation\n", "//reservation\n"), "4-case", 12, 5),
        (("service: Tables", 'service: "  "'), "1-schema", 2, 1),
    ],
)
def test_a_fault_is_found_where_it_stands(change: tuple[str, str], rule: str, line: int, column: int) -> None:
    """Where an editor puts its cursor for it."""
    assert TEXT.count(change[0]) == 1 and validate(TEXT.encode()).conforms
    found = [each for each in validate(TEXT.replace(*change).encode()).findings if each.severity.value != "note"]
    told = [each for each in found if each.rule.name != "AGIS-P8-path-parameter"]
    assert [(each.rule.name[6:], each.line, each.column) for each in told] == [(rule, line, column)], told
    assert all(each.fix for each in found), found


@each_row(
    ("method", "fix"),
    [("bOOK", "BOOK"), ("BÖOK", "BOOK"), ("CheckOut", "CHECK /out"), ("EXISTS", "CHECK or FIND"), ("ブック", "a verb")],
)
def test_what_is_written_instead(method: str, fix: str) -> None:
    """It is what was meant."""
    verdict = examined(changed(("endpoints.0.method", method), ("vocabulary.declared_verbs", [method])))
    assert fix in verdict.findings[0].fix


@each_row(
    ("path", "fix"),
    [
        ("/order/{order-id}", "{order_id}"),
        ("/order/{id}s", "{id}"),
        ("/order/{1d}", "{d}"),
        ("/patient%20record", "patient-record"),
        ("/réservation", "reservation"),
        ("/{order_id}", "/order/{order_id}"),
        ("/{id}", "/item/{id}"),
    ],
)
def test_what_path_is_written_instead(path: str, fix: str) -> None:
    """The same of paths."""
    verdict = examined(changed(("endpoints.0.path", path)))
    assert [each.fix for each in verdict.findings if each.rule.number == 4] == [fix]


@each_row(
    ("given", "fault", "where"),
    [
        ('{"agis": "\\ud83d\\ude00",\n "a": 1, "a": 2}', "occurs twice", (2, 10)),
        ('{"agis": "\\\\\\ud83d\\ude00\\n",\n "a": 1, "a": 2}', "occurs twice", (2, 10)),
        ('{"agis": "\x7f\ufeff",\n "a": 9999999999999999999}', "2**53", (2, 7)),
        ('{"agis": "\\ud83d\\ude00",\n "a": "\\ud83d"}', "surrogate", (2, 10)),
    ],
)
def test_a_fault_of_json_behind_what_yaml_has_not(given: str, fault: str, where: tuple[int, int]) -> None:
    """Two escapes that are one character are no fault, and the one behind them has its own place."""
    (finding,) = validate(given.encode()).findings
    assert fault in finding.message and (finding.line, finding.column) == where, finding


@each_row(
    ("method", "intent", "fix"),
    [
        ("FIND", "Deletes a table", "make it REMOVE /reservation"),
        ("BOOK", "Gets a list of tables", "make it FETCH /reservation"),
        ("FIND", "Opens an account", "reword the intent"),
        ("CREATE", "Deletes a table", "make it REMOVE /reservation, or reword"),
    ],
)
def test_an_intent_is_met_by_a_method_that_conforms(method: str, intent: str, fix: str) -> None:
    """What is to be written instead is nothing that is refused as well."""
    document = changed(("endpoints.0.method", method), ("vocabulary.declared_verbs", [method]))
    document["endpoints"][0]["semantic"]["intent"] = intent
    (finding,) = [each for each in examined(document).findings if each.rule.number == 6]
    assert finding.fix.startswith(fix), finding


def test_nothing_said_is_nothing() -> None:
    """A member that may be left out is left out by null, at either level."""
    document = changed(("endpoints.0.semantic.is_idempotent", 0))
    document["endpoints"][0]["semantic"]["is_idempotent"] = None
    assert examined(document).conforms
    assert rules(examined(document, level=2)) == ["5-level-2"]


@pytest.mark.release
@pytest.mark.parametrize("errors", [["table_taken"], ["error"]])
def test_an_error_after_many_warnings_is_an_error(errors: list[str]) -> None:
    """However many warnings come first; without any, it conforms."""
    odd = {**ENDPOINT, "method": "zzq"}
    endpoints = [{**odd, "path": f"/room-{number}"} for number in range(5_000)]
    endpoints[-1] = {**endpoints[-1], "errors": errors}
    verdict = examined(changed(("endpoints", endpoints), ("vocabulary.declared_verbs", ["ZZQ"])))
    assert verdict.conforms is (errors == ["table_taken"]) and len(verdict.findings) == MOST
