"""
A client as they are deployed, written from what is known of the wire alone.

It sends request lines of two tokens, names the agent it means by Agent-ID,
has its parameters at the top of the body, and opens a connection per request.
It takes ``error`` of a refusal and ``jws`` of a record where it expects them,
without a look at anything else: what it does not find there is a KeyError or
TypeError, as it would be for its users.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from tests.system.raw_link import Answer, RawLink, Reachable, client_context

ZEROS = "0" * 64


class Refused(Exception):
    """What the client shows of a refusal."""

    def __init__(self, answer: Answer) -> None:
        error = answer.json()["error"]
        self.status = answer.status
        self.code: str = error["code"]
        self.message: str = error["message"]
        super().__init__(f"{answer.status} {self.code.lower()}: {self.message.strip()}")


@dataclass
class DeployedClient:
    """
    One user of it.

    :param agent_id: whom every request is for.
    """

    host: Reachable
    agent_id: str

    def __post_init__(self) -> None:
        self._context = client_context(self.host, identified=False)

    def ask(self, method: str, parameters: object = None, **headers: str) -> Answer:
        """One request over its own connection, whatever comes of it."""
        body = b"" if parameters is None else json.dumps(parameters).encode()
        fields = {"Agent-ID": self.agent_id} | {name.replace("_", "-"): value for name, value in headers.items()}
        if body:
            fields = {"Content-Type": "application/vnd.agtp+json"} | fields
        lines = [f"AGTP/1.0 {method}", *(f"{name}: {value}" for name, value in fields.items())]
        lines.append(f"Content-Length: {len(body)}")
        return self.send("\r\n".join(lines).encode() + b"\r\n\r\n" + body)

    def send(self, octets: bytes) -> Answer:
        """The same for octets."""
        with RawLink(self.host, context=self._context) as link:
            link.send(octets)
            answer = link.answer()
        assert answer is not None, "the connection was closed without an answer"
        return answer

    def call(self, method: str, parameters: object = None, **headers: str) -> Answer:
        """A request that has to succeed. :raises Refused: if it does not."""
        answer = self.ask(method, parameters, **headers)
        if answer.status >= 300 or answer.status == 262:
            raise Refused(answer)
        return answer

    def identity(self, kind: str = "application/vnd.agtp.identity+json") -> Answer:
        """The Identity Document of the agent, in the type that is asked for."""
        answer = self.call("DESCRIBE", Accept=kind)
        found = answer.headers["content-type"].partition(";")[0]
        assert found == kind, f"asked for {kind}, got {found}"
        return answer

    def check_identity(self) -> dict[str, Any]:
        """Whether the document is of the agent that was meant."""
        document: dict[str, Any] = self.identity().json()
        assert document["agent_id"] == self.agent_id, document["agent_id"]
        return document

    def walk(self, audit_id: str) -> list[dict[str, Any]]:
        """The records from one to the first of its chain, each checked to be the one that was asked for."""
        found = []
        while audit_id != ZEROS:
            record = self.call("INSPECT", {"target": "audit", "audit_id": audit_id}).json()["jws"]
            assert sha256(record.encode()).hexdigest() == audit_id, "that is another record"
            part = record.split(".")[1]
            payload = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
            found.append(payload)
            audit_id = payload["previous_audit_id"]
        return found
