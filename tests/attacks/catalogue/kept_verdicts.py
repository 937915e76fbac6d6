"""
Verdicts that gates keep of a connection and its head: what changes counts for the next request of the same octets.

Each change has an agent of its own. All of them call on open connections, by every surface, until what the gates keep
is reused: :mod:`agtphost.dispatch.gate_cache`. Then something changes, and the same request is sent once more.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import ssl
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Protocol

from tests.attacks.attack import Attack, Target
from tests.attacks.site import amend
from tests.system.hosting import agtp, free_port
from tests.system.raw_link import RawLink, client_context

PLACE = "kept"
"""Directory beside ``host.toml`` with the clients' tokens and the ports of the surfaces."""

SOURCE = "127.0.3.1"
ALIKE = 5
"""Requests of one head after which the gates reuse what they keep; at a front that is so from the fourth on."""

SOON = 2.0
"""Seconds for which a grant lasts, and for which an approved call may be made."""

HELD = "waits until a person approves"
"""In the answer to a call that a person has not approved, at every surface."""

ENDPOINT = """
min_assurance = "gateway"
method = "{method}"
path = "/{path}"
description = "Returns the given text."
namespace = "samples"
errors = []
required_scopes = ["{scope}"]
{more}
[handler]
type = "registered_function"
function = "handlers.text.echo"
[semantic]
intent = "Send a text back as it arrived."
actor = "agent"
outcome = "The caller has seen that its text arrived unchanged."
capability = "notification"
confidence = 1.0
impact = "informational"
is_idempotent = true
[input_schema]
type = "object"
additionalProperties = false
required = ["text"]
[input_schema.properties]
text = {{ type = "string", maxLength = 2000 }}
[output_schema]
type = "object"
additionalProperties = true
"""

SCOPE = "kept:call"

Call = tuple[str, str]
"""Method and path; for a tool of the server ``files``, an empty method and the tool's name."""

DESK, TOOL = ("ECHO", "desk"), ("", "list_files")
GONE, NARROWED, BARRED, ASKED = ("ECHO", "gone"), ("ECHO", "narrow"), ("RESERVE", "desk"), ("ECHO", "asked")

LIVE = ("suspended", "revoked", "limited", "restated", "expiring")
"""Agents whose rights change without a reload."""

CALLS: Mapping[str, Sequence[Call]] = {
    **dict.fromkeys(LIVE, (DESK, TOOL)),
    "certified": (DESK, TOOL),
    "token": (DESK, TOOL),
    "stricter": (GONE, NARROWED, BARRED),
}
"""What each agent calls before and after its change."""


def with_surfaces(folder: Path) -> None:
    """A gateway, a front, agents with certificates and tokens, endpoints, and a list of revoked certificates."""
    place, ports = folder / PLACE, {name: free_port() for name in ("gateway", "front")}
    place.mkdir()
    (place / "ports.json").write_text(json.dumps(ports))
    clients = ""
    for name in (*CALLS, "approved"):
        _succeed(folder, "agent", "new", name, "--scope", SCOPE, "--scope", "mcp:tools:execute", "--owner", name)
        file = place / f"{name}.token"
        file.touch(mode=0o600)
        file.write_text(_token(name))
        clients += f'\n[[http.client]]\nname = "{name}"\ntoken = "file:{PLACE}/{name}.token"\nagent = "{name}"\n'
    for method, path in (DESK, GONE, NARROWED, BARRED, ASKED):
        _declare(folder, (method, path), more='approval = "required"' if (method, path) == ASKED else "")
    amend(folder, "gateway", f'listen = "ssl:{ports["gateway"]}:interface=127.0.0.1"')
    amend(folder, "mcp.front", f'listen = "ssl:{ports["front"]}:interface=127.0.0.1"')
    amend(folder, "approvals", f"use_within = {SOON}")
    amend(folder, "tls", 'client_crl = "crl.pem"')
    config = folder / "host.toml"
    entry = '[[mcp.server]]\nname = "files"\n'
    text = config.read_text().replace(entry, f'{entry}min_assurance = "gateway"\n')
    config.write_text(text + clients)
    _succeed(folder, "cert", "crl", "--ca", "state/ca.pem", "--crl", "crl.pem")


def _declare(folder: Path, call: Call, scope: str = SCOPE, more: str = "") -> None:
    method, path = call
    text = ENDPOINT.format(method=method, path=path, scope=scope, more=more)
    _file(folder, call).write_text(text)


def _file(folder: Path, call: Call) -> Path:
    return folder / "endpoints" / f"kept-{call[0].lower()}-{call[1]}.toml"


def _succeed(folder: Path, *words: str) -> str:
    done = agtp(*words, cwd=folder)
    assert done.returncode == 0, (words, done.stdout + done.stderr)
    return str(done.stdout)


def _token(name: str) -> str:
    return f"token-of-{name}-".ljust(40, "x")


class Surface(Protocol):
    """One open connection of one agent."""

    def call(self, call: Call) -> str:
        """Send the same request as ever; return an empty string for a success, else the refusal."""


class _Agtp:
    def __init__(self, target: Target, agent: str, link: RawLink) -> None:
        self._link = link

    def call(self, call: Call) -> str:
        method, name = call
        if method:
            answer = self._link.ask(method, f"/{name}", {"text": "agtp"})
        else:
            payload = {"tool": f"files.{name}", "arguments": {}}
            given = {"action": "mcp.tools.call", "payload_type": "application/vnd.mcp.tools+json", "payload": payload}
            answer = self._link.ask("EXECUTE", "/", given)
        return "" if answer.status == 200 else f"{answer.status} {answer.body.decode()}"


class _Http:
    """
    A connection to a surface over HTTP.

    :param token: a token; empty: the connection shows the agent's certificate.
    """

    def __init__(self, connection: http.client.HTTPSConnection, token: str) -> None:
        self._connection = connection
        self._fields = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        if token:
            self._fields["Authorization"] = f"Bearer {token}"

    def ask(self, method: str, path: str, value: Any) -> tuple[int, str]:
        self._connection.request(method, path, json.dumps(value), self._fields)
        answer = self._connection.getresponse()
        session = answer.getheader("Mcp-Session-Id")
        if session is not None:
            self._fields["Mcp-Session-Id"] = session
        return answer.status, answer.read().decode()


class _Gateway(_Http):
    def call(self, call: Call) -> str:
        method, name = call
        if method:
            status, body = self.ask(method, f"/{name}", {"text": "gateway"})
        else:
            status, body = self.ask("POST", f"/tools/files/{name}", {})
        return "" if status == 200 else f"{status} {body}"


class _Front(_Http):
    def __init__(self, connection: http.client.HTTPSConnection, token: str) -> None:
        super().__init__(connection, token)
        refused = self._begin()
        assert not refused, refused

    def _begin(self) -> str:
        self._fields.pop("Mcp-Session-Id", None)
        about = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
        status, body = self.ask("POST", "/mcp", {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": about})
        self._fields["MCP-Protocol-Version"] = "2025-11-25"
        return "" if status == 200 else f"{status} {body}"

    def call(self, call: Call) -> str:
        """Call, in another session where the front has ended this one: that alone refuses no client."""
        refused = self._call(call)
        return (self._begin() or self._call(call)) if refused.startswith("404") else refused

    def _call(self, call: Call) -> str:
        method, name = call
        tool = f"{method.lower()}_{name}" if method else f"files__{name}"
        params = {"name": tool, "arguments": {"text": "front"} if method else {}}
        status, body = self.ask("POST", "/mcp", {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params})
        lines = [line.removeprefix("data:").strip() for line in body.splitlines()]
        said = json.loads(next((line for line in lines if line.startswith("{")), "{}"))
        done = status == 200 and "result" in said and not said["result"].get("isError")
        return "" if done else f"{status} {body}"


class _Callers:
    """The open connections of every agent, by agent and surface."""

    def __init__(self, target: Target, stack: contextlib.ExitStack) -> None:
        self._target, self._stack = target, stack
        self._ports = json.loads((target.config.with_name(PLACE) / "ports.json").read_text())
        self.gave_way: list[str] = []
        self.by_agent = {name: dict(self._open(name)) for name in (*CALLS, "approved")}

    def _open(self, agent: str) -> Iterator[tuple[str, Surface]]:
        own, nobody = client_context(self._target, agent=agent), client_context(self._target, identified=False)
        if agent != "token":
            yield "agtp", _Agtp(self._target, agent, self._enter(RawLink(self._target, context=own, source=SOURCE)))
            yield "gateway", _Gateway(self._connect("gateway", own), "")
            yield "front", _Front(self._connect("front", own), "")
        if agent != "certified":
            yield "gateway with a token", _Gateway(self._connect("gateway", nobody), _token(agent))
            yield "front with a token", _Front(self._connect("front", nobody), _token(agent))

    def _connect(self, surface: str, context: ssl.SSLContext) -> http.client.HTTPSConnection:
        port, source = self._ports[surface], (SOURCE, 0)
        made = http.client.HTTPSConnection("127.0.0.1", port, context=context, timeout=60, source_address=source)
        self._enter(made)
        return made

    def _enter(self, made: Any) -> Any:
        self._stack.callback(made.close)
        return made

    def call_alike(self) -> None:
        """Call everything until verdicts are reused."""
        for agent, calls in CALLS.items():
            for surface, link in self.by_agent[agent].items():
                for call in calls:
                    self._target.arrived(ALIKE)
                    refused = [said for said in (link.call(call) for _ in range(ALIKE)) if said]
                    assert not refused, (agent, surface, call, refused[0])

    def expect_refusals(self, agent: str) -> None:
        """Send each request of an agent once more, and note what a handler answers."""
        for surface, link in self.by_agent[agent].items():
            for call in CALLS[agent]:
                refused = link.call(call)
                # Where an agent was stopped, the ledger refuses what the gates have let pass, after its handler ran.
                if not refused or "performed" in refused:
                    self.gave_way.append(f"{agent} by {surface}: {' '.join(call).strip()}")


def kept_verdicts(target: Target, seconds: float) -> None:
    """Each change is made while verdicts are kept, and counts for the next request of every surface."""
    folder = target.config.parent
    with contextlib.ExitStack() as stack:
        callers = _Callers(target, stack)
        callers.call_alike()
        _change_rights(folder, callers)
        _let_grant_end(folder, callers)
        _let_approvals_end(folder, callers)
        _reload(folder, callers)
        assert not callers.gave_way, "; ".join(callers.gave_way)


def _change_rights(folder: Path, callers: _Callers) -> None:
    commands: Mapping[str, Sequence[str]] = {
        "suspended": ("deactivate", "suspended", "--reason", "planned"),
        "revoked": ("revoke", "revoked", "--reason", "compromise-detected"),
        "limited": ("limit", "limited", "ECHO /text", "--yes"),
        "restated": ("ungrant", "restated", SCOPE, "mcp:tools:execute"),
    }
    for agent, words in commands.items():
        _succeed(folder, "agent", *words)
        callers.expect_refusals(agent)


def _let_grant_end(folder: Path, callers: _Callers) -> None:
    """Calls succeed by a grant until it ends."""
    end = datetime.now(UTC) + timedelta(seconds=SOON)
    until = end.strftime("%Y-%m-%dT%H:%M:%SZ")
    _succeed(folder, "agent", "limit", "expiring", "ECHO /desk", "files.list_files", "--until", until, "--yes")
    _call_until(callers, "expiring", datetime.fromisoformat(until).timestamp())
    callers.expect_refusals("expiring")


def _call_until(callers: _Callers, agent: str, moment: float) -> None:
    while time.time() < moment:
        for link in callers.by_agent[agent].values():
            link.call(DESK)
        time.sleep(0.1)


def _let_approvals_end(folder: Path, callers: _Callers) -> None:
    """An approval is good for one call, and for none once it has ended. Each surface sends an input of its own."""
    links = {name: link for name, link in callers.by_agent["approved"].items() if name in ("agtp", "gateway", "front")}
    for surface, link in links.items():
        # Twice: gates that keep a verdict of a call do so from the second approved one on at the latest.
        for _ in range(2):
            _approve(folder, link)
            refused = link.call(ASKED)
            assert not refused, (surface, refused)
            if HELD not in link.call(ASKED):
                callers.gave_way.append(f"a used approval by {surface}")
    for link in links.values():
        _approve(folder, link)
    _wait_until(time.time() + SOON)
    for surface, link in links.items():
        if HELD not in link.call(ASKED):
            callers.gave_way.append(f"an ended approval by {surface}")


def _wait_until(moment: float) -> None:
    """Wait until the clock of this machine, which is the host's, shows a moment."""
    while time.time() <= moment:
        time.sleep(0.05)


def _approve(folder: Path, link: Surface) -> None:
    held = link.call(ASKED)
    found = re.search(r"apr-[0-9a-f]{32}", held)
    assert found is not None and HELD in held, f"a call that a person approves is not held: {held}"
    _succeed(folder, "approvals", "approve", found.group())


def _reload(folder: Path, callers: _Callers) -> None:
    """Everything that counts from a reload on: endpoints, the policy, a token, and a list of revoked certificates."""
    own = folder / "state" / "agents" / "certified" / "agent.pem"
    old = folder / PLACE / "old.pem"
    old.write_bytes(own.read_bytes())
    _succeed(folder, "agent", "renew", "certified")
    _succeed(folder, "cert", "revoke", str(old), "--reason", "superseded")
    _file(folder, GONE).unlink()
    _declare(folder, NARROWED, scope="vault:open")
    amend(folder, "policies.methods", f'disallow = ["{BARRED[0]}"]')
    token = folder / PLACE / "token.token"
    token.write_text(_token("another"))
    _succeed(folder, "reload")
    for agent in ("certified", "token", "stricter"):
        callers.expect_refusals(agent)


ATTACKS = (
    Attack(
        name="kept-verdicts",
        who="agent",
        says="Calls with one head on open connections, before and after rights change: each change counts at once.",
        run=kept_verdicts,
        configure=with_surfaces,
        alone=True,
    ),
)
