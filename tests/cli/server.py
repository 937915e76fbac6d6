"""
An AGTP server of the standard library's TLS and our own framing, for commands to talk to.

It answers from a table and signs a record of every answer, as a host does;
what a host decides is tested where the host is.
"""

from __future__ import annotations

import hashlib
import json
import socket
import ssl
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from agtphost.identity import jws
from agtphost.identity.certificates import parse_peer_certificate
from agtphost.identity.keys import SigningKey
from agtphost.vocabulary.identifiers import ZERO_AUDIT_ID
from agtphost.wire.connection import Connection, Role
from agtphost.wire.events import Request, Response, Signal
from agtphost.wire.headers import Headers

IGNORE_CRITICAL = 0x10
"""OpenSSL's flag: the AGTP extensions are critical, and checked elsewhere."""


@dataclass
class Exchange:
    """One request as it arrived."""

    request: Request
    agent: str | None
    """The Agent-ID of the client certificate."""

    subject: str | None
    """The subject of the client certificate; None where there was none."""

    @property
    def body(self) -> Any:
        return json.loads(self.request.body) if self.request.body else None

    @property
    def input(self) -> Any:
        """The parameters, enveloped or bare."""
        body = self.body
        return body.get("parameters", body) if isinstance(body, dict) else body


@dataclass
class Answer:
    """What the table says."""

    body: Any
    status: int = 200
    interims: list[Any] = field(default_factory=list)
    headers: list[tuple[str, str]] = field(default_factory=list)
    forged: bool = False
    """Whether the body differs from what the record says."""

    raw: bytes | None = None
    kind: str = "application/vnd.agtp+json"
    """Content-Type."""


Handler = Callable[[Exchange], Answer]


class AgtpServer:
    """Serves ``answers`` by ``(method, path)`` until the ``with`` block ends; ``seen`` is what arrived."""

    def __init__(self, state: Path) -> None:
        self.state = state
        self.answers: dict[tuple[str, str], Answer | Handler] = {}
        self.seen: list[Exchange] = []
        self._key = SigningKey.load(state / "signing.key")
        self._protected = jws.protected_header(self._key)
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.minimum_version = ssl.TLSVersion.TLSv1_3
        self._context.load_cert_chain(state / "server.pem", state / "server.key")
        self._context.load_verify_locations(state / "ca.pem")
        self._context.verify_mode = ssl.CERT_OPTIONAL
        self._context.verify_flags |= IGNORE_CRITICAL  # type: ignore[operator]
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._socket.getsockname()[1])
        self._stopping = False
        self._thread = threading.Thread(target=self._accept, daemon=True)

    @property
    def uri(self) -> str:
        return f"agtp://127.0.0.1:{self.port}"

    def __enter__(self) -> AgtpServer:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopping = True
        with socket.create_connection(("127.0.0.1", self.port)):
            pass
        self._thread.join(5)
        self._socket.close()

    def _accept(self) -> None:
        while True:
            raw, _ = self._socket.accept()
            if self._stopping:
                raw.close()
                return
            threading.Thread(target=self._serve, args=(raw,), daemon=True).start()

    def _serve(self, raw: socket.socket) -> None:
        raw.settimeout(10)
        try:
            with raw, self._context.wrap_socket(raw, server_side=True) as channel:
                self._talk(channel)
        except (OSError, ssl.SSLError):
            return

    def _talk(self, channel: ssl.SSLSocket) -> None:
        der = channel.getpeercert(binary_form=True)
        peer = None if der is None else parse_peer_certificate(der)
        connection = Connection(Role.SERVER)
        while True:
            event = connection.next_event()
            if event is Signal.NEED_DATA:
                connection.receive(channel.recv(65536))
            elif isinstance(event, Request):
                exchange = Exchange(
                    request=event,
                    agent=None if peer is None else peer.agent_id,
                    subject=None if peer is None else peer.subject,
                )
                self.seen.append(exchange)
                answer = self._answer(exchange)
                for number, interim in enumerate(answer.interims):
                    body = {"status": 202, "result": {"event": interim}}
                    token = [("Continuation-Token", str(number))]
                    message = self._response(event, Answer(body, 202, headers=token))
                    channel.sendall(connection.send(message, final=False))
                channel.sendall(connection.send(self._response(event, answer)))
            else:
                return

    def _answer(self, exchange: Exchange) -> Answer:
        found = self.answers.get((exchange.request.method, exchange.request.path))
        if found is None:
            return Answer({"status": 404, "reason": "not-found", "explanation": "Nothing is here."}, 404)
        return found if isinstance(found, Answer) else found(exchange)

    def _response(self, request: Request, answer: Answer) -> Response:
        body = answer.raw if answer.raw is not None else json.dumps(answer.body).encode()
        payload = {
            "agent_id": "",
            "audit_record_version": "1",
            "issued_at": "2026-01-01T00:00:00Z",
            "method": request.method,
            "path": request.path,
            "previous_audit_id": ZERO_AUDIT_ID,
            "request_hash": hashlib.sha256(request.line + request.body).hexdigest(),
            "response_id": "0190b1a2-0000-7000-8000-000000000000",
            "result_hash": hashlib.sha256(body).hexdigest(),
            "server_id": "localhost",
            "status": answer.status,
        }
        record = jws.compact(self._protected, json.dumps(payload, sort_keys=True).encode(), self._key)
        fields = [
            ("Server-ID", "localhost"),
            ("Response-ID", str(payload["response_id"])),
            ("Audit-ID", hashlib.sha256(record.encode()).hexdigest()),
            ("Attribution-Record", record),
            ("Content-Type", answer.kind),
            *answer.headers,
        ]
        return Response(status=answer.status, headers=Headers(fields), body=body + b" " * answer.forged)

    def manifest(self) -> Answer:
        """What ``DISCOVER /`` answers strangers: the keys that records are signed with."""
        key = self._key.public
        keys = [{"kid": key.kid, "alg": "EdDSA", "key": key.text}]
        return Answer({"server": {"server_id": "localhost", "signing_keys": keys}})
