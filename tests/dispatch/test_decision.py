"""What would be decided is what is decided: the same gates, case by case, and nothing happens."""

from __future__ import annotations

import json
from typing import Any

import pytest
import pytest_twisted

from agtphost.dispatch.decision import INPUT, TRACES, Decider, Decision, Question
from agtphost.identity.peer import Assurance, Peer
from tests.dispatch.hosts import CALLER, STRANGER, DispatchHost, certificate
from tests.dispatch.test_gate_order import ORDER

HERE = Peer(address="127.0.0.1", certificate=certificate())

QUESTIONS: list[tuple[Question, int, str]] = [
    (Question(agent_id=CALLER, method="RESERVE", path="/desk", input={"text": "x"}), 200, ""),
    (Question(agent_id=CALLER, method="RESERVE", path="/desk", input={"text": 1}), 422, "invalid-input"),
    (Question(agent_id=CALLER, method="RESERVE", path="/nowhere", input={}), 404, "not-found"),
    (Question(agent_id=CALLER, method="CANCEL", path="/desk", input={}), 405, "method-not-allowed"),
    (Question(agent_id=CALLER, method="FROBNICATE", path="/desk", input={}), 459, "method-violation"),
    (Question(agent_id=CALLER, method="QUERY", path="/book/desk", input={}), 460, "endpoint-violation"),
    (
        Question(agent_id=CALLER, method="RESERVE", path="/desk", scopes="documents:query", input={"text": "x"}),
        262,
        "scope-required",
    ),
    (
        Question(agent_id=CALLER, method="RESERVE", path="/desk", scopes="payments:purchase", input={"text": "x"}),
        262,
        "scope-claim-invalid",
    ),
    (
        Question(
            agent_id=CALLER, method="RESERVE", path="/desk", assurance=Assurance.HEADER, input={"text": "x"}
        ),
        401,
        "agent-unauthenticated",
    ),
    (Question(agent_id=CALLER, method="QUERY", path="/words", assurance=Assurance.GATEWAY, input={}), 200, ""),
    (Question(agent_id=CALLER, method="RESERVE", path="/desk", assurance=Assurance.GATEWAY, input={"text": "x"}), 401,
     "agent-unauthenticated"),
    (Question(agent_id=STRANGER, method="QUERY", path="/words", input={}), 401, "agent-unauthenticated"),
    (Question(agent_id=None, method="QUERY", path="/public", assurance=Assurance.NONE, input={}), 200, ""),
    (Question(agent_id=None, method="QUERY", path="/words", assurance=Assurance.NONE, input={}), 401,
     "agent-unauthenticated"),
]  # fmt: skip


def make_call(host: DispatchHost, question: Question) -> tuple[int, str]:
    """Make the call in earnest."""
    proven = question.assurance is Assurance.CERTIFICATE
    who = certificate(question.agent_id) if proven and question.agent_id else None
    headers: dict[str, str] = {}
    if question.agent_id is not None:
        headers["Agent-ID"] = question.agent_id
    if question.scopes is not None:
        headers["Authority-Scope"] = question.scopes
    response = host.ask(
        question.method,
        question.path,
        dict(question.input or {}),
        peer=Peer(address="127.0.0.1", certificate=who, vouched=question.assurance is Assurance.GATEWAY),
        headers=headers,
    )
    return response.status, str(json.loads(response.body).get("reason", ""))


async def decide(host: DispatchHost, question: Question, peer: Peer = HERE) -> Decision:
    return await Decider(host.gates).decide(question, peer)


@pytest.mark.parametrize(("question", "status", "reason"), QUESTIONS)
@pytest_twisted.ensureDeferred
async def test_the_answer_is_the_one_the_call_gets(question: Question, status: int, reason: str) -> None:
    """Design decision 14: one decision function."""
    host = DispatchHost()
    decision = await decide(host, question)
    assert make_call(host, question) == (status, reason)
    refusal = decision.refusal
    assert decision.allowed is (status == 200)
    assert (refusal is None) is decision.allowed
    if refusal is not None:
        assert (refusal.status, refusal.reason) == (status, reason)
        assert decision.document()["refusal"]["gate"] == decision.gate in ORDER


@pytest_twisted.ensureDeferred
async def test_nothing_happens() -> None:
    """No handler runs, no record is written, no key is used up."""
    host = DispatchHost()
    await decide(host, QUESTIONS[0][0])
    assert host.recorder.calls == [] and host.ledger.drafts == [] and host.ledger.reserved == {}


@pytest_twisted.ensureDeferred
async def test_without_input_the_schema_is_no_part_of_the_question() -> None:
    """And the answer says so."""
    decision = await decide(DispatchHost(), Question(agent_id=CALLER, method="RESERVE", path="/desk"))
    assert decision.allowed and "schema" in decision.not_asked and "schema" not in decision.passed
    assert decision.required_scopes == ("booking:desk",) and decision.min_assurance == "certificate"


@pytest_twisted.ensureDeferred
async def test_a_stopped_agent_may_nothing() -> None:
    """The lifecycle state of this moment counts."""
    host = DispatchHost()
    host.put(CALLER, "suspended")
    decision = await decide(host, QUESTIONS[0][0])
    assert decision.refusal is not None and decision.refusal.reason == "agent-suspended"
    assert decision.gate == "caller and lifecycle" and decision.passed == ("framing", "connection identity")
    assert decision.path == "/desk", "what was asked about is shown as it was asked"


@pytest_twisted.ensureDeferred
async def test_ones_own_certificate_counts_as_it_is() -> None:
    """What its certificate commits to binds the agent that asks about itself."""
    bound = Peer(address="127.0.0.1", certificate=certificate(commitment=frozenset({"documents:query"})))
    assert not (await decide(DispatchHost(), QUESTIONS[0][0], bound)).allowed


def test_the_gates_passed_over_are_gates() -> None:
    """A gate that is renamed must not begin to leave traces."""
    names = {gate.name for gate in DispatchHost().gates}
    assert names >= TRACES | INPUT


@pytest_twisted.ensureDeferred
async def test_control_a_decider_that_leaves_a_gate_out_is_noticed() -> None:
    """Without the authority gate the questions of authority get other answers than the calls."""
    host = DispatchHost()
    fewer = Decider([gate for gate in host.gates if "scopes and assurance" not in gate.name])
    wrong: list[Any] = []
    for question, status, _ in QUESTIONS:
        if (await fewer.decide(question, HERE)).allowed is not (status == 200):
            wrong.append(question)
    assert wrong


@pytest_twisted.ensureDeferred
async def test_a_certificate_with_fewer_scopes_decides() -> None:
    """What an operator is told about another agent is what that agent meets, where its certificate has fewer scopes."""
    host, narrow = DispatchHost(), frozenset({"documents:query"})
    operator = Peer(address="127.0.0.1", certificate=certificate(None))
    for commitment, status in ((narrow, 262), (None, 200)):
        question = Question(agent_id=CALLER, method="RESERVE", path="/desk", input={"text": "x"}, commitment=commitment)
        found = await decide(host, question, operator)
        peer = Peer(address="127.0.0.1", certificate=certificate(commitment=commitment))
        response = host.ask("RESERVE", "/desk", {"text": "x"}, peer=peer, headers={"Agent-ID": CALLER})
        assert (response.status, found.allowed) == (status, status == 200)
        assert found.refusal is None or found.refusal.status == status
