"""Request and response headers through real gates, methods and sealing (core v08 section 5.5)."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

from agtphost.contract.binding import Binding
from agtphost.handlers.context import EndpointResponse
from agtphost.identity.peer import Assurance
from agtphost.identity.trust import TrustPosture
from agtphost.wire.events import Response
from tests.dispatch.hosts import Recorder
from tests.identity.issued import BARE, CALLER, DESK, agent, of_agent
from tests.memory import body_of
from tests.methods.hosts import MethodHost
from tests.rows import each_row

RECORDER = Recorder(lambda context: {"scopes": sorted(context.scopes), "session": context.session_id})
EVERYONE = Binding(
    method="QUERY", path="/notes", handler=RECORDER, tier="B", min_assurance=Assurance.NONE, state_changing=False
)
NAMED = Binding(
    method="QUERY", path="/named", handler=RECORDER, tier="B", min_assurance=Assurance.HEADER, state_changing=False
)
SCOPED = Binding(
    method="QUERY",
    path="/scoped",
    handler=RECORDER,
    tier="B",
    min_assurance=Assurance.HEADER,
    required_scopes=("booking:desk",),
    state_changing=False,
)
EMPTY = Binding(
    method="QUERY",
    path="/empty",
    handler=Recorder(lambda context: EndpointResponse(status=204)),
    tier="B",
    min_assurance=Assurance.NONE,
    state_changing=False,
)
FETCHED = Binding(
    method="FETCH", path="/notes", handler=RECORDER, tier="B", min_assurance=Assurance.NONE, state_changing=False
)
ENDPOINTS = (EVERYONE, NAMED, SCOPED, EMPTY, FETCHED)
BY_NAME = {"Agent-ID": CALLER.agent_id}

OUTCOMES: dict[str, tuple[str, str, int]] = {
    "success": ("QUERY", "/agents/desk/notes", 200),
    "no content": ("QUERY", "/agents/desk/empty", 204),
    "not found": ("QUERY", "/agents/desk/nothing", 404),
    "no such agent": ("QUERY", "/agents/nobody/notes", 404),
    "no such method": ("FROBNICATE", "/agents/desk/notes", 459),
    "anonymous": ("QUERY", "/agents/desk/named", 401),
    "server level": ("DISCOVER", "/methods", 200),
}


def hosting(**options: Any) -> MethodHost:
    return MethodHost(endpoints=ENDPOINTS, **options)


def value(response: Response, name: str) -> str | None:
    found: str | None = response.headers.get(name.lower())
    return found


@each_row("name", OUTCOMES)
def test_what_every_response_carries(name: str) -> None:
    """AGTP-041, 045, 046, 051: Server-ID, Response-ID, Audit-ID and Attribution-Record, whatever the outcome."""
    method, path, status = OUTCOMES[name]
    response = hosting().ask(method, path, headers={"Request-ID": "r-1"})
    assert response.status == status, body_of(response)
    record = value(response, "Attribution-Record")
    assert value(response, "Server-ID") == "agtp.test"
    assert record is not None and record.count(".") == 2
    assert value(response, "Audit-ID") == sha256(record.encode()).hexdigest()
    assert value(response, "Response-ID") not in (None, "", "r-1")


def test_response_ids_are_unique() -> None:
    """AGTP-045: no two responses share one."""
    host = hosting()
    known = of_agent(CALLER.agent_id)
    answers = [host.ask("DISCOVER", "/methods", certificate=known) for _ in range(200)]
    assert len({value(answer, "Response-ID") for answer in answers}) == 200


@each_row("name", OUTCOMES)
@each_row(("header", "sent"), [("Agent-ID", CALLER.agent_id), ("Task-ID", "Task/7"), ("Request-ID", "R/7")])
def test_identifiers_are_echoed_when_sent_and_absent_otherwise(name: str, header: str, sent: str) -> None:
    """AGTP-037, 042, 043, 044: byte for byte on success and failure, and never made up."""
    method, path, _ = OUTCOMES[name]
    assert value(hosting().ask(method, path, headers={header: sent}), header) == sent
    assert value(hosting().ask(method, path), header) is None
    if header == "Agent-ID":
        # Known by its certificate alone: nothing is put where the request had nothing.
        assert value(hosting().ask(method, path, certificate=of_agent(CALLER.agent_id)), header) is None


def test_a_refused_agent_id_is_never_echoed() -> None:
    """AGTP-043: what is no Agent-ID does not come back, normalised or not."""
    response = hosting().ask("QUERY", "/agents/desk/notes", headers={"Agent-ID": CALLER.agent_id.upper()})
    assert response.status == 400
    assert value(response, "Agent-ID") is None


@each_row(
    ("tier", "warning", "stamped"),
    [
        (1, None, None),
        (1, "stale", None),
        (2, "verification-incomplete", "verification-incomplete"),
        (2, None, None),
        (3, "experimental", None),
    ],
)
def test_owner_and_posture_are_those_of_the_addressed_agent(
    tier: int, warning: str | None, stamped: str | None
) -> None:
    """AGTP-047 to 050: Owner-ID, Trust-Tier and Verification-Path; Trust-Warning on tier 2 alone."""
    given = agent("desk", hosted=True)
    object.__setattr__(
        given, "posture", TrustPosture(trust_tier=tier, verification_path="org-asserted", trust_warning=warning)
    )
    host = MethodHost(agents=(given, BARE, CALLER), endpoints=ENDPOINTS)
    for path in ("/agents/desk/notes", "/agents/desk/nothing"):
        response = host.ask("QUERY", path)
        assert value(response, "Owner-ID") == "acme.tld"
        assert value(response, "Trust-Tier") == str(tier)
        assert value(response, "Verification-Path") == "org-asserted"
        assert value(response, "Trust-Warning") == stamped
    nobody = host.ask("QUERY", "/notes")
    for name in ("Owner-ID", "Trust-Tier", "Verification-Path", "Trust-Warning"):
        assert value(nobody, name) is None, name


def test_a_call_without_an_agent_is_401_where_one_is_needed() -> None:
    """AGTP-029: 401 ``agent-unauthenticated``, and no handler runs."""
    before = len(RECORDER.calls)
    response = hosting().ask("QUERY", "/named")
    assert (response.status, body_of(response)["reason"]) == (401, "agent-unauthenticated")
    assert len(RECORDER.calls) == before
    assert hosting().ask("QUERY", "/named", headers=BY_NAME).status == 200


@each_row(
    ("claim", "status", "reason"),
    [
        (None, 200, ""),
        ("booking:desk", 200, ""),
        ("booking:desk,mcp:tools:execute", 200, ""),
        ("booking:desk , \tmcp:tools:execute", 200, ""),
        ("mcp:tools:execute", 262, "scope-required"),
        ("", 262, "scope-required"),
        ("payments:transfer", 262, "scope-claim-invalid"),
        ("*:*", 262, "scope-claim-invalid"),
        ("Booking:desk", 400, "invalid-authority-scope"),
        ("booking", 400, "invalid-authority-scope"),
        ("booking:de sk", 400, "invalid-authority-scope"),
        ("booking:desk,", 400, "invalid-authority-scope"),
    ],
)
def test_claimed_scopes(claim: str | None, status: int, reason: str) -> None:
    """AGTP-030 to 034: inside the document, inherited when absent, decisive when narrower, refused when malformed."""
    headers = {} if claim is None else {"Authority-Scope": claim}
    response = hosting().ask("QUERY", "/scoped", headers=headers, certificate=of_agent(CALLER.agent_id))
    assert response.status == status, body_of(response)
    if status == 200:
        wanted = sorted(CALLER.scopes) if claim is None else sorted(part.strip() for part in claim.split(","))
        assert body_of(response)["result"]["scopes"] == wanted
    else:
        assert body_of(response)["reason"] == reason


@each_row(
    ("claim", "reason"),
    [
        ("payments:transfer", "scope-required"),
        ("*:*", "scope-required"),
        ("booking:desk,", "invalid-authority-scope"),
    ],
)
def test_claimed_scopes_of_a_header(claim: str, reason: str) -> None:
    """AGTP-030: a claim beyond the document gives a caller known by a header alone no scopes."""
    response = hosting().ask("QUERY", "/scoped", headers={**BY_NAME, "Authority-Scope": claim})
    assert body_of(response)["reason"] == reason


def test_the_session_reaches_the_handler_unchanged() -> None:
    """AGTP-036: Session-ID is opaque, and stands in the record."""
    host = hosting()
    response = host.ask("QUERY", "/notes", headers={"Session-ID": "S=1;%20/x"})
    assert body_of(response)["result"]["session"] == "S=1;%20/x"
    assert host.ledger.drafts[-1].payload["session_id"] == "S=1;%20/x"


def test_a_delegation_chain_is_501() -> None:
    """AGTP-038: the reserved header is refused by name rather than ignored."""
    response = hosting().ask("QUERY", "/notes", headers={"Delegation-Chain": "a"})
    assert (response.status, body_of(response)["header"]) == (501, "Delegation-Chain")


@each_row(
    "name",
    [
        "Priority",
        "TTL",
        "Budget-Limit",
        "AGTP-Zone-ID",
        "Content-Schema",
        "Telemetry-Export",
        "X-Role",
        "AGTP-Method",
        "Principal-ID",
        "Server-Agent-ID",
        "Method-Grammar",
        "Host",
        "Cookie",
    ],
)
def test_headers_without_meaning_change_nothing(name: str) -> None:
    """AGTP-026 to 028, AGTP-056, AGIS-075: reserved, removed, ``X-`` and HTTP's own fields have no effect."""
    sent = hosting().ask("QUERY", "/scoped", headers={**BY_NAME, name: DESK.agent_id})
    assert sent.status == 200
    assert sent.body == hosting().ask("QUERY", "/scoped", headers=BY_NAME).body


@each_row("grammar", ["AGIS/1.0", "AGIS/9", ""])
def test_a_method_grammar_changes_no_refusal_of_a_method(grammar: str) -> None:
    """AGIS-075: a method that is not known is 459 with the header as without it; 454 is never the answer."""
    headers = {**BY_NAME, "Method-Grammar": grammar}
    for method in ("FROBNICATE", "RECONSECRATE"):
        sent, plain = (hosting().ask(method, "/notes", headers=fields) for fields in (headers, BY_NAME))
        assert (sent.status, body_of(sent)["reason"]) == (459, "method-violation"), method
        assert sent.body == plain.body
    assert value(hosting().ask("QUERY", "/notes", headers=headers), "Method-Grammar") is None


def test_bodies_and_their_types() -> None:
    """AGTP-093, AGTP-095: an envelope in and out, typed where there is a body."""
    body = {"method": "QUERY", "task_id": "t", "parameters": {"a": 1}, "context": {}}
    response = hosting().ask("QUERY", "/agents/desk/notes", body, headers={"Task-ID": "t-1"})
    answer = body_of(response)
    assert RECORDER.calls[-1].input == {"a": 1}
    assert set(answer) == {"status", "task_id", "result", "attribution"}
    assert (answer["status"], answer["task_id"]) == (200, "t-1")
    assert value(response, "Content-Type") == "application/vnd.agtp+json"
    assert value(hosting().ask("QUERY", "/agents/desk/empty"), "Content-Type") is None


def test_records_name_agents_by_their_ids() -> None:
    """AGTP-124, AGTP-126: addressed by label or by Agent-ID, the record and its chain have the canonical Agent-ID."""
    host = hosting()
    for label in ("desk", DESK.agent_id):
        host.ask("QUERY", f"/agents/{label}/notes", certificate=of_agent(CALLER.agent_id))
        draft = host.ledger.drafts[-1]
        assert (draft.chain, draft.payload["agent_id"]) == (DESK.agent_id, DESK.agent_id)
        assert draft.payload["caller_id"] == CALLER.agent_id


def test_the_wire_method_stands_in_the_record() -> None:
    """API-091: where an alias was resolved, the record has both methods; elsewhere there is no second one."""
    host = hosting()
    assert host.ask("GET", "/notes").status == 200
    payload = host.ledger.drafts[-1].payload
    assert (payload["method"], payload["requested_method"]) == ("FETCH", "GET")
    host.ask("FETCH", "/notes")
    assert "requested_method" not in host.ledger.drafts[-1].payload
