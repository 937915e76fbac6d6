"""Octets that strangers and agents send on a live host: CBOR and DER that is none, and streams that nobody reads."""

from __future__ import annotations

import base64
import contextlib
import json
import socket
import ssl
import time
import uuid

from tests.attacks.attack import MIB, Attack, Target
from tests.attacks.strikes import agent_of, each_alone
from tests.system.raw_link import Answer, request

READERS = 40
"""Clients of one address; it has 64 connections."""

CBOR = (
    b"\x9f" * 60_000,  # lists without an end, in each other
    b"\x81" * 60_000,  # lists of one, in each other
    b"\x5b" + b"\xff" * 8,  # a text of 2**64 - 1 octets, of which none comes
    b"\x9b" + b"\xff" * 8 + b"\x00" * 1_000,
    b"\xbf" + b"\x61a\x00" * 10_000 + b"\xff",  # one name ten thousand times
    b"\xc2\x59\xff\xff" + b"\xff" * 65_535,  # a number of half a million bits
    b"\xd2\x84\x43\xa1\x01\x27\xa0\x5a\x00\x0f\xff\xff" + b"\xd2\x84" * 20_000,  # COSE_Sign1 in COSE_Sign1
    b"\xd8\x1c" * 20_000,  # what is shared, of what is shared
)
DER = (
    b"\x30\x80" * 30_000,  # sequences without an end
    b"\x30\x84\xff\xff\xff\xff",  # 4 GiB, of which none comes
    b"\x30\x82\x7f\xff" + b"\x06\x82\x10\x00" + b"\xff" * 32_000,  # a name of endless arcs
    b"\x30\x82\x20\x00" + b"\x02\x82\x1f\xf0" + b"\x7f" * 8_176,  # a number of 65,000 bits
)
TYPES = {
    "application/cose": CBOR,
    "application/cbor": CBOR,
    'application/cose; cose-type="cose-sign1"': CBOR,
    "application/pkix-cert": DER,
    "application/ocsp-request": DER,
    "application/vnd.agtp+json": (*CBOR, *DER),
}


def _body(method: str, path: str, kind: str, octets: bytes) -> bytes:
    head = f"AGTP/1.0 {method} {path}\r\nContent-Type: {kind}\r\nContent-Length: {len(octets)}\r\n\r\n"
    return head.encode() + octets


def _messages(target: Target) -> list[bytes]:
    text = {"item": "x", "amount": "1.00 EUR", "principal_id": "p"}
    tokens = [base64.urlsafe_b64encode(octets[:4_000]).rstrip(b"=").decode() for octets in (*CBOR, *DER)]
    own = agent_of(target, "demo")
    found = [
        _body(method, path, kind, octets)
        for kind, bodies in TYPES.items()
        for octets in bodies
        for method, path in (("ACTIVATE", "/"), ("PURCHASE", "/"), ("CONFIRM", "/checkpoints"))
    ]
    for token in tokens:
        found.append(request("PURCHASE", "/", text, Intent_Assertion=f"{token}.{token[:1_000]}.{token[:86]}"))
        found.append(request("PURCHASE", "/", text, Intent_Assertion=token))
        found.append(request("ACTIVATE", "/", {"genesis": {"cose": token}, "certificate": token, "agent_id": own}))
        found.append(request("CONFIRM", "/checkpoints", {"checkpoint": token, "proof": [token]}))
    return found


def _refused(message: bytes, answer: Answer | None) -> None:
    status = None if answer is None else answer.status
    assert status is None or 400 <= status < 500 or status in (501, 551), (message[:160], answer)


def odd_octets(agent: str | None):  # type: ignore[no-untyped-def]
    def run(target: Target, seconds: float) -> None:
        each_alone(target, seconds, _messages(target), _refused, agent=agent)

    return run


def unread_streams(target: Target, seconds: float) -> None:
    """Clients of the A2A front with its token have tasks streamed as events, and read none; cut ones come again."""
    context = ssl.create_default_context(cafile=str(target.state / "ca.pem"))
    token = (target.config.parent / "front.token").read_text().strip()
    end, links = time.monotonic() + seconds, list[ssl.SSLSocket]()
    try:
        while time.monotonic() < end:
            if len(links) < READERS:
                with contextlib.suppress(OSError):
                    links.append(_client(target, context))
            for link in list(links):
                try:
                    link.send(_streamed(token))
                except (BlockingIOError, ssl.SSLWantWriteError):
                    continue
                except OSError:
                    links.remove(link)
                    link.close()
            time.sleep(0.01)
    finally:
        for link in links:
            link.close()


def _client(target: Target, context: ssl.SSLContext) -> ssl.SSLSocket:
    plain = socket.socket()
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    plain.settimeout(5)
    plain.bind(("127.0.3.1", 0))
    plain.connect(("127.0.0.1", target.front))
    link = context.wrap_socket(plain, server_hostname="localhost")
    link.setblocking(False)
    return link


def _streamed(token: str) -> bytes:
    said = {"role": "ROLE_USER", "messageId": uuid.uuid4().hex, "parts": [{"data": {"text": "e" * 8_000}}]}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "SendStreamingMessage", "params": {"message": said}})
    lines = (
        "POST /agents/assistant HTTP/1.1",
        "Host: localhost",
        f"Authorization: Bearer {token}",
        "A2A-Version: 1.0",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
    )
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body.encode()


ATTACKS = (
    Attack(
        name="odd-octets-of-strangers",
        who="stranger",
        says="CBOR and DER without an end, too deep or too large, where bodies, Genesis and assertions are: refused.",
        run=odd_octets(None),
        memory=24 * MIB,
    ),
    Attack(
        name="odd-octets-of-agents",
        who="agent",
        says="The same from an agent with its certificate: refused.",
        run=odd_octets("demo"),
        memory=24 * MIB,
    ),
    Attack(
        name="a2a-streams-unread",
        who="agent",
        says=f"{READERS} clients of the A2A front ask for streams of events and read none: 2 MiB each at the most.",
        run=unread_streams,
        memory=(READERS // 2 + 24) * MIB,
        alone=True,
    ),
)
