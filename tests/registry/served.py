"""A running host with a registry over HTTPS, two clients with tokens, and an agent elsewhere that it may call."""

from __future__ import annotations

import http.client
import json
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cryptography.x509.oid import ExtendedKeyUsageOID

from agtphost.identity.provisioning import provision_development
from tests.protocols.authorities import Identity, issue
from tests.registry.draft_client import DraftClient
from tests.registry.draft_registry import KEY
from tests.system.a2a_sides import fingerprint
from tests.system.hosting import Host, free_port, sample

TOKEN = "demo-" + "0123456789abcdef" * 2
NARROW = "narrow-" + "0123456789abcdef" * 2
"""Of a client that calls as the same agent, and is given one scope of it."""

SETTINGS = """
[[http.client]]
name = "demo"
token = "file:demo.token"
agent = "demo"

[[http.client]]
name = "narrow"
token = "file:narrow.token"
agent = "demo"
scopes = ["documents:query"]

[audit]
operators = ["{operator}"]

[registry]
listen = "ssl:{port}:interface=127.0.0.1"
path = "/registry"
{more}
"""

PROVIDER = """
[[registry.provider]]
origin = "{origin}"
headers = {{ authorization = "file:provider.key" }}
ca = "provider-ca.pem"
allow_addresses = ["127.0.0.0/8"]
timeout = 5
"""

OPEN = """
method = "QUERY"
path = "/daytime"
description = "Tells anybody what time of day it is, roughly."
namespace = "samples"
errors = ["asleep"]
min_assurance = "none"

[handler]
type = "registered_function"
function = "handlers.day.part"

[semantic]
intent = "Know what part of the day it is."
actor = "agent"
outcome = "The caller knows it."
capability = "discovery"
confidence = 1.0
impact = "informational"
is_idempotent = true

[input_schema]
type = "object"
additionalProperties = false
properties = { hour = { type = "integer", minimum = 0, maximum = 23 }, steps = { type = "integer" } }
required = ["hour"]

[output_schema]
type = "object"
additionalProperties = false
required = ["part"]
properties = { part = { type = "string", minLength = 3 } }
"""

DAY = """
from agtphost import EndpointError


async def part(ctx):
    for step in range(ctx.input.get("steps", 0)):
        await ctx.emit({"step": step})
    hour = ctx.input["hour"]
    if hour == 3:
        raise EndpointError("asleep", {"until": 7})
    if hour == 4:
        raise RuntimeError("secret of the operator")
    return {"part": "" if hour == 5 else "day" if 6 <= hour < 18 else "night"}
"""


@dataclass(frozen=True)
class Reply:
    """What was answered."""

    status: int
    fields: Mapping[str, str]
    body: bytes

    @property
    def value(self) -> Any:
        """The body, decoded."""
        return json.loads(self.body)

    @property
    def code(self) -> str:
        """Of the error object."""
        code: str = self.value["error"]["code"]
        return code


FRONTED = """
[a2a.front]
listen = "ssl:{port}:interface=127.0.0.1"

[[a2a.front.agent]]
name = "librarian"
method = "ECHO"
path = "/text"
"""


def deploy(
    folder: Path, *, origin: str = "", provider: Identity | None = None, more: str = "", fronted: bool = False
) -> tuple[Path, int]:
    """
    The sample host; its ``host.toml``, and the registry's port.

    :param fronted: whether an A2A front shares the listener.
    """
    port = free_port()
    edit = ("timeout = 30\n", 'timeout = 30\nmin_assurance = "gateway"\n')
    config = sample(folder, edit=[edit], eager=True)
    home = config.parent
    provision_development(home / "state", server_id="localhost", hosted=[home / "agents" / "librarian.agent.json"])
    settings = SETTINGS.format(operator=fingerprint(home / "state" / "registrar.pem"), port=port, more=more)
    if provider is not None:
        (home / "provider-ca.pem").write_bytes(provider.pem())
        settings += PROVIDER.format(origin=origin)
    if fronted:
        settings += FRONTED.format(port=port)
    config.write_text(config.read_text() + settings)
    for name, text in (("demo.token", TOKEN), ("narrow.token", NARROW), ("provider.key", f"Bearer {KEY}")):
        (home / name).touch(mode=0o600)
        (home / name).write_text(text)
    (home / "handlers" / "day.py").write_text(DAY)
    (home / "endpoints" / "open.toml").write_text(OPEN)
    library = home / "endpoints" / "library.toml"
    library.write_text('min_assurance = "gateway"\n' + library.read_text())
    return config, port


def provider_tls(folder: Path) -> tuple[Identity, ssl.SSLContext]:
    """An authority, and the server's side of TLS under it."""
    root = issue(name="provider root", authority=True)
    identity = issue(root, name="localhost", usage=ExtendedKeyUsageOID.SERVER_AUTH)
    for name, octets in (("server.pem", identity.pem()), ("server.key", identity.key_pem())):
        (folder / name).write_bytes(octets)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "server.pem", folder / "server.key")
    return root, context


class Registry:
    """The registry of a running host, asked in plain HTTP."""

    def __init__(self, host: Host, port: int) -> None:
        self.host, self.port = host, port
        self.url = f"https://localhost:{port}/registry"
        self.ca = str(host.state / "ca.pem")

    def client(self, token: str = TOKEN) -> DraftClient:
        """The draft's own client."""
        return DraftClient(self.url, token, self.ca)

    def ask(
        self,
        method: str,
        path: str,
        value: Any = None,
        *,
        token: str | None = TOKEN,
        cert: Path | None = None,
        raw: str = "",
        **fields: str,
    ) -> Reply:
        """
        One request over a connection of its own.

        :param value: octets as they are, everything else as JSON.
        :param cert: a client certificate, with its key beside it.
        :param raw: the whole target, in place of the path.
        """
        context = ssl.create_default_context(cafile=self.ca)
        if cert is not None:
            context.load_cert_chain(cert, cert.with_suffix(".key"))
        connection = http.client.HTTPSConnection("localhost", self.port, timeout=30, context=context)
        headers = {name.replace("_", "-"): text for name, text in fields.items()}
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        body = value if isinstance(value, bytes) or value is None else json.dumps(value).encode()
        if body is not None:
            headers.setdefault("Content-Type", "application/json")
        connection.request(method, raw or f"/registry{path}", body, headers)
        answer = connection.getresponse()
        read = answer.read()
        connection.close()
        return Reply(answer.status, {name.lower(): text for name, text in answer.getheaders()}, read)

    def record(self, audit_id: str) -> Any:
        """A record, as the host shows it to whoever oversees."""
        return self.host.agtp_json("audit", "show", audit_id)
