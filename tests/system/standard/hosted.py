"""The host that the standard methods are tried on, and who calls it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agtphost.client import Reply
from agtphost.client.sync import Client
from agtphost.client.sync import Host as Bound
from agtphost.identity.provisioning import provision_development
from tests.system.hosting import Host, agtp, sample

AGENTS: Mapping[str, tuple[str, ...]] = {
    "analyst": (
        "authorization:grant",
        "activation:run",
        "payments:purchase",
        "contracts:*",
        "inventory:*",
        "knowledge:*",
    ),
    "archivist": ("contracts:*",),
    "stranger": ("weather:read",),
}
"""Agents that call, with their scopes: one who may do anything, one who may do something, one who may do nothing."""


FILES: Mapping[str, str] = {
    "endpoints/stock.toml": """\
method = "QUERY"
path = "/stock"
description = "The rooms that a remote system knows."
errors = []
handler = { type = "registered_function", function = "handlers.stock.rooms" }
semantic = { intent = "Read what the remote system has.", actor = "agent", outcome = "The rooms are known.", \
capability = "retrieval", confidence = 1.0, impact = "informational", is_idempotent = true }
input_schema = { type = "object", additionalProperties = false, properties = {} }
output_schema = { type = "object" }
""",
    "endpoints/email.toml": """\
method = "NOTIFY"
path = "/providers/email"
description = "Hands a message to the mail server."
errors = []
handler = { type = "registered_function", function = "handlers.mail.queued" }
semantic = { intent = "Have a message mailed.", actor = "agent", outcome = "The message is queued.", \
capability = "notification", confidence = 1.0, impact = "irreversible", is_idempotent = false }
input_schema = { type = "object", additionalProperties = false, required = ["recipient", "channel", "content"], \
properties = { recipient = { type = "string" }, channel = { type = "string" }, content = {}, \
template_id = { type = "string" } } }
output_schema = { type = "object" }
""",
    "handlers/mail.py": """\
def queued(context):
    return {"queued_for": context.input["recipient"]}
""",
    "handlers/stock.py": """\
def rooms(context):
    return {"items": [{"id": "blue", "data": {"seats": 8}}, {"id": "red", "data": {"seats": 12}}]}
""",
}
"""What the host answers with besides: each family of methods adds its files."""


RECIPES = """
[[recipe]]
name = "repeat"
version = "1"
description = "Says once more what it is given."
output = { said = "=echo.text" }

[[recipe.step]]
method = "ECHO"
path = "/text"
input = { text = "=input.text" }
capture = "echo"
"""
"""What RUN finds besides the sample's own."""


class Standard:
    """
    A running host with ``standard = "*"``, and clients of it.

    :param folder: an empty directory.
    :param procedures: that RUN knows besides those of ``host.toml``.
    """

    def __init__(self, folder: Path, procedures: Mapping[str, str] | None = None) -> None:
        text = (Path(__file__).parent / "host.toml").read_text(encoding="utf-8")
        lines = "".join(f'{name} = "{recipe}"\n' for name, recipe in (procedures or {}).items())
        self.config = sample(folder, append=text.replace("[methods.procedures]\n", f"[methods.procedures]\n{lines}"))
        folder = self.config.parent
        for file, text in FILES.items():
            (folder / file).write_text(text, encoding="utf-8")
        with (folder / "recipes.toml").open("a", encoding="utf-8") as recipes:
            recipes.write(RECIPES)
        provision_development(
            folder / "state", server_id="localhost", hosted=[folder / "agents" / "librarian.agent.json"]
        )
        for name, scopes in AGENTS.items():
            words = [word for scope in scopes for word in ("--scope", scope)]
            made = agtp("agent", "new", name, *words, cwd=folder)
            assert made.returncode == 0, made.stderr
        self.host = Host(self.config)
        self._clients: dict[str, Bound] = {}

    def client(self, name: str = "analyst") -> Bound:
        """Whom calls are made as, over a connection that is kept."""
        found = self._clients.get(name)
        if found is None:
            found = self._clients[name] = Client.of(self.config, as_=name)
        return found

    def ask(self, method: str, input: Mapping[str, Any], *, by: str = "analyst", path: str = "/", **more: Any) -> Reply:
        """One call; its answer, whatever it is."""
        return self.client(by).call(method, path, input, **more)

    def result(self, method: str, input: Mapping[str, Any], **more: Any) -> Any:
        """The result of a call, which has to succeed."""
        reply = self.ask(method, input, **more)
        assert 200 <= reply.status < 300 and reply.status != 262, reply.body
        return reply.result

    def restart(self) -> None:
        """SIGKILL, and up again with the same state."""
        self.close(stop=False)
        self.host.kill()
        self.host = Host(self.config).wait()

    def close(self, *, stop: bool = True) -> None:
        """Let go of all connections, and of the host."""
        for client in self._clients.values():
            client.client.close()
        self._clients.clear()
        if stop:
            self.host.stop()
