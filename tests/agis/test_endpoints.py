"""Endpoints of AGTP-API as endpoints of AGIS, and the way back."""

from __future__ import annotations

import tomllib
from typing import Any

from agtphost.agis import validate_value
from agtphost.agis.endpoints import export_endpoint, import_endpoints
from agtphost.agis.service import AgisService, build_own_document
from agtphost.contract.declaration import Rules
from agtphost.contract.endpoint_loading import read_endpoints
from agtphost.contract.openapi.importer import Imported
from agtphost.vocabulary.catalog import CATEGORIES, Catalog
from tests.agis.documents import DOCUMENT, changed
from tests.contract.declarations import SOUND
from tests.rows import each_row

CATALOG = Catalog.load()
SERVICE = AgisService(name="Rooms", agtp="agtp://rooms.example", description="Rooms.", version="1")


def taken(document: Any) -> Imported:
    """What becomes of a document that conforms."""
    verdict = validate_value(document)
    assert verdict.document is not None and verdict.conforms, verdict.findings
    return import_endpoints(verdict.document, CATALOG)


def test_there_and_back() -> None:
    """AGIS-074: an endpoint's document, imported and loaded, is the endpoint, but for its handler."""
    hints = 'mcp_tool_name = "make_reservation"\nparameter_hints = { nights = ["for N nights"] }\n'
    text = SOUND.replace("[semantic]\n", f"[semantic]\n{hints}").replace('actor = "patient"', 'actor = "agent"')
    (endpoint,), _ = read_endpoints(text, "rooms.toml", Rules(catalog=CATALOG))
    document = build_own_document(SERVICE, [export_endpoint(endpoint.projection())]).document
    (one,) = taken(document).endpoints
    assert one.file == "book-rooms-room-id.toml.review"
    (back,), problems = read_endpoints(one.text("Rooms"), one.file, Rules(catalog=CATALOG))
    assert not problems
    assert back.semantic == endpoint.semantic
    assert endpoint.required_scopes and any(
        "[required_scopes] copied from the document" in each for each in one.reviews
    )
    for name in ("method", "path", "errors", "deprecated", "required_scopes"):
        assert getattr(back, name) == getattr(endpoint, name)
    assert back.input_schema.schema == endpoint.input_schema.schema
    assert back.output_schema.schema == endpoint.output_schema.schema


def test_what_is_no_scope_is_told() -> None:
    """It is left out, and a person looks at it: nothing is opened in silence."""
    scopes = ["rooms:book", "rooms:book", "a b\n", 7]
    (one,) = taken(changed(("endpoints.0.required_scopes", scopes))).endpoints
    assert one.table["required_scopes"] == ["rooms:book"]
    assert "[required_scopes] left out, because it is not a valid scope: a b" in one.reviews


def test_every_category_has_a_capability() -> None:
    """AGIS-074: nine of AGTP-API are told in six; what cannot be undone is for those who are sure."""
    (endpoint,), _ = read_endpoints(SOUND, "rooms.toml", Rules(catalog=CATALOG))
    entry = endpoint.projection()
    for category in CATEGORIES:
        semantic = {**entry["semantic"], "capability": category, "confidence": 0.2}
        made = export_endpoint({**entry, "semantic": semantic})
        assert validate_value(build_own_document(SERVICE, [made]).document, level=1).conforms
        assert made["semantic"]["confidence_guidance"] == 0.85 and made["semantic"]["actor"] == "agent"


@each_row(
    ("impact", "confidence", "guidance"),
    [
        ("informational", 1.0, 0.75),
        ("informational", 0.6, 0.6),
        ("reversible", 1.0, 0.85),
        ("irreversible", 1.0, 1.0),
        ("irreversible", 0.3, 0.85),
    ],
)
def test_a_host_that_never_fails_wants_no_agents_that_never_doubt(
    impact: str, confidence: float, guidance: float
) -> None:
    """AGIS-021, AGIS-074: what was the host's confidence is told within what the impact asks for."""
    (endpoint,), _ = read_endpoints(SOUND, "rooms.toml", Rules(catalog=CATALOG))
    entry = endpoint.projection()
    made = export_endpoint({**entry, "semantic": {**entry["semantic"], "impact": impact, "confidence": confidence}})
    assert made["semantic"]["confidence_guidance"] == guidance


@each_row(
    ("place", "value", "expected"),
    [
        ("is_idempotent", None, ("is_idempotent", False)),
        ("impact_tier", None, ("impact", "irreversible")),
        ("confidence_guidance", None, ("confidence", 0.5)),
        ("capability", None, ("capability", "transaction")),
        ("confidence_guidance", 0.7, ("confidence", 0.7)),
        ("impact_tier", "irreversible", ("impact", "irreversible")),
    ],
)
def test_what_is_not_said_is_guessed_and_reviewed(place: str, value: Any, expected: tuple[str, Any]) -> None:
    """AGIS-024, AGIS-074: names of the one draft for those of the other; what the document leaves out is for review."""
    (one,) = taken(changed((f"endpoints.0.semantic.{place}", value))).endpoints
    name, wanted = expected
    assert one.table["semantic"][name] == wanted
    if value is None:
        assert any(review.startswith(f"[{name}]") for review in one.reviews)


def test_what_the_host_has_no_word_for_is_told() -> None:
    """AGIS-074: a state_transition is lost and said to be; verbs beside the catalog are for review."""
    document = changed(
        ("endpoints.0.method", "TABULATE"),
        ("endpoints.0.path", "/table/{number}"),
        ("endpoints.0.semantic.intent", "Tabulates a table on behalf of the agent"),
        ("vocabulary.declared_verbs", ["TABULATE"]),
    )
    found = taken(document)
    (one,) = found.endpoints
    assert found.losses == {"state_transition": 1} and one.losses[0].startswith("state_transition: reservation.status")
    assert one.naming[0].startswith("[method] TABULATE is not in catalog")
    assert "number" in one.table["input_schema"]["required"]
    table = tomllib.loads(one.text("Tables"))
    rules = Rules(catalog=CATALOG, custom=["TABULATE"])
    assert table["method"] == "TABULATE" and read_endpoints(one.text("Tables"), "", rules)[0]


def test_the_drafts_shorthand_is_written_out() -> None:
    """AGIS-074: contracts become JSON Schemas, and a shared schema stands in each that refers to it."""
    document = {
        **changed(
            ("endpoints.0.input", {"required": ["party_size (integer, minimum: 1)"], "optional": ["note (string)"]}),
            ("endpoints.0.output", {"type": "object", "properties": {"table": {"$ref": "#/schemas/table"}}}),
        ),
        "schemas": {"table": {"type": "object", "properties": {"number": {"type": "integer"}}}},
    }
    (one,) = taken(document).endpoints
    assert one.table["input_schema"]["properties"]["party_size"] == {"type": "integer", "minimum": 1}
    assert one.table["output_schema"]["properties"]["table"] == {"$ref": "#/$defs/table"}
    assert not read_endpoints(one.text("Tables"), "", Rules(catalog=CATALOG))[1]


def test_a_method_that_agtp_cannot_have_is_skipped() -> None:
    """GO is a verb, and a method of AGTP has three letters at least."""
    document = changed(
        ("endpoints.0.method", "GO"),
        ("endpoints.0.semantic.intent", "Goes to a table on behalf of the agent"),
        ("vocabulary.declared_verbs", ["GO"]),
    )
    found = taken(document)
    assert not found.endpoints and found.skipped == ("GO /reservation: a method of AGTP must have 3 to 32 letters",)
    assert DOCUMENT["vocabulary"]["declared_verbs"] == ["BOOK"]
