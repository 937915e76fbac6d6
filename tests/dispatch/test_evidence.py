"""What the record of a refusal says: who it said it was, the true reason, the scopes (AGTP-323, 325)."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from twisted.logger import LogEvent, formatEvent, globalLogPublisher

import agtphost
from agtphost.contract.binding import Binding
from agtphost.dispatch.violations import LONGEST, MOST_SCOPES
from agtphost.identity.peer import Assurance, Peer
from agtphost.vocabulary.reasons import Reason
from agtphost.vocabulary.status import Status
from tests.dispatch.hosts import CALLER, STRANGER, DispatchHost, Recorder, certificate
from tests.dispatch.test_refusals import Counted
from tests.rows import each_row
from tests.sources import nodes

ADDRESS = "203.0.113.9"
SHA = "e" * 64


def last(host: DispatchHost) -> dict[str, Any]:
    """The newest record."""
    return dict(host.ledger.drafts[-1].payload)


def certified_peer(address: str = ADDRESS, **members: Any) -> Peer:
    return Peer(address=address, certificate=certificate(**members))


# A caller that is not believed

PAST = datetime(2001, 1, 1, tzinfo=UTC)
UNBELIEVED: dict[str, tuple[Peer, dict[str, str], str, dict[str, str]]] = {
    "the certificate of one agent, the Agent-ID of another": (
        certified_peer(),
        {"Agent-ID": STRANGER},
        "agent-id-certificate-mismatch",
        {"agent_id": STRANGER, "certificate": SHA, "certificate_agent_id": CALLER},
    ),
    "an Agent-ID that nobody knows": (
        Peer(address=ADDRESS),
        {"Agent-ID": STRANGER},
        "agent-unknown",
        {"agent_id": STRANGER},
    ),
    "an agent that nobody knows, by its certificate": (
        certified_peer(agent_id=STRANGER),
        {},
        "agent-unknown",
        {"certificate": SHA, "certificate_agent_id": STRANGER},
    ),
    "no Agent-ID at all": (Peer(address=ADDRESS), {"Agent-ID": "Robert'); DROP"}, "agent-id-malformed", {}),
    "what cannot be an identifier": (Peer(address=ADDRESS), {"Agent-ID": "x" * 400}, "agent-id-malformed", {}),
    "an expired certificate": (
        certified_peer(not_after=PAST),
        {},
        "certificate-not-valid-now",
        {"certificate": SHA, "certificate_agent_id": CALLER},
    ),
    "a certificate with a broken extension": (
        certified_peer(agent_id=None, malformed="subject-agent-id is no text"),
        {"Agent-ID": CALLER},
        "certificate-malformed",
        {"agent_id": CALLER, "certificate": SHA},
    ),
    "another owner": (
        certified_peer(principal_id="acme.example"),
        {"Agent-ID": CALLER, "Owner-ID": "other.example"},
        "owner-id-certificate-mismatch",
        {"agent_id": CALLER, "certificate": SHA, "certificate_agent_id": CALLER},
    ),
}


@pytest.fixture
def logged() -> Iterator[list[LogEvent]]:
    """Everything that is logged meanwhile."""
    events: list[LogEvent] = []
    keep: Any = events.append
    globalLogPublisher.addObserver(keep)
    yield events
    globalLogPublisher.removeObserver(keep)


@pytest.mark.parametrize("case", UNBELIEVED)
def test_a_caller_that_is_not_believed_leaves_its_trace(case: str, logged: list[LogEvent]) -> None:
    """Record: what it claimed, its certificate, the true reason. Log: that, and where it came from."""
    peer, headers, cause, claimed = UNBELIEVED[case]
    host = DispatchHost()
    response = host.ask("QUERY", "/public", peer=peer, headers=headers)
    assert response.status in (400, 401)
    record = last(host)
    by_name = case == "an Agent-ID that nobody knows"
    assert record["caller_id"] == "" and record["identity_assurance"] == ("header" if by_name else "none")
    extra: Any = record["extra"]
    assert extra["cause"] == cause and extra.get("claimed", {}) == claimed
    assert ADDRESS not in str(record)
    [line] = [formatEvent(event) for event in logged if cause in formatEvent(event)]
    assert ADDRESS in line and all(value in line for name, value in claimed.items() if name.endswith("agent_id"))


def test_the_log_alone_tells_that_a_name_is_unknown_where_a_name_is_not_enough(logged: list[LogEvent]) -> None:
    """Answer and record are those to any name: a stranger learns from neither whether the host knows the agent."""
    host = DispatchHost(floor=Assurance.CERTIFICATE)
    assert host.ask("RESERVE", "/desk", peer=Peer(address=ADDRESS), headers={"Agent-ID": STRANGER}).status == 401
    record = last(host)
    assert record["caller_id"] == STRANGER and record["identity_assurance"] == "header"
    assert record["extra"] == {"cure": f"agtp agent renew {STRANGER}"}, "as of each Agent-ID, known or not"
    [line] = [formatEvent(event) for event in logged if "agent-unknown" in formatEvent(event)]
    assert ADDRESS in line and STRANGER in line


def test_the_header_is_named_where_another_field_is_malformed() -> None:
    """An Agent-ID that has the form of one counts as claimed, whatever else was wrong."""
    host = DispatchHost()
    host.ask("QUERY", "/words", peer=Peer(address=ADDRESS), headers={"Agent-ID": STRANGER, "Task-ID": "x" * 200})
    record: Any = last(host)
    # The framing gate takes Agent-ID first.
    assert record["reason"] == "invalid-identifier" and record["extra"]["claimed"] == {"agent_id": STRANGER}


def test_what_is_believed_is_claimed_by_nobody() -> None:
    """The control: a record of a known caller has the caller, and no claims."""
    host = DispatchHost()
    host.ask("QUERY", "/nowhere")
    assert last(host)["caller_id"] == CALLER and "extra" not in last(host)


def test_summaries_tell_the_same() -> None:
    """Cause, claimed agent and certificate are in the summary of those that have no record."""
    host = Counted()
    for _ in range(10):
        host.ask(peer=certified_peer(), Agent_ID=STRANGER)
    [summary] = host.summaries.take()
    assert summary.fields["outcomes"] == [
        {"status": 401, "reason": "agent-unauthenticated", "cause": "agent-id-certificate-mismatch", "count": 7}
    ]
    [claimed] = summary.fields["claimed"]
    assert claimed == {"agent_id": STRANGER, "certificate": SHA, "certificate_agent_id": CALLER, "count": 7}


# Scope violations


def test_the_scopes_are_in_the_record() -> None:
    """AGTP-323: a claim beyond the document 262, beyond the certificate 455, a missing scope 262; who, what, which."""
    host = DispatchHost(
        bindings=[
            Binding(
                method="EXECUTE",
                path="/tool",
                handler=Recorder(),
                tier="B",
                required_scopes=("tools:run",),
                scope_status=Status.SCOPE_VIOLATION,
            )
        ]
    )
    committed = Peer(address=ADDRESS, certificate=certificate(commitment=frozenset({"documents:query"})))
    for method, path, peer, claim, status, concerned in (
        ("RESERVE", "/desk", None, "payments:move", 262, ["payments:move"]),
        ("RESERVE", "/desk", committed, "booking:desk", 455, ["booking:desk"]),
        ("RESERVE", "/desk", None, "documents:query", 262, ["booking:desk"]),
        ("EXECUTE", "/tool", None, "documents:query", 455, ["tools:run"]),
    ):
        response = host.ask(method, path, {"text": "x"}, peer=peer, headers={"Authority-Scope": claim})
        record: Any = last(host)
        assert response.status == record["status"] == status
        assert (record["caller_id"], record["method"], record["path"]) == (CALLER, method, path)
        assert record["extra"]["scopes"] == concerned


def test_a_claim_of_a_thousand_scopes_is_bounded() -> None:
    """So many are named, none of them whole beyond some length; the rest is a number."""
    host = DispatchHost()
    claim = ",".join(["a" * 120 + ":" + "x" * 20, *(f"scope{number}:x" for number in range(200))])
    host.ask("QUERY", "/words", headers={"Authority-Scope": claim})
    extra: Any = last(host)["extra"]
    assert len(extra["scopes"]) == MOST_SCOPES and extra["further_scopes"] == 201 - MOST_SCOPES
    assert all(len(scope) <= LONGEST for scope in extra["scopes"])


def test_summed_up_violations_have_their_scopes() -> None:
    """Beyond an agent's allowance the summary still says method, path and scopes."""
    host = Counted()
    for _ in range(30):
        host.ask(peer=certified_peer(), Authority_Scope="payments:move")
    [summary] = host.summaries.take()
    assert summary.fields["origin"] == {"kind": "agent", "name": CALLER}
    [violation] = summary.fields["scope_violations"]
    assert violation.pop("count") == summary.fields["count"]
    assert violation == {"method": "QUERY", "path": "/words", "scopes": ["payments:move"]}


TELLING = {Status.AUTHORIZATION_REQUIRED, Status.SCOPE_VIOLATION}

NEVER = {
    "errors.py": "404 and its like of what is unknown",
    "methods/inspection/access.py": "401 and 403 of the read mode",
    "methods/lifecycle.py": "401 and 403 of an issuer",
    "adapters/mcp/approval.py": "409",
    "adapters/mcp/bare_names.py": "422 of a name that several servers have",
    "adapters/web_adapter.py": "404 and 422 of an upstream that is not named",
    "compute/functions.py": "what a pure function refuses, which knows no scopes",
    "dispatch/answers.py": "422 of declared errors",
    "dispatch/dispatcher.py": "octets that are no request",
    "dispatch/gates/endpoint.py": "422 of what a schema would cost",
    "dispatch/purchase.py": "458",
    "dispatch/store_refusals.py": "429",
    "handlers/authorization.py": "403 of a role of operators",
    "handlers/parameters.py": "400 and 422 of one parameter",
    "methods/delegation/decision.py": "551",
    "http/refusals.py": "what the door of an HTTP surface turns away, before anybody is known",
    "methods/standard/pure/extraction.py": "422 of what a schema would cost",
    "methods/standard/pure/transform.py": "422 of what a schema would cost",
    "methods/standard/pure/handlers.py": "422 of what a schema would cost",
    "methods/merchant.py": "422 of what a schema would cost",
    "negotiation/failed_attempts.py": "464",
    "upstream/approval.py": "409",
    "upstream/refusals.py": "what an upstream did wrong: 408, 429, 5xx, and errors of its protocol",
}
"""Modules whose refusals get their reason from a table without 262 and 455, and where that comes from."""


def silent(source: str, *, never: bool = False) -> list[int]:
    """Lines of refusals that may be 262 or 455 and do not say which scopes are concerned."""
    found = []
    for node in nodes(source) if "Refusal(" in source else ():
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id.endswith("Refusal")):
            continue
        reason = node.args[0] if node.args else None
        named = [reason.body, reason.orelse] if isinstance(reason, ast.IfExp) else [reason]
        plain = [
            Reason[one.attr]
            for one in named
            if isinstance(one, ast.Attribute) and isinstance(one.value, ast.Name) and one.value.id == "Reason"
        ]
        telling = any(TELLING.intersection(one.statuses) for one in plain) if len(plain) == len(named) else not never
        if telling and not any(word.arg == "scopes" for word in node.keywords):
            found.append(node.lineno)
    return found


def test_every_refusal_that_may_tell_of_scopes_names_them() -> None:
    """The class is closed: a new 262 or 455, or a refusal with a computed reason, has ``scopes``."""
    root = Path(agtphost.__file__).parent
    missing = [
        f"{file.relative_to(root)}:{line}"
        for file in sorted(root.rglob("*.py"))
        for line in silent(file.read_text(), never=str(file.relative_to(root)) in NEVER)
    ]
    assert missing == []


@each_row(
    "source",
    [
        "raise Refusal(Reason.SCOPE_VIOLATION, 'No.')",
        "raise Refusal(Reason.SCOPE_REQUIRED, 'No.', details={})",
        "raise Refusal(error.reason, 'No.')",
        "raise Refusal(Reason.NOT_FOUND if a else Reason.SCOPE_VIOLATION, 'No.')",
    ],
)
def test_the_walk_finds_one_that_does_not(source: str) -> None:
    """The control."""
    assert silent(source) == [1]
    assert silent(source.replace("'No.'", "'No.', scopes=lacking")) == []
