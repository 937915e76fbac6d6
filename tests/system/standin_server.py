"""
A server that speaks AGTP in another way than ours, and as legally.

It reads parameters at the top of the body and knows no envelope, asks every
caller for an Agent-ID, names the reason of a refusal by ``error`` alone,
answers without an envelope, signs nothing and publishes a manifest without
endpoints.
"""

from __future__ import annotations

import json
import socket
import ssl
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

JSON = "application/vnd.agtp+json"
AGENT = "a" * 64
"""The one agent that is hosted, and may call."""

REVOKED = "b" * 64

MANIFEST = {
    "agtp_version": "1.0",
    "server": {"server_id": "standin.example", "operator": "A test", "contact": "nobody@standin.example"},
    "hosted_agents": [],
    "endpoints": [],
    "policies": {},
}

WORDS = {
    200: "OK",
    400: "Bad Request",
    401: "Unauthorized",
    404: "Not Found",
    405: "Method Not Allowed",
    410: "Gone",
    422: "Unprocessable Entity",
    459: "Method Violation",
}
MOST = 1 << 20
METHODS = ("DISCOVER", "DESCRIBE", "QUERY", "INSPECT", "EXECUTE")


class Refusal(Exception):
    """A status, a code and a sentence."""


def decide(method: str, path: str, fields: dict[str, str], body: bytes) -> Any:
    """The body of a 200. :raises Refusal: for everything else."""
    if "agent-id" not in fields:
        raise Refusal(401, "agent-id-required", "Say who you are by Agent-ID.")
    if fields["agent-id"] == REVOKED:
        raise Refusal(410, "agent-revoked", "That agent is gone.")
    if fields["agent-id"] != AGENT:
        raise Refusal(401, "agent-unauthenticated", "Nobody knows that agent.")
    if method not in METHODS:
        raise Refusal(459, "method-violation", "That is no method of this server.")
    try:
        given = json.loads(body) if body else {}
    except (ValueError, RecursionError):
        raise Refusal(400, "malformed-body", "The body is no JSON.") from None
    if not isinstance(given, dict) or "parameters" in given:
        raise Refusal(400, "malformed-body", "Parameters are the members of the body here.")
    if (method, path) == ("DISCOVER", "/"):
        return MANIFEST
    if (method, path) == ("QUERY", "/"):
        if not isinstance(given.get("intent"), str):
            raise Refusal(422, "missing-parameter", "Send an intent.")
        return {"intent": given["intent"]}
    if (method, path) == ("INSPECT", "/"):
        raise Refusal(404, "record-not-found", "No record is kept.")
    if method == "DISCOVER" and path in ("/methods", "/agents"):
        return []
    raise Refusal(404, "not-found", "Nothing is there.")


def framed(octets: bytes) -> tuple[str, str, dict[str, str], int]:
    """Method, path, fields and length. :raises Refusal: for what is no request."""
    first, *lines = octets.decode("latin-1").split("\r\n")
    tokens = first.split(" ")
    if tokens[0] != "AGTP/1.0" or len(tokens) not in (2, 3) or "" in tokens or not first.isascii() or "#" in first:
        raise Refusal(400, "bad-request", "That is no request line.")
    path = tokens[2] if len(tokens) == 3 else "/"
    if not path.startswith("/") or path.startswith("//"):
        raise Refusal(400, "bad-request", "That is no path.")
    fields = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or name != name.strip() or not name:
            raise Refusal(400, "bad-request", "That is no field.")
        fields[name.lower()] = value.strip()
    length = fields.get("content-length", "0")
    if not (length.isascii() and length.isdigit()):
        raise Refusal(400, "bad-request", "That is no length.")
    return tokens[1], path.partition("?")[0], fields, int(length)


class Attended:
    """One connection."""

    def __init__(self, tls: ssl.SSLSocket) -> None:
        self._tls = tls
        self._octets = b""

    def _until(self, there: Callable[[], bool]) -> bool:
        while not there():
            more = self._tls.recv(65536)
            if not more or len(self._octets) > MOST:
                return False
            self._octets += more
        return True

    def serve(self) -> bool:
        """One request, one answer; whether another may follow."""
        if not self._until(lambda: b"\r\n\r\n" in self._octets):
            return False
        head, _, self._octets = self._octets.partition(b"\r\n\r\n")
        task, whole = "", False
        try:
            method, path, fields, length = framed(head)
            task = fields.get("task-id", "")
            if length > MOST or not self._until(lambda: len(self._octets) >= length):
                raise Refusal(400, "bad-request", "That is no body.")
            body, self._octets, whole = self._octets[:length], self._octets[length:], True
            status, said = 200, decide(method, path, fields, body)
        except Refusal as refusal:
            status, code, message = refusal.args
            said = {"error": {"code": code, "message": message}}
        content = json.dumps(said).encode()
        lines = [
            f"AGTP/1.0 {status} {WORDS[status]}",
            "Server-ID: standin.example",
            f"Response-ID: {uuid.uuid4()}",
            *([f"Task-ID: {task}"] if task else []),
            f"Content-Type: {JSON}",
            f"Content-Length: {len(content)}",
        ]
        self._tls.sendall("\r\n".join(lines).encode() + b"\r\n\r\n" + content)
        return whole


@contextmanager
def standing_in(certificate: Path, key: Path) -> Iterator[int]:
    """The port of one that runs."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.load_cert_chain(certificate, key)

    def attend(raw: socket.socket) -> None:
        try:
            raw.settimeout(10)
            with context.wrap_socket(raw, server_side=True) as tls:
                connection = Attended(tls)
                while connection.serve():
                    pass
        except (OSError, ValueError):
            raw.close()

    def accept() -> None:
        while True:
            try:
                raw, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=attend, args=(raw,), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=accept, daemon=True).start()
        yield int(listener.getsockname()[1])
        listener.shutdown(socket.SHUT_RDWR)
