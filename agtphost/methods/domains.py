"""
Telling the host of a domain: DEACTIVATE and REINSTATE with ``org_domain`` (core v08 section 11.8).

``DEACTIVATE org_domain`` says that a domain expired, or when it will;
``REINSTATE org_domain`` that its owner renewed it, and with ``owner_id`` that
it is that owner's now. The principal of every agent under it is notified in the
same transaction, by a notification and an event in the agent's chain, so that
both are there before any suspension.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from hashlib import sha256
from typing import Any

from agtphost.audit.domains import (
    DEPRECATED_AFTER,
    EXPIRED,
    GRACE,
    ORG_DOMAIN,
    RENEWED,
    TRANSFERRED,
    OrgDomain,
    barring,
    domain_name,
    read_domains,
)
from agtphost.audit.drafts import HOST_CHAIN, Change, StreamEvent
from agtphost.audit.state import StateTable
from agtphost.errors import Refusal
from agtphost.handlers import parameters
from agtphost.handlers.authorization import OPERATOR, Authorization, fingerprint, is_registrar
from agtphost.handlers.built_in import Answer, BuiltInContext
from agtphost.identity.agents import Agent
from agtphost.identity.canonical import canonical
from agtphost.methods.oversight.notification import KEPT, NOTIFICATION
from agtphost.vocabulary import times
from agtphost.vocabulary.reasons import Reason

METHODS = frozenset({"DEACTIVATE", "REINSTATE"})

AHEAD = 400 * 86_400
"""Seconds ahead that an expiry can be reported, at most: registrations of domains are renewed yearly."""


class Domains:
    """
    Handles reports about domains.

    :param held: the table of earlier reports.
    :param agents: every agent that this host knows.
    :param own_domain: the host's; its agents that name no domain are under it.
    :param authorization: operators may tell of every domain.
    :param open: whether everyone may: the lifecycle's development mode.
    :param notices: what tells others of an agent, committed with the telling.
    :param now: seconds since the Unix epoch.
    """

    def __init__(
        self,
        held: StateTable,
        agents: Callable[[], Iterable[Agent]],
        own_domain: str,
        authorization: Authorization | None = None,
        *,
        open: bool = False,
        notices: Callable[[Agent], tuple[Change, ...]] = lambda _: (),
        now: Callable[[], float] = time.time,
    ) -> None:
        self._held = held
        self._agents = agents
        self._own_domain = own_domain
        self._authorization = authorization or Authorization()
        self._open = open
        self._notices = notices
        self._now = now

    def barring(self, agent: Agent) -> OrgDomain | None:
        """Return the domain that keeps an agent from becoming active now; None if there is none."""
        return barring(agent, read_domains(self._held.items_of(ORG_DOMAIN)), self._own_domain, self._now())

    def __call__(self, context: BuiltInContext) -> Answer:
        """
        Answer a lifecycle method that names a domain.

        :raises Refusal: 401 and 403 for callers without authority over it, 400 and 422 for invalid reports.
        """
        given = context.input
        if context.method not in METHODS or "agent_id" in given:
            raise parameters.invalid(
                "org_domain",
                "A change of a domain is reported with DEACTIVATE or REINSTATE and without agent_id.",
                "Send org_domain alone, with DEACTIVATE or REINSTATE.",
                reason=Reason.MALFORMED_LIFECYCLE_REQUEST,
            )
        name = given.get("org_domain")
        domain = domain_name(name) if isinstance(name, str) else None
        if domain is None:
            raise parameters.invalid("org_domain", "org_domain is not a DNS domain.", "Send example.com.")
        concerned = [agent for agent in self._agents() if self._is_under(domain, agent)]
        self._authorize(context, concerned)
        before = self._held.get(ORG_DOMAIN, domain)
        known = OrgDomain.from_item(before.value) if before is not None else None
        now = self._now()
        tell = self._read_expiry if context.method == "DEACTIVATE" else self._read_renewal
        entry = tell(domain, known, given, now)
        if known is not None and (entry is known or _same(entry, known)):
            return Answer(result={**_render_entry(known, concerned), "noop": True})
        actor = parameters.text(given, "actor")
        change = Change(
            kind=ORG_DOMAIN, key=domain, value=entry.value(), expected=0 if before is None else before.version
        )
        return Answer(
            result=_render_entry(entry, concerned),
            changes=(change, *self._notify_agents(entry, concerned, now)),
            events=tuple(_events(entry, concerned, actor, context)),
            extra={"org_domain": domain, "org_domain_event": entry.event},
        )

    def _is_under(self, domain: str, agent: Agent) -> bool:
        return OrgDomain(domain=domain, event=EXPIRED, told_at=0, suspend_at=0, deprecate_at=0).concerns(
            agent, self._own_domain
        )

    def _authorize(self, context: BuiltInContext, concerned: list[Agent]) -> None:
        """Require an operator, or the registrar that issued every agent concerned."""
        if self._open:
            return
        if self._authorization.operates(context):
            return
        if not fingerprint(context.peer):
            raise Refusal(
                Reason.GENESIS_ISSUER_CERT_REQUIRED,
                "Only an operator, or the registrar of all agents under a domain, can report about it.",
                remedy="Connect with an operator's or the registrar's client certificate.",
            )
        issued = bool(concerned) and all(is_registrar(context.peer, agent) for agent in concerned)
        if not issued:
            raise Refusal(
                Reason.NOT_GENESIS_ISSUER,
                "The client certificate's key is not an operator's, and did not issue every agent under the domain.",
                remedy="Connect with the certificate of an administrator: [[operator]] lists their keys.",
            )

    # What is told

    @staticmethod
    def _read_expiry(domain: str, known: OrgDomain | None, given: Mapping[str, Any], now: float) -> OrgDomain:
        expires = parameters.moment(given, "expires_at")
        grace = parameters.start(given, "grace", GRACE)
        if expires is not None and expires > now + AHEAD:
            raise parameters.invalid("expires_at", "expires_at is more than 400 days ahead.", "Report it later.")
        suspend_at = max(now, now if expires is None else expires) + grace
        if known is not None and known.event != RENEWED and known.suspend_at <= now and known.event == EXPIRED:
            return known
        return OrgDomain(
            domain=domain,
            event=EXPIRED,
            told_at=now,
            suspend_at=suspend_at,
            deprecate_at=suspend_at + DEPRECATED_AFTER,
        )

    @staticmethod
    def _read_renewal(domain: str, known: OrgDomain | None, given: Mapping[str, Any], now: float) -> OrgDomain:
        owner = parameters.text(given, "owner_id")
        if owner is None:
            if known is None:
                raise Refusal(Reason.ORG_DOMAIN_UNKNOWN)
            if known.event == TRANSFERRED:
                raise Refusal(Reason.ORG_DOMAIN_TRANSFERRED, details={"owner_id": known.owner})
            return OrgDomain(domain=domain, event=RENEWED, told_at=now, suspend_at=now, deprecate_at=now)
        if not owner.isprintable():
            raise parameters.invalid("owner_id", "owner_id is not a line of text.", "Send the Genesis's owner_id.")
        begun = known is not None and known.event != RENEWED and known.suspend_at <= now
        return OrgDomain(
            domain=domain,
            event=TRANSFERRED,
            told_at=now,
            # Agents that were suspended before by its expiry are deprecated as they would have been.
            suspend_at=known.suspend_at if known is not None and begun else now,
            deprecate_at=known.deprecate_at if known is not None and begun else now + DEPRECATED_AFTER,
            owner=owner,
        )

    def _notify_agents(self, entry: OrgDomain, concerned: list[Agent], now: float) -> Iterable[Change]:
        """Yield notifications to each agent, and to its registrar and the operators."""
        until = int((max(now, entry.suspend_at) + KEPT) * 1000)
        for agent in concerned:
            yield from self._notices(agent)
            for recipient in (OPERATOR, agent.agent_id):
                value = {
                    "recipient": recipient,
                    "sender": agent.agent_id,
                    "topic": entry.event,
                    "content": {**entry.value(), "agent_id": agent.agent_id, "principal": agent.principal},
                    "urgency": "critical",
                    "delivery_guarantee": "exactly_once",
                    "expiry": None,
                    "sent_at": times.instant(int(now * 1_000_000)),
                    "status": "held",
                }
                number = f"ntf-{sha256(canonical(value)).hexdigest()[:32]}"
                yield Change(
                    kind=NOTIFICATION,
                    key=number,
                    value={**value, "notification_id": number},
                    owner="" if recipient == OPERATOR else recipient,
                    expires_at=until,
                )


def _same(entry: OrgDomain, known: OrgDomain) -> bool:
    """Return whether a report repeats the known one. For an expected expiry a report with another time replaces it."""
    if (entry.event, entry.owner) != (known.event, known.owner):
        return False
    return entry.event != EXPIRED or int(entry.suspend_at) == int(known.suspend_at)


def _render_entry(entry: OrgDomain, concerned: list[Agent]) -> dict[str, Any]:
    value = {name: text for name, text in entry.value().items() if text}
    if entry.event == RENEWED:
        del value["suspend_at"], value["deprecate_at"]
    value["org_domain"] = value.pop("domain")
    return {**value, "agents": [{"agent_id": agent.agent_id, "name": agent.name} for agent in concerned]}


def _events(
    entry: OrgDomain, concerned: list[Agent], actor: str | None, context: BuiltInContext
) -> Iterable[StreamEvent]:
    certificate = context.peer.certificate if context.peer is not None else None
    fields = {name: text for name, text in entry.value().items() if name not in ("event", "domain") and text}
    fields["org_domain"] = entry.domain
    if actor is not None:
        fields["actor"] = actor
    if certificate is not None and certificate.fingerprint:
        fields["actor_key"] = certificate.fingerprint
    yield StreamEvent(chain=HOST_CHAIN, event_type=entry.event, fields=fields)
    for agent in concerned:
        yield StreamEvent(chain=agent.agent_id, event_type=entry.event, fields={**fields, "principal": agent.principal})
