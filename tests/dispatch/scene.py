"""One host in memory: real gates and a real dispatcher around a ledger that the test can look into."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from zope.interface import implementer, implementer_only

from agtphost.audit.lifecycle import LifecycleState, LifecycleStatus
from agtphost.contract.binding import Binding
from agtphost.contract.policy import MethodPolicy
from agtphost.contract.schemas import compile_schema
from agtphost.contract.table import EndpointTable
from agtphost.dispatch.dispatcher import Dispatcher
from agtphost.dispatch.gates.action import ActionGate
from agtphost.dispatch.order import Collaborators, gates
from agtphost.dispatch.sealing import Sealer
from agtphost.handlers.built_in import IBuiltInHandler
from agtphost.handlers.context import EndpointContext
from agtphost.handlers.function import RegisteredFunction
from agtphost.iagtp import IGate, IHandler
from agtphost.identity.agents import Agent
from agtphost.identity.peer import Assurance, Peer, PeerCertificate
from agtphost.identity.trust import TrustPosture
from agtphost.methods.execution import Carrier
from agtphost.vocabulary.catalog import Catalog
from agtphost.vocabulary.paths import PathGrammar
from agtphost.wire.events import Response
from tests.fakes import FakeDirectory, FakeLedger
from tests.memory import body_of as document
from tests.memory import request_of

CALLER = "a" * 64
HOSTED = "b" * 64
STRANGER = "c" * 64


def agent(agent_id: str, name: str, *, hosted: bool, scopes: frozenset[str] = frozenset()) -> Agent:
    """An agent as the loader would admit it, with a Genesis marker where the test needs one."""
    return Agent(
        agent_id=agent_id,
        name=name,
        description=f"the agent {name}",
        principal="Acme",
        owner_id="acme.example",
        document={"methods": [], "trust_score": 0.5},
        document_octets=b"{}",
        genesis=SimpleNamespace(agent_key=None, governance_zone=None, octets=b"{}"),  # type: ignore[arg-type]
        posture=TrustPosture(trust_tier=2, verification_path="org-asserted", trust_warning="verification-incomplete"),
        scopes=scopes,
        hosted=hosted,
        document_status="active",
    )


def certificate(agent_id: str | None = CALLER, **changes: Any) -> PeerCertificate:
    """A verified client certificate."""
    now = datetime.now(UTC)
    members: dict[str, Any] = {
        "fingerprint": "f" * 64,
        "sha256": "e" * 64,
        "serial": "01",
        "subject": "CN=caller",
        "not_before": now - timedelta(hours=1),
        "not_after": now + timedelta(days=30),
        "agent_id": agent_id,
        **changes,
    }
    return PeerCertificate(**members)


@implementer(IHandler)
class Recorder:
    """Answers with its input and remembers that it was called."""

    kind = "registered_function"

    def __init__(self, answer: Callable[[EndpointContext], Any] | None = None) -> None:
        self.calls: list[EndpointContext] = []
        self._answer = answer or (lambda context: {"echo": dict(context.input)})

    def handle(self, context: EndpointContext) -> Any:
        self.calls.append(context)
        return self._answer(context)


@implementer_only(IBuiltInHandler)
class BuiltInRecorder(Recorder):
    """The same as a part of the host, which sees more and may say more."""


SCHEMA = {
    "type": "object",
    "properties": {"text": {"type": "string"}},
    "required": ["text"],
    "additionalProperties": False,
}


class Scene:
    """
    A host with the endpoints ``QUERY /words`` (open to named callers), ``RESERVE /desk`` (scope, certificate,
    schema, keyed) and ``QUERY /public`` (anonymous).
    """

    def __init__(self, answer: Callable[[EndpointContext], Any] | None = None, **changes: Any) -> None:
        self.recorder = (BuiltInRecorder if changes.pop("built_in", False) else Recorder)(answer)
        self.ledger = changes.pop("ledger", None) or FakeLedger()
        self.caller = changes.pop("caller", None) or agent(
            CALLER, "caller", hosted=False, scopes=frozenset({"booking:*", "documents:query"})
        )
        self.hosted = changes.pop("hosted", None) or agent(HOSTED, "librarian", hosted=True)
        self.directory = FakeDirectory(self.caller, self.hosted, *changes.pop("others", ()))
        self.states: dict[str, LifecycleState] = {}
        self.clock = Clock()
        self.bindings = [
            Binding(
                method="QUERY",
                path="/public",
                handler=self.recorder,
                tier="B",
                min_assurance=Assurance.NONE,
                state_changing=False,
            ),
            Binding(method="QUERY", path="/words", handler=self.recorder, tier="B", state_changing=False),
            Binding(
                method="RESERVE",
                path="/desk",
                handler=self.recorder,
                tier="B",
                required_scopes=("booking:desk",),
                min_assurance=Assurance.CERTIFICATE,
                input_schema=compile_schema(SCHEMA, role="input"),
                errors=frozenset({"desk_taken"}),
            ),
            *changes.pop("bindings", ()),
        ]
        catalog = changes.pop("catalog", None) or Catalog.load(None)
        policy = changes.pop("policy", MethodPolicy())
        table = EndpointTable(self.bindings)
        self.gates: list[IGate] = list(
            gates(
                Collaborators(
                    directory=self.directory,
                    states=self.state_of,
                    by_server_name=changes.pop("by_server_name", {}),
                    catalog=catalog,
                    other_catalogs=changes.pop("other_catalogs", ()),
                    rate=changes.pop("rate", None),
                    bounds=changes.pop("bounds", ()),
                    custom_methods=policy.custom,
                    grammar=PathGrammar(catalog.methods),
                    policy=policy,
                    table=table,
                    action=ActionGate(Carrier(), ()),
                    merchant=changes.pop("merchant", lambda scene: None)(self),
                    ledger=self.ledger,
                    yaml=changes.pop("yaml", False),
                )
            )
        )
        self.sealer = Sealer("test-host", ("QUERY", "RESERVE"), catalog.warnings)
        assert not changes, changes

    def state_of(self, which: Agent) -> LifecycleState:
        return self.states.get(which.agent_id, LifecycleState(status=LifecycleStatus.ACTIVE))

    def dispatcher(self, chosen: list[IGate] | None = None) -> Dispatcher:
        return Dispatcher(self.gates if chosen is None else chosen, self.ledger, self.sealer, self.clock, 30.0)

    def ask(
        self,
        method: str = "RESERVE",
        path: str = "/desk",
        body: Any = None,
        *,
        peer: Peer | None = None,
        headers: Mapping[str, str] | None = None,
        gates: list[IGate] | None = None,
        query: str | None = None,
    ) -> Response:
        """Dispatch one request, which must be answered without waiting."""
        answers: list[Response] = []
        self.start(method, path, body, peer=peer, headers=headers, gates=gates, query=query).addCallback(answers.append)
        assert answers, "the dispatcher is still waiting"
        return answers[0]

    def start(
        self,
        method: str = "RESERVE",
        path: str = "/desk",
        body: Any = None,
        *,
        peer: Peer | None = None,
        headers: Mapping[str, str] | None = None,
        gates: list[IGate] | None = None,
        query: str | None = None,
    ) -> Deferred[Response]:
        request = self.request(method, path, body, headers, query)
        who = Peer(address="127.0.0.1", certificate=certificate()) if peer is None else peer
        return Deferred.fromCoroutine(self.dispatcher(gates).dispatch(request, who))

    request = staticmethod(request_of)


def payload(scene: Scene, at: int = -1) -> dict[str, object]:
    """What the ledger was given to sign."""
    return scene.ledger.drafts[at].payload


__all__ = [
    "CALLER",
    "HOSTED",
    "STRANGER",
    "Recorder",
    "RegisteredFunction",
    "Scene",
    "agent",
    "certificate",
    "document",
    "payload",
]
