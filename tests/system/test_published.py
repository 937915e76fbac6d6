"""What is published works as published: every URL and every name of every document is followed."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client

from tests.system.gateways import TOKEN, Reply, ask, with_gateway
from tests.system.hosting import Host, free_port, running

SECTIONS = """
[agis]
namespace = "shelf"

[registry]
listen = "tcp:{registry}:interface=127.0.0.1"

[mcp.front]
listen = "tcp:{front}:interface=127.0.0.1"

[wellknown]
listen = "tcp:{gateway}:interface=127.0.0.1"
domain = "localhost"
"""

OPEN = ("timeout = 30\n", 'timeout = 30\nmin_assurance = "gateway"\n')
DOCUMENTS = (
    *("/.well-known/agtp", "/.well-known/agis.json", "/.well-known/api-catalog", "/.well-known/agent-card.json"),
    *("/.well-known/openapi.json", "/.well-known/openapi", "/agents", "/agents/librarian"),
)
"""Of the gateway's listener."""

FOR_STRANGERS = DOCUMENTS[:4]
_URL = re.compile(r"\b(?:https?|agtp)://[^\s\"'<>{}|\\^`]+")
_FOREIGN = ("json-schema.org", "rfc-editor.org", "www.w3.org", "registrar.localhost")
"""Hosts of identifiers that name something elsewhere."""

Places = tuple[Host, int, int, int]


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Places]:
    """The sample host, and the ports of its gateway, registry and MCP front."""
    registry, front = free_port(), free_port()
    config, gateway = with_gateway(tmp_path_factory.mktemp("published"), eager=True, edit=[OPEN])
    config.write_text(config.read_text() + SECTIONS.format(registry=registry, front=front, gateway=gateway))
    with running(config) as host:
        yield host, gateway, registry, front


def read(port: int, path: str, token: str | None) -> Reply:
    return ask(port, "GET", path, token=token)


def strings(value: Any) -> Iterator[str]:
    """Every text in a document."""
    if isinstance(value, dict):
        for each in value.values():
            yield from strings(each)
    elif isinstance(value, list):
        for each in value:
            yield from strings(each)
    elif isinstance(value, str):
        yield value


def urls(body: bytes) -> set[str]:
    """Every URL in a document that leads to this host."""
    try:
        texts = list(strings(json.loads(body)))
    except ValueError:
        texts = []
    found = {url.rstrip(".,;)") for text in texts for url in _URL.findall(text)}
    return {url for url in found if urlsplit(url).hostname not in _FOREIGN}


def documents(places: Places, token: str | None) -> dict[str, bytes]:
    """What a reader is given, by where it is."""
    host, gateway, registry, front = places
    paths = DOCUMENTS if token else FOR_STRANGERS
    found = {f"gateway {path}": read(gateway, path, token) for path in paths}
    for path in ("/agents", "/agents/public", "/openapi.json", "/.well-known/agent-card.json"):
        found[f"registry {path}"] = read(registry, path, token)
    found["front metadata"] = read(front, "/.well-known/oauth-protected-resource/mcp", token)
    assert {name: reply.status for name, reply in found.items() if reply.status != 200} == {}
    bodies = {name: reply.body for name, reply in found.items()}
    shown = host.agtp("manifest", "show", host.uri, "--json", *(() if token else ("--no-cert",)))
    assert shown.returncode == 0, shown.stderr
    return {**bodies, "manifest": shown.stdout.encode()}


@pytest.mark.parametrize("token", [None, TOKEN], ids=["stranger", "agent"])
def test_every_url_leads_somewhere(places: Places, token: str | None) -> None:
    """As a stranger and as an agent: nothing is 404, 421 or 5xx, and what is over AGTP is resolved."""
    host = places[0]
    found = {url: name for name, body in documents(places, token).items() for url in urls(body)}
    assert len(found) > 8, found
    astray = []
    for url, name in sorted(found.items()):
        parts = urlsplit(url)
        if parts.scheme == "agtp":
            who = () if token else ("--no-cert",)
            done = host.agtp("resolve", url, *who)
            if done.returncode:
                astray.append((name, url, done.stderr[-200:]))
            continue
        reply = ask(parts.port or 80, "GET", parts.path or "/", token=token)
        # A path that is called, and not read, says by which methods.
        if reply.status in (404, 421) or reply.status >= 500:
            astray.append((name, url, f"{reply.status} {reply.body[:120]!r}"))
    assert astray == [], json.dumps(astray, indent=1)


@pytest.mark.parametrize("token", [None, TOKEN], ids=["stranger", "agent"])
def test_names_are_taken_as_they_are_published(places: Places, token: str | None) -> None:
    """The namespace and each method of ``agis.json`` are sent back to the gateway."""
    _, gateway, _, _ = places
    summary = read(gateway, "/.well-known/agis.json", token).value
    assert summary["namespace"] == "shelf" and summary["methods"]
    for method in summary["methods"]:
        fields = {"X_AGIS_Method": method, "X_AGIS_Grammar": "AGIS/1.0", "X_AGIS_Namespace": summary["namespace"]}
        reply = ask(gateway, "POST", "/text", {"text": "x"}, token=token, **fields)
        assert reply.value.get("reason") not in ("invalid-header-field", "method-violation"), (method, reply.body)
        assert (reply.status == 401) is (token is None)
    other = ask(gateway, "POST", "/text", {}, X_AGIS_Method="ECHO", X_AGIS_Grammar="AGIS/1.0", X_AGIS_Namespace="other")
    assert (other.status, other.value["reason"]) == (400, "invalid-header-field")
    assert "shelf" in other.value["explanation"], "it says which there are"


def test_the_public_agent_is_listed_and_found_by_strangers(places: Places) -> None:
    """HAIDIP-051: ``GET /agents`` has it, its card is the well-known one, and a stranger may call nothing of it."""
    _, gateway, registry, _ = places
    for path in ("/agents", "/agents/public"):
        listed = read(registry, path, None).value
        assert [each["id"] for each in listed["agents"]] == ["agent:librarian"], path
    cards = [read(port, "/.well-known/agent-card.json", None) for port in (gateway, registry)]
    assert [card.status for card in cards] == [200, 200]
    assert cards[0].value == cards[1].value == read(registry, "/agents/agent:librarian", None).value
    assert cards[0].value["operations"] == [] and cards[0].fields["Audit-ID"]
    mine = read(gateway, "/.well-known/agent-card.json", TOKEN).value
    assert {each["name"] for each in mine["operations"]} > {"echo_text"}
    assert read(gateway, "/.well-known/agent-card.json", "a-token-of-nobody-" + "0" * 32).status == 401


def test_an_mcp_client_lists_the_tools_where_the_summary_says(places: Places) -> None:
    """AGIS-078: with the official client, and that URL."""
    _, gateway, _, _ = places
    url = read(gateway, "/.well-known/agis.json", None).value["mcp_tools_list"]

    async def listed() -> list[str]:
        async with (
            httpx.AsyncClient(headers={"Authorization": f"Bearer {TOKEN}"}, timeout=60) as client,
            streamable_http_client(url, http_client=client) as streams,
            ClientSession(streams[0], streams[1]) as session,
        ):
            await session.initialize()
            return [tool.name for tool in (await session.list_tools()).tools]

    assert "files__list_files" in asyncio.run(listed())


def test_every_operation_of_the_document_is_there(places: Places) -> None:
    """Each path of OpenAPI is answered by something else than that nothing is there."""
    _, gateway, _, _ = places
    document = read(gateway, "/.well-known/openapi.json", TOKEN).value
    for path, item in document["paths"].items():
        for verb, operation in item.items():
            named = {each["name"]: each["schema"].get("default", "") for each in operation.get("parameters", ())}
            fields = {name.replace("-", "_"): value for name, value in named.items() if name.startswith("X-")}
            where = path.replace("{name}", "librarian").replace("{isbn}", "9780141439518")
            body = {} if verb not in ("get", "delete") else None
            reply = ask(gateway, verb.upper(), where, body, **fields)
            assert reply.status in (200, 202, 422), (verb, path, reply.body)
