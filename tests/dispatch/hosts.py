"""One host in memory for tests of gates and dispatcher, around a ledger that the test can look into."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

from twisted.internet.defer import Deferred
from zope.interface import implementer, implementer_only

from agtphost.contract.binding import Binding
from agtphost.contract.schemas import compile_schema
from agtphost.handlers.built_in import IBuiltInHandler
from agtphost.handlers.context import EndpointContext
from agtphost.iagtp import IDispatcher, IGate, IHandler
from agtphost.identity.agents import Agent
from agtphost.identity.peer import Assurance, Peer, PeerCertificate
from agtphost.identity.trust import TrustPosture
from agtphost.wire.events import Response
from tests.memory import OpenHost, request_of
from tests.memory import body_of as document

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
        genesis=SimpleNamespace(agent_key=None, governance_zone=None, octets=b"{}", issuer_fingerprint=""),  # type: ignore[arg-type]
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
        self.answer = answer or (lambda context: {"echo": dict(context.input)})

    def handle(self, context: EndpointContext) -> Any:
        self.calls.append(context)
        return self.answer(context)


@implementer_only(IBuiltInHandler)
class BuiltInRecorder(Recorder):
    """The same as a part of the host, which sees more and may say more."""


SCHEMA = {
    "type": "object",
    "properties": {"text": {"type": "string"}},
    "required": ["text"],
    "additionalProperties": False,
}


class DispatchHost(OpenHost):
    """
    A host with the endpoints ``QUERY /words`` (open to named callers), ``RESERVE /desk`` (scope, certificate,
    schema, keyed) and ``QUERY /public`` (anonymous).

    :param answer: what all of them do.
    :param built_in: whether they are parts of the host.
    :param caller: who asks, unless a request says otherwise.
    :param hosted: whom they are asked of.
    :param bounds: gates to stand before the one of schemas.
    :param options: see :class:`tests.memory.OpenHost`.
    """

    def __init__(
        self,
        answer: Callable[[EndpointContext], Any] | None = None,
        settings: Mapping[str, Any] | None = None,
        *,
        built_in: bool = False,
        caller: Agent | None = None,
        hosted: Agent | None = None,
        others: Sequence[Agent] = (),
        bindings: Iterable[Binding] = (),
        bounds: Sequence[IGate] = (),
        **options: Any,
    ) -> None:
        self.recorder = (BuiltInRecorder if built_in else Recorder)(answer)
        self.caller = caller or agent(
            CALLER, "caller", hosted=False, scopes=frozenset({"booking:*", "documents:query"})
        )
        self.hosted = hosted or agent(HOSTED, "librarian", hosted=True)
        self.bindings = [
            Binding(
                method="QUERY",
                path="/public",
                handler=self.recorder,
                tier="B",
                min_assurance=Assurance.NONE,
                state_changing=False,
            ),
            Binding(
                method="QUERY",
                path="/words",
                handler=self.recorder,
                tier="B",
                min_assurance=Assurance.HEADER,
                state_changing=False,
            ),
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
            *bindings,
        ]
        agents = (self.caller, self.hosted, *others)
        super().__init__(settings, agents=agents, bindings=self.bindings, **options)
        self._bounds = bounds

    @property
    def gates(self) -> list[IGate]:
        """The host's, in order, with those of the test."""
        found = super().gates
        at = [gate.name for gate in found].index("schema")
        return [*found[:at], *self._bounds, *found[at:]]

    @property
    def dispatcher(self) -> IDispatcher:
        """Goes through the gates of the test, too."""
        if self._rewired is None and self._bounds:
            self.rewire()
        return super().dispatcher

    def start(
        self,
        method: str = "RESERVE",
        path: str = "/desk",
        body: Any = None,
        *,
        peer: Peer | None = None,
        **options: Any,
    ) -> Deferred[Response]:
        """One request; of the caller's, with its certificate, unless ``peer`` says otherwise."""
        return super().start(method, path, body, peer=known() if peer is None else peer, **options)

    def ask(self, method: str = "RESERVE", path: str = "/desk", body: Any = None, **options: Any) -> Response:
        """The same, which must be answered without waiting."""
        return super().ask(method, path, body, **options)

    request = staticmethod(request_of)


def known(agent_id: str = CALLER) -> Peer:
    """A connection with an agent's certificate."""
    return Peer(address="127.0.0.1", certificate=certificate(agent_id))


def payload(host: OpenHost, at: int = -1) -> dict[str, object]:
    """What the ledger was given to sign."""
    found: dict[str, object] = host.ledger.drafts[at].payload
    return found


__all__ = [
    "CALLER",
    "HOSTED",
    "STRANGER",
    "DispatchHost",
    "Recorder",
    "agent",
    "certificate",
    "document",
    "known",
    "payload",
]
