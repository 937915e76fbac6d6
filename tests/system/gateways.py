"""A host with an HTTP gateway for tests, and plain requests to it."""

from __future__ import annotations

import http.client
import json
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.system.hosting import free_port, sample

TOKEN = "gateway-tests-" + "0123456789abcdef" * 2

SETTINGS = """
[gateway]
listen = "{kind}:{port}:interface=127.0.0.1"
forward = ["accept-language"]
{more}

[[http.client]]
name = "tests"
token = "file:gateway.token"
agent = "demo"
"""


@dataclass(frozen=True)
class Reply:
    """What a gateway answered."""

    status: int
    fields: Mapping[str, str]
    """By name as sent."""

    body: bytes

    @property
    def value(self) -> Any:
        """The body, decoded."""
        return json.loads(self.body)


def with_gateway(
    folder: Path, *, kind: str = "tcp", more: str = "", append: str = "", **given: Any
) -> tuple[Path, int]:
    """A copy of the sample host with a gateway; its ``host.toml``, and the gateway's port."""
    port = free_port()
    config = sample(folder, append=SETTINGS.format(kind=kind, port=port, more=more) + append, **given)
    token = config.parent / "gateway.token"
    token.write_text(TOKEN)
    token.chmod(0o600)
    return config, port


def ask(
    port: int,
    method: str,
    target: str,
    value: Any = None,
    *,
    token: str | None = TOKEN,
    context: ssl.SSLContext | None = None,
    **fields: str,
) -> Reply:
    """
    One request over a connection of its own.

    :param value: the body, as JSON; octets are sent as they are.
    :param fields: ``Task_ID="t"`` is ``Task-ID: t``.
    """
    body = value if value is None or isinstance(value, bytes) else json.dumps(value).encode()
    said = {name.replace("_", "-"): text for name, text in fields.items()}
    if body is not None:
        said.setdefault("Content-Type", "application/json")
    if token is not None:
        said["Authorization"] = f"Bearer {token}"
    connection = (
        http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        if context is None
        else http.client.HTTPSConnection("127.0.0.1", port, timeout=60, context=context)
    )
    try:
        connection.request(method, target, body, said)
        answer = connection.getresponse()
        return Reply(answer.status, dict(answer.getheaders()), answer.read())
    finally:
        connection.close()
