"""A request that listens for changes of lists ends when what its agent may call changes, and for no other reason."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from twisted.internet.defer import Deferred

from agtphost.dispatch.gates import reinstatement
from agtphost.dispatch.gates.reinstatement import MOST_WAITING
from agtphost.host.rights_watch import LONGEST_WAIT, RightsWatch
from agtphost.identity.peer import Assurance
from agtphost.testing import Answer, MemoryHost
from agtphost.testing.identities import TestAgent, key_of
from tests.protocols.quic.network import logged_failures

OPERATOR = key_of("anna")
SETTINGS: dict[str, Any] = {
    "operator": [{"name": "anna", "key": OPERATOR.public.fingerprint, "role": "administrator"}],
}
LISTEN = {
    "action": "mcp.subscriptions.listen",
    "payload_type": "application/vnd.mcp.subscriptions+json",
    "payload": {"notifications": {"toolsListChanged": True}, "seconds": 3600},
}


class Watched:
    """A host in memory with the watch, two endpoints and two agents."""

    def __init__(self, open_path: str = "") -> None:
        self.host = MemoryHost(SETTINGS)
        for path in ("/one", "/two"):
            self.host.endpoint("FETCH", path, lambda context: {})
        if open_path:
            self.host.endpoint("EXECUTE", open_path, lambda context: {}, min_assurance="header", action="hall")
        self.clerk, self.other = self.host.agent("clerk"), self.host.agent("other")
        services = self.host.core.services
        self.listeners = services.lasting.listening.rights
        self.watch = RightsWatch(
            *(self.host.clock, services.evidence.held, services.evidence.states, self.listeners),
            *(lambda: self.host.core, services.seconds),
        )
        self.watch.startService()  # type: ignore[no-untyped-call]
        self.operator = self.host.identities.of_key(OPERATOR, "anna")

    def listen(self, agent: TestAgent, **options: Any) -> Deferred[Answer]:
        """Begin a request that listens."""
        made = self.host.begin("EXECUTE", "/", LISTEN, caller=agent, context={"stream": True}, **options)
        self.host.clock.settle()
        assert not made.called
        return made

    def rule(self, method: str, agent: TestAgent, **input: Any) -> None:
        """Change grants as the operator."""
        answer = self.host.call(method, "/grants", {"subject": agent.agent_id, **input}, caller=self.operator)
        assert answer.status == 200, answer
        self.host.advance(0.0)

    def suspend(self, agent: TestAgent) -> None:
        """Suspend an agent as the operator."""
        self.turn(agent, "DEACTIVATE")

    def turn(self, agent: TestAgent, method: str) -> None:
        """Change the lifecycle state of an agent as the operator."""
        given = {"agent_id": agent.agent_id, "reason": "a drill"}
        answer = self.host.call(method, "/", given, caller=self.operator)
        assert answer.status == 200, answer
        self.host.advance(0.0)

    def limit(self, agent: TestAgent, *things: str, seconds: float = 0.0) -> None:
        """Limit an agent, for a time if there is one."""
        until = datetime.fromtimestamp(self.host.seconds() + seconds, UTC).isoformat()
        self.rule("AUTHORIZE", agent, scope="call", resource=things, **({"until": until} if seconds else {}))


@pytest.fixture
def watched() -> Watched:
    return Watched()


def test_only_the_requests_of_an_agent_whose_list_changed_end(watched: Watched) -> None:
    """Both requests of the limited agent end with 200; the one of the other agent goes on."""
    mine = [watched.listen(watched.clerk, connection=watched.host.connect(watched.clerk)) for _ in range(2)]
    others = watched.listen(watched.other)
    watched.limit(watched.clerk, "FETCH /one")
    assert [each.called for each in mine] == [True, True] and not others.called
    assert [each.result.status for each in mine] == [200, 200]  # type: ignore[attr-defined]
    assert watched.clerk.agent_id not in watched.listeners and watched.other.agent_id in watched.listeners


def test_a_grant_that_changes_no_list_ends_no_request(watched: Watched) -> None:
    """A grant of what another one names already; the next one that takes something ends the request."""
    watched.limit(watched.clerk, "FETCH /*")
    listening = watched.listen(watched.clerk)
    watched.limit(watched.clerk, "FETCH /one")
    assert not listening.called
    watched.rule("REVOKE", watched.clerk, resource=["FETCH /*"])
    assert listening.called


def test_a_comparison_that_fails_ends_its_requests_and_no_other_comparison(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What cannot be compared may have changed; the next change of another agent is compared as usual."""
    mine, others = watched.listen(watched.clerk), watched.listen(watched.other)
    with monkeypatch.context() as patched, logged_failures() as failures:
        patched.setattr(watched.watch, "_lists", lambda rights, assurance: 1 // 0)
        watched.limit(watched.clerk, "FETCH /one")
    assert (mine.called, others.called, len(failures)) == (True, False, 1)
    watched.limit(watched.other, "FETCH /one")
    assert others.called


def test_a_request_ends_when_a_grant_ends_by_time(watched: Watched) -> None:
    """Not before, and without any request in between."""
    watched.limit(watched.clerk, "FETCH /one")
    watched.limit(watched.clerk, "FETCH /two", seconds=100.0)
    listening = watched.listen(watched.clerk)
    watched.host.advance(98.0)
    assert not listening.called
    for _ in range(3):  # The end is looked for again where the clock was read a little before it.
        watched.host.advance(1.5)
    assert listening.called


def test_a_grant_that_begins_while_a_request_listens_ends_it_twice(watched: Watched) -> None:
    """The client listens again after the grant, and the new request ends with the grant."""
    watched.limit(watched.clerk, "FETCH /one")
    first = watched.listen(watched.clerk)
    watched.limit(watched.clerk, "FETCH /two", seconds=LONGEST_WAIT / 2)
    assert first.called
    second = watched.listen(watched.clerk)
    for _ in range(3):
        watched.host.advance(LONGEST_WAIT / 4)
    assert second.called


def test_nothing_waits_after_the_stop(watched: Watched) -> None:
    """The timer for the end of a grant is cancelled."""
    watched.limit(watched.clerk, "FETCH /one", seconds=100.0)
    watched.listen(watched.clerk)
    before = len(watched.host.clock.getDelayedCalls())
    watched.watch.stopService()
    assert len(watched.host.clock.getDelayedCalls()) == before - 1


def test_a_host_without_mcp_servers_lets_a_request_listen_as_well(watched: Watched) -> None:
    """Its endpoints are tools too; the request lasts until its time is up."""
    listening = watched.listen(watched.clerk)
    watched.host.advance(3599.0)
    assert not listening.called
    watched.host.advance(2.0)
    assert listening.called


def test_a_request_that_begins_while_an_ended_one_drains_ends_when_rights_are_as_before(watched: Watched) -> None:
    """A client that reads slowly stays registered for a while; the next request saw the rights in between."""
    slow = watched.listeners.add(watched.clerk.agent_id, Assurance.CERTIFICATE)
    watched.limit(watched.clerk, "FETCH /one")
    assert slow.called
    listening = watched.listen(watched.clerk)
    watched.rule("REVOKE", watched.clerk, all=True)
    assert listening.called
    watched.listeners.remove(watched.clerk.agent_id, slow)


def test_a_caller_that_only_names_an_agent_hears_of_what_a_header_can_call_alone() -> None:
    """Whether the request of such a caller ends says nothing of rights that take a proof."""
    watched = Watched(open_path="/hall")
    watched.limit(watched.clerk, "EXECUTE /hall")
    header = {"Agent-ID": watched.clerk.agent_id}
    stranger = watched.host.begin("EXECUTE", "/", LISTEN, headers=header, context={"stream": True})
    watched.host.clock.settle()
    assert not stranger.called
    mine = watched.listen(watched.clerk)
    watched.limit(watched.clerk, "FETCH /one")
    assert mine.called and not stranger.called
    watched.rule("REVOKE", watched.clerk, resource=["EXECUTE /hall"])
    assert stranger.called


def test_the_record_of_a_subscription_says_why_it_ended(watched: Watched) -> None:
    """The answer says it too, so that a client knows whether to read its lists again."""
    endings = {
        "rights-changed": lambda: watched.limit(watched.clerk, "FETCH /one"),
        "configuration-changed": watched.listeners.end_all,
        "time-up": lambda: watched.host.advance(3600.0),
        "host-stopping": watched.host.core.services.lasting.listening.stopService,
    }
    for why, end in endings.items():
        listening = watched.listen(watched.clerk)
        end()
        watched.host.clock.settle()
        answer: Any = listening.result
        assert (answer.result["ended"], answer.record["extra"]["subscription"]) == (why, {"ended": why})


def test_a_suspended_agent_that_asked_to_wait_is_refused_once_it_is_reinstated(watched: Watched) -> None:
    """Without any time in between, so that its client hears immediately; one that did not ask is refused before."""
    watched.suspend(watched.clerk)
    held = watched.listen(watched.clerk, headers={"Prefer": "wait=60"})
    other = watched.host.call(
        "EXECUTE", "/", LISTEN, caller=watched.clerk, connection=watched.host.connect(watched.clerk)
    )
    assert (other.reason, other.headers.get("preference-applied")) == ("agent-suspended", None)
    watched.turn(watched.clerk, "REINSTATE")
    assert held.called
    answer: Any = held.result
    assert (answer.status, answer.reason) == (503, "agent-suspended")
    assert answer.headers.get("preference-applied") == "wait=60"
    assert not watched.listen(watched.clerk, headers={"Prefer": "wait=60"}).called


def test_a_suspended_agent_that_asked_to_wait_waits_no_longer_than_a_minute(watched: Watched) -> None:
    """It is refused then, or once it is revoked."""
    watched.suspend(watched.clerk)
    held = watched.listen(watched.clerk, headers={"Prefer": "wait=100000"})
    watched.host.advance(LONGEST_WAIT - 1.0)
    assert not held.called
    watched.host.advance(1.0)
    assert held.called and held.result.headers.get("preference-applied") == "wait=60"
    held = watched.listen(watched.clerk, headers={"Prefer": "wait=1000000000"})
    watched.turn(watched.clerk, "REVOKE")
    assert held.called
    answer: Any = held.result
    assert (answer.status, answer.reason) == (410, "agent-retired"), "nothing reinstates it any more"
    assert answer.headers.get("preference-applied") == "wait=60"


def test_few_requests_of_a_suspended_agent_wait(watched: Watched) -> None:
    """Further ones are refused immediately, and so are those of a caller that only names the agent."""
    watched.suspend(watched.clerk)
    patient = {"Prefer": "wait=60"}
    for _ in range(MOST_WAITING):
        watched.listen(watched.clerk, headers=patient, connection=watched.host.connect(watched.clerk))
    further = watched.host.connect(watched.clerk)
    answer = watched.host.call("EXECUTE", "/", LISTEN, caller=watched.clerk, connection=further, headers=patient)
    assert answer.reason == "agent-suspended"
    stranger = watched.host.call("EXECUTE", "/", LISTEN, headers={**patient, "Agent-ID": watched.clerk.agent_id})
    assert stranger.status in (401, 503) and "preference-applied" not in stranger.headers


def test_few_requests_of_all_suspended_agents_wait(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    """From half of the bound on one of each agent waits, and beyond it each is refused immediately."""
    most = 4 * MOST_WAITING
    monkeypatch.setattr(reinstatement, "MOST_WAITING_IN_ALL", most)
    monkeypatch.setattr(reinstatement, "MANY_WAITING", most // 2)
    host, patient = watched.host, {"Prefer": "wait=60"}
    greedy, others = [host.agent(f"greedy-{number}") for number in range(2)], []
    for agent in greedy:
        watched.suspend(agent)
        for _ in range(MOST_WAITING):
            watched.listen(agent, headers=patient, connection=host.connect(agent))
    for number in range(most // 2):
        agent, connection = (other := host.agent(f"other-{number}")), host.connect(other)
        watched.suspend(agent)
        watched.listen(agent, headers=patient, connection=connection)
        others.append((agent, connection))
        again = host.call("EXECUTE", "/", LISTEN, caller=agent, headers=patient)
        assert (again.reason, again.headers.get("preference-applied")) == ("agent-suspended", None)
    last = host.agent("last")
    watched.suspend(last)
    answer = host.call("EXECUTE", "/", LISTEN, caller=last, headers=patient)
    assert (answer.reason, answer.headers.get("preference-applied")) == ("agent-suspended", None)
    others[0][1].close()
    host.clock.settle()
    watched.listen(last, headers=patient, connection=host.connect(last))


def test_the_wait_of_a_refusal_is_no_latency(watched: Watched) -> None:
    """Watchers of records (metrics, access log, page) see the time of the call without the wait that it asked for."""
    seen: list[tuple[str, float | None]] = []
    watched.host.core.services.evidence.ledger.watch(
        lambda group: seen.extend((each.reason, each.seconds) for each in group.records)
    )
    watched.suspend(watched.clerk)
    held = watched.listen(watched.clerk, headers={"Prefer": "wait=60"})
    watched.host.set_clock(LONGEST_WAIT)  # Of a host in memory, latencies follow the system's clock.
    watched.host.advance(LONGEST_WAIT)
    assert held.called
    ((reason, seconds),) = [each for each in seen if each[0]]
    assert reason == "agent-suspended" and seconds is not None and seconds < LONGEST_WAIT / 2


@pytest.mark.parametrize(
    "said", ["wait=0", "wait=-1", "wait=", "wait=1.5", "wait=60, wait=60", "return=minimal", "x" * 9_000]
)
def test_a_preference_that_asks_for_no_wait_is_left_out(watched: Watched, said: str) -> None:
    """A preference that is not understood is ignored (RFC 7240 section 2)."""
    watched.suspend(watched.clerk)
    answer = watched.host.call("FETCH", "/one", caller=watched.clerk, headers={"Prefer": said})
    assert answer.status != 200 and "preference-applied" not in answer.headers


def test_a_client_that_leaves_while_it_waits_leaves_nothing_behind(watched: Watched) -> None:
    """Its place is free again."""
    watched.suspend(watched.clerk)
    connection = watched.host.connect(watched.clerk)
    watched.listen(watched.clerk, headers={"Prefer": "wait=60"}, connection=connection)
    assert watched.clerk.agent_id in watched.listeners
    connection.close()
    watched.host.clock.settle()
    assert watched.clerk.agent_id not in watched.listeners
