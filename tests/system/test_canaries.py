"""
Secrets go inward only (P21, T-SE-1, T-MC-80, security invariant 14): canaries of every kind, looked for everywhere.

Upstreams repeat every secret that they are given wherever a host might pick it up: in garbage, on standard error, in
bodies of refusals, in content types.
"""

from __future__ import annotations

import base64
import http.server
import json
import os
import signal
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID

from agtphost.identity.provisioning import provision_development
from tests import forking
from tests.adapters.faults.deployment import ENDPOINT
from tests.protocols.authorities import issue
from tests.rows import each_row
from tests.system.hosting import BIN, Host, agtp, running, sample, until
from tests.system.raw_link import RawLink

FAULTY = Path(__file__).with_name("faulty_host.py")

CANARIES = {
    name: f"canary-{name}-{number:02d}f3a91d2b7"
    for number, name in enumerate(
        ("host", "child", "mcp", "header", "client", "token", "service", "a2a", "acp", "front", "caller", "key")
    )
}
"""By where each is put; ``token`` is what the token endpoint gives, ``caller`` what a caller sends."""

SETTINGS = """
[[mcp.server]]
name = "child"
command = ["{{python}}", "child.py"]
scopes = ["mcp:tools:execute"]
protocol = "2025-11-25"
timeout = 5
[mcp.server.env]
CHILD_SECRET = "env:CHILD_SECRET"

[[mcp.server]]
name = "parrot"
url = "http://127.0.0.1:{plain}/mcp"
scopes = ["mcp:tools:execute"]
protocol = "2025-11-25"
timeout = 5
bearer = "file:mcp.secret"
[mcp.server.headers]
X-Api-Key = "${{HEADER_SECRET}}"

[[mcp.server]]
name = "oauth"
url = "http://127.0.0.1:{plain}/mcp"
scopes = ["mcp:tools:execute"]
protocol = "2025-11-25"
timeout = 5
[mcp.server.oauth]
token_url = "http://127.0.0.1:{plain}/token"
client_id = "me"
client_secret = "env:CLIENT_SECRET"

[[a2a.agent]]
name = "parrot"
url = "http://127.0.0.1:{plain}/a2a"
scopes = ["mcp:tools:execute"]
bearer = "file:a2a.secret"

[[acp.agent]]
name = "parrot"
url = "http://127.0.0.1:{plain}/acp"
scopes = ["mcp:tools:execute"]
[acp.agent.headers]
Authorization = "Bearer ${{ACP_SECRET}}"
"""

CHILD = '''
"""A server that cannot keep a secret."""

import json
import os
import sys

secret = os.environ["CHILD_SECRET"]
for line in sys.stdin:
    message = json.loads(line)
    method, call_id = message.get("method"), message.get("id")
    print("garbage", secret, flush=True)
    print("to stderr", secret, "and", json.dumps(dict(os.environ)), file=sys.stderr, flush=True)
    if method == "initialize":
        info = {"name": "child", "version": "0"}
        result = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": info}
    elif method == "tools/list":
        result = {"tools": [{"name": "work", "inputSchema": {"type": "object"}}]}
    elif method == "tools/call":
        raise SystemExit(f"it ends with {secret}")
    else:
        continue
    print(json.dumps({"jsonrpc": "2.0", "id": call_id, "result": result}), flush=True)
'''

FAILING = '''
"""A handler with a mistake."""


def echo(ctx):
    authorization = ctx.headers.get("authorization")
    raise RuntimeError(f"a mistake, {len(authorization or '')} long")
'''


class Echo(http.server.BaseHTTPRequestHandler):
    """Repeats what it is told."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.do_POST()

    do_DELETE = do_GET

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        told = f"{dict(self.headers)} {body.decode()}"
        self.server.told.append(told)  # type: ignore[attr-defined]
        known = self._known(body)
        if known is not None:
            self._reply(200, json.dumps(known), "application/json")
        elif self.path == "/mcp" and b'"work"' in body:
            self._reply(200, f"data: garbage {json.dumps(told)}\n\n", "text/event-stream")
        else:
            kind = self.headers.get("Authorization", "none").rpartition(" ")[2]
            status = 200 if b'"type"' in body else 500
            self._reply(status, told, f"text/{kind}")

    def _known(self, body: bytes) -> Any:
        message = json.loads(body) if body.startswith(b"{") else {}
        if self.path == "/token":
            return {"access_token": CANARIES["token"], "token_type": "Bearer", "expires_in": 3600}
        if self.path.startswith("/acp/agents"):
            return {"agents": [{"name": "parrot", "description": "Repeats."}]}
        if self.path == "/a2a/.well-known/agent-card.json":
            port = self.server.server_address[1]  # type: ignore[attr-defined]
            url = f"http://127.0.0.1:{port}/a2a/rpc"
            interface = {"url": url, "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
            card = {"name": "parrot", "description": "", "version": "1", "supportedInterfaces": [interface]}
            return {**card, "capabilities": {}, "skills": []}
        tools = [{"name": name, "inputSchema": {"type": "object"}} for name in ("work", "rest")]
        info = {"name": "parrot", "version": "0"}
        results = {
            "initialize": {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": info},
            "tools/list": {"tools": tools},
        }
        result = results.get(message.get("method"))
        return None if result is None else {"jsonrpc": "2.0", "id": message["id"], "result": result}

    def _reply(self, status: int, text: str, kind: str) -> None:
        self.send_response(status, "Whatever")
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(text.encode())))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *arguments: object) -> None:
        """Nothing."""


class Server(http.server.ThreadingHTTPServer):
    """A server whose clients may leave as they like."""

    def handle_error(self, *arguments: object) -> None:
        """Nothing."""


@contextmanager
def echoing(certificate: Path | None = None) -> Iterator[Any]:
    """A server that repeats what it is told, over TLS where it has a certificate."""
    server = Server(("127.0.0.1", 0), Echo)
    server.told = []  # type: ignore[attr-defined]
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join(5)
        server.server_close()


def _octets_of(file: Path) -> bytes:
    """Return what is in a file; nothing of one that the host has renamed or removed in the meantime."""
    try:
        return file.read_bytes()
    except FileNotFoundError:
        return b""


@dataclass
class Seen:
    """Everything that came out of a host."""

    host: Host
    plain: list[str]
    secure: list[str]
    """What the upstreams were told."""

    environ: dict[str, str]
    audit_id: str = ""
    """Of the last call."""

    texts: dict[str, str] = field(default_factory=dict)
    """Answers, outputs of commands and environments of processes, by what they are."""

    @property
    def heard(self) -> list[str]:
        """The same of both."""
        return [*self.plain, *self.secure]

    def search(self, secret: bytes) -> list[str]:
        """Where a secret is."""
        found = [name for name, text in self.texts.items() if secret in text.encode()]
        if secret in self.host.output.encode():
            found.append("the log")
        files = [file for file in self.host.state.rglob("*") if file.is_file() and file.suffix != ".key"]
        return found + [str(file) for file in files if secret in _octets_of(file)]


@contextmanager
def deployed(folder: Path, prefix: tuple[str, ...] = ()) -> Iterator[Seen]:
    """A host that has every secret, and upstreams that repeat them."""
    root = issue(name="upstream root", authority=True)
    certificate = folder / "upstream.pem"
    identity = issue(root, usage=ExtendedKeyUsageOID.SERVER_AUTH)
    certificate.write_bytes(identity.pem() + identity.key_pem())
    (folder / "root.pem").write_bytes(root.pem())
    with echoing() as plain, echoing(certificate) as secure:
        config = sample(folder, append=SETTINGS.format(plain=plain.server_address[1]))
        state = config.parent / "state"
        provision_development(state, server_id="localhost", hosted=[config.parent / "agents/librarian.agent.json"])
        shown = agtp("cert", "show", str(state / "agents/demo/agent.pem"), "--json").stdout
        operator = json.loads(shown)["key_fingerprint"]
        config.write_text(config.read_text() + f'\n[audit]\noperators = ["{operator}"]\n')
        (config.parent / "child.py").write_text(CHILD)
        for name in ("mcp", "a2a"):
            file = config.parent / f"{name}.secret"
            file.touch(0o600)
            file.write_text(CANARIES[name] + "\n")
        url = f"https://127.0.0.1:{secure.server_address[1]}/service"
        endpoint = ENDPOINT.format(name="service", url=url, folder=folder, deadline=5)
        headers = '[handler.headers]\nAuthorization = "Bearer ${SERVICE_SECRET}"\n\n[semantic]'
        (config.parent / "endpoints" / "service.toml").write_text(endpoint.replace("[semantic]", headers, 1))
        echo = (config.parent / "endpoints" / "text.toml").read_text()
        failing = echo.replace("/text", "/failing").replace("handlers.text.echo", "handlers.failing.echo")
        (config.parent / "endpoints" / "failing.toml").write_text(failing)
        (config.parent / "handlers" / "failing.py").write_text(FAILING)
        names = ("child", "header", "client", "acp", "service")
        environ = {f"{name.upper()}_SECRET": CANARIES[name] for name in names}
        environ["UNRELATED"] = CANARIES["host"]
        with running(config, environ=environ, prefix=prefix) as host:
            yield Seen(host, plain.told, secure.told, environ)


def execute(kind: str, action: str, payload: dict[str, Any]) -> dict[str, Any]:
    return {"method": "EXECUTE", "parameters": {"action": action, "payload_type": kind, "payload": payload}}


def tool(name: str) -> dict[str, Any]:
    return execute("application/vnd.mcp.tools+json", "mcp.tools.call", {"tool": name, "arguments": {}})


A2A = execute("application/a2a+json", "a2a.message.send", {"message": {"parts": [{"text": "x"}]}})
ACP = execute("application/vnd.acp.run+json", "acp.runs.create", {"input": [{"parts": [{"content": "x"}]}]})

CALLS: tuple[tuple[str, str, Any, int], ...] = (
    ("EXECUTE", "/mcp/child", tool("work"), 503),
    ("EXECUTE", "/mcp/parrot", tool("work"), 503),
    ("EXECUTE", "/mcp/parrot", tool("rest"), 503),
    ("EXECUTE", "/mcp/oauth", tool("work"), 503),
    ("EXECUTE", "/mcp/oauth", tool("rest"), 503),
    ("EXECUTE", "/a2a/parrot", A2A, 503),
    ("EXECUTE", "/acp/parrot", ACP, 503),
    ("QUERY", "/faults/service", {}, 422),
    ("ECHO", "/failing", {"text": "x"}, 500),
    ("ECHO", "/text", {"text": "x", "unknown": 1}, 422),
    ("DESCRIBE", "/", {"capability_domains": "tools"}, 200),
    ("DISCOVER", "/methods", None, 200),
)
"""Requests, and their statuses."""


def command(seen: Seen, *words: str) -> subprocess.CompletedProcess[str]:
    """Run ``agtp`` with the secrets that the host has."""
    return forking.run(
        [BIN / "agtp", *words],
        env={**os.environ, **seen.environ, "NO_COLOR": "1"},
        cwd=seen.host.config.parent,
    )


def use(seen: Seen) -> None:
    """Call everything, ask every command, and look into every process."""
    host = seen.host
    until(lambda: host.output.count(": up") >= 5)
    for process in psutil.Process(host.process.pid).children(recursive=True):
        seen.texts[f"process {process.pid}"] = json.dumps([process.cmdline(), process.environ()])
    with RawLink(host) as link:
        for number, (method, path, body, status) in enumerate(CALLS):
            answer = link.ask(method, path, body, Authorization=f"Bearer {CANARIES['caller']}")
            seen.texts[f"answer {number} {path}"] = f"{answer.headers}{answer.body!r}"
            assert answer.status == status, (path, answer.body)
            seen.audit_id = answer.audit_id
    for words in (
        ("check", str(host.config)),
        ("explain", seen.audit_id),
        ("upstreams", "ls", "--json"),
        ("upstreams", "ls"),
        ("manifest", "show", host.uri, "--json"),
        ("tools", "ls"),
        ("audit", "walk", "librarian", "--json"),
        ("audit", "export", "-o", str(host.state / "export.jsonl")),
    ):
        done = command(seen, *words)
        assert done.returncode == 0, (words, done.stdout, done.stderr)
        seen.texts[" ".join(words)] = done.stdout + done.stderr
    reload(seen)


def reload(seen: Seen) -> None:
    """A configuration with mistakes right beside the secrets: what is said of it, by the command and the host."""
    host = seen.host
    good = host.config.read_text()
    written_out = good.replace("file:mcp.secret", CANARIES["key"])
    for number, broken in enumerate((written_out, good + f'\nstray = "{CANARIES["key"]}\n')):
        host.config.write_text(broken)
        done = command(seen, "check", str(host.config))
        assert done.returncode != 0
        seen.texts[f"check of broken configuration {number}"] = done.stdout + done.stderr
        before = len(host.lines)
        host.process.send_signal(signal.SIGHUP)
        until(lambda before=before: len(host.lines) > before)  # type: ignore[misc]
    host.config.write_text(good)


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Seen]:
    with deployed(tmp_path_factory.mktemp("canaries")) as found:
        use(found)
        yield found


def forms(secret: str) -> list[bytes]:
    """A secret as it is, and as credentials are sometimes written."""
    pair = base64.b64encode(f"me:{secret}".encode())
    return [secret.encode(), base64.b64encode(secret.encode()).rstrip(b"="), pair, secret.encode().hex().encode()]


@each_row("name", CANARIES)
def test_no_canary_comes_out(seen: Seen, name: str) -> None:
    """P21: 0 occurrences in log, store, answers, command outputs and processes that were not given it."""
    given = {text for text, value in seen.texts.items() if text.startswith("process") and "child.py" in value}
    for form in forms(CANARIES[name]):
        assert set(seen.search(form)) - (given if name == "child" else set()) == set()


def test_every_upstream_was_given_its_own_and_no_other(seen: Seen) -> None:
    """The canaries were really at stake; and nothing of a caller, or of another upstream, went along."""
    given = {"mcp", "header", "token", "a2a", "acp", "service"}
    heard = "\n".join(seen.heard)
    assert {name for name, canary in CANARIES.items() if canary in heard} == given
    for told in seen.heard:
        assert sum(CANARIES[name] in told for name in given - {"header"}) <= 1


def test_a_child_has_its_own_secret_and_nothing_else_of_the_host(seen: Seen) -> None:
    """T-MC-80: of the host's environment a child has six names at most, and what was configured for it."""
    children = [json.loads(text) for name, text in seen.texts.items() if name.startswith("process")]
    configured = [environ for command, environ in children if "child.py" in command[-1]]
    assert configured
    for environ in configured:
        assert environ["CHILD_SECRET"] == CANARIES["child"]
        assert environ.keys() <= {"HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER", "CHILD_SECRET", "LC_CTYPE"}


def test_no_private_key_comes_out(seen: Seen) -> None:
    """P21: neither the PEM lines of a key nor its own octets, raw, in hexadecimal or in base64."""
    files = sorted(seen.host.state.rglob("*.key"))
    assert len(files) >= 3
    for file in files:
        lines = [line for line in file.read_bytes().splitlines() if not line.startswith(b"-----")]
        key: Any = load_pem_private_key(file.read_bytes(), None)
        secrets = [max(lines, key=len)]
        if hasattr(key, "private_bytes_raw"):
            raw = key.private_bytes(Encoding.Raw, PrivateFormat.Raw, NoEncryption())
            url = base64.urlsafe_b64encode(raw).rstrip(b"=")
            secrets += [raw, raw.hex().encode(), base64.b64encode(raw).rstrip(b"="), url]
        for secret in secrets:
            assert seen.search(secret) == [], file


@pytest.mark.release
def test_a_leak_would_be_found(tmp_path: Path) -> None:
    """The control: where what servers say is logged as it comes, the same search finds what they repeat."""
    with deployed(tmp_path, (sys.executable, str(FAULTY), "talkative")) as leaking:
        use(leaking)
        for name in ("child", "mcp", "header", "token"):
            assert "the log" in leaking.search(CANARIES[name].encode()), name
    assert os.environ.get("UNRELATED") is None
