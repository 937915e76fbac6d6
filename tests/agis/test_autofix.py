"""What is mechanical is mended, exactly; what takes a decision is left."""

from __future__ import annotations

from typing import Any

from agtphost.agis.autofix import apply_fixes
from agtphost.agis.document import AgisDocument
from agtphost.agis.validation import validate_tree
from tests.agis.documents import DOCUMENT, ENDPOINT, changed, examined, rules
from tests.rows import each_row

INPUT = "endpoints.0.input"
PROPERTIES = {"partySize": {"type": "integer"}, "table-no": {"type": "integer"}, "id": {"type": "string"}}


def mend(value: Any) -> tuple[AgisDocument, tuple[str, ...]]:
    """The mended document of values, and what was changed."""
    found = examined(value).document
    assert found is not None
    return apply_fixes(found)


PATHS = {
    "/Reservation": "/reservation",
    "/patient_record/{id}": "/patient-record/{id}",
    "/patientRecord2": "/patient-record2",
    "/room/:id": "/room/{id}",
    "/room/<id>/$part": "/room/{id}/{part}",
    "room": "/room",
    "/": "/",
    "/getUser": "/get-user",
    "/room?floor=2": "/room?floor=2",
    "/room/{a}{b}": "/room/{a}{b}",
    "/caf\u00e9": "/caf\u00e9",
    "/room/*": "/room/*",
}


@each_row(("path", "expected"), PATHS.items())
def test_paths(path: str, expected: str) -> None:
    """Lower case, hyphens, braces and the first slash; nothing else."""
    document, changes = mend(changed(("endpoints.0.path", path)))
    assert [each.path for each in document.endpoints] == [expected]
    assert changes == (() if path == expected else (f"endpoints: BOOK {path} is BOOK {expected}",))


def test_everything_else() -> None:
    """Capitals, parameters with all that speaks of them, errors, verbs and suppressions, each told."""
    given = changed(
        ("endpoints.0.method", "book"),
        ("endpoints.0.path", "/room/{tableNo}"),
        (INPUT, {"type": "object", "required": ["partySize"], "properties": {**PROPERTIES, "tableNo": {}}}),
        ("endpoints.0.semantic.parameter_hints", {"partySize": ["for two"]}),
        ("endpoints.0.errors", ["noRoom", "no_table", "noTable"]),
        ("vocabulary.declared_verbs", ["book", "FIND"]),
        (
            "suppressions",
            [
                {"rule": "AGIS-P8-snake-case", "endpoint": "BOOK /room/{tableNo}", "reason": "the old service"},
                {"rule": "AGIS-P7-domain", "reason": "there is one now"},
            ],
        ),
    )
    document, changes = mend(given)
    (endpoint,) = document.endpoints
    assert endpoint.name == "BOOK /room/{tableNo}", "table_no is what table-no is called now"
    assert [*endpoint.members["input"]["properties"]] == ["party_size", "table_no", "id", "tableNo"]
    assert endpoint.members["input"]["required"] == ["party_size"]
    assert endpoint.semantic["parameter_hints"] == {"party_size": ["for two"]}
    assert endpoint.members["errors"] == ["no_room", "no_table", "noTable"]
    assert document.vocabulary["declared_verbs"] == ["BOOK"]
    assert [each["rule"] for each in document.members["suppressions"]] == ["AGIS-P8-snake-case"]
    assert changes == (
        "book /room/{tableNo} input: partySize is party_size",
        "book /room/{tableNo} input: table-no is table_no",
        "book /room/{tableNo} errors: noRoom is no_room",
        "endpoints: book /room/{tableNo} is BOOK /room/{tableNo}",
        "vocabulary.declared_verbs: book, FIND is BOOK",
        "suppressions[1]: AGIS-P7-domain suppressed nothing, and was removed",
    )


def test_a_parameter_of_the_path_and_its_suppression_go_along() -> None:
    """So that nothing that held is wrong afterwards."""
    given = changed(
        ("endpoints.0.method", "run"),
        ("endpoints.0.semantic.intent", "Runs a job"),
        ("endpoints.0.path", "/job/{jobNo}"),
        (INPUT, {"type": "object", "properties": {"jobNo": {}}}),
        ("vocabulary.declared_verbs", ["RUN"]),
        ("suppressions", [{"rule": "AGIS-P3-borderline", "endpoint": "run /job/{jobNo}", "reason": "our word"}]),
    )
    document, _ = mend(given)
    assert document.endpoints[0].name == "RUN /job/{job_no}"
    verdict = validate_tree(document.tree)
    assert not verdict.findings and len(verdict.suppressed) == 1


LEFT = [
    changed((INPUT, {"type": "object", "properties": {"aB": {}}, "dependentRequired": {"aB": ["id"]}})),
    changed((INPUT, {"type": "object", "properties": {"größeB": {}}})),
    changed((INPUT, {"type": "object", "properties": {"aB": {}, "a_b": {}}})),
    changed(("endpoints", [ENDPOINT, {**ENDPOINT, "path": "/Reservation"}])),
    changed(("endpoints.0.method", "BOOKING"), ("vocabulary.declared_verbs", ["BOOKING"])),
    DOCUMENT,
]
"""Nobody but the author knows what these should be."""


@each_row("given", LEFT)
def test_what_is_left(given: dict[str, Any]) -> None:
    """The same document, and no changes."""
    document, changes = mend(given)
    assert changes == () and document.tree.root == given


def test_keyed_documents() -> None:
    """Names of endpoints are mended where they are the endpoints' names; two that become one stay two."""
    members = {name: value for name, value in ENDPOINT.items() if name not in ("method", "path")}
    document, _ = mend(changed(("endpoints", {"book /Room": members, "BOOK /table": members})))
    assert [*document.members["endpoints"]] == ["BOOK /room", "BOOK /table"]
    document, _ = mend(changed(("endpoints", {"book /room": members, "BOOK /room": members})))
    assert len(document.members["endpoints"]) == 2
    assert "1-endpoint-twice" in rules(validate_tree(document.tree))
