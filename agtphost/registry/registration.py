"""
REGISTER, RENEW, WITHDRAW and APPROVE of cards: who may change which card, and what becomes durable.

Operators change every card. An agent with the scope ``registry:register``, proven by its certificate, changes the cards
under its own name or Agent-ID. The change commits with the record of the call, so a recipient of the answer can rely on
it.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from zope.interface import implementer

from agtphost.errors import Refusal, not_found
from agtphost.handlers import parameters
from agtphost.handlers.authorization import Authorization
from agtphost.handlers.built_in import Answer, BuiltInContext, IBuiltInHandler
from agtphost.handlers.operators import OperatorAction
from agtphost.identity.agents import Agent
from agtphost.registry import card_reader, leases
from agtphost.registry.card import ACTIVE, DEPRECATED, WITHDRAWN, AgentCard
from agtphost.registry.catalogue import REGISTER, Cards
from agtphost.registry.endpoints import EndpointChecker
from agtphost.registry.entry import LIVE, CardEntry
from agtphost.registry.generated import HostedCards
from agtphost.registry.registered import entry_of
from agtphost.vocabulary import jsontext
from agtphost.vocabulary.reasons import Reason

APPROVE = "registry:approve"
"""The scope that lets an agent approve changed cards instead of an operator."""

UPLOAD = "upload"
PATHS = frozenset({"public", "search"})
"""Card ids that are refused, because they are paths of the registry over HTTP."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedCard:
    """A card as fetched from its URL."""

    octets: bytes
    etag: str = ""
    """ETag that the URL's server sent."""


Fetch = Callable[[str], Awaitable[FetchedCard]]
"""Fetches a card; raises a Refusal if that fails."""

Judge = Callable[[AgentCard], str]
"""Returns the result of checking a card's signatures, such as ``verified``."""


@implementer(IBuiltInHandler)
class ChangeCards:
    """
    Handler of the methods that change cards.

    :param known: returns every agent that the host knows.
    :param endpoints: the endpoint URLs that calls may go to.
    :param fetch: fetches a card from its URL.
    :param adapters: names of payload adapters; no registered card id may begin with one of them.
    """

    kind = "built_in"

    def __init__(
        self,
        cards: Cards,
        authorization: Authorization,
        known: Callable[[], Sequence[Agent]],
        endpoints: EndpointChecker,
        fetch: Fetch,
        judge: Judge,
        adapters: Sequence[str] = (),
        now: Callable[[], float] = time.time,
    ) -> None:
        self._cards = cards
        self._authorization = authorization
        self._known = known
        self._endpoints = endpoints
        self._fetch = fetch
        self._judge = judge
        self._adapters = tuple(adapters)
        self._now = now

    async def handle(self, context: BuiltInContext) -> Answer:
        """
        Answer REGISTER, RENEW, WITHDRAW or APPROVE.

        :raises Refusal: 403 if the caller may not change the card, 404 if the card does not exist, 409 if it changed
            since the caller read it, 422 if the card is invalid.
        """
        if context.method == "REGISTER":
            return await self._register(context)
        card_id = context.path_parameters["id"]
        if context.method == "APPROVE":
            return self._approve(context, card_id)
        # Only callers who may see the card learn whether it exists.
        entry = self._cards.get(context, card_id).entry
        self._require_own(context, card_id, entry)
        if self._cards.registered.get(card_id) is None:
            raise Refusal(
                Reason.CARD_NOT_YOURS, "The host itself publishes that card, which describes what it hosts.", remedy=""
            )
        self._require_match(context.input, entry)
        return self._renew(context, entry) if context.method == "RENEW" else self._withdraw(context, entry)

    # Who

    def _require_registrar(self, context: BuiltInContext) -> str:
        """
        Return the Agent-ID of the registering agent, or an empty text for operators.

        :raises Refusal: 403 for every other caller.
        """
        if self._authorization.may(context, OperatorAction.REGISTRY):
            return ""
        return self._authorization.require(
            context,
            REGISTER,
            f"Only administrators may register cards, and agents with the scope {REGISTER}.",
            OperatorAction.REGISTRY,
        )

    def _require_own(self, context: BuiltInContext, card_id: str, entry: CardEntry | None) -> str:
        """
        Return the owner of a card that the caller may change; an agent may change only its own cards.

        :raises Refusal: 403 if the caller may not change the card.
        """
        agent_id = self._require_registrar(context)
        caller = context.caller
        if not agent_id:
            return "" if entry is None else entry.owner
        if (entry is not None and entry.owner != agent_id) or caller is None or not self._is_under(card_id, caller):
            raise Refusal(Reason.CARD_NOT_YOURS, details={"id": card_id})
        return agent_id

    def _is_under(self, card_id: str, agent: Agent) -> bool:
        """
        Return whether an id is an agent's name or Agent-ID, or below it; a name that several agents share does not
        count.
        """
        own = card_id.partition(":")[0]
        if own == agent.agent_id:
            return True
        return own == agent.name and not any(
            each.name == agent.name and each.agent_id != agent.agent_id for each in self._known()
        )

    def _require_match(self, given: Mapping[str, Any], entry: CardEntry | None) -> None:
        """
        Require that the card is the one that the caller read, or that it does not exist yet.

        :raises Refusal: 409 if it is another one.
        """
        if entry is not None and parameters.text(given, "if_none_match") == "*":
            raise Refusal(
                Reason.CARD_CHANGED, "A card with that id already exists.", details={"current_etag": entry.digest}
            )
        wanted = parameters.text(given, "if_match")
        if wanted is None:
            return
        tags = [tag.strip().removeprefix("W/").strip('"') for tag in wanted.split(",")]
        if entry is not None and ("*" in tags or entry.digest in tags or str(entry.number) in tags):
            return
        raise Refusal(Reason.CARD_CHANGED, details={"current_etag": "" if entry is None else entry.digest})

    # REGISTER

    async def _register(self, context: BuiltInContext) -> Answer:
        given = context.input
        self._require_registrar(context)
        lifetime, public = _lifetime(given), given.get("public")
        if public is not None and not isinstance(public, bool):
            raise parameters.invalid("public", "public must be true or false.", "Leave it out, or send true.")
        if "url" in given:
            if "card" in given:
                raise parameters.invalid(
                    "url", "url and card were both sent; only one is allowed.", "Send one of them."
                )
            url = parameters.require_text(given, "url")
            self._cards.require_fetch(context, url)
            fetched = await self._fetch(url)
            octets, source, etag = fetched.octets, url, fetched.etag
        else:
            octets, source, etag = _read_sent_card(given), UPLOAD, ""
        card = self._read(octets)
        entry = self._cards.registered.get(card.id)
        owner = self._require_own(context, card.id, entry)
        self._require_free(card.id)
        self._require_match(given, entry)
        value, version = self._cards.registered.item(card.id)
        same = bool(value) and value["card"] == octets.decode()
        former = dict(value) if value and not same else None
        if not same:
            self._end_publicity(context, value, card)
        now = self._now()
        value.pop("pending", None)
        value.pop("lost_since", None)
        value.update(
            card=octets.decode(),
            number=(value["number"] if same else value["number"] + 1) if value else 1,
            updated=value["updated"] if same else now,
            source=source,
            owner=owner,
            by=self._authorization.actor(context),
            status=ACTIVE,
            signature=self._judge(card),
        )
        value.pop("successor", None)
        if etag:
            value["etag"] = etag
        if lifetime is not None or (owner and "lifetime" not in value):
            value["lifetime"] = lifetime or leases.DEFAULT
        if public is not None:
            self._publish(context, value, public)
        changes = self._cards.registered.put(card.id, value, version, former)
        self._cards.leases.renew(card.id)
        made = entry_of(card.id, value)
        return Answer(
            result={**self._to_json(made), "created": entry is None, "changed": not same},
            changes=changes,
            extra={"card": {"id": card.id, "version": made.number, "sha256": made.digest, "source": source}},
        )

    def _publish(self, context: BuiltInContext, value: dict[str, Any], public: bool) -> None:
        """Set whether a card is public; a request by an agent takes effect when an operator approves it."""
        if not public:
            for member in ("public", "public_by", "public_requested"):
                value.pop(member, None)
        elif self._authorization.operates(context):
            value.update(public=True, public_by=self._authorization.actor(context))
            value.pop("public_requested", None)
        elif not value.get("public_by"):
            value.pop("public", None)
            value["public_requested"] = True

    def _end_publicity(self, context: BuiltInContext, value: dict[str, Any], card: AgentCard) -> None:
        """End that a card is public if an agent changed its substance; the agent has to ask for it again."""
        if not value.get("public") or self._authorization.operates(context):
            return
        try:
            known = card_reader.read(str(value["card"]).encode(), EndpointChecker.allow_all())
        except card_reader.CardFaults:
            # A card that the present rules reject cannot be compared, so it counts as changed.
            known = None
        if known is None or known.substance != card.substance:
            for member in ("public", "public_by"):
                value.pop(member, None)
            value["public_requested"] = True

    def _read(self, octets: bytes) -> AgentCard:
        try:
            return card_reader.read(octets, self._endpoints)
        except card_reader.CardFaults as error:
            raise to_refusal(error) from None

    def _require_free(self, card_id: str) -> None:
        if HostedCards.is_of_host(card_id, self._adapters) or card_id in PATHS:
            raise Refusal(
                Reason.CARD_NOT_YOURS,
                "Ids with this beginning are reserved for what this host itself hosts. Choose another id.",
                details={"id": card_id},
            )

    def _to_json(self, entry: CardEntry) -> dict[str, Any]:
        return entry.to_json(LIVE, self._cards.tier(entry), self._now())

    # RENEW, WITHDRAW

    def _renew(self, context: BuiltInContext, entry: CardEntry) -> Answer:
        lifetime = _lifetime(context.input)
        self._cards.leases.renew(entry.id)
        if lifetime is None or lifetime == entry.lifetime:
            return Answer(result=self._to_json(entry), extra={"card": {"id": entry.id}})
        value, version = self._cards.registered.item(entry.id)
        value["lifetime"] = lifetime
        return Answer(
            result=self._to_json(entry_of(entry.id, value)),
            changes=self._cards.registered.put(entry.id, value, version, None),
            extra={"card": {"id": entry.id, "lifetime": lifetime}},
        )

    def _withdraw(self, context: BuiltInContext, entry: CardEntry) -> Answer:
        given = context.input
        if given.get("remove") in (True, "true"):
            return Answer(
                result={"id": entry.id, "removed": True},
                changes=self._cards.registered.removal(entry.id),
                extra={"card": {"id": entry.id, "removed": True}},
            )
        status = parameters.choice(given, "status", (WITHDRAWN, DEPRECATED, ACTIVE), WITHDRAWN)
        successor = parameters.text(given, "successor")
        if successor == entry.id or (successor is not None and len(successor) > card_reader.LONGEST_ID):
            raise parameters.invalid(
                "successor", "successor must be the id of another card.", "Send the id of another card."
            )
        value, version = self._cards.registered.item(entry.id)
        value["status"] = status
        value.pop("successor", None)
        if successor is not None and status != ACTIVE:
            value["successor"] = successor
        told = {"id": entry.id, "status": status, **({"successor": successor} if successor else {})}
        return Answer(
            result=self._to_json(entry_of(entry.id, value)),
            changes=self._cards.registered.put(entry.id, value, version, None),
            extra={"card": told},
        )

    # APPROVE

    def _approve(self, context: BuiltInContext, card_id: str) -> Answer:
        self._authorization.require(context, APPROVE, "Changed cards are approved by operators.")
        value, version = self._cards.registered.item(card_id)
        if not value:
            raise not_found(Reason.CARD_UNKNOWN)
        if context.input.get("public") is not None:
            return self._approve_public(context, card_id, value, version)
        pending = value.pop("pending", None)
        if pending is None:
            raise Refusal(
                Reason.NOTHING_TO_APPROVE,
                "No change of this card waits for an approval.",
                remedy="To make the card public, send public = true." if value.get("public_requested") else "",
            )
        looked_at = parameters.text(context.input, "digest")
        if looked_at is not None and looked_at != pending["digest"]:
            raise Refusal(Reason.DEFINITION_CHANGED_AGAIN, details={"digest": pending["digest"]})
        former = dict(value)
        if value.get("public"):
            self._end_publicity(context, value, self._read_pending(pending))
        value.update(
            card=pending["card"],
            number=value["number"] + 1,
            updated=self._now(),
            etag=pending.get("etag", ""),
            signature=pending["signature"],
        )
        made = entry_of(card_id, value)
        return Answer(
            result=self._to_json(made),
            changes=self._cards.registered.put(card_id, value, version, former),
            extra={"card": {"id": card_id, "version": made.number, "sha256": made.digest, "approved": True}},
        )

    @staticmethod
    def _read_pending(pending: Mapping[str, Any]) -> AgentCard:
        """
        Return the card that waits for an approval; it was checked under the rules of the time when it was fetched.
        """
        try:
            return card_reader.read(str(pending["card"]).encode(), EndpointChecker.allow_all())
        except card_reader.CardFaults as error:
            raise to_refusal(error) from None

    def _approve_public(self, context: BuiltInContext, card_id: str, value: dict[str, Any], version: int) -> Answer:
        """
        Make a card public or not public: strangers can see and call a public card.

        :raises Refusal: 403 unless an operator calls, also for agents with scopes; 409 if the card changed since the
            operator read it; 422 if ``public`` is not true or false.
        """
        public, digest = context.input["public"], parameters.text(context.input, "digest")
        if not isinstance(public, bool):
            raise parameters.invalid("public", "public must be true or false.", "Send true or false.")
        if not self._authorization.operates(context):
            raise self._authorization.refuse(
                context, OperatorAction.REGISTRY, "Only an administrator decides whether a card is public."
            )
        entry = entry_of(card_id, value)
        if digest is not None and digest != entry.digest:
            raise Refusal(Reason.CARD_CHANGED, details={"current_etag": entry.digest})
        self._publish(context, value, public)
        return Answer(
            result=self._to_json(entry_of(card_id, value)),
            changes=self._cards.registered.put(card_id, value, version, None),
            extra={"card": {"id": card_id, "sha256": entry.digest, "public": public}},
        )


def to_refusal(error: card_reader.CardFaults) -> Refusal:
    """Return the refusal of an invalid card."""
    first = error.faults[0]
    member = first.member or "card"
    return Refusal(
        Reason.CARD_INVALID,
        f"The card is invalid: {first}.",
        details={
            "parameter": member,
            "field": member,
            "faults": [{"path": each.member, "message": each.message} for each in error.faults],
        },
    )


def _read_sent_card(given: Mapping[str, Any]) -> bytes:
    """Return the octets of a sent card: a text is kept as it is, an object is encoded."""
    card = given.get("card")
    if isinstance(card, str):
        return card.encode()
    if isinstance(card, Mapping):
        return jsontext.encode(card)
    said = "The parameter card is missing." if card is None else "card must be an object, or the text of one."
    raise parameters.invalid("card", said, "Send the card, or its url.", missing=card is None)


def _lifetime(given: Mapping[str, Any]) -> float | None:
    value = given.get("lifetime")
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise parameters.invalid("lifetime", "lifetime must be a number of seconds.", "Send 900.")
    if not leases.SHORTEST <= value <= leases.LONGEST:
        said = f"lifetime must be from {leases.SHORTEST:g} to {leases.LONGEST:g} seconds."
        raise parameters.invalid("lifetime", said, "Send 900.")
    return float(value)
