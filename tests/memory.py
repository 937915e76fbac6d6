"""The host in memory with what the project's own tests exchange in it, and look into."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from twisted.internet.defer import Deferred

from agtphost.audit.lifecycle import LifecycleTable
from agtphost.audit.state import StateTable
from agtphost.contract.binding import Binding
from agtphost.dispatch.dispatcher import Dispatcher
from agtphost.dispatch.sealer import Sealer
from agtphost.host.services import HostServices, authorization_of
from agtphost.host.upstreams import Upstreams, WebUpstreams
from agtphost.iagtp import IDispatcher, IGate, IPayloadAdapter, IRecordStore
from agtphost.identity.agents import Agent
from agtphost.identity.peer import Assurance, Peer, PeerCertificate
from agtphost.stores.rows import StateRow
from agtphost.testing import MemoryHost
from agtphost.wire.events import Request, Response
from agtphost.wire.headers import Headers
from tests.fakes import NOW, FakeLedger


def request_of(
    method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None, query: str | None = None
) -> Request:
    """One request, as the wire yields it."""
    octets = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
    fields = dict(headers or {})
    if octets:
        fields.setdefault("Content-Type", "application/vnd.agtp+json")
    return Request(
        method=method,
        path=path,
        query=query,
        headers=Headers(list(fields.items())),
        body=octets,
        line=f"AGTP/1.0 {method} {path}\r\n".encode(),
    )


def body_of(response: Response) -> Any:
    """The decoded body."""
    return json.loads(response.body)


class OpenHost(MemoryHost):
    """
    A host in memory whose parts a test may exchange, and whose ledger shows what it is given.

    :param settings: as in ``host.toml``.
    :param agents: whom it knows.
    :param bindings: what can be called besides its own methods.
    :param ledger: by default one that signs nothing and remembers every draft.
    :param records: what readers of records read.
    :param states: by default every agent is active.
    :param adapter: what carries payloads, in place of MCP.
    :param floor: how surely a caller of what changes state must be known; by default what the settings say.
    :param auth: who may change lifecycles, also what no production host may be told.
    :param held: durable state; by default the ledger's.
    :param environ: of the process that would read the settings.
    :param loaded: members of :class:`agtphost.host.host_loader.LoadedHost` to put others in place of.
    """

    def __init__(
        self,
        settings: Mapping[str, Any] | None = None,
        *,
        agents: Iterable[Agent] = (),
        bindings: Iterable[Binding] = (),
        ledger: Any = None,
        records: IRecordStore | None = None,
        states: LifecycleTable | None = None,
        adapter: IPayloadAdapter | None = None,
        floor: Assurance | None = None,
        auth: str | None = None,
        held: StateTable | None = None,
        environ: Mapping[str, str] | None = None,
        **loaded: Any,
    ) -> None:
        super().__init__(settings, environ=environ)
        self.ledger = FakeLedger() if ledger is None else ledger
        self.states = LifecycleTable() if states is None else states
        if auth is not None:
            # Anybody may change them only on loopback in development; here nothing else is relaxed with it.
            lifecycle = self.config.lifecycle.model_copy(update={"auth": auth})
            self.config = self.config.model_copy(update={"lifecycle": lifecycle})
        self._rewired: Dispatcher | None = None
        self._held = getattr(self.ledger, "held", None) if held is None else held
        self._records, self._adapter, self._floor, self._loaded = records, adapter, floor, loaded
        if isinstance(self.ledger, FakeLedger):
            self.ledger.now = self.seconds
        self.directory.admit(agents)
        for binding in bindings:
            self.bind(binding)

    @property
    def gates(self) -> list[IGate]:
        """The host's, in order."""
        return list(self.core.admission.gates)

    @property
    def dispatcher(self) -> IDispatcher:
        """The host's, or the one that :meth:`rewire` made of it."""
        return self._rewired or super().dispatcher

    def rewire(self, gates: Sequence[IGate] | None = None, sealer: Sealer | None = None) -> None:
        """Have requests go through other gates, or be sealed otherwise."""
        own = self.core.admission
        self._rewired = Dispatcher(
            self.gates if gates is None else gates,
            self.ledger,
            sealer or own.sealer,
            self.clock,
            30.0,
            self.core.services.lasting.running,
        )

    def put(self, who: str | Agent, status: str, **more: Any) -> None:
        """Have an agent's lifecycle be where a committed event would have put it."""
        row = {"since": NOW, "reason": None, "successor": None, "deadline": None, **more}
        self.states.apply(who if isinstance(who, str) else who.agent_id, StateRow(status=status, **row))

    def foundation(self, on: HostServices) -> HostServices:
        """With what was exchanged."""
        floor = on.floor if self._floor is None else self._floor
        loaded = replace(on.loaded, **self._loaded)
        kept = on.evidence
        evidence = replace(
            kept,
            ledger=self.ledger,
            held=kept.held if self._held is None else self._held,
            states=self.states,
            records=self._records or kept.records,
        )
        anew = HostServices.for_host(loaded, on.reactor, evidence)
        if isinstance(self.ledger, FakeLedger):
            anew.lasting.approvals.decisions = None  # Nothing is signed here that an approval could be held against.
        return replace(anew, floor=floor, authorization=authorization_of(loaded, floor))

    def upstreams(self, on: HostServices) -> Upstreams:
        """The adapter that was given, in place of MCP."""
        if self._adapter is None:
            return super().upstreams(on)
        none = WebUpstreams(adapters=(), services=(), a2a={})
        return Upstreams(mcp=self._adapter, web=none)  # type: ignore[arg-type]

    def start(
        self,
        method: str,
        path: str = "/",
        body: Any = None,
        *,
        certificate: PeerCertificate | None = None,
        peer: Peer | None = None,
        headers: Mapping[str, str] | None = None,
        query: str | None = None,
    ) -> Deferred[Response]:
        """Dispatch one request that no client would send, or of a peer that none can be."""
        who = Peer(address="127.0.0.1", certificate=certificate) if peer is None else peer
        return Deferred.fromCoroutine(
            self.dispatcher.dispatch(request_of(method, path, body, headers, query), who)  # type: ignore[arg-type]
        )

    def ask(self, method: str, path: str = "/", body: Any = None, **options: Any) -> Response:
        """The same, which must be answered without waiting."""
        answers: list[Response] = []
        self.start(method, path, body, **options).addCallback(answers.append)
        # A large answer is written in several turns where the machine is busy: they are due at once.
        self.clock.settle()
        assert answers, "the dispatcher is still waiting"
        return answers[0]
