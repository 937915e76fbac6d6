"""A real host's manifest: its version on every answer and over restarts, its disclosure, its HTTPS document."""

from __future__ import annotations

import http.client
import json
import ssl
from pathlib import Path
from typing import Any

import pytest

from agtphost.client.manifests import SignatureState
from agtphost.client.reply import Reply
from agtphost.client.sync import Client
from agtphost.identity.keys import VerifyingKey
from agtphost.vocabulary import media_types
from tests.system.hosting import Host, agtp, free_port, running, sample

pytestmark = pytest.mark.slow


def client(host: Host, *, known: bool = False) -> Client:
    """A client that trusts the host, as the demo agent or as nobody."""
    agent = host.state / "agents" / "demo"
    cert, key = (agent / "agent.pem", agent / "agent.key") if known else (None, None)
    return Client(trust=host.state / "ca.pem", cert=cert, key=key)


def number(reply: Reply) -> int:
    """The AGTP-API-Version of an answer."""
    return int(reply.headers.get("agtp-api-version") or "0")


def add_endpoint(config: Path) -> None:
    """One more endpoint in the deployment's directory: the first one again, on another path."""
    first = sorted((config.parent / "endpoints").glob("*.toml"))[0]
    lines = first.read_text().split("\n")
    moved = ['path = "/moved/elsewhere"' if line.startswith("path =") else line for line in lines]
    (config.parent / "endpoints" / "more.toml").write_text("\n".join(moved))


def test_the_version_is_on_every_answer_and_outlives_the_host(tmp_path: Path) -> None:
    """AGTP-269, API-073, API-085: same content, same number and octets after a restart; one more endpoint, one more."""
    config = sample(tmp_path)
    with running(config) as host, client(host) as nobody, client(host, known=True) as demo:
        manifest = nobody.call(host.uri, "DISCOVER")
        answers = [
            demo.call(host.uri, "DISCOVER", "/tools"),
            demo.call(host.uri, "DESCRIBE"),
            nobody.call(host.uri, "QUERY", "/nothing/here"),
            nobody.call(host.uri, "FLY", "/"),
            nobody.call(host.uri, "QUERY", "/", body=b"{", content_type="application/json"),
        ]
        assert {number(reply) for reply in answers} == {number(manifest)}
        assert not answers[-1].ok
    with running(config) as host, client(host) as nobody:
        again = nobody.call(host.uri, "DISCOVER")
    assert (again.body, number(again)) == (manifest.body, number(manifest))
    assert again.headers.get("etag") == manifest.headers.get("etag")
    add_endpoint(config)
    with running(config) as host, client(host) as nobody:
        changed = nobody.call(host.uri, "DISCOVER")
    before, after = json.loads(manifest.body), json.loads(changed.body)
    assert number(changed) == number(manifest) + 1
    assert changed.headers.get("etag") != manifest.headers.get("etag")
    assert after["document_version"] != before["document_version"]
    assert after["server"]["server_id"] == before["server"]["server_id"]
    assert after["server"]["issued"] == before["server"]["issued"]
    assert after["server"]["updated"] >= before["server"]["updated"]


@pytest.mark.parametrize("level", ["public", "authenticated", "private"])
def test_who_sees_the_agents(tmp_path: Path, level: str) -> None:
    """API-075, API-084, API-085: each level, for a stranger and for a certificate, both without Agent-ID."""
    config = sample(tmp_path, edit=[('agent_disclosure = "public"', f'agent_disclosure = "{level}"')])
    with running(config) as host, client(host) as nobody, client(host, known=True) as demo:
        replies = [caller.call(host.uri, "DISCOVER", anonymous=True) for caller in (nobody, demo)]
    assert {reply.headers.get("content-type") for reply in replies} == {media_types.MANIFEST_JSON}
    seen = [bool(json.loads(reply.body)["hosted_agents"]) for reply in replies]
    assert seen == {"public": [True, True], "authenticated": [False, True], "private": [False, False]}[level]
    # Who is known is told of data classes how sensitive they are: that is never for shared caches.
    cache = [reply.headers.get("cache-control") for reply in replies]
    assert cache == ["private, max-age=300" if level == "authenticated" else "max-age=300", "private, max-age=300"]
    assert len({reply.headers.get("etag") for reply in replies}) == 2


def test_the_client_and_the_commands_read_it(tmp_path: Path) -> None:
    """API-076, API-081, API-151: verified with the host's key, sound for the validator, MCP with method and path."""
    config = sample(tmp_path, append='\n[[api]]\nname = "shop"\nbase_url = "https://shop.example/v1"\n')
    with running(config) as host, client(host) as nobody:
        key = VerifyingKey.load(host.state / "signing.pub")
        manifest = nobody.manifest(host.uri, keys={key.kid: key})
        assert manifest.signature is SignatureState.VERIFIED
        assert nobody.call(host.uri, "DISCOVER").verify({key.kid: key}).ok, "the record covers the octets as served"
        assert manifest.document["apis"] == [{"name": "shop", "base_url": "https://shop.example/v1"}]
        (protocol,) = manifest.document["hosted_protocols"]
        assert (protocol["protocol"], protocol["method"], protocol["path"]) == ("MCP", "EXECUTE", "/mcp/files")
        validated = host.agtp_json("manifest", "validate", host.uri)
        assert validated["valid"] is True
        assert validated["signature"]["verified"] is True
        assert [remark for remark in validated["remarks"] if remark["section"] != "4.8"] == []
        shown = host.agtp("manifest", "show", host.uri)
        assert shown.returncode == 0, shown.stderr
        assert "/mcp/files" in shown.stdout


def test_the_well_known_document_is_served_over_https(tmp_path: Path) -> None:
    """AGTP-127: by the host itself where it is told to listen, the very document that ``agtp wellknown`` prints."""
    port = free_port()
    config = sample(tmp_path, append=f'\n[wellknown]\nlisten = "ssl:{port}:interface=127.0.0.1"\nmax_age = 60\n')
    with running(config) as host:
        context = ssl.create_default_context(cafile=str(host.state / "ca.pem"))
        connection = http.client.HTTPSConnection("localhost", port, timeout=10, context=context)
        connection.request("GET", "/.well-known/agtp")
        response = connection.getresponse()
        document: Any = json.loads(response.read())
        connection.close()
        assert (response.status, response.getheader("Cache-Control")) == (200, "max-age=60")
        printed = host.agtp("wellknown", "host.toml")
        assert printed.returncode == 0, printed.stderr
        assert json.loads(printed.stdout) == document
    assert document["endpoint"] == f"agtp://localhost:{host.port}"
    assert document["namespace_root"] == f"agtp://localhost:{host.port}/agents"


def test_a_host_that_is_not_told_to_serves_no_https(tmp_path: Path) -> None:
    """AGTP-127: off by default; the document is printed all the same, and a domain that is none is exit 2."""
    config = sample(tmp_path, edit=[('server_id = "localhost"', 'server_id = "127.0.0.1"')])
    refused = agtp("wellknown", str(config))
    assert (refused.returncode, "domain" in refused.stderr) == (2, True)
