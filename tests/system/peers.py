"""Two hosts that delegate to each other's agents: front, which demo calls, and back, which has the books."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from agtphost.client.sync import Client
from tests.system.hosting import Host, agtp, running, sample

BOOK = {"method": "QUERY", "path": "/library/9780142437230"}
TASK_ID = "task-1"

_HANDING_ON = """
method = "QUERY"
path = "/handed-on"
description = "Has another agent look up the book."
namespace = "library"
errors = []
required_scopes = ["documents:query"]

[handler]
type = "registered_function"
function = "handlers.handing.on"

[semantic]
intent = "Look up a book by way of another agent."
actor = "agent"
outcome = "The caller has what the other agent found."
capability = "discovery"
confidence = 1.0
impact = "informational"
is_idempotent = true

[input_schema]
type = "object"
additionalProperties = false

[input_schema.properties]
seconds = { type = "number" }
hop = { type = "object" }

[output_schema]
type = "object"
additionalProperties = true
"""

_HANDLER = """
from twisted.internet import reactor
from twisted.internet.task import deferLater


async def on(ctx):
    if "seconds" in ctx.input:
        await deferLater(reactor, ctx.input["seconds"], lambda: None)
        return {"waited": ctx.input["seconds"]}
    return await ctx.invoke("DELEGATE", "/", dict(ctx.input["hop"]))
"""


class Pair:
    """The files of both."""

    def __init__(self, folder: Path) -> None:
        self.front = self._made(folder / "front", "front.test", "clerk")
        self.back = self._made(folder / "back", "back.test", "archivist")
        for config in (self.front, self.back):
            (config.parent / "endpoints" / "handing.toml").write_text(_HANDING_ON)
            (config.parent / "handlers" / "handing.py").write_text(_HANDLER)
            with running(config):
                pass
        self._introduce(self.front, self.back, "front", "agents/demo", "hosted/clerk")
        self._introduce(self.back, self.front, "back", "hosted/archivist")
        self._peer(self.front, self.back, "back.test", "archivist")
        self._peer(self.back, self.front, "front.test", "clerk")

    @staticmethod
    def _made(folder: Path, server_id: str, agent: str) -> Path:
        config = sample(folder, edit=[('server_id = "localhost"', f'server_id = "{server_id}"')])
        described = config.parent / "agents" / "librarian.agent.json"
        document = {**json.loads(described.read_text()), "name": agent}
        described.unlink()
        (config.parent / "agents" / f"{agent}.agent.json").write_text(json.dumps(document))
        return config

    @staticmethod
    def _introduce(one: Path, other: Path, prefix: str, *folders: str) -> None:
        """Agents of one become known to the other: their public documents, no key and no certificate."""
        for folder in folders:
            known = other.parent / "state" / "agents" / f"{prefix}-{Path(folder).name}"
            known.mkdir()
            for name in ("genesis.json", "document.json"):
                shutil.copy(one.parent / "state" / folder / name, known / name)

    @staticmethod
    def _peer(config: Path, other: Path, server_id: str, agent: str) -> None:
        """Each is a client of the other, by a certificate of the other's authority."""
        state, theirs = config.parent / "state", other.parent / "state"
        issued = agtp(
            *("cert", "issue", "client", config.parent.parent.name, "--ca", str(theirs / "ca.pem")),
            *("-o", str(state / "peer.pem")),
        )
        assert issued.returncode == 0, issued.stdout + issued.stderr
        port = next(line for line in other.read_text().splitlines() if line.startswith("port")).split()[-1]
        config.write_text(
            config.read_text() + f'\n[[delegation.peers]]\nuri = "agtp://127.0.0.1:{port}"\nserver_id = "{server_id}"\n'
            f'agents = ["{agent_id(other, "hosted/" + agent)}"]\ncert = "state/peer.pem"\nkey = "state/peer.key"\n'
            f'ca = "{theirs / "ca.pem"}"\nsigning_key = "file:{theirs / "signing.pub"}"\n'
        )

    @contextmanager
    def running(self) -> Iterator[tuple[Host, Host]]:
        """Both, ready."""
        with ExitStack() as stack:
            yield stack.enter_context(running(self.front)), stack.enter_context(running(self.back))

    @property
    def demo(self) -> str:
        return agent_id(self.front, "agents/demo")

    @property
    def clerk(self) -> str:
        return agent_id(self.front, "hosted/clerk")

    @property
    def archivist(self) -> str:
        return agent_id(self.back, "hosted/archivist")

    def token(self, to: str, *scope: str, task_id: str = TASK_ID) -> str:
        """A token of demo's, signed by its registrar: whoever knows the Genesis can verify that."""
        state = self.front.parent / "state"
        document = json.loads((state / "agents/demo/document.json").read_text())
        words = [word for token in scope or ("documents:query",) for word in ("--scope", token)]
        done = agtp(
            *("delegation", "issue", "--key", str(state / "registrar.key"), "--issuer", document["issuer"]),
            *("--from", self.demo, "--to", to, "--task-id", task_id, "--json", *words),
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return str(json.loads(done.stdout)["delegation_token"])

    def asked(self, to: str, *scope: str, **more: Any) -> dict[str, Any]:
        """The parameters of a good DELEGATE."""
        return {
            "target_agent_id": to,
            "authority_scope": ", ".join(scope or ("documents:query",)),
            "delegation_token": self.token(to, *scope),
            "task": BOOK,
            **more,
        }


def agent_id(config: Path, folder: str) -> str:
    return str(json.loads((config.parent / "state" / folder / "document.json").read_text())["agent_id"])


def demo(host: Host) -> Client:
    """The caller of a host's own making."""
    folder = host.state / "agents" / "demo"
    return Client(trust=host.state / "ca.pem", cert=folder / "agent.pem", key=folder / "agent.key")
