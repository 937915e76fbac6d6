"""
Raw octets over TLS, with the standard library's blocking sockets.

This module shares no code with a server (the package says what others share): what is sent is sent as it stands, and
what arrives is taken apart by the letter of core v08 section 5.4.1.
"""

from __future__ import annotations

import json
import re
import socket
import ssl
import time
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any

from agtphost.conformance.verdict import Failure

MAX_HEAD = 1 << 18
MAX_BODY = 1 << 28
RECEIVE = 1 << 16

_AUTHORIZATION_REQUIRED = 262

_STATUS_LINE = re.compile(rb"AGTP/1\.0 ([0-9]{3}) ([\t\x20-\x7e]*)", re.ASCII)
_LENGTH = re.compile(r"[0-9]{1,10}", re.ASCII)


class Unreachable(Exception):
    """No connection to the target, or no TLS with it."""


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """Where the target listens."""

    host: str
    port: int


@dataclass(frozen=True, kw_only=True)
class Answer:
    """One response."""

    status: int
    text: str
    fields: tuple[tuple[str, str], ...]
    """As received, in order."""

    body: bytes
    head: bytes
    """The first line and the fields, CRLFs included."""

    request: bytes = b""
    """What was asked, where one request was sent for one answer."""

    @cached_property
    def headers(self) -> dict[str, str]:
        """By lower-case name; of repeated ones the last."""
        return {name.lower(): value for name, value in self.fields}

    def header(self, name: str) -> str | None:
        """The value of a field."""
        return self.headers.get(name.lower())

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the body, hex."""
        return sha256(self.body).hexdigest()

    @cached_property
    def content_type(self) -> str:
        """The media type without parameters, lower case; empty if there is none."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    @cached_property
    def value(self) -> Any:
        """
        The body as JSON.

        :raises Failure: if it is none.
        """
        try:
            return json.loads(self.body)
        except ValueError:
            raise Failure(f"the body of {self} is not JSON: {self.body[:60]!r}") from None

    @property
    def members(self) -> dict[str, Any]:
        """The body, which must be a JSON object."""
        if not isinstance(self.value, dict):
            raise Failure(f"the body of {self} is not a JSON object")
        return self.value

    @property
    def result(self) -> Any:
        """``result`` of the envelope; the body itself where there is no envelope."""
        value = self.value
        return value["result"] if isinstance(value, dict) and "result" in value else value

    @property
    def tokens(self) -> set[str]:
        """Every token by which a refusal may name its reason."""
        members = self.value if self.body and isinstance(self.value, dict) else {}
        named = [members.get(name) for name in ("reason", "type", "code", "error")]
        nested = members.get("error")
        if isinstance(nested, dict):
            named += (nested.get("code"), nested.get("reason"), nested.get("type"))
        return {item for item in named if isinstance(item, str)}

    @property
    def refusal(self) -> str:
        """Status and reason, where it is a refusal: what many cases fail of at once; else empty."""
        return str(self) if self.status >= 300 or self.status == _AUTHORIZATION_REQUIRED else ""

    def __str__(self) -> str:
        named = "/".join(sorted(self.tokens)) if self.status not in range(200, 204) and self.body[:1] == b"{" else ""
        return f"{self.status}{f' {named}' if named else ''}"


def parse(head: bytes) -> tuple[int, str, tuple[tuple[str, str], ...]]:
    """
    Take the head of a response apart.

    :param head: without the empty line.
    :raises Failure: where it breaks core v08 section 5.4.1.
    """
    first, *lines = head.split(b"\r\n")
    match = _STATUS_LINE.fullmatch(first)
    if match is None:
        raise Failure(f"the response line is malformed: {first[:60]!r}")
    fields = []
    for line in lines:
        name, colon, value = line.decode("latin-1").partition(":")
        if not colon or not name or name != name.strip():
            raise Failure(f"a response field is malformed: {line[:60]!r}")
        fields.append((name, value.strip()))
    return int(match[1]), match[2].decode("ascii"), tuple(fields)


@dataclass(frozen=True, kw_only=True)
class Credentials:
    """What one side of a conversation shows."""

    cert: Path | None = None
    key: Path | None = None
    agent_id: str | None = None


def client_context(cacert: Path | None, shown: Credentials) -> ssl.SSLContext:
    """
    A context that trusts ``cacert`` alone, or what the system trusts.

    :raises Unreachable: if the files are not what they should be.
    """
    try:
        context = ssl.create_default_context(cafile=str(cacert) if cacert is not None else None)
        if shown.cert is not None:
            context.load_cert_chain(shown.cert, shown.key)
    except (OSError, ssl.SSLError) as error:
        raise Unreachable(f"certificates or keys cannot be used: {error}") from None
    return context


@dataclass(kw_only=True)
class Link:
    """
    One connection.

    :param where: the target.
    :param context: who connects, trusting what.
    :param timeout: seconds that any one operation may take.
    """

    where: Endpoint
    context: ssl.SSLContext
    timeout: float = 10.0
    server_name: str | None = None
    buffer: bytearray = field(default_factory=bytearray)
    ended: bool = False

    def __post_init__(self) -> None:
        self.socket = self._connect()

    def _connect(self) -> ssl.SSLSocket:
        raw: socket.socket | None = None
        try:
            raw = socket.create_connection((self.where.host, self.where.port), timeout=self.timeout)
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return self.context.wrap_socket(raw, server_hostname=self.server_name or self.where.host)
        except (OSError, ValueError) as error:
            if raw is not None:
                raw.close()
            raise Unreachable(f"no connection to {self.where.host} port {self.where.port}: {error}") from None

    def __enter__(self) -> Link:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()

    def close(self) -> None:
        """Without a word."""
        self.ended = True
        self.socket.close()

    def send(self, octets: bytes) -> None:
        """All of them; where the target has gone away, what it said before is still to be read."""
        try:
            self.socket.sendall(octets)
        except OSError:
            while self._more(self.timeout):
                pass
            self.ended = True

    def answer(self, request: bytes = b"") -> Answer | None:
        """
        The next response; None where the target closed the connection instead.

        :raises Failure: if it is malformed, cut short or late.
        """
        deadline = time.monotonic() + self.timeout
        while (end := self.buffer.find(b"\r\n\r\n")) < 0:
            if len(self.buffer) > MAX_HEAD:
                raise Failure(f"the head of the response is longer than {MAX_HEAD} octets")
            if not self._more(deadline - time.monotonic(), late=True):
                if self.buffer:
                    raise Failure(f"the response was cut short: {bytes(self.buffer[:60])!r}")
                return None
        head = bytes(self.buffer[: end + 2])
        status, text, fields = parse(bytes(self.buffer[:end]))
        length = self._length(status, fields)
        while len(self.buffer) < end + 4 + length:
            if not self._more(deadline - time.monotonic(), late=True):
                raise Failure(f"the body of the response {status} was cut short")
        body = bytes(self.buffer[end + 4 : end + 4 + length])
        del self.buffer[: end + 4 + length]
        return Answer(status=status, text=text, fields=fields, body=body, head=head, request=request)

    @staticmethod
    def _length(status: int, fields: tuple[tuple[str, str], ...]) -> int:
        found = [value for name, value in fields if name.lower() == "content-length"]
        if len(found) != 1 or not _LENGTH.fullmatch(found[0]):
            raise Failure(f"the response {status} has {found or 'no'} Content-Length")
        if int(found[0]) > MAX_BODY:
            raise Failure(f"the response {status} announces {found[0]} octets")
        return int(found[0])

    def _more(self, seconds: float, *, late: bool = False) -> bool:
        """Receive something; False at the end, and where nothing came in time unless that is a failure."""
        if self.ended:
            return False
        try:
            self.socket.settimeout(max(seconds, 0.001))
            octets = self.socket.recv(RECEIVE)
        except TimeoutError:
            if late:
                raise Failure(f"no response within {self.timeout:g} s") from None
            return False
        except OSError:
            octets = b""
        finally:
            if not self.ended:
                self.socket.settimeout(self.timeout)
        if not octets:
            self.ended = True
        self.buffer += octets
        return bool(octets)

    def quiet(self, seconds: float) -> bool:
        """Whether the target says nothing for a while, and stays."""
        return not self.buffer and not self._more(seconds) and not self.ended

    def closes(self) -> bool:
        """Whether the target ends the connection in time, without another octet."""
        while not self.ended:
            if self.buffer or not self._more(self.timeout):
                break
        return self.ended and not self.buffer
