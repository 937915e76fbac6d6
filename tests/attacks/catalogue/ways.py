"""
A card that leads to a guarded provider, called by every other way: redirects, spellings, lists, tokens, changes.

Beside the guarded provider there is one that is open to every agent. It belongs to the attacker: whatever it is asked,
it points to the guarded one. The agent ``narrow`` has no scope for the guarded one.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import ssl
import threading
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from agtphost.identity.certificates import Authority
from agtphost.identity.keys import SigningKey
from agtphost.identity.provisioning import AgentDescription, issue_agent, registrar_url
from tests.attacks.attack import Attack, Target
from tests.attacks.strikes import answered, turns
from tests.registry.hosts import card
from tests.registry.served import provider_tls
from tests.system.hosting import free_port
from tests.system.raw_link import Answer, client_context, request

PLACE = "ways"
"""Directory beside ``host.toml`` with keys, certificates and ports."""

KEY = "Bearer the operator's own"
SCOPE = "payments:transfer"
NARROW = "narrow"
TOKENS = {NARROW: "token-of-narrow-0123456789-0123456789", "demo": "token-of-demo-0123456789-0123456789"}

_SECTIONS = """
[registry]
listen = "ssl:{registry}:interface=127.0.0.1"

[[registry.provider]]
origin = "https://localhost:{guarded}"
scopes = ["{scope}"]
headers = {{ authorization = "{key}" }}
ca = "{folder}/ca.pem"
allow_addresses = ["127.0.0.0/8", "::1/128"]
timeout = 5

[[registry.provider]]
origin = "https://localhost:{lure}"
ca = "{folder}/ca.pem"
allow_addresses = ["127.0.0.0/8", "::1/128"]
timeout = 5

[methods]
standard = "*"

[[http.client]]
name = "narrow"
token = "file:{folder}/narrow.token"
agent = "narrow"

[[http.client]]
name = "demo"
token = "file:{folder}/demo.token"
agent = "demo"
"""

SPELLED = (
    *("https://localhost:{port}/pay", "HTTPS://LocalHost:{port}/pay", "https://localhost.:{port}/pay"),
    *("https://localhost:00{port}/pay", "https://localhost:{port}", "https://localhost:{port}/invoke"),
    *("https://localhost:{port}?to=1", "https://localhost:{port}//pay", "https://LOCALHOST.:0{port}/%70ay"),
)
"""The guarded provider's URL, as a card can write it."""

ELSEWHERE = (
    *("https://user@localhost:{port}/pay", "https://localhost:{lure}@localhost:{port}/pay"),
    *("https://127.0.0.1:{port}/pay", "https://127.1:{port}/pay", "https://2130706433:{port}/pay"),
    *("https://0x7f000001:{port}/pay", "https://[::1]:{port}/pay", "https://[::ffff:127.0.0.1]:{port}/pay"),
    *("https://[0:0:0:0:0:0:0:1]:{port}/pay", "https://localhost..:{port}/pay", "https://localhost:{port}\\@x/pay"),
    *("https:localhost:{port}/pay", "https:///localhost:{port}/pay", "https://localhost%2e:{port}/pay"),
    *("https://localhost:+{port}/pay", "https://ⓛocalhost:{port}/pay", "https://x.localhost:{port}/pay"),
)
"""URLs of the same place that no provider has: they are refused, or called by nobody."""


def with_ways(folder: Path) -> None:
    """A registry with a guarded and an open provider, all standard methods, and clients with tokens."""
    place, state = folder / PLACE, folder / "state"
    place.mkdir()
    ports = {name: free_port() for name in ("registry", "guarded", "lure")}
    (place / "ports.json").write_text(json.dumps(ports))
    root, _ = provider_tls(place)
    (place / "ca.pem").write_bytes(root.pem())
    for name, text in (("key", KEY), *((f"{agent}.token", token) for agent, token in TOKENS.items())):
        (place / name).touch(mode=0o600)
        (place / name).write_text(text)
    described = AgentDescription(
        name=NARROW,
        scopes=("registry:register", "documents:query", "task:*", "batch:*"),
        owner_id="owner-narrow",
        principal="Owner of narrow",
    )
    issue_agent(
        state / "agents" / NARROW,
        described,
        SigningKey.load(state / "registrar.key"),
        issuer=registrar_url("localhost"),
        authority=Authority.load(state / "ca.pem", state / "ca.key"),
        now=datetime.now(UTC),
    )
    with (folder / "host.toml").open("a") as file:
        file.write(_SECTIONS.format(folder=PLACE, key=f"file:{PLACE}/key", scope=SCOPE, **ports))


class _Provider(BaseHTTPRequestHandler):
    """Answers every call, and notes with which key it came; with ``leads`` it points there."""

    heard: list[str]
    leads = ""
    status = 200

    def _answer(self) -> None:
        self.heard.append(self.headers.get("Authorization", ""))
        self.rfile.read(int(self.headers.get("Content-Length", "0")))
        body = b'{"done":true}'
        self.send_response(self.status)
        if self.leads:
            for name in ("Location", "Content-Location", "Refresh"):
                self.send_header(name, self.leads)
            self.send_header("Alt-Svc", f'h2="{self.leads.removeprefix("https://").partition("/")[0]}"')
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_GET = do_HEAD = do_POST = _answer

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing is printed."""


@contextlib.contextmanager
def _serving(folder: Path, port: int) -> Iterator[type[_Provider]]:
    """A provider; yields its class, whose ``heard``, ``leads`` and ``status`` are its own."""
    handler = type("Provider", (_Provider,), {"heard": list[str]()})
    server = ThreadingHTTPServer(("127.0.0.1", port), handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "server.pem", folder / "server.key")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield handler
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)


class _Ways:
    """What the attacker does, and what it must not reach."""

    def __init__(self, target: Target, guarded: type[_Provider], lure: type[_Provider]) -> None:
        self._target, self._guarded, self._lure = target, guarded, lure
        ports = json.loads((target.config.with_name(PLACE) / "ports.json").read_text())
        self._registry, self._ports = int(ports["registry"]), {"port": ports["guarded"], "lure": ports["lure"]}

    def url(self, form: str) -> str:
        return form.format(**self._ports)

    def ask(self, agent: str, method: str, path: str, given: Any, **headers: str) -> Answer:
        """One request over AGTP, by an agent's certificate; by nobody's where it is empty."""
        context = client_context(self._target, identified=bool(agent), agent=agent or "demo")
        return answered(self._target, context, request(method, path, given, **headers))

    def over_http(self, token: str, method: str, path: str, given: Any) -> int:
        """The status of one request to the registry over HTTP, by a token; by nobody's where it is empty."""
        context = client_context(self._target, identified=False)
        connection = http.client.HTTPSConnection("127.0.0.1", self._registry, timeout=20, context=context)
        fields = {"Content-Type": "application/json", **({"Authorization": f"Bearer {token}"} if token else {})}
        with contextlib.closing(connection):
            connection.request(method, path, json.dumps(given), fields)
            self._target.arrived(1)
            return connection.getresponse().status

    def register(self, endpoint: str, operations: Any = None, agent: str = NARROW) -> Answer:
        """REGISTER of the attacker's card."""
        sent = card(id=f"{NARROW}:door", endpoint=endpoint, operations=operations, inputs=None, outputs=None)
        return self.ask(agent, "REGISTER", "/cards", {"card": sent, "public": True})

    def require_unheard(self, what: str) -> None:
        """Nothing came to the guarded provider, and the open one never got its key."""
        assert self._guarded.heard == [], f"the guarded provider was called by {what}"
        assert KEY not in self._lure.heard, f"the open provider got the guarded one's key by {what}"

    # Ways

    def call(self, url: str) -> None:
        """Have the card called by every way that there is, without the scope."""
        door = f"/cards/{NARROW}:door"
        called: Mapping[str, Any] = {"method": "EXECUTE", "path": door, "parameters": {"parameters": {}}}
        ways: tuple[tuple[str, str, Any], ...] = (
            ("EXECUTE", door, {"parameters": {}}),
            ("EXECUTE", door, {"batch": [{}, {}]}),
            ("EXECUTE", door, {"action": "pay", "parameters": {}}),
            ("BATCH", "/", {"calls": [called, called], "partial_success": True}),
            ("CHAIN", "/", {"steps": [called]}),
            ("CHAIN", "/", {"steps": [called], "background": True}),
            ("RETRY", "/", {"original_task_id": "t-door"}),
            ("CHECK", "/", {"target": f"card:{NARROW}:door"}),
            ("RENEW", door, {}),
        )
        for method, path, given in ways:
            self.ask(NARROW, method, path, given, Task_ID="t-door")
            self.ask(NARROW, method, path, given, Idempotency_Key=f"k-{method}")
        self.ask("other", "EXECUTE", door, {"parameters": {}}, Authority_Scope="documents:query")
        self.ask("", "EXECUTE", door, {"parameters": {}})
        for token in (TOKENS[NARROW], ""):
            for path in ("invoke", "pay"):
                self.over_http(token, "POST", f"/agents/{NARROW}:door/{path}", {})
                self.over_http(token, "POST", f"/agents/{NARROW}:door/{path}", [{}, {}])
        self.require_unheard(url)

    def spelled(self, number: int) -> None:
        """The guarded provider, as endpoint of the card and of an operation, in each spelling."""
        url = self.url(SPELLED[number % len(SPELLED)])
        inner = number % 2
        made = self.register(
            self.url("https://localhost:{lure}/") if inner else url, [_operation(url)] if inner else None
        )
        assert made.status == 200, (made.status, made.reason, url)
        assert "public" not in made.json()["result"], "an agent made its card public"
        self.call(url)

    def elsewhere(self, number: int) -> None:
        """The same place by URLs that no provider has."""
        url = self.url(ELSEWHERE[number % len(ELSEWHERE)])
        for operations in (None, [_operation(url)]):
            made = self.register(self.url("https://localhost:{lure}/") if operations else url, operations)
            if made.status == 200:
                self.call(url)
        self.require_unheard(url)

    def led(self, number: int) -> None:
        """The open provider points to the guarded one, with each status that can."""
        self._lure.status = (300, 301, 302, 303, 305, 307, 308, 401, 404, 405, 421, 200)[number % 12]
        self._lure.leads = self.url("https://localhost:{port}/pay")
        assert self.register(self.url("https://localhost:{lure}/pay")).status == 200
        self.call(f"an answer of {self._lure.status}")
        # The card itself is fetched from there, too.
        self.ask(NARROW, "REGISTER", "/cards", {"url": self.url("https://localhost:{lure}/card.json")})
        self.ask(NARROW, "REGISTER", "/cards", {"url": self.url("https://localhost:{port}/card.json")})
        self.require_unheard(f"a fetch answered with {self._lure.status}")
        self._lure.status, self._lure.leads = 200, ""

    def changed(self) -> None:
        """The card leads to the open provider, is called, and leads to the guarded one while it is called."""
        opened, guarded = self.url("https://localhost:{lure}/pay"), self.url("https://localhost:{port}/pay")
        assert self.register(opened).status == 200
        done = self.ask(NARROW, "EXECUTE", f"/cards/{NARROW}:door", {"parameters": {}})
        assert done.status == 200, (done.status, done.reason)
        stop = threading.Event()

        def turn() -> None:
            while not stop.is_set():
                for url in (guarded, opened):
                    self.register(url)

        turning = threading.Thread(target=turn, daemon=True)
        turning.start()
        try:
            for _ in range(6):
                self.ask(NARROW, "EXECUTE", f"/cards/{NARROW}:door", {"batch": [{}] * 10})
        finally:
            stop.set()
            turning.join(30)
        self.require_unheard("a card that changes while it is called")

    def control(self) -> None:
        """Who has the scope reaches the provider by the same card, over AGTP and over HTTP."""
        assert self.register(self.url("https://localhost:{port}/pay")).status == 200
        done = self.ask("other", "EXECUTE", f"/cards/{NARROW}:door", {"parameters": {}})
        assert (done.status, self._guarded.heard) == (200, [KEY]), (done.status, done.reason)
        assert self.over_http(TOKENS["demo"], "POST", f"/agents/{NARROW}:door/invoke", {}) == 200
        assert self._guarded.heard == [KEY, KEY]
        self._guarded.heard.clear()


def _operation(url: str) -> dict[str, Any]:
    return {"name": "pay", "endpoint": url}


def card_by_other_ways(target: Target, seconds: float) -> None:
    """See :class:`_Ways`."""
    place = target.config.with_name(PLACE)
    ports = json.loads((place / "ports.json").read_text())
    with _serving(place, int(ports["guarded"])) as guarded, _serving(place, int(ports["lure"])) as lure:
        ways = _Ways(target, guarded, lure)
        for turn in turns(seconds, most=40, least=2):
            ways.spelled(turn)
            ways.elsewhere(turn)
            ways.led(turn)
        ways.changed()
        ways.control()


ATTACKS = (
    Attack(
        name="card-by-other-ways",
        who="agent",
        says="A card leads to a guarded provider, by redirects, spellings, lists, tokens and changes: none reaches it.",
        run=card_by_other_ways,
        configure=with_ways,
    ),
)
