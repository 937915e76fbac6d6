"""
AUTHORIZE: what one agent lets another do in its place, and never more than it may itself.

Methods v01 sections 5.4 and 10.2.

The grant is a state item and a token of it. Its subject sends the token as ``Delegation-Token`` with a call that the
grant names: :mod:`agtphost.dispatch.gates.authorization_token` has that call run with the granted scope and nothing
else, and its record names both agents. What exceeds the caller's own scope is 455, and on record.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any

from twisted.logger import Logger
from zope.interface import implementer

from agtphost.audit.drafts import Change
from agtphost.audit.state import StateItem
from agtphost.dispatch.gates.authorization_token import CANCELLED, IN_FORCE, grant_id_of
from agtphost.dispatch.gates.procedure import beyond_own
from agtphost.dispatch.token_authority import NEVER
from agtphost.errors import Refusal
from agtphost.handlers import parameters
from agtphost.handlers.authorization import owner_of
from agtphost.handlers.built_in import Answer, BuiltInContext, IBuiltInHandler
from agtphost.identity.agents import Agent
from agtphost.identity.delegation import GRANT_LIFE, digest_of, issue_grant
from agtphost.identity.peer import Assurance
from agtphost.methods.standard.cancellation import Cancelling, cancelled_before
from agtphost.methods.standard.reservations import Reservations
from agtphost.methods.standard.services import MethodServices
from agtphost.vocabulary import grants, scopes, times
from agtphost.vocabulary.identifiers import is_agent_id
from agtphost.vocabulary.quotas import AUTHORIZATION
from agtphost.vocabulary.reasons import Reason

SCOPE = "authorization:grant"
"""What a grantor must hold."""

USUAL_LIFE = 3_600
"""Seconds, where ``ttl`` says nothing."""

MOST_RESOURCES = 16
"""Names of what may be called, in one grant."""

LONGEST_RESOURCES, LONGEST_SCOPE = 1_000, 1_500
"""Characters of all of them together, and of a scope: both stand in the record."""

log = Logger()


@implementer(IBuiltInHandler)
class Authorizing:
    """The handler of AUTHORIZE."""

    kind = "built_in"

    def __init__(self, parts: MethodServices) -> None:
        self._parts = parts
        self._claims = Reservations(parts.now)
        parts.held.watch(AUTHORIZATION, self._release_claim)

    def _release_claim(self, key: str, item: StateItem | None) -> None:
        if item is not None:
            self._claims.release(_terms(item.value))

    def handle(self, context: BuiltInContext) -> Answer:
        """
        Issue a grant.

        :raises Refusal: 401 without a certificate, 403 where the caller may hand nothing on, 409 where the very same
            grant is in force, 422, 455 for what exceeds the caller's own scope, 503 where the host signs nothing.
        """
        caller, now = owner_of(context), self._parts.now()
        self._require_own(context, caller)
        subject = self._subject(context, caller)
        asked = _scope(context.input)
        resources = _resources(context.input)
        self._require_within(context, caller, subject, asked)
        begins, ends = _times(context.input, now)
        said = {
            "grantor": caller.agent_id,
            "subject": subject.agent_id,
            "scope": sorted(asked),
            "resource": resources,
        }
        self._require_new(context, said, now)
        if self._parts.key is None:
            raise Refusal(
                Reason.PROVIDER_MISSING,
                "This host has no signing key, so its grants could not be verified.",
                remedy="The operator has to set [audit] signing = true.",
            )
        token = issue_grant(
            self._parts.key,
            issuer=self._parts.server_id,
            delegator=caller.agent_id,
            delegatee=subject.agent_id,
            scope=asked,
            resources=resources,
            task_id=context.task_id or secrets.token_hex(16),
            not_before=begins,
            expires_at=ends,
            now=now,
        )
        return self._grant(context, said, token, begins, int(ends))

    def _grant(self, context: BuiltInContext, said: Mapping[str, Any], token: str, begins: float, ends: int) -> Answer:
        digest = digest_of(token)
        value = {
            "grant_id": grant_id_of(digest),
            **said,
            "not_before": begins,
            "expires_at": ends,
            "state": IN_FORCE,
            "token_hash": digest,
            "audit_id": "",
        }
        change = Change(
            kind=AUTHORIZATION,
            key=value["grant_id"],
            value=value,
            owner=context.owner,
            expires_at=ends * 1000,
            expected=0,
            linked="audit_id",
        )
        shown = {"grant_id": value["grant_id"], **said, "expires_at": times.stamp(ends)}
        return Answer(
            result={**shown, "ttl": ends - int(self._parts.now()), "token": token},
            changes=(change,),
            extra={"authorization": {**shown, "token_hash": digest}},
        )

    # What has to hold

    @staticmethod
    def _require_own(context: BuiltInContext, caller: Agent) -> None:
        if context.assurance is not Assurance.CERTIFICATE:
            # The user of the grant is proven by its certificate: it would reach more than a mere header does.
            raise Refusal(
                Reason.AGENT_UNAUTHENTICATED,
                f"The calling agent is known by {context.assurance.label} only; what it authorizes needs certificate.",
                remedy="Connect with the agent's client certificate.",
                details={"assurance": context.assurance.label, "required_assurance": Assurance.CERTIFICATE.label},
            )
        if context.invocation.exchange.lineage is not None:
            raise Refusal(
                Reason.NOT_ENTITLED,
                "Delegated or granted rights cannot be granted further.",
                remedy="Ask the agent that the authority belongs to to AUTHORIZE.",
            )
        if caller.document.get("delegation_permitted") is False:
            raise Refusal(Reason.DELEGATION_NOT_PERMITTED)

    def _subject(self, context: BuiltInContext, caller: Agent) -> Agent:
        named = parameters.identifier(context.input, "subject")
        directory = self._parts.directory
        subject = directory.by_id(named) if is_agent_id(named) else directory.by_name(named)
        if subject is None:
            raise parameters.invalid(
                "subject",
                "subject is not an agent that this host knows.",
                "Send an Agent-ID, or a hosted agent's name.",
            )
        if subject.agent_id == caller.agent_id:
            raise parameters.invalid("subject", "An agent cannot authorize itself.", "Name another agent.")
        return subject

    @staticmethod
    def _require_within(context: BuiltInContext, caller: Agent, subject: Agent, asked: frozenset[str]) -> None:
        """Require that a grant stays within the grantor's own scopes (METH-054)."""
        excess = scopes.missing(context.scopes, sorted({*asked, SCOPE}))
        if not excess:
            return
        log.warn(
            "{grantor} would have authorized {subject} beyond its own scope: {excess}",
            grantor=caller.name,
            subject=subject.agent_id,
            excess=", ".join(excess),
        )
        said = {
            "grantor": caller.agent_id,
            "subject": subject.agent_id,
            "scope": sorted(asked),
            "exceeding": list(excess),
        }
        raise beyond_own(excess, said)

    def _require_new(self, context: BuiltInContext, said: Mapping[str, Any], now: float) -> None:
        for item in self._parts.held.items_of(AUTHORIZATION, context.owner):
            value = item.value
            if (
                value["state"] == IN_FORCE
                and now < value["expires_at"]
                and all(value[name] == said[name] for name in said)
            ):
                raise Refusal(
                    Reason.AUTHORIZED_ALREADY, details={"grant_id": item.key, "expires_at": value["expires_at"]}
                )
        self._claims.take(_terms(said))


def _terms(said: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the members by which two grants are equal."""
    return (said["grantor"], said["subject"], " ".join(said["scope"]), " ".join(said["resource"]))


def cancel_grant(parts: MethodServices) -> Any:
    """Return the source of CANCEL for grants: only the grantor or an operator can cancel one."""

    def source(context: BuiltInContext, target_id: str, said: Mapping[str, Any]) -> Cancelling | None:
        item = parts.held.get(AUTHORIZATION, target_id)
        if item is None:
            return None
        own = bool(context.owner) and item.owner == context.owner
        if not own and not parts.authorization.manages(context, item.value["grantor"]):
            return None
        if item.value["state"] == CANCELLED:
            raise cancelled_before(target_id, CANCELLED)
        change = Change(
            kind=AUTHORIZATION,
            key=item.key,
            value={**item.value, "state": CANCELLED, **said},
            owner=item.owner,
            expires_at=item.expires_at,
            expected=item.version,
        )
        return Cancelling(kind=AUTHORIZATION, changes=(change,), parties=(item.value["subject"],))

    return source


# Parameters


def _scope(given: Mapping[str, Any]) -> frozenset[str]:
    value = given.get("scope")
    try:
        found = scopes.parse(value) if isinstance(value, str) else None
    except scopes.ScopeError:
        found = frozenset()
    if found is None and scopes.are_tokens(value):
        found = frozenset(value or ())
    if not found or sum(map(len, found)) > LONGEST_SCOPE:
        raise parameters.invalid(
            "scope",
            f"scope is not 1 to {scopes.MAX_TOKENS} scope tokens.",
            'Send a list such as ["documents:read"].',
        )
    return found


def _resources(given: Mapping[str, Any]) -> list[str]:
    value = given.get("resource")
    listed = [value] if isinstance(value, str) else value
    if (
        not isinstance(listed, list)
        or not 0 < len(listed) <= MOST_RESOURCES
        or not all(isinstance(each, str) and grants.is_grant(each) for each in listed)
        or grants.ANY in listed
        or sum(map(len, listed)) > LONGEST_RESOURCES
    ):
        raise parameters.invalid(
            "resource",
            f"resource is not 1 to {MOST_RESOURCES} names of what may be called.",
            "Send METHOD /path as in DISCOVER /methods, server.tool as in DISCOVER /tools, or a method of the host.",
        )
    for each in listed:
        if each.partition(" ")[0] in NEVER and not each.partition(" ")[2].startswith("/"):
            raise parameters.invalid("resource", f"{each} is never granted to others.", "Name something else.")
    return sorted(set(listed))


def _times(given: Mapping[str, Any], now: float) -> tuple[float, float]:
    """Read when the grant begins and ends, in seconds since the epoch."""
    ttl = given.get("ttl", USUAL_LIFE)
    if isinstance(ttl, bool) or not isinstance(ttl, int) or not 0 < ttl <= GRANT_LIFE:
        raise parameters.invalid("ttl", f"ttl is not 1 to {GRANT_LIFE} seconds.", "Send a shorter time.")
    conditions = given.get("conditions") or {}
    if not isinstance(conditions, dict) or conditions.keys() - {"not_before"}:
        raise parameters.invalid(
            "conditions", "conditions has a member that this host cannot enforce.", "Send only not_before."
        )
    try:
        begins = parameters.moment(conditions, "not_before")
    except Refusal:
        begins = now + ttl
    if begins is not None and begins >= now + ttl:
        raise parameters.invalid(
            "conditions", "conditions.not_before is not a time before the grant ends.", "Send an earlier time."
        )
    return max(now, begins or now), now + ttl
