"""A host in memory that keeps something recognizable of every kind for one agent, and what every binding is asked."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from twisted.internet.defer import Deferred

from agtphost.contract.binding import Resolution
from agtphost.errors import Refusal
from agtphost.handlers.context import EndpointError
from agtphost.host.upstreams import Upstreams
from agtphost.identity.peer import Peer
from agtphost.stores.rows import ItemRow
from agtphost.testing import MemoryHost, TestAgent
from agtphost.testing.identities import key_of
from agtphost.vocabulary import jsontext, times
from agtphost.vocabulary.reasons import Reason
from agtphost.wire.events import Response
from tests.memory import request_of
from tests.methods.granting_hosts import Shelf
from tests.registry.hosts import card

GRANTED = '"narrowed":true'
"""What an answer says that shows what an agent was granted: a grant holds no text of anybody's choice."""

SCOPES = (
    *("activation:run", "authorization:grant", "documents:query", "payments:purchase", "rcns:negotiate"),
    *("registry:register", "tools:call", "vault:read", "vault:write"),
)
OPERATOR = key_of("operator")
STAMP = "2026-01-31T00:00:00.000000Z"

KINDS = (
    *("item", "job", "relation", "binding", "notification", "escalation", "approval", "workflow", "card", "grant"),
    *("contract", "delegation", "task", "session", "checkpoint", "failed", "publication", "path"),
)
"""What is kept of alice; of calls, what her records say: ``task``, ``session`` and ``path``."""


def _text_schema(name: str) -> dict[str, Any]:
    """A schema of objects with one text."""
    return {
        "type": "object",
        "additionalProperties": False,
        "properties": {name: {"type": "string"}},
        "required": [name],
    }


SHELVES: Mapping[str, Any] = {
    "description": "Tells what is on a shelf, by its name.",
    "semantic": {
        "intent": "Tell what is on a shelf, by its name.",
        "outcome": "What is on the shelf is known.",
        "impact": "informational",
        "is_idempotent": True,
    },
    "output_schema": _text_schema("read"),
}
"""An endpoint that a contract can be made of."""


def mark(kind: str) -> str:
    """Return the text that is in what is kept of a kind, and nowhere else."""
    return f"zq-{kind}-qz"


def shown_in(octets: bytes) -> set[str]:
    """Return the kinds whose marks are in an answer."""
    text = octets.decode("utf-8", "replace")
    return {kind for kind in KINDS if mark(kind) in text or (kind == "grant" and GRANTED in text)}


Given = Mapping[str, Any]


@dataclass(frozen=True)
class Ask:
    """One request, and which marks it shows to whom it is for."""

    method: str
    path: str
    given: Given | Callable[[Keeping], Given]
    """Its parameters, or what makes them of what the host keeps."""

    shows: frozenset[str]
    """Kinds whose marks the control is shown; empty where nothing of alice comes back by this request at all."""

    headers: Mapping[str, str]
    whose: str
    """The agent that is named."""

    by: str
    """The control: ``agent``, with its certificate, or ``operator`` where agents are shown nothing."""


def ask(
    method: str,
    path: str = "/",
    given: Given | Callable[[Keeping], Given] = MappingProxyType({}),
    *shows: str,
    headers: Mapping[str, str] = MappingProxyType({}),
    whose: str = "alice",
    by: str = "agent",
) -> Ask:
    """Return a request; see :class:`Ask`."""
    return Ask(method, path, given, frozenset(shows), headers, whose, by)


class Shelved(Shelf):
    """Tools of servers that are there from the start."""

    def resolve(self, action: str, payload: Any, server: str | None) -> Resolution:
        if "tool" not in payload and action != "mcp.tools.list":
            raise Refusal(Reason.UNKNOWN_ACTION)
        return super().resolve(action, payload, server)


class Keeping(MemoryHost):
    """
    A host with everything on, that keeps something of every kind for ``alice``.

    :param profile: ``production`` or ``development``.
    :param opened: whether the operator opened ``QUERY /opened`` to callers known by a header.
    """

    def __init__(self, profile: str, *, opened: bool = True) -> None:
        most = 1_000_000
        super().__init__(
            {
                "host": {"profile": profile, "server_id": "agtp.test"},
                "audit": {
                    "operators": [OPERATOR.public.fingerprint],
                    "read_acl": "agent_only",
                    "refusal_records_per_address": most,
                    "refusal_records_of_strangers": most,
                    "read_records_per_address": most,
                    "read_records_of_strangers": most,
                },
                "limits": {
                    "requests_per_minute": most,
                    "requests_per_minute_per_principal": most,
                    "anonymous_requests_per_minute": most,
                },
                "policies": {"synthesis_enabled": True, "synthesis": {"unclassified": True}},
                "approvals": {"irreversible": True},
                "registry": {},
                "methods": {
                    "standard": "*",
                    "collection": [
                        {"name": "vault", "read": ["vault:read"], "write": ["vault:write"]},
                        {"name": "board", "read": [], "write": []},
                        {"name": "jobs", "read": [], "write": [], "queue": True},
                    ],
                },
            }
        )
        self.alice: TestAgent = self.agent("alice", hosted=False, scopes=SCOPES)
        self.bob: TestAgent = self.agent("bob", hosted=False, scopes=SCOPES)
        self.carol: TestAgent = self.agent("carol", hosted=False, scopes=SCOPES)
        self.desk: TestAgent = self.agent("desk", hosted=True)
        self.operator = self.identities.of_key(OPERATOR)
        self._endpoints(opened=opened)
        self.kept: dict[str, str] = {}
        """Identifiers of what was kept, by kind."""

    def _endpoints(self, *, opened: bool) -> None:
        whose = lambda context: {"whose": "" if context.caller is None else context.caller.name}  # noqa: E731
        changes = {"semantic": {"impact": "irreversible", "is_idempotent": False}}
        self.endpoint("QUERY", "/silent", whose)
        if opened:
            self.endpoint("QUERY", "/opened", whose, min_assurance="header")
        self.endpoint("QUERY", "/public", whose, min_assurance="none")
        self.endpoint("QUERY", "/guarded", whose, min_assurance="none", required_scopes=["vault:read"])
        self.endpoint("BOOK", "/approved", lambda context: {}, {"value": "string"}, **changes)
        self.endpoint("QUERY", "/failing", self._fail, {"value": "string"}, errors=["upstream_error"])
        self.endpoint("QUERY", "/shelves/{name}", lambda context: {"read": "all"}, **SHELVES)

    @staticmethod
    def _fail(context: Any) -> Any:
        raise EndpointError("upstream_error")

    def upstreams(self, on: Any) -> Upstreams:
        """Those of the host, with an adapter whose tools are there from the start."""
        made = super().upstreams(on)
        return Upstreams(mcp=Shelved(), web=made.web)  # type: ignore[arg-type]

    # Keeping

    def done(self, by: TestAgent, method: str, path: str = "/", /, **given: Any) -> Any:
        """Return the result of a call that has to succeed."""
        answer = self.call(method, path, given, caller=by)
        assert answer.status < 300 and answer.status != 262, (method, path, answer.document)
        return answer.result

    def keep(self) -> None:
        """Have alice, with her certificate, leave something of every kind."""
        alice, bob, soon = self.alice, self.bob, times.stamp(self.seconds() + 30 * 86_400)
        self.done(alice, "REGISTER", entity_type="vault", data={"id": "v1", "text": mark("item")})
        self.done(alice, "REGISTER", entity_type="vault", data={"id": "v2", "text": "another"})
        self.done(alice, "REGISTER", entity_type="board", data={"id": "b1", "text": mark("item")})
        self.done(alice, "SUBMIT", target="jobs", payload={"text": mark("job")})
        self.done(alice, "LINK", source="vault/v1", target="vault/v2", relationship=mark("relation"))
        self.done(alice, "EMBED", source="vault/v2", target="vault/v1", binding=mark("binding"))
        self.done(bob, "NOTIFY", recipient=alice.agent_id, content={"text": mark("notification")})
        self.done(alice, "ESCALATE", task_id="t-esc", reason="scope_limit", context={"text": mark("escalation")})
        waits = self.call("BOOK", "/approved", {"value": mark("approval")}, caller=alice)
        assert waits.status == 202, waits.document
        self.kept["approval"] = waits.result["approval_id"]
        step = {"method": "QUERY", "path": "/public", "parameters": {"text": mark("workflow")}}
        given: Any = {"steps": [step], "start_at": soon}
        later = self.call("CHAIN", "/", given, caller=alice, task_id=mark("workflow"))
        assert later.status == 202, later.document
        self.kept["workflow"] = later.result["workflow_id"]
        self.done(alice, "MONITOR", target="own", events=["workflow"], callback="inbox")
        at = {"channel": "board", "schedule_at": soon}
        self.kept["publication"] = self.done(alice, "PUBLISH", content={"text": mark("publication")}, **at)[
            "content_id"
        ]
        own = card(id="alice:own", description=mark("card"))
        self.done(alice, "REGISTER", "/cards", card=own)
        failed = self.call("QUERY", "/failing", {"value": mark("failed")}, caller=alice, task_id="t-failed")
        assert failed.status == 422, failed.document
        named = {"task_id": mark("task"), "session_id": mark("session")}
        made = self.call("QUERY", f"/shelves/{mark('path')}", {}, caller=alice, **named)
        assert made.status == 200
        self.kept["record"] = str(made.headers.get("audit-id"))
        self.call("QUERY", "/public", {}, caller=alice, session_id="s-held")
        pause = {"session_id": "s-held", "checkpoint": {"text": mark("checkpoint")}}
        self.kept["nonce"] = self.done(alice, "SUSPEND", **pause)["resumption_nonce"]
        given = {"subject": "carol", "resource": ["QUERY /silent"], "scope": "call"}
        granted = self.call("AUTHORIZE", "/grants", given, caller=self.operator)
        assert granted.status == 200, granted.document
        self._propose()
        self._place_delegation()

    def _propose(self) -> None:
        """Negotiate a contract for what ``QUERY /shelves/{name}`` answers."""
        meant = {**SHELVES["semantic"], "actor": "agent", "capability": "retrieval", "confidence": 0.9}
        endpoint = {"method": "FIND", "path": f"/{mark('contract')}/{{name}}", "semantic": meant}
        endpoint |= {"input_schema": _text_schema("name"), "output_schema": _text_schema("read")}
        made = self.call("PROPOSE", "/", {"endpoint": endpoint, "requested_duration": "PT1H"}, caller=self.alice)
        assert made.status == 263, made.document
        self.kept["contract"] = str(made.document["synthesis_id"])

    def _place_delegation(self) -> None:
        value = {
            "delegation_id": "dlg-1",
            "task_id": "t-dlg",
            "state": "finished",
            "process": "p",
            "delegator": self.alice.agent_id,
            "delegatee": self.desk.agent_id,
            "authority_scope": [],
            "chain": [],
            "callback": self.alice.agent_id,
            "accepted_at": STAMP,
            "result": {"result": {"text": mark("delegation")}},
        }
        owner = bytes.fromhex(self.alice.agent_id)
        row = ItemRow("delegated-task", "dlg-1", owner, 1, None, jsontext.encode(value))
        self.core.services.evidence.held.apply([row])

    # Asking

    def send(self, asked: Ask, who: str) -> Response:
        """
        Answer a request.

        :param who: ``nobody``, ``header``, ``front`` (a front of this host that asked for no proof) or ``certificate``.
        """
        named: TestAgent = getattr(self, asked.whose)
        headers = dict(asked.headers)
        if who != "nobody":
            headers["Agent-ID"] = named.agent_id
        peer = Peer(address="127.0.0.1")
        if who == "front":
            peer = Peer(
                address="127.0.0.1", transport="http", http={"surface": "gateway", "client": "", "method": "GET"}
            )
        if who == "certificate":
            operating = asked.by == "operator"
            peer = Peer(address="127.0.0.1", certificate=self.operator if operating else named.certificate)
            if operating:
                del headers["Agent-ID"]
        given = asked.given(self) if callable(asked.given) else asked.given
        path, _, query = asked.path.format(**self.kept).partition("?")
        body = {"method": asked.method, "parameters": dict(given)}
        request = request_of(asked.method, path, body, headers, query or None)
        waiting = Deferred.fromCoroutine(self.dispatcher.dispatch(request, peer))
        answers: list[Response] = []
        waiting.addCallback(answers.append)
        self.clock.settle()
        for _ in range(100):
            if answers:
                break
            self.advance(1.0)
        assert answers, f"{asked.method} {asked.path} is not answered"
        return answers[0]


_CHANGING = re.compile(
    r'"(?:response_id|negotiation_id|search_time|audit_id|token|generated_at|timestamp|issued_at|checked_at|signature|document_signature|'
    r'manifest_signature|version_at|[a-z_]*_at|now|seconds|age|signatures?|jws)":\s*(?:"[^"]*"|[0-9.]+|\{[^{}]*\})'
)


def without_ids(response: Response) -> Any:
    """Return a body without what differs between two answers to the same question."""
    return _CHANGING.sub('"-":0', response.body.decode("utf-8", "replace"))


def refusal_of(response: Response) -> str:
    """Return the reason of a refusal; empty where there is none."""
    try:
        value = json.loads(response.body)
    except ValueError:
        return ""
    return str(value.get("reason", "")) if isinstance(value, dict) else ""
