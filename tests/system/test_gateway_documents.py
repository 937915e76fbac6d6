"""What the gateway of a running host tells of itself: to programs, to people, and to whoever looks it up."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from openapi_spec_validator import validate

from agtphost.agis import validate as validate_agis
from agtphost.agis.passes.completeness import CAPABILITIES
from agtphost.agis.summary import PROTOCOLS
from agtphost.identity import detached
from agtphost.identity.keys import VerifyingKey
from tests import pypi
from tests.system.gateways import TOKEN, ask, with_gateway
from tests.system.hosting import Host, running

OPENAPI = "/.well-known/openapi.json"
MEMBERS = [
    *("agis", "service", "agtp", "agis_document", "methods", "domain", "namespace", "negotiable"),
    *("capability_summary", "data_classes", "pre_auth_discovery", "version", "interaction_protocols"),
    "related_services",
]
"""AGIS v01 section 12.2, in its order, without ``mcp_tools_list``: there is no MCP front."""

DATA = """
[[data_class]]
name = "loans"
description = "Who has borrowed which book."
sensitivity = "high"
requires_authorization = true

[agis]
service = "The shelf"
domain = "libraries"
namespace = "shelf"
related = ["agtp://south.example.com"]
publish = true
"""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Host, int]]:
    config, port = with_gateway(tmp_path_factory.mktemp("documents"), append=DATA)
    room = config.parent / "endpoints" / "rooms.toml"
    # A category of AGTP-API that AGIS has no word for.
    room.write_text(room.read_text().replace('capability = "transaction"', 'capability = "creation"'))
    with running(config) as host:
        yield host, port


def keys_of(host: Host) -> dict[str, VerifyingKey]:
    public = VerifyingKey.load(host.state / "signing.pub")
    return {public.kid: public}


def test_every_operation_of_the_document_is_answered_as_it_says(served: tuple[Host, int]) -> None:
    """Listed if and only if callable: what DISCOVER lists is there, and nothing that is refused for who asks."""
    _, port = served
    found = ask(port, "GET", OPENAPI)
    assert (found.status, found.fields["Content-Type"]) == (200, "application/vnd.oai.openapi+json")
    document = found.value
    validate(document)
    assert document["info"]["x-agtp"]["assurance"] == "gateway" and found.fields["Attribution-Record"]
    operations = [operation for item in document["paths"].values() for operation in item.values()]
    told = [each for operation in operations for each in as_list(operation["x-agtp"])]
    listed = ask(port, "DISCOVER", "/methods").value
    beside = {(each["method"], each["path"], each.get("tool", "")) for each in listed if each["tier"] != "A"}
    shown = {
        (each["method"], each["path"], f"{each['server']}.{each['tool']}" if "tool" in each else "")
        for each in told
        if each["tier"] != "A"
    }
    assert shown == beside and len(beside) > 3
    # The control: who shows nothing is told nothing.
    refused = ask(port, "GET", OPENAPI, token=None)
    assert refused.status == 401 and refused.fields["WWW-Authenticate"] == "Bearer"


@pytest.mark.slow
def test_a_client_is_generated_from_it(served: tuple[Host, int], tmp_path: Path) -> None:
    """``openapi-python-client``, which is not ours: without a warning, and what it made calls, with types."""
    _, port = served
    (tmp_path / "openapi.json").write_bytes(ask(port, "GET", OPENAPI).body)
    programs = pypi.environment("openapi-python-client", "openapi-python-client==0.29.1")
    words = ["generate", "--path", "openapi.json", "--output-path", "generated", "--meta", "none", "--fail-on-warning"]
    environ = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"}
    command = [str(programs / "openapi-python-client"), *words]
    made = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environ, timeout=120, check=False)
    assert made.returncode == 0, made.stdout + made.stderr
    script = str(Path(__file__).with_name("generated_client.py"))
    asked = [str(programs / "python"), script, str(tmp_path), f"http://127.0.0.1:{port}", TOKEN]
    done = subprocess.run(asked, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert len(told.pop("audit_id")) == 64
    assert told == {"words": 2, "title": "Pride and Prejudice", "wrong": [422, "invalid-input", "Refusal"]}


def as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def test_it_is_not_sent_twice(served: tuple[Host, int]) -> None:
    """A conditional GET is 304, without a body; it is asked of the host all the same, and has its record."""
    _, port = served
    for target in (OPENAPI, "/agents/librarian", "/.well-known/agis.json", "/.well-known/openapi/viewer.js"):
        first = ask(port, "GET", target)
        again = ask(port, "GET", target, If_None_Match=f'"other", {first.fields["ETag"]}')
        assert (first.status, again.status, again.body) == (200, 304, b""), target
        assert again.fields["ETag"] == first.fields["ETag"]
        changed = ask(port, "GET", target, If_None_Match='"other"')
        assert (changed.status, changed.body) == (200, first.body), target


@pytest.mark.parametrize("accept", ["application/vnd.agtp.identity+json", "application/vnd.agtp.identity+yaml"])
def test_documents_of_agents_are_the_octets_that_were_signed(served: tuple[Host, int], accept: str) -> None:
    """AGTP-156: over HTTP by alias alone, with the signature over these octets and the trust tier."""
    host, port = served
    found = ask(port, "GET", "/agents/librarian", Accept=accept)
    assert found.status == 200 and found.fields["Content-Type"] == accept
    assert detached.verify(found.fields["Document-Signature"], found.body, keys_of(host))
    assert found.fields["Trust-Tier"] == "2"
    with pytest.raises(ValueError, match="signature"):
        detached.verify(found.fields["Document-Signature"], found.body + b" ", keys_of(host))
    native = host.agtp("call", host.uri, "DESCRIBE", "/agents/librarian?format=json", "--json")
    assert native.returncode == 0
    if accept.endswith("json"):
        assert found.value["manifest_signature"] in native.stdout


def test_a_page_for_people(served: tuple[Host, int]) -> None:
    """``Accept: text/html``, as browsers ask, is a page, signed as it is; the status and the list are documents."""
    host, port = served
    accept = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
    page = ask(port, "GET", "/agents/librarian", Accept=accept)
    assert page.fields["Content-Type"].startswith("text/html") and b"Tier 2" in page.body
    assert detached.verify(page.fields["Document-Signature"], page.body, keys_of(host))
    assert b"How to verify it" in page.body
    assert ask(port, "GET", "/agents/librarian/status").value["document_type"] == "agtp-status"
    assert ask(port, "GET", "/agents").value["document_type"] == "agtp-namespace"
    assert ask(port, "HEAD", "/agents/librarian").body == b""


def test_the_catalog_names_what_answers(served: tuple[Host, int]) -> None:
    """RFC 9727: the gateway, its OpenAPI document and the AGTP side; every link to the gateway is answered."""
    _, port = served
    found = ask(port, "GET", "/.well-known/api-catalog", token=None)
    assert found.fields["Content-Type"].startswith("application/linkset+json; profile=")
    base = f"http://127.0.0.1:{port}"
    listed, described, *_ = found.value["linkset"]
    assert listed["anchor"] == f"{base}/.well-known/api-catalog" in found.fields["Link"]
    assert {f"{base}/"} < {each["href"] for each in listed["item"]}
    assert any(each["href"].startswith("agtp://") for each in listed["item"])
    hrefs = [each["href"] for name, links in described.items() if name != "anchor" for each in links]
    assert f"{base}{OPENAPI}" in hrefs and len(hrefs) == 3
    for href in hrefs:
        assert ask(port, "GET", href.removeprefix(base)).status == 200, href


def test_the_gateway_is_among_the_apis(served: tuple[Host, int]) -> None:
    """API-050, API-076: its entry is there by itself, in DISCOVER /apis and in the manifest."""
    host, port = served
    apis = ask(port, "DISCOVER", "/apis").value
    own = next(each for each in apis if each["name"] == "gateway")
    assert own["base_url"] == f"http://127.0.0.1:{port}"
    assert ask(port, "GET", own["openapi_url"].removeprefix(own["base_url"])).status == 200
    manifest = json.loads(host.agtp("manifest", "show", host.uri, "--json").stdout)
    assert own in manifest.get("manifest", manifest)["apis"]


def test_the_summary_has_the_members_of_the_draft(served: tuple[Host, int]) -> None:
    """AGIS-056, 057, 059: exactly these, without a credential; what it links answers; no sensitivity."""
    host, port = served
    found = ask(port, "GET", "/.well-known/agis.json", token=None)
    summary = found.value
    assert found.status == 200 and list(summary) == MEMBERS
    assert summary["pre_auth_discovery"] is True
    assert set(summary["interaction_protocols"]) <= set(PROTOCOLS)
    assert {"request", "query"} <= set(summary["interaction_protocols"])
    assert summary["negotiable"] is ("negotiate" in summary["interaction_protocols"])
    assert "loans" in summary["data_classes"]
    # In the words of AGIS, and as the document has them.
    said = ask(port, "DISCOVER", "/?format=agis").value["endpoints"]
    assert {*summary["capability_summary"]} == {each["semantic"]["capability"] for each in said} <= {*CAPABILITIES}
    said = [summary[name] for name in ("service", "domain", "namespace", "related_services")]
    assert said == ["The shelf", "libraries", "shelf", ["agtp://south.example.com"]]
    assert b"sensitivity" not in found.body and b"requires_authorization" not in found.body
    listed = ask(port, "DISCOVER", "/methods").value
    assert set(summary["methods"]) >= {each["method"] for each in listed if each["tier"] != "A"}
    # The document that it refers to is at the root of the host.
    assert summary["agis_document"] == summary["agtp"] == f"agtp://localhost:{host.port}"
    manifest = host.agtp("manifest", "show", summary["agis_document"], "--json")
    assert manifest.returncode == 0 and '"creation"' in manifest.stdout
    assert host.agtp("call", summary["agtp"], "DISCOVER", "/tools", "--as", "demo").returncode == 0


def test_the_document_that_it_refers_to_is_what_the_caller_may_call(served: tuple[Host, int]) -> None:
    """AGIS-052, AGIS-057: over TLS and over HTTP, and to whoever asks: it conforms, and has what DISCOVER lists."""
    host, port = served
    exported = host.agtp("agis", "export", host.uri, "--as", "demo", "--to", "json")
    mine = json.loads(exported.stdout)
    assert exported.returncode == 0 and validate_agis(exported.stdout.encode()).conforms
    found = ask(port, "DISCOVER", "/?format=agis")
    assert (found.status, found.fields["Content-Type"]) == (200, "application/agis; version=1.0")
    listed = ask(port, "DISCOVER", "/methods").value
    beside = {(each["method"], each["path"]) for each in listed if each["tier"] != "A"}
    assert {(each["method"], each["path"]) for each in found.value["endpoints"]} == beside
    assert [found.value["service"], found.value["vocabulary"]["namespace"]] == ["The shelf", "shelf"]
    assert mine["prepared_for"]["assurance"] == "certificate" and found.value["prepared_for"]["assurance"] == "gateway"
    classes = {each["class"]: each["sensitivity"] for each in mine["data_manifest"]["available_data"]}
    assert classes["loans"] == "high"
    # A token is no certificate: who is not certain to be somebody is told no more than strangers are.
    assert b"sensitivity" not in found.body and validate_agis(found.body).conforms


def test_only_get_is_taken_there(served: tuple[Host, int]) -> None:
    """The gateway's own place is read, whoever asks."""
    _, port = served
    assert ask(port, "POST", OPENAPI, {}).status == 405
    assert ask(port, "GET", "/.well-known/other").status == 404
    assert TOKEN not in str(ask(port, "GET", OPENAPI).value)
