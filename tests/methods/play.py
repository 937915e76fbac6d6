"""A host in memory with every floor method that keeps something: what their tests play on."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from twisted.internet.defer import Deferred, succeed
from twisted.internet.task import Clock

from agtphost.audit.lifecycle import LifecycleTable
from agtphost.contract.binding import Binding
from agtphost.contract.policy import MethodPolicy
from agtphost.contract.schemas import compile_schema
from agtphost.contract.table import EndpointTable
from agtphost.dispatch.dispatcher import Dispatcher
from agtphost.dispatch.order import Collaborators, gates
from agtphost.dispatch.sealing import Sealer
from agtphost.handlers.authorization import Authorization
from agtphost.handlers.context import EndpointContext
from agtphost.handlers.function import RegisteredFunction
from agtphost.host import bindings
from agtphost.host.floor import floor_methods
from agtphost.iagtp import IPayloadAdapter, IRecordStore
from agtphost.identity.agents import Agent
from agtphost.identity.directory import AgentDirectory
from agtphost.identity.keys import SigningKey
from agtphost.identity.peer import Assurance, Peer, PeerCertificate
from agtphost.methods.description import Description
from agtphost.methods.discovery import Discovery, document
from agtphost.methods.documents import Document, Library
from agtphost.methods.execution import ActionGate, Carrier
from agtphost.methods.inspection import Inspection, ReadACL
from agtphost.methods.lifecycle import Lifecycle, LifecycleAuth
from agtphost.methods.notification import Addresses
from agtphost.methods.visibility import Visibility
from agtphost.methods.zones import Zones
from agtphost.stores import MemoryStore
from agtphost.vocabulary.catalog import Catalog
from agtphost.vocabulary.paths import PathGrammar
from agtphost.wire.events import Request, Response
from agtphost.wire.headers import Headers
from tests.fakes import FakeLedger
from tests.methods.stage import CALLER, DESK, REGISTRAR, agent, of_agent, of_key, reading

CATALOG = Catalog.load(None)
JUDGE = agent("judge", hosted=False, scopes=("escalation:confirm",))
OTHER = agent("other", hosted=False, scopes=())
KEYS = {who.agent_id: SigningKey.generate() for who in (CALLER, JUDGE, OTHER, DESK)}
_CERTIFICATES = {
    who.agent_id: of_agent(who.agent_id, KEYS[who.agent_id], sorted(who.scopes) or ["none:at-all"])
    for who in (CALLER, JUDGE, OTHER, DESK)
}
ISSUER = of_key(REGISTRAR)
OPERATOR_KEY = SigningKey.generate()
OPERATOR = of_key(OPERATOR_KEY)
ANYTHING_SAID = {
    "type": "object",
    "properties": {
        name: {}
        for name in (
            "text",
            "intent",
            "source",
            "goal",
            "content",
            "notification_id",
            "sender",
            "topic",
            "urgency",
            "delivery_guarantee",
            "expiry",
            "sent_at",
        )
    },
    "additionalProperties": False,
}


def endpoint(
    method: str,
    path: str,
    description: str = "",
    answer: Callable[[EndpointContext], Any] = lambda context: {"echo": dict(context.input)},
    *,
    taken: Mapping[str, Any] | None = None,
    given: Mapping[str, Any] | None = None,
    impact: str = "informational",
    **more: Any,
) -> Binding:
    """An endpoint of the operator's."""
    return Binding(
        method=method,
        path=path,
        handler=RegisteredFunction(answer),
        tier="B",
        description=description,
        input_schema=compile_schema(taken or ANYTHING_SAID, role="input"),
        output_schema=compile_schema(given or {"type": "object"}, role="output"),
        state_changing=impact != "informational",
        details={"semantic": {"intent": description, "outcome": "", "impact": impact}},
        **more,
    )


class Play:
    """A host with the floor's methods, and ``ECHO /text`` to have something that can stand still."""

    def __init__(
        self,
        *,
        endpoints: Sequence[Binding] = (),
        documents: Sequence[Document] = (),
        adapter: IPayloadAdapter | None = None,
        records: IRecordStore | None = None,
        assurance: Assurance = Assurance.CERTIFICATE,
        release: Any = None,
        disclosure: str = "public",
        agents: Sequence[Agent] = (DESK, CALLER, JUDGE, OTHER),
        zones: Zones | None = None,
        hosts: Sequence[str] = (),
        server_id: str = "",
        addresses: Addresses | None = None,
    ) -> None:
        self.directory = AgentDirectory(agents)
        self.ledger = FakeLedger()
        self.held = self.ledger.held
        self.ahead = 0.0
        self.states = LifecycleTable()
        self.asides = 0
        adapters = () if adapter is None else (adapter,)
        carrier = Carrier()
        bound = (endpoint("ECHO", "/text", "Returns the given text."), *endpoints)
        everything: list[Binding] = []

        def listed() -> tuple[Binding, ...]:
            return (*everything, *bound)

        authorization = Authorization([OPERATOR_KEY.public.fingerprint], self.directory, assurance)
        visibility = Visibility(
            self.states.state_of,
            zones,
            disclosure=disclosure,
            authorization=authorization,
        )
        stored = records or reading(MemoryStore())
        built_ins = bindings.built_ins(
            CATALOG,
            discover=Discovery(self.directory, listed, adapters, lambda disclosed, known: document({}), visibility),
            describe=Description(
                self.directory, lambda: bindings.methods_of(listed()), adapters, self.states.state_of, lambda _: {}
            ),
            inspect=Inspection(stored, ReadACL.PUBLIC, authorization),
            change=Lifecycle(self.directory, self.states.state_of, LifecycleAuth.GENESIS_ISSUER),
            carrier=carrier,
        )
        self.floor = floor_methods(
            CATALOG,
            directory=self.directory,
            held=self.held,
            records=stored,
            listed=listed,
            adapters=adapters,
            endpoints=bound,
            library=Library(documents),
            server_id=server_id,
            addresses=addresses,
            aside=self._aside,
            authorization=authorization,
            visibility=visibility,
            assurance=assurance,
            release=release,
            hosts=hosts,
            now=lambda: time.time() + self.ahead,
        )
        everything.extend((*built_ins, *self.floor.bindings))
        self.bindings = listed()
        self.dispatcher = Dispatcher(
            gates(
                Collaborators(
                    directory=self.directory,
                    states=self.states.state_of,
                    by_server_name={},
                    catalog=CATALOG,
                    custom_methods=(),
                    grammar=PathGrammar(CATALOG.methods),
                    policy=MethodPolicy(),
                    table=EndpointTable(self.bindings),
                    action=ActionGate(carrier, adapters),
                    sessions=self.floor.gate,
                    ledger=self.ledger,
                )
            ),
            self.ledger,
            Sealer("agtp.test", ("DISCOVER",)),
            Clock(),
            30.0,
        )

    def _aside(self, function: Callable[..., Any], *arguments: Any) -> Deferred[Any]:
        self.asides += 1
        return succeed(function(*arguments))

    def ask(
        self,
        method: str,
        path: str = "/",
        body: Any = None,
        *,
        by: Agent | PeerCertificate | None = CALLER,
        certain: bool = True,
        headers: Mapping[str, str] | None = None,
        **parameters: Any,
    ) -> Response:
        """
        Dispatch one request, which must be answered without waiting.

        :param by: the calling agent, a certificate that names none, or nobody.
        :param certain: whether the agent presents its certificate.
        """
        fields = dict(headers or {})
        certificate = by if isinstance(by, PeerCertificate) else None
        if isinstance(by, Agent):
            fields.setdefault("Agent-ID", by.agent_id)
            certificate = _CERTIFICATES[by.agent_id] if certain else None
        octets = json.dumps(parameters if body is None else body).encode()
        fields["Content-Type"] = "application/vnd.agtp+json"
        request = Request(
            method=method,
            path=path,
            query=None,
            headers=Headers(list(fields.items())),
            body=octets,
            line=f"AGTP/1.0 {method} {path}\r\n".encode(),
        )
        answers: list[Response] = []
        working = Deferred.fromCoroutine(
            self.dispatcher.dispatch(request, Peer(address="127.0.0.1", certificate=certificate))
        )
        working.addCallback(answers.append)
        assert answers, "the dispatcher is still waiting"
        return answers[0]

    def result(self, method: str, path: str = "/", *, code: int = 200, **options: Any) -> dict[str, Any]:
        """The ``result`` of a call that must end with ``code``."""
        answer = self.ask(method, path, **options)
        assert answer.status == code, answer.body
        found = json.loads(answer.body)["result"]
        assert isinstance(found, dict)
        return found

    def refused(self, method: str, path: str = "/", **options: Any) -> tuple[int, str]:
        """Status and reason of a call that must be refused."""
        answer = self.ask(method, path, **options)
        return answer.status, json.loads(answer.body)["reason"]


def body_of(response: Response) -> dict[str, Any]:
    """The decoded body."""
    found = json.loads(response.body)
    assert isinstance(found, dict)
    return found


__all__ = ["CALLER", "DESK", "ISSUER", "JUDGE", "OPERATOR", "OTHER", "Play", "body_of", "endpoint"]
