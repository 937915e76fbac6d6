"""An embeddings service as OpenAI's is, that does what it is told: for :mod:`agtphost.search.remote`."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

MEANINGS = (frozenset({"borrow", "novel", "book", "library", "shelf"}), frozenset({"room", "bed", "guest"}))
"""What its model knows: words of one meaning, together."""


class Service:
    """How it answers, and what it was asked."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}/v1/embeddings"
        self.way = "right"
        """``right``, or the name of what goes wrong."""

        self.asked: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self.paths: list[str] = []
        self.connected: set[Any] = set()
        """Connections that are open."""

        self.going_on = threading.Event()
        """Lets those answers go that wait."""

    def answer(self, texts: list[str]) -> tuple[int, dict[str, str], bytes]:
        """Status, fields and body."""
        rows = [[float(len(meaning & set(text.lower().split()))) for meaning in MEANINGS] for text in texts]
        match self.way:
            case "500":
                return 500, {}, b'{"error": "out of order"}'
            case "redirect":
                return 302, {"Location": "/elsewhere"}, b""
            case "no JSON":
                return 200, {}, b"<html>"
            case "one vector too few":
                rows = rows[1:]
            case "of different lengths":
                rows = [row if number else [*row, 1.0] for number, row in enumerate(rows)]
            case "one number more":
                rows = [[*row, 1.0] for row in rows]
            case "far too long":
                rows = [[0.5] * 200_000 for _ in rows]
            case "no answer":
                self.going_on.wait(60)
        # In another order: the number counts.
        data = [{"index": number, "embedding": row} for number, row in enumerate(rows)][::-1]
        return 200, {}, json.dumps({"object": "list", "data": data}).encode()


@contextmanager
def serving() -> Iterator[Service]:
    """One that is there, and gone afterwards."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def setup(self) -> None:
            super().setup()
            service.connected.add(self.connection)

        def finish(self) -> None:
            service.connected.discard(self.connection)
            super().finish()

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            service.paths.append(self.path)
            service.asked.append(body)
            service.keys.append(self.headers["Authorization"])
            status, fields, octets = service.answer(body["input"])
            self.send_response(status)
            for name, value in {**fields, "Content-Length": str(len(octets))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(octets)

        def log_message(self, *_: object) -> None:
            """Nothing is told of requests."""

    class Quiet(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_: object) -> None:
            """Who asked has gone away, as some tests want."""

    server = Quiet(("127.0.0.1", 0), Handler)
    service = Service(server.server_address[1])
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield service
    finally:
        service.going_on.set()
        server.shutdown()
        server.server_close()
        thread.join(5)
