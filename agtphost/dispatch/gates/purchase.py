"""
Counterparty verification of PURCHASE, before any handler (core v08 section 9, companion section 14).

In this order: the addressed agent is a merchant, and active; Merchant-ID is
its Agent-ID; the fingerprint is that of its present manifest; the manifest's
signature holds; the parameters say what is bought; the Intent-Assertion holds
and is new; the cart is the one that was quoted; the budget allows the amount.
Until the signature everything is 458, and so is a bad assertion: the buyer has
to verify its counterparty, or its authority to buy, anew. A PURCHASE without its headers never passes, in any mode.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from twisted.logger import Logger
from zope.interface import implementer

from agtphost.audit.lifecycle import LifecycleStatus
from agtphost.audit.state import StateTable
from agtphost.dispatch.exchange import Exchange
from agtphost.dispatch.gates.identity import States
from agtphost.dispatch.interfaces import Condition, ICacheableGate
from agtphost.dispatch.merchants import MERCHANT, MerchantManifests
from agtphost.dispatch.purchase import NEW_ASSERTION, Purchase, UsedAssertions, refuse_replayed, refuse_unverified
from agtphost.dispatch.quotes import CartError, Quotes, cart_digest
from agtphost.dispatch.scope_dimensions import budget_exceeded, budget_limit
from agtphost.errors import Refusal, not_found
from agtphost.handlers import parameters
from agtphost.identity.agents import Agent
from agtphost.identity.intent import DIGEST, Intent, IntentAssertions, IntentError
from agtphost.vocabulary import budget, money
from agtphost.vocabulary.identifiers import is_agent_id, is_opaque_id
from agtphost.vocabulary.money import Money, MoneyError
from agtphost.vocabulary.reasons import Reason
from agtphost.vocabulary.status import Status

METHOD = "PURCHASE"

MAX_PARAMETER = 256
"""Characters of ``principal_id``: it goes into the record."""

HOLD = "confirm_immediately"
"""False: the item is held, and bought when it is confirmed (methods v01 section 5.7)."""

_NAME_CART = "Send Cart-Digest or cart_quote_id of the QUOTE that the assertion was made for."

log = Logger()


@implementer(ICacheableGate)
class MerchantGate:
    """
    Lets a PURCHASE pass whose counterparty was verified; every other method passes unchecked.

    :param states: the present lifecycle state of an agent.
    :param manifests: what buyers have to have verified.
    :param assertions: what verifies Intent-Assertions; by default none is believed.
    :param held: where quotes and used assertions are.
    :param intent_required: whether a PURCHASE without an Intent-Assertion is refused.
    :param production: whether merchants of trust tier 3 sell nothing.
    """

    name = "merchant"

    def __init__(
        self,
        states: States,
        manifests: MerchantManifests,
        *,
        assertions: IntentAssertions | None = None,
        held: StateTable | None = None,
        intent_required: bool = False,
        production: bool = False,
    ) -> None:
        held = StateTable() if held is None else held
        self._states = states
        self._manifests = manifests
        self._assertions = assertions or IntentAssertions()
        self._used = UsedAssertions(held)
        self._quotes = Quotes(held)
        self._intent_required = intent_required
        self._production = production

    def check(self, exchange: Exchange) -> None:
        if exchange.method != METHOD:
            return
        try:
            self._check(exchange)
        except Refusal as refusal:
            if refusal.status is Status.COUNTERPARTY_UNVERIFIED:
                log.warn(
                    "a PURCHASE was refused, {reason}: agent {caller}, addressed {agent}, from {address}",
                    reason=refusal.reason,
                    caller=None if exchange.caller is None else exchange.caller.agent_id,
                    agent=None if exchange.agent is None else exchange.agent.agent_id,
                    address=exchange.peer.address,
                )
            raise

    def conditions(self, exchange: Exchange) -> Sequence[Condition] | None:
        """Return no conditions for every other method, which always passes; None for a PURCHASE."""
        return () if exchange.method != METHOD else None

    def _check(self, exchange: Exchange) -> None:
        caller = exchange.caller
        if caller is None:
            raise Refusal(
                Reason.AGENT_UNAUTHENTICATED, "Only agents buy, and the request does not name the calling agent."
            )
        merchant = self._merchant(exchange.agent)
        purchase = self._verify(exchange, merchant, caller)
        exchange.purchase = purchase
        amount = self._parameters(exchange, purchase)
        self._require_intent(exchange, purchase, amount)
        self._require_cart(exchange, purchase, amount)
        _require_budget(exchange, amount)

    # The counterparty

    def _merchant(self, agent: Agent | None) -> Agent:
        """Return the addressed agent; refuse one that is not an active merchant."""
        if agent is None or agent.role != MERCHANT:
            raise refuse_unverified(
                Reason.NOT_A_MERCHANT,
                retryable=False,
            )
        state = self._states(agent)
        if state.status is not LifecycleStatus.ACTIVE:
            suspended = state.status is LifecycleStatus.SUSPENDED
            raise refuse_unverified(
                Reason.MERCHANT_NOT_ACTIVE,
                f"The merchant is {state.status.value}, and only active merchants sell.",
                "Wait until it is reinstated, and verify it again." if suspended else "Buy from another merchant.",
                retryable=suspended,
                lifecycle_state=state.status.value,
                since=state.since,
            )
        if self._production and agent.posture.trust_tier >= 3:
            raise refuse_unverified(
                Reason.MERCHANT_TRUST_INSUFFICIENT,
                retryable=False,
            )
        return agent

    def _verify(self, exchange: Exchange, merchant: Agent, caller: Agent) -> Purchase:
        """Check that the headers describe the merchant, and that its manifest is valid."""
        headers = exchange.request.headers
        merchant_id = headers.get("merchant-id")
        if merchant_id is None:
            raise _missing(Reason.MISSING_MERCHANT_ID_HEADER, "Merchant-ID", "the merchant's Agent-ID")
        if not is_agent_id(merchant_id) or merchant_id != merchant.agent_id:
            raise refuse_unverified(
                Reason.MERCHANT_ID_MISMATCH,
                retryable=False,
                claimed=merchant_id if is_agent_id(merchant_id) else "",
            )
        fingerprint = headers.get("merchant-manifest-fingerprint")
        if fingerprint is None:
            raise _missing(
                Reason.MISSING_MERCHANT_MANIFEST_FINGERPRINT_HEADER,
                "Merchant-Manifest-Fingerprint",
                "the SHA-256 of its canonical Identity Document",
            )
        manifest = self._manifests.manifest_of(merchant, self._states(merchant))
        if not manifest.fingerprint or fingerprint.removeprefix("sha256:") != manifest.fingerprint:
            raise refuse_unverified(Reason.MERCHANT_MANIFEST_FINGERPRINT_MISMATCH, retryable=True)
        if manifest.fault:
            raise refuse_unverified(
                Reason.MANIFEST_SIGNATURE_INVALID,
                f"The merchant's Identity Document cannot be verified: {manifest.fault}.",
                retryable=False,
            )
        return Purchase(merchant_id=merchant_id, fingerprint=manifest.fingerprint, agent_id=caller.agent_id)

    # What is bought

    def _parameters(self, exchange: Exchange, purchase: Purchase) -> Money:
        """``item`` or ``cart_quote_id``, ``principal_id`` and ``amount`` are there (methods v01 section 5.7)."""
        given = exchange.input
        if given.get("item") is None and given.get("cart_quote_id") is None:
            raise _parameter(
                "item", "The request has neither item nor cart_quote_id, so it does not say what to buy.", missing=True
            )
        _require_hold(exchange)
        principal = given.get("principal_id")
        if principal is None:
            raise _parameter("principal_id", "The parameter principal_id is missing.", missing=True)
        if not isinstance(principal, str) or not 0 < len(principal) <= MAX_PARAMETER or not principal.isprintable():
            raise _parameter("principal_id", f"principal_id is not one line of 1 to {MAX_PARAMETER} characters.")
        if given.get("amount") is None:
            raise _parameter("amount", "The parameter amount is missing.", missing=True)
        try:
            amount = money.parse(given["amount"])
        except MoneyError as error:
            raise _parameter("amount", f"amount {error}.") from None
        purchase.said.update(amount=amount.document(), principal_id=principal)
        return amount

    # The principal's word

    def _require_intent(self, exchange: Exchange, purchase: Purchase, amount: Money) -> None:
        text = exchange.request.headers.get("intent-assertion")
        if text is None:
            if self._intent_required:
                raise refuse_unverified(
                    Reason.INTENT_ASSERTION_REQUIRED,
                    retryable=False,
                )
            return
        try:
            intent = self._assertions.verify(
                text, merchant_id=purchase.merchant_id, agent_id=purchase.agent_id, now=exchange.now
            )
            _require_match(intent, exchange, purchase, amount)
        except IntentError as error:
            raise refuse_unverified(error.reason, str(error), retryable=False, fault=error.fault) from None
        purchase.intent = intent
        purchase.said["intent_issuer"] = intent.issuer
        if exchange.acting_principal is None:
            exchange.acting_principal = intent.principal
        # A repeated keyed request gets its stored answer; whether another may use the assertion is decided with it.
        if exchange.idempotency_key is None and self._used.is_used(intent):
            raise refuse_replayed()
        if self._used.full(purchase.agent_id):
            raise Refusal(
                Reason.TOO_MANY_PURCHASES,
                headers=(("Retry-After", "60"),),
                details={"scope": "intent-assertion", "retry_after_seconds": 60},
            )

    # The cart

    def _require_cart(self, exchange: Exchange, purchase: Purchase, amount: Money) -> None:
        """
        Require that a named cart was quoted to this agent, is unchanged, and in time; otherwise refuse with 409.

        An assertion with ``item_digest`` is for that cart alone, so one has to be named: else 458.
        """
        digest = exchange.request.headers.get("cart-digest")
        quote_id, cart = exchange.input.get("cart_quote_id"), exchange.input.get("cart")
        intent = purchase.intent
        bound = None if intent is None else intent.item_digest
        if digest is None and quote_id is None:
            if bound is not None:
                # The principal wants one cart: nothing here says that this is it.
                raise _other_cart("The assertion is for a cart, but the request names none.", _NAME_CART)
            return
        if digest is not None and DIGEST.fullmatch(digest) is None:
            raise Refusal(Reason.CART_DIGEST_MALFORMED)
        if quote_id is not None and (not isinstance(quote_id, str) or not is_opaque_id(quote_id)):
            raise not_found(Reason.CART_QUOTE_UNKNOWN, "cart_quote_id is not the quote_id of a QUOTE.")
        buyer, merchant = exchange.owner, purchase.merchant_id
        quote = self._quotes.find(buyer, merchant, quote_id=quote_id, digest=digest)
        if quote is None:
            if digest is not None and quote_id is not None and self._quotes.find(buyer, merchant, quote_id=quote_id):
                raise Refusal(Reason.CART_DIGEST_MISMATCH, "Cart-Digest is not that of the quoted cart.")
            raise not_found(Reason.CART_QUOTE_UNKNOWN, "This agent has no quote in force for that cart.")
        if cart is not None and _digest_of(cart) != quote.cart_digest:
            raise Refusal(Reason.CART_DIGEST_MISMATCH, "The cart differs from the one that was quoted.")
        if amount != quote.total:
            raise Refusal(Reason.CART_AMOUNT_MISMATCH, f"The amount differs from the quoted total, {quote.total}.")
        purchase.said.update(cart_digest=quote.cart_digest, cart_quote_id=quote.quote_id)
        if bound is not None and bound != quote.cart_digest:
            raise _other_cart("The assertion's item_digest is not that of the cart.", NEW_ASSERTION)


def _require_match(intent: Intent, exchange: Exchange, purchase: Purchase, amount: Money) -> None:
    """
    Require that the Intent-Assertion matches the purchase.

    :raises IntentError: where it is about something else.
    """
    fault = explanation = ""
    if intent.principal != exchange.input["principal_id"]:
        fault, explanation = "principal", "The assertion's sub is not principal_id."
    elif intent.ceiling.currency != amount.currency:
        fault, explanation = "currency", "The assertion's amount_ceiling is of another currency than amount."
    elif amount.value > intent.ceiling.value:
        fault, explanation = "amount_ceiling", "amount is more than the assertion's amount_ceiling."
    else:
        digest = exchange.request.headers.get("cart-digest")
        if digest is not None and intent.item_digest is not None and digest != intent.item_digest:
            fault, explanation = "item_digest", "The assertion's item_digest is not Cart-Digest."
    if fault:
        raise IntentError(Reason.INTENT_ASSERTION_INVALID, fault, explanation)


def _other_cart(explanation: str, remedy: str) -> Refusal:
    return refuse_unverified(Reason.INTENT_ASSERTION_INVALID, explanation, remedy, retryable=False, fault="item_digest")


def _digest_of(cart: Any) -> str:
    try:
        return cart_digest(cart) if isinstance(cart, dict) else ""
    except CartError:
        return ""


def _require_budget(exchange: Exchange, amount: Money) -> None:
    """
    Require that the amount is within Budget-Limit, if that limits money (methods v01 section 10.1).

    A limit in another currency allows nothing: that the amount is within it cannot be shown.
    """
    limit = budget_limit(exchange)
    if limit is None:
        return
    allowed = limit.get(amount.currency)
    if allowed is not None:
        if amount.value > allowed:
            cost = {amount.currency: amount.value}
            raise budget_exceeded(cost, {amount.currency: (allowed, amount.value)})
    elif limit.keys() & budget.MONEY:
        shown = {amount.currency: {"limit": "0", "cost": f"{amount.value:f}"}}
        raise Refusal(
            Reason.BUDGET_EXCEEDED,
            f"Budget-Limit allows no amount in {amount.currency}.",
            remedy="Add the currency to Budget-Limit, or buy in one that it has.",
            details={"exceeded": shown},
            extra={"budget": {"exceeded": shown}},
        )


# Refusals


def _missing(reason: Reason, header: str, what: str) -> Refusal:
    return refuse_unverified(
        reason,
        f"A PURCHASE needs {header}, {what}, and this one does not.",
        retryable=True,
        header=header,
    )


def _require_hold(exchange: Exchange) -> None:
    """
    Refuse a hold at a merchant whose endpoint does not declare it: the goods would be bought immediately.

    :raises Refusal: 422 naming ``confirm_immediately``.
    """
    value = exchange.input.get(HOLD)
    if value is None or value is True:
        return
    if value is not False:
        raise _parameter(HOLD, f"{HOLD} is neither true nor false.")
    schema = exchange.binding.input_schema if exchange.binding is not None else None
    if schema is None or HOLD not in schema.schema.get("properties", {}):
        raise parameters.invalid(
            HOLD,
            "This merchant cannot reserve: its PURCHASE does not declare confirm_immediately.",
            "Leave confirm_immediately out to buy now, or buy where the input schema of PURCHASE declares it.",
        )


def _parameter(name: str, explanation: str, *, missing: bool = False) -> Refusal:
    remedy = f"Send {name}: PURCHASE takes item or cart_quote_id, principal_id and amount."
    return parameters.invalid(name, explanation, remedy, missing=missing)
