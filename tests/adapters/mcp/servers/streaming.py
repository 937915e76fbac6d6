"""
A Streamable HTTP server of the handshake era whose streams end early, and a token endpoint; on Twisted.

Started in the test's own reactor. It counts what it is asked, so that a test
can show that nothing is asked twice.
"""

from __future__ import annotations

import json
from typing import Any

from twisted.internet import reactor
from twisted.web.resource import Resource
from twisted.web.server import NOT_DONE_YET, Site

TOOLS = [{"name": name, "inputSchema": {"type": "object"}} for name in ("cut", "deaf", "plain", "notify", "torn")]
RESULT = {"content": [{"type": "text", "text": "resumed"}]}


def event(message: Any, number: str = "", retry: int | None = None) -> bytes:
    lines = [f"id: {number}"] if number else []
    lines += [f"retry: {retry}"] if retry is not None else []
    lines.append("data: " + ("" if message is None else json.dumps({"jsonrpc": "2.0", **message})))
    return ("\n".join(lines) + "\n\n").encode()


class Endpoint(Resource):
    """``POST`` and ``GET`` of the one endpoint."""

    isLeaf = True

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[str] = []
        self.resumed: list[str] = []
        self.tokens: list[str] = []
        self.waiting: dict[str, Any] = {}
        self.standing: Any = None
        self.order: list[str] = []  # of lists that were asked for, and of streams that were opened
        self.refuse: set[str] = set()

    def render_POST(self, request: Any) -> Any:
        token = (request.getHeader("authorization") or "").removeprefix("Bearer ")
        self.tokens.append(token)
        if token in self.refuse:
            request.setResponseCode(401)
            return b""
        message = json.loads(request.content.read())
        method, call_id = message.get("method"), message.get("id")
        if call_id is None:
            request.setResponseCode(202)
            return b""
        if method == "initialize":
            request.setHeader("Mcp-Session-Id", "session-1")
            found = {"capabilities": {"tools": {}, "resources": {"subscribe": True}}}
            return self._json(request, call_id, {"protocolVersion": "2025-11-25", **found})
        if method == "tools/list":
            self.order.append(method)
            return self._json(request, call_id, {"tools": TOOLS})
        if method == "resources/subscribe":
            return self._json(request, call_id, {})
        if method != "tools/call":
            request.setHeader("Content-Type", "application/json")
            error = {"code": -32601, "message": "no"}
            return json.dumps({"jsonrpc": "2.0", "id": call_id, "error": error}).encode()
        name = message["params"]["name"]
        self.calls.append(name)
        if name == "plain":
            return self._json(request, call_id, RESULT)
        if name == "notify":
            note = {"method": "notifications/resources/updated", "params": {"uri": "test://x"}}
            self.standing.write(event(note, "n-1"))
            return self._json(request, call_id, RESULT)
        request.setHeader("Content-Type", "text/event-stream")
        number = f"{name}-{call_id}"
        self.waiting[number] = call_id
        request.write(event(None, number, 50))
        if name == "torn":
            reactor.callLater(0.05, request.transport.abortConnection)
        else:
            request.finish()
        return NOT_DONE_YET

    def render_GET(self, request: Any) -> Any:
        last = request.getHeader("last-event-id")
        request.setHeader("Content-Type", "text/event-stream")
        if last is None or last.startswith("n-"):
            reactor.callLater(0.1, self._stand, request)
            return NOT_DONE_YET
        self.resumed.append(last)
        if last.startswith("deaf"):
            request.setResponseCode(400)
            return b""
        answer = {"id": self.waiting[last], "result": RESULT}
        request.write(event(answer, last + "-end"))
        request.finish()
        return NOT_DONE_YET

    def _stand(self, request: Any) -> None:
        """Servers that are busy take a moment to open their stream."""
        self.standing = request
        self.order.append("GET")
        request.write(b": here\n\n")

    def render_DELETE(self, request: Any) -> Any:
        if self.standing is not None and not self.standing.finished:
            self.standing.loseConnection()
        return b""

    @staticmethod
    def _json(request: Any, call_id: Any, result: Any) -> bytes:
        request.setHeader("Content-Type", "application/json")
        return json.dumps({"jsonrpc": "2.0", "id": call_id, "result": result}).encode()


class TokenEndpoint(Resource):
    """Client credentials: gives ``token-1``, ``token-2`` and so on."""

    isLeaf = True

    def __init__(self, lifetime: float) -> None:
        super().__init__()
        self.lifetime = lifetime
        self.forms: list[dict[str, str]] = []
        self.basic: list[str] = []
        self.broken = False

    def render_POST(self, request: Any) -> bytes:
        self.forms.append({k.decode(): v[0].decode() for k, v in request.args.items()})
        self.basic.append(request.getHeader("authorization"))
        request.setHeader("Content-Type", "application/json")
        if self.broken:
            request.setResponseCode(400)
            return b'{"error": "invalid_client"}'
        token = {"access_token": f"token-{len(self.forms)}", "token_type": "Bearer", "expires_in": self.lifetime}
        return json.dumps(token).encode()


def listen(resource: Resource) -> Any:
    """Serve on a free port of loopback."""
    return reactor.listenTCP(0, Site(resource), interface="127.0.0.1")
