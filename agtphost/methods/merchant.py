"""
QUOTE: the estimated cost of a call, or the price of a cart (methods v01 section 5.1, companion section 14).

One verb has two shapes. With ``method`` and ``parameters`` it is answered from
what the endpoint declares as its cost, and nothing is executed. With ``cart``
it is a merchant's offer: the operator's QUOTE endpoint looks at the cart (and
may refuse or correct it), and the host adds the quote that a PURCHASE can be
bound to, signed and durable.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any, cast

from zope.interface import implementer

from agtphost.audit.drafts import Change
from agtphost.contract.binding import Binding, Resolution
from agtphost.contract.endpoint_table import Match
from agtphost.contract.prices import COST_ESTIMATE, Price, PriceList, declared_price
from agtphost.contract.schemas import TooCostly
from agtphost.dispatch.merchants import MERCHANT
from agtphost.dispatch.quotes import MOST_PER_AGENT, CartError, Quote, Quotes, cart_digest, cart_total
from agtphost.dispatch.sealer import new_id
from agtphost.errors import Refusal
from agtphost.handlers import parameters
from agtphost.handlers.built_in import Answer, BuiltInContext, IBuiltInHandler, ask_handler
from agtphost.handlers.context import EndpointError, EndpointResponse
from agtphost.handlers.interface import IHandler
from agtphost.iagtp import IPayloadAdapter
from agtphost.identity.agents import Agent
from agtphost.identity.canonical import canonical
from agtphost.identity.encoding import encode
from agtphost.identity.keys import SigningKey
from agtphost.vocabulary import budget, media_types, money, times
from agtphost.vocabulary.catalog import is_method_name
from agtphost.vocabulary.money import MoneyError
from agtphost.vocabulary.reasons import Reason

QUOTE = "QUOTE"

QUOTE_SECONDS = 900.0
"""How long a quote is good for unless the operator says otherwise."""


# What a call costs


class ActionResolver:
    """
    Finds the action that an EXECUTE on ``/`` or at a server's path would call.

    :param adapters: one per framework.
    :param listed: everything that can be called.
    """

    def __init__(
        self, adapters: Sequence[IPayloadAdapter] = (), listed: Callable[[], Iterable[Binding]] = tuple
    ) -> None:
        self._by_type = {kind: adapter for adapter in adapters for kind in adapter.payload_types}
        self._listed = listed

    def find(self, given: Mapping[str, Any], server: str | None) -> Resolution | None:
        """
        Find the binding that the parameters of an EXECUTE name; None where there is none.

        :param given: ``action``, and ``payload_type`` with ``payload``, or ``parameters``.
        :param server: the upstream that the path names.
        """
        action, kind = given.get("action"), given.get("payload_type")
        if not isinstance(action, str):
            return None
        if kind is None:
            named = (each for each in self._listed() if each.method == "EXECUTE" and "action" in each.details)
            own = next((each for each in named if each.details["action"] == action), None)
            taken = given.get("parameters", {})
            return None if own is None or not isinstance(taken, Mapping) else Resolution(binding=own, input=taken)
        adapter = self._by_type.get(media_types.essence(kind)) if isinstance(kind, str) else None
        if adapter is None:
            return None
        try:
            return adapter.resolve(action, given.get("payload"), server)
        except Refusal:
            # Which tools there are is not for everybody who may QUOTE.
            return None


class Estimates:
    """
    Costs of calls, as their endpoints declare them and the operator estimates them.

    :param find: what a method on a path is bound to.
    :param prices: of the operator.
    :param resolver: what an EXECUTE would call.
    """

    def __init__(
        self,
        find: Callable[[str, str], Match | None],
        prices: PriceList | None = None,
        resolver: ActionResolver | None = None,
    ) -> None:
        self._find = find
        self._prices = prices or PriceList()
        self._resolver = resolver or ActionResolver()

    def answer(self, context: BuiltInContext) -> Answer:
        """
        Answer a QUOTE of ``method`` and ``parameters``; ``path`` is ``/`` unless it is given.

        :raises Refusal: 422 for parameters that are missing or would not be accepted; 404 for what the
            caller could not call, or that has no declared cost.
        """
        given = context.input
        method = parameters.matching(given, "method", is_method_name, "a method name such as SUMMARIZE")
        would_be = given.get("parameters")
        if not isinstance(would_be, Mapping):
            raise parameters.invalid(
                "parameters",
                "parameters is not an object." if "parameters" in given else "The parameter parameters is missing.",
                "Send the parameters of the call, or {} if it has none.",
                missing="parameters" not in given,
            )
        path = parameters.text(given, "path") or "/"
        called = self._resolve_call(method, path, would_be)
        if called is None or called.binding.missing is not None or not context.admits(called.binding):
            raise Refusal(
                Reason.NOT_FOUND,
                "The caller cannot call that method on that path.",
                remedy="DISCOVER /methods lists what can be called; path says where, / by default.",
                details={"method": method, "path": path},
            )
        price = self._price(called)
        cost = price.expected
        chosen = _units(given, cost)
        if not chosen:
            raise Refusal(
                Reason.COST_NOT_DECLARED,
                "The operator has not declared the cost of that call" + (" in these units." if cost else "."),
                remedy="Leave budget_units out."
                if cost
                else "The operator declares it: cost of the endpoint, or [[methods.price]].",
                details={"method": method, "path": path, "declared_units": list(cost)},
            )
        result = {
            "method": method,
            "path": path,
            "estimated_cost": {unit.replace("-", "_"): _range(unit, price) for unit in chosen},
            # Declared, and not measured: max is what Budget-Limit is held to.
            "confidence": price.confidence,
        }
        return Answer(result=result, headers=((COST_ESTIMATE, budget.render(chosen)),))

    def _resolve_call(self, method: str, path: str, would_be: Mapping[str, Any]) -> Resolution | None:
        """Return the binding that the call would reach, and its input."""
        match = self._match(method, path)
        if match is None:
            return None
        if method == "EXECUTE" and match.binding.tier == "A":
            return self._resolver.find(would_be, match.path_parameters.get("server"))
        return Resolution(binding=match.binding, input={**would_be, **match.path_parameters})

    def _price(self, called: Resolution) -> Price:
        """
        Return the price of a call; for a PURCHASE including its amount.

        :raises Refusal: 422 for parameters that the call would not accept.
        """
        binding, whole = called.binding, called.input
        _require_valid(binding, whole)
        price = self._prices.price_of(binding) or declared_price({})
        if binding.method == "PURCHASE" and whole.get("amount") is not None:
            try:
                amount = money.parse(whole["amount"])
            except MoneyError as error:
                raise parameters.invalid("parameters", f"parameters.amount {error}.", "Correct the amount.") from None
            if amount.currency in budget.MONEY:
                return _with_amount(price, amount.currency, amount.value)
        return price

    def _match(self, method: str, path: str) -> Match | None:
        try:
            return self._find(method, path) if path.isascii() and path.startswith("/") else None
        except ValueError:
            return None


def _require_valid(binding: Binding, whole: Mapping[str, Any]) -> None:
    """
    Check parameters against the input schema.

    :raises Refusal: 422 for parameters that do not follow the input schema.
    """
    schema = binding.input_schema
    try:
        valid = schema is None or schema.is_valid(whole)
    except TooCostly as error:
        raise Refusal(error.reason) from None
    if schema is not None and not valid:
        raise Refusal(
            Reason.INVALID_INPUT,
            "The parameters do not follow the input schema of the call.",
            details={"faults": schema.faults(whole)},
        )


def _with_amount(price: Price, unit: str, amount: Decimal) -> Price:
    def add_amount(cost: Mapping[str, Decimal]) -> dict[str, Decimal]:
        return {**cost, unit: cost.get(unit, Decimal(0)) + amount}

    return replace(
        price, minimum=add_amount(price.minimum), expected=add_amount(price.expected), maximum=add_amount(price.maximum)
    )


def _units(given: Mapping[str, Any], cost: Mapping[str, Decimal]) -> dict[str, Decimal]:
    """Return the part of a cost in the requested units; ``budget_units`` is a list or a text with commas."""
    asked = given.get("budget_units")
    if asked is None:
        return dict(cost)
    listed = [part.strip() for part in asked.split(",")] if isinstance(asked, str) else asked
    if not isinstance(listed, list) or not all(unit in budget.UNITS for unit in map(str, listed)):
        raise parameters.invalid(
            "budget_units", "budget_units is not a list of budget units.", f"Use {', '.join(budget.UNITS)}."
        )
    return {unit: amount for unit, amount in cost.items() if unit in listed}


def _range(unit: str, price: Price) -> dict[str, Any]:
    """Return the minimum, expected and maximum of one unit. Money is text, so that no reader rounds it."""
    parts = {"min": price.minimum, "expected": price.expected, "max": price.maximum}
    return {name: _amount(unit, cost[unit]) for name, cost in parts.items()}


def _amount(unit: str, amount: Decimal) -> Any:
    return f"{amount:.2f}" if unit in budget.MONEY else int(amount) if amount == int(amount) else float(amount)


# The price of a cart


@implementer(IBuiltInHandler)
class Quotation:
    """
    The handler of a QUOTE binding.

    :param inner: the operator's; None for the built-in QUOTE, which knows no carts.
    :param key: signs quotes; None where the host signs nothing.
    :param seconds: how long a quote is good for.
    """

    def __init__(
        self,
        inner: IHandler | None,
        estimates: Estimates,
        quotes: Quotes,
        *,
        key: SigningKey | None,
        seconds: float = QUOTE_SECONDS,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.kind = "built_in" if inner is None else inner.kind
        self._inner = inner
        self._estimates = estimates
        self._quotes = quotes
        self._key = key
        self._seconds = seconds
        self._now = now

    def handle(self, context: BuiltInContext) -> Any:
        """
        Answer by the shape of the input.

        :raises Refusal: see :meth:`Estimates.answer`; 401, 422 and 429 for carts that cannot be quoted.
        """
        cart = context.input.get("cart")
        if self._inner is None:
            if cart is not None and "method" not in context.input:
                raise _no_merchant()
            return self._estimates.answer(context)
        if cart is None:
            if "method" in context.input:
                return self._estimates.answer(context)
            return ask_handler(self._inner, context)
        merchant = self._merchant(context)
        _price_cart(cart)
        return self._request_offer(self._inner, context, merchant, cart)

    async def _request_offer(self, inner: IHandler, context: BuiltInContext, merchant: Agent, cart: Any) -> Any:
        return self._add_quote(await ask_handler(inner, context), merchant, context.owner, cart)

    def _merchant(self, context: BuiltInContext) -> Agent:
        """Return the addressed merchant, from whom the calling agent may have a further quote."""
        merchant = context.agent
        if merchant is None or merchant.role != MERCHANT:
            raise _no_merchant()
        if context.caller is None:
            raise Refusal(
                Reason.AGENT_UNAUTHENTICATED,
                "Only an agent gets a quote for a cart, and the request does not name the calling agent.",
            )
        if self._quotes.full(context.owner):
            raise Refusal(
                Reason.TOO_MANY_QUOTES,
                f"The agent has {MOST_PER_AGENT} quotes in force, the most it can have.",
                headers=(("Retry-After", "60"),),
                details={"scope": "quotes", "retry_after_seconds": 60},
            )
        return merchant

    def _add_quote(self, answer: Any, merchant: Agent, owner: str, cart: Any) -> Any:
        """Return the operator's answer with the quote; its ``cart`` replaces the one that was sent."""
        if isinstance(answer, EndpointError):
            return answer
        response = answer if isinstance(answer, EndpointResponse) else EndpointResponse(result=answer)
        if response.status >= 300 or response.body is not None:
            return response
        result = dict(response.result) if isinstance(response.result, Mapping) else {}
        offered = result.get("cart", cart)
        digest, total = _price_cart(offered)
        quote = self._quotes.find(owner, merchant.agent_id, digest=digest)
        now = self._now()
        changes: tuple[Change, ...] = ()
        # Asked again for the same cart, the same quote is given as long as it is good for half its time.
        if quote is None or quote.expires_at / 1000 < now + self._seconds / 2:
            ends = int(now + self._seconds)
            quote = Quote(
                quote_id=new_id(now),
                owner=owner,
                merchant_id=merchant.agent_id,
                cart_digest=digest,
                total=total,
                valid_until=times.stamp(ends),
                expires_at=ends * 1000,
            )
            changes = (Quotes.change(quote),)
        result.update(quote.signed_members(), merchant_id=merchant.agent_id, quote_signature=self._signature(quote))
        headers = response.headers
        if total.currency in budget.MONEY and total.value.as_tuple().exponent >= -2:  # type: ignore[operator]
            headers = (*headers, (COST_ESTIMATE, budget.render({total.currency: total.value})))
        said = {"quote": {**quote.signed_members(), "merchant_id": merchant.agent_id}}
        return Answer(
            result=result,
            status=response.status,
            content_type=response.content_type,
            headers=headers,
            changes=changes,
            extra=said,
        )

    def _signature(self, quote: Quote) -> dict[str, str] | None:
        """Return the signature of a quote's members in canonical form; None if the host signs nothing."""
        if self._key is None:
            return None
        value = encode(self._key.sign(canonical(quote.signed_members()))).decode("ascii")
        return {"algorithm": "EdDSA", "key_id": self._key.kid, "value": value}


def _price_cart(cart: Any) -> tuple[str, money.Money]:
    try:
        total = cart_total(cart)
        return cart_digest(cart), total
    except CartError as error:
        raise parameters.invalid(
            "cart",
            f"{error}.",
            "Send cart: {lines: [{sku, qty, unit_price}], currency, tax, shipping}, with amounts as text.",
        ) from None


def _no_merchant() -> Refusal:
    return Refusal(Reason.CART_NOT_QUOTABLE, details={"parameter": "cart"})


def quoting(binding: Binding, make: Callable[[IHandler], Quotation]) -> Binding:
    """Wrap the handler of an operator's binding of QUOTE; return any other binding unchanged."""
    if binding.method != QUOTE:
        return binding
    # What it states is what the quoted call costs, not what asking costs.
    fields = tuple(header for header in binding.headers if header[0] != COST_ESTIMATE)
    return replace(binding, handler=make(cast(IHandler, binding.handler)), headers=fields)
