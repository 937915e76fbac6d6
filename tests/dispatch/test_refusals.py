"""Which refusals have a record each, and which are summed up: issue of strangers who fill the disk."""

from __future__ import annotations

import json
from typing import Any

import pytest
from twisted.internet.defer import Deferred

from agtphost.audit.drafts import HOST_CHAIN, StreamEvent
from agtphost.audit.summaries import READS, Summaries
from agtphost.config.limits import Limits
from agtphost.contract.binding import Binding
from agtphost.dispatch.dispatcher import Dispatcher
from agtphost.dispatch.gates.limits import RateGate
from agtphost.dispatch.refusals import PAUSE, RefusalLimits, RefusalRecords
from agtphost.errors import Refusal
from agtphost.handlers.built_in import Answer
from agtphost.identity.peer import Assurance, Peer
from agtphost.vocabulary.reasons import ForeignReason, Reason
from agtphost.vocabulary.status import Status
from agtphost.wire.events import Request, Response
from agtphost.wire.headers import Headers
from tests.dispatch.hosts import CALLER, STRANGER, BuiltInRecorder, DispatchHost, certificate
from tests.rows import each_row

LIMITS = RefusalLimits(agent=20, address=3, strangers=8, reads=5, strangers_reads=12)


class Counted:
    """A host whose refusals are counted; time stands still unless a test moves it."""

    def __init__(
        self,
        answer: Any = None,
        *,
        limits: RefusalLimits = LIMITS,
        anonymous: int = 1_000_000,
        bindings: tuple[Binding, ...] = (),
    ) -> None:
        self.now = 0.0
        rates = Limits(requests_per_minute=1_000_000, anonymous_requests_per_minute=anonymous, exempt_addresses=())
        rate = RateGate(rates, now=lambda: self.now)
        self.memory = DispatchHost(answer, bindings=bindings)
        self.summaries = Summaries()
        self.refusals = RefusalRecords(limits, self.summaries, self.memory.ledger, rate, lambda: self.now)
        memory = self.memory
        own = memory.core.admission
        gates = [rate if gate.name == "rate" else gate for gate in memory.gates]
        running = memory.core.services.lasting.running
        self.dispatcher = Dispatcher(gates, memory.ledger, own.sealer, memory.clock, 30.0, running, self.refusals)

    def ask(self, method: str = "QUERY", path: str = "/words", peer: Peer | None = None, **headers: str) -> Response:
        body = headers.pop("body", "").encode()
        fields = [(name.replace("_", "-"), value) for name, value in headers.items()]
        if body:
            fields.append(("Content-Type", "application/vnd.agtp+json"))
        line = f"{method} {path}".encode()
        request = Request(method=method, path=path, headers=Headers(fields), body=body, line=line)
        return self._done(self.dispatcher.dispatch(request, peer or Peer(address="203.0.113.9")))

    def stop(self) -> dict[str, Any]:
        """The caller is retired; an answer."""
        self.memory.put(CALLER, "retired")
        return {}

    def malformed(self, peer: Peer) -> Response:
        return self._done(self.dispatcher.refuse(Reason.INVALID_REQUEST_LINE, "It is no request.", peer, b"x"))

    def _done(self, waiting: Any) -> Response:
        answers: list[Response] = []
        Deferred.fromCoroutine(waiting).addCallback(answers.append)
        if not answers:
            self.memory.clock.advance(PAUSE)
        [answer] = answers
        return answer

    @property
    def recorded(self) -> int:
        return len(self.memory.ledger.drafts)


def certified_peer(address: str = "203.0.113.9") -> Peer:
    return Peer(address=address, certificate=certificate())


def test_beyond_a_few_strangers_are_summed_up_and_told_so() -> None:
    """The first have a record each; the next carry a signed record of no chain, and the id of the summary."""
    host = Counted()
    answers = [host.ask(Agent_ID=STRANGER) for _ in range(10)]
    assert {answer.status for answer in answers} == {401}
    assert host.recorded == 3
    ids = {answer.headers.get("audit-summary") for answer in answers[3:]}
    [summary] = host.summaries.take()
    assert ids == {summary.fields["summary_id"]}
    assert summary.fields["count"] == 7
    assert summary.fields["claimed"] == [{"agent_id": STRANGER, "count": 7}]
    assert all(answer.headers.get("audit-summary") is None for answer in answers[:3])
    for answer, draft in zip(answers[3:], host.memory.ledger.undurable, strict=True):
        assert answer.headers.get("attribution-record") and answer.headers.get("audit-id")
        assert draft.payload["summary_id"] in ids and draft.payload["reason"] == json.loads(answer.body)["reason"]


def test_control_without_limits_every_refusal_is_recorded() -> None:
    """The count above notices a dispatcher that sums nothing up."""
    host = Counted()
    host.memory.rewire()
    host.dispatcher = host.memory.dispatcher
    for _ in range(10):
        host.ask(Agent_ID=STRANGER)
    assert host.recorded == 10


@each_row(
    ("given", "status"),
    [
        ({"Agent_ID": STRANGER}, 401),
        ({"Agent_ID": "A" * 64}, 400),
        ({"path": "/nowhere"}, 404),
        ({"Agent_ID": CALLER, "path": "/nowhere"}, 404),
        ({"peer": Peer(address="203.0.113.9", certificate=certificate(STRANGER))}, 401),
        ({"peer": Peer(address="203.0.113.9", certificate=certificate()), "Agent_ID": STRANGER}, 401),
        ({"peer": Peer(address="203.0.113.9", certificate=certificate(malformed="x"))}, 401),
        ({"method": "RESERVE", "path": "/desk", "Agent_ID": CALLER, "body": '{"text": "x"}'}, 401),
    ],
    ids=["unknown", "no-id", "nameless", "header-only", "foreign-cert", "mismatch", "malformed-cert", "assurance"],
)
def test_whoever_is_not_certified_counts_for_the_address(given: dict[str, Any], status: int) -> None:
    """What is merely claimed, or does not fit, is the address's; each kind alone reaches the same bound."""
    host = Counted()
    assert {host.ask(**given).status for _ in range(10)} == {status}
    assert host.recorded == LIMITS.address
    [summary] = host.summaries.take()
    assert summary.fields["origin"] == {"kind": "address", "name": "203.0.113.9"}


def test_octets_that_are_no_request_count_as_well() -> None:
    """Framing errors come out of the same allowance."""
    host = Counted()
    for _ in range(10):
        assert host.malformed(Peer(address="203.0.113.9")).close
    assert host.recorded == LIMITS.address


def test_an_agent_has_an_allowance_of_its_own_and_a_larger_one() -> None:
    """Ordinary refusals of agents are recorded one by one, whoever floods from their address."""
    host = Counted()
    for _ in range(50):
        host.ask(Agent_ID=STRANGER)
    before = host.recorded
    for _ in range(LIMITS.agent):
        assert host.ask(path="/nowhere", peer=certified_peer()).headers.get("audit-summary") is None
    assert host.recorded == before + LIMITS.agent
    assert host.ask(path="/nowhere", peer=certified_peer()).headers.get("audit-summary")
    kinds = {summary.fields["origin"]["kind"] for summary in host.summaries.take()}
    assert kinds == {"address", "agent"}


def test_all_strangers_together_are_bounded() -> None:
    """Who comes from a thousand addresses gets no thousand allowances; IPv6 counts by /64."""
    host = Counted()
    for number in range(100):
        host.ask(Agent_ID=STRANGER, peer=Peer(address=f"198.51.100.{number}"))
    assert host.recorded == LIMITS.strangers
    host.now += 600
    for number in range(100):
        host.ask(Agent_ID=STRANGER, peer=Peer(address=f"2001:db8::{number:x}"))
    assert host.recorded == LIMITS.strangers + LIMITS.address


def test_the_allowance_grows_back() -> None:
    """A minute later the next few have a record each again."""
    host = Counted()
    for _ in range(10):
        host.ask(Agent_ID=STRANGER)
    host.now += 60
    for _ in range(10):
        host.ask(Agent_ID=STRANGER)
    assert host.recorded == 2 * LIMITS.address


def test_unknown_identities_are_rated_by_address() -> None:
    """They were refused before anybody counted them; now the address is told to wait, and so is each that comes."""
    host = Counted(anonymous=5)
    statuses = [host.ask(Agent_ID=f"{number:064x}").status for number in range(7)]
    assert statuses == [401] * 5 + [429] * 2
    assert host.ask(path="/public").status == 429
    host = Counted(anonymous=5)
    for _ in range(5):
        host.malformed(Peer(address="203.0.113.9"))
    assert host.ask(path="/public").status == 429
    assert host.ask(path="/public", peer=Peer(address="198.51.100.1")).status == 200


def test_a_revoked_agent_is_rated_too() -> None:
    """It is refused before its rate is looked at, and counted all the same."""
    host = Counted()
    host.memory.put(CALLER, "retired")
    for _ in range(LIMITS.agent + 5):
        assert host.ask(peer=certified_peer()).status == 410
    assert host.recorded == LIMITS.agent


def test_what_may_have_had_an_effect_is_recorded_each() -> None:
    """A handler that ran and may have changed the world: its failure is no mere refusal."""

    def fail(context: Any) -> Any:
        raise Refusal(ForeignReason("upstream-failed", Status.CONFLICT), "It did not work.")

    host = Counted(fail)
    for number in range(LIMITS.agent + 10):
        body = json.dumps({"text": str(number)})
        assert host.ask("RESERVE", "/desk", certified_peer(), body=body).status == 409
    assert host.recorded == LIMITS.agent + 10
    # What only reads is summed up.
    host = Counted(fail)
    for _ in range(LIMITS.agent + 10):
        assert host.ask(peer=certified_peer()).status == 409
    assert host.recorded == LIMITS.agent


@pytest.mark.parametrize("given", [{}, {"Agent_ID": CALLER}], ids=["nameless", "by-header"])
def test_what_strangers_read_is_summed_up_beyond_some(given: dict[str, Any]) -> None:
    """Answered as ever, signed and marked as not durable; the summary has address, method, path and the name said."""
    host = Counted()
    answers = [host.ask(path="/public", **given) for _ in range(30)]
    assert {answer.status for answer in answers} == {200}
    assert host.recorded == LIMITS.reads
    assert len({answer.body for answer in answers}) == 1
    [summary] = host.summaries.take()
    assert summary.event_type == READS
    assert summary.fields["count"] == 30 - LIMITS.reads
    assert summary.fields["origin"] == {"kind": "address", "name": "203.0.113.9"}
    assert summary.fields["outcomes"] == [{"status": 200, "method": "QUERY", "path": "/public", "count": 25}]
    assert summary.fields.get("claimed", []) == ([{"agent_id": CALLER, "count": 25}] if given else [])
    assert {answer.headers.get("audit-summary") for answer in answers[5:]} == {summary.fields["summary_id"]}
    for answer, draft in zip(answers[5:], host.memory.ledger.undurable, strict=True):
        assert answer.headers.get("attribution-record") and answer.headers.get("audit-id")
        assert draft.payload["summary_id"] == summary.fields["summary_id"]


def test_reads_of_all_addresses_together_are_bounded() -> None:
    """A thousand addresses are no way around; refusals and reads do not use up each other's records."""
    host = Counted()
    for number in range(50):
        assert host.ask(path="/public", peer=Peer(address=f"203.0.113.{number}")).status == 200
    assert host.recorded == LIMITS.strangers_reads
    host.ask(Agent_ID=STRANGER)
    assert host.recorded == LIMITS.strangers_reads + 1


@each_row(
    "given",
    [
        {"path": "/public", "peer": certified_peer()},
        {"path": "/public", "peer": certified_peer(), "Agent_ID": CALLER},
        {"method": "RESERVE", "path": "/places", "body": '{"text": "x"}'},
        {"path": "/notes"},
    ],
    ids=["certified", "certified-named", "acting", "with-events"],
)
def test_other_successes_are_never_summed_up(given: dict[str, Any]) -> None:
    """Those of certified callers, those that act, and those whose record something else becomes true with."""

    def answer(context: Any) -> Any:
        noted = StreamEvent(chain=HOST_CHAIN, event_type="noted", fields={})
        return Answer(result={}, events=(noted,) if context.path == "/notes" else ())

    bindings = tuple(
        Binding(
            method=method,
            path=path,
            handler=BuiltInRecorder(answer),
            tier="B",
            min_assurance=Assurance.NONE,
            state_changing=method == "RESERVE",
        )
        for method, path in (("RESERVE", "/places"), ("QUERY", "/notes"))
    )
    host = Counted(bindings=bindings)
    assert {host.ask(**given).status for _ in range(100)} == {200}
    assert host.recorded == 100
    assert not host.summaries.waiting


def test_nobody_reads_who_was_stopped_meanwhile() -> None:
    """Where no record is written that the ledger could refuse, the state is looked at once more: 410, never 200."""
    host = Counted(lambda context: host.stop() if stopping else {})
    stopping = False
    for _ in range(LIMITS.reads + 1):
        assert host.ask(path="/public", Agent_ID=CALLER).status == 200
    assert host.summaries.waiting == 1
    stopping = True
    assert host.ask(path="/public", Agent_ID=CALLER).status == 410
    assert host.summaries.waiting == 1 and host.recorded == LIMITS.reads + 1, "the refusal has a record"


def test_a_flood_has_its_pace() -> None:
    """A summed-up answer waits; one with a record is as fast as its record."""
    host = Counted()
    for _ in range(3):
        host.ask(Agent_ID=STRANGER)
    answers: list[Response] = []
    request = Request(method="QUERY", path="/words", headers=Headers([("Agent-ID", STRANGER)]), line=b"x")
    waiting = host.dispatcher.dispatch(request, Peer(address="203.0.113.9"))
    Deferred.fromCoroutine(waiting).addCallback(answers.append)  # type: ignore[arg-type]
    host.memory.clock.advance(PAUSE * 0.9)
    assert not answers
    host.memory.clock.advance(PAUSE * 0.2)
    assert answers


def test_while_the_store_is_down_nothing_is_summed_up() -> None:
    """503 for everybody, as ever: nothing is told as counted that a crash would lose."""
    host = Counted()
    host.memory.ledger.failing = True
    host.memory.ledger.healthy = False
    assert {host.ask(Agent_ID=STRANGER).status for _ in range(10)} == {503}
    assert not host.summaries.waiting
