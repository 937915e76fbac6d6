"""A registry after HAIDIP, written from the draft alone, with the draft's own two agents: for clients to meet."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

KEY = "draft-api-key"

TRANSLATOR: dict[str, Any] = {
    "id": "translator-001",
    "name": "MultiLang Text Translator",
    "description": "Translates text between English and French.",
    "capabilities": ["translation", "language"],
    "inputs": {"text": "string", "source_language": "string", "target_language": "string"},
    "outputs": {"translated_text": "string"},
    "supported_languages": ["en", "fr"],
    "tags": ["NLP", "translation", "English", "French"],
    "authentication": "API Key",
    "endpoint": "https://api.example.com/agents/translator-001",
    "version": "1.0",
    "provider": "ExampleAI",
    "certification": {"verified": True, "quality_score": 4.8},
}
SPANISH = {
    "id": "spanish-gpt",
    "name": "SpanishGPT Agent",
    "capabilities": ["generation"],
    "authentication": "none",
    "description": "Large language model specialized in Spanish outputs.",
    "endpoint": "https://127.0.0.1:9",
}


class DraftRegistry:
    """What it has, and what it was asked."""

    def __init__(self, port: int, scheme: str = "http") -> None:
        self.url = f"{scheme}://127.0.0.1:{port}"
        endpoint = f"{self.url}/direct/translator-001"
        self.cards = {"translator-001": {**TRANSLATOR, "endpoint": endpoint}, "spanish-gpt": SPANISH}
        self.asked: list[tuple[str, str, Any]] = []
        self.heard: list[dict[str, str]] = []

    def answer(self, method: str, path: str, body: Any, authorized: bool) -> tuple[int, Any]:
        """The answer to one request."""
        match [method, *(unquote(part) for part in path.split("/")[1:])]:
            case ["GET", "agents"] | ["GET", "agents", "public"]:
                return 200, {"agents": list(self.cards.values()), "count": len(self.cards)}
            case ["POST", "agents", "search"]:
                scores = zip(self.cards.values(), (0.93, 0.89), strict=False)
                found = [{**{n: card[n] for n in ("id", "name", "description")}, "score": s} for card, s in scores]
                return 200, {"results": found[: body.get("top", 5)], "count": 2, "query": body["query"]}
            case ["GET", "agents", name] if name in self.cards:
                return 200, self.cards[name]
            case ["POST", "agents", name, "invoke"] | ["POST", "direct", name, "invoke"] if name in self.cards:
                return self._invoked(body, authorized)
        return 404, {"error": {"code": "NotFound", "message": "There is no such agent."}}

    def _invoked(self, body: Any, authorized: bool) -> tuple[int, Any]:
        if not authorized:
            return 401, {"error": {"code": "Unauthorized", "message": "An API key is missing."}}
        if "target_language" not in body:
            message = "Required field 'target_language' is missing."
            return 400, {"error": {"code": "InvalidInput", "message": message, "field": "target_language"}}
        return 200, {"translated_text": "Bonjour, comment êtes-vous?"}


@contextmanager
def serving(tls: ssl.SSLContext | None = None) -> Iterator[DraftRegistry]:
    """
    One that runs in this process.

    :param tls: with the server's certificate; None: it speaks plain HTTP.
    """

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _answer(self) -> None:
            octets = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            body = json.loads(octets) if octets else None
            path = urlsplit(self.path).path
            registry.asked.append((self.command, self.path, body))
            registry.heard.append(dict(self.headers))
            authorized = self.headers.get("Authorization") == f"Bearer {KEY}"
            status, value = registry.answer(self.command, path, body, authorized)
            text = json.dumps(value).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        do_GET = do_POST = do_PUT = do_DELETE = _answer

        def log_message(self, *_: object) -> None:
            """Nothing is told of requests."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    registry = DraftRegistry(server.server_address[1], "http" if tls is None else "https")
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield registry
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)
