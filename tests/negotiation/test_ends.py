"""Release, revocation, sweep, and the end of an agent: AGTP-API sections 10.1.4 and 10.1.4.1."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from agtphost.audit.drafts import HOST_CHAIN, Change, Draft
from agtphost.config.policies import Policies
from agtphost.handlers.built_in import BuiltInContext
from agtphost.identity.peer import Assurance
from agtphost.vocabulary.quotas import APPROVAL
from tests.memory import body_of
from tests.negotiation.hosts import (
    ALICE,
    BOB,
    BOOK_ROOM,
    BOOKING,
    CUSTOMER,
    ERASURE,
    GATE,
    LOCATE,
    ROOT,
    WEATHER,
    NegotiatingHost,
    but,
    granting,
    room,
)

BOTH = Policies(rcns=GATE, synthesis_enabled=True)


def accepted(table: NegotiatingHost, who: str = ALICE) -> str:
    """A contract in force."""
    synthesis_id = str(body_of(table.opted(who=who))["synthesis_id"])
    assert table.under(synthesis_id, who=who).status == 200
    return synthesis_id


def revoke(table: NegotiatingHost, body: dict[str, Any], who: str = ALICE, **options: Any) -> Any:
    return table.ask("REVOKE", "/", body, who=who, **options)


@pytest.mark.parametrize("who", [ALICE, ROOT])
def test_a_revoked_contract_is_464(who: str) -> None:
    """Core v08 section 7.2.16.1, API-105: by its agent or operator; rcns_revoke in the stream; a repeat is a no-op."""
    table = NegotiatingHost(BOTH)
    synthesis_id = accepted(table)
    body = {"target": "contract", "synthesis_id": synthesis_id, "reason": "done with"}
    answer = revoke(table, body, who)
    assert (answer.status, body_of(answer)["result"]["event_type"]) == (200, "rcns_revoke")
    assert table.events()[-1] == (ALICE, "rcns_revoke")
    fields = table.ledger.drafts[-1].events[0].fields
    assert (fields["reason"], fields["synthesis_id"]) == ("done with", synthesis_id)
    assert (fields["operator_agent_id"], fields["originating_agent_id"]) == (who, ALICE)
    refused = table.under(synthesis_id)
    assert (refused.status, body_of(refused)["reason"]) == (464, "contract-revoked")
    assert refused.headers.get("rcns-attempt-id")
    assert body_of(revoke(table, body, who))["result"]["noop"] is True
    assert [kind for _, kind in table.events()].count("rcns_revoke") == 1
    later = NegotiatingHost(BOTH, ledger=table.ledger, clock=table.clock)
    assert body_of(later.under(synthesis_id))["reason"] == "contract-revoked"


def test_nobody_else_revokes() -> None:
    """
    Core v08 section 7.2.16.1: 403 for other agents and for an agent known by header alone, of ids that nobody knows as
    well; those are 404 for overseers.
    """
    table = NegotiatingHost(BOTH)
    synthesis_id = accepted(table)
    body = {"target": "contract", "synthesis_id": synthesis_id}
    assert revoke(table, body, BOB).status == 403
    assert revoke(table, body, ALICE, sure=False).status == 403
    assert revoke(table, body, ROOT, sure=False).status == 403
    unknown = {"target": "contract", "synthesis_id": "0" * 36}
    assert (revoke(table, unknown, BOB).status, revoke(table, unknown, ROOT).status) == (403, 404)
    assert revoke(table, {"target": "planet"}).status == 400
    assert table.under(synthesis_id).status == 200


def test_a_released_contract_is_forgotten() -> None:
    """Core v08 section 7.2.12.1, spec reading 53: its agent alone releases it; rcns_release; 404 afterwards."""
    table = NegotiatingHost(BOTH)
    synthesis_id = accepted(table)

    def context(who: str) -> BuiltInContext:
        agent = table.directory.by_id(who)
        assert agent is not None
        return BuiltInContext(
            input={"synthesis_id": synthesis_id, "reason": "done"},
            method="SUSPEND",
            path="/",
            caller=agent,
            assurance=Assurance.CERTIFICATE,
            scopes=agent.scopes,
        )

    for who in (BOB, ROOT):
        with pytest.raises(Exception, match="403"):
            table.negotiator.release_contract(context(who))
    answer = table.negotiator.release_contract(context(ALICE))
    assert [(event.chain, event.event_type) for event in answer.events] == [(ALICE, "rcns_release")]
    assert answer.events[0].fields["reason"] == "done"
    table.ledger._change(answer.changes)
    assert table.under(synthesis_id).status == 404


def test_the_sweep_reports_and_evicts() -> None:
    """API-106, API-107, T-CT-30: grandfathered contracts go on; evicted ones are 404, the operator's name signed."""
    table = NegotiatingHost(BOTH, recipes=room("3"))
    synthesis_id = accepted(table)
    sweep = {"target": "stale-contracts", "actor": "ops@acme"}
    (entry,) = body_of(revoke(table, sweep, ROOT))["result"]["contracts"]
    assert entry["disposition"] == "unchanged"
    edited = NegotiatingHost(BOTH, recipes=room("4"), ledger=table.ledger, clock=table.clock)
    assert revoke(edited, sweep).status == 403
    result = body_of(revoke(edited, sweep, ROOT))["result"]
    assert (result["mode"], result["grandfathered"]) == ("grandfather", 1)
    assert (result["contracts"][0]["captured_version"], result["contracts"][0]["current_version"]) == ("3", "4")
    assert edited.under(synthesis_id).status == 200
    assert "rcns_release" not in [kind for _, kind in edited.events()]
    assert revoke(edited, {**sweep, "mode": "sometimes"}, ROOT).status == 400
    assert body_of(revoke(edited, {**sweep, "mode": "invalidate"}, ROOT))["result"]["evicted"] == 1
    (event,) = [event for draft in edited.ledger.drafts for event in draft.events if event.event_type == "rcns_release"]
    assert event.chain == ALICE
    assert event.fields["reason"] == "policy-change-invalidation"
    assert (event.fields["actor"], event.fields["operator_agent_id"]) == ("ops@acme", ROOT)
    assert edited.under(synthesis_id).status == 404


def test_the_sweep_skips_what_has_no_recipe_and_notices_a_removed_one() -> None:
    """API-108: passthrough contracts are skipped; a removed recipe is drift to null."""
    table = NegotiatingHost(BOTH)
    accepted(table)
    assert table.propose(LOCATE, beside={"requested_duration": "1h"}).status == 263
    settings = but(BOTH, rcns=but(GATE, on_policy_change="invalidate"))
    later = NegotiatingHost(settings, recipes="", ledger=table.ledger, clock=table.clock)
    result = body_of(revoke(later, {"target": "stale-contracts"}, ROOT))["result"]
    assert (result["mode"], result["skipped"], result["examined"]) == ("invalidate", 1, 1)
    assert (result["contracts"][0]["current_version"], result["contracts"][0]["disposition"]) == (None, "evicted")


def test_a_revoked_agents_contracts_end_with_it() -> None:
    """Design decision 10: what REVOKE of an agent commits revokes all its contracts, nobody else's."""
    table = NegotiatingHost(BOTH)
    mine, other = accepted(table), accepted(table, BOB)
    body_of(table.propose(BOOK_ROOM))
    before = len(table.events())
    answer = revoke(table, {"agent_id": ALICE, "reason": "gone"}, ROOT)
    assert answer.status == 200 and body_of(answer)["result"]["status"] == "retired", body_of(answer)
    assert table.events()[before:] == [(ALICE, "rcns_revoke")] * 2
    # Its requests are 410 from now on; here the contract itself is looked at.
    assert body_of(table.under(mine))["reason"] == "contract-revoked"
    assert table.under(other, who=BOB).status == 200


def test_tombstones_are_bounded() -> None:
    """However often an agent negotiates and revokes, what is kept of it is bounded."""
    table = NegotiatingHost(but(granting(BOTH, max_contracts_per_agent=3), rcns=but(GATE, rate_limit_per_minute=1_000)))
    for _ in range(12):
        synthesis_id = accepted(table)
        revoke(table, {"target": "contract", "synthesis_id": synthesis_id})
    assert len(list(table.ledger.held.items_of("contract", ALICE))) <= 2 * 3


def test_a_contract_of_what_a_person_approves_needs_the_approval_as_a_whole() -> None:
    """202 under the contract, before its first step; approved it runs, and its steps with it."""
    held = replace(BOOKING, approval=True, definition="d" * 64)
    table = NegotiatingHost(BOTH, endpoints=(CUSTOMER, WEATHER, held, ERASURE))
    synthesis_id = str(body_of(table.opted())["synthesis_id"])
    answer = table.under(synthesis_id)
    found = body_of(answer)
    assert (answer.status, found["reason"]) == (202, "approval-required")
    assert table.calls == []
    item = table.ledger.held.get(APPROVAL, found["approval_id"])
    assert item is not None
    decided = {**item.value, "status": "accepted", "use_by": table.seconds() + 60}
    decided["decision"] = {"by": "key:x", "at": "2026-01-01T00:00:00Z", "reason": "", "attestation_id": ""}
    change = Change(kind=APPROVAL, key=item.key, value=decided, owner=item.owner, expected=item.version)
    table.ledger.submit(Draft(chain=HOST_CHAIN, payload={}, changes=(change,)))
    done = table.under(synthesis_id)
    assert done.status == 200, done.body
    assert [called for called, _, _ in table.calls] == ["RESERVE /desk"]
    assert table.under(synthesis_id).status == 202
