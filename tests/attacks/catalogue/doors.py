"""Doors beside the main one: cards that lead to providers of others, addresses in cards, and the operators' page."""

from __future__ import annotations

import contextlib
import http.client
import os
import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from tests.attacks.attack import Attack, Target
from tests.attacks.strikes import answered, turns
from tests.registry.hosts import card
from tests.registry.served import provider_tls
from tests.system.hosting import free_port
from tests.system.raw_link import Answer, RawLink, client_context, request

BANK = "bank"
"""Directory beside ``host.toml`` with the provider's key and certificate, and its port."""

PAGE = "page.port"
KEY = "Bearer the operator's own"
SCOPE = "payments:transfer"
SOURCE = "127.0.3.1"

_SECTIONS = """
[registry]

[[registry.provider]]
origin = "https://localhost:{bank}"
scopes = ["{scope}"]
headers = {{ authorization = "{key}" }}
ca = "{folder}/ca.pem"
allow_addresses = ["127.0.0.0/8", "::1/128"]
timeout = 5

[admin]
listen = "ssl:{page}:interface=127.0.0.1"
"""

SPELLED = (
    "https://localhost:{bank}/pay",
    "HTTPS://LOCALHOST:{bank}/pay",
    "https://localhost.:{bank}/pay",
    "https://localhost:0{bank}/pay",
    "https://localhost:{bank}/open/../pay?to=%2f..%2f",
)
"""The provider's URL, as a card can write it."""

NOWHERE = (
    *("https://[fec0::1]/", "https://[3fff::1]/", "https://[5f00::1]/", "https://192.88.99.1/", "https://[fe80::1]/"),
    *("https://169.254.169.254/latest", "https://[::ffff:169.254.169.254]/", "https://[64:ff9b::a9fe:a9fe]/"),
    *("https://[64:ff9b:1::a00:1]/", "https://[2002:7f00:1::]/", "https://[2001:0:4136:e378:8000:63bf:80ff:fffe]/"),
    *("https://[::10.0.0.1]/", "https://[fc00::1]/", "https://0x7f000001/", "https://192.0.0.192/"),
)
"""Where no agent can be."""


def with_doors(folder: Path) -> None:
    """A registry with a provider that asks for a scope, and a page."""
    bank, page = free_port(), free_port()
    (folder / BANK).mkdir()
    root, _ = provider_tls(folder / BANK)
    (folder / BANK / "ca.pem").write_bytes(root.pem())
    (folder / BANK / "port").write_text(str(bank))
    (folder / PAGE).write_text(str(page))
    key = folder / BANK / "key"
    key.touch(mode=0o600)
    key.write_text(KEY)
    with (folder / "host.toml").open("a") as file:
        file.write(_SECTIONS.format(bank=bank, page=page, folder=BANK, key=f"file:{BANK}/key", scope=SCOPE))


class _Bank(BaseHTTPRequestHandler):
    """Answers every call, and remembers with which key it came."""

    heard: list[str]

    def do_POST(self) -> None:
        self.heard.append(self.headers.get("Authorization", ""))
        self.rfile.read(int(self.headers.get("Content-Length", "0")))
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", "13")
        self.end_headers()
        self.wfile.write(b'{"done":true}')

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing is printed."""


@contextlib.contextmanager
def _bank(target: Target) -> Iterator[list[str]]:
    """The provider; yields the keys that it was called with."""
    folder, heard = target.config.with_name(BANK), list[str]()
    server = ThreadingHTTPServer(
        ("127.0.0.1", int((folder / "port").read_text())), type("Bank", (_Bank,), {"heard": heard})
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "server.pem", folder / "server.key")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield heard
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)


def _ask(target: Target, agent: str, method: str, path: str, given: Any, **headers: str) -> Answer:
    """One request on a connection of its own."""
    context = client_context(target, identified=bool(agent), agent=agent or "demo")
    return answered(target, context, request(method, path, given, **headers))


def card_of_a_guarded_provider(target: Target, seconds: float) -> None:
    """An agent without the provider's scope registers cards that lead there, and has them called by everybody."""
    bank = int(target.config.with_name(BANK).joinpath("port").read_text())
    # The agents of this host have every scope: they claim less.
    less = {"Authority-Scope": "registry:register"}
    with _bank(target) as heard:
        for turn in turns(seconds, most=40):
            url = SPELLED[turn % len(SPELLED)].format(bank=bank)
            operations = [{"name": "pay", "endpoint": url}] if turn % 2 else None
            endpoint = "https://open.example.com/" if operations else url
            sent = card(id="demo:door", endpoint=endpoint, operations=operations, inputs=None, outputs=None)
            made = _ask(target, "demo", "REGISTER", "/cards", {"card": sent, "public": True}, **less)
            assert made.status == 200, (made.status, made.reason, url)
            assert "public" not in made.json()["result"], "an agent made its card public"
            for agent in ("demo", "other", ""):
                claim = less if agent else {}
                for given in ({"parameters": {}}, {"batch": [{}, {}]}, {"action": "pay", "parameters": {}}):
                    _ask(target, agent, "EXECUTE", "/cards/demo:door", given, **claim)
            assert heard == [], f"the provider was called by {url} with the operator's key"
        # The control: who has the scope reaches the provider by the same card.
        sent = card(id="demo:door", endpoint=SPELLED[0].format(bank=bank), inputs=None, outputs=None)
        assert _ask(target, "demo", "REGISTER", "/cards", {"card": sent}).status == 200
        done = _ask(target, "other", "EXECUTE", "/cards/demo:door", {"parameters": {}})
        assert (done.status, heard) == (200, [KEY]), (done.status, done.reason, heard)


def cards_of_nowhere(target: Target, seconds: float) -> None:
    """Cards and URLs of cards at addresses of this machine, its network, clouds, and of no network at all."""
    for turn in turns(seconds, most=200):
        url = NOWHERE[turn % len(NOWHERE)]
        given = {"url": url} if turn % 2 else {"card": card(id="demo:nowhere", endpoint=url)}
        answer = _ask(target, "demo", "REGISTER", "/cards", given)
        assert answer.status in (422, 429), (url, answer.status, answer.reason)


GUESSES = 40
"""Wrong tokens that an attack sends at least: twice as many as barred an address before."""


def wrong_page_tokens(target: Target, seconds: float) -> None:
    """Strangers at an operator's address send wrong tokens; the operator's link opens the page all the same."""
    port = int(target.config.with_name(PAGE).read_text())
    context = client_context(target, identified=False)
    operator = client_context(target, identified=False)
    operator.load_cert_chain(target.state / "registrar.pem", target.state / "registrar.key")
    statuses: list[int] = []
    # One connection: handshakes of an address have a limit of their own, which is no matter of tokens.
    guessing = http.client.HTTPSConnection("127.0.0.1", port, context=context, timeout=20)
    with contextlib.closing(guessing):
        for turn in turns(max(seconds, 0.5), most=4_000, least=GUESSES):
            statuses.append(_entered(guessing, os.urandom(32).hex()))
            target.arrived(1)
            if turn % 200 == 30:
                _enter_well(target, port, context, operator)
    _enter_well(target, port, context, operator)
    assert set(statuses) <= {403, 429}, set(statuses)
    assert len(statuses) >= GUESSES


def _enter_well(target: Target, port: int, context: ssl.SSLContext, operator: ssl.SSLContext) -> None:
    with RawLink(target, context=operator, source=SOURCE) as link:
        given = {"subject": "self", "resource": "/page", "scope": "page:enter"}
        answer = link.ask("AUTHORIZE", "/page", given)
    assert answer.status == 200, (answer.status, answer.reason)
    own = http.client.HTTPSConnection("127.0.0.1", port, context=context, timeout=20)
    with contextlib.closing(own):
        assert (status := _entered(own, answer.json()["result"]["url"])) == 303, f"a good link is barred: {status}"


def _entered(connection: http.client.HTTPSConnection, token: str) -> int:
    fields = {"Content-Type": "application/x-www-form-urlencoded"}
    try:
        connection.request("POST", "/enter", urlencode({"token": token}), fields)
        response = connection.getresponse()
    except (OSError, http.client.HTTPException):
        # Closed after an answer: once more, on a new connection.
        connection.close()
        connection.request("POST", "/enter", urlencode({"token": token}), fields)
        response = connection.getresponse()
    response.read()
    return response.status


ATTACKS = (
    Attack(
        name="card-of-a-guarded-provider",
        who="agent",
        says="A card leads to a provider that its maker has no scope for: nobody without the scope reaches it by that.",
        run=card_of_a_guarded_provider,
        configure=with_doors,
    ),
    Attack(
        name="cards-of-nowhere",
        who="agent",
        says="Cards at special addresses in every spelling: refused, on every Python.",
        run=cards_of_nowhere,
        configure=with_doors,
    ),
    Attack(
        name="wrong-page-tokens",
        who="stranger",
        says="Wrong tokens from an operator's address: answered shortly, and a good link enters at any time.",
        run=wrong_page_tokens,
        configure=with_doors,
    ),
)
