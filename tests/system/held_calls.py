"""A host whose operator approves some of its calls, and what its people and agents do there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

from cryptography.hazmat.primitives.serialization import Encoding

from agtphost.client.reply import Reply
from agtphost.client.sync import Client
from agtphost.identity.certificates import load_certificate, parse_peer_certificate
from agtphost.identity.provisioning import provision_development
from tests.system.hosting import Host, agtp, sample

TOOLS = "application/vnd.mcp.tools+json"
TOOL = "files.delete_note"

SETTINGS = """
[mcp.server.tools.delete_note]
approval = "required"

[approvals]
{policy}

[audit]
operators = [{operators}]
"""


def fingerprint(certificate: Path) -> str:
    """Of the key of a client certificate, as ``[audit] operators`` names it."""
    return parse_peer_certificate(load_certificate(certificate).public_bytes(Encoding.DER)).fingerprint


def held_sample(
    folder: Path,
    *,
    policy: str = "",
    more: str = "",
    operators: tuple[str, ...] = ("registrar",),
    agents: Mapping[str, str] = MappingProxyType({}),
) -> Path:
    """
    The sample host, where deleting a note and ``ECHO /text`` need an approval of its operators.

    :param policy: lines of ``[approvals]``.
    :param more: more TOML.
    :param operators: certificates, below ``state``.
    :param agents: further callers, and the scope of each.
    """
    config = sample(folder)
    state = config.parent / "state"
    provision_development(state, server_id="localhost", hosted=[config.parent / "agents" / "librarian.agent.json"])
    for name, scope in agents.items():
        made = agtp("agent", "new", name, "--scope", scope, cwd=config.parent)
        assert made.returncode == 0, made.stderr
    listed = ", ".join(f'"{fingerprint(state / f"{name}.pem")}"' for name in operators)
    config.write_text(config.read_text() + SETTINGS.format(policy=policy, operators=listed) + more)
    echo = config.parent / "endpoints" / "text.toml"
    echo.write_text(f'approval = "required"\nmin_assurance = "gateway"\n{echo.read_text()}')
    return config


@contextmanager
def caller(host: Host, certificate: str = "agents/demo/agent", **options: Any) -> Iterator[Client]:
    """A client that shows a certificate of the host's state directory."""
    own = host.state / certificate
    given: dict[str, Any] = {"trust": host.state / "ca.pem", "cert": f"{own}.pem", "key": f"{own}.key", **options}
    with Client(**given) as client:
        yield client


@contextmanager
def operator(host: Host) -> Iterator[Client]:
    """A client with the operator's certificate."""
    with caller(host, "registrar") as client:
        yield client


def deletion(name: str, **arguments: Any) -> dict[str, Any]:
    """The EXECUTE that deletes a note."""
    return {
        "action": "mcp.tools.call",
        "payload_type": TOOLS,
        "payload": {"tool": TOOL, "arguments": {"name": name, **arguments}},
    }


def delete(host: Host, client: Client, name: str, **options: Any) -> Reply:
    """Delete a note, or ask for it."""
    return client.call(host.uri, "EXECUTE", "/", deletion(name), **options)


def note(host: Host, name: str) -> Path:
    """A note that is there."""
    file = host.config.parent / "mcp" / "files" / "notes" / f"{name}.txt"
    file.parent.mkdir(exist_ok=True)
    file.write_text("Not to be deleted by anybody's mistake.\n")
    return file


def listed(client: Client, host: Host, **asked: Any) -> list[dict[str, Any]]:
    """Approvals as the host lists them."""
    reply = client.call(host.uri, "QUERY", "/approvals", asked)
    assert reply.ok, reply.body
    found: list[dict[str, Any]] = reply.result["approvals"]
    return found


def decide(client: Client, host: Host, approval_id: str, status: str = "accepted", **more: Any) -> Reply:
    """CONFIRM of an approval."""
    return client.call(host.uri, "CONFIRM", "/", {"target_id": approval_id, "status": status, **more})
