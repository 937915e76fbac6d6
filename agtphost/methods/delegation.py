"""
DELEGATE: a task handed to another agent with part of the caller's authority (core v08 section 7.2.9).

Theory of operation. The delegator is the caller; inside a delegated call it is
the agent that was delegated to. Its signed token names who delegates what to
whom, once. When everything about the token and the chain behind it holds, the
hop is committed with a record of its own, and only then the task runs: through
the dispatcher, addressed to the delegatee, in a session of its own and with
the granted scopes alone. The caller stays the one whose authority is used, so
nobody acts in a name that is not theirs, and each record under the delegation
names the whole chain. Authority can only shrink: a grant is a strict subset of
what the delegator has here and now.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from twisted.internet.defer import Deferred, TimeoutError
from twisted.internet.interfaces import IReactorTime
from zope.interface import implementer

from agtphost.audit.drafts import Change
from agtphost.audit.lifecycle import LifecycleState, LifecycleStatus
from agtphost.dispatch.waiting import bounded
from agtphost.errors import Refusal
from agtphost.handlers.context import EndpointContext, EndpointResponse
from agtphost.iagtp import IAgentDirectory, IHandler
from agtphost.identity import delegation
from agtphost.identity.agents import Agent
from agtphost.identity.delegation import DelegationError, DelegationToken, Lineage
from agtphost.identity.keys import KeyFormatError, SigningKey, VerifyingKey
from agtphost.methods import delegated_task, parameters
from agtphost.methods.delegated_task import Asked, Call
from agtphost.methods.hops import Hops
from agtphost.vocabulary import jsontext, scopes
from agtphost.vocabulary.status import Status
from agtphost.wire.events import Response

SERVING = frozenset({LifecycleStatus.ACTIVE, LifecycleStatus.DEPRECATED})
"""Agents in these states may stand in a chain."""

OWN_TOKEN_LIFE = 60
"""Seconds of a token that the host signs for the code of an agent that it hosts."""

States = Callable[[Agent], LifecycleState]


@dataclass(frozen=True, kw_only=True)
class DelegationRules:
    """What the operator allows: ``[delegation]``."""

    max_depth: int = 5
    """Hops of one chain."""

    max_deadline: float = 300.0
    """Seconds for one task."""

    zone_bound: bool = False
    """Whether a delegatee has to be in the delegator's governance zone, whatever the request says."""

    governance: Mapping[str, VerifyingKey] = field(default_factory=dict)
    """Keys of the governance platforms whose tokens are believed, by their ``iss``."""


@dataclass(frozen=True, kw_only=True)
class _Hop:
    """One hop that is being decided on."""

    asked: Asked
    delegator: Agent
    target: Agent
    before: Lineage | None
    """The delegation that the request itself runs under."""

    def said(self) -> dict[str, object]:
        """What records say of it, whatever comes of it."""
        return {
            "delegator": self.delegator.agent_id,
            "delegatee": self.target.agent_id,
            "scope": sorted(self.asked.scope),
        }

    def broken(self, reason: str, explanation: str, remedy: str, *, position: int, **more: object) -> Refusal:
        """551, naming the link (core v08 section 5.6)."""
        link = {"delegator": self.delegator.agent_id, "delegatee": self.target.agent_id, "position": position, **more}
        return Refusal(
            Status.AUTHORITY_CHAIN_BROKEN,
            reason,
            explanation,
            remedy=remedy,
            details={"link": link},
            extra={"delegation": {**self.said(), "link": link}},
        )

    @property
    def position(self) -> int:
        """Which hop of its chain this would be, counted from 1, as far as the host itself knows."""
        return 1 if self.before is None else self.before.depth + 1


@implementer(IHandler)
class Delegation:
    """
    The handler of DELEGATE.

    :param hops: used tokens.
    :param server_id: ``iss`` of the tokens that the host signs.
    :param key: the host's own; None where it has none, and then signs none.
    :param clock: for deadlines.
    :param now: seconds since the epoch.
    """

    kind = "built_in"

    def __init__(
        self,
        directory: IAgentDirectory,
        states: States,
        hops: Hops,
        *,
        server_id: str,
        key: SigningKey | None,
        clock: IReactorTime,
        rules: DelegationRules,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._directory = directory
        self._states = states
        self._hops = hops
        self._server_id = server_id
        self._key = key
        self._clock = clock
        self._rules = rules
        self._now = now

    async def handle(self, context: EndpointContext) -> EndpointResponse:
        """
        Decide, commit the hop, run the task.

        :raises Refusal: 262 for a grant that is no strict subset, 403, 404, 422, 457 for a zone, 550 where the
            task failed, 551 for a token or chain that cannot be verified.
        """
        hop = self._hop(context, delegated_task.read(context.input))
        self._require_permission(hop)
        self._require_subset(hop, context.scopes)
        self._require_zone(hop, context)
        token = self._verified(hop, context)
        lineage = self._lineage(hop, token)
        changes = [Hops.change(token, lineage), *self._governed(hop, context)]
        invocation = context.invocation
        said = {**hop.said(), "chain": list(lineage.chain), "depth": lineage.depth, "token_hash": token.digest}
        audit_id = await invocation.commit({"type": "delegation-accepted", **said}, changes, {"delegation": said})
        running = Lineage(
            chain=lineage.chain,
            scope=lineage.scope,
            token=lineage.token,
            audit_id=audit_id,
            calls=context.invocation.exchange.peer.depth + 1,
            expires_at=lineage.expires_at,
        )
        answers = await self._within(hop, self._perform(hop, invocation, running), running)
        return EndpointResponse(
            result=_result(hop, running, answers), extra={"delegation": {**said, "accepted": audit_id}}
        )

    # Who, to whom

    def _hop(self, context: EndpointContext, asked: Asked) -> _Hop:
        caller, peer = context.caller, context.peer
        if caller is None:
            raise Refusal(
                Status.UNAUTHORIZED,
                "agent-unauthenticated",
                "The request names no calling agent, and only agents delegate.",
                remedy="Send Agent-ID, and present the agent's client certificate.",
            )
        before = peer.delegation if peer is not None else None
        by_itself = before is not None and peer is not None and peer.depth > before.calls
        if asked.token is None and not (by_itself and self._key is not None):
            parameters.required(context.input, "delegation_token")
        delegator = caller if before is None else self._directory.by_id(before.chain[-1])
        if delegator is not None and asked.target == delegator.agent_id:
            raise parameters.invalid(
                "target_agent_id", "An agent cannot delegate to itself.", "Name another agent, or do the task."
            )
        target = self._directory.by_id(asked.target)
        if target is None or not target.hosted or delegator is None:
            raise Refusal(
                Status.NOT_FOUND,
                "delegatee-not-hosted",
                "The agent to delegate to is not hosted here, and this host does not delegate to other hosts.",
                remedy="DISCOVER /agents lists the hosted agents; delegate at the host of the agent.",
                details={"target_agent_id": asked.target},
            )
        return _Hop(asked=asked, delegator=delegator, target=target, before=before)

    @staticmethod
    def _require_permission(hop: _Hop) -> None:
        if hop.delegator.document.get("delegation_permitted") is False:
            raise Refusal(
                Status.FORBIDDEN,
                "delegation-not-permitted",
                "The delegator's Identity Document does not permit it to delegate.",
                remedy="Have the registrar issue a document with delegation_permitted: true.",
                extra={"delegation": hop.said()},
            )

    @staticmethod
    def _require_subset(hop: _Hop, effective: frozenset[str], of: str = "the delegator has here and now") -> None:
        """The defence against authority laundering (core v08 section 7.2.9, spec-conflicts 51)."""
        granted = hop.asked.scope
        excess = scopes.missing(effective, sorted(granted))
        if not excess and scopes.missing(granted, sorted(effective)):
            return
        raise Refusal(
            Status.AUTHORIZATION_REQUIRED,
            "scope-required",
            f"authority_scope goes beyond what {of}."
            if excess
            else f"authority_scope is everything that {of}, and not a strict subset of it.",
            remedy="Grant less.",
            details={"missing_scopes": list(excess), "detail": "scope-exceeded" if excess else "not-strict-subset"},
            extra={"delegation": {**hop.said(), "exceeding": list(excess)}},
        )

    def _require_zone(self, hop: _Hop, context: EndpointContext) -> None:
        declared = context.invocation.exchange.request.headers.get("agtp-zone-id")
        zone = hop.target.governance_zone
        certificate = context.peer.certificate if context.peer is not None else None
        own = hop.delegator.governance_zone
        if declared is not None:
            committed = certificate.governance_zone if certificate is not None else None
            if committed is not None and committed != declared:
                raise self._outside(hop, declared, "AGTP-Zone-ID is not the zone of the caller's certificate.")
            if zone != declared:
                raise self._outside(hop, declared, "The agent to delegate to is outside the zone of AGTP-Zone-ID.")
        if self._rules.zone_bound and (zone is None or zone != own):
            raise self._outside(hop, own, "The agent to delegate to is outside the delegator's governance zone.")

    @staticmethod
    def _outside(hop: _Hop, zone: str | None, explanation: str) -> Refusal:
        details = {"zone": zone, "delegatee_zone": hop.target.governance_zone}
        return Refusal(
            Status.ZONE_VIOLATION,
            "zone-violation",
            explanation,
            remedy="Delegate to an agent inside the zone, or obtain authorization across zones.",
            details=details,
            extra={"delegation": {**hop.said(), **details}},
        )

    # The token

    def _verified(self, hop: _Hop, context: EndpointContext) -> DelegationToken:
        now = self._now()
        text = hop.asked.token or self._own_token(hop, context, now)
        signers = self._signers(hop, context)
        try:
            token = delegation.read(text, {key.kid: key for key, _ in signers}, now)
            if not any(key.kid == token.kid and token.issuer in names for key, names in signers):
                raise DelegationError("claims", "iss is not who signed it")
        except DelegationError as error:
            expired = error.reason == "expired"
            raise hop.broken(
                "delegation-token-expired" if expired else "delegation-token-invalid",
                f"The delegation token cannot be verified: {error}.",
                "Present a token signed by the delegator's key or by its registrar.",
                position=hop.position,
                fault=error.reason,
            ) from None
        self._require_match(hop, token, context.task_id)
        if self._hops.used(token):
            raise hop.broken(
                "delegation-token-replayed",
                "The delegation token was used before.",
                "Have a token issued for each delegation.",
                position=token.depth,
                fault="replayed",
            )
        if self._hops.full(hop.delegator.agent_id):
            raise Refusal(
                Status.RATE_LIMITED,
                "too-many-delegations",
                "The delegator used as many tokens as are remembered; they are until they end.",
                remedy="Wait until earlier tokens have ended.",
                headers=(("Retry-After", "60"),),
                details={"scope": "delegation", "retry_after_seconds": 60},
            )
        return token

    def _own_token(self, hop: _Hop, context: EndpointContext, now: float) -> str:
        """The token of an agent whose code runs here: the host vouches for what that code delegates."""
        before, key = hop.before, self._key
        assert before is not None and key is not None, "a token is required of everybody else"
        return delegation.issue(
            key,
            issuer=self._server_id,
            delegator=hop.delegator.agent_id,
            delegatee=hop.target.agent_id,
            scope=hop.asked.scope,
            task_id=context.task_id or before.token,
            now=now,
            lifetime=max(1, min(OWN_TOKEN_LIFE, before.expires_at - int(now))),
            depth=before.depth + 1,
            parent=before.token,
        )

    def _signers(self, hop: _Hop, context: EndpointContext) -> list[tuple[VerifyingKey, frozenset[str]]]:
        """
        Whose signature is the delegator's word: its own, its Genesis issuer's, and for hosted agents the host's.

        :return: each key with what its tokens may name as ``iss``.
        """
        delegator = hop.delegator
        own = frozenset({delegator.agent_id})
        found: list[tuple[VerifyingKey, frozenset[str]]] = []
        certificate = context.peer.certificate if context.peer is not None else None
        if certificate is not None and certificate.key is not None and certificate.agent_id == delegator.agent_id:
            found.append((certificate.key, own))
        genesis = delegator.genesis
        if genesis is not None:
            named = _named_key(genesis.members)
            if named is not None:
                found.append((named, own))
            issuer = genesis.issuer_key
            names = {issuer.fingerprint, issuer.kid, delegator.document.get("issuer")}
            names.add(delegator.document.get("manifest_issuer"))
            found.append((issuer, frozenset(name for name in names if isinstance(name, str))))
        if delegator.hosted and self._key is not None:
            found.append((self._key.public, frozenset({self._server_id})))
        return found

    def _require_match(self, hop: _Hop, token: DelegationToken, task_id: str | None) -> None:
        """The token is about this delegator, this delegatee, this task, and no less than this grant."""
        wrong = ""
        if token.delegator != hop.delegator.agent_id:
            wrong = "sub is not the delegator"
        elif token.delegatee != hop.target.agent_id:
            wrong = "aud is not the agent to delegate to"
        elif task_id is not None and token.task_id != task_id:
            wrong = "task_id is not the Task-ID of the request"
        elif task_id is None and hop.asked.token is not None:
            wrong = "the request has no Task-ID, which the token is bound to"
        elif scopes.missing(token.scope, sorted(hop.asked.scope)):
            wrong = "scope does not cover authority_scope"
        if wrong:
            raise hop.broken(
                "delegation-token-mismatch",
                f"The delegation token is about something else: {wrong}.",
                "Present a token issued for this delegation.",
                position=token.depth,
                fault="mismatch",
            )

    # The chain

    def _lineage(self, hop: _Hop, token: DelegationToken) -> Lineage:
        """
        The chain with this hop at its end, every link of it verified.

        :raises Refusal: 551 for a link that is unknown, ended, too deep, or of an agent that no longer serves;
            262 where the hop would have more than the one before.
        """
        chain: tuple[str, ...] = (hop.delegator.agent_id,)
        if hop.before is not None or token.parent is not None:
            chain = self._before(hop, token).chain
        chain = (*chain, hop.target.agent_id)
        depth = len(chain) - 1
        if token.depth != depth:
            raise self._cut(hop, depth, f"The token says depth {token.depth} where its chain has {depth}.")
        if depth > self._rules.max_depth:
            raise self._cut(hop, depth, f"Chains have at most {self._rules.max_depth} hops here.")
        for position, agent_id in enumerate(chain[:-1], 1):
            agent = self._directory.by_id(agent_id)
            if agent is None or self._states(agent).status not in SERVING:
                raise self._cut(hop, position, "An agent of the chain does not serve any more.")
            most = agent.document.get("max_delegation_depth")
            below = depth - position + 1
            if isinstance(most, int) and not isinstance(most, bool) and below > most:
                raise self._cut(
                    hop, position, f"The Identity Document of an agent of the chain permits {most} hops below it."
                )
        return Lineage(
            chain=chain, scope=hop.asked.scope, token=token.digest, audit_id="", calls=0, expires_at=token.expires_at
        )

    def _before(self, hop: _Hop, token: DelegationToken) -> Lineage:
        """The hop before, which the token names as its parent."""
        parent = hop.before
        if parent is None:
            parent = None if token.parent is None else self._hops.parent(token.parent)
        elif parent.token != token.parent:
            raise self._cut(hop, parent.depth + 1, "The token's parent is not the delegation that the request runs in.")
        if parent is None:
            raise self._cut(hop, token.depth - 1, "The hop before, which the token names as its parent, is unknown.")
        if parent.chain[-1] != hop.delegator.agent_id:
            raise self._cut(hop, parent.depth, "The hop before delegated to another agent.")
        if token.expires_at > parent.expires_at:
            raise self._cut(hop, parent.depth + 1, "The token lives longer than the one of the hop before.")
        self._require_subset(hop, parent.scope, "the hop before was granted")
        return parent

    @staticmethod
    def _cut(hop: _Hop, position: int, explanation: str) -> Refusal:
        return hop.broken(
            "delegation-chain-broken",
            explanation,
            "Start a new chain from an agent that serves.",
            position=position,
            fault="chain",
        )

    # The governance platform's word

    def _governed(self, hop: _Hop, context: EndpointContext) -> Sequence[Change]:
        """
        Verify a governance token where one is presented (companion section 8.2).

        :raises Refusal: 401 for one that proves nothing, 403 for a DENY.
        """
        text = context.invocation.exchange.context.get("governance_token")
        if text is None:
            return ()
        try:
            if not isinstance(text, str):
                raise DelegationError("malformed", "it is not a text")
            verdict = delegation.read_governance(text, self._rules.governance, self._now())
            if verdict.agent_id != hop.delegator.agent_id:
                raise DelegationError("claims", "it is about another agent")
            expected = {"method": "DELEGATE", "path": context.path, "target_agent_id": hop.target.agent_id}
            for name, value in expected.items():
                if verdict.action.get(name, None if name == "method" else value) != value:
                    raise DelegationError("claims", f"action.{name} is another")
            if self._hops.governance_used(verdict):
                raise DelegationError("replayed", "it was used before")
        except DelegationError as error:
            raise Refusal(
                Status.UNAUTHORIZED,
                "governance-token-invalid",
                f"The governance token cannot be believed: {error}.",
                remedy="Have the governance platform decide on this action anew.",
                details={"fault": error.reason},
                extra={"delegation": hop.said()},
            ) from None
        change = Hops.governance_change(verdict)
        if not verdict.allowed:
            raise Refusal(
                Status.FORBIDDEN,
                "governance-denied",
                "The governance platform denies the action.",
                remedy="Ask the governance platform why.",
                changes=(change,),
                extra={"delegation": hop.said()},
            )
        return (change,)

    # The task

    async def _within(self, hop: _Hop, working: Any, lineage: Lineage) -> list[Response]:
        seconds = min(hop.asked.deadline or self._rules.max_deadline, self._rules.max_deadline)
        try:
            answers: list[Response] = await bounded(Deferred.fromCoroutine(working), seconds, self._clock)
        except TimeoutError:
            error = {"status": int(Status.TIMEOUT), "reason": "deadline-exceeded", "audit_id": ""}
            raise self._failed(
                hop, lineage, error, f"The task did not end within its {seconds:g} seconds.", "Give it more time."
            ) from None
        return answers

    async def _perform(self, hop: _Hop, invocation: Any, lineage: Lineage) -> list[Response]:
        session_id = os.urandom(16).hex()
        answers: list[Response] = []
        for number, call in enumerate(hop.asked.calls):
            path = f"/agents/{hop.target.name}{'' if call.path == '/' else call.path}"
            response: Response = await invocation.delegate(call.method, path, call.parameters, lineage, session_id)
            if not 200 <= response.status < 300 or response.status == Status.AUTHORIZATION_REQUIRED:
                raise self._failed(
                    hop,
                    lineage,
                    {**_error_of(response), "call": number, **_named(call)},
                    "The agent that the task was delegated to did not complete it.",
                    "Correct the task as the nested error says.",
                )
            answers.append(response)
        return answers

    @staticmethod
    def _failed(hop: _Hop, lineage: Lineage, error: Mapping[str, Any], explanation: str, remedy: str) -> Refusal:
        """550 with the sub-agent's own error (core v08 section 5.6)."""
        return Refusal(
            Status.DELEGATION_FAILURE,
            "delegation-failure",
            explanation,
            remedy=remedy,
            details={"target_agent_id": hop.target.agent_id, "sub_agent_error": dict(error)},
            extra={
                "delegation": {
                    **lineage.members(),
                    "sub_agent_error": {
                        "status": error["status"],
                        "reason": error["reason"],
                        "audit_id": error["audit_id"],
                    },
                }
            },
        )


def _named_key(members: Mapping[str, Any]) -> VerifyingKey | None:
    """The agent's own key, where its Genesis names one as deployed implementations do."""
    text = members.get("agent_public_key")
    try:
        return VerifyingKey.from_text(text) if isinstance(text, str) else None
    except KeyFormatError:
        return None


def _body_of(response: Response) -> Any:
    return jsontext.decode(response.body) if response.body else {}


def _named(call: Call) -> dict[str, str]:
    return {"method": call.method, "path": call.path}


def _error_of(response: Response) -> dict[str, Any]:
    body = _body_of(response)
    details = dict(body) if isinstance(body, dict) else {}
    for name in ("attribution", "status", "type", "code", "error", "task_id"):
        details.pop(name, None)
    return {
        "status": int(response.status),
        "audit_id": response.headers.get("audit-id") or "",
        "reason": "",
        **details,
    }


def _result(hop: _Hop, lineage: Lineage, answers: Sequence[Response]) -> dict[str, Any]:
    outcomes = []
    for response in answers:
        body = _body_of(response)
        if isinstance(body, dict) and "result" in body and "attribution" in body:
            body = body["result"]
        outcomes.append(
            {"status": int(response.status), "result": body, "audit_id": response.headers.get("audit-id") or ""}
        )
    shown: dict[str, Any] = {
        "target_agent_id": hop.target.agent_id,
        "authority_scope": sorted(lineage.scope),
        "chain": list(lineage.chain),
        "depth": lineage.depth,
        "accepted_audit_id": lineage.audit_id,
    }
    if hop.asked.sequence:
        shown["results"] = outcomes
    else:
        shown.update(outcomes[0])
    if hop.asked.callback is not None:
        # The answer travels in this response; nothing is sent twice.
        shown["callback"] = {"delivered": False, "reason": "answered-directly"}
    return shown
