"""A production host in memory on which alice has one of everything, and callers who are not alice."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from agtphost.adapters.mcp import McpAdapter, McpServer
from agtphost.adapters.mcp.tools import read_tools
from agtphost.config.upstreams import MCPServerSection
from agtphost.host.services import HostServices
from agtphost.host.upstreams import Upstreams, WebUpstreams
from agtphost.identity.peer import Assurance, Peer
from agtphost.testing import MemoryHost
from agtphost.testing.connection import Answer, MemoryConnection
from agtphost.testing.identities import TestAgent, key_of
from agtphost.upstream.log import UpstreamLog
from tests.negotiation.hosts import BOOK_ROOM, room
from tests.registry.hosts import DRAFT

SESSION, TASK = "session-of-alice", "task-of-alice"
OPERATOR = key_of("operator")

CHANGES = {
    "intent": "Removes a file.",
    "outcome": "The file is removed.",
    "capability": "transaction",
    "impact": "irreversible",
    "is_idempotent": False,
}
SCOPES = (
    *("documents:query", "activation:run", "authorization:grant", "orders:write", "contracts:read"),
    *("contracts:write", "mcp:tools:execute", "registry:register", "desks:book", "rcns:negotiate"),
)
SETTINGS: Mapping[str, Any] = {
    "audit": {
        "operators": [OPERATOR.public.fingerprint],
        "read_acl": "agent_only",
        # Each answer has a record of its own, and none waits.
        **dict.fromkeys(
            (
                *("refusal_records_per_address", "refusal_records_of_strangers", "refusal_records_per_agent"),
                *("read_records_per_address", "read_records_of_strangers"),
            ),
            100_000,
        ),
    },
    "limits": {"requests_per_minute": 100_000, "anonymous_requests_per_minute": 100_000},
    "registry": {"provider": [{"origin": "https://api.example.com", "scopes": ["orders:write"]}]},
    "policies": {
        "synthesis_enabled": True,
        "agent_disclosure": "private",
        "synthesis": {"approval": "operator", "unclassified": True},
        "rcns": {"enabled": True, "mode": "confirm-first", "min_trust_tier": 2},
    },
    "methods": {
        "standard": "*",
        "collection": [
            {"name": "orders", "read": ["orders:write"], "write": ["orders:write"], "queue": True},
            {"name": "contracts", "read": ["contracts:read"], "write": ["contracts:write"]},
        ],
        "connect": [{"source": "telemetry", "destination": "observability", "channel": {"topic": "sensors/1"}}],
    },
    "notify": {"groups": {"on-call": ["desk", "operator"]}},
}

MANY = 210
"""Requests of a stranger: more than the sessions of one agent that are remembered."""


Caller = Callable[..., Answer]


class PrivateHost(MemoryHost):
    """
    A host with every method on, ``QUERY /words`` that a header is enough for, and a tool likewise.

    :param folder: for its recipes.
    :param limits: in place of its own.
    :param disclosure: how far hosted agents are disclosed.
    """

    def __init__(self, folder: Path, limits: Mapping[str, Any] | None = None, *, disclosure: str = "private") -> None:
        recipes = folder / "recipes.toml"
        recipes.write_text(room())
        policies = {**SETTINGS["policies"], "agent_disclosure": disclosure}
        own = {
            "policies": policies,
            "limits": {**SETTINGS["limits"], **(limits or {})},
            "recipes": {"file": str(recipes)},
        }
        super().__init__({**SETTINGS, **own})
        self.noted: list[str] = []
        self.alices: Mapping[str, str] = {}
        shared = {**CHANGES, "impact": "reversible", "capability": "modification"}
        self.endpoint("ANNOTATE", "/shared", self._note, {"text": "string"}, semantic=shared, min_assurance="header")
        self.endpoint("QUERY", "/words", lambda context: {"said": True}, min_assurance="header")
        self.endpoint("QUERY", "/secrets", lambda context: {"said": True}, required_scopes=["documents:query"])
        approved = {"semantic": CHANGES, "approval": "required"}
        self.endpoint("REMOVE", "/file", lambda context: {"done": True}, {"name": "string"}, **approved)
        self.endpoint(
            "RESERVE",
            "/desk",
            lambda context: {"reservation": "R1"},
            {"guest": "string"},
            semantic={**CHANGES, "impact": "reversible"},
            required_scopes=["desks:book"],
        )
        self.alice: TestAgent = self.agent("alice", scopes=SCOPES)
        self.bob: TestAgent = self.agent("bob", scopes=("documents:query",))
        self.desk: TestAgent = self.agent("desk", hosted=True)
        self.operator = self.identities.of_key(OPERATOR)
        self.named = TestAgent(agent=self.alice.agent, key=self.alice.key, certificate=None)
        self._others: dict[str, MemoryConnection] = {}
        self.callers: Mapping[str, Caller] = {
            "nobody": self.by_nobody,
            "header": self.by_header,
            "gateway": self.by_gateway,
            "bob": self.by_bob,
            "alice": self.of_alice,
        }
        for ask in self.callers.values():
            ask("QUERY", "/words")  # The first answer of a connection greets.

    def upstreams(self, on: HostServices) -> Upstreams:
        """Return an MCP server that has listed its tools, and never runs."""
        settings = MCPServerSection(name="files", command=("nothing",), tools={"shelve": {"scopes": ["orders:write"]}})
        server = McpServer(self.clock, settings, {})
        listed = [{"name": name, "inputSchema": {"type": "object"}} for name in ("read_file", "shelve")]
        log = UpstreamLog(self.clock, "files", ())
        server.catalogue._adopt(read_tools(listed, {}, log))
        adapter = McpAdapter([server], authorization=on.authorization)
        return Upstreams(mcp=adapter, web=WebUpstreams(adapters=(), services=(), a2a={}))

    def _note(self, context: Any) -> Mapping[str, Any]:
        if context.assurance is Assurance.CERTIFICATE:
            self.noted.append(context.input["text"])
        return {"noted": len(self.noted)}

    def things(self) -> Mapping[str, str]:
        """Let alice have one of everything that has an identifier; the identifiers by what they are of."""
        found: dict[str, str] = {"session": SESSION, "task": TASK}
        made = self.done
        read = self.of_alice("QUERY", "/words", session_id=SESSION, task_id=TASK)
        found["record"] = str(read.headers.get("audit-id"))
        waits = self.of_alice("REMOVE", "/file", given={"name": "a"})
        assert waits.reason == "approval-required", waits.document
        found["approval"] = waits.document["approval_id"]
        asked = {"task_id": "task-of-escalation", "reason": "scope_limit", "context": {}}
        found["escalation"] = made("ESCALATE", given=asked)["escalation_id"]
        self.of_alice("QUERY", "/words", session_id="stopped-session")
        found["suspended session"] = made("SUSPEND", given={"session_id": "stopped-session"})["session_id"]
        found["suspended task"] = made("SUSPEND", given={"task_id": "stopped-task"})["task_id"]
        note = {"recipient": self.alice.agent_id, "content": {"a": 1}}
        found["notification"] = made("NOTIFY", given=note)["notification_id"]
        steps = [{"method": "QUERY", "path": "/words"}]
        found["workflow"] = made("CHAIN", given={"steps": steps, "background": True})["workflow_id"]
        found["submission"] = made("SUBMIT", given={"target": "orders", "payload": {"a": 1}})["tracking_id"]
        (pulled,) = made("PULL", given={"source": "orders", "visibility_timeout": 40_000})["items"]
        found["queue item"] = pulled["item_id"]
        entered = {"entity_type": "contracts", "data": {"id": "5f0e6a7b9c1d2e3f"}}
        found["item"] = made("REGISTER", given=entered)["resource_id"]
        watch = {"target": "own", "events": ["workflow"], "callback": "inbox"}
        found["monitor"] = made("MONITOR", given=watch)["subscription_id"]
        alarm = {"recipient": self.alice.agent_id, "message": {"a": 1}, "severity": "high"}
        found["alert"] = made("ALERT", given=alarm)["alert_id"]
        pair = {"source": "telemetry", "destination": "observability"}
        found["connection"] = made("CONNECT", given=pair)["connection_id"]
        grant = {"subject": self.desk.agent_id, "resource": "QUERY /secrets", "scope": "documents:query"}
        granted = made("AUTHORIZE", given=grant)
        found["grant"], found["grant token"] = granted["grant_id"], granted["token"]
        review = self.of_alice("PROPOSE", given={"endpoint": dict(BOOK_ROOM)})
        assert review.status == 261, review.document
        found["proposal"], found["negotiation"] = review.document["proposal_id"], review.document["negotiation_id"]
        offer = self.of_alice("BOOK", "/room", given={"guest": "Ann"}, headers={"Allow-RCNS": "true"})
        assert offer.status == 461, offer.document
        found["contract"] = offer.document["synthesis_id"]
        denied = self.of_alice("BOOK", "/attic", given={"guest": "Ann"}, headers={"Allow-RCNS": "true"})
        found["attempt"] = str(denied.headers.get("rcns-attempt-id"))
        card = {**DRAFT, "id": "alice"}
        self.done("REGISTER", "/cards", given={"card": card})
        found["card"] = "alice"
        found["agent"], found["hosted agent"] = self.alice.agent_id, self.desk.agent_id
        found["hosted name"] = "desk"
        found["stopped task"], found["fresh task"] = asked["task_id"], "fresh-task"
        found["tool"], found["ruled tool"], found["bare tool"] = "files.read_file", "files.shelve", "read_file"
        self.alices = {**found, "upstream": "files"}
        return self.alices

    # Callers

    def of_alice(self, method: str, path: str = "/", /, by: TestAgent | None = None, **options: Any) -> Answer:
        """A call of alice's with her certificate, or of another agent's."""
        return self.call(method, path, options.pop("given", {}), caller=by or self.alice, **options)

    def done(self, method: str, path: str = "/", /, by: TestAgent | None = None, **options: Any) -> Any:
        """The result of one, which has to succeed."""
        answer = self.of_alice(method, path, by=by, **options)
        assert 200 <= answer.status < 264 and answer.status != 262, (method, path, answer.document)
        return answer.result

    def by_nobody(self, method: str, path: str = "/", **options: Any) -> Answer:
        """A call of a stranger who names nobody."""
        return self.call(method, path, options.pop("given", {}), connection=self._connection_of("nobody"), **options)

    def by_header(self, method: str, path: str = "/", **options: Any) -> Answer:
        """A call of a stranger who names alice."""
        connection = self._connection_of("header")
        given = options.pop("given", {})
        return self.call(method, path, given, caller=self.named, connection=connection, **options)

    def by_gateway(self, method: str, path: str = "/", **options: Any) -> Answer:
        """A call of a front's client in alice's name."""
        connection = self._connection_of("gateway")
        given = options.pop("given", {})
        return self.call(method, path, given, caller=self.named, connection=connection, **options)

    def by_bob(self, method: str, path: str = "/", **options: Any) -> Answer:
        """A call of another certified agent."""
        return self.call(method, path, options.pop("given", {}), caller=self.bob, **options)

    def _connection_of(self, who: str) -> MemoryConnection:
        known = self._others.get(who)
        if known is None or not known.reusable:
            peer = Peer(address="127.0.0.9", vouched=who == "gateway")
            keys = {self.key.public.kid: self.key.public}
            known = self._others[who] = MemoryConnection(self._listening(), self.clock, peer, keys)
        return known


def strange(identifier: str) -> str:
    """A random identifier of the same form: every run of hexadecimal digits is another one of the same length."""

    def other(found: re.Match[str]) -> str:
        return secrets.token_hex(len(found.group()))[: len(found.group())]

    changed = re.sub(r"[0-9a-f]{8,}", other, identifier)
    if changed != identifier:
        return changed
    head, dot, rest = identifier.rpartition(".")
    return head + dot + "".join(secrets.choice("abcdefgh") for _ in rest)
