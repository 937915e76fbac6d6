"""
What a fault script writes to, a pipe or a socket, and what a proper answer looks like there.

Standard library alone, and blocking: nothing of the host's own code is on this side.
"""

from __future__ import annotations

import json
import os
import socket
import struct
import sys
import threading
import time
from abc import ABC, abstractmethod

LONG = 600.0
"""Seconds that nobody waits."""

TOOL_RESULT = b'{"content":[{"type":"text","text":"done"}]}'
MESSAGE_RESULT = b'{"message":{"messageId":"m1","role":"ROLE_AGENT","parts":[{"text":"done"}]}}'
RUN = b'{"run_id":"r1","agent_name":"faulty","status":"completed","output":[{"role":"agent","parts":[]}]}'
OUTPUT = b'{"answer":"done"}'

RESULTS = {
    "stdio": TOOL_RESULT,
    "mcp": TOOL_RESULT,
    "https": OUTPUT,
    "a2a": MESSAGE_RESULT,
    "acp": b'{"type":"run.completed","run":' + RUN + b"}",
}
"""What a good result is, as the last event of a stream has it."""


class Carrier(ABC):
    """
    One request that is to be answered badly.

    :param carrier: ``stdio``, ``mcp`` (over HTTP), ``https``, ``a2a`` or ``acp``.
    :param call_id: the JSON-RPC id; None where the carrier has none.
    """

    def __init__(self, carrier: str, call_id: object) -> None:
        self.carrier = carrier
        self.call_id = call_id
        self.streamed = False

    def result(self) -> bytes:
        """A good result."""
        return RUN if self.carrier == "acp" and not self.streamed else RESULTS[self.carrier]

    def text(self, result: bytes, call_id: object = ...) -> bytes:
        """A whole answer with that result, well-formed JSON or not."""
        if self.call_id is None:
            return result
        number = json.dumps(self.call_id if call_id is ... else call_id).encode()
        return b'{"jsonrpc":"2.0","id":' + number + b',"result":' + result + b"}"

    def good(self) -> bytes:
        """A whole good answer."""
        return self.text(self.result())

    def spoilt(self, member: bytes) -> bytes:
        """A whole answer whose result has one member more, of these octets."""
        return self.text(self.result()[:-1] + b',"more":' + member + b"}")

    def error(self, error: bytes) -> bytes:
        """A JSON-RPC answer with those octets for its error."""
        return b'{"jsonrpc":"2.0","id":' + json.dumps(self.call_id).encode() + b',"error":' + error + b"}"

    @abstractmethod
    def say(self, octets: bytes) -> None:
        """Answer, whole."""

    @abstractmethod
    def begin(self) -> None:
        """Begin an answer without saying how long it is."""

    @abstractmethod
    def put(self, octets: bytes) -> None:
        """Go on with it."""

    @abstractmethod
    def note(self, octets: bytes) -> None:
        """A message that is not the answer."""

    @abstractmethod
    def last(self, octets: bytes) -> None:
        """The answer, after messages that were none."""

    @abstractmethod
    def leave(self) -> None:
        """Go away, politely."""

    @abstractmethod
    def hang(self, seconds: float = LONG) -> None:
        """Do nothing."""


class PipeCarrier(Carrier):
    """A request on standard input, answered on standard output."""

    def put(self, octets: bytes) -> None:
        sys.stdout.buffer.write(octets)
        sys.stdout.buffer.flush()

    def say(self, octets: bytes) -> None:
        self.put(octets + b"\n")

    note = last = say

    def begin(self) -> None:
        """Nothing comes before the octets."""

    def leave(self) -> None:
        os._exit(0)

    def hang(self, seconds: float = LONG) -> None:
        time.sleep(seconds)

    def scream(self) -> None:
        """Fill standard error, beside whatever else happens."""

        def forever() -> None:
            while True:
                os.write(2, b"noise " * 2000 + b"\n")

        threading.Thread(target=forever, daemon=True).start()


class SocketCarrier(Carrier):
    """
    A request on a connection.

    :param path: what was asked for.
    """

    def __init__(self, carrier: str, call_id: object, connection: socket.socket, path: str = "/") -> None:
        super().__init__(carrier, call_id)
        self.connection = connection
        self.path = path

    def raw(self, octets: bytes) -> None:
        """Octets below HTTP."""
        self.connection.sendall(octets)

    def reply(self, status: str, body: bytes, *fields: str, kind: str = "application/json") -> None:
        """A whole response."""
        lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *fields]
        if kind:
            lines.append(f"Content-Type: {kind}")
        self.raw("\r\n".join(lines).encode() + b"\r\n\r\n" + body)

    def say(self, octets: bytes) -> None:
        self.reply("200 OK", octets)

    def head(self, *fields: str, kind: str = "application/json") -> None:
        """The head of a response, and nothing more."""
        self.raw("\r\n".join(["HTTP/1.1 200 OK", f"Content-Type: {kind}", *fields]).encode() + b"\r\n\r\n")

    def begin(self) -> None:
        self.head("Transfer-Encoding: chunked")

    def put(self, octets: bytes) -> None:
        self.raw(f"{len(octets):x}\r\n".encode() + octets + b"\r\n")

    def stream(self) -> None:
        """Begin an event stream."""
        self.streamed = True
        self.head("Transfer-Encoding: chunked", kind="text/event-stream")

    def event(self, octets: bytes, before: bytes = b"") -> None:
        """One event."""
        self.put(before + b"data: " + octets + b"\n\n")

    def note(self, octets: bytes) -> None:
        if not self.streamed:
            self.stream()
        self.event(octets)

    def last(self, octets: bytes) -> None:
        self.note(octets)
        self.finish()

    def finish(self) -> None:
        """The orderly end of a stream, or of an answer that was begun."""
        self.raw(b"0\r\n\r\n")

    def leave(self) -> None:
        self.connection.close()

    def reset(self) -> None:
        """Go away, rudely."""
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()

    def hang(self, seconds: float = LONG) -> None:
        """Until the other side has gone, at most."""
        self.connection.settimeout(seconds)
        try:
            while self.connection.recv(65536):
                continue
        except TimeoutError:
            self.connection.settimeout(None)
