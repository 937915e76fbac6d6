"""A token of an identity provider at the gateway, the registry and the MCP front of one listener: one caller at all."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from tests.registry.served import Registry, Reply, deploy
from tests.system.hosting import running, until
from tests.system.provider import Provider, providing
from tests.system.test_a2a_front import record

SETTINGS = """
[gateway]
listen = "ssl:{port}:interface=127.0.0.1"
agent = "{demo}"

[mcp.front]
listen = "ssl:{port}:interface=127.0.0.1"
agent = "{demo}"

[policies.oauth]

[[policies.oauth.issuer]]
expected_issuer = "{issuer}"
expected_audience = ["agtphost"]
discovery_url = "{issuer}/.well-known/openid-configuration"
ca = "{ca}"
"""

CLIENT = {"name": "t", "version": "1"}

CALLS: dict[str, tuple[str, str, Any]] = {
    "gateway": ("QUERY", "/daytime", {"hour": 9}),
    "registry": ("POST", "/registry/agents/agent:librarian/query_daytime", {"hour": 9}),
    "mcp": (
        "POST",
        "/mcp",
        {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "initialize",
            "params": {
                "protocolVersion": "2025-11-25",
                "capabilities": {},
                "clientInfo": {"name": "t", "version": "1"},
            },
        },
    ),
}


@pytest.fixture(scope="module")
def provider(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Provider]:
    with providing(tmp_path_factory.mktemp("provider")) as serving:
        yield serving


@pytest.fixture(scope="module")
def registry(provider: Provider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    config, port = deploy(tmp_path_factory.mktemp("tokens"))
    demo = json.loads((config.parent / "state" / "agents" / "demo" / "document.json").read_text())["agent_id"]
    settings = SETTINGS.format(port=port, issuer=provider.issuer, ca=provider.ca, demo=demo)
    text = config.read_text().replace("[registry]\n", f'[registry]\nagent = "{demo}"\n')
    config.write_text(text + settings)
    with running(config) as host:
        until(lambda: "the registry is served" in host.output and "keys of" in host.output)
        yield Registry(host, port)


def asked(registry: Registry, surface: str, token: str) -> Reply:
    method, target, body = CALLS[surface]
    accept = "application/json, text/event-stream" if surface == "mcp" else "application/json"
    return registry.ask(method, "", body, token=token, raw=target, Accept=accept)


def by_mcp(registry: Registry, token: str) -> tuple[Any, str]:
    """A tool called by the official SDK: what it says, and its Audit-ID."""
    context = ssl.create_default_context(cafile=registry.ca)

    async def work() -> tuple[Any, str]:
        async with (
            asyncio.timeout(30),
            httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}, verify=context) as http,
            Client(streamable_http_client(f"https://localhost:{registry.port}/mcp", http_client=http)) as client,
        ):
            answer = await client.call_tool("query_daytime", {"hour": 9})
            return answer.structured_content, (answer.meta or {})["agtp/audit-id"]

    return asyncio.run(work())


def test_one_token_calls_through_every_surface(registry: Registry, provider: Provider) -> None:
    """The same answer, and each record says in whose name and on whose behalf."""
    token = provider.token(sub="alice@example.com")
    told = {"mcp": by_mcp(registry, token)}
    for surface in ("gateway", "registry"):
        reply = asked(registry, surface, token)
        assert reply.status == 200, reply.value
        told[surface] = (reply.value, reply.fields["audit-id"])
    callers = set()
    for surface, (value, audit_id) in told.items():
        assert value == {"part": "day"} or value["result"] == {"part": "day"}, surface
        said = record(registry.host, audit_id)
        assert said["acting_principal_id"] == "alice@example.com", surface
        assert said["identity_assurance"] == "gateway", surface
        callers.add(said["caller_id"])
    assert len(callers) == 1
    for file in registry.host.state.rglob("*.db*"):
        assert token.encode() not in file.read_bytes(), file


def test_what_is_no_token_of_the_provider_is_401_everywhere(registry: Registry, provider: Provider) -> None:
    """Expired, for somebody else, of a provider that nobody named, altered: refused, and told how to show one."""
    stranger = provider.token(iss="https://elsewhere.example.com")
    bad = {
        "expired": provider.token(exp=1),
        "another audience": provider.token(aud="another"),
        "another issuer": stranger,
        "altered": provider.token()[:-8] + "AAAAAAAA",
    }
    for surface in CALLS:
        for what, token in bad.items():
            reply = asked(registry, surface, token)
            assert reply.status == 401, (surface, what, reply.status, reply.body)
            assert reply.fields["www-authenticate"].startswith("Bearer"), (surface, what, reply.fields)


@pytest.mark.parametrize("surface", CALLS)
def test_why_a_token_is_refused_is_said_as_over_agtp(registry: Registry, provider: Provider, surface: str) -> None:
    """One sentence, and at the gateway and the front the finer reason, ``oauth-expired``, in ``detail``."""
    reply = asked(registry, surface, provider.token(exp=1))
    assert reply.status == 401
    text = json.dumps(reply.value)
    assert "The token has expired." in text and ".." not in text
    if surface != "registry":
        members = reply.value["error"]["data"]["agtp"] if surface == "mcp" else reply.value
        assert (members["reason"], members["detail"]) == ("oauth-invalid", "oauth-expired")
