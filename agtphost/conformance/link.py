"""
Links to the target: raw bytes, over TLS with the standard library's blocking sockets.

:mod:`.quic` has the link over QUIC. This module shares no code with a server (the package documents the shared
parts): bytes are sent unchanged, and answers are parsed strictly by core v08 section 5.4.1.
"""

from __future__ import annotations

import json
import re
import socket
import ssl
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any, Self

from agtphost.conformance.verdict import Failure
from agtphost.vocabulary.foreign_errors import explain

MAX_HEAD = 1 << 18
MAX_BODY = 1 << 28
RECEIVE = 1 << 16

_AUTHORIZATION_REQUIRED = 262

_STATUS_LINE = re.compile(rb"AGTP/1\.0 ([0-9]{3}) ([\t\x20-\x7e]*)", re.ASCII)
_LENGTH = re.compile(r"[0-9]{1,10}", re.ASCII)


class Unreachable(Exception):
    """No connection to the target, or no TLS."""


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """The address at which the target listens."""

    host: str
    port: int


@dataclass(frozen=True, kw_only=True)
class RawAnswer:
    """A response of the target."""

    status: int
    text: str
    fields: tuple[tuple[str, str], ...]
    """The fields as received, in order."""

    body: bytes
    head: bytes
    """The first line and the fields, including CRLFs."""

    request: bytes = b""
    """The request, if one request was sent for one answer."""

    @cached_property
    def headers(self) -> dict[str, str]:
        """The fields by lower-case name; the last value of repeated ones."""
        return {name.lower(): value for name, value in self.fields}

    def header(self, name: str) -> str | None:
        """Return the value of a field, or None."""
        return self.headers.get(name.lower())

    @cached_property
    def digest(self) -> str:
        """The SHA-256 of the body, in hexadecimal."""
        return sha256(self.body).hexdigest()

    @cached_property
    def content_type(self) -> str:
        """The media type without parameters, lower case; empty if there is none."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    @cached_property
    def value(self) -> Any:
        """
        The body as JSON.

        :raises Failure: the body is not JSON.
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
        """``result`` of the envelope, or the body if it has no envelope."""
        value = self.value
        return value["result"] if isinstance(value, dict) and "result" in value else value

    @property
    def tokens(self) -> set[str]:
        """Every token that may name the reason of a refusal."""
        members = self.value if self.body and isinstance(self.value, dict) else {}
        named = [members.get(name) for name in ("reason", "type", "code", "error")]
        nested = members.get("error")
        if isinstance(nested, dict):
            named += (nested.get("code"), nested.get("reason"), nested.get("type"))
        return {item for item in named if isinstance(item, str)}

    @property
    def refusal(self) -> str:
        """Status and reason of a refusal, which may be the cause of many failures; empty for other answers."""
        return str(self) if self.status >= 300 or self.status == _AUTHORIZATION_REQUIRED else ""

    def __str__(self) -> str:
        named = "/".join(sorted(self.tokens)) if self.status not in range(200, 204) and self.body[:1] == b"{" else ""
        return f"{self.status}{f' {named}' if named else ''}"


def parse(head: bytes) -> tuple[int, str, tuple[tuple[str, str], ...]]:
    """
    Parse the head of a response.

    :param head: the head without the empty line.
    :raises Failure: the head breaks core v08 section 5.4.1.
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
    """The credentials of one role."""

    cert: Path | None = None
    key: Path | None = None
    agent_id: str | None = None


def client_context(cacert: Path | None, shown: Credentials) -> ssl.SSLContext:
    """
    Return a context that trusts only ``cacert``, or the system's authorities.

    :raises Unreachable: a file cannot be used.
    """
    try:
        context = ssl.create_default_context(cafile=str(cacert) if cacert is not None else None)
        if shown.cert is not None:
            context.load_cert_chain(shown.cert, shown.key)
    except (OSError, ssl.SSLError) as error:
        raise Unreachable(f"certificates or keys cannot be used: {explain(error)}") from error
    return context


class Link(ABC):
    """
    Requests one after the other, and the answers to them, as raw bytes.

    :param timeout: most seconds for a single operation.
    """

    def __init__(self, timeout: float) -> None:
        self.timeout = timeout
        self.buffer = bytearray()
        """Bytes of answers that were received and not read."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()

    @property
    @abstractmethod
    def has_ended(self) -> bool:
        """Whether the connection is over."""

    @property
    @abstractmethod
    def version(self) -> str:
        """The version of TLS that was negotiated, as the standard library names it."""

    @property
    @abstractmethod
    def is_verified(self) -> bool:
        """Whether the target has shown a certificate that is trusted and names it."""

    @abstractmethod
    def close(self) -> None:
        """End the connection without sending anything more of a request."""

    @abstractmethod
    def send(self, octets: bytes) -> None:
        """Send all bytes; if the target has closed the connection, keep its last output for reading."""

    def send_whole(self, octets: bytes) -> None:
        """Send a request to its end, which some carriers mark."""
        self.send(octets)

    @abstractmethod
    def _more(self, seconds: float, *, late: bool = False) -> bool:
        """Receive data and return False at the end or after a timeout. With ``late``, a timeout is a failure."""

    def answer(self, request: bytes = b"") -> RawAnswer | None:
        """
        Return the next response, or None if the target closed the connection.

        :raises Failure: the response is malformed, truncated or late.
        """
        deadline = time.monotonic() + self.timeout
        while (end := self.buffer.find(b"\r\n\r\n")) < 0:
            if len(self.buffer) > MAX_HEAD:
                raise Failure(f"the head of the response is longer than {MAX_HEAD} bytes")
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
        return RawAnswer(status=status, text=text, fields=fields, body=body, head=head, request=request)

    @staticmethod
    def _length(status: int, fields: tuple[tuple[str, str], ...]) -> int:
        found = [value for name, value in fields if name.lower() == "content-length"]
        if len(found) != 1 or not _LENGTH.fullmatch(found[0]):
            raise Failure(f"the response {status} has {found or 'no'} Content-Length")
        if int(found[0]) > MAX_BODY:
            raise Failure(f"the response {status} announces {found[0]} bytes")
        return int(found[0])

    def quiet(self, seconds: float) -> bool:
        """Return whether the target sends nothing for a while and keeps the connection open."""
        return not self.buffer and not self._more(seconds) and not self.has_ended

    def closes(self) -> bool:
        """Return whether the target ends what the last answer was sent on in time, without sending more."""
        while not self.has_ended:
            if self.buffer or not self._more(self.timeout):
                break
        return self.has_ended and not self.buffer


class TlsLink(Link):
    """
    A connection to the target over TLS.

    :param where: the address of the target.
    :param context: credentials and trust anchors of the client.
    """

    def __init__(self, where: Endpoint, context: ssl.SSLContext, timeout: float = 10.0) -> None:
        super().__init__(timeout)
        self._ended = False
        self._socket = _connect(where, context, timeout)

    @property
    def has_ended(self) -> bool:
        """Whether the connection is over."""
        return self._ended

    @property
    def version(self) -> str:
        """The version of TLS that was negotiated."""
        return self._socket.version() or "none"

    @property
    def is_verified(self) -> bool:
        """Whether the target has shown a certificate that is trusted and names it."""
        return bool(self._socket.getpeercert())

    def close(self) -> None:
        """Close the connection without sending anything."""
        self._ended = True
        self._socket.close()

    def send(self, octets: bytes) -> None:
        """Send all bytes; if the target has closed the connection, keep its last output for reading."""
        try:
            self._socket.sendall(octets)
        except OSError:
            while self._more(self.timeout):
                pass
            self._ended = True

    def _more(self, seconds: float, *, late: bool = False) -> bool:
        if self._ended:
            return False
        try:
            self._socket.settimeout(max(seconds, 0.001))
            octets = self._socket.recv(RECEIVE)
        except TimeoutError:
            if late:
                raise Failure(f"no response within {self.timeout:g} s") from None
            return False
        except OSError:
            octets = b""
        finally:
            if not self._ended:
                self._socket.settimeout(self.timeout)
        if not octets:
            self._ended = True
        self.buffer += octets
        return bool(octets)


def _connect(where: Endpoint, context: ssl.SSLContext, timeout: float) -> ssl.SSLSocket:
    raw: socket.socket | None = None
    try:
        raw = socket.create_connection((where.host, where.port), timeout=timeout)
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return context.wrap_socket(raw, server_hostname=where.host)
    except (OSError, ValueError) as error:
        if raw is not None:
            raw.close()
        raise Unreachable(f"no connection to {where.host} port {where.port}: {explain(error)}") from error
