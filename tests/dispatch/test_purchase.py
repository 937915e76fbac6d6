"""PURCHASE before its handler: AGTP-146, AGTP-295 to AGTP-300, METH-026, METH-055, METH-056."""

from __future__ import annotations

import json
from dataclasses import replace
from hashlib import sha256
from typing import Any

import pytest
from twisted.internet.defer import Deferred
from twisted.logger import LogEvent, globalLogPublisher

from agtphost.audit.lifecycle import LifecycleStatus
from agtphost.config.policies import Redirect
from agtphost.contract.policy import MethodPolicy
from agtphost.dispatch import purchase as purchases
from agtphost.dispatch.gates.purchase import MerchantGate
from agtphost.dispatch.merchants import MerchantManifests
from agtphost.handlers.context import EndpointError
from agtphost.identity import documents
from agtphost.identity.canonical import canonical
from agtphost.identity.documents import DocumentError
from agtphost.identity.peer import Peer
from tests.dispatch.hosts import CALLER, DispatchHost, document, payload
from tests.dispatch.purchase_hosts import CART, EC, OTHER, PurchaseHost, claims, merchant, signed
from tests.fakes import FakeLedger
from tests.rows import each_row

STRANGER = "c" * 64


def require_refusal(market: PurchaseHost, response: Any, status: int, reason: str) -> dict[str, Any]:
    """The refusal it should be, sealed, with no handler called."""
    body = document(response)
    assert (response.status, body["reason"]) == (status, reason), body
    assert body["explanation"] and body["remedy"]
    assert not market.seller.calls
    assert payload(market)["status"] == status
    assert payload(market)["reason"] == reason
    return body


def test_a_verified_purchase_names_both_parties() -> None:
    """AGTP-296, AGTP-298, AGTP-300: the record has merchant, fingerprint, assertion, caller and principal."""
    market = PurchaseHost()
    text = market.assertion(jti="the-jti")
    response = market.buy(Intent_Assertion=text)
    assert response.status == 200
    assert len(market.seller.calls) == 1
    record = payload(market)
    assert record["merchant_id"] == market.hosted.agent_id == record["agent_id"]
    assert record["merchant_fingerprint"] == market.fingerprint
    assert record["intent_assertion_jti"] == "the-jti"
    assert record["caller_id"] == CALLER
    assert record["acting_principal_id"] == "alice"
    assert record["extra"]["purchase"] == {  # type: ignore[index]
        "amount": {"value": "20.00", "currency": "EUR"},
        "principal_id": "alice",
        "intent_issuer": "https://platform.example.com",
    }
    assert text not in json.dumps([draft.payload for draft in market.ledger.drafts])


def test_an_assertion_is_optional_unless_the_operator_asks_for_it() -> None:
    """AGTP-298 is a SHOULD; ``intent_required`` makes it a MUST."""
    market = PurchaseHost()
    assert market.buy().status == 200
    assert "intent_assertion_jti" not in payload(market)
    strict = PurchaseHost(intent_required=True)
    require_refusal(strict, strict.buy(), 458, "intent-assertion-required")


WRONG: list[tuple[str, dict[str, str | None], str, bool]] = [
    ("no Merchant-ID", {"Merchant-ID": None}, "missing-merchant-id-header", True),
    ("no fingerprint", {"Merchant-Manifest-Fingerprint": None}, "missing-merchant-manifest-fingerprint-header", True),
    ("another Merchant-ID", {"Merchant-ID": STRANGER}, "merchant-id-mismatch", False),
    ("the buyer's own ID", {"Merchant-ID": CALLER}, "merchant-id-mismatch", False),
    ("a URI", {"Merchant-ID": "agtp://shop.example"}, "merchant-id-mismatch", False),
    ("upper case", {"Merchant-ID": "A" * 64}, "merchant-id-mismatch", False),
    ("empty", {"Merchant-ID": ""}, "merchant-id-mismatch", False),
    (
        "another fingerprint",
        {"Merchant-Manifest-Fingerprint": "0" * 64},
        "merchant-manifest-fingerprint-mismatch",
        True,
    ),
    ("empty fingerprint", {"Merchant-Manifest-Fingerprint": ""}, "merchant-manifest-fingerprint-mismatch", True),
    ("only the prefix", {"Merchant-Manifest-Fingerprint": "sha256:"}, "merchant-manifest-fingerprint-mismatch", True),
]


@each_row(("what", "headers", "reason", "retryable"), WRONG, ids=[case[0] for case in WRONG])
def test_an_unverified_counterparty(what: str, headers: dict[str, str | None], reason: str, retryable: bool) -> None:
    """AGTP-295, AGTP-296: each is 458 that names its check and whether trying again can help."""
    market = PurchaseHost()
    body = require_refusal(market, market.buy(**headers), 458, reason)
    assert (body["check"], body["retryable"]) == (reason, retryable)
    assert payload(market)["extra"]["counterparty"]["check"] == reason  # type: ignore[index]
    assert "merchant_id" not in payload(market)


def test_the_fingerprint_may_say_its_hash() -> None:
    """``sha256:`` in front of it is tolerated."""
    market = PurchaseHost()
    assert market.buy(Merchant_Manifest_Fingerprint=f"sha256:{market.fingerprint}").status == 200


def test_the_fingerprint_is_that_of_the_present_document() -> None:
    """AGTP-296: what was verified before a reinstatement has to be verified again."""
    market = PurchaseHost()
    before = market.fingerprint
    market.put(market.hosted.agent_id, "active")
    assert market.fingerprint != before
    require_refusal(
        market, market.buy(Merchant_Manifest_Fingerprint=before), 458, "merchant-manifest-fingerprint-mismatch"
    )
    assert market.buy().status == 200


def test_only_a_merchant_sells() -> None:
    """AGTP-146: without the role the same Agent-ID sells nothing, with it again everything."""
    plain = PurchaseHost(shop=merchant(role="agent"))
    require_refusal(plain, plain.buy(), 458, "not-a-merchant")
    unknown = PurchaseHost(shop=merchant(role="emperor"))
    require_refusal(unknown, unknown.buy(), 458, "not-a-merchant")


@pytest.mark.parametrize("status", [LifecycleStatus.SUSPENDED, LifecycleStatus.DEPRECATED, LifecycleStatus.RETIRED])
def test_only_an_active_merchant_sells(status: LifecycleStatus) -> None:
    """AGTP-296: every other state is 458, whatever other methods would get; only a suspension may pass."""
    market = PurchaseHost()
    market.put(market.hosted.agent_id, status.value)
    body = require_refusal(market, market.buy(), 458, "merchant-not-active")
    assert body["lifecycle_state"] == status.value
    assert body["retryable"] is (status is LifecycleStatus.SUSPENDED)
    others = market.ask("QUERY", "/words").status
    assert others == {"suspended": 503, "retired": 410, "deprecated": 200}[status.value]


def test_an_alias_does_not_go_round_the_state() -> None:
    """A verb that becomes PURCHASE is refused like PURCHASE; one that does not is 503 as ever."""
    redirect = Redirect(from_method="BOOK", from_path="/tea", to_method="PURCHASE", to_path="/goods")
    market = PurchaseHost(policy=MethodPolicy(declared_aliases={"BUY": "PURCHASE"}, redirects=(redirect,)))
    shop = market.hosted.agent_id
    body = {"item": "tea", "principal_id": "alice", "amount": "20.00 EUR"}
    assert market.ask("BUY", "/goods", body, headers=market.headers()).status == 200
    assert market.ask("BOOK", "/tea", body, headers=market.headers()).status == 200
    assert market.ask("BUY", "/goods", body).status == 458
    assert market.ask("BOOK", "/tea", body).status == 458
    market.put(shop, "suspended")
    assert market.ask("BUY", "/goods", body).status == 458
    assert market.ask("BOOK", "/tea", body).status == 458
    assert market.ask("RESERVE", "/desk", {"text": "x"}).status == 503


@each_row("member", ["name", "description", "role", "principal", "manifest_issuer", "trust_score"])
def test_an_altered_manifest_sells_nothing(member: str) -> None:
    """A document one of whose members is not what its registrar signed: 458, even with its own fingerprint."""
    honest = merchant()
    forged = json.loads(honest.document_octets)
    forged[member] = 0.99 if member == "trust_score" else "merchant" if member == "role" else "forged"
    if member == "role":
        signature = forged["manifest_signature"]
        forged["manifest_signature"] = ("B" if signature[0] == "A" else "A") + signature[1:]
        assert forged["manifest_signature"] != json.loads(honest.document_octets)["manifest_signature"]
    with pytest.raises(DocumentError):
        documents.check_signature(forged)
    served = PurchaseHost(shop=honest)
    manifests = MerchantManifests(lambda agent, state: json.dumps(forged).encode())
    manifest = manifests.manifest_of(served.hosted, served.states.state_of(served.hosted))
    assert "manifest_signature" in manifest.fault
    gate = MerchantGate(served.states.state_of, manifests)
    served.rewire([gate if each.name == gate.name else each for each in served.gates])
    fingerprint = sha256(canonical(forged)).hexdigest()
    require_refusal(served, served.buy(Merchant_Manifest_Fingerprint=fingerprint), 458, "manifest-signature-invalid")
    received = PurchaseHost(shop=replace(honest, document_octets=json.dumps(forged).encode()))
    require_refusal(received, received.buy(), 458, "manifest-signature-invalid")


def test_trust_tier_3_sells_nothing_in_production() -> None:
    """Nor does a document that nobody signed."""
    unsigned = PurchaseHost(shop=merchant(signed=False))
    require_refusal(unsigned, unsigned.buy(), 458, "manifest-signature-invalid")
    assert PurchaseHost(settings={"host": {"profile": "development"}}, shop=merchant(signed=False)).buy().status == 200
    shop = merchant()
    low = replace(shop, posture=replace(shop.posture, trust_tier=3))
    production = PurchaseHost(shop=low)
    require_refusal(production, production.buy(), 458, "merchant-trust-insufficient")


def test_without_the_scope_nothing_else_is_looked_at() -> None:
    """METH-055: 455 that names payments:purchase, before the counterparty and before the handler."""
    for market in (PurchaseHost(scopes=frozenset({"documents:query"})), PurchaseHost()):
        response = market.ask("PURCHASE", "/goods", {"item": "x"}, headers={"Authority-Scope": "documents:query"})
        body = require_refusal(market, response, 455, "scope-required")
        assert body["missing_scopes"] == ["payments:purchase"]


def test_nobody_buys_anonymously() -> None:
    """A caller without a name is 401."""
    market = PurchaseHost()
    require_refusal(market, market.buy(peer=Peer(address="127.0.0.1")), 401, "agent-unauthenticated")


@each_row(
    ("change", "name", "reason"),
    [
        ({"item": None}, "item", "missing-parameter"),
        ({"principal_id": None}, "principal_id", "missing-parameter"),
        ({"principal_id": ["alice"]}, "principal_id", "invalid-parameter"),
        ({"principal_id": "a\nb"}, "principal_id", "invalid-parameter"),
        ({"amount": None}, "amount", "missing-parameter"),
        ({"amount": 20}, "amount", "invalid-parameter"),
        ({"amount": "1e3 EUR"}, "amount", "invalid-parameter"),
        ({"amount": "-1.00 EUR"}, "amount", "invalid-parameter"),
        ({"amount": "NaN EUR"}, "amount", "invalid-parameter"),
        ({"amount": "20.00"}, "amount", "invalid-parameter"),
        ({"amount": {"value": True, "currency": "EUR"}}, "amount", "invalid-parameter"),
        ({"amount": {"value": "1", "currency": "eur"}}, "amount", "invalid-parameter"),
        ({"amount": {"value": "1", "currency": "EUR", "tip": "9"}}, "amount", "invalid-parameter"),
    ],
)
def test_parameters_say_what_is_bought(change: dict[str, Any], name: str, reason: str) -> None:
    """METH-026: item, principal_id and amount, whatever the endpoint's own schema has."""
    market = PurchaseHost()
    assert require_refusal(market, market.buy(change), 422, reason)["parameter"] == name


def test_a_hold_is_refused_where_the_merchant_does_not_know_it() -> None:
    """``confirm_immediately: false`` is never taken for a purchase; true and nothing are one, as ever."""
    market = PurchaseHost()
    body = require_refusal(market, market.buy({"confirm_immediately": False}), 422, "invalid-parameter")
    assert body["parameter"] == "confirm_immediately" and not market.seller.calls
    require_refusal(market, market.buy({"confirm_immediately": "no"}), 422, "invalid-parameter")
    assert market.buy({"confirm_immediately": True}).status == 200
    names = {name: {"type": "string"} for name in ("item", "principal_id", "amount")}
    properties = {**names, "confirm_immediately": {"type": "boolean"}}
    holding = PurchaseHost(schema={"type": "object", "additionalProperties": False, "properties": properties})
    assert holding.buy({"confirm_immediately": False}).status == 200
    assert holding.seller.calls[-1].input["confirm_immediately"] is False


# Intent-Assertions

MUTATIONS: list[tuple[str, dict[str, Any], str, str]] = [
    ("iss", {"iss": "https://evil.example"}, "intent-assertion-invalid", "unknown-issuer"),
    ("iss is the agent", {"iss": CALLER}, "intent-assertion-invalid", "unknown-issuer"),
    ("no iss", {"iss": None}, "intent-assertion-invalid", "unknown-issuer"),
    ("sub", {"sub": "mallory"}, "intent-assertion-invalid", "principal"),
    ("no sub", {"sub": None}, "intent-assertion-invalid", "claim"),
    ("aud", {"aud": STRANGER}, "intent-assertion-audience-mismatch", "aud"),
    ("no aud", {"aud": None}, "intent-assertion-audience-mismatch", "aud"),
    ("agent_id", {"agent_id": STRANGER}, "intent-assertion-agent-mismatch", "agent_id"),
    ("no agent_id", {"agent_id": None}, "intent-assertion-agent-mismatch", "agent_id"),
    ("exp past", {"iat": 1, "exp": 2}, "intent-assertion-expired", "expired"),
    ("no exp", {"exp": None}, "intent-assertion-invalid", "malformed"),
    ("exp as text", {"exp": "soon"}, "intent-assertion-invalid", "malformed"),
    ("exp far off", {"exp": 9_999_999_999}, "intent-assertion-invalid", "exp"),
    ("nbf ahead", {"nbf": 9_999_999_999}, "intent-assertion-invalid", "not-yet-valid"),
    ("iat ahead", {"iat": 9_999_999_990, "exp": 9_999_999_999}, "intent-assertion-invalid", "not-yet-valid"),
    ("no iat", {"iat": None}, "intent-assertion-invalid", "iat"),
    ("iat true", {"iat": True}, "intent-assertion-invalid", "malformed"),
    ("no jti", {"jti": None}, "intent-assertion-invalid", "jti"),
    ("long jti", {"jti": "j" * 129}, "intent-assertion-invalid", "jti"),
    ("jti with a line break", {"jti": "a\r\nb"}, "intent-assertion-invalid", "jti"),
    ("jti as number", {"jti": 7}, "intent-assertion-invalid", "jti"),
    ("no ceiling", {"amount_ceiling": None}, "intent-assertion-invalid", "amount_ceiling"),
    (
        "low ceiling",
        {"amount_ceiling": {"value": "19.99", "currency": "EUR"}},
        "intent-assertion-invalid",
        "amount_ceiling",
    ),
    (
        "negative ceiling",
        {"amount_ceiling": {"value": "-1", "currency": "EUR"}},
        "intent-assertion-invalid",
        "amount_ceiling",
    ),
    ("other currency", {"amount_ceiling": {"value": "99", "currency": "JPY"}}, "intent-assertion-invalid", "currency"),
    ("item_digest as hex", {"item_digest": "0" * 64}, "intent-assertion-invalid", "item_digest"),
]


@each_row(("what", "change", "reason", "fault"), MUTATIONS, ids=[case[0] for case in MUTATIONS])
def test_a_mutated_claim(what: str, change: dict[str, Any], reason: str, fault: str) -> None:
    """Every claim that is wrong, missing or of another type is refused, and no handler runs."""
    market = PurchaseHost()
    body = require_refusal(market, market.buy(Intent_Assertion=market.assertion(**change)), 458, reason)
    assert (body["fault"], body["retryable"]) == (fault, False)
    assert payload(market)["merchant_id"] == market.hosted.agent_id
    assert "intent_assertion_jti" not in payload(market)


def test_an_assertion_for_several_merchants() -> None:
    """aud has to be this merchant alone; as a list of one it is."""
    market = PurchaseHost()
    shop = market.hosted.agent_id
    assert market.buy(Intent_Assertion=market.assertion(aud=[shop])).status == 200
    both = PurchaseHost()
    require_refusal(
        both, both.buy(Intent_Assertion=both.assertion(aud=[shop, STRANGER])), 458, "intent-assertion-audience-mismatch"
    )


def test_a_mutated_signature() -> None:
    """Another key, another algorithm, no algorithm, a changed octet, a key of its own: none is believed."""
    market = PurchaseHost()
    shop = market.hosted.agent_id
    good = market.assertion()
    head, body, signature = good.split(".")
    unsigned = "eyJhbGciOiJub25lIn0." + body + "."
    texts = {
        "another key": market.assertion(key=OTHER),
        "an algorithm not allowed": market.assertion(key=EC, alg="ES256"),
        "no signature": unsigned,
        "an empty signature": f"{head}.{body}.",
        "a flipped octet of the signature": f"{head}.{body}.{'B' if signature[0] == 'A' else 'A'}{signature[1:]}",
        "the body of another": f"{head}.{signed(claims(shop)).split('.')[1]}.{signature}",
        "a key that it brings": signed(claims(shop), OTHER, jwk=OTHER.as_dict(private=False)),
        "a place to fetch a key": signed(claims(shop), OTHER, jku="https://evil.example/keys"),
        "an unknown kid": signed(claims(shop), OTHER, kid="other"),
        "two parts": f"{head}.{body}",
        "no text": "",
        "not ASCII": f"{head}.{body}.ü",
        "JSON": json.dumps(claims(shop)),
    }
    for what, text in texts.items():
        response = market.buy(Intent_Assertion=text)
        assert (response.status, document(response)["reason"]) == (458, "intent-assertion-invalid"), what
    assert not market.seller.calls
    assert market.buy(Intent_Assertion=good).status == 200, "the control: unchanged it is good"


def test_without_a_platform_no_assertion_is_believed() -> None:
    """A host that trusts nobody refuses what it cannot verify, and does not look away."""
    market = PurchaseHost()
    plain = DispatchHost(hosted=market.hosted, caller=market.caller, ledger=FakeLedger(), bindings=market.bindings[3:])
    response = plain.ask(
        "PURCHASE",
        "/goods",
        {"item": "tea", "principal_id": "alice", "amount": "20.00 EUR"},
        headers=market.headers(Intent_Assertion=market.assertion()),
    )
    assert (response.status, document(response)["reason"]) == (458, "intent-assertion-invalid")
    assert not market.seller.calls


# Replay


def test_an_assertion_is_good_once() -> None:
    """The second purchase with one jti is 458; the use is durable before the handler runs."""
    market = PurchaseHost()
    text = market.assertion()
    used: list[int] = []
    market.seller.answer = lambda context: used.append(len(list(market.ledger.held.all("intent-assertion")))) or {}
    assert market.buy(Intent_Assertion=text).status == 200
    assert used == [1]
    response = market.buy(Intent_Assertion=text)
    assert (response.status, document(response)["reason"]) == (458, "intent-assertion-replayed")
    assert len(market.seller.calls) == 1
    assert market.buy(Intent_Assertion=market.assertion()).status == 200


def test_a_used_assertion_survives_a_restart() -> None:
    """A host that starts with the store of another knows what was used there."""
    first = PurchaseHost()
    text = first.assertion()
    first.buy(Intent_Assertion=text)
    second = PurchaseHost(shop=first.hosted, ledger=first.ledger)
    require_refusal(second, second.buy(Intent_Assertion=text), 458, "intent-assertion-replayed")


def test_of_two_at_once_one_runs() -> None:
    """Two concurrent purchases with one assertion: the second is refused while the first is still running."""
    waiting: Deferred[dict[str, Any]] = Deferred()
    market = PurchaseHost(lambda context: waiting)
    text = market.assertion()
    headers = market.headers(Intent_Assertion=text)
    body = {"item": "tea", "principal_id": "alice", "amount": "20.00 EUR"}
    first = market.start("PURCHASE", "/goods", body, headers=headers)
    second = market.ask("PURCHASE", "/goods", body, headers=headers)
    assert (second.status, document(second)["reason"]) == (458, "intent-assertion-replayed")
    assert len(market.seller.calls) == 1
    waiting.callback({"order": "o-1"})
    answers: list[Any] = []
    first.addCallback(answers.append)
    assert answers[0].status == 200


def test_of_two_that_passed_the_gate_one_runs() -> None:
    """The commit decides, not the look at the gate: with the look taken away, still only one handler runs."""
    market = PurchaseHost()
    market.gates[market.gates.index(next(g for g in market.gates if g.name == "merchant"))]._used.is_used = (  # type: ignore[attr-defined]
        lambda intent: False
    )
    text = market.assertion()
    assert market.buy(Intent_Assertion=text).status == 200
    assert document(market.buy(Intent_Assertion=text))["reason"] == "intent-assertion-replayed"
    assert len(market.seller.calls) == 1


def test_without_the_commit_a_replay_would_run() -> None:
    """The control: an assertion whose use is never committed lets two purchases through."""
    market = PurchaseHost()
    text = market.assertion()
    market.ledger._change = lambda changes, proven, audit_id: None  # type: ignore[method-assign]
    assert market.buy(Intent_Assertion=text).status == market.buy(Intent_Assertion=text).status == 200


def test_a_handler_that_fails_has_used_the_assertion() -> None:
    """Whether it took effect is in doubt, so it is never run again."""

    def fail(context: Any) -> Any:
        raise EndpointError("sold_out")

    market = PurchaseHost(fail)
    text = market.assertion()
    assert market.buy(Intent_Assertion=text).status == 422
    assert document(market.buy(Intent_Assertion=text))["reason"] == "intent-assertion-replayed"


def test_one_issuers_jti_is_not_anothers() -> None:
    """The key is issuer and jti together, and no jti can be cut so that both look alike."""
    from decimal import Decimal

    from agtphost.identity.intent import Intent
    from agtphost.vocabulary.money import Money

    def intent(issuer: str, jti: str) -> Intent:
        return Intent(
            issuer=issuer,
            principal="p",
            jti=jti,
            ceiling=Money(value=Decimal(1), currency="EUR"),
            item_digest=None,
            kept_until=0.0,
        )

    assert len({intent("a", "bc").key, intent("ab", "c").key, intent("a", "bd").key}) == 3


def test_a_store_that_is_down_lets_nothing_be_bought() -> None:
    """No use can be made durable: 503, and no handler."""
    market = PurchaseHost()
    market.ledger.failing = True
    response = market.buy(Intent_Assertion=market.assertion())
    assert (response.status, document(response)["reason"]) == (503, "store-unavailable")
    assert not market.seller.calls


def test_a_repeated_keyed_purchase_gets_its_answer() -> None:
    """Same key, same assertion: the stored answer. Same key, another assertion: another purchase, 422."""
    market = PurchaseHost()
    text = market.assertion()
    for _ in range(2):
        assert market.buy(Intent_Assertion=text, Idempotency_Key="k").status == 200
    assert len(market.seller.calls) == 1
    other = market.buy(Intent_Assertion=market.assertion(), Idempotency_Key="k")
    assert (other.status, document(other)["reason"]) == (422, "idempotency-key-reused")
    replay = market.buy(Intent_Assertion=text, Idempotency_Key="k2")
    assert (replay.status, document(replay)["reason"]) == (458, "intent-assertion-replayed")
    assert len(market.seller.calls) == 1


def test_what_is_remembered_of_one_agent_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """T-LM: beyond the bound 429, not a growing store."""
    monkeypatch.setattr(purchases, "MOST_PER_AGENT", 2)
    market = PurchaseHost()
    statuses = [market.buy(Intent_Assertion=market.assertion()).status for _ in range(4)]
    assert statuses == [200, 200, 429, 429]
    assert len(market.seller.calls) == 2


# Budgets


@each_row(
    ("limit", "status", "reason"),
    [
        ("EUR=20.00", 200, ""),
        ("EUR=19.99", 456, "budget-exceeded"),
        ("EUR=10.00, tokens=5", 456, "budget-exceeded"),
        ("financial=10.00EUR", 456, "budget-exceeded"),
        ("USD=1000.00", 456, "budget-exceeded"),
        ("tokens=5", 200, ""),
        ("EUR=20.0", 400, "invalid-budget-limit"),
        ("tokens=1.5", 400, "invalid-budget-limit"),
        ("EUR=20.00, EUR=99.00", 400, "invalid-budget-limit"),
    ],
)
def test_the_budget_is_held_before_anything_is_charged(limit: str, status: int, reason: str) -> None:
    """METH-056, AGTP-321: a dearer purchase is 456, a malformed budget 400; a budget of other money allows none."""
    market = PurchaseHost()
    response = market.buy(Budget_Limit=limit)
    assert response.status == status
    if reason:
        require_refusal(market, response, status, reason)


# Carts


def body_for_quote(market: PurchaseHost, quoted: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """The body of a purchase of a quote."""
    return {"item": None, "cart_quote_id": quoted["quote_id"], "amount": quoted["total"], **changes}


def test_a_quoted_cart_is_bought() -> None:
    """AGTP-299: by quote and digest, by digest alone, and with the cart itself."""
    market = PurchaseHost()
    quoted = document(market.quote())["result"]
    digest = quoted["cart_digest"]
    assert quoted["total"] == {"value": "20.00", "currency": "EUR"}
    assert market.buy(body_for_quote(market, quoted), Cart_Digest=digest).status == 200
    assert market.buy({}, Cart_Digest=digest).status == 200
    assert market.buy(body_for_quote(market, quoted, cart=CART), Cart_Digest=digest).status == 200
    assert payload(market)["extra"]["purchase"]["cart_quote_id"] == quoted["quote_id"]  # type: ignore[index]


def test_what_was_not_quoted_is_409() -> None:
    """AGTP-299: altered, unknown, of another agent, of another amount; each says what is wrong."""
    market = PurchaseHost()
    quoted = document(market.quote())["result"]
    digest = quoted["cart_digest"]
    altered = {**CART, "lines": [{"sku": "tea", "qty": 3, "unit_price": "4.50"}]}
    cases: list[tuple[dict[str, Any], str | None, str]] = [
        (body_for_quote(market, quoted), "sha256:" + "0" * 64, "cart-digest-mismatch"),
        ({}, "sha256:" + "0" * 64, "cart-quote-unknown"),
        ({}, "0" * 64, "cart-digest-malformed"),
        (body_for_quote(market, quoted, cart_quote_id="unknown"), digest, "cart-quote-unknown"),
        (body_for_quote(market, quoted, cart_quote_id={"a": 1}), digest, "cart-quote-unknown"),
        (body_for_quote(market, quoted, cart=altered), digest, "cart-digest-mismatch"),
        (body_for_quote(market, quoted, cart="tea"), digest, "cart-digest-mismatch"),
        (body_for_quote(market, quoted, amount="19.99 EUR"), digest, "cart-amount-mismatch"),
        (body_for_quote(market, quoted, amount="20.00 USD"), digest, "cart-amount-mismatch"),
    ]
    for body, header, reason in cases:
        require_refusal(market, market.buy(body, Cart_Digest=header), 409, reason)
    stranger = PurchaseHost(shop=market.hosted, ledger=FakeLedger())
    require_refusal(
        stranger, stranger.buy(body_for_quote(market, quoted), Cart_Digest=digest), 409, "cart-quote-unknown"
    )


def test_a_quote_that_has_ended_is_409() -> None:
    """AGTP-299: the same purchase a moment after quote_valid_until."""
    market = PurchaseHost()
    quoted = document(market.quote())["result"]
    market.clock.advance(901)
    require_refusal(
        market, market.buy(body_for_quote(market, quoted), Cart_Digest=quoted["cart_digest"]), 409, "cart-quote-unknown"
    )


def test_the_assertion_is_about_the_cart() -> None:
    """item_digest is the digest of the cart that is bought; else 458 before 409, also where no cart is named."""
    market = PurchaseHost()
    quoted = document(market.quote())["result"]
    digest = quoted["cart_digest"]
    wrong = market.assertion(item_digest="sha256:" + "1" * 64)
    body = require_refusal(
        market, market.buy({}, Cart_Digest=digest, Intent_Assertion=wrong), 458, "intent-assertion-invalid"
    )
    assert body["fault"] == "item_digest"
    named = market.assertion(item_digest="sha256:" + "1" * 64)
    require_refusal(
        market, market.buy(body_for_quote(market, quoted), Intent_Assertion=named), 458, "intent-assertion-invalid"
    )
    unnamed = market.assertion(item_digest=digest)
    require_refusal(market, market.buy({}, Intent_Assertion=unnamed), 458, "intent-assertion-invalid")
    right = market.assertion(item_digest=digest)
    assert market.buy({}, Cart_Digest=digest, Intent_Assertion=right).status == 200


# Order and log


def test_the_first_check_that_fails_is_named() -> None:
    """Companion section 14: with everything wrong, each repair uncovers the next check in its order."""
    market = PurchaseHost(intent_required=True)
    shop = market.hosted.agent_id
    market.put(shop, "suspended")
    bad = {"Merchant-ID": None, "Merchant-Manifest-Fingerprint": None, "Cart-Digest": "x", "Budget-Limit": "EUR=0.01"}
    seen: list[str] = []

    def ask(**headers: Any) -> None:
        scope = headers.pop("scope", "payments:purchase")
        response = market.buy(None, **{**bad, **headers, "Authority-Scope": scope})
        seen.append(document(response)["reason"])

    ask(scope="documents:query")
    ask()
    market.put(shop, "active")
    ask()
    bad["Merchant-ID"] = shop
    ask()
    bad["Merchant-Manifest-Fingerprint"] = market.fingerprint
    ask()
    bad["Intent-Assertion"] = market.assertion()
    ask()
    bad["Cart-Digest"] = None
    ask()
    bad["Budget-Limit"] = None
    assert seen == [
        "scope-required",
        "merchant-not-active",
        "missing-merchant-id-header",
        "missing-merchant-manifest-fingerprint-header",
        "intent-assertion-required",
        "cart-digest-malformed",
        "budget-exceeded",
    ]
    assert market.buy(None, **bad).status == 200


def test_each_458_is_logged() -> None:
    """AGTP-297: one line with reason, buyer and merchant; no assertion in it."""
    market = PurchaseHost()
    events: list[LogEvent] = []
    globalLogPublisher.addObserver(events.append)
    try:
        market.buy(Merchant_ID=None)
        market.buy(Intent_Assertion="a.b.c")
    finally:
        globalLogPublisher.removeObserver(events.append)
    reasons = [event["reason"] for event in events if event.get("log_namespace", "").endswith("gates.purchase")]
    assert reasons == ["missing-merchant-id-header", "intent-assertion-invalid"]
    assert all("a.b.c" not in str(event) for event in events)


def test_a_purchase_made_by_another_endpoint_is_one() -> None:
    """What a handler buys in the caller's name needs the same headers, which go along, and the same budget."""
    from agtphost.contract.binding import Binding
    from tests.dispatch.hosts import Recorder

    async def spree(context: Any) -> Any:
        given = {"item": "tea", "principal_id": "alice", "amount": "20.00 EUR"}
        return await context.invoke("PURCHASE", "/goods", given)

    def market() -> PurchaseHost:
        return PurchaseHost(bindings=(Binding(method="EXECUTE", path="/spree", handler=Recorder(spree), tier="B"),))

    good = market()
    assert good.ask("EXECUTE", "/spree", {}, headers=good.headers()).status == 200
    assert len(good.seller.calls) == 1
    bare, poor = market(), market()
    assert bare.ask("EXECUTE", "/spree", {}).status == 458
    assert poor.ask("EXECUTE", "/spree", {}, headers=poor.headers(Budget_Limit="EUR=1.00")).status == 456
    assert not bare.seller.calls and not poor.seller.calls
