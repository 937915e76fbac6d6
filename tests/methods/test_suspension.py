"""SUSPEND, RESUME and sessions: core v08 sections 7.2.12 and 10.5, methods v01 section 8.7."""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from agtphost.dispatch import sessions
from agtphost.dispatch.sessions import SessionRegistry
from agtphost.handlers.context import EndpointContext, EndpointResponse
from agtphost.identity.peer import Assurance
from agtphost.methods.oversight import suspension
from agtphost.negotiation.negotiator import Negotiator
from tests.identity.issued import of_agent
from tests.identity.samples import key_of
from tests.methods.floor_hosts import CALLER, OTHER, FloorHost, body_of
from tests.rows import each_row

SESSION = {"Session-ID": "s-1"}
TASK = {"Task-ID": "t-1"}


def suspend(host: FloorHost, **changes: Any) -> dict[str, Any]:
    return host.result("SUSPEND", headers=SESSION, **{"session_id": "s-1", **changes})


def resume(host: FloorHost, nonce: str, workflow: str = "s-1", **options: Any) -> Any:
    return host.ask("RESUME", workflow_id=workflow, resumption_nonce=nonce, **options)


def later(seconds: float) -> str:
    return (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat()


def test_the_receipt() -> None:
    """All members of the text's receipt (AGTP-221)."""
    found = suspend(FloorHost(), reason="awaiting_input", resume_by=later(60))
    assert set(found) >= {"suspension_id", "session_id", "resumption_nonce", "resume_by", "status"}
    assert (found["session_id"], found["status"], found["reason"]) == ("s-1", "suspended", "awaiting_input")


@each_row("reason", ["awaiting_input", "resource_limit", "scheduled_pause", "external_dependency"])
def test_every_reason(reason: str) -> None:
    """Each word of the text is taken (AGTP-221)."""
    assert suspend(FloorHost(), reason=reason)["reason"] == reason


@each_row(
    ("name", "value"),
    [
        ("session_id", ""),
        ("session_id", "a b"),
        ("reason", "tired"),
        ("resume_by", "soon"),
        ("checkpoint", "x" * 20_000),
    ],
)
def test_bad_parameters_are_422(name: str, value: Any) -> None:
    """Each names its parameter (AGTP-221)."""
    answer = FloorHost().ask("SUSPEND", headers=SESSION, **{"session_id": "s-1", name: value})
    assert (answer.status, body_of(answer)["parameter"]) == (422, name)


def test_an_unknown_session_is_404() -> None:
    """A session that the agent was not seen with, also where another was (AGTP-221)."""
    host = FloorHost()
    assert host.refused("SUSPEND", session_id="s-1") == (404, "session-unknown")
    host.ask("ECHO", "/text", headers=SESSION)
    assert host.refused("SUSPEND", session_id="s-1", by=OTHER) == (404, "session-unknown")
    assert host.ask("SUSPEND", session_id="s-1").status == 200


def test_a_suspended_session_refuses_calls_until_resumed() -> None:
    """409 while it stands still, for that session alone, and the checkpoint comes back (AGTP-221)."""
    host = FloorHost()
    nonce = suspend(host, checkpoint={"at": 3})["resumption_nonce"]
    assert host.refused("ECHO", "/text", headers=SESSION) == (409, "session-suspended")
    assert host.refused("SUSPEND", session_id="s-1") == (409, "session-suspended")
    assert host.ask("ECHO", "/text", headers={"Session-ID": "s-2"}).status == 200
    assert host.ask("DESCRIBE", headers=SESSION).status == 200
    answer = body_of(resume(host, nonce))["result"]
    assert (answer["status"], answer["checkpoint"], answer["session_id"]) == ("active", {"at": 3}, "s-1")
    assert host.ask("ECHO", "/text", headers=SESSION).status == 200


def test_a_checkpoint_can_be_overridden() -> None:
    """RESUME's own checkpoint wins (METH-048)."""
    host = FloorHost()
    nonce = suspend(host, checkpoint=1)["resumption_nonce"]
    assert body_of(resume(host, nonce, checkpoint=2))["result"]["checkpoint"] == 2


def test_a_nonce_works_once() -> None:
    """A second presentation, a wrong one and none are refused (AGTP-222, METH-048, METH-062)."""
    host = FloorHost()
    nonce = suspend(host)["resumption_nonce"]
    wrong = resume(host, "A" * 22)
    assert (wrong.status, body_of(wrong)["reason"]) == (409, "nonce-invalid")
    assert host.refused("RESUME", workflow_id="s-1") == (422, "missing-parameter")
    assert host.refused("RESUME", resumption_nonce=nonce) == (422, "missing-parameter")
    assert resume(host, nonce).status == 200
    again = resume(host, nonce)
    assert (again.status, body_of(again)["reason"]) == (409, "nonce-used")
    second = suspend(host)["resumption_nonce"]
    assert resume(host, nonce).status == 409
    assert resume(host, second).status == 200


def test_nonces_are_random_and_never_kept() -> None:
    """128 bits, base64url, distinct; the host keeps a hash alone (AGTP-222)."""
    host, nonces = FloorHost(), set()
    for number in range(60):
        name = f"s-{number}"
        nonce = host.result("SUSPEND", headers={"Session-ID": name}, session_id=name)["resumption_nonce"]
        assert len(base64.urlsafe_b64decode(nonce + "==")) >= 16
        nonces.add(nonce)
    assert len(nonces) == 60
    kept = str([item.value for item in host.held.all("suspension")]) + str([d.payload for d in host.ledger.drafts])
    assert not any(nonce in kept for nonce in nonces)


def test_nobody_elses_session_is_resumed() -> None:
    """The nonce alone, in other hands, resumes nothing."""
    host = FloorHost()
    nonce = suspend(host)["resumption_nonce"]
    assert resume(host, nonce, by=OTHER).status == 404
    assert resume(host, nonce).status == 200


def test_past_its_time_a_session_has_expired() -> None:
    """RESUME and calls are 408 then; a time already passed is refused at once (AGTP-224)."""
    host = FloorHost()
    assert host.refused("SUSPEND", headers=SESSION, session_id="s-1", resume_by=later(-5)) == (408, "resume-by-passed")
    nonce = suspend(host, resume_by=later(60))["resumption_nonce"]
    host.advance(61)
    late = resume(host, nonce)
    assert (late.status, body_of(late)["reason"]) == (408, "resumption-expired")
    assert resume(host, nonce).status == 408
    assert host.refused("ECHO", "/text", headers=SESSION) == (408, "session-expired")


def test_the_agent_itself_goes_on() -> None:
    """The lifecycle state is another matter (AGTP-223)."""
    host = FloorHost()
    suspend(host)
    assert host.states.state_of(CALLER).status.value == "active"
    assert host.ask("ECHO", "/text").status == 200
    assert all(draft.event is None and draft.events == () for draft in host.ledger.drafts)


def test_a_task_can_be_suspended_too() -> None:
    """``task_id`` in place of ``session_id``: its calls stand still, and RESUME takes its identifier."""
    host = FloorHost()
    found = host.result("SUSPEND", task_id="t-1")
    assert host.refused("ECHO", "/text", headers=TASK) == (409, "task-suspended")
    assert host.ask("ECHO", "/text", headers=TASK, by=OTHER).status == 200
    assert resume(host, found["resumption_nonce"], "t-1").status == 200
    assert host.ask("ECHO", "/text", headers=TASK).status == 200


def test_contracts_are_released_by_who_negotiates(monkeypatch: pytest.MonkeyPatch) -> None:
    """``synthesis_id`` goes to the negotiator; without one no contract is known (AGTP-225)."""
    seen: list[EndpointContext] = []

    def release(context: EndpointContext) -> EndpointResponse:
        seen.append(context)
        return EndpointResponse(result={"released": context.input["synthesis_id"]})

    with monkeypatch.context() as patched:
        patched.setattr(Negotiator, "release_contract", staticmethod(release))
        assert FloorHost().result("SUSPEND", synthesis_id="syn-1") == {"released": "syn-1"}
    assert len(seen) == 1
    assert FloorHost().refused("SUSPEND", synthesis_id="syn-1") == (403, "contract-not-permitted"), "as of another's"


def test_suspensions_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """One agent's use of the host's memory ends somewhere, and another's is untouched."""
    monkeypatch.setattr(suspension, "HELD_PER_AGENT", 2)
    host = FloorHost()
    for name in ("a", "b"):
        host.result("SUSPEND", task_id=name)
    assert host.refused("SUSPEND", task_id="c") == (429, "too-many-suspensions")
    assert host.ask("SUSPEND", task_id="c", by=OTHER).status == 200


def test_a_session_belongs_to_its_agent_and_client() -> None:
    """Another agent, or the same one by another client certificate, gets 401 with it (AGTP-316)."""
    host = FloorHost(floor=Assurance.HEADER)
    other = of_agent(CALLER.agent_id, key_of("renewed"), sorted(CALLER.scopes))
    named = {**SESSION, "Agent-ID": CALLER.agent_id}
    assert host.ask("ECHO", "/text", headers=SESSION).status == 200
    assert host.refused("ECHO", "/text", headers=SESSION, by=OTHER) == (401, "session-binding-mismatch")
    assert host.refused("ECHO", "/text", headers=named, by=other) == (401, "session-binding-mismatch")
    assert host.ask("ECHO", "/text", headers=SESSION).status == 200


def test_a_session_of_who_only_names_the_agent_is_another_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request that no certificate proves has sessions apart: neither refuses, evicts, nor stops the agent's own."""
    monkeypatch.setattr(sessions, "MOST_OF_ONE", 5)
    host = FloorHost(floor=Assurance.HEADER)
    assert host.ask("ECHO", "/text", headers=SESSION, certain=False).status == 200
    assert host.ask("ECHO", "/text", headers=SESSION).status == 200
    for number in range(10):
        host.ask("ECHO", "/text", headers={"Session-ID": f"s-{number}-of-a-stranger"}, certain=False)
    assert host.ask("SUSPEND", body={"session_id": SESSION["Session-ID"]}, certain=False).status == 404, "evicted"
    found = suspend(host)
    assert host.refused("ECHO", "/text", headers=SESSION) == (409, "session-suspended")
    assert host.ask("ECHO", "/text", headers=SESSION, certain=False).status == 200
    assert resume(host, found["resumption_nonce"], SESSION["Session-ID"], certain=False).status == 404
    assert resume(host, found["resumption_nonce"], SESSION["Session-ID"]).status == 200


def test_known_sessions_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """An agent pushes out its own sessions and nobody else's; the oldest unused goes first."""
    monkeypatch.setattr(sessions, "MOST_OF_ONE", 2)
    monkeypatch.setattr(sessions, "MOST_SESSIONS", 3)
    seen = SessionRegistry()
    for name in ("a", "b"):
        assert seen.note(name, "one", "")
    assert seen.note("x", "two", "")
    seen.note("a", "one", "")
    seen.note("c", "one", "")
    assert [seen.knows(name, "one") for name in "abc"] == [True, False, True]
    assert seen.knows("x", "two")
    assert seen.note("y", "three", "")
    assert sum(seen.knows(name, who) for name, who in [("a", "one"), ("c", "one"), ("x", "two"), ("y", "three")]) == 3


def test_the_gate_is_what_holds_it() -> None:
    """The control: with the gate taken out, a suspended session is served."""
    host = FloorHost()
    suspend(host)
    gate = host.core.methods.floor.gate
    host.rewire([each for each in host.gates if each is not gate])
    assert host.ask("ECHO", "/text", headers=SESSION).status == 200
