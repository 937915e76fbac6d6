"""
Every member of a token that narrows is held to, also where the request leaves out what it is compared with.

Each kind of token has a row for every member that its parser knows: what becomes of a request that was good but for
that member. Members that bound nothing are named as such. A member that a parser reads and no row has fails the test.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import fields
from types import SimpleNamespace
from typing import Any

import pytest

from agtphost.dispatch.gates.governance import SCOPE, Governance
from agtphost.dispatch.quotes import cart_digest
from agtphost.errors import Refusal
from agtphost.identity import delegation
from agtphost.identity.peer import Assurance, state_owner
from agtphost.methods import continuation
from agtphost.methods.continuation import Continuations
from agtphost.negotiation.contract import Contract
from agtphost.vocabulary import jsontext
from agtphost.wire.events import Response
from tests.dispatch import test_governance as governing
from tests.dispatch.hosts import STRANGER, document
from tests.dispatch.purchase_hosts import CART, PurchaseHost
from tests.identity.issued import DEMO
from tests.memory import body_of
from tests.methods import test_delegation as delegating
from tests.negotiation.hosts import BOB, NegotiatingHost
from tests.negotiation.test_ends import BOTH, accepted
from tests.rows import each_row

NOW = time.time


class Read(dict[str, Any]):
    """Claims that remember which of them were asked for."""

    seen: set[str]

    def get(self, name: str, default: Any = None) -> Any:
        self.seen.add(name)
        return super().get(name, default)

    def __getitem__(self, name: str) -> Any:
        self.seen.add(name)
        return super().__getitem__(name)


# Intent-Assertions

INTENT: dict[str, Any] = {
    "iss": "https://elsewhere.example",
    "sub": "mallory",
    "aud": STRANGER,
    "agent_id": STRANGER,
    "item_digest": cart_digest(CART),
    "amount_ceiling": {"value": "19.99", "currency": "EUR"},
    "iat": 9_999_999_990,
    "nbf": 9_999_999_999,
    "exp": 2,
    "jti": "used",
}
"""What each claim is changed to; the purchase names an item, and no cart."""


@each_row("claim", INTENT)
def test_each_claim_of_an_assertion(claim: str) -> None:
    """458 for each, and nothing is sold; the same assertion without the change buys."""
    market = PurchaseHost()
    assert market.buy(Intent_Assertion=market.assertion(jti="used")).status == 200, "the control"
    response = market.buy(Intent_Assertion=market.assertion(**{claim: INTENT[claim]}))
    assert (response.status, document(response)["reason"].startswith("intent-assertion-")) == (458, True)
    assert len(market.seller.calls) == 1


def test_an_assertion_has_no_other_claims(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the verification reads is what the rows are about."""
    market = PurchaseHost()
    seen: set[str] = set()
    decode = jsontext.decode

    def reading(octets: bytes, **options: Any) -> Any:
        value = decode(octets, **options)
        if isinstance(value, dict) and "jti" in value:
            value = Read(value)
            value.seen = seen
        return value

    with monkeypatch.context() as patched:
        patched.setattr(jsontext, "decode", reading)
        assert market.buy(Intent_Assertion=market.assertion()).status == 200
    # scope and scp belong to access tokens, of which assertions are judged as a kind: nothing is asked of them here.
    assert seen - {"scope", "scp"} == INTENT.keys()


def test_a_cart_bound_assertion_buys_that_cart_alone() -> None:
    """With Cart-Digest, with the quote, with both: 200; with neither, or of another cart: 458."""
    market = PurchaseHost()
    quoted = json.loads(market.quote().body)["result"]
    other = json.loads(market.quote({**CART, "shipping": "0.95", "tax": "3.05"}).body)["result"]
    digest = quoted["cart_digest"]
    by_quote = {"item": None, "cart_quote_id": quoted["quote_id"]}
    for body, header in ((by_quote, None), ({}, digest), (by_quote, digest)):
        bound = market.assertion(item_digest=digest)
        assert market.buy(body, Cart_Digest=header, Intent_Assertion=bound).status == 200, (body, header)
    sold = len(market.seller.calls)
    refused = (
        ({"item": "anything"}, None),
        ({"item": "anything", "cart": CART}, None),
        ({"item": None, "cart_quote_id": other["quote_id"]}, None),
        ({}, other["cart_digest"]),
    )
    for body, header in refused:
        response = market.buy(body, Cart_Digest=header, Intent_Assertion=market.assertion(item_digest=digest))
        told_of = document(response)
        assert (response.status, told_of["reason"]) == (458, "intent-assertion-invalid"), (body, header)
        assert told_of["fault"] == "item_digest" and told_of["remedy"]
    assert len(market.seller.calls) == sold


# Delegation tokens

DELEGATION: dict[str, Callable[[], dict[str, Any]]] = {
    "iss": lambda: {"token": delegating.token(issuer=STRANGER)},
    "sub": lambda: {"token": delegating.token(delegator=delegating.CAROL.agent_id)},
    "aud": lambda: {"token": delegating.token(delegatee=delegating.CAROL.agent_id)},
    "scope": lambda: {"token": delegating.token(scope=["documents:write"])},
    "iat": lambda: {"token": delegating.token(now=NOW() + 900)},
    "exp": lambda: {"token": delegating.token(now=NOW() - 900)},
    "nbf": lambda: {"token": _token_with_claims(nbf=int(NOW()) + 900)},
    "jti": lambda: {"token": _token_with_claims(jti="used")},
    "task_id": lambda: {"task_id": None},
    "depth": lambda: {"token": delegating.token(depth=2, parent="0" * 64)},
    "parent": lambda: {"token": delegating.token(depth=2, parent="f" * 64)},
}


def _token_with_claims(**changes: Any) -> str:
    """A good token with claims that ``issue`` does not take."""
    from agtphost.identity import jws
    from agtphost.identity.canonical import canonical

    claims = {**jws.parse_unverified(delegating.token()), **changes}
    return jws.compact(jws.protected_header(DEMO, delegation.DELEGATION_TYPE), canonical(claims), DEMO)


def _delegate(
    host: delegating.DelegationHost, token: str | None = None, task_id: str | None = "t-1", context: Any = None
) -> Response:
    body = delegating.request(delegation_token=token or delegating.token())
    return host.ask(
        "DELEGATE",
        "/",
        {"method": "DELEGATE", "parameters": body, **({"context": context} if context else {})},
        certificate=delegating.of_agent(delegating.BOSS.agent_id, DEMO, delegating.COMMITMENT),
        headers={} if task_id is None else {"Task-ID": task_id},
    )


@each_row("claim", DELEGATION)
def test_each_claim_of_a_delegation_token(claim: str) -> None:
    """551 for each, and nothing is called; a token without the change delegates."""
    host = delegating.DelegationHost()
    assert _delegate(host, _token_with_claims(jti="used")).status == 200, "the control"
    response = _delegate(host, **DELEGATION[claim]())
    assert response.status == 551, response.body
    assert len(host.seen) == 1


def test_a_delegation_token_has_no_other_claims() -> None:
    """Unknown ones are refused by the parser."""
    assert DELEGATION.keys() == delegation._REQUIRED | delegation._OPTIONAL
    assert _delegate(delegating.DelegationHost(), _token_with_claims(only_on="sundays")).status == 551


# Governance tokens

NARROWS_NOTHING = {"trust_score_dimensions"}
GOVERNANCE: dict[str, Callable[[], dict[str, Any]]] = {
    "iss": lambda: {"iss": "elsewhere"},
    "agent_id": lambda: {"agent_id": STRANGER},
    "verdict": lambda: {"verdict": "DENY"},
    "action": lambda: {"action": {"method": "QUERY"}},
    "iat": lambda: {"iat": int(NOW()) + 200, "exp": int(NOW()) + 230},
    "exp": lambda: {"iat": int(NOW()) - 200, "exp": int(NOW()) - 170},
    "nbf": lambda: {"nbf": int(NOW()) + 200},
    "jti": lambda: {"jti": "used"},
    "aud": lambda: {"aud": "elsewhere.test"},
}
ACTION: dict[str, Any] = {
    "method": "QUERY",
    "path": "/elsewhere",
    "parameters_digest": governing.parameters_digest({"text": "other"}),
    "target_agent_id": STRANGER,
    SCOPE: ["documents:write"],
    "max_amount": "1.00 EUR",
}
"""What each member of ``action`` is changed to; the last is one that no host knows."""


@each_row("claim", GOVERNANCE)
def test_each_claim_of_a_governance_token(claim: str) -> None:
    """401, or 403 for DENY, with DELEGATE as with any other method; nothing acts."""
    host = governing.governed_host()
    assert governing.ask(host, governing.token(jti="used"))[0] == 200, "the control"
    assert governing.ask(host, governing.token(**GOVERNANCE[claim]()))[0] in (401, 403)
    assert len(host.recorder.calls) == 1
    playing = delegating.DelegationHost()
    good = {"governance_token": delegating.governance(jti="used")}
    assert _delegate(playing, context=good).status == 200, "the control"
    bad = {"governance_token": delegating.governance(**GOVERNANCE[claim]())}
    assert _delegate(playing, context=bad).status in (401, 403)
    assert len(playing.seen) == 1


@each_row("member", ACTION)
def test_each_member_of_a_governed_action(member: str) -> None:
    """A verdict on another action is none on this one: 401, and 262 for scopes; nothing acts."""
    host = governing.governed_host()
    status, _ = governing.ask(host, governing.token(action={member: ACTION[member]}))
    assert status == (262 if member == SCOPE else 401)
    assert not host.recorder.calls
    playing = delegating.DelegationHost()
    bad = {"governance_token": delegating.governance(action={"method": "DELEGATE", member: ACTION[member]})}
    assert _delegate(playing, context=bad).status == (262 if member == SCOPE else 401)
    assert not playing.seen


def test_a_governed_scope_bounds_what_is_used_and_handed_on() -> None:
    """The request claims no scope, and the verdict's counts: for the handler, and for what is delegated."""
    host = governing.governed_host()
    held = host.caller.scopes
    assert len(held) > 1
    granted = sorted(held)[:1]
    status, body = governing.ask(host, governing.token(action={SCOPE: granted}))
    if status == 200:
        assert host.recorder.calls[-1].scopes == frozenset(granted)
    else:
        assert body["reason"] == "scope-required"
    playing = delegating.DelegationHost()
    allowed = {"governance_token": delegating.governance(action={"method": "DELEGATE", SCOPE: ["documents:query"]})}
    assert _delegate(playing, context=allowed).status == 200


def test_a_governance_token_has_no_other_members(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the token, and of what the host compares ``action`` with."""
    known = delegation._GOVERNANCE_REQUIRED | delegation._GOVERNANCE_OPTIONAL
    assert known - NARROWS_NOTHING == GOVERNANCE.keys()
    compared: set[str] = {SCOPE}
    verdict = Governance.verdict

    def noting(self: Governance, text: Any, agent_id: str, action: Mapping[str, str], *, bound: bool) -> Any:
        compared.update(action)
        return verdict(self, text, agent_id, action, bound=bound)

    monkeypatch.setattr(Governance, "verdict", noting)
    assert governing.ask(governing.governed_host(), governing.token())[0] == 200
    assert _delegate(delegating.DelegationHost(), context={"governance_token": delegating.governance()}).status == 200
    assert compared == ACTION.keys() - {"max_amount"}
    assert governing.ask(governing.governed_host(), governing.token(room="7"))[0] == 401


# Continuation-Tokens


def _asking(**changes: Any) -> Any:
    """A request for a part of a list, as a handler sees it."""
    given: dict[str, Any] = {
        "caller": "a" * 64,
        "certificate": None,
        "assurance": Assurance.CERTIFICATE,
        "method": "QUERY",
        "path": "/things",
        "agent": "b" * 64,
        "input": {"box": "in"},
        "token": None,
        **changes,
    }
    who = given["caller"]
    return SimpleNamespace(
        owner=state_owner(who, given["assurance"]) if who else "",
        peer=SimpleNamespace(certificate=given["certificate"]),
        assurance=given["assurance"],
        method=given["method"],
        path=given["path"],
        agent=SimpleNamespace(agent_id=given["agent"]) if given["agent"] else None,
        input=given["input"],
        headers={"continuation-token": given["token"]} if given["token"] else {},
    )


CONTINUATION: dict[str, dict[str, Any]] = {
    "caller": {"caller": "c" * 64},
    "key": {"caller": "", "certificate": SimpleNamespace(fingerprint="d" * 64)},
    "method": {"method": "DISCOVER"},
    "path": {"path": "/others"},
    "agent": {"agent": None},
    "input": {"input": {}},
}


@each_row("member", CONTINUATION)
def test_each_member_of_a_continuation_token(member: str) -> None:
    """422 for whoever asks otherwise, or leaves out what the token was made with."""
    tokens = Continuations()
    token = tokens.token(_asking(), 7)
    assert tokens.position(_asking(token=token)) == 7, "the control"
    with pytest.raises(Refusal) as refused:
        tokens.position(_asking(**CONTINUATION[member], token=token))
    assert refused.value.status == 422


def test_a_continuation_token_is_of_the_assurance_too() -> None:
    """Who merely says the Agent-ID is another caller."""
    tokens = Continuations()
    with pytest.raises(Refusal):
        tokens.position(_asking(assurance=Assurance.HEADER, token=tokens.token(_asking(), 7)))


def test_a_continuation_token_is_bound_to_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every member that it is bound to has its row; so has each of the sealed note, which its time is one of."""
    bound: set[str] = set()
    canonical = continuation.canonical

    def noting(value: Any) -> bytes:
        bound.update(value)
        return canonical(value)

    monkeypatch.setattr(continuation, "canonical", noting)
    clock = [1_000.0]
    tokens = Continuations(now=lambda: clock[0])
    token = tokens.token(_asking(), 7)
    assert bound == CONTINUATION.keys()
    clock[0] += continuation.LIFE - 1
    assert tokens.position(_asking(token=token)) == 7
    clock[0] += 2
    with pytest.raises(Refusal):
        tokens.position(_asking(token=token))


# Contracts

CONTRACT_SAYS = {
    "synthesis_id",
    "recipe",
    "lineage",
    "digest",
    "origin",
    "issued_at",
    "persistent",
    "state_changing",
    "idempotent",
}
"""What describes a contract, and bounds nothing."""


def _commit(table: NegotiatingHost, contract: str, **changed: Any) -> None:
    known = table.negotiator._contracts.get(contract)
    assert known is not None
    table.ledger._change([known.to_change(**changed)])


def _call_after_change(table: NegotiatingHost, contract: str, **changed: Any) -> Response:
    """A call under a contract that was committed with some members changed."""
    _commit(table, contract, **changed)
    return table.under(contract)


CONTRACT: dict[str, tuple[Callable[[NegotiatingHost, str], Response], int, str]] = {
    "agent_id": (lambda table, name: table.under(name, who=BOB), 464, "contract-not-yours"),
    "definition": (lambda table, name: table.under(name, path="/hall"), 404, "contract-mismatch"),
    "scope": (lambda table, name: _call_after_change(table, name, scope="connection"), 404, "contract-unknown"),
    "session_id": (
        lambda table, name: _call_after_change(table, name, scope="session", session_id="s"),
        404,
        "contract-unknown",
    ),
    "expires_at": (lambda table, name: _call_after_change(table, name, expires_at=1), 464, "contract-revoked"),
    "preview_until": (lambda table, name: _accept_late(table), 404, "contract-unknown"),
    "revoked": (lambda table, name: _call_after_change(table, name, revoked=True), 464, "contract-revoked"),
    "required_scopes": (
        lambda table, name: _call_after_restart(table, name, required_scopes=["payments:all"]),
        262,
        "scope-required",
    ),
    "min_assurance": (lambda table, name: table.under(name, sure=False), 401, "agent-unauthenticated"),
}


def _accept_late(table: NegotiatingHost) -> Response:
    """A preview that was not accepted in its time."""
    name = body_of(table.opted(who=BOB))["synthesis_id"]
    table.clock.advance(301)
    return table.under(name, who=BOB)


def _call_after_restart(table: NegotiatingHost, name: str, **changed: Any) -> Response:
    """A binding is made once: what changes in the store counts after a restart."""
    _commit(table, name, **changed)
    return NegotiatingHost(BOTH, ledger=table.ledger, clock=table.clock).under(name)


@each_row("member", CONTRACT)
def test_each_member_of_a_contract(member: str) -> None:
    """Refused, whether the request has a counterpart or leaves it out; the contract as it was is answered."""
    table = NegotiatingHost(BOTH)
    name = accepted(table)
    assert table.under(name).status == 200, "the control"
    calls = len(table.calls)
    call, status, reason = CONTRACT[member]
    response = call(table, name)
    assert (response.status, body_of(response)["reason"]) == (status, reason)
    assert len(table.calls) == calls


def test_a_contract_has_no_other_members() -> None:
    """Each member bounds what is done under it, or describes it."""
    assert {each.name for each in fields(Contract)} == CONTRACT.keys() | CONTRACT_SAYS
