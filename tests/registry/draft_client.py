"""A client of HAIDIP, written from the draft alone: it knows nothing of this project, and imports nothing of it."""

from __future__ import annotations

import json
import ssl
import urllib.error
import urllib.request
from typing import Any


class DraftError(Exception):
    """An error object."""

    def __init__(self, status: int, code: str, message: str, error: dict[str, Any]) -> None:
        super().__init__(f"{status} {code}: {message}")
        self.status, self.code, self.error = status, code, error


class DraftClient:
    """Lists, searches, gets and invokes."""

    def __init__(self, base: str, token: str = "", cacert: str | None = None) -> None:
        self.base, self.token = base.rstrip("/"), token
        self.context = ssl.create_default_context(cafile=cacert)
        self.headers: dict[str, str] = {}

    def agents(self, query: str = "") -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.ask("GET", f"/agents{query}")["agents"]
        return found

    def public(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.ask("GET", "/agents/public")["agents"]
        return found

    def search(self, query: str, top: int = 5, **more: Any) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.ask("POST", "/agents/search", {"query": query, "top": top, **more})[
            "results"
        ]
        return found

    def get(self, agent_id: str) -> dict[str, Any]:
        card: dict[str, Any] = self.ask("GET", f"/agents/{agent_id}")
        return card

    def invoke(self, agent_id: str, inputs: Any, operation: str = "invoke") -> Any:
        return self.ask("POST", f"/agents/{agent_id}/{operation}", inputs)

    def ask(self, method: str, path: str, body: Any = None, **fields: str) -> Any:
        headers = {"Content-Type": "application/json"} if body is not None else {}
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.base + path, data, {**headers, **fields}, method=method)
        try:
            with urllib.request.urlopen(request, context=self.context, timeout=60) as answer:
                self.headers = dict(answer.headers)
                return json.loads(answer.read() or b"null")
        except urllib.error.HTTPError as error:
            told = json.loads(error.read() or b"{}").get("error", {})
            raise DraftError(error.code, told.get("code", ""), told.get("message", ""), told) from None
