"""INSPECT of contracts and of attempts to negotiate one: core v08 section 7.2.4."""

from __future__ import annotations

from typing import Any

import pytest

from agtphost.config.policies import Policies
from tests.memory import body_of
from tests.negotiation.hosts import ALICE, BOB, BOOK_ROOM, GATE, NegotiatingHost, but, room

BOTH = Policies(rcns=GATE, synthesis_enabled=True)


def inspect(table: NegotiatingHost, synthesis_id: str) -> dict[str, Any]:
    """The contract, as its agent is shown it."""
    answer = table.ask("INSPECT", "/", {"target": "contract", "synthesis_id": synthesis_id})
    assert answer.status == 200, body_of(answer)
    return dict(body_of(answer)["result"])


@pytest.mark.parametrize("origin", ["propose", "rcns-gate"])
def test_a_contract_is_shown_as_it_was_negotiated(origin: str) -> None:
    """AGTP-196: with the origin and hash of its records, and the recipe that was captured, whatever the file has."""
    table = NegotiatingHost(BOTH, recipes=room("3"))
    beside = {"requested_duration": "1h"}
    offer = body_of(table.propose(BOOK_ROOM, beside=beside) if origin == "propose" else table.opted())
    key = offer["synthesis_id"]
    assert table.under(key).status == 200
    recorded = table.payload
    assert recorded["synthesis_id"] == key
    edited = NegotiatingHost(BOTH, recipes=room("4"), ledger=table.ledger, clock=table.clock)
    for host in (table, edited):
        shown = inspect(host, key)
        assert shown["recipe_lineage"] == {"recipe_name": "book-room", "recipe_version": "3"}
        assert (shown["method"], shown["path"], shown["originating_agent_id"]) == ("BOOK", "/room", ALICE)
        assert shown["negotiation_origin"] == recorded["negotiation_origin"] == origin
        assert shown["contract_hash"] == recorded["contract_hash"] == offer["contract_hash"]
        assert shown["expires_at"] == offer["expires_at"]


def test_two_contracts_have_two_hashes() -> None:
    """AGTP-196: a contract made of an edited recipe is another one."""
    table = NegotiatingHost(BOTH, recipes=room("3"))
    first = inspect(table, body_of(table.propose(BOOK_ROOM))["synthesis_id"])
    edited = NegotiatingHost(BOTH, recipes=room("4"), ledger=table.ledger, clock=table.clock)
    second = inspect(edited, body_of(edited.propose(BOOK_ROOM))["synthesis_id"])
    assert second["recipe_lineage"]["recipe_version"] == "4"
    assert first["contract_hash"] != second["contract_hash"]


def test_a_contract_is_shown_in_its_present_state() -> None:
    """AGTP-196: offered until it is used, then active, then revoked or expired."""
    table = NegotiatingHost(BOTH)
    first, second = (body_of(table.opted(body={"guest": guest}))["synthesis_id"] for guest in ("Ann", "Bea"))
    assert [inspect(table, key)["state"] for key in (first, second)] == ["offered", "offered"]
    for key in (first, second):
        assert table.under(key).status == 200
        assert inspect(table, key)["state"] == "active"
    assert table.ask("REVOKE", "/", {"target": "contract", "synthesis_id": first, "reason": "done"}).status == 200
    table.clock.advance(BOTH.rcns.contract_ttl_seconds)
    assert [inspect(table, key)["state"] for key in (first, second)] == ["revoked", "expired"]


@pytest.mark.parametrize(
    ("policies", "stolen", "reason", "locks"),
    [
        (Policies(), False, "rcns-disabled", (False, True, None, False)),
        (Policies(rcns=but(GATE, min_trust_tier=1)), False, "trust-tier-insufficient", (True, True, True, False)),
        (BOTH, True, "contract-not-yours", (True, False, None, True)),
    ],
)
def test_an_attempt_shows_the_outcome_of_each_lock(
    policies: Policies, stolen: bool, reason: str, locks: tuple[bool | None, ...]
) -> None:
    """AGTP-197: with method, path, agent and trust tier; None is a lock that was not reached."""
    table = NegotiatingHost(policies)
    if stolen:
        answer = table.under(body_of(table.opted(who=BOB))["synthesis_id"])
    else:
        answer = table.opted()
    assert (answer.status, body_of(answer)["reason"]) == (464, reason)
    found = table.ask("INSPECT", "/", {"target": "rcns-attempt", "attempt_id": answer.headers.get("rcns-attempt-id")})
    shown = body_of(found)["result"]
    asked = [shown[name] for name in ("method", "path", "agent_id", "trust_tier", "reason")]
    assert asked == ["BOOK", "/room", ALICE, 2, reason]
    assert shown["locks"] == dict(zip(("policy", "opt_in", "scope", "trust_tier"), locks, strict=True))
