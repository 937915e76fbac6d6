"""Manifests, sound and broken: every fault is found, where it is."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from agtphost.contract.manifest_validation import examine
from agtphost.vocabulary.catalog import FLOOR, Catalog
from tests.rows import each_row

CATALOG = Catalog.load()


def sound() -> dict[str, Any]:
    """A manifest after the example of AGTP-API section 8.2."""
    return {
        "agtp_version": "1.0",
        "agtp_api_version": "1.0",
        "document_version": "v2",
        "catalog_version": CATALOG.version,
        "catalog_versions_supported": [CATALOG.version],
        "server": {
            "server_id": "agents.acme.com",
            "domain": None,
            "operator": "Acme Retail",
            "contact": "ops@acme.com",
            "supported_features": ["endpoint-registry"],
            "issued": "2026-01-15T09:00:00Z",
            "updated": "2026-04-15T09:00:00Z",
        },
        "embedded_methods": list(FLOOR),
        "custom_methods": ["FROB"],
        "endpoints": [endpoint(), endpoint(method="FROB", path="/rooms/{room_id}")],
        "agent_disclosure": "public",
        "hosted_agents": [{"agent_id": "00"}],
        "agent_disclosure_notice": None,
        "apis": [],
        "hosted_protocols": [{"protocol": "MCP", "method": "EXECUTE", "path": "/"}],
        "policies": {
            "wildcards_accepted": False,
            "anonymous_discovery": True,
            "scope_required_for_invocation": True,
            "synthesis_enabled": False,
            "max_synthesis_depth": 10,
            "methods": {
                "allow": "*",
                "disallow": ["TRANSFER"],
                "legacy": ["GET"],
                "aliases": {"GET": "FETCH"},
                "redirects": [{"from_method": "BOOK", "from_path": "/room", "to_method": "RESERVE"}],
            },
        },
        "manifest_signature": "a.b.c",
    }


def endpoint(**members: Any) -> dict[str, Any]:
    """The endpoint of AGTP-API section 6.2, projected."""
    return {
        "method": "BOOK",
        "path": "/room",
        "description": "Books a room.",
        "semantic": {
            "intent": "Reserve a room.",
            "actor": "agent",
            "outcome": "A reservation exists.",
            "capability": "transaction",
            "confidence": 0.85,
            "impact": "irreversible",
            "is_idempotent": False,
        },
        "input_schema": {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "properties": {"room_id": {"type": "string"}},
            "additionalProperties": False,
        },
        "output_schema": {"type": "object", "additionalProperties": True},
        "errors": ["room_unavailable"],
        "handler": {"type": "registered_function"},
        "required_scopes": ["booking:room"],
        "deprecated": {"deprecated_in": "2.1.0", "successor": {"method": "RESERVE"}},
        **members,
    }


def faults(manifest: Any) -> list[str]:
    return [finding.pointer for finding in examine(manifest, CATALOG) if finding.fault]


def changed(pointer: str, value: Any) -> dict[str, Any]:
    """A sound manifest with one member replaced, or with ``...`` taken out."""
    manifest = sound()
    *way, last = pointer.strip("/").split("/")
    here: Any = manifest
    for token in way:
        here = here[int(token)] if isinstance(here, list) else here[token]
    key: Any = int(last) if isinstance(here, list) else last
    if value is ...:
        del here[key]
    else:
        here[key] = value
    return manifest


def test_a_sound_manifest_has_no_fault() -> None:
    """The draft's own shape passes without a fault or remark (API-072, API-151)."""
    assert examine(sound(), CATALOG) == []


@each_row(
    "name",
    [
        *("agtp_version", "agtp_api_version", "document_version", "catalog_version"),
        *("catalog_versions_supported", "server", "embedded_methods", "endpoints"),
        *("agent_disclosure", "hosted_agents", "policies"),
    ],
)
def test_every_required_member_is_missed(name: str) -> None:
    """Each member of AGTP-API section 8.2 that is not optional (API-072)."""
    assert f"/{name}" in faults(changed(f"/{name}", ...))


@each_row("name", ["custom_methods", "apis", "hosted_protocols", "manifest_signature"])
def test_optional_members_may_be_absent(name: str) -> None:
    """Without custom methods the endpoint that has one is the only fault (API-074, API-082)."""
    expected = ["/endpoints/1/method"] if name == "custom_methods" else []
    assert faults(changed(f"/{name}", ...)) == expected


SCHEMA = "/endpoints/0/input_schema"


@each_row(
    ("pointer", "value", "found"),
    [
        ("/agtp_version", "2.0", None),
        ("/agtp_api_version", 1.0, None),
        ("/catalog_version", "1.1", None),
        ("/catalog_versions_supported", ["0.9.0"], None),
        ("/catalog_versions_supported", "1.1.0", None),
        ("/server/server_id", "", None),
        ("/server/domain", 5, None),
        ("/server/issued", "yesterday", None),
        ("/server/updated", "2025-01-01T00:00:00Z", None),
        ("/server/supported_features", [1], None),
        ("/embedded_methods", list(FLOOR[1:]), None),
        ("/embedded_methods", [*FLOOR, "BOOK"], None),
        ("/custom_methods", ["FROB", "GET"], "/custom_methods/1"),
        ("/endpoints/0", 7, None),
        ("/endpoints/0/method", "UNHEARDOF", None),
        ("/endpoints/0/method", "GET", None),
        ("/endpoints/0/method", "book", None),
        ("/endpoints/0/path", "/rooms/", None),
        ("/endpoints/0/path", "/query", None),
        ("/endpoints/0/path", "/{undeclared}", "/endpoints/0/input_schema/properties/undeclared"),
        ("/endpoints/0/semantic/impact", "huge", None),
        ("/endpoints/0/semantic/confidence", 1.5, None),
        ("/endpoints/0/semantic/intent", ..., None),
        (f"{SCHEMA}/additionalProperties", True, None),
        (f"{SCHEMA}/type", "array", None),
        (f"{SCHEMA}/$schema", "http://json-schema.org/draft-07/schema#", None),
        (f"{SCHEMA}/properties/room_id", {"type": "text"}, f"{SCHEMA}/properties/room_id/type"),
        (f"{SCHEMA}/properties/room_id", {"$ref": "https://example.com/s"}, SCHEMA),
        ("/endpoints/0/output_schema", [], None),
        ("/endpoints/0/errors", [7], None),
        ("/endpoints/0/handler/type", "script", None),
        ("/endpoints/0/handler/type", "composition", "/endpoints/0/errors"),
        ("/endpoints/0/handler/type", "external_service", "/endpoints/0/errors"),
        ("/endpoints/0/handler/function", "acme.rooms.book", None),
        ("/endpoints/0/required_scopes", "booking:room", None),
        ("/endpoints/0/deprecated/deprecated_in", ..., None),
        ("/endpoints/0/tier", "D", None),
        ("/agent_disclosure", "secret", None),
        ("/agent_disclosure", "private", "/hosted_agents"),
        ("/agent_disclosure_notice", 4, None),
        ("/apis", {}, None),
        ("/hosted_protocols", [{"protocol": "MCP", "path": "/"}], "/hosted_protocols/0/method"),
        ("/policies/synthesis_enabled", "no", None),
        ("/policies/max_synthesis_depth", 0, None),
        ("/policies/methods/allow", ["book"], "/policies/methods/allow/0"),
        ("/policies/methods/legacy", ["HEAD"], None),
        ("/policies/methods/aliases", {"A": "B", "B": "C"}, "/policies/methods/aliases/A"),
        ("/policies/methods/redirects", [{"to_method": "X"}], "/policies/methods/redirects/0/from_method"),
        ("/manifest_signature", "nonsense", None),
    ],
)
def test_each_fault_is_found_where_it_is(pointer: str, value: Any, found: str | None) -> None:
    """One wrong member, one pointer; nothing else is blamed (API-072 to API-083, API-151)."""
    assert set(faults(changed(pointer, value))) == {found or pointer}


def test_one_endpoint_twice_is_a_fault() -> None:
    """(method, path) identifies an endpoint (AGTP-API section 6.2)."""
    manifest = sound()
    manifest["endpoints"].append(endpoint())
    assert faults(manifest) == ["/endpoints/2"]


def test_an_unsigned_manifest_is_remarked_on_and_sound() -> None:
    """Warn, never reject (API-081, API-082)."""
    findings = examine(changed("/manifest_signature", None), CATALOG)
    assert [(finding.pointer, finding.fault) for finding in findings] == [("/manifest_signature", False)]


def test_methods_are_looked_up_only_in_the_catalog_that_is_named() -> None:
    """Another catalog's methods are unknown here, which proves nothing."""
    manifest = changed("/endpoints/0/method", "UNHEARDOF")
    manifest["catalog_version"], manifest["catalog_versions_supported"] = "7.0.0", ["7.0.0"]
    assert faults(manifest) == []


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(st.data())
def test_whatever_stands_in_a_manifest_is_examined(data: st.DataObject) -> None:
    """Any value in any place gives findings, never an error."""
    manifest = copy.deepcopy(sound())
    here: Any = manifest
    while True:
        keys = list(here) if isinstance(here, dict) else list(range(len(here)))
        key = data.draw(st.sampled_from(keys))
        if not isinstance(here[key], (dict, list)) or not here[key] or data.draw(st.booleans()):
            here[key] = data.draw(JSON)
            break
        here = here[key]
    for finding in examine(manifest, CATALOG):
        assert finding.pointer == "" or finding.pointer.startswith("/")


@each_row("value", [None, [], "manifest", 3])
def test_what_is_no_object_is_one_fault(value: Any) -> None:
    """The pointer of the whole document is empty."""
    assert faults(value) == [""]
