"""A caller that asks for a stream is told what its call waits for, and waits with it (core v08 section 7.2.11)."""

from __future__ import annotations

from twisted.internet.defer import Deferred

from tests.dispatch.approval_hosts import DELETION, ApprovalHost
from tests.methods.floor_hosts import CALLER, body_of


def test_a_stream_waits_and_runs_when_it_is_approved() -> None:
    """An event names the approval; the decision lets the call run, without being repeated."""
    host = ApprovalHost()
    answer, events, _ = host.streamed()
    (event,) = events
    assert event["type"] == "approval-required"
    assert not answer.called
    assert not host.ran
    assert host.decide(event["approval_id"]).status == 200
    host.clock.settle()
    assert answer.result.status == 200
    assert host.ran == [DELETION]
    assert host.waits()["approval_id"] != event["approval_id"]


def test_the_time_of_the_call_begins_with_its_release() -> None:
    """It waited longer than its handler may take, and has all of that time nevertheless."""
    host = ApprovalHost({"limits": {"request_timeout": 30}})
    host.waiting = Deferred()
    answer, events, _ = host.streamed()
    host.clock.advance(600)
    assert not answer.called
    host.decide(events[0]["approval_id"])
    host.clock.advance(29)
    assert not answer.called
    host.clock.advance(2)
    assert body_of(answer.result)["reason"] == "timeout"


def test_a_stream_that_nobody_decides_about_ends() -> None:
    host = ApprovalHost({"approvals": {"ttl": 60}})
    answer, events, _ = host.streamed()
    host.clock.advance(61)
    assert (answer.result.status, body_of(answer.result)["reason"]) == (408, "approval-expired")
    assert body_of(answer.result)["approval_id"] == events[0]["approval_id"]


def test_a_stream_whose_call_is_rejected_is_told_so() -> None:
    host = ApprovalHost()
    answer, events, _ = host.streamed()
    host.decide(events[0]["approval_id"], "rejected", reason="no")
    host.clock.settle()
    assert (answer.result.status, body_of(answer.result)["reason"]) == (403, "approval-rejected")
    assert not host.ran


def test_a_caller_that_leaves_leaves_what_waits() -> None:
    """The approval stays; once it is decided on, the same call finds it."""
    host = ApprovalHost()
    answer, events, peer = host.streamed()
    for left in tuple(peer.leaving):
        left()
    host.clock.settle()
    assert body_of(answer.result)["reason"] == "cancelled"
    assert host.waits()["approval_id"] == events[0]["approval_id"]
    host.decide(events[0]["approval_id"])
    assert host.ask("REMOVE", "/file", DELETION).status == 200


def test_two_streams_of_one_call_run_once() -> None:
    """Both wait for one approval; one runs, and the other waits for a new one."""
    host = ApprovalHost()
    one, events, _ = host.streamed()
    other, others, _ = host.streamed()
    assert [each["approval_id"] for each in events] == [each["approval_id"] for each in others]
    host.decide(events[0]["approval_id"])
    host.clock.settle()
    done = [each for each in (one, other) if each.called]
    assert len(host.ran) == 1
    assert [each.result.status for each in done if each.result.status == 200] == [200]
    for each in done:
        assert each.result.status in (200, 409)


def test_a_waiting_caller_that_is_revoked_runs_nothing() -> None:
    """Its stream ends with it; what is decided afterwards releases nothing."""
    host = ApprovalHost()
    answer, events, _ = host.streamed()
    host.put(CALLER, "retired")
    host.clock.settle()
    assert answer.result.status == 410
    host.decide(events[0]["approval_id"])
    host.clock.settle()
    assert not host.ran
