"""Calls that wait for a person: both clients say so, and make the very same call again until it is decided."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import pytest_twisted

from agtphost.client import PendingApproval, sync
from agtphost.client.approvals import LONGEST_PAUSE, PAUSE, pause_after, pending_of
from agtphost.vocabulary import jsontext
from agtphost.wire import Headers, Response
from tests.client.credentials import Credentials
from tests.client.drivers import Driver
from tests.client.scripted_host import Exchange, ScriptedHost, answer, refuse
from tests.rows import each_row

NewClient = Callable[..., Driver]
EXPIRES = "2026-11-22T14:00:00Z"


def held(approval_id: str = "apr-1", retry_after: str = "1", status: int = 202) -> Response:
    """What a host says of a call that a person has to approve."""
    said = {"approval_id": approval_id, "expires_at": EXPIRES, "digest": "d" * 64}
    refused = refuse(status, "approval-required", **said)
    return Response(status=status, headers=Headers([*refused.headers, ("Retry-After", retry_after)]), body=refused.body)


def deciding(*answers: Response) -> Callable[[Exchange], None]:
    """The script of a host that answers so, one after the other, and goes on with the last."""
    left = list(answers)

    def script(exchange: Exchange) -> None:
        exchange.send(left.pop(0) if len(left) > 1 else left[0])

    return script


@pytest_twisted.ensureDeferred
async def test_a_call_that_waits_for_a_person_is_no_success(credentials: Credentials, new_client: NewClient) -> None:
    """The first answer says which approval, until when and of what; without ``wait_for_approval`` it is the reply."""
    with ScriptedHost(credentials, deciding(held())) as host:
        async with new_client() as client:
            reply = await client.call(host.uri, "REMOVE", "/files", {"path": "a"})
            assert len(host.requests) == 1
    assert (reply.ok, reply.interim, reply.status, reply.retry_after) == (False, False, 202, 1.0)
    assert reply.approval == PendingApproval(approval_id="apr-1", expires_at=EXPIRES, digest="d" * 64)


@pytest_twisted.ensureDeferred
async def test_the_very_same_call_is_made_again(credentials: Credentials, new_client: NewClient) -> None:
    """Octet by octet, after Retry-After, until somebody has decided."""
    with ScriptedHost(credentials, deciding(held(), held(), answer("done"))) as host:
        async with new_client() as client:
            reply = await client.call(host.uri, "REMOVE", "/files", {"path": "a"}, wait_for_approval=30)
        assert reply.ok and reply.result == "done" and reply.approval is None
        assert len(host.requests) == 3
        assert len({(each.line, each.body, tuple(each.headers)) for each in host.requests}) == 1


class Time:
    """A clock that only sleeping moves."""

    def __init__(self) -> None:
        self.now = 0.0
        self.slept: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


def call_of(credentials: Credentials, time: Time, host: ScriptedHost, **options: Any) -> Any:
    """One call of the blocking client that keeps that time."""
    with sync.Client(trust=credentials.trust, clock=lambda: time.now, sleep=time.sleep) as client:
        return client.call(host.uri, "REMOVE", "/files", {"path": "a"}, **options)


def test_patience_ends(credentials: Credentials) -> None:
    """Undecided, the last answer is handed out; the last pause ends with the patience, with one call more behind it."""
    time = Time()
    with ScriptedHost(credentials, deciding(held(retry_after="5"))) as host:
        reply = call_of(credentials, time, host, wait_for_approval=12)
        assert reply.approval is not None and not reply.ok
        assert time.slept == [5.0, 5.0, 2.0]
        assert len(host.requests) == 4


@pytest.mark.parametrize("seconds", [0, -1, None])
def test_without_patience_nothing_is_repeated(credentials: Credentials, seconds: float | None) -> None:
    """One call, one answer."""
    time = Time()
    with ScriptedHost(credentials, deciding(held())) as host:
        assert call_of(credentials, time, host, wait_for_approval=seconds).approval is not None
        assert (len(host.requests), time.slept) == (1, [])


def test_another_approval_ends_the_wait(credentials: Credentials) -> None:
    """The one that was waited for is over: nobody is asked for one approval after another."""
    time = Time()
    with ScriptedHost(credentials, deciding(held("apr-1"), held("apr-1"), held("apr-2"), answer("never"))) as host:
        reply = call_of(credentials, time, host, wait_for_approval=600)
        assert reply.approval is not None and reply.approval.approval_id == "apr-2"
        assert len(host.requests) == 3


def test_a_refusal_ends_the_wait(credentials: Credentials) -> None:
    """Rejected is rejected."""
    time = Time()
    with ScriptedHost(credentials, deciding(held(), refuse(403, "approval-rejected"), answer("never"))) as host:
        reply = call_of(credentials, time, host, wait_for_approval=600)
        assert (reply.status, reply.reason, reply.approval) == (403, "approval-rejected", None)


def test_a_stream_is_waited_for_as_long(credentials: Credentials) -> None:
    """Interim messages are handed out; the time for the decision is added to the time of the call."""
    told = []

    def script(exchange: Exchange) -> None:
        assert jsontext.decode(exchange.request.body)["context"] == {"stream": True, "approval_wait": 30}
        exchange.send(answer({"event": {"type": "approval"}}, 202, Continuation_Token="c"), final=False)
        time.now += 80
        exchange.send(answer("done"))

    time = Time()
    with ScriptedHost(credentials, script) as host:
        reply = call_of(credentials, time, host, wait_for_approval=30, stream=told.append)
    assert (reply.result, [each.result for each in told]) == ("done", [{"event": {"type": "approval"}}])


@each_row(
    "document",
    [
        {},
        {"reason": "approval-required"},
        {"reason": "approval-required", "approval_id": 7},
        {"reason": "approval-required", "approval_id": ""},
        {"reason": "accepted", "approval_id": "apr-1"},
        {"approval_id": "apr-1"},
        {"reason": "approval-required", "approval_id": "apr-1", "result": {}},
    ],
)
def test_other_answers_are_no_approvals(document: dict[str, Any]) -> None:
    """A 202 is what it was before, unless its body says that a person decides, and under which name."""
    assert pending_of(document) is None


def test_members_of_other_types_are_left_out() -> None:
    """What cannot be a time or a digest is none."""
    given = {"reason": "approval-required", "approval_id": "a", "expires_at": 5, "digest": ["d"]}
    assert pending_of(given) == PendingApproval(approval_id="a", expires_at="", digest="")


@each_row(("asked", "pause"), [(None, PAUSE), (0.0, 1.0), (1.0, 1.0), (7.0, 7.0), (86_400.0, LONGEST_PAUSE)])
def test_a_host_cannot_have_itself_hammered_nor_forgotten(asked: float | None, pause: float) -> None:
    """Pauses are between one second and half a minute."""
    assert pause_after(asked) == pause


def test_an_interim_message_is_no_approval(credentials: Credentials) -> None:
    """Whatever its body says: the answer is still to come."""
    interim = held()
    marked = Response(status=202, headers=Headers([*interim.headers, ("Continuation-Token", "c")]), body=interim.body)

    def script(exchange: Exchange) -> None:
        exchange.send(marked, final=False)
        exchange.send(answer("done"))

    with ScriptedHost(credentials, script) as host, sync.Client(trust=credentials.trust) as client:
        first, last = client.stream(host.uri, "REMOVE", "/files")
    assert (first.interim, first.approval, last.result) == (True, None, "done")
