"""QUOTE: METH-020, METH-064, AGTP-054, AGTP-299."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agtphost.contract.binding import Binding
from agtphost.contract.schemas import compile_schema
from agtphost.dispatch import quotes
from agtphost.dispatch.quotes import CartError, cart_digest, cart_total
from agtphost.handlers.context import EndpointError, EndpointResponse
from agtphost.identity.canonical import canonical
from agtphost.identity.encoding import decode
from agtphost.vocabulary import budget
from tests.dispatch.hosts import Recorder, document, payload
from tests.dispatch.purchase_hosts import CART, PurchaseHost, merchant
from tests.rows import each_row

SUMMARIZE = Binding(
    method="SUMMARIZE",
    path="/text",
    handler=Recorder(),
    tier="B",
    state_changing=False,
    cost={"tokens": Decimal(8500), "compute-seconds": Decimal("2.3")},
    headers=(("Cost-Estimate", "tokens=8500, compute-seconds=2.3"),),
    input_schema=compile_schema(
        {"type": "object", "properties": {"text": {"type": "string"}}, "additionalProperties": False}, role="input"
    ),
)
SECRET = replace(SUMMARIZE, path="/secret", required_scopes=("knowledge:query",))


def market(**changes: Any) -> PurchaseHost:
    """With a dear endpoint, one that the buyer may not call, and the built-in QUOTE."""
    return PurchaseHost(**{"bindings": (SUMMARIZE, SECRET), **changes})


def require_refusal(response: Any, status: int, reason: str) -> dict[str, Any]:
    body = document(response)
    assert (response.status, body["reason"]) == (status, reason), body
    return body


@each_row(
    "body",
    [
        {"method": "SUMMARIZE", "parameters": {"source": "x"}},
        {"method": "SUMMARIZE", "parameters": {}},
        {"method": "QUOTE", "parameters": {"method": "SUMMARIZE", "parameters": {"source": "x"}}},
    ],
)
def test_the_quoted_method_is_not_that_of_an_envelope(body: dict[str, Any]) -> None:
    """METH-020: QUOTE has parameters of the envelope's names; a body that names another method is no envelope."""
    answered = document(market().ask("QUOTE", "/", body))
    assert answered["reason"] == "cost-not-declared", answered


@pytest.mark.parametrize("path", ["/", "/cart"])
def test_a_call_is_estimated_and_not_made(path: str) -> None:
    """METH-020, AGTP-054: header and body say what the endpoint declares; its handler is not called."""
    host = market()
    asked = {"method": "SUMMARIZE", "path": "/text", "parameters": {"text": "x"}}
    response = host.ask("QUOTE", path, asked)
    assert response.status == 200
    fields = [value for name, value in response.headers if name.lower() == "cost-estimate"]
    assert fields == ["tokens=8500, compute-seconds=2.3"]
    assert budget.parse(fields[0]) == dict(SUMMARIZE.cost or {})
    result = document(response)["result"]
    assert result["method"] == "SUMMARIZE"
    assert result["estimated_cost"]["tokens"] == {"min": 8500, "expected": 8500, "max": 8500}
    assert result["estimated_cost"]["compute_seconds"]["expected"] == 2.3
    assert not SUMMARIZE.handler.calls and not host.pricer.calls  # type: ignore[attr-defined]


def test_only_the_units_that_are_asked_for() -> None:
    """METH-020: budget_units is a list or a text; an unknown unit is 422."""
    host = market()
    asked = {"method": "SUMMARIZE", "path": "/text", "parameters": {}}
    for units in (["tokens"], "tokens", "tokens, EUR"):
        response = host.ask("QUOTE", "/", {**asked, "budget_units": units})
        assert response.headers.get("cost-estimate") == "tokens=8500"
    for units in (["gold"], 5, [["tokens"]], "tokens;EUR"):
        require_refusal(host.ask("QUOTE", "/", {**asked, "budget_units": units}), 422, "invalid-parameter")
    require_refusal(host.ask("QUOTE", "/", {**asked, "budget_units": ["EUR"]}), 404, "cost-not-declared")


@each_row(
    ("asked", "status", "reason"),
    [
        ({"parameters": {}}, 422, "missing-parameter"),
        ({"method": "SUMMARIZE"}, 422, "missing-parameter"),
        ({"method": "SUMMARIZE", "parameters": 1}, 422, "invalid-parameter"),
        ({"method": "summarize", "parameters": {}}, 422, "invalid-parameter"),
        ({"method": "RESERVE", "parameters": {}}, 404, "not-found"),
        ({"method": "SUMMARIZE", "parameters": {}, "path": "text"}, 404, "not-found"),
        ({"method": "SUMMARIZE", "parameters": {}, "path": "/%zz/{x}"}, 404, "not-found"),
        ({"method": "SUMMARIZE", "parameters": {}, "path": "/ü"}, 404, "not-found"),
        ({"method": "SUMMARIZE", "parameters": {}, "path": "/secret"}, 404, "not-found"),
        ({"method": "SUMMARIZE", "parameters": {"text": 1}, "path": "/text"}, 422, "invalid-input"),
        ({"method": "QUERY", "parameters": {}, "path": "/words"}, 404, "cost-not-declared"),
        ({"cart": CART}, 422, "cart-not-quotable"),
    ],
)
def test_what_cannot_be_estimated(asked: dict[str, Any], status: int, reason: str) -> None:
    """Missing, malformed, unknown, and what the caller may not call, which is the same as unknown."""
    require_refusal(market().ask("QUOTE", "/", {"method": "QUOTE", "parameters": asked}), status, reason)


# Carts


def test_a_quote_is_signed_and_durable() -> None:
    """AGTP-299: id, digest, total and end; the signature covers these, and the record names the quote."""
    host = market()
    response = host.quote()
    result = document(response)["result"]
    covered = {name: result[name] for name in ("quote_id", "cart_digest", "total", "quote_valid_until")}
    signature = decode(result["quote_signature"]["value"])
    assert host.key.public.verify(signature, canonical(covered))
    assert not host.key.public.verify(signature, canonical({**covered, "total": {"value": "0", "currency": "EUR"}}))
    assert result["in_stock"] is True
    assert result["cart_digest"] == cart_digest(CART)
    assert response.headers.get("cost-estimate") == "EUR=20.00"
    assert payload(host)["extra"]["quote"]["quote_id"] == result["quote_id"]  # type: ignore[index]
    again = PurchaseHost(shop=host.hosted, ledger=host.ledger)
    assert document(again.quote())["result"]["quote_id"] == result["quote_id"], "idempotent, also after a restart"


def test_the_operator_has_the_last_word() -> None:
    """Its handler refuses what it does not sell, and corrects what it sells dearer."""

    def refuse(context: Any) -> Any:
        return EndpointError("sold_out")

    corrected = {**CART, "shipping": "1.96"}
    response = PurchaseHost(offer=lambda context: {"cart": corrected}).quote()
    result = document(response)["result"]
    assert (result["total"]["value"], result["cart_digest"]) == ("21.00", cart_digest(corrected))
    assert PurchaseHost(offer=refuse).quote().status == 500, "not declared by the binding"
    later = PurchaseHost(offer=lambda context: EndpointResponse(status=202, result={"a": 1}))
    assert document(later.quote())["result"]["quote_id"]


def test_an_operator_that_waits_is_waited_for() -> None:
    """A coroutine's answer gets its quote too."""

    async def offer(context: Any) -> Any:
        return {"in_stock": False}

    result = document(PurchaseHost(offer=offer).quote())["result"]
    assert result["in_stock"] is False
    assert result["quote_id"]


@each_row(
    "change",
    [
        {"lines": []},
        {"lines": {}},
        {"lines": [1]},
        {"lines": [{"qty": 1, "unit_price": "1"}]},
        {"lines": [{"sku": "tea", "qty": 0, "unit_price": "1"}]},
        {"lines": [{"sku": "tea", "qty": -1, "unit_price": "1"}]},
        {"lines": [{"sku": "tea", "qty": True, "unit_price": "1"}]},
        {"lines": [{"sku": "tea", "qty": 1.5, "unit_price": "1"}]},
        {"lines": [{"sku": "tea", "qty": 1, "unit_price": "-1"}]},
        {"lines": [{"sku": "tea", "qty": 1, "unit_price": "1e2"}]},
        {"lines": [{"sku": "tea", "qty": 1, "unit_price": None}]},
        {"lines": [{"sku": "tea", "qty": 1_000_000, "unit_price": "999999999999"}]},
        {"lines": [{"sku": "tea", "qty": 1, "unit_price": "1"}] * 501},
        {"currency": "euro"},
        {"currency": None},
        {"tax": "free"},
        {"shipping": []},
    ],
)
def test_a_cart_that_cannot_be_quoted(change: dict[str, Any]) -> None:
    """Every mutated member is 422, and neither the operator nor the store hears of it."""
    host = market()
    require_refusal(host.quote({**CART, **change}), 422, "invalid-parameter")
    assert not host.pricer.calls
    assert not list(host.ledger.held.all("quote"))


def test_carts_are_quoted_by_merchants() -> None:
    """And by nobody else."""
    require_refusal(PurchaseHost(shop=merchant(role="agent")).quote(), 422, "cart-not-quotable")


def test_quotes_of_one_agent_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """T-LM: beyond the bound 429; once they have ended there is room again."""
    monkeypatch.setattr(quotes, "MOST_PER_AGENT", 2)
    host = market()
    statuses = [host.quote({**CART, "tax": f"{number}.00"}).status for number in range(3)]
    assert statuses == [200, 200, 429]
    host.clock.advance(901)
    assert host.quote().status == 200


def test_money_is_never_a_fraction_of_two() -> None:
    """Ten lines of 0.1 come to one, whether they are text or numbers."""
    for price in ("0.10", 0.1):
        cart = {"lines": [{"sku": "x", "qty": 1, "unit_price": price}] * 10, "currency": "EUR"}
        assert cart_total(cart).value == Decimal(1)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["lines", "sku", "qty", "unit_price", "currency", "tax"]), inner, max_size=4
            )
        ),
        max_leaves=12,
    )
)
def test_any_cart_is_priced_or_refused(cart: Any) -> None:
    """No shape of a cart has another outcome than a total or a CartError."""
    try:
        assert cart_total(cart).value >= 0
        assert cart_digest(cart).startswith("sha256:")
    except CartError:
        pass
