"""
Outcome to record to response: the one way out.

Every outcome, success, refusal or surprise, is turned into a draft here,
sealed exactly once by the ledger, and only then into a response (security
invariants 1 to 4).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from hashlib import sha256
from types import MappingProxyType
from typing import Any

from agtphost.audit.drafts import HOST_CHAIN, Draft, Sealed
from agtphost.audit.keyed import read_unkept
from agtphost.audit.lifecycle import LifecycleState
from agtphost.contract.binding import Binding
from agtphost.contract.input_shape import shape_of
from agtphost.dispatch.exchange import Exchange
from agtphost.dispatch.failed_calls import Failures
from agtphost.dispatch.masking import DEMANDED, prescribed_members
from agtphost.dispatch.outcome import LifecycleOutcome, Outcome
from agtphost.dispatch.purchase import Purchase
from agtphost.dispatch.required_agents import required_agents
from agtphost.dispatch.rule_source import RuleSource
from agtphost.dispatch.trial_calls import trial_member
from agtphost.dispatch.violations import action_of, evidence_of
from agtphost.errors import Refusal
from agtphost.handlers.built_in import Answer
from agtphost.handlers.context import EndpointResponse
from agtphost.handlers.operators import Operators
from agtphost.identity.agents import Agent
from agtphost.identity.delegation import Lineage
from agtphost.identity.peer import Assurance
from agtphost.identity.required_assurance import BELIEVED
from agtphost.identity.trust import TrustPosture
from agtphost.vocabulary import jsontext, media_types
from agtphost.vocabulary.identifiers import uuid7
from agtphost.vocabulary.jsonslices import Encoded
from agtphost.vocabulary.reasons import Reason
from agtphost.vocabulary.status import Status, phrase_of
from agtphost.wire.events import Response
from agtphost.wire.headers import Headers

RETRY_AFTER = ("Retry-After", "1")

NOTHING: Mapping[str, Any] = MappingProxyType({})

REGISTERED = frozenset({"synthesis_id", "contract_hash", "negotiation_origin"})
"""Members that stand in a record by their own name wherever they apply (AGTP-API section 10.1.6)."""


class Sealer:
    """
    Builds drafts and responses for one host.

    :param server_id: the configured ``server_id``.
    :param supported_methods: what Supported-Methods says on the first response of a connection.
    :param warnings: deprecated methods of the catalog, and what ``AGTP-Catalog-Warning`` says of each.
    :param floor: how surely a caller must be known to have its full share of what is held.
    :param ruling: finds the rule behind a refusal, for watchers of records.
    :param failed: keeps calls that failed, for RETRY; None: RETRY is not offered.
    :param operators: the operators of the host, whose names records have.
    """

    def __init__(
        self,
        server_id: str,
        supported_methods: tuple[str, ...],
        warnings: Mapping[str, str] | None = None,
        *,
        floor: Assurance = Assurance.CERTIFICATE,
        ruling: RuleSource | None = None,
        failed: Failures | None = None,
        operators: Operators | None = None,
    ) -> None:
        self._operators = operators or Operators()
        # Nearly all callers are agents: comparing their keys here calls no function.
        self._named_keys, self._by_spki = self._operators.keys, self._operators.by_spki
        self._failed = failed
        self._floor = floor
        self._proven = min(floor, BELIEVED)
        self._ruling = ruling
        self._server_id = server_id
        self._attribution = {"server_id": server_id}
        self._attribution_octets = jsontext.encode(self._attribution)
        self._warnings = warnings or {}
        self._supported = ("Supported-Methods", ", ".join(supported_methods))
        self._heading: tuple[tuple[str, str], ...] = (("Server-ID", server_id),)
        self._postures: dict[str, tuple[TrustPosture, tuple[tuple[str, str], ...]]] = {}

    def announce(self, api_version: int) -> None:
        """
        Let every response from now on carry ``AGTP-API-Version`` (core v08 section 7.6).

        :param api_version: the manifest's counter.
        """
        self._heading = (("Server-ID", self._server_id), ("AGTP-API-Version", str(api_version)))

    # Outcomes

    def success(self, exchange: Exchange, answer: EndpointResponse) -> Outcome:
        """Return the outcome of a handler that answered."""
        built_in = answer if isinstance(answer, Answer) else None
        written: Encoded | None = None
        if answer.body is not None:
            body = answer.body
        elif answer.status == Status.NO_CONTENT:
            body = b""
        elif built_in is None or built_in.enveloped:
            beside = NOTHING if built_in is None else built_in.beside
            if answer.status >= Status.AUTHORIZATION_REQUIRED:
                beside = _envelope_members(answer.status, beside)
            if built_in is not None and built_in.encoded:
                written = Encoded(built_in.encoded, built_in.result)
            body = self.envelope(exchange, answer.status, written or answer.result, beside)
        elif type(answer.result) is Encoded:
            body = answer.result.octets
        else:
            body = jsontext.encode(answer.result)
        content_type = answer.content_type or self._answer_type(exchange)
        outcome = Outcome(answer.status, body, content_type if body else "", answer.headers, answer.body is None)
        if built_in is not None:
            if isinstance(answer, LifecycleOutcome):
                outcome.event, outcome.describe = answer.event, answer.describe
            outcome.changes, outcome.events, outcome.extra = built_in.changes, built_in.events, built_in.extra
            outcome.conflict = built_in.conflict
            outcome.result = written
        return outcome

    def plain(self, exchange: Exchange, result: Any) -> Outcome:
        """Return the outcome of a handler that answered with only a result."""
        kind = self._answer_type(exchange) if exchange.method == "EXECUTE" else media_types.AGTP_JSON
        return Outcome(Status.OK, self.envelope(exchange, 200, result), kind)

    def interim(self, exchange: Exchange, event: Mapping[str, Any], token: str) -> Outcome:
        """Return the outcome of an interim message (design decision 11)."""
        body = self.envelope(exchange, Status.ACCEPTED, {"event": event})
        return Outcome(Status.ACCEPTED, body, self._answer_type(exchange), continuation=token)

    def refusal(self, exchange: Exchange, refusal: Refusal) -> Outcome:
        """
        Return the outcome of a refused request.

        The drafts call the stable token ``reason``, ``type`` and ``code`` in
        different places, so a body has it under all three names. ``error`` is
        an object, as HAIDIP has it and deployed clients read it.
        """
        token = str(refusal.reason)
        body: dict[str, Any] = {"status": int(refusal.status)}
        if exchange.task_id is not None:
            body["task_id"] = exchange.task_id
        body.update(refusal.details)
        error = {"code": token, "message": refusal.explanation}
        body.update(reason=token, type=token, code=token, error=error, explanation=refusal.explanation)
        if refusal.remedy:
            body["remedy"] = refusal.remedy
        body["attribution"] = {"server_id": self._server_id}
        return Outcome(
            refusal.status,
            jsontext.encode(body),
            media_types.AGTP_JSON,
            tuple(refusal.headers),
            reason=token,
            close=refusal.close,
            changes=tuple(refusal.changes),
            extra=refusal.extra,
            scopes=refusal.scopes,
            cause=refusal.cause,
            cure=refusal.cure,
        )

    def envelope(self, exchange: Exchange, status: int, result: Any, beside: Mapping[str, Any] = NOTHING) -> bytes:
        """
        Return the body of a method response (core v08 section 5.7).

        It says who answers; the proof is the Attribution-Record header, because a body cannot contain its own record.

        :param beside: further members in addition to ``result``.
        """
        body: dict[str, Any] = {"status": int(status)}
        if exchange.task_id is not None:
            body["task_id"] = exchange.task_id
        if beside:
            body.update(beside)
        binding, agent = exchange.binding, exchange.agent
        attribution = self._attribution
        if agent is not None and binding is not None and not binding.server_level:
            attribution = {**attribution, "agent_id": agent.agent_id}
        if type(result) is Encoded:
            begun = jsontext.encode(body)[:-1] if len(body) > 1 else b'{"status":%d' % status
            own = self._attribution_octets if attribution is self._attribution else jsontext.encode(attribution)
            return b'%b,"result":%b,"attribution":%b}' % (begun, result.octets, own)
        body["result"] = result
        body["attribution"] = attribution
        return jsontext.encode(body)

    @staticmethod
    def _answer_type(exchange: Exchange) -> str:
        """EXECUTE answers with the type it was asked with (core v08 appendix D); all else is AGTP's own."""
        if exchange.method == "EXECUTE" and exchange.media_type is not None:
            return exchange.media_type
        return media_types.AGTP_JSON

    # Records

    def draft(self, exchange: Exchange, outcome: Outcome, response_id: str) -> Draft:
        """Return the draft of an outcome's record (companion section 5.2), without possible credentials."""
        request, peer, binding, agent = exchange.request, exchange.peer, exchange.binding, exchange.agent
        refused, trial, assurance = outcome.reason != "", peer.rights_of != "", exchange.assurance
        chain, owner_id, caller_id = HOST_CHAIN, "", ""  # unless an agent has answered
        if not (refused or trial or agent is None or binding is None or binding.server_level):
            chain, owner_id = agent.agent_id, agent.owner_id or ""
        caller = None if trial else exchange.caller
        if caller is not None:
            caller_id = caller.agent_id
        elif exchange.doubted is not None and not outcome.cause:
            # A stranger gets the record, too: unless the answer tells whether the agent is known, the record does not.
            caller_id = exchange.agent_id or ""
        payload: dict[str, object] = {
            "audit_record_version": "1",
            "server_id": self._server_id,
            "agent_id": chain,
            "owner_id": owner_id,
            "request_id": exchange.request_id or "",
            "response_id": response_id,
            "status": int(outcome.status),
            "method": exchange.method or request.method,
            "path": request.path,
            "caller_id": caller_id,
            "identity_assurance": Assurance.NONE.label if trial else assurance.label,
            "request_hash": sha256(request.line + request.body).hexdigest(),
            "result_hash": outcome.digest or sha256(outcome.body).hexdigest(),
        }
        _name(exchange, payload, caller if assurance >= self._proven else None)
        if refused:
            payload["reason"] = outcome.reason
            if evidence := evidence_of(exchange, outcome):
                _extend(payload, evidence)
        members = {} if binding is None else _tell_bound(exchange, binding, payload, refused)
        if outcome.extra:
            members.update(outcome.extra)
        certificate = peer.certificate or peer.shown
        if certificate is not None and (certificate.fingerprint in self._named_keys or self._by_spki):
            self._name_operator(exchange, payload)
        if peer.recorded is not None:
            members.update(peer.recorded)
        if exchange.method == "EXECUTE":
            members.update(action_of(exchange))
        if exchange.approval is not None and (approved := exchange.approval.record_members()):
            members["approval"] = approved
        if (trace := exchange.call.trace) is not None:
            # The last draft of a call is the one that it is answered with.
            trace.reason = outcome.reason
            members["trace"] = trace.record_members
        if members:
            _extend(payload, members)
        if exchange.invoked:
            # What was called in this call's course: its records are found from here, and they from its Task-ID.
            payload["invoked"] = list(exchange.invoked)
        if exchange.purchase is not None:
            _name_parties(exchange.purchase, payload)
        lineage = peer.delegation if exchange.granted is None else exchange.granted.lineage
        if lineage is not None:
            _name_delegation(lineage, payload)
        draft = Draft(chain=chain, payload=payload)
        draft.inner = peer.depth > 0
        if caller is not None:
            draft.caller = caller.display_name
        if binding is not None:
            draft.called = binding.label
        draft.changes, draft.events = outcome.changes, outcome.events
        if refused:
            self._add_refusal(exchange, outcome, draft)
        else:
            draft.standing = required_agents(exchange)
        # Who names no agent is known by its certificate: registrars, operators, other hosts.
        draft.proven = assurance >= self._floor or (caller is None and certificate is not None)
        if outcome.event is not None and outcome.describe is not None:
            describe = outcome.describe
            draft.event = outcome.event
            draft.render = lambda sealed: self.envelope(exchange, outcome.status, describe(sealed))
        if exchange.reservation is not None:
            draft.reservation = exchange.reservation
            draft.result = remember(outcome)
        return draft

    def _add_refusal(self, exchange: Exchange, outcome: Outcome, draft: Draft) -> None:
        """Add to the draft of a refusal what explains it, and what RETRY needs."""
        if self._ruling is not None:
            draft.rule = self._ruling.later(outcome.reason, exchange, outcome.extra or NOTHING)
        if self._failed is not None:
            draft.changes = (*draft.changes, *self._failed(exchange, outcome))

    def _name_operator(self, exchange: Exchange, payload: dict[str, object]) -> None:
        """Add to a record the operator who called."""
        operator = self._operators.record_member(exchange.peer)
        if operator is not None:
            payload["operator"] = operator

    # Responses

    def response(self, exchange: Exchange, outcome: Outcome, response_id: str, sealed: Sealed) -> Response:
        """Return the response with the headers of its sealed record (core v08 section 5.5)."""
        fields = [*self._heading]
        if exchange.agent_id is not None:
            fields.append(("Agent-ID", exchange.agent_id))
        if exchange.task_id is not None:
            fields.append(("Task-ID", exchange.task_id))
        if exchange.request_id is not None:
            fields.append(("Request-ID", exchange.request_id))
        fields += ("Response-ID", response_id), ("Audit-ID", sealed.audit_id)
        agent, binding = exchange.agent, exchange.binding
        hidden = outcome.reason == Reason.AGENT_NOT_HOSTED  # The posture of a hidden agent is hidden too.
        if agent is not None and not hidden and (binding is None or not binding.server_level):
            fields += self._posture(agent)
            if exchange.deprecated is not None:
                fields.append(deprecation(exchange.deprecated))
        fields.append(("Attribution-Record", sealed.jws))
        if not exchange.peer.greeted:
            exchange.peer.greeted = True
            fields.append(self._supported)
        if outcome.continuation:
            fields.append(("Continuation-Token", outcome.continuation))
        fields += outcome.headers
        if binding is not None and binding.headers:
            fields += binding.headers
        warnings = self._warnings if exchange.catalog_warnings is None else exchange.catalog_warnings
        if warnings:
            # The method asked for, then the one that a redirect made of it.
            warning = warnings.get(exchange.requested_method or exchange.method) or warnings.get(exchange.method)
            if warning is not None:
                fields.append(("AGTP-Catalog-Warning", warning))
        body = outcome.body if sealed.body is None else sealed.body
        if body:
            fields.append(("Content-Type", outcome.content_type))
        return Response(
            status=outcome.status,
            headers=Headers(fields),
            body=body,
            close=outcome.close,
            own=outcome.own,
            result=outcome.result if sealed.body is None else None,
        )

    def _posture(self, agent: Agent) -> tuple[tuple[str, str], ...]:
        """Owner and trust posture of the responding agent (companion section 3.1), built once per agent."""
        posture = agent.posture
        known = self._postures.get(agent.agent_id)
        fields = None if known is None or known[0] is not posture else known[1]
        if fields is None:
            built = [("Owner-ID", agent.owner_id)] if agent.owner_id else []
            built.append(("Trust-Tier", str(posture.trust_tier)))
            built.append(("Verification-Path", posture.verification_path))
            if posture.trust_tier == 2 and posture.trust_warning:
                built.append(("Trust-Warning", posture.trust_warning))
            fields = tuple(built)
            self._postures[agent.agent_id] = posture, fields
        return fields


def deprecation(state: LifecycleState) -> tuple[str, str]:
    """Return the warning header of a deprecated agent: successor and deadline (core v08 section 7.2.18)."""
    parts = ["deprecated"]
    if state.successor is not None:
        parts.append(f"successor={state.successor}")
    if state.deadline is not None:
        parts.append(f"migration_deadline={state.deadline}")
    return ("AGTP-Agent-Warning", "; ".join(parts))


def _envelope_members(status: int, beside: Mapping[str, Any]) -> Mapping[str, Any]:
    """
    Return the members that an answer's envelope has next to its result: ``error`` where a handler answered with a
    refusal's status.
    """
    if status < 400 and status != Status.AUTHORIZATION_REQUIRED:
        return beside
    phrase = phrase_of(status)
    return {"error": {"code": phrase.lower().replace(" ", "-"), "message": f"{phrase}."}, **beside}


def _name_delegation(lineage: Lineage, payload: dict[str, object]) -> None:
    """Add the delegation under which a call is made, and the action that led to it."""
    payload["delegation"] = lineage.members()
    payload["prior_actions"] = [{"agent_id": lineage.chain[-2], "audit_id": lineage.audit_id}]


class _Identifiers:
    """Makes identifiers from random octets, which it reads four kilobytes at a time and uses once each."""

    __slots__ = ("_at", "_pool")

    def __init__(self) -> None:
        self._pool = b""
        self._at = 0

    def make(self, now: float) -> str:
        """
        Return a new UUIDv7, for Response-ID and Action-ID.

        :param now: seconds since the epoch.
        """
        at = self._at
        end = at + 10
        if end > len(self._pool):
            self._pool = os.urandom(4096)
            at, end = 0, 10
        self._at = end
        return uuid7(int(now * 1000), self._pool[at:end])


new_id = _Identifiers().make


def _tell_bound(exchange: Exchange, binding: Binding, payload: dict[str, object], refused: bool) -> dict[str, Any]:
    """Add to a record what was called, and return further members, such as the shape of its input."""
    payload["tier"] = binding.tier
    if binding.state_changing and not refused:
        payload["action_id"] = new_id(exchange.now)
    members = {**binding.extra}
    if binding.method in DEMANDED and exchange.input:
        members.update(prescribed_members(exchange, binding))
    if binding.input_schema is not None and binding.tier != "A":
        shape = shape_of(binding.input_schema.schema, exchange.input)
        if shape:
            members["input_shape"] = shape
    return members


def _name(exchange: Exchange, payload: dict[str, object], caller: Agent | None) -> None:
    """
    Add to a record who answers for the caller, and the session, task and principal that the request named.

    :param caller: None where it is not proven to be the agent: strangers must not learn the owner of an agent.
    """
    if caller is not None:
        # Who answers for the caller, as its Identity Document has it (core v08 section 10.2).
        payload["caller_principal_id"] = caller.owner_id or caller.principal
    if exchange.session_id is not None:
        payload["session_id"] = exchange.session_id
    if exchange.task_id is not None:
        payload["task_id"] = exchange.task_id
    if exchange.acting_principal is not None:
        payload["acting_principal_id"] = exchange.acting_principal
    if exchange.requested_method is not None:
        payload["requested_method"] = exchange.requested_method
    if exchange.peer.rights_of:
        _extend(payload, {"trial": trial_member(exchange)})


def _name_parties(purchase: Purchase, payload: dict[str, Any]) -> None:
    """Add both parties of a purchase to a record, even if it fails (core v08 section 9)."""
    payload.update(purchase.members)
    payload["extra"] = {**payload.get("extra", {}), "purchase": purchase.said}


def _extend(payload: dict[str, Any], members: Mapping[str, Any]) -> None:
    """Add members to a record: those that the drafts name at the top, all others under ``extra``."""
    extra = {**payload.get("extra", {})}
    for name, value in members.items():
        if name in REGISTERED:
            payload[name] = value
        else:
            extra[name] = value
    if extra:
        payload["extra"] = extra


def remember(outcome: Outcome) -> bytes:
    """Encode a response, so that a repeat of a keyed request can be answered with it."""
    return f"{int(outcome.status)} {outcome.content_type}\n".encode() + outcome.body


def recall(result: bytes) -> EndpointResponse:
    """
    Decode a response that :func:`remember` encoded.

    :raises Refusal: 409 where the answer was too long to be kept.
    """
    gone = read_unkept(result)
    if gone is not None:
        raise _refuse_done(*gone)
    head, _, body = result.partition(b"\n")
    status, _, content_type = head.decode().partition(" ")
    return EndpointResponse(status=int(status), body=body, content_type=content_type)


def _refuse_done(status: int, digest: str, octets: int) -> Refusal:
    """
    Return a refusal of a call that was made and is not repeated; a caller with its first answer can compare the hash.
    """
    return Refusal(
        Reason.IDEMPOTENCY_RESULT_NOT_KEPT,
        details={"done": True, "original_status": status, "result_hash": digest, "result_octets": octets},
    )
