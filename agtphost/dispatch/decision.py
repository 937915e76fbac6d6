"""
What the gates would decide about a hypothetical call (design decision 14).

The very gates of the dispatcher check a request in an agent's name, up to
the handler and without it, so an answer here is the answer that the call would
get. Gates that leave a trace, such as a rate or a reserved key, are passed over.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from agtphost.contract import reserved
from agtphost.contract.binding import Binding
from agtphost.contract.input_shape import faults_of
from agtphost.dispatch.exchange import Exchange
from agtphost.dispatch.gates.identity import AddresseeGate
from agtphost.dispatch.gates.limits import RateGate
from agtphost.dispatch.interfaces import IGate
from agtphost.errors import Refusal
from agtphost.identity.agents import Agent
from agtphost.identity.peer import INTERNAL, Assurance, Peer, PeerCertificate
from agtphost.vocabulary import jsontext, media_types
from agtphost.vocabulary.display_names import call
from agtphost.vocabulary.reasons import Reason
from agtphost.wire.events import Request
from agtphost.wire.headers import Headers

TRACES = frozenset({"rate", "idempotency", "contract presentation", "merchant", "approval"})
"""Gates by name that change something when they let a request pass, or look at what a question does not have."""

INPUT = frozenset({"schema"})
"""Gates that have nothing to say where no input is given."""

SHAPE = "shape of the input"
"""What such a gate has to say of a shape."""

METHOD_DECIDES = frozenset(
    {
        ("INSPECT", "/"),
        *((method, "/") for method in reserved.LIFECYCLE),
        *(place for place in reserved.RESERVED if place[0] in ("CONFIRM", "SUSPEND", "RESUME")),
        *(place for place in reserved.REGISTRY if place[0] in ("RENEW", "WITHDRAW", "APPROVE")),
        *(*reserved.PAGE, *reserved.CONFIGURATION, *reserved.VERIFYING, *reserved.GRANTS),
    }
)
"""
Methods of the host, with their paths, that decide themselves who may do what they name, after the gates: by role,
issuer and owner.
"""

Objecting = Callable[..., Awaitable[Refusal | None]]
"""Why a request would be refused before its handler; see :meth:`Decider.objection`."""

_ALWAYS = datetime(1970, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A call that an agent might make."""

    agent_id: str | None
    """The caller; None for an anonymous call."""

    method: str
    path: str
    assurance: Assurance = Assurance.CERTIFICATE
    """How the caller would be known: by its certificate, by header alone, or not at all."""

    commitment: frozenset[str] | None = None
    """The widest scopes that the caller's certificate allows; None for all that its document has."""

    scopes: str | None = None
    """What Authority-Scope would claim; None for no such header."""

    input: Mapping[str, Any] | None = None
    """None: the input is not part of the question."""

    shape: Mapping[str, Any] | None = None
    """In place of an input: the types of its members, as a record has them (:mod:`agtphost.contract.input_shape`)."""

    partial: bool = False
    """The input names what is called, and is not all that the call would have: its schema is not asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The decision about a hypothetical call, and the gate that made it."""

    allowed: bool
    passed: tuple[str, ...]
    """Names of the gates that would let it pass, in order."""

    not_asked: tuple[str, ...]
    """Names of the gates that were passed over."""

    gate: str = ""
    """The gate that would refuse it."""

    refusal: Refusal | None = None
    method: str = ""
    path: str = ""
    scopes: tuple[str, ...] = ()
    required_scopes: tuple[str, ...] = ()
    min_assurance: str = ""
    assurance: str = ""
    tier: str = ""
    needs_approval: bool = False
    """Whether a person would have to approve the call, which is allowed otherwise."""

    name: str = ""
    """What EXECUTE would call: a tool, or an action."""

    binding: Binding | None = None
    caller: Agent | None = None
    """What the call was resolved to, and who would make it; as far as the gates came."""

    def document(self) -> dict[str, Any]:
        """Return the decision as JSON, for INSPECT and for people's tools."""
        shown: dict[str, Any] = {
            "allowed": self.allowed,
            "needs_approval": self.needs_approval,
            "passed": list(self.passed),
            "not_asked": list(self.not_asked),
            "method": self.method,
            "path": self.path,
            "assurance": self.assurance,
            "scopes": list(self.scopes),
        }
        if self.name:
            shown["name"] = self.name
        shown["called"] = call(self.method, self.path, self.name)
        if self.tier:
            shown.update(tier=self.tier, required_scopes=list(self.required_scopes), min_assurance=self.min_assurance)
        if self.allowed and self.binding is not None and (self.binding.method, self.binding.path) in METHOD_DECIDES:
            shown["method_decides"] = True
        if self.refusal is not None:
            shown["refusal"] = {
                "gate": self.gate,
                "status": int(self.refusal.status),
                "reason": self.refusal.reason,
                "explanation": self.refusal.explanation,
                "remedy": self.refusal.remedy,
                "details": dict(self.refusal.details),
            }
        return shown


class Decider:
    """
    Asks the gates.

    :param gates: the dispatcher's own, in order.
    :param now: seconds since the Unix epoch, by which certificates and tokens are judged.
    """

    def __init__(self, gates: Sequence[IGate], now: Callable[[], float] = time.time) -> None:
        self._gates = gates
        self._now = now

    async def objection(self, request: Request, peer: Peer, calls: int = 0) -> Refusal | None:
        """
        Return why a request would be refused before its handler; None where it would pass now.

        :param calls: charged to its caller where it would not be refused: what the host does in its place.
        """
        exchange = Exchange(request, peer, self._now())
        for gate in self._gates:
            if gate.name not in TRACES and (refusal := await _ask_gate(gate, exchange)) is not None:
                return refusal
        rate = next((gate for gate in self._gates if isinstance(gate, RateGate)), None)
        if calls and rate is not None:
            try:
                rate.charge(exchange, exchange.request.method, calls)
            except Refusal as refusal:
                return refusal
        return None

    async def decide(self, question: Question, peer: Peer) -> Decision:
        """
        Decide about a hypothetical call.

        :param peer: the peer that asks; the call is assumed to come from the same place.
        """
        exchange = Exchange(_request(question), _caller(question, peer), self._now())
        passed: list[str] = []
        passed_over: list[str] = []
        refused: tuple[str, Refusal] | None = None
        for gate in self._gates:
            if gate.name in INPUT and question.shape is not None:
                refusal = _of_shape(exchange.binding, question.shape)
                if refusal is not None:
                    refused = gate.name, refusal
                    break
                passed.append(SHAPE)
                continue
            if gate.name in TRACES or (gate.name in INPUT and (question.input is None or question.partial)):
                passed_over.append(gate.name)
                continue
            refusal = await _ask_gate(gate, exchange)
            if refusal is not None:
                refused = gate.name, refusal
                break
            passed.append(gate.name)
        binding = exchange.binding
        # The addressee gate takes what names the agent off the path; before it, the path is as it was asked.
        addressed = AddresseeGate.name in passed or (refused is not None and refused[0] == AddresseeGate.name)
        return Decision(
            allowed=refused is None,
            needs_approval=refused is None and binding is not None and binding.approval,
            passed=tuple(passed),
            not_asked=tuple(passed_over),
            gate="" if refused is None else refused[0],
            refusal=None if refused is None else refused[1],
            method=exchange.method or question.method,
            path=exchange.path if addressed else exchange.request.path,
            scopes=tuple(sorted(exchange.scopes)),
            assurance=exchange.assurance.label,
            required_scopes=() if binding is None else binding.required_scopes,
            min_assurance="" if binding is None else binding.min_assurance.label,
            tier="" if binding is None else binding.tier,
            name=_name_of(question, binding),
            binding=binding,
            caller=exchange.caller,
        )


async def _ask_gate(gate: IGate, exchange: Exchange) -> Refusal | None:
    try:
        waiting: Awaitable[None] | None = gate.check(exchange)
        if waiting is not None:
            await waiting
    except Refusal as refusal:
        return refusal
    return None


def _of_shape(binding: Binding | None, shape: Mapping[str, Any]) -> Refusal | None:
    """Return the refusal of an input of that shape; None where the schema allows it."""
    schema = None if binding is None else binding.input_schema
    faults = [] if schema is None else faults_of(schema.schema, shape)
    if not faults:
        return None
    return Refusal(Reason.INVALID_INPUT, "The input does not follow the input schema.", details={"faults": faults})


def _name_of(question: Question, binding: Binding | None) -> str:
    """Return the name of the binding; where EXECUTE has none, the name in the question."""
    if binding is not None and binding.name:
        return binding.name
    given = question.input or {}
    payload = given.get("payload")
    if question.method != "EXECUTE" or not isinstance(given.get("action"), str):
        return ""
    named = payload.get("tool") if isinstance(payload, Mapping) else None
    return str(named or given["action"])


def _request(question: Question) -> Request:
    fields = [("Content-Type", media_types.AGTP_JSON)]
    if question.agent_id is not None:
        fields.append(("Agent-ID", question.agent_id))
    if question.scopes is not None:
        fields.append(("Authority-Scope", question.scopes))
    path, _, query = question.path.partition("?")
    body = jsontext.encode({"method": question.method, "parameters": dict(question.input or {})})
    return Request(method=question.method, path=path, query=query or None, headers=Headers(fields), body=body)


def _caller(question: Question, peer: Peer) -> Peer:
    """Return a connection as the caller would have it, with a valid certificate."""
    certificate = None
    if question.agent_id is not None and question.assurance is Assurance.CERTIFICATE:
        own = peer.certificate
        if own is not None and own.agent_id == question.agent_id:
            certificate = own
        else:
            certificate = PeerCertificate(
                fingerprint="",
                sha256="",
                serial="",
                subject="",
                not_before=_ALWAYS[0],
                not_after=_ALWAYS[1],
                agent_id=question.agent_id,
                commitment=question.commitment,
            )
    return Peer(
        address=peer.address,
        transport=INTERNAL,
        vouched=question.assurance is Assurance.GATEWAY,
        certificate=certificate,
        server_name=peer.server_name,
        loopback=peer.loopback,
        greeted=True,
    )
