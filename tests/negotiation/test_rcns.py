"""The gate: four locks, two ways of delivery, and contracts that requests present (AGTP-API section 10.1)."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import datetime
from importlib.resources import files
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.logger import formatEvent, globalLogPublisher

from agtphost.config.policies import Policies
from agtphost.contract.policy import MethodPolicy
from agtphost.stores.rows import ItemRow
from agtphost.vocabulary import scopes
from agtphost.vocabulary.catalog_files import load_catalog
from tests.memory import body_of
from tests.negotiation.hosts import (
    ALICE,
    BOB,
    BOOK_ROOM,
    CUSTOMER,
    GATE,
    LOCATE,
    OPEN,
    OUTLOOK,
    ROOT,
    WEATHER,
    NegotiatingHost,
    but,
    granting,
    room,
)
from tests.rows import each_row

CONFIRM = Policies(rcns=GATE)
OPTIMISTIC = Policies(rcns=but(GATE, mode="optimistic"))


def contracts(table: NegotiatingHost) -> int:
    return len(list(table.ledger.held.all("contract")))


def attempt(table: NegotiatingHost, answer: Any, who: str = ALICE) -> Any:
    """The attempt that a 464 names, by INSPECT."""
    attempt_id = answer.headers.get("rcns-attempt-id")
    assert attempt_id
    found = table.ask("INSPECT", "/", {"target": "rcns-attempt", "attempt_id": attempt_id}, who=who)
    assert found.status == 200, body_of(found)
    return body_of(found)["result"]


# Delivery


def test_a_preview_and_then_the_call() -> None:
    """AGTP-084, API-095, API-102, API-103: 461 with all seven fields and nothing done; accepting it runs it once."""
    table = NegotiatingHost(CONFIRM)
    offer = table.opted()
    body = body_of(offer)
    assert offer.status == 461, body
    seven = {"synthesis_id", "method", "path", "endpoint", "recipe_lineage", "contract_hash", "expires_at"}
    assert seven <= body.keys()
    assert (body["method"], body["path"]) == ("BOOK", "/room")
    shown = body["endpoint"]
    assert (shown["method"], shown["path"]) == ("BOOK", "/room")
    assert (shown["input_schema"]["required"], shown["output_schema"]["required"]) == (["guest"], ["reservation"])
    assert body["recipe_lineage"] == {"recipe_name": "book-room", "recipe_version": "3"}
    assert re.fullmatch(r"[0-9a-f]{64}", body["contract_hash"])
    assert table.calls == []
    assert table.events() == [(ALICE, "rcns_propose_accepted")]
    answer = table.under(body["synthesis_id"])
    assert (answer.status, body_of(answer)["result"]["reservation"]) == (200, "R1")
    assert table.under(body["synthesis_id"]).status == 200
    # Once accepted, the pair resolves by itself (AGTP-API section 10.1.1).
    assert table.ask("BOOK", "/room", {"guest": "Ann"}).status == 200
    assert len(table.calls) == 3


def test_records_name_the_contract_they_ran_under() -> None:
    """AGTP-API section 10.1.6: the three extension fields, on these records only."""
    table = NegotiatingHost(CONFIRM)
    body = body_of(table.opted())
    table.under(body["synthesis_id"])
    expected = {
        "synthesis_id": body["synthesis_id"],
        "contract_hash": body["contract_hash"],
        "negotiation_origin": "rcns-gate",
    }
    assert table.payload.items() >= expected.items()
    inner = [draft.payload for draft in table.ledger.drafts if draft.payload["method"] == "RESERVE"]
    assert inner and not any(expected.keys() & payload.keys() for payload in inner)
    table.under(body["synthesis_id"], body={"guest": 7})
    assert table.payload["status"] == 422 and table.payload.items() >= expected.items()


def test_an_ignored_preview_is_forgotten() -> None:
    """API-103: after its time the preview is 404; before that it does not resolve by itself."""
    table = NegotiatingHost(CONFIRM)
    body = body_of(table.opted())
    assert table.ask("BOOK", "/room", {"guest": "Ann"}).status == 404
    table.clock.advance(301)
    assert table.under(body["synthesis_id"]).status == 404
    assert table.calls == []
    # Its row goes with the next contract.
    body_of(table.opted())
    assert contracts(table) == 1


def test_optimistic_delivery_runs_inline() -> None:
    """API-104, spec reading 48: 200 with Contract-Synthesized, which works again without the gate."""
    table = NegotiatingHost(OPTIMISTIC)
    answer = table.opted()
    assert (answer.status, body_of(answer)["result"]["reservation"]) == (200, "R1")
    synthesis_id = answer.headers.get("contract-synthesized") or ""
    assert table.payload["synthesis_id"] == synthesis_id
    assert table.events() == [(ALICE, "rcns_propose_accepted")]
    assert table.under(synthesis_id).status == 200
    # What failed made no contract.
    refused = table.opted(body={"guest": 7}, who=BOB)
    assert refused.status == 422 and refused.headers.get("contract-synthesized") is None
    assert contracts(table) == 1


def test_a_keyed_request_is_offered_once_and_run_once() -> None:
    """AGTP-API section 10.1.5: the key repeats the 461; with the contract it runs, and then repeats the answer."""
    table = NegotiatingHost(CONFIRM)
    key = {"Idempotency-Key": "k1"}
    one, other = body_of(table.opted(headers=key)), body_of(table.opted(headers=key))
    assert one["synthesis_id"] == other["synthesis_id"] and contracts(table) == 1
    first = body_of(table.under(one["synthesis_id"], headers=key))
    again = body_of(table.under(one["synthesis_id"], headers=key))
    assert first["result"] == again["result"] == {"reservation": "R1", "by": "3"}
    assert len(table.calls) == 1
    # Another agent's same key is another request.
    assert body_of(table.opted(headers=key, who=BOB))["synthesis_id"] != one["synthesis_id"]


# Locks


def test_lock_one_is_the_operators() -> None:
    """API-096, API-101, AGTP-086: off by default, 464 rcns-disabled with an attempt to look at."""
    table = NegotiatingHost(Policies())
    answer = table.opted()
    assert (answer.status, body_of(answer)["reason"]) == (464, "rcns-disabled")
    assert attempt(table, answer)["locks"]["policy"] is False
    assert body_of(answer)["explanation"]


@each_row("value", [None, "TRUE1", "optimistic", "false", "", "true, true", "1"])
@each_row("settings_", [CONFIRM, Policies()])
def test_lock_two_is_the_callers_header(value: str | None, settings_: Policies) -> None:
    """API-097, spec reading 47: without the opt-in a plain 404 that tells of no negotiation, on or off."""
    table = NegotiatingHost(settings_)
    answer = table.ask("BOOK", "/room", {"guest": "Ann"}, headers={} if value is None else {"Allow-RCNS": value})
    assert answer.status == 404
    assert answer.headers.get("rcns-attempt-id") is None
    assert b"rcns" not in answer.body.lower() and contracts(table) == 0
    other = table.ask("BOOK", "/desk", {"guest": "Ann"})
    assert other.status == 405


def test_lock_three_is_the_scope() -> None:
    """API-098: 262 scope-required naming rcns:negotiate; a wildcard over everything is not it; anonymous likewise."""
    for held in (["desks:book"], ["desks:book", "*:*"]):
        table = NegotiatingHost(CONFIRM, scopes=held)
        body = body_of(table.opted())
        assert (body["status"], body["type"], body["scope"]) == (262, "scope-required", "rcns:negotiate")
    narrowed = NegotiatingHost(CONFIRM)
    body = body_of(narrowed.opted(headers={"Authority-Scope": "desks:book"}))
    assert body["status"] == 262
    assert body_of(narrowed.opted(who=None))["scope"] == "rcns:negotiate"
    assert contracts(narrowed) == 0


def test_lock_four_is_trust() -> None:
    """API-099, spec reading 46: a tier 2 caller meets the default minimum 464, and passes a minimum of 2."""
    table = NegotiatingHost(Policies(rcns=but(GATE, min_trust_tier=1)))
    answer = table.opted()
    assert (answer.status, body_of(answer)["reason"]) == (464, "trust-tier-insufficient")
    seen = attempt(table, answer)
    assert (seen["trust_tier"], seen["locks"]["trust_tier"]) == (2, False)
    assert NegotiatingHost(Policies(rcns=but(GATE, min_trust_tier=1)), tier=1).opted().status == 461
    assert NegotiatingHost(CONFIRM, tier=3).opted().status == 464


def test_nothing_is_synthesized_behind_any_closed_lock() -> None:
    """API-095: each lock alone keeps the gate shut, and the control with all open does not."""
    closed = [
        NegotiatingHost(Policies()).opted(),
        NegotiatingHost(CONFIRM).ask("BOOK", "/room", {"guest": "Ann"}),
        NegotiatingHost(CONFIRM, scopes=["desks:book"]).opted(),
        NegotiatingHost(CONFIRM, tier=3).opted(),
        NegotiatingHost(CONFIRM).opted(sure=False),
    ]
    assert [answer.status for answer in closed] == [464, 404, 262, 464, 401]
    assert NegotiatingHost(CONFIRM).opted().status == 461


def test_what_no_pattern_fits_cannot_be_had() -> None:
    """AGTP-086: 464 composition-impossible, with the attempt."""
    table = NegotiatingHost(CONFIRM)
    answer = table.opted("BOOK", "/boat")
    assert (answer.status, body_of(answer)["reason"]) == (464, "composition-impossible")
    assert attempt(table, answer)["path"] == "/boat"
    assert body_of(NegotiatingHost(but(CONFIRM, max_synthesis_depth=1), recipes=room()).opted())["status"] == 461
    assert body_of(NegotiatingHost(CONFIRM, scopes=["rcns:negotiate"]).opted())["missing_scopes"] == ["desks:book"]


def test_too_many_contracts_is_an_error_of_synthesis() -> None:
    """AGTP-086: 464 synthesis-error."""
    table = NegotiatingHost(granting(CONFIRM, max_contracts_per_agent=1))
    body = body_of(table.opted())
    table.under(body["synthesis_id"])
    table.negotiator._contracts.implicit = lambda *given: None  # type: ignore[method-assign]
    assert body_of(table.opted())["reason"] == "synthesis-error"


def test_the_rate_is_for_evaluations_only() -> None:
    """API-110: the eleventh in a minute is 429 scope rcns; presenting a contract does not count."""
    table = NegotiatingHost(CONFIRM)
    synthesis_id = body_of(table.opted())["synthesis_id"]
    for _ in range(9):
        assert table.opted("BOOK", "/boat").status == 464
    limited = table.opted("BOOK", "/boat")
    assert (limited.status, body_of(limited)["scope"]) == (429, "rcns")
    assert limited.headers.get("retry-after")
    for _ in range(20):
        assert table.under(synthesis_id).status == 200
    assert table.opted("BOOK", "/boat", who=BOB).status == 464
    # An agent known by header alone does not use up the real one's.
    table.clock.advance(61)
    for _ in range(12):
        table.opted("BOOK", "/boat", sure=False)
    assert table.opted("BOOK", "/boat").status == 464


def test_attempts_are_a_ring() -> None:
    """At most so many are kept, the newest; others' are not shown."""
    table = NegotiatingHost(Policies())
    first = table.opted().headers.get("rcns-attempt-id")
    for _ in range(60):
        last = table.opted()
    assert len(list(table.ledger.held.items_of("rcns-attempt", ALICE))) == 50
    gone = table.ask("INSPECT", "/", {"target": "rcns-attempt", "attempt_id": first})
    assert gone.status == 404
    assert attempt(table, last)["reason"] == "rcns-disabled"
    named = {"target": "rcns-attempt", "attempt_id": last.headers.get("rcns-attempt-id")}
    assert table.ask("INSPECT", "/", named, who=BOB).status == 404
    assert table.ask("INSPECT", "/", named, who=ROOT).status == 200
    # The name alone is not enough: an attempt tells what its agent was after.
    assert table.ask("INSPECT", "/", named, sure=False).status == 404
    assert table.ask("INSPECT", "/", named).status == 200, "the control"


# Presenting


def test_a_stolen_contract_is_useless() -> None:
    """API-094, API-105, AGTP-API section 10.1.4: another agent's is 464, and an unproven identity's is 401."""
    table = NegotiatingHost(CONFIRM)
    synthesis_id = body_of(table.opted())["synthesis_id"]
    stolen = table.under(synthesis_id, who=BOB)
    assert (stolen.status, body_of(stolen)["reason"]) == (464, "contract-not-yours")
    assert attempt(table, stolen, who=BOB)["synthesis_id"] is None
    assert synthesis_id.encode() not in stolen.body
    assert table.under(synthesis_id, sure=False).status == 401
    assert table.under(synthesis_id, who=None).status == 404, "who names no agent is told of none"
    assert table.under("0" * 36, sure=False).status == 401, "nor who only names its agent"
    assert table.calls == []


def test_a_contract_that_nobody_knows_is_404_and_makes_none() -> None:
    """API-100, API-105: an unknown id never leads to a synthesis, whatever else the request allows."""
    table = NegotiatingHost(CONFIRM)
    answer = table.under("0" * 36, headers={"Allow-RCNS": "true"})
    assert answer.status == 404 and contracts(table) == 0
    mismatch = body_of(table.opted())["synthesis_id"]
    for method, path in (("BOOK", "/boat"), ("RESERVE", "/room"), ("RESERVE", "/desk")):
        other = table.under(mismatch, method, path, headers={"Allow-RCNS": "true"})
        assert (other.status, body_of(other)["reason"]) == (404, "contract-mismatch")
    assert contracts(table) == 1 and table.calls == []


def test_the_old_header_name_is_read() -> None:
    """Spec reading 27: Synthesis-Id presents a contract, too."""
    table = NegotiatingHost(CONFIRM)
    synthesis_id = body_of(table.opted())["synthesis_id"]
    answer = table.ask("BOOK", "/room", {"guest": "Ann"}, headers={"Synthesis-Id": synthesis_id})
    assert answer.status == 200


def test_an_expired_contract_is_464() -> None:
    """API-094, API-105: contract-revoked after its time, and 404 once it is forgotten."""
    table = NegotiatingHost(CONFIRM)
    synthesis_id = body_of(table.opted())["synthesis_id"]
    table.under(synthesis_id)
    table.clock.advance(86_401)
    answer = table.under(synthesis_id)
    assert (answer.status, body_of(answer)["reason"]) == (464, "contract-revoked")
    assert attempt(table, answer)["synthesis_id"] == synthesis_id
    table.clock.advance(8 * 86_400)
    assert table.under(synthesis_id).status == 404


def test_a_recipe_edit_changes_no_contract() -> None:
    """API-116, API-117, T-CT-30: over a restart with a new version the old contract runs as before; both live."""
    table = NegotiatingHost(CONFIRM, recipes=room("3"))
    old = body_of(table.opted())["synthesis_id"]
    table.under(old)
    edited = NegotiatingHost(
        but(CONFIRM, synthesis_enabled=True), recipes=room("4"), ledger=table.ledger, clock=table.clock
    )
    assert body_of(edited.under(old))["result"]["by"] == "3"
    new = body_of(edited.propose(BOOK_ROOM, beside={"requested_duration": "1h"}))["synthesis_id"]
    assert body_of(edited.under(new))["result"]["by"] == "4"
    listed = {
        entry["synthesis_id"]: entry["recipe_lineage"]["recipe_version"]
        for entry in body_of(edited.ask("DISCOVER", "/contracts"))
    }
    assert listed == {old: "3", new: "4"}


def test_a_step_whose_verb_is_gone_fails_with_structure() -> None:
    """API-018: a captured recipe that this host can no longer run is 464 synthesis-error."""
    table = NegotiatingHost(CONFIRM)
    synthesis_id = body_of(table.opted())["synthesis_id"]
    item = table.ledger.held.get("contract", synthesis_id)
    assert item is not None
    gone = {**item.value["recipe"], "step": [{"method": "ABOLISH", "path": "/desk"}]}
    value = json.dumps({**item.value, "recipe": gone}).encode()
    row = ItemRow(item.kind, item.key, bytes.fromhex(item.owner), item.version + 1, item.expires_at, value)
    table.ledger.held.apply([row])
    later = NegotiatingHost(CONFIRM, ledger=table.ledger, clock=table.clock)
    answer = later.under(synthesis_id)
    assert (answer.status, body_of(answer)["reason"]) == (464, "synthesis-error")
    assert "ABOLISH" in body_of(answer)["explanation"]


def test_the_method_policy_reaches_contracts() -> None:
    """A method that the operator shuts out later is 405 under a contract, too."""
    table = NegotiatingHost(CONFIRM)
    synthesis_id = body_of(table.opted())["synthesis_id"]
    later = NegotiatingHost(
        CONFIRM, ledger=table.ledger, clock=table.clock, policy=MethodPolicy(disallow=frozenset({"BOOK"}))
    )
    assert later.under(synthesis_id).status == 405


def test_calls_inside_the_host_negotiate_nothing() -> None:
    """API-100: neither a gateway's caller nor an inner call opens lock 2."""
    table = NegotiatingHost(CONFIRM)
    for transport in ("gateway", "internal"):
        peer = replace(table.peer(ALICE), transport=transport)
        assert table.opted(peer=peer).status == 404
    assert contracts(table) == 0


# Authority

TOKENS = ("customers:read", "weather:read", "desks:book", "rcns:negotiate")


@settings(max_examples=60, deadline=None)
@given(held=st.sets(st.sampled_from(TOKENS)), which=st.sampled_from(("BOOK", "LOCATE", "OUTLOOK")))
def test_a_contract_never_exceeds_its_caller(held: set[str], which: str) -> None:
    """Security invariant 7: whatever is claimed while using a contract, no step runs without its scope."""
    table = NegotiatingHost(OPEN)
    definition: Any = {"BOOK": BOOK_ROOM, "LOCATE": LOCATE, "OUTLOOK": OUTLOOK}[which]
    synthesis_id = body_of(table.propose(definition))["synthesis_id"]
    path = definition["path"].replace("{customerId}", "7")
    body = {"BOOK": {"guest": "Ann"}, "LOCATE": {}, "OUTLOOK": {"customer_id": "7"}}[which]
    answer = table.under(
        synthesis_id, definition["method"], path, body, headers={"Authority-Scope": ", ".join(sorted(held))}
    )
    needs = {"RESERVE": "desks:book", "FETCH": "customers:read", WEATHER.method: "weather:read"}
    ran = [call.partition(" ")[0] for call, _, _ in table.calls]
    assert all(scopes.covers(held, needs[method]) for method in ran)
    assert all(caller == ALICE for _, _, caller in table.calls)
    wanted = {"BOOK": {"desks:book"}, "LOCATE": {"customers:read"}, "OUTLOOK": {"customers:read", "weather:read"}}
    assert (answer.status == 200) is (wanted[which] <= held)


def test_the_steps_gates_hold_even_if_the_contract_forgot_its_scopes() -> None:
    """The control: a contract robbed of its required scopes still runs no step that the caller may not call."""
    table = NegotiatingHost(OPEN)
    synthesis_id = body_of(table.propose(BOOK_ROOM))["synthesis_id"]
    entry = table.negotiator._contracts._entries[synthesis_id]
    assert entry.binding is not None
    entry.binding = replace(entry.binding, required_scopes=())
    answer = table.under(synthesis_id, headers={"Authority-Scope": "weather:read"})
    assert (answer.status, body_of(answer)["reason"]) == (422, "composition_failed")
    assert body_of(answer)["details"]["status"] == 262 and table.calls == []


def test_lists_show_what_is_the_callers() -> None:
    """API-051, API-052, API-053: patterns on or off; contracts of the caller, all for inspect:all."""
    table = NegotiatingHost(CONFIRM)
    body_of(table.opted())
    body_of(table.opted(who=BOB))
    patterns = body_of(table.ask("DISCOVER", "/patterns"))
    assert patterns["rcns_enabled"] is True
    (pattern,) = patterns["patterns"]
    assert (pattern["recipe_name"], pattern["recipe_version"], pattern["method"]) == ("book-room", "3", "BOOK")
    assert ("path_exact" in pattern) != ("path_regex" in pattern)
    off = body_of(NegotiatingHost(Policies()).ask("DISCOVER", "/patterns", who=None))
    assert off["rcns_enabled"] is False and len(off["patterns"]) == 1
    (mine,) = body_of(table.ask("DISCOVER", "/contracts"))
    assert body_of(table.ask("DISCOVER", "/contracts", sure=False)) == []
    needed = {
        "synthesis_id",
        "method",
        "path",
        "originating_agent_id",
        "recipe_lineage",
        "contract_hash",
        "negotiation_origin",
        "issued_at",
        "expires_at",
    }
    assert needed <= mine.keys() and mine["originating_agent_id"] == ALICE
    assert len(body_of(table.ask("DISCOVER", "/contracts", who=ROOT))) == 2
    shown = body_of(table.ask("INSPECT", "/", {"target": "contract", "synthesis_id": mine["synthesis_id"]}))["result"]
    # AGTP-196: each of these, as the contract has it; the recipe in the version that it had then.
    assert {name: shown[name] for name in needed} == {name: mine[name] for name in needed}
    assert (shown["method"], shown["path"], shown["originating_agent_id"]) == ("BOOK", "/room", ALICE)
    assert shown["recipe_lineage"] == {"recipe_name": "book-room", "recipe_version": "3"}
    assert shown["state"] == "offered" and shown["contract_hash"] == mine["contract_hash"]
    issued, expires = (datetime.fromisoformat(shown[name]) for name in ("issued_at", "expires_at"))
    assert (expires - issued).total_seconds() == CONFIRM.rcns.contract_ttl_seconds
    foreign = table.ask("INSPECT", "/", {"target": "contract", "synthesis_id": mine["synthesis_id"]}, who=BOB)
    assert foreign.status == 404


def test_a_contract_whose_verb_the_catalog_removed_is_invalid(tmp_path: Path) -> None:
    """API-018: after the upgrade it is named in the log, and its presentation fails with a structured reason."""
    table = NegotiatingHost(CONFIRM)
    synthesis_id = body_of(table.opted())["synthesis_id"]
    assert table.under(synthesis_id).status == 200
    methods = json.loads((files("agtphost.vocabulary") / "methods.json").read_text())
    del methods["verbs"]["RESERVE"]
    methods["version"] = "2.0.0"
    upgraded = tmp_path / "methods.json"
    upgraded.write_text(json.dumps(methods))
    lines: list[str] = []

    def observe(event: dict[str, Any]) -> None:
        lines.append(formatEvent(event))

    globalLogPublisher.addObserver(observe)
    try:
        later = NegotiatingHost(
            CONFIRM,
            recipes="",
            endpoints=(CUSTOMER,),
            ledger=table.ledger,
            clock=table.clock,
            catalog=load_catalog(upgraded),
        )
        assert later.negotiator
    finally:
        globalLogPublisher.removeObserver(observe)
    assert [line for line in lines if synthesis_id in line and "can no longer run" in line]
    answer = later.under(synthesis_id)
    body = body_of(answer)
    assert (answer.status, body["reason"]) == (464, "synthesis-error")
    assert "RESERVE" in body["explanation"] and later.calls == []
