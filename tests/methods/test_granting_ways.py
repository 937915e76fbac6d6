"""No way round a grant: delegation, contracts and their steps, other names of a method, and repeated requests."""

from __future__ import annotations

import json
from collections.abc import Iterable

import pytest

from agtphost.contract.grants import Grant
from tests.memory import OpenHost, body_of
from tests.methods.granting_hosts import GrantingHost
from tests.methods.test_delegation import ALICE as DELEGATEE
from tests.methods.test_delegation import BOSS, DelegationHost, request
from tests.negotiation.hosts import ALICE, NegotiatingHost
from tests.negotiation.test_ends import BOTH, accepted


def narrow(host: OpenHost, **things: Iterable[str]) -> None:
    """Have the configuration grant agents these, by Agent-ID."""
    grants = [Grant(agent_id=agent_id, allow=allow) for agent_id, each in things.items() for allow in each]
    host.core.services.rights.configure(grants)


def body_text(response: object) -> str:
    """A body as text: the refusal of an inner call stands somewhere in it."""
    return json.dumps(body_of(response))  # type: ignore[arg-type]


def test_a_delegated_call_needs_the_grants_of_everybody_in_its_chain() -> None:
    """DELEGATE itself; what the delegator may call; and what the delegatee may."""
    host = DelegationHost()
    assert host.delegate(request()).status == 200, "the control"
    for boss, alice, status in (
        (["QUERY /papers"], None, 262),
        (["DELEGATE"], None, 550),
        (["DELEGATE", "QUERY /shelves"], None, 550),
        (["DELEGATE", "QUERY /papers"], ["QUERY /shelves"], 550),
        (["DELEGATE", "QUERY /papers"], ["QUERY /papers"], 200),
    ):
        host = DelegationHost()
        narrow(host, **{BOSS.agent_id: boss}, **({DELEGATEE.agent_id: alice} if alice else {}))
        answer = host.delegate(request())
        assert answer.status == status, (boss, alice, body_text(answer))
        assert ("grant-required" in body_text(answer)) is (status != 200)
        assert len(host.seen) == (status == 200)


def test_a_contract_needs_a_grant_and_so_do_its_steps() -> None:
    """Whoever negotiated an endpoint before it was narrowed calls it no longer; with all its steps granted, again."""
    host = NegotiatingHost(BOTH)
    synthesis_id = accepted(host)
    narrow(host, **{ALICE: ["SUMMARIZE"]})
    assert body_text(host.under(synthesis_id)).count("grant-required")
    assert "grant-required" in body_text(host.opted())
    narrow(host, **{ALICE: ["BOOK /room"]})
    answer = host.under(synthesis_id)
    assert answer.status != 200 and "grant-required" in body_text(answer), "its steps are calls of their own"
    narrow(host, **{ALICE: ["* /*"]})
    assert host.under(synthesis_id).status == 200


LEGACY = {"policies": {"methods": {"legacy": ["GET"], "aliases": {"ASKFOR": "QUERY"}}}}


@pytest.mark.parametrize("name", ["QUERY", "GET", "ASKFOR"])
def test_other_names_of_a_method_lead_to_the_same_grant(name: str) -> None:
    """An HTTP verb that the operator takes, and an alias, are the method that they stand for."""
    host = GrantingHost(LEGACY)
    assert host.use(f"{name} /words").status == 200
    host.grant("QUERY /books/*")
    assert host.use(f"{name} /words").reason == "grant-required"
    assert host.use(f"{name} /books/7").status == 200


def test_an_answer_is_not_repeated_to_who_may_call_no_longer() -> None:
    """The Idempotency-Key of a call that was granted gets nothing once that is taken back."""
    host = GrantingHost()
    key = {"headers": {"Idempotency-Key": "k-1"}}
    assert host.use("RESERVE /desk", **key).status == 200
    assert host.use("RESERVE /desk", **key).status == 200, "the control"
    host.grant("QUERY /words")
    assert host.use("RESERVE /desk", **key).reason == "grant-required"
