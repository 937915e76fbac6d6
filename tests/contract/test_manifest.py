"""The server manifest: complete, projected, signed."""

from __future__ import annotations

import copy
import dataclasses
import json
from typing import Any

import pytest

from agtphost.config.policies import MethodPolicy as MethodSection
from agtphost.contract.binding import Binding
from agtphost.contract.declaration import Rules
from agtphost.contract.endpoint_loading import read_endpoints
from agtphost.contract.manifest import (
    Disclosure,
    Policies,
    ServerFacts,
    Surface,
    build_manifest,
    content_digest,
    sign_manifest,
    surface_digest,
    verify_manifest,
)
from agtphost.contract.policy import MethodPolicy, read_policy
from agtphost.contract.schemas import compile_schema
from agtphost.identity.agents import Agent
from agtphost.identity.jws import JWSError
from agtphost.identity.keys import SigningKey
from agtphost.identity.peer import Assurance
from agtphost.identity.trust import TrustPosture
from agtphost.vocabulary.catalog import FLOOR, Catalog
from tests.contract.declarations import SOUND
from tests.contract.test_endpoint_table import Silent
from tests.identity.samples import key_of
from tests.rows import each_row

CATALOG = Catalog.load()
KEY = key_of("manifest key")
FACTS = ServerFacts(
    server_id="agents.example",
    operator="Example",
    contact="ops@agents.example",
    issued="2026-01-15T09:00:00Z",
    updated="2026-04-15T09:00:00Z",
    document_version="v2",
    supported_features=("endpoint-registry",),
)


SHOP = {
    "name": "shop",
    "description": "Orders.",
    "base_url": "https://shop.example/v1",
    "openapi_url": "https://shop.example/openapi.json",
}
LOCATION = {"class": "location", "description": "Where.", "formats": ["json"], "sensitivity": "informational"}
SURFACE = Surface(
    apis=[SHOP],
    hosted_protocols=[{"protocol": "mcp", "method": "EXECUTE", "path": "/mcp/files"}],
    data_classes=[LOCATION],
    directory=["/", "/methods"],
)


class BuiltIn(Silent):
    """A handler of the host's own."""

    kind = "built_in"


def custom(*names: str) -> MethodPolicy:
    return read_policy(CATALOG, MethodSection(custom=names)).policy


def manifest(**changes: Any) -> dict[str, Any]:
    endpoints, problems = read_endpoints(SOUND, "rooms.toml", Rules(catalog=CATALOG))
    assert problems == []
    settings: dict[str, Any] = {
        "catalog": CATALOG,
        "policies": Policies(methods=custom("PRESCRIBE")),
        "disclosure": Disclosure(),
        "endpoints": endpoints,
        "built_ins": [
            Binding(
                method="DISCOVER",
                path="/methods",
                handler=BuiltIn(),
                tier="A",
                idempotent=True,
                state_changing=False,
                min_assurance=Assurance.NONE,
                input_schema=compile_schema({"type": "object"}, role="output"),
            )
        ],
        "surface": SURFACE,
        "signing_keys": [KEY.public],
    }
    return build_manifest(changes.pop("facts", FACTS), **(settings | changes))


def test_the_structure_of_section_8_2() -> None:
    """API-012, API-013, API-072 to 077: every member the drafts name."""
    built = manifest()
    assert built.keys() >= {
        *("agtp_version", "agtp_api_version", "document_version", "catalog_version"),
        *("catalog_versions_supported", "server", "embedded_methods", "custom_methods", "endpoints"),
        *("agent_disclosure", "hosted_agents", "agent_disclosure_notice", "apis", "hosted_protocols"),
        *("policies", "manifest_signature"),
    }
    assert (built["agtp_version"], built["agtp_api_version"]) == ("1.0", "1.0")
    assert built["catalog_versions_supported"] == [built["catalog_version"]] == ["1.1.0"]
    assert sorted(built["embedded_methods"]) == sorted(FLOOR)
    assert built["custom_methods"] == ["PRESCRIBE"]
    assert built["server"].keys() >= {
        *("server_id", "domain", "operator", "contact", "supported_features", "issued", "updated"),
    }
    assert built["policies"] == {
        "wildcards_accepted": False,
        "anonymous_discovery": True,
        "scope_required_for_invocation": True,
        "synthesis_enabled": False,
        "max_synthesis_depth": 10,
        "methods": read_policy(CATALOG, MethodSection()).policy.document(),
    }
    assert json.loads(json.dumps(built)) == built


def test_keys_are_published_for_verification() -> None:
    """Clients check records and the manifest with them."""
    assert manifest()["server"]["signing_keys"] == [
        {"kid": KEY.kid, "alg": "EdDSA", "key": KEY.public.text},
    ]


def test_handlers_stay_inside() -> None:
    """API-083: of every endpoint, the host's own included, the binding kind alone."""
    built = manifest()
    kinds = [endpoint["handler"] for endpoint in built["endpoints"]]
    assert kinds == [{"type": "registered_function"}, {"type": "registered_function"}]
    assert "handlers.rooms" not in json.dumps(built)
    assert "rooms.toml" not in json.dumps(built)


def test_a_projection_that_forgot_would_be_noticed() -> None:
    """The control: the dotted path is in the endpoint that the projection was made from."""
    (endpoint,), _ = read_endpoints(SOUND, "rooms.toml", Rules(catalog=CATALOG))
    assert "handlers.rooms" in repr(dataclasses.asdict(endpoint.handler))


def test_every_published_endpoint_is_complete() -> None:
    """AGTP-API section 13.1: a semantic block on each, and the eight required members."""
    for endpoint in manifest()["endpoints"]:
        assert endpoint.keys() >= {
            *("method", "path", "description", "semantic", "input_schema", "output_schema"),
            *("errors", "handler", "tier"),
        }
        assert endpoint["semantic"].keys() == {
            *("intent", "actor", "outcome", "capability", "confidence", "impact", "is_idempotent"),
        }


def test_built_ins_describe_themselves_from_the_catalog() -> None:
    """A binding without words of its own is described by its method's entry."""
    shown = manifest()["endpoints"][0]
    assert shown["tier"] == "A"
    assert shown["description"] == CATALOG.entries["DISCOVER"].description
    assert shown["semantic"]["impact"] == "informational"
    assert shown["semantic"]["capability"] == "discovery"


def _agent() -> Agent:
    return Agent(
        agent_id="a" * 64,
        name="librarian",
        description="Reads.",
        principal="Example",
        owner_id=None,
        document={},
        document_octets=b"{}",
        genesis=None,
        posture=TrustPosture(trust_tier=2, verification_path="org-asserted"),
        scopes=frozenset(),
        hosted=True,
        document_status="active",
    )


def test_disclosure() -> None:
    """API-075: shown where the reader is entitled to it; never where the level is private."""
    agents = [_agent()]
    (shown,) = manifest(disclosure=Disclosure(agents=agents))["hosted_agents"]
    assert shown["agent_id"] == "a" * 64
    private = manifest(disclosure=Disclosure(level="private", notice="Ask us.", agents=agents))
    assert (private["hosted_agents"], private["agent_disclosure_notice"]) == ([], "Ask us.")
    assert manifest(disclosure=Disclosure(level="authenticated"))["hosted_agents"] == []


def test_the_digest_follows_the_content() -> None:
    """API-073, API-085, AGTP-269: versions, times and signature do not change it; anything else does."""
    built = manifest()
    other = dataclasses.replace(FACTS, document_version="v3", issued="1", updated="2")
    assert content_digest(manifest(facts=other)) == content_digest(built)
    assert content_digest(sign_manifest(built, KEY)) == content_digest(built)
    for member in ("endpoints", "signing_keys"):
        assert content_digest(manifest(**{member: []})) != content_digest(built)
    for member in ("apis", "hosted_protocols", "data_classes", "directory"):
        assert content_digest(manifest(surface=dataclasses.replace(SURFACE, **{member: []}))) != content_digest(built)


def test_apis_and_protocols_are_listed() -> None:
    """API-076: fronted HTTP APIs with where their descriptions are, and protocols with their method and path."""
    built = manifest()
    assert built["apis"] == [SHOP]
    assert built["hosted_protocols"] == [{"protocol": "mcp", "method": "EXECUTE", "path": "/mcp/files"}]
    assert built["directory"] == [{"path": "/", "tier": "A"}, {"path": "/methods", "tier": "A"}]


def test_data_classes_are_listed_where_there_are_some() -> None:
    """Core v08 section 7.6 and AGIS v01 section 8.3: the data_manifest block; left out where nothing is declared."""
    expected = {"available_data": [LOCATION], "pre_auth_discovery": True, "negotiable": False}
    assert manifest()["data_manifest"] == expected
    assert "data_manifest" not in manifest(surface=Surface())


def test_several_catalog_versions_can_be_supported() -> None:
    """API-012: the versions given, or that of the catalog alone."""
    assert manifest(versions_supported=("1.0.0", "1.1.0"))["catalog_versions_supported"] == ["1.0.0", "1.1.0"]
    assert manifest()["catalog_versions_supported"] == ["1.1.0"]


def _changed_surface(change: str) -> dict[str, Any]:
    (endpoint,), _ = read_endpoints(SOUND, "rooms.toml", Rules(catalog=CATALOG))
    other = dataclasses.replace(endpoint.semantic, outcome="The room is kept free.")
    changes: dict[str, dict[str, Any]] = {
        "a new endpoint": {"endpoints": [endpoint, dataclasses.replace(endpoint, path="/tables/{room_id}")]},
        "a semantic declaration": {"endpoints": [dataclasses.replace(endpoint, semantic=other)]},
        "a custom method": {"policies": Policies(methods=custom("PRESCRIBE", "MEND"))},
        "a data class": {"surface": dataclasses.replace(SURFACE, data_classes=[LOCATION, {"class": "price"}])},
        "the operator": {"facts": dataclasses.replace(FACTS, operator="Another")},
        "the agents": {"disclosure": Disclosure(agents=[_agent()])},
        "an api": {"surface": dataclasses.replace(SURFACE, apis=[])},
        "a policy": {"policies": Policies(methods=custom("PRESCRIBE"), max_synthesis_depth=9)},
    }
    return manifest(**changes[change])


@each_row("change", ["a new endpoint", "a semantic declaration", "a custom method", "a data class"])
def test_the_surface_digest_follows_what_can_be_called(change: str) -> None:
    """AGTP-269: each of the four things whose change raises AGTP-API-Version changes the digest."""
    assert surface_digest(_changed_surface(change)) != surface_digest(manifest())


@each_row("change", ["the operator", "the agents", "an api", "a policy"])
def test_the_surface_digest_follows_nothing_else(change: str) -> None:
    """The control of the one above: these change the manifest, and not AGTP-API-Version."""
    changed = _changed_surface(change)
    assert content_digest(changed) != content_digest(manifest())
    assert surface_digest(changed) == surface_digest(manifest())


def test_the_signature_verifies() -> None:
    """API-081: over everything but the signature itself."""
    signed = sign_manifest(manifest(), KEY)
    verify_manifest(signed, {KEY.kid: KEY.public})
    verify_manifest(json.loads(json.dumps(signed)), {KEY.kid: KEY.public})


@each_row("member", ["document_version", "endpoints", "policies", "server", "hosted_agents"])
def test_a_changed_manifest_does_not_verify(member: str) -> None:
    """API-081: a substituted policy or endpoint is noticed."""
    signed = copy.deepcopy(sign_manifest(manifest(), KEY))
    signed[member] = "changed"
    with pytest.raises(JWSError):
        verify_manifest(signed, {KEY.kid: KEY.public})


def test_another_key_does_not_verify() -> None:
    """The key comes from elsewhere, or it proves nothing."""
    other = SigningKey.generate()
    with pytest.raises(JWSError):
        verify_manifest(sign_manifest(manifest(), KEY), {other.kid: other.public})


def test_an_unsigned_manifest_says_so() -> None:
    """API-082: null, for the client to warn about."""
    unsigned = sign_manifest(manifest(), None)
    assert unsigned["manifest_signature"] is None
    with pytest.raises(JWSError):
        verify_manifest(unsigned, {KEY.kid: KEY.public})
