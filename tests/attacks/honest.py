"""
Honest callers beside an attack: ``python -m tests.attacks.honest``, a process of its own.

Each caller has a schedule, and a call counts from the moment it was due, not from the moment it was sent: a host that
stands still for two seconds makes every call late that was due meanwhile, and not one call per connection. On kept
connections ``call`` (a durable record) and ``tool`` (through the MCP server) are made as the agent ``honest``;
``connect`` opens a new connection each time, ``front`` and ``wellknown`` fetch a document over HTTPS. ``quic`` is a
``call`` over QUIC, where the host listens for it.

``probe`` calls something else: a process on the core of the host that answers whatever it is asked at once, over
TLS. It waits for both cores as a call does, has the same to do on this side, and waits for nothing in the host. What
it waits longer than before is the machine's doing, or the attacker's own appetite for the core of the callers, and is
not held against the host.

One line of JSON per call on standard output: kind, which caller of that kind, when it was due, how long it took
(seconds), what went wrong. It ends when its standard input does.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import os
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from tests.attacks.cores import bring
from tests.attacks.quic_caller import QuicCaller
from tests.attacks.site import HONEST_ADDRESS
from tests.system.raw_link import RawLink, client_context, request

PATIENCE = 20.0
"""Seconds after which a call that has no answer is an error."""

WARM = 40.0
"""Seconds that the host may take until every kind of call succeeds: on a busy machine an MCP server starts slowly."""

LAST_OF_CONNECTION = 9_000
"""Calls after which a caller opens a new connection; the host ends one after 10,000 (``requests_per_connection``)."""

RATES = {"call": 25.0, "tool": 10.0, "connect": 2.0, "front": 1.0, "wellknown": 1.0, "quic": 25.0, "probe": 50.0}
"""Calls per second of one caller."""

FREQUENT = ("call", "tool", "quic", "probe")
"""The kinds of which ``--share`` leaves out some."""

CALLERS = {"call": 4, "tool": 1, "connect": 1, "front": 1, "wellknown": 1, "quic": 2, "probe": 1}

TOOL = {
    "action": "mcp.tools.call",
    "payload_type": "application/vnd.mcp.tools+json",
    "payload": {"tool": "files.list_files", "arguments": {}},
}

NOTHING = """
import socket, ssl, sys
answer = b"AGTP/1.0 200 OK\\r\\nContent-Length: 800\\r\\n\\r\\n" + b"x" * 800
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(sys.argv[1] + "/server.pem", sys.argv[1] + "/server.key")
server = socket.create_server(("127.0.0.1", 0))
print(server.getsockname()[1], flush=True)
while True:
    link = context.wrap_socket(server.accept()[0], server_side=True)
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    while link.recv(4096):
        link.sendall(answer)
"""


@dataclass(frozen=True, kw_only=True)
class Place:
    """What is called."""

    port: int
    state: Path
    front: int
    wellknown: int


def rates(share: float, *, quic: bool) -> dict[str, float]:
    """
    Calls per second of one caller of each kind.

    :param share: of the frequent ones, that is made.
    :param quic: whether the host listens for QUIC.
    """
    kinds = {kind: rate for kind, rate in RATES.items() if quic or kind != "quic"}
    return {kind: rate * (share if kind in FREQUENT else 1.0) for kind, rate in kinds.items()}


class Caller:
    """One connection that is kept, and opened again where it ended."""

    def __init__(self, place: Place, context: ssl.SSLContext) -> None:
        self._place, self._context = place, context
        self._link: RawLink | None = None
        self._asked = 0

    def ask(self, method: str, path: str, body: object) -> str | None:
        """What went wrong, or None."""
        self._asked += 1
        if self._asked > LAST_OF_CONNECTION:
            self.close()
        try:
            if self._link is None:
                self._link = RawLink(self._place, context=self._context, timeout=PATIENCE, source=HONEST_ADDRESS)
            answer = self._link.ask(method, path, body)
        except Exception as failure:
            self.close()
            return repr(failure)[:200]
        if answer.status == 200:
            return None
        return f"{answer.status} {answer.reason}"

    def call(self) -> str | None:
        return self.ask("ECHO", "/text", {"text": "honest"})

    def tool(self) -> str | None:
        return self.ask("EXECUTE", "/", TOOL)

    def connect(self) -> str | None:
        self.close()
        return self.ask("DISCOVER", "/methods", None)

    def close(self) -> None:
        if self._link is not None:
            self._link.close()
        self._link, self._asked = None, 0


class QuicCalls:
    """Calls over one QUIC connection, which is opened again where it ended."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._client: QuicCaller | None = None

    def call(self) -> str | None:
        """What went wrong, or None."""
        if self._client is None or self._client.has_ended:
            self._client = QuicCaller(self._place, HONEST_ADDRESS, agent="honest")
            if not self._client.connect(PATIENCE):
                return "no connection over QUIC"
        answer = self._client.answer(self._client.begin(request("ECHO", "/text", {"text": "honest"})), PATIENCE)
        return None if answer.startswith(b"AGTP/1.0 200 ") else f"over QUIC {answer[:40]!r}"


def fetch(port: int, path: str, context: ssl.SSLContext) -> str | None:
    """One GET over a connection of its own."""
    connection = http.client.HTTPSConnection(
        "localhost", port, timeout=PATIENCE, context=context, source_address=(HONEST_ADDRESS, 0)
    )
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        answer.read()
    except Exception as failure:
        return repr(failure)[:200]
    finally:
        connection.close()
    return None if answer.status == 200 else f"HTTP {answer.status}"


class Probe:
    """A host that does nothing, on the host's core."""

    def __init__(self, place: Place, context: ssl.SSLContext, core: int | None) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", NOTHING, str(place.state)],
            stdout=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
        )
        bring(self.process.pid, core)
        assert self.process.stdout is not None
        port = int(self.process.stdout.readline())
        self._caller = Caller(replace(place, port=port), context)

    def ping(self) -> str | None:
        return self._caller.call()

    def close(self) -> None:
        self._caller.close()
        self.process.kill()
        self.process.wait()


class Schedule:
    """Runs a call when it is due, again and again, and says how it went."""

    def __init__(
        self, kind: str, number: int, call: Callable[[], str | None], over: threading.Event, rate: float
    ) -> None:
        self._kind, self._number, self._call, self._over = kind, number, call, over
        self._interval = 1 / rate
        self._due = time.monotonic() + number / CALLERS[kind] * self._interval

    def run(self) -> None:
        while not self._over.wait(max(0.0, self._due - time.monotonic())):
            wrong = self._call()
            line = json.dumps([self._kind, self._number, self._due, time.monotonic() - self._due, wrong])
            os.write(1, line.encode() + b"\n")
            self._due += self._interval


def main() -> None:
    """Until standard input ends."""
    parser = argparse.ArgumentParser(prog="python -m tests.attacks.honest", description="Honest callers.")
    for name in ("--port", "--front", "--wellknown"):
        parser.add_argument(name, type=int, required=True)
    parser.add_argument("--state", type=Path, required=True)
    parser.add_argument("--host-core", type=int)
    parser.add_argument("--share", type=float, default=1.0)
    parser.add_argument("--quic", action="store_true")
    given = parser.parse_args()
    place = Place(port=given.port, state=given.state, front=given.front, wellknown=given.wellknown)
    context = client_context(place, agent="honest")
    nobody = ssl.create_default_context(cafile=str(place.state / "ca.pem"))
    probe, over = Probe(place, context, given.host_core), threading.Event()

    def made(kind: str) -> Callable[[], str | None]:
        if kind == "probe":
            return probe.ping
        if kind == "front":
            return lambda: fetch(place.front, "/agents/assistant/.well-known/agent-card.json", nobody)
        if kind == "wellknown":
            return lambda: fetch(place.wellknown, "/.well-known/agtp", nobody)
        if kind == "quic":
            return QuicCalls(place).call
        return getattr(Caller(place, context), kind)  # type: ignore[no-any-return]

    rate = rates(given.share, quic=given.quic)
    calls = [(kind, number, made(kind)) for kind in rate for number in range(CALLERS[kind])]
    ready = time.monotonic() + WARM
    for _, _, call in calls[:5]:  # The host starts its MCP server, compiles and connects what it needs.
        # One that says that there are too many calls has started.
        while (wrong := call()) is not None and not wrong.startswith("429 ") and time.monotonic() < ready:
            time.sleep(0.2)
        for _ in range(10):
            call()
    threads = [
        threading.Thread(target=Schedule(kind, number, call, over, rate[kind]).run, daemon=True)
        for kind, number, call in calls
    ]
    for thread in threads:
        thread.start()
    with contextlib.suppress(KeyboardInterrupt):
        sys.stdin.read()
    over.set()
    for thread in threads:
        thread.join(PATIENCE)
    probe.close()


if __name__ == "__main__":
    main()
