"""PROPOSE: AGTP-API sections 10.3 to 10.8, core v08 sections 7.2.7 and 7.5."""

from __future__ import annotations

import json
import re
import time
from dataclasses import replace
from typing import Any
from uuid import UUID

from agtphost.config.policies import Policies
from agtphost.config.published import DataClass
from agtphost.contract.policy import MethodPolicy
from agtphost.identity.peer import Assurance
from tests.measuring import measured
from tests.memory import body_of
from tests.negotiation.hosts import (
    ALICE,
    BOB,
    BOOK_ROOM,
    BOOKING,
    CUSTOMER,
    ERASURE,
    LOCATE,
    OPEN,
    OUTLOOK,
    ROOT,
    WEATHER,
    NegotiatingHost,
    but,
    endpoint,
    granting,
    schema,
    semantic,
)
from tests.rows import each_row


def test_an_approved_endpoint_can_be_called_at_once() -> None:
    """AGTP-207, AGTP-319, API-115: 263 with a whole definition, and a call under its synthesis_id is answered."""
    table = NegotiatingHost()
    approved = table.propose(BOOK_ROOM)
    body = body_of(approved)
    assert approved.status == 263 and body["status"] == 263, body
    answer = table.under(body["synthesis_id"])
    assert answer.status == 200, body_of(answer)
    assert body_of(answer)["result"]["reservation"] == "R1"
    assert table.calls == [("RESERVE /desk", {"guest": "Ann"}, "a" * 64)]


def test_the_263_says_everything() -> None:
    """AGTP-319, AGTP-265, API-115: the definition is complete and marked, the pair is the proposed one."""
    body = body_of(NegotiatingHost().propose(BOOK_ROOM))
    assert (body["method"], body["path"]) == ("BOOK", "/room")
    assert {"semantic", "input_schema", "output_schema", "errors", "required_scopes"} <= body["endpoint"].keys()
    assert body["endpoint"]["proposed"] is True and body["proposed"] is True
    assert body["recipe_lineage"] == {"recipe_name": "book-room", "recipe_version": "3"}
    assert body["endpoint"]["required_scopes"] == ["desks:book"]
    assert re.fullmatch(r"[0-9a-f]{64}", body["contract_hash"])
    assert re.fullmatch(r"[0-9]{4}-[0-9-]{5}T[0-9:]{8}Z", body["expires_at"])


def test_proposing_again_makes_another_contract() -> None:
    """AGTP-207: PROPOSE is not idempotent; the same hash, another synthesis_id."""
    table = NegotiatingHost()
    one, other = body_of(table.propose(BOOK_ROOM)), body_of(table.propose(BOOK_ROOM))
    assert one["synthesis_id"] != other["synthesis_id"]
    assert one["contract_hash"] == other["contract_hash"]


@each_row(
    "parameters",
    [
        {"endpoint": dict(BOOK_ROOM)},
        {"proposal": dict(BOOK_ROOM), "contract_version": "AGTP-API/1.0"},
        {"name": "book-room", **BOOK_ROOM},
        {"name": "book-room", "method": "BOOK", "path": "/room", "semantic": BOOK_ROOM["semantic"]},
    ],
)
def test_every_body_form_is_accepted(parameters: dict[str, Any]) -> None:
    """API-113, AGTP-208: wrapped, legacy, and the core's own name for the wrapped form."""
    answer = NegotiatingHost().ask("PROPOSE", "/", {"method": "PROPOSE", "parameters": parameters})
    assert answer.status == 263, body_of(answer)


@each_row(
    ("parameters", "status", "reason"),
    [
        ({"endpoint": dict(BOOK_ROOM), "name": "x"}, 400, "ambiguous-body"),
        ({"proposed_method": "BOOK", "signature": {}, "intent": "x"}, 400, "unsupported-body"),
        ({"endpoint": {**BOOK_ROOM, "method": "FROBNICATE"}}, 459, "method-violation"),
        ({"endpoint": {**BOOK_ROOM, "path": "/book/x"}}, 460, "endpoint-violation"),
        ({"endpoint": {**BOOK_ROOM, "semantic": {"actor": "agent"}}}, 400, "invalid-semantic"),
        ({"endpoint": {**BOOK_ROOM, "input_schema": {"type": "objekt"}}}, 400, "invalid-schema"),
        ({"endpoint": {**BOOK_ROOM, "input_schema": {"$ref": "https://evil.example/x"}}}, 400, "invalid-schema"),
        ({"endpoint": {**BOOK_ROOM, "required_scopes": ["vault:open"]}}, 262, "scope-required"),
        ({"endpoint": {**BOOK_ROOM, "path": "/boat"}}, 463, "composition-impossible"),
        (
            {
                "endpoint": {
                    **BOOK_ROOM,
                    "method": "RESERVE",
                    "path": "/desk",
                    "semantic": {**BOOK_ROOM["semantic"], "intent": "Reserve a desk for a guest."},
                }
            },
            463,
            "policy-refused",
        ),
        ({"endpoint": dict(BOOK_ROOM), "requested_duration": "soon"}, 400, "invalid-proposal"),
        ({"endpoint": dict(BOOK_ROOM), "data_class": "secrets"}, 463, "out-of-scope"),
    ],
)
def test_the_evaluations_refuse_in_their_order(parameters: dict[str, Any], status: int, reason: str) -> None:
    """API-114, API-118, AGTP-085, AGIS-037: each evaluation has its own status and reason."""
    table = NegotiatingHost()
    answer = table.ask("PROPOSE", "/", {"parameters": parameters})
    body = body_of(answer)
    assert (answer.status, body["reason"]) == (status, reason), body
    assert body["explanation"] and body["remedy"]
    assert re.fullmatch(r"[0-9a-f-]{36}", answer.headers.get("negotiation-id") or "")
    assert body["negotiation_id"] == answer.headers.get("negotiation-id")
    assert not [draft for draft in table.ledger.drafts if draft.events]


@each_row(
    "parameters",
    [
        {"endpoint": {**BOOK_ROOM, "data_class": "secrets"}},
        {"endpoint": dict(BOOK_ROOM), "data_class": ["secrets"]},
        {"endpoint": dict(BOOK_ROOM), "data_class": ["rooms", "secrets"]},
        {"endpoint": {**BOOK_ROOM, "data_class": "rooms"}, "data_class": "secrets"},
        {"endpoint": {**BOOK_ROOM, "data_class": None}, "data_class": "secrets"},
        {"proposal": {**BOOK_ROOM, "data_class": ["rooms", "secrets"]}},
        {"name": "book-room", **BOOK_ROOM, "data_class": "secrets"},
    ],
)
def test_no_endpoint_is_negotiated_for_undeclared_data(parameters: dict[str, Any]) -> None:
    """AGIS-037: a class that the data manifest lacks is 463, wherever it is named; one that it has is negotiated."""
    table = NegotiatingHost(data_classes=[DataClass(name="rooms"), DataClass(name="desks")])
    answer = table.ask("PROPOSE", "/", {"parameters": parameters})
    body = body_of(answer)
    assert (answer.status, body["reason"]) == (463, "out-of-scope"), body
    assert body["data_classes"] == ["desks", "rooms"]
    assert "synthesis_id" not in body and not [draft for draft in table.ledger.drafts if draft.events]
    declared = json.loads(json.dumps(parameters).replace("secrets", "desks"))
    assert table.ask("PROPOSE", "/", {"parameters": declared}).status == 263


def test_an_earlier_evaluation_wins() -> None:
    """API-118: of two faults the one that is evaluated first is told."""
    table = NegotiatingHost()
    both = {**BOOK_ROOM, "method": "FROBNICATE", "path": "/book/x", "semantic": {}, "input_schema": 7}
    assert table.propose(both).status == 459
    assert table.propose({**both, "method": "BOOK"}).status == 460
    answer = table.propose({**both, "method": "BOOK", "path": "/room"})
    assert body_of(answer)["reason"] == "invalid-semantic"
    # The scope is lacking, but there is nothing to synthesize either: authority comes first.
    lacking = {**BOOK_ROOM, "path": "/boat", "required_scopes": ["vault:open"]}
    assert table.propose(lacking).status == 262


def test_the_operators_policy_refuses() -> None:
    """API-118: a method that the policy shuts out is 463 policy-refused, although a recipe would answer it."""
    table = NegotiatingHost(policy=MethodPolicy(disallow=frozenset({"BOOK"})))
    body = body_of(table.propose(BOOK_ROOM))
    assert (body["status"], body["reason"]) == (463, "policy-refused")


def test_a_host_that_does_not_synthesize_says_so_to_everything() -> None:
    """AGTP-258, API-079: every PROPOSE is 463 synthesis-disabled, even one that is no proposal at all."""
    table = NegotiatingHost(Policies())
    for body in (dict(BOOK_ROOM), {}, {"method": "X"}):
        answer = table.propose(body)
        assert (answer.status, body_of(answer)["reason"]) == (463, "synthesis-disabled")


@measured
def test_a_hostile_schema_is_refused_before_it_is_compiled() -> None:
    """T-CT: nesting, size and unbounded patterns are 400, quickly."""
    deep: dict[str, Any] = {"type": "string"}
    for _ in range(45):
        deep = {"type": "array", "items": deep}
    wide = {
        "type": "object",
        "properties": {f"p{n}": {"type": "string"} for n in range(3_000)},
        "additionalProperties": False,
    }
    for taken in (schema({"guest": deep}), wide, schema({"guest": {"type": "string", "pattern": "(" * 3_000}})):
        table = NegotiatingHost()
        began = time.process_time()
        answer = table.propose({**BOOK_ROOM, "input_schema": taken})
        assert (answer.status, body_of(answer)["reason"]) == (400, "invalid-schema")
        assert time.process_time() - began < 2.0


# Synthesis


def test_one_endpoint_answers_under_another_name() -> None:
    """Passthrough with field mapping: LOCATE /customer/{customerId}/location is FETCH /customers/{customer_id}."""
    table = NegotiatingHost()
    body = body_of(table.propose(LOCATE))
    assert body["status"] == 263, body
    assert body["recipe_lineage"] is None
    assert body["composed_of"] == [{"method": "FETCH", "path": "/customers/{customer_id}"}]
    answer = table.under(body["synthesis_id"], "LOCATE", "/customer/C%2F7/location", {})
    assert body_of(answer)["result"] == {"address": "1 High Street"}
    assert table.calls[-1][1] == {"customer_id": "C/7"}


def test_a_pipeline_of_two_endpoints() -> None:
    """What one endpoint answers feeds the next, and required scopes are the union."""
    table = NegotiatingHost()
    body = body_of(table.propose(OUTLOOK))
    assert body["status"] == 263, body
    assert [step["path"] for step in body["composed_of"]] == ["/customers/{customer_id}", "/weather"]
    assert set(body["endpoint"]["required_scopes"]) == {"customers:read", "weather:read"}
    answer = table.under(body["synthesis_id"], OUTLOOK["method"], "/outlook", {"customer_id": "C7"})
    assert body_of(answer)["result"] == {"summary": "rain"}
    assert table.calls[-1][1] == {"region": "north"}


def test_depth_is_limited() -> None:
    """API-080: a pipeline of two steps is refused where one is allowed."""
    answer = NegotiatingHost(but(OPEN, max_synthesis_depth=1)).propose(OUTLOOK)
    assert (answer.status, body_of(answer)["reason"]) == (463, "composition-impossible")


def test_authority_is_judged_for_every_step() -> None:
    """API-118, AGTP-API section 10.7: a step's scope that the agent lacks fails the evaluation, not the call."""
    body = body_of(NegotiatingHost(scopes=["customers:read"]).propose(OUTLOOK))
    assert (body["status"], body["reason"], body["missing_scopes"]) == (262, "scope-required", ["weather:read"])


def test_the_whole_may_need_more_than_its_steps() -> None:
    """AGTP-API section 16.2: scopes that the definition requires hold for the contract, whatever its steps need."""
    table = NegotiatingHost()
    body = body_of(table.propose({**BOOK_ROOM, "required_scopes": ["weather:read"]}))
    assert set(body["endpoint"]["required_scopes"]) == {"desks:book", "weather:read"}
    answer = table.under(body["synthesis_id"], headers={"Authority-Scope": "desks:book"})
    assert (answer.status, body_of(answer)["missing_scopes"]) == (262, ["weather:read"])
    assert table.calls == []


def test_two_endpoints_that_fit_equally_are_ambiguous() -> None:
    """AGTP-085: nobody guesses which one was meant."""
    twin = endpoint(
        "FETCH",
        "/clients/{customer_id}",
        "Return the address and the region of a customer.",
        schema({"customer_id": "string"}),
        schema({"address": "string", "region": "string"}),
        ["customers:read"],
    )
    body = body_of(NegotiatingHost(endpoints=(CUSTOMER, twin, WEATHER, BOOKING)).propose(LOCATE))
    assert (body["status"], body["reason"]) == (463, "ambiguous")
    assert {entry["path"] for entry in body["similar"]} == {"/customers/{customer_id}", "/clients/{customer_id}"}


def test_nothing_graver_than_asked_for_is_given() -> None:
    """An agent that proposes something informational gets no endpoint that changes anything."""
    harmless = {**BOOK_ROOM, "semantic": semantic("Book a room for a guest.", capability="transaction")}
    body = body_of(NegotiatingHost().propose(harmless))
    assert (body["status"], body["reason"]) == (463, "composition-impossible")
    counter = body["counter_proposal"]
    assert counter["path"] == "/room" and counter["semantic"]["impact"] == "reversible"


def test_the_gravest_impact_is_the_operators_to_allow() -> None:
    """Irreversible endpoints are not synthesized unless the operator says so."""
    wipe = {
        "method": ERASURE.method,
        "path": "/vault",
        "semantic": semantic(
            "Erase the archive for good.", capability="transaction", impact="irreversible", is_idempotent=False
        ),
        "input_schema": schema({"confirm": "boolean"}),
        "output_schema": schema({"erased": "boolean"}),
    }
    assert body_of(NegotiatingHost().propose(wipe))["reason"] == "policy-refused"
    assert NegotiatingHost(granting(OPEN, max_impact="irreversible")).propose(wipe).status == 263


def test_a_refusal_names_what_comes_near() -> None:
    """API-122: counter_proposal is an endpoint that the caller could call."""
    near = {**LOCATE, "output_schema": schema({"phone": "string"})}
    body = body_of(NegotiatingHost().propose(near))
    assert (body["status"], body["reason"]) == (463, "composition-impossible")
    assert body["counter_proposal"]["path"] == "/customers/{customer_id}"
    hidden = body_of(NegotiatingHost(scopes=["weather:read"]).propose(near))
    assert "/customers/{customer_id}" not in json.dumps(hidden.get("similar"))


# Turns


def test_three_turns_and_no_fourth() -> None:
    """AGTP-259, AGTP-260: the Negotiation-ID is echoed, and after three rejections only ESCALATE is left."""
    table = NegotiatingHost()
    hopeless = {**BOOK_ROOM, "path": "/boat"}
    first = table.propose(hopeless)
    negotiation = first.headers.get("negotiation-id") or ""
    assert str(UUID(negotiation)) == negotiation
    for left in (1, 0):
        answer = table.propose(hopeless, headers={"Negotiation-ID": negotiation})
        assert answer.headers.get("negotiation-id") == negotiation
        assert body_of(answer)["turns_left"] == left
    assert body_of(answer)["escalate"] is True
    fourth = table.propose(BOOK_ROOM, headers={"Negotiation-ID": negotiation})
    assert (fourth.status, body_of(fourth)["escalate"]) == (463, True)
    # It is durable, and nobody else's.
    later = NegotiatingHost(ledger=table.ledger, clock=table.clock)
    assert later.propose(BOOK_ROOM, headers={"Negotiation-ID": negotiation}).status == 463
    foreign = later.propose(BOOK_ROOM, who=BOB, headers={"Negotiation-ID": negotiation})
    assert body_of(foreign)["reason"] == "negotiation-unknown"


def test_proposals_have_a_rate() -> None:
    """The eleventh proposal within a minute is 429, scope propose; a minute later it is evaluated."""
    table = NegotiatingHost()
    for _ in range(10):
        assert table.propose(BOOK_ROOM).status == 263
    answer = table.propose(BOOK_ROOM)
    assert (answer.status, body_of(answer)["scope"]) == (429, "propose")
    assert table.propose(BOOK_ROOM, who=BOB).status == 263
    table.clock.advance(61)
    assert table.propose(BOOK_ROOM).status == 263


# Credentials


def test_sensitive_data_needs_credentials() -> None:
    """AGTP-064, AGTP-067, AGTP-263: anonymous 262 credentials-missing with a Negotiation-ID that goes on."""
    classes = [DataClass(name="rooms", sensitivity="high", requires_authorization=True)]
    table = NegotiatingHost(
        data_classes=classes, endpoints=(replace(BOOKING, data_classes=("rooms",)),), unclassified=False
    )
    for options in ({"who": None}, {"sure": False}):
        answer = table.propose(BOOK_ROOM, beside={"data_class": "rooms"}, **options)
        body = body_of(answer)
        assert (answer.status, body["type"]) == (262, "credentials-missing"), body
    answer = table.propose(BOOK_ROOM, who=None)
    assert body_of(answer)["reason"] == "credentials-missing"
    negotiation = answer.headers.get("negotiation-id") or ""
    again = table.propose(BOOK_ROOM, beside={"data_class": "rooms"}, headers={"Negotiation-ID": negotiation})
    assert again.status == 263 and again.headers.get("negotiation-id") == negotiation


def test_open_data_is_negotiated_without_credentials() -> None:
    """AGTP-262: informational data that needs no authorization, end to end and anonymous."""
    public = replace(
        endpoint(
            "FETCH",
            "/timetable",
            "Return the timetable of a line.",
            schema({"line": "string"}),
            schema({"departures": "string"}),
        ),
        min_assurance=Assurance.NONE,
        data_classes=("timetable",),
    )
    classes = [DataClass(name="timetable")]
    table = NegotiatingHost(
        data_classes=classes,
        endpoints=(public, BOOKING),
        unclassified=False,
        answers={"FETCH": lambda context: {"departures": "9:00"}},
    )
    wanted = {
        "method": "LOCATE",
        "path": "/departures",
        "data_class": "timetable",
        "semantic": semantic("Return the timetable of a line."),
        "input_schema": schema({"line": "string"}),
        "output_schema": schema({"departures": "string"}),
    }
    peer = table.peer(None)
    answer = table.propose(wanted, who=None, peer=peer)
    assert answer.status == 263, body_of(answer)
    synthesis_id = body_of(answer)["synthesis_id"]
    called = table.under(synthesis_id, "LOCATE", "/departures", {"line": "7"}, who=None, peer=peer)
    assert body_of(called)["result"] == {"departures": "9:00"}
    assert table.under(synthesis_id, "LOCATE", "/departures", {"line": "7"}, who=ALICE).status == 464


# Lifetimes


def test_an_endpoint_ends_with_its_session() -> None:
    """AGTP-266: session-scoped by default; another connection, or another Session-ID, does not know it."""
    table = NegotiatingHost()
    peer = table.peer(ALICE)
    body = body_of(table.propose(BOOK_ROOM, peer=peer))
    assert (body["persistent"], body["lifetime"], body["endpoint"]["expires"]) == (False, "connection", "session")
    assert table.ask("BOOK", "/room", {"guest": "Ann"}, peer=peer).status == 200
    for other in (table.peer(ALICE), table.peer(ALICE)):
        assert table.ask("BOOK", "/room", {"guest": "Ann"}, peer=other).status == 404
        assert table.under(body["synthesis_id"], peer=other).status == 404
    within = {"Session-ID": "s-1"}
    body = body_of(table.propose(BOOK_ROOM, headers=within))
    assert table.under(body["synthesis_id"], headers=within, peer=table.peer(ALICE)).status == 200
    assert table.under(body["synthesis_id"], headers={"Session-ID": "s-2"}).status == 404


def test_a_duration_is_granted_within_bounds() -> None:
    """AGTP-264, spec reading 54: both notations; the grant is cut to the operator's longest."""
    table = NegotiatingHost(granting(OPEN, max_duration_seconds=86_400))
    for text, granted in (("7d", "P1D"), ("P7D", "P1D"), ("2h", "PT2H"), ("PT30M", "PT30M")):
        body = body_of(table.propose(BOOK_ROOM, beside={"requested_duration": text}))
        assert body["granted_duration"] == granted
        assert table.under(body["synthesis_id"], peer=table.peer(ALICE)).status == 200
    table.clock.advance(1_801)
    expired = table.under(body["synthesis_id"])
    assert (expired.status, body_of(expired)["reason"]) == (464, "contract-revoked")


def test_persistence_is_a_decision_of_its_own() -> None:
    """API-121, AGTP-267: refused it is still 263; honoured only for the operator's yes and the agent's scope."""

    def persistent(settings: Policies, *more: str) -> bool:
        table = NegotiatingHost(settings, scopes=["desks:book", *more])
        body = body_of(table.propose(BOOK_ROOM, beside={"persistent": True}))
        assert body["status"] == 263
        listed = [entry["path"] for entry in table.negotiator.persistent()]
        assert (listed == ["/room"]) is body["persistent"]
        return bool(body["persistent"])

    assert not persistent(OPEN, "rcns:persist")
    assert not persistent(granting(OPEN, persistent=True))
    assert persistent(granting(OPEN, persistent=True), "rcns:persist")


def test_contracts_of_one_agent_are_bounded() -> None:
    """The bound holds for lasting ones; those of ended sessions make room."""
    table = NegotiatingHost(granting(OPEN, max_contracts_per_agent=2))
    lasting = {"requested_duration": "1h"}
    for _ in range(2):
        assert table.propose(BOOK_ROOM, beside=lasting).status == 263
    assert body_of(table.propose(BOOK_ROOM, beside=lasting))["reason"] == "policy-refused"
    table = NegotiatingHost(granting(OPEN, max_contracts_per_agent=2))
    for _ in range(4):
        assert table.propose(BOOK_ROOM).status == 263
    assert len(list(table.ledger.held.all("contract"))) == 2


# Review


def test_a_proposal_waits_for_an_operator() -> None:
    """AGTP-063, AGTP-207: 261 with an estimate, then 263 by QUERY /proposals/{id}, also after a restart."""
    settings = granting(OPEN, approval="operator")
    table = NegotiatingHost(settings)
    taken = table.propose(BOOK_ROOM, beside={"requested_duration": "1h"})
    body = body_of(taken)
    assert taken.status == 261 and body["estimated_seconds"] > 0 and body["estimated_duration"].startswith("PT")
    where = f"/proposals/{body['proposal_id']}"
    assert table.ask("QUERY", where).status == 261
    assert table.ask("QUERY", where, who=BOB).status == 404
    assert table.ask("CONFIRM", where, {"accepted": True}).status == 403
    later = NegotiatingHost(settings, ledger=table.ledger, clock=table.clock)
    waiting = body_of(later.ask("QUERY", "/proposals", who=ROOT))["result"]["proposals"]
    assert [entry["proposal_id"] for entry in waiting] == [body["proposal_id"]]
    assert later.ask("CONFIRM", where, {"accepted": True}, who=ROOT).status == 200
    assert (ALICE, "rcns_propose_accepted") in later.events()
    answer = later.ask("QUERY", where)
    assert answer.status == 263, body_of(answer)
    assert later.under(body_of(answer)["synthesis_id"]).status == 200
    assert later.ask("CONFIRM", where, {"accepted": False}, who=ROOT).status == 409


def test_a_review_can_end_with_no() -> None:
    """AGTP-063: rejected by an operator, or by nobody in time, the poll is 463."""
    table = NegotiatingHost(granting(OPEN, approval="operator"))
    one = f"/proposals/{body_of(table.propose(BOOK_ROOM))['proposal_id']}"
    other = f"/proposals/{body_of(table.propose(BOOK_ROOM))['proposal_id']}"
    table.ask("CONFIRM", one, {"accepted": False, "reason": "We are full."}, who=ROOT)
    answer = table.ask("QUERY", one)
    assert (answer.status, body_of(answer)["explanation"]) == (463, "We are full.")
    table.clock.advance(3_601)
    assert table.ask("QUERY", other).status == 463
    assert table.ask("CONFIRM", other, {"accepted": True}, who=ROOT).status == 409


def test_a_review_can_be_put_off() -> None:
    """By an operator alone, with a reason that is shown with it: it waits on, and its time begins anew."""
    table = NegotiatingHost(granting(OPEN, approval="operator"))
    where = f"/proposals/{body_of(table.propose(BOOK_ROOM))['proposal_id']}"
    assert table.ask("CONFIRM", where, {"deferred": True}).status == 403
    for given in ({}, {"deferred": False}, {"deferred": True, "accepted": True}, {"accepted": "later"}):
        assert table.ask("CONFIRM", where, given, who=ROOT).status == 422, given
    table.clock.advance(3_000)
    told = body_of(table.ask("CONFIRM", where, {"deferred": True, "reason": "Legal looks at it."}, who=ROOT))["result"]
    assert told["decision"] == "deferred" and told["estimated_seconds"] == 3_600
    table.clock.advance(3_000)
    assert table.ask("QUERY", where).status == 261, "the proposer waits on"
    (shown,) = body_of(table.ask("QUERY", "/proposals", who=ROOT))["result"]["proposals"]
    assert shown["deferred_reason"] == "Legal looks at it." and shown["deferred_by"] and shown["deferred_at"]
    assert table.ask("CONFIRM", where, {"accepted": True}, who=ROOT).status == 200
    assert table.ask("CONFIRM", where, {"deferred": True}, who=ROOT).status == 409


def test_a_keyed_proposal_is_made_once() -> None:
    """A PROPOSE with an Idempotency-Key that is repeated gets the same contract."""
    table = NegotiatingHost()
    key = {"Idempotency-Key": "k1"}
    one, other = body_of(table.propose(BOOK_ROOM, headers=key)), body_of(table.propose(BOOK_ROOM, headers=key))
    assert one["synthesis_id"] == other["synthesis_id"]
    assert len(list(table.ledger.held.all("contract"))) == 1
