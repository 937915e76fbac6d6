"""
Every document that a host publishes, on each of its listeners, for a stranger and for an agent, in both profiles.

The manifest, ``agis.json`` and the other well-known documents, the AGIS document, cards of agents, OpenAPI of gateway
and registry, the registry's list of MCP servers, the metadata of the MCP front, the cards of the A2A front: every URL
in them leads somewhere, and every name in them is taken.
"""

from __future__ import annotations

import asyncio
import json
import re
import ssl
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import httpx2
import pytest
from mcp import Client
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client

from agtphost.client.sync import Client as AgtpClient
from tests import forking
from tests.system.bridging import stdio
from tests.system.gateways import TOKEN, Reply, ask
from tests.system.hosting import ETC, Host, agtp, free_port, running, sample
from tests.system.test_published import OPEN, strings

SURFACES = ("gateway", "registry", "front", "a2a", "wellknown")

SECTIONS = """
[agis]
namespace = "shelf"

[gateway]
listen = "{kind}:{gateway}:interface=127.0.0.1"

[registry]
listen = "{kind}:{registry}:interface=127.0.0.1"
{url_of_registry}

[mcp.front]
listen = "{kind}:{front}:interface=127.0.0.1"
{url_of_front}

[a2a.front]
listen = "{kind}:{a2a}:interface=127.0.0.1"

[[a2a.front.agent]]
name = "{agent}"
method = "ECHO"
path = "/text"

[wellknown]
listen = "ssl:{wellknown}:interface=127.0.0.1"
domain = "localhost"

[[http.client]]
name = "tests"
token = "file:gateway.token"
agent = "{caller}"
"""

PRODUCTION_POLICIES = """
[policies]
agent_disclosure = "public"
"""

_URL = re.compile(r"\b(?:https?|agtp)://[^\s\"'<>{}|\\^`]+")
# The name of an A2A extension: what the identity in a card means, and no address.
_IDENTIFIERS = frozenset({"agtp://docs/extensions/a2a/identity"})
_FOREIGN = ("json-schema.org", "rfc-editor.org", "www.w3.org", "modelcontextprotocol.io", "registrar.localhost")
"""Hosts of identifiers that name something elsewhere, and their subdomains."""

NOT_THERE = ("method-violation", "endpoint-violation", "method-not-allowed", "not-found", "not-implemented")
PLACEHOLDERS = {"name": "librarian", "isbn": "9780141439518", "server": "files"}


@dataclass
class Site:
    """A host and where its surfaces are."""

    host: Host
    kind: str
    ports: dict[str, int]
    agent: str
    """The hosted agent that is exposed."""

    caller: str
    """The agent that the token stands for."""

    trust: Path
    context: ssl.SSLContext = field(init=False)

    def __post_init__(self) -> None:
        self.context = ssl.create_default_context(cafile=str(self.trust))

    def read(self, surface: str, path: str, token: str | None, method: str = "GET", value: Any = None) -> Reply:
        """One request to a surface."""
        secure = self.kind == "ssl" or surface == "wellknown"
        port = self.ports[surface]
        return ask(port, method, path, value, token=token, context=self.context if secure else None)

    def credentials(self) -> tuple[Path, Path]:
        folder = self.host.state / "agents" / self.caller
        return folder / "agent.pem", folder / "agent.key"


def site_of(folder: Path, profile: str) -> Iterator[Site]:
    """Start a host of a profile with all its surfaces."""
    ports = {name: free_port() for name in SURFACES}
    if profile == "sample":
        config, kind, agent, caller = sample(folder, edit=[OPEN], eager=True), "tcp", "librarian", "demo"
        urls = {"url_of_registry": "", "url_of_front": ""}
        policies = ""
    else:
        config, kind, agent, caller = _production(folder), "ssl", "assistant", "reader"
        urls = {
            "url_of_registry": f'url = "https://localhost:{ports["registry"]}"',
            "url_of_front": f'url = "https://localhost:{ports["front"]}"',
        }
        policies = PRODUCTION_POLICIES
    sections = SECTIONS.format(kind=kind, agent=agent, caller=caller, **ports, **urls)
    config.write_text(config.read_text() + policies + sections)
    token = config.parent / "gateway.token"
    token.write_text(TOKEN)
    token.chmod(0o600)
    with running(config) as host:
        yield Site(host, kind, ports, agent, caller, host.state / "ca.pem")


def _production(folder: Path) -> Path:
    """A production host as ``agtp init`` makes it, with the sample's endpoints and MCP server."""
    place = folder / "site"
    server = forking.mcp_server(ETC / "mcp" / "files_server.py")
    words = ("--production", "--server-id", "localhost", "--port", str(free_port()))
    done = agtp("init", str(place), *words)
    assert done.returncode == 0, done.stderr
    for name in ("text.toml", "library.toml"):
        text = (ETC / "endpoints" / name).read_text()
        (place / "endpoints" / name).write_text(re.sub(r"^data_classes = .*\n", "", text, flags=re.MULTILINE))
    (place / "handlers").mkdir(exist_ok=True)
    for name in ("text.py", "library.py"):
        (place / "handlers" / name).write_text((ETC / "handlers" / name).read_text())
    config = place / "host.toml"
    command = json.dumps([*server, str(ETC / "mcp" / "files")])
    config.write_text(
        f'{config.read_text()}\n[[mcp.server]]\nname = "files"\ncommand = {command}\nmin_assurance = "gateway"\n'
    )
    done = agtp("agent", "new", "reader", "--scope", "*:*", "--owner", "owner", cwd=place)
    assert done.returncode == 0, done.stderr
    return config


@pytest.fixture(scope="module", params=["sample", "production"])
def site(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    yield from site_of(tmp_path_factory.mktemp(request.param), request.param)


WELL_KNOWN = {
    "gateway": ("agis.json", "api-catalog", "agent-card.json"),
    "registry": ("agent-card.json",),
    "front": ("oauth-protected-resource", "oauth-protected-resource/mcp"),
    "a2a": ("agent-card.json",),
    "wellknown": ("agtp", "agis.json"),
}
FOR_AGENTS = {"gateway": ("/.well-known/openapi.json", "/.well-known/openapi", "/agents")}
"""What is answered 401 without a credential."""


def documents(site: Site, token: str | None) -> dict[str, bytes]:
    """Return every document that a reader is given, by where it is; each is 200."""
    found: dict[str, bytes] = {}

    def keep(surface: str, path: str) -> Any:
        reply = site.read(surface, path, token)
        assert reply.status == 200, (surface, path, reply.status, reply.body[:300])
        found[f"{surface} {path}"] = reply.body
        return reply.value if reply.body[:1] in b"{[" else None

    for surface, names in WELL_KNOWN.items():
        for name in names:
            keep(surface, f"/.well-known/{name}")
    keep("a2a", f"/agents/{site.agent}/.well-known/agent-card.json")
    for path in ("/agents/public", "/openapi.json", "/agents"):
        listed = keep("registry", path)
        for each in listed.get("agents", ()):
            keep("registry", f"/agents/{quote(each['id'], safe='')}")
    for each in keep("registry", "/v0.1/servers")["servers"]:
        name = quote(each["server"]["name"], safe="")
        for rest in ("", "/latest", f"/{each['server']['version']}"):
            keep("registry", f"/v0.1/servers/{name}/versions{rest}")
    for surface, paths in FOR_AGENTS.items():
        for path in (*paths, f"/agents/{site.agent}") if token else ():
            keep(surface, path)
    who, named = ("--as", site.caller) if token else ("--no-cert",), f"agtp://localhost:{site.host.port}"
    for name, words in {
        "manifest": ("manifest", "show", site.host.uri, "--document"),
        "namespace": ("resolve", f"{named}/agents"),
        "agent": ("resolve", f"{named}/agents/{site.agent}"),
        "AGIS document": ("call", site.host.uri, "DESCRIBE", "/", "format=agis"),
        "endpoints": ("call", site.host.uri, "DISCOVER", "/methods"),
        "apis": ("call", site.host.uri, "DISCOVER", "/apis"),
    }.items():
        done = site.host.agtp(*words, *who, *(() if name == "manifest" else ("--json",)))
        assert done.returncode == 0, (name, done.stdout, done.stderr)
        found[name] = done.stdout.encode()
    return found


def urls_in(body: bytes) -> set[str]:
    """Return every URL in a document that does not name something elsewhere."""
    try:
        texts = list(strings(json.loads(body)))
    except ValueError:
        texts = [body.decode()]
    found = {url.rstrip(".,;)") for text in texts for url in _URL.findall(text)}
    return {url for url in found - _IDENTIFIERS if not (urlsplit(url).hostname or "").endswith(_FOREIGN)}


READERS = pytest.mark.parametrize("token", [None, TOKEN], ids=["stranger", "agent"])


@READERS
def test_every_url_of_every_document_leads_somewhere(site: Site, token: str | None) -> None:
    """None is 404, 421 or 5xx, and none is refused for its method alone by every verb."""
    found = {url: name for name, body in documents(site, token).items() for url in urls_in(body)}
    assert len(found) > 8, found
    who = ("--as", site.caller) if token else ("--no-cert",)
    astray = []
    for url, name in sorted(found.items()):
        parts = urlsplit(url)
        if parts.scheme == "agtp":
            done = site.host.agtp("resolve", url, *who)
            if done.returncode:
                astray.append((name, url, done.stderr[-200:]))
            continue
        context = site.context if parts.scheme == "https" else None
        replies = [
            ask(parts.port or 0, verb, parts.path or "/", value, token=token, context=context)
            for verb, value in (("GET", None), ("POST", {}))
        ]
        # The address of all that is below it is called by methods of AGTP, and says by which.
        if b"allowed_methods_for_path" in replies[0].body and parts.path in ("", "/"):
            continue
        if all(reply.status in (404, 405, 421) or reply.status >= 500 for reply in replies):
            astray.append((name, url, " ".join(f"{reply.status} {reply.body[:100]!r}" for reply in replies)))
    assert astray == [], json.dumps(astray, indent=1)


def filled(path: str) -> str:
    return re.sub(r"{(\w+)}", lambda found: PLACEHOLDERS.get(found[1], "x"), path)


def test_every_endpoint_of_manifest_and_agis_document_is_there(site: Site) -> None:
    """A method on a path that a document lists answers something else than that it is not there."""
    found = documents(site, TOKEN)
    manifest, agis = json.loads(found["manifest"]), json.loads(found["AGIS document"])
    manifest, agis = manifest.get("body", manifest), agis.get("body", agis)
    listed = {(each["method"], each["path"]) for each in manifest["endpoints"]}
    described = {(each["method"], each["path"]) for each in agis["endpoints"]}
    assert listed and described
    cert, key = site.credentials()
    with AgtpClient(trust=site.trust, cert=cert, key=key) as client:
        for method, path in sorted(listed | described):
            body = client.call(site.host.uri, method, filled(path), {}).json()
            reason = body.get("reason", "") if isinstance(body, dict) else ""
            assert reason not in NOT_THERE, (method, path, reason)


def test_every_operation_of_a_card_is_called_by_its_name(site: Site) -> None:
    """``POST /agents/ID/OPERATION`` of the registry: an input that does not fit is 422, and nothing is 404."""
    for listed in site.read("registry", "/agents", TOKEN).value["agents"]:
        home = f"/agents/{quote(listed['id'], safe='')}"
        card = site.read("registry", home, TOKEN).value
        assert card["operations"], home
        for operation in card["operations"]:
            path = f"{home}/{quote(operation['name'], safe='')}"
            reply = site.read("registry", path, TOKEN, "POST", {})
            assert reply.status in (200, 202, 400, 422), (path, reply.status, reply.body)


def test_every_tool_of_the_front_is_known_there(site: Site) -> None:
    """Each name that ``tools/list`` has is called: by the URLs of ``agis.json`` and of each listed server."""
    summary = site.read("wellknown", "/.well-known/agis.json", None).value
    assert summary == site.read("gateway", "/.well-known/agis.json", None).value
    entries = site.read("registry", "/v0.1/servers", TOKEN).value["servers"]
    remotes = [remote["url"] for each in entries for remote in each["server"]["remotes"]]
    assert remotes == [f"{summary['mcp_tools_list']}/files"]

    async def called(url: str) -> dict[str, str]:
        found = {}
        async with (
            httpx2.AsyncClient(
                headers={"Authorization": f"Bearer {TOKEN}"},
                timeout=60,
                verify=site.context if site.kind == "ssl" else True,
            ) as http,
            Client(streamable_http_client(url, http_client=http)) as client,
        ):
            for tool in (await client.list_tools()).tools:
                result = await client.call_tool(tool.name, {})
                found[tool.name] = str(result.content)
        return found

    for url in (summary["mcp_tools_list"], *remotes):
        answers = asyncio.run(called(url))
        assert len(answers) >= 2, (url, answers)
        assert not any("unknown" in text.lower() for text in answers.values()), (url, answers)


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Host, int, int]]:
    """A host that tells strangers nothing and has no MCP front; the ports of its registry and gateway."""
    registry, gateway = free_port(), free_port()
    silent = ('agent_disclosure = "public"\n', 'agent_disclosure = "public"\nanonymous_discovery = false\n')
    config = sample(tmp_path_factory.mktemp("closed"), edit=[OPEN, silent], eager=True)
    token = config.parent / "gateway.token"
    token.write_text(TOKEN)
    token.chmod(0o600)
    listening = "".join(
        f'\n[{name}]\nlisten = "tcp:{port}:interface=127.0.0.1"\n'
        for name, port in (("registry", registry), ("gateway", gateway))
    )
    client = '\n[[http.client]]\nname = "tests"\ntoken = "file:gateway.token"\nagent = "demo"\n'
    config.write_text(config.read_text() + listening + client)
    with running(config) as host:
        yield host, registry, gateway


@READERS
def test_a_host_that_tells_strangers_nothing_links_to_nothing_else(
    closed: tuple[Host, int, int], token: str | None
) -> None:
    """The catalog of APIs has no link to ``agis.json``, which is 404 with ``anonymous_discovery = false``."""
    _, _, gateway = closed
    found = urls_in(ask(gateway, "GET", "/.well-known/api-catalog", token=token).body)
    paths = {urlsplit(url).path for url in found if urlsplit(url).port == gateway} - {"", "/"}
    assert "/.well-known/openapi.json" in paths
    statuses = {path: ask(gateway, "GET", path, token=token).status for path in paths}
    assert set(statuses.values()) <= ({200} if token else {200, 401}), statuses


def test_the_listed_bridge_reaches_the_host(closed: tuple[Host, int, int]) -> None:
    """Without an MCP front a server's entry has the command of the bridge: its arguments find the host on its port."""
    host, registry, _ = closed
    (entry,) = ask(registry, "GET", "/v0.1/servers", token=TOKEN).value["servers"]
    (package,) = entry["server"]["packages"]
    words = [
        f"{each['name']}={each['value']}" if "name" in each else each["value"] for each in package["packageArguments"]
    ]
    assert words[:2] == ["mcp-bridge", f"agtp://localhost:{host.port}"]
    folder = host.state / "agents" / "demo"
    proof = ("--cacert", host.state / "ca.pem", "--cert", folder / "agent.pem", "--key", folder / "agent.key")

    async def listed() -> list[str]:
        async with Client(stdio_client(stdio(host, *words[1:], *map(str, proof)))) as client:
            return [tool.name for tool in (await client.list_tools()).tools]

    assert any("list_files" in name for name in asyncio.run(listed()))
