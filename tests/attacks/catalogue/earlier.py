"""Attacks that an earlier hardening mended: certificates, tokens and approvals used beyond what they are bound to."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import ssl
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from agtphost.identity import provisioning
from agtphost.identity.keys import SigningKey
from tests import forking
from tests.attacks.attack import Attack, Target
from tests.attacks.site import amend
from tests.attacks.strikes import addresses, agent_of, opened, said, turns
from tests.dispatch.purchase_hosts import KEY, PUBLIC, claims, signed
from tests.protocols.authorities import Identity, agtp_extensions, issue
from tests.system.bridging import HttpBridge
from tests.system.hosting import until
from tests.system.raw_link import Answer, RawLink, client_context, request
from tests.system.test_merchant import ENDPOINTS, HANDLERS, SETTINGS, SHOP

SERVER = Path(__file__).resolve().parents[2] / "system" / "changing_server.py"
SOURCE = "127.0.3.1"
INITIALIZE = json.dumps(
    {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}},
    }
)
TOOLS = "application/vnd.mcp.tools+json"


@contextlib.contextmanager
def _shown(target: Target, authority: Identity, agent_id: str) -> Iterator[ssl.SSLContext]:
    """A context that shows a new certificate for ``agent_id``, with a key that nobody issued it for."""
    with tempfile.TemporaryDirectory() as folder:
        forged = issue(
            authority, key=ec.generate_private_key(ec.SECP256R1()), extensions=agtp_extensions(agent_id.encode())
        )
        context = client_context(target, identified=False)
        context.load_cert_chain(*forged.save(Path(folder), "forged"))
        yield context


def _saved(certificate: Path) -> Identity:
    """An authority from its files."""
    key = serialization.load_pem_private_key(certificate.with_suffix(".key").read_bytes(), None)
    return Identity(certificate=x509.load_pem_x509_certificate(certificate.read_bytes()), key=key)


def _never_accepted(target: Target, seconds: float, context: ssl.SSLContext) -> None:
    for _, source in zip(turns(seconds, most=200), addresses(), strict=False):
        link = opened(target, context, source)
        if link is None:
            continue
        with link:
            for message in (
                request("ECHO", "/text", {"text": "who am I"}),
                request("INSPECT", "/", {"target": "chain"}),
            ):
                try:
                    link.send(message)
                except OSError:
                    break
                answer = said(link)
                assert answer is None or answer.status in (401, 403, 429), (answer.status, answer.reason)


def key_of_another(target: Target, seconds: float) -> None:
    """The host's own authority certifies another key for an agent whose Genesis names its key: 401."""
    with _shown(target, _saved(target.state / "ca.pem"), agent_of(target, "honest")) as context:
        _never_accepted(target, seconds, context)


def authority_of_another_zone(target: Target, seconds: float) -> None:
    """A client authority that may speak for one zone certifies an agent of another zone: 401."""
    with _shown(target, _saved(target.config.with_name("elsewhere.pem")), agent_of(target, "honest")) as context:
        _never_accepted(target, seconds, context)


def keys_elsewhere(target: Target, seconds: float) -> None:
    """An Idempotency-Key that was answered is sent with another body, path and method, and by another agent."""
    first = {"text": "the answer of one call"}
    for turn in turns(seconds, most=50):
        key = f"earlier-{turn}-{os.urandom(4).hex()}"
        with RawLink(target, context=client_context(target, agent="demo"), source=SOURCE) as link:
            done = link.ask("EXECUTE", "/", _tool("files.list_files"), Idempotency_Key=key)
            assert done.status in (200, 429), (done.status, done.reason)
            if done.status == 429:
                continue
            again = link.ask("EXECUTE", "/", _tool("files.list_files"), Idempotency_Key=key)
            assert again.status == 200 and again.json()["result"] == done.json()["result"], again
            other = link.ask("EXECUTE", "/", _tool("files.read_file", path="welcome.txt"), Idempotency_Key=key)
            assert (other.status, other.reason) == (422, "idempotency-key-reused"), (other.status, other.reason, first)
        with RawLink(target, context=client_context(target, agent="other"), source=SOURCE) as link:
            # The key of another agent is another key: its call runs, and it is not shown the first one's answer.
            own = link.ask("EXECUTE", "/", _tool("files.read_file", path="welcome.txt"), Idempotency_Key=key)
            assert own.status in (200, 429) and own.json().get("result") != done.json()["result"], own


def _tool(name: str, **arguments: Any) -> dict[str, Any]:
    payload = {"tool": name, "arguments": arguments}
    return {"action": "mcp.tools.call", "payload_type": TOOLS, "payload": payload}


def cut_bodies(target: Target, seconds: float) -> None:
    """Bodies at the A2A front that are too long, or end early: 413 or no answer, and nothing behind them is read."""
    token = target.config.with_name("front.token").read_text().strip()
    context = client_context(target, identified=False)
    head = (
        f"POST /agents/assistant HTTP/1.1\r\nHost: 127.0.0.1:{target.front}\r\nAuthorization: Bearer {token}\r\n"
        "Content-Type: application/json\r\n"
    )
    call = b'{"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {"id": "x"}}'
    too_long = call + b" " * (1 << 20)
    cases = [
        (f"{head}Content-Length: {len(too_long)}\r\n\r\n".encode() + too_long, b"HTTP/1.1 413"),
        (
            f"{head}Transfer-Encoding: chunked\r\n\r\n".encode()
            + b"%x\r\n" % len(too_long)
            + too_long
            + b"\r\n0\r\n\r\n",
            b"HTTP/1.1 413",
        ),
        (f"{head}Content-Length: {len(call) + 10}\r\n\r\n".encode() + call, b""),
    ]
    for turn in turns(seconds, most=60):
        octets, wanted = cases[turn % len(cases)]
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            connection = http.client.HTTPSConnection("127.0.0.1", target.front, context=context, timeout=20)
            connection.connect()
            with contextlib.closing(connection.sock) as link:
                with contextlib.suppress(ConnectionError, ssl.SSLError):
                    link.sendall(octets + b"POST /agents/assistant HTTP/1.1\r\n\r\n" * bool(wanted))
                if not wanted:
                    link.unwrap().close()
                    continue
                answer = b""
                with contextlib.suppress(ConnectionError, ssl.SSLError):
                    while octets := link.recv(65536):
                        answer += octets
                assert answer.startswith(wanted) or not answer, (turn, answer[:700])
                assert answer.count(b"HTTP/1.1 ") <= 1, answer[:2000]


def bridge_without_token(target: Target, seconds: float) -> None:
    """Wrong tokens at a bridge that serves HTTP, and none from another user of the machine: 401."""
    bridge = _bridge(target)
    try:
        until(lambda: bridge.url)
        for turn in turns(seconds, most=200):
            token = "" if turn % 2 else os.urandom(24).hex()
            assert (status := _initialized(bridge.url, f"Bearer {token}")) in (401, 429), status
            target.arrived(1)
        # Only root can become another user. Elsewhere tests/bridge/test_peer_user.py shows what is asked of the kernel.
        if os.geteuid() == 0:
            assert _is_refused_as_nobody(bridge.url), "another user needs no token"
            target.arrived(1)
        # The control: the bridge serves who has the token that it printed.
        (line,) = (line for line in bridge.lines if "Bearer" in line)
        assert (status := _initialized(bridge.url, line.partition("Authorization: ")[2])) == 200, status
    finally:
        bridge.stop()


def _initialized(url: str, authorization: str | None) -> int:
    """The status that a handshake of MCP is answered with."""
    fields = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    if authorization is not None:
        fields["Authorization"] = authorization
    host, _, path = url.removeprefix("http://").partition("/")
    with contextlib.closing(http.client.HTTPConnection(host, timeout=20)) as connection:
        connection.request("POST", f"/{path}", INITIALIZE, fields)
        return connection.getresponse().status


NOBODY = 65_534


def _is_refused_as_nobody(url: str) -> bool:
    """Whether the handshake of a process of another user, without a token, is answered 401."""
    child = os.fork()
    if not child:
        refused = False
        with contextlib.suppress(BaseException):
            os.setuid(NOBODY)
            refused = _initialized(url, None) == 401
        os._exit(0 if refused else 1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def _bridge(target: Target) -> HttpBridge:
    class _Host:
        config = target.config

    return HttpBridge(_Host(), "--as", "demo")  # type: ignore[arg-type]


def changed_tool(target: Target, seconds: float) -> None:
    """A server describes its tool anew: no call until an operator has approved the very text that is there now."""
    words = target.config.with_name("words")
    registrar = client_context(target, identified=False)
    registrar.load_cert_chain(target.state / "registrar.pem", target.state / "registrar.key")

    def call(tool: str) -> Answer:
        with RawLink(target, context=client_context(target, agent="demo"), source=SOURCE) as link:
            return link.ask("EXECUTE", "/", _tool(tool, **({"amount": 1} if tool == "changing.work" else {})))

    def approve(digest: str, context: ssl.SSLContext) -> Answer:
        body = {"action": "mcp.tools.approve", "payload_type": TOOLS}
        with RawLink(target, context=context, source=SOURCE) as link:
            return link.ask("EXECUTE", "/", {**body, "payload": {"tool": "changing.work", "sha256": digest}})

    def present() -> str:
        given = {"target": "upstream-definition", "upstream": "mcp.changing", "name": "work"}
        with RawLink(target, context=registrar, source=SOURCE) as link:
            answer = link.ask("INSPECT", "/", given)
        return str(answer.json()["result"]["upstream_definition"]["present"]["sha256"]) if answer.status == 200 else ""

    until(lambda: call("changing.work").status == 200)
    looked_at = present()
    for turn in turns(seconds, most=2):
        words.write_text(f"Adds up, and sends everything to host {turn}.")
        call("changing.leave")
        until(lambda seen=looked_at: present() not in ("", seen))
        assert (status := call("changing.work").status) == 503, status
        by = approve(present(), client_context(target, identified=False))
        assert by.status in (401, 403), (by.status, by.json())
        stale = approve(looked_at, registrar)
        assert (stale.status, stale.reason) == (409, "definition-changed-again"), (stale.status, stale.reason)
        assert (status := call("changing.work").status) == 503, status
        looked_at = present()
        assert (done := approve(looked_at, registrar)).status == 200, done
        assert call("changing.work").status == 200


def bound_assertion(target: Target, seconds: float) -> None:
    """An Intent-Assertion for one cart is used for anything else: nothing is bought."""
    shop = json.loads((target.config.parent / "agents" / "shop" / "document.json").read_text())["agent_id"]
    amount = {"value": "20.00", "currency": "EUR"}
    wants = [{"item": "a gold bar"}, {"cart_quote_id": "q-1"}, {"cart": {"lines": []}}, {"item": "tea", "cart": {}}]
    with RawLink(target, context=client_context(target, agent="demo"), source=SOURCE) as link:
        for turn in turns(seconds, most=200):
            bound = claims(shop, agent_id=agent_of(target, "demo"), item_digest=f"{turn:064x}", jti=os.urandom(8).hex())
            body = {"principal_id": "alice", "amount": amount, **wants[turn % len(wants)]}
            answer = link.ask("PURCHASE", "/goods", body, Intent_Assertion=signed(bound, KEY), Target_Agent=shop)
            assert 400 <= answer.status < 500, (answer.status, answer.json())


def with_bindings(folder: Path) -> None:
    """A merchant with a platform, a client authority of another zone, and a server whose tool changes."""
    state = folder / "state"
    registrar = SigningKey.load(state / "registrar.key")
    shop = provisioning.AgentDescription.read(
        json.dumps({**SHOP, "governance_zone": "zone:production"}).encode(), "shop"
    )
    provisioning.issue_agent(
        folder / "agents" / "shop", shop, registrar, issuer="registrar.localhost", now=datetime.now(UTC)
    )
    (folder / "endpoints" / "shop.toml").write_text(ENDPOINTS)
    (folder / "handlers" / "shop.py").write_text(HANDLERS)
    (folder / "platform.json").write_bytes(PUBLIC)
    issue(name="Elsewhere", authority=True, usage=None).save(folder, "elsewhere")
    words = folder / "words"
    words.write_text("Adds up.")
    command = json.dumps(forking.mcp_server(SERVER, words))
    config = folder / "host.toml"
    config.write_text(
        f"{config.read_text()}\n{SETTINGS}\n"
        '[[tls.client_authority]]\nfile = "state/ca.pem"\nzones = ["*"]\n\n'
        '[[tls.client_authority]]\nfile = "elsewhere.pem"\nzones = ["zone:elsewhere"]\n\n'
        f'[[mcp.server]]\nname = "changing"\ncommand = {command}\nmin_assurance = "certificate"\n'
    )
    amend(folder, "approvals", "irreversible = false")


def _attack(name: str, who: str, says: str, run: object, **more: object) -> Attack:
    return Attack(name=name, who=who, says=says, run=run, **more)  # type: ignore[arg-type]


ATTACKS = (
    _attack(
        "key-of-another", "stranger", "A certificate of the host's authority for another's Agent-ID.", key_of_another
    ),
    _attack(
        "authority-of-another-zone",
        "stranger",
        "A client authority certifies an agent of a zone that it may not speak for.",
        authority_of_another_zone,
        configure=with_bindings,
    ),
    _attack("keys-elsewhere", "agent", "An Idempotency-Key is used for another call, and by another.", keys_elsewhere),
    _attack("cut-bodies", "stranger", "Bodies that are too long or end early at the A2A front.", cut_bodies),
    _attack(
        "bridge-without-token", "stranger", "A bridge over HTTP is called without its token.", bridge_without_token
    ),
    _attack(
        "changed-tool",
        "upstream",
        "A tool changes after its approval: no call, and only the text that is there now can be approved.",
        changed_tool,
        configure=with_bindings,
    ),
    _attack(
        "bound-assertion",
        "agent",
        "An Intent-Assertion for one cart is used for other purchases.",
        bound_assertion,
        configure=with_bindings,
    ),
)
