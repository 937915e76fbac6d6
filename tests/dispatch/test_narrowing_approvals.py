"""
Every member of an approval that narrows it is held to: CONFIRM of escalations and proposals, RESUME, and pins.

The counterpart of :mod:`tests.dispatch.test_narrowing` for what is not a token of the caller's but kept here. The
members are those that the host really keeps of one: a member without a row, and not named as one that bounds nothing,
fails.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from types import SimpleNamespace
from typing import Any

import pytest
from twisted.internet.defer import ensureDeferred
from twisted.internet.task import Clock

from agtphost.adapters.mcp.approval import ApproveTool
from agtphost.errors import Refusal
from agtphost.upstream.pins import Pins, PinStore
from agtphost.wire.events import Response
from tests.adapters.peers import Book
from tests.identity.issued import of_key
from tests.methods.floor_hosts import CALLER, JUDGE, KEYS, OPERATOR, OPERATORS, OTHER, FloorHost, body_of
from tests.negotiation.hosts import ALICE, BOB, BOOK_ROOM, OPEN, ROOT, NegotiatingHost, granting
from tests.rows import each_row

TASK = {"Task-ID": "t-1"}


# The decision about an escalation

ESCALATION_SAYS = {
    *("escalation_id", "reason", "context", "priority", "deadline", "session_id", "routed_to"),
    *("flood", "queued", "created_at", "owner_id", "decision", "message_task_id"),
}
"""
What it tells who decides, where it was sent, and what was decided; ``owner_id`` shares out the inbox, and REPLY finds
it by ``message_task_id``.
"""


def _escalate(host: FloorHost, task: str = "t-1", **options: Any) -> str:
    given = {"task_id": task, "reason": "scope_limit", "context": {}}
    return str(host.result("ESCALATE", code=202, **{**given, **options})["escalation_id"])


def _is_paused(host: FloorHost, task: str = "t-1", **options: Any) -> bool:
    return host.ask("ECHO", "/text", headers={"Task-ID": task}, **options).status == 409


def _of_another_task(host: FloorHost, number: str) -> bool:
    _escalate(host, "t-2")
    host.result("CONFIRM", target_id=number, status="accepted", by=JUDGE)
    return _is_paused(host, "t-2") and not _is_paused(host)


def _of_another_agent(host: FloorHost, number: str) -> bool:
    _escalate(host, by=OTHER)
    host.result("CONFIRM", target_id=number, status="accepted", by=JUDGE)
    return _is_paused(host, by=OTHER) and not _is_paused(host)


def _by_who_was_not_asked(host: FloorHost, number: str) -> bool:
    refused = [host.ask("CONFIRM", target_id=number, status="accepted", by=who).status for who in (OTHER, None)]
    return _is_paused(host) and all(status >= 400 for status in refused)


def _once(host: FloorHost, number: str) -> bool:
    host.result("CONFIRM", target_id=number, status="rejected", by=JUDGE)
    again = host.ask("CONFIRM", target_id=number, status="accepted", by=JUDGE)
    return (again.status, body_of(again)["reason"]) == (409, "already-decided") and _is_paused(host)


def _by_the_key_that_asked(host: FloorHost, number: str) -> bool:
    """An operator decides it, and one whose key is the agent's own does not."""
    key = KEYS[CALLER.agent_id]
    own = FloorHost({"audit": {"operators": [key.public.fingerprint, *OPERATORS]}})
    same = _escalate(own)
    refused = own.ask("CONFIRM", target_id=same, status="accepted", by=of_key(key)).status
    held = _is_paused(own)
    own.result("CONFIRM", target_id=same, status="accepted", by=OPERATOR)
    return refused == 403 and held and not _is_paused(own)


ESCALATION: dict[str, Callable[[FloorHost, str], bool]] = {
    "task_id": _of_another_task,
    "escalated_by": _of_another_agent,
    "recipient": _by_who_was_not_asked,
    "status": _once,
    "asked_with": _by_the_key_that_asked,
}


@each_row("member", ESCALATION)
def test_each_member_of_an_escalation(member: str) -> None:
    """Only what was decided, for whom it was decided, goes on."""
    host = FloorHost()
    assert ESCALATION[member](host, _escalate(host))


def test_an_escalation_has_no_other_members() -> None:
    """What is kept of one is what the rows are about."""
    host = FloorHost()
    number = _escalate(host)
    item = host.held.get("escalation", number)
    assert item is not None and item.value.keys() == ESCALATION.keys() | ESCALATION_SAYS
    assert _is_paused(host), "the control"
    host.result("CONFIRM", target_id="t-1", status="accepted", by=JUDGE)
    assert not _is_paused(host), "named by its task, it is the same decision"


# Resuming what was suspended

SUSPENSION_SAYS = {"suspension_id", "agent_id", "reason", "checkpoint", "suspended_at", "resume_by"}
"""``resume_by`` is ``until`` as text; ``agent_id`` is whom operators are shown."""


def _suspend(host: FloorHost, name: str = "t-1", **options: Any) -> str:
    return str(host.result("SUSPEND", task_id=name, **options)["resumption_nonce"])


def _resume(host: FloorHost, nonce: str, name: str = "t-1", **options: Any) -> Response:
    return host.ask("RESUME", workflow_id=name, resumption_nonce=nonce, **options)


def _used_twice(host: FloorHost, nonce: str) -> Response:
    assert _resume(host, nonce).status == 200
    return _resume(host, nonce)


def _late(host: FloorHost, nonce: str) -> Response:
    host.advance(61)
    return _resume(host, nonce)


def _another_kind(host: FloorHost, nonce: str) -> Response:
    """A session of the same name has a nonce of its own, and that of the task does not resume it."""
    host.ask("ECHO", "/text", headers={"Session-ID": "t-1"})
    host.result("SUSPEND", session_id="t-1", headers={"Session-ID": "t-1"})
    assert _resume(host, nonce).status == 200
    return host.ask("ECHO", "/text", headers={"Session-ID": "t-1"})


def _another_name(host: FloorHost, nonce: str) -> Response:
    _suspend(host, "t-2")
    return _resume(host, nonce, "t-2")


SUSPENSION: dict[str, tuple[Callable[[FloorHost, str], Response], int]] = {
    "of": (_another_kind, 409),
    "name": (_another_name, 409),
    "nonce_hash": (lambda host, nonce: _resume(host, nonce[::-1]), 409),
    "until": (_late, 408),
    "status": (_used_twice, 409),
}


def _in_a_minute() -> str:
    return (datetime.now(UTC) + timedelta(seconds=60)).isoformat()


@each_row("member", SUSPENSION)
def test_each_member_of_a_suspension(member: str) -> None:
    """A nonce resumes what it was issued for, once, in its time."""
    host = FloorHost()
    nonce = _suspend(host, resume_by=_in_a_minute())
    call, status = SUSPENSION[member]
    assert call(host, nonce).status == status


@pytest.mark.parametrize("left_out", ["workflow_id", "resumption_nonce"])
def test_a_resumption_leaves_nothing_out(left_out: str) -> None:
    """Without the name, or without the nonce, nothing is resumed; nor by another agent that has both."""
    host = FloorHost()
    given = {"workflow_id": "t-1", "resumption_nonce": _suspend(host)}
    assert host.ask("RESUME", by=OTHER, **given).status == 404
    assert host.ask("RESUME", **{name: value for name, value in given.items() if name != left_out}).status == 422
    assert _is_paused(host)
    assert host.ask("RESUME", **given).status == 200 and not _is_paused(host), "the control"


def test_a_suspension_has_no_other_members() -> None:
    """What is kept of one is what the rows are about."""
    host = FloorHost()
    _suspend(host)
    (item,) = host.held.all("suspension")
    assert item.value.keys() == SUSPENSION.keys() | SUSPENSION_SAYS


# The decision about a proposal

PROPOSAL_SAYS = {"negotiation_id", "method", "path"}
"""What lists show of it; ``synthesis`` has the definition with both."""


class Review:
    """A proposal of Alice's that waits."""

    def __init__(self, **beside: Any) -> None:
        self.table = NegotiatingHost(granting(OPEN, approval="operator"))
        taken = body_of(self.table.propose(BOOK_ROOM, beside={"requested_duration": "1h", **beside}))
        self.where = f"/proposals/{taken['proposal_id']}"

    def accept(self, **given: Any) -> Response:
        return self.table.ask("CONFIRM", self.where, {"accepted": True, **given}, who=ROOT)

    def contract(self) -> str:
        assert self.accept().status == 200
        return str(body_of(self.table.ask("QUERY", self.where))["synthesis_id"])


def _decided(review: Review) -> bool:
    review.table.ask("CONFIRM", review.where, {"accepted": False}, who=ROOT)
    return review.accept().status == 409 and review.table.ask("QUERY", review.where).status == 463


def _found(review: Review) -> bool:
    """Only the definition that was looked at is made: what the approval says beside is not heeded."""
    refused = review.accept(definition={"method": "BOOK", "path": "/hall"})
    if refused.status == 422:
        assert review.accept().status == 200
    contract = str(body_of(review.table.ask("QUERY", review.where))["synthesis_id"])
    good, other = review.table.under(contract), review.table.under(contract, path="/hall")
    return (good.status, other.status) == (200, 404)


def _lasts(review: Review) -> bool:
    contract = review.contract()
    assert review.table.under(contract).status == 200
    review.table.clock.advance(3_601)
    return review.table.under(contract).status in (404, 464)


def _too_late(review: Review) -> bool:
    review.table.clock.advance(3_601)
    return review.accept().status == 409


PROPOSAL: dict[str, Callable[[Review], bool]] = {
    "decision": _decided,
    "synthesis": _found,
    "lifetime": _lasts,
    "review_until": _too_late,
}


@each_row("member", PROPOSAL)
def test_each_member_of_a_proposal(member: str) -> None:
    """What is approved is what was shown, for as long as was asked, once."""
    assert PROPOSAL[member](Review())


def test_a_proposal_is_approved_for_who_made_it() -> None:
    """And by nobody but an operator, who says so in so many words."""
    review = Review()
    for given, who, status in (({"accepted": True}, ALICE, 403), ({}, ROOT, 422), ({"accepted": "yes"}, ROOT, 422)):
        assert review.table.ask("CONFIRM", review.where, given, who=who).status == status
    assert review.table.ask("CONFIRM", review.where, {"accepted": True}, who=BOB).status in (403, 404)
    assert review.table.under(review.contract(), who=BOB).status == 464


def test_a_proposal_has_no_other_members() -> None:
    """What is kept of one is what the rows are about."""
    review = Review()
    (item,) = review.table.ledger.held.all("proposal")
    assert item.value.keys() - PROPOSAL_SAYS == PROPOSAL.keys(), sorted(item.value)


# Definitions that were approved

ONE, TWO = "1" * 64, "2" * 64
FIRST, SECOND = b'{"says":1}', b'{"says":2}'


def test_an_approved_tool_is_that_definition_of_that_tool() -> None:
    """Another definition of it is off, and so is another tool that has the approved one's digest but another pin."""
    (_, change), _ = Pins("mcp", "files").approval("work", ONE, "desk")
    assert set(change.value or ()) == {"sha256"}
    (_, elsewhere), _ = Pins("mcp", "other").approval("work", ONE, "desk")
    (_, another), _ = Pins("mcp", "files").approval("host", ONE, "desk")
    assert change.key != elsewhere.key != another.key != change.key
    pins = Pins("mcp", "files")
    pins.approve("work", ONE)
    pins.approve("host", TWO)
    assert not pins.find_off({"work": ONE}) and pins.find_off({"work": TWO})
    pins.approve("work", TWO)
    assert not pins.find_off({"work": TWO}) and pins.find_off({"work": ONE}) and pins.find_off({"host": ONE})


def _approving(shown: str) -> tuple[Pins, list[Any]]:
    """An operator approves a tool that has changed, having looked at one definition."""
    pins, outcome = Pins("mcp", "files"), list[Any]()
    pins.approve("work", ONE)
    server: Any = SimpleNamespace(catalogue=SimpleNamespace(tools={"work": SimpleNamespace(digest=TWO)}, pins=pins))
    everybody: Any = SimpleNamespace(require=lambda context, scope, said: "desk")
    try:
        context: Any = SimpleNamespace(input={"sha256": shown})
        outcome.append(ApproveTool({"files": server}, "files.work", None, everybody).handle(context))
    except Refusal as refusal:
        outcome.append(refusal)
    return pins, outcome


def test_an_approval_of_a_tool_is_of_the_definition_that_was_shown() -> None:
    """With the digest of another one, 409 and it stays off; with the present one's it is that and no later one."""
    pins, (failed,) = _approving("3" * 64)
    assert (failed.status, failed.reason) == (409, "definition-changed-again")
    assert pins.find_off({"work": TWO}) and not pins.find_off({"work": ONE})
    pins, (done,) = _approving(TWO)
    assert done.result["mcp_response"]["definition_digest"] == TWO
    assert not pins.find_off({"work": TWO}) and pins.find_off({"work": "3" * 64})


def test_an_approved_upstream_is_that_statement_of_that_agent() -> None:
    """The same for cards and manifests: of what is kept, ``approved`` bounds, and ``seen`` tells what is off."""
    book = Book()

    async def submit(changes: Any, events: Any) -> None:
        book.commit(changes)

    store = PinStore(held=book, submit=submit, clock=Clock())

    def off(**found: bytes) -> set[str]:
        answers: list[Any] = []
        ensureDeferred(Pins("acp", "bee", {}, store).check(found)).addBoth(answers.append)
        return set(answers[0])

    assert off(echo=FIRST, other=FIRST) == set()
    (change,), _ = Pins("acp", "bee", {}, store).approval("echo", sha256(SECOND).hexdigest(), "operator")
    assert set(change.value or ()) == {"approved", "seen"}
    book.commit((change,))
    assert off(echo=SECOND, other=SECOND) == {"other"}
    assert off(echo=FIRST, other=FIRST) == {"echo"}
