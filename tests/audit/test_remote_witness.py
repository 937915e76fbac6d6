"""A witness on another host: pauses, proofs and contradictions, on a clock of the test's own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pytest
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from zope.interface.verify import verifyObject

from agtphost.audit import checkpoint, cosignature
from agtphost.audit.remote_witness import RETRY_SECONDS_MOST, Answer, RemoteWitness, WitnessUnreachable
from agtphost.iagtp import IWitness
from agtphost.identity.key_history import succeed
from agtphost.identity.keys import SigningKey, VerifyingKey
from agtphost.stores import StoreError
from tests.identity.samples import key_of
from tests.rows import each_row

LOG, WITNESS = key_of("remote_witness log witness 2"), key_of("remote_witness log witness")
ROOT = bytes(32)
WHEN = "2026-11-21T00:00:00Z"


class Reactor(Clock):
    """The clock, whose other threads are this one."""

    def callFromThread(self, callable: Callable[..., object], *args: object) -> None:
        callable(*args)


class Wire:
    """A witness as the test scripts it."""

    def __init__(self) -> None:
        self.answers: list[Answer | Exception | Deferred[Answer]] = []
        self.submitted: list[Mapping[str, Any]] = []
        self.seen: Answer | Exception = (404, {"reason": "checkpoint-unseen"})
        self.signs = WITNESS

    def last(self, origin: str) -> Answer:
        assert origin == "log.test"
        if isinstance(self.seen, Exception):
            raise self.seen
        return self.seen

    async def submit(self, origin: str, attestation: Mapping[str, Any]) -> Answer:
        self.submitted.append(attestation)
        answer = self.answers.pop(0) if self.answers else None
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, Deferred):
            return await answer
        return answer or (200, {"cosignature": cosignature.cosign(attestation["checkpoint"], "w", self.signs, 1)})

    async def keys(self) -> Iterable[VerifyingKey]:
        return (WITNESS.public,)


class WitnessSetup:
    def __init__(self, **options: Any) -> None:
        self.clock = Reactor()
        self.wire = Wire()
        self.cosigned: list[int] = []
        self.witness = RemoteWitness(
            "agtp://w.test",
            origin="log.test",
            keys=[LOG.public],
            reactor=self.clock,
            transport=self.wire,
            prove=self._prove,
            cosigned=lambda size, line: self.cosigned.append(size),
            seconds=10.0,
            chance=lambda: 1.0,
            **options,
        )

    @staticmethod
    async def _prove(first: int, second: int) -> Sequence[bytes]:
        return [first.to_bytes(16, "big") + second.to_bytes(16, "big")]

    def saw(self, size: int) -> None:
        self.witness.saw(checkpoint.issue("log.test", size, ROOT, LOG))


def test_it_is_a_witness() -> None:
    """The interface is kept."""
    assert verifyObject(IWitness, WitnessSetup().witness)


def test_the_newest_checkpoint_goes_out_at_most_once_in_a_while() -> None:
    """Of many, the first at once and the last after the pause, with a proof from the one before."""
    setup = WitnessSetup()
    for size in range(1, 8):
        setup.saw(size)
        setup.clock.advance(0.5)
    assert setup.cosigned == [1]
    setup.clock.advance(10)
    assert setup.cosigned == [1, 7]
    assert [each["first"] for each in setup.wire.submitted] == [0, 1]
    assert setup.wire.submitted[1]["proof"] and setup.witness.state == "idle"
    setup.clock.advance(1000)
    assert len(setup.wire.submitted) == 2


def test_a_dead_witness_is_asked_after_ever_longer_pauses() -> None:
    """Nothing piles up; once it is back, it gets the newest."""
    setup = WitnessSetup()
    setup.wire.answers = [WitnessUnreachable("refused")] * 12
    for size in range(1, 1_001):
        setup.saw(size)
        setup.clock.advance(1)
    assert 8 <= len(setup.wire.submitted) <= 12
    assert setup.cosigned == [] and setup.witness.state == "down"
    setup.wire.answers = []
    setup.clock.advance(RETRY_SECONDS_MOST + 1)
    assert setup.cosigned == [1_000]
    assert setup.witness.state == "idle"


def test_it_is_told_for_how_long_a_checkpoint_waits() -> None:
    """0 as long as none does; while it is down, longer and longer; and 0 again once it has cosigned the newest."""
    setup = WitnessSetup()
    setup.clock.advance(5_000)
    assert setup.witness.age == 0
    setup.wire.answers = [WitnessUnreachable("refused")] * 3
    setup.saw(1)
    setup.clock.advance(3)
    assert setup.witness.age == 3
    while setup.wire.answers:
        setup.clock.advance(10)
    assert setup.witness.age > 20 and setup.cosigned == []
    while not setup.cosigned:
        setup.clock.advance(10)
    assert setup.witness.age == 0
    setup.saw(2)
    setup.saw(3)
    setup.clock.advance(10)
    assert setup.cosigned == [1, 3] and setup.witness.age == 0


def test_the_pause_has_an_end() -> None:
    """Five minutes at most."""
    setup = WitnessSetup()
    setup.wire.answers = [WitnessUnreachable("refused")] * 100
    setup.saw(1)
    for _ in range(100):
        setup.clock.advance(1000)
    before = len(setup.wire.submitted)
    setup.wire.answers = [WitnessUnreachable("refused")] * 100
    setup.saw(2)
    setup.clock.advance(RETRY_SECONDS_MOST + 1)
    assert len(setup.wire.submitted) > before


def test_a_witness_that_hangs_delays_nothing() -> None:
    """One submission at a time; checkpoints keep coming, only the newest waits."""
    setup = WitnessSetup()
    hanging: Deferred[Answer] = Deferred()
    setup.wire.answers = [hanging]
    setup.saw(1)
    setup.clock.advance(0)
    for size in range(2, 50):
        setup.saw(size)
        setup.clock.advance(60)
    assert len(setup.wire.submitted) == 1
    hanging.errback(WitnessUnreachable("timed out"))
    setup.clock.advance(60)
    assert [each["checkpoint"].split("\n")[1] for each in setup.wire.submitted] == ["1", "49"]


def test_the_proof_begins_where_the_witness_is() -> None:
    """409 with the size: asked again at once from there."""
    setup = WitnessSetup()
    setup.wire.answers = [(409, {"reason": "checkpoint-proof-outdated", "size": 3})]
    setup.saw(9)
    setup.clock.advance(0)
    assert [each["first"] for each in setup.wire.submitted] == [0, 3]
    assert setup.cosigned == [9]


@each_row(
    ("answer", "state"),
    [
        ((409, {"reason": "checkpoint-inconsistent", "explanation": "It is smaller."}), "contradicted"),
        ((409, {"reason": "checkpoint-proof-outdated", "size": True}), "down"),
        ((409, {"reason": "checkpoint-proof-outdated", "size": -1}), "down"),
        ((503, {"reason": "store-unavailable"}), "down"),
        ((200, {}), "down"),
        ((200, {"cosignature": "\u2014 w AAAA\n"}), "down"),
        (
            (
                200,
                {"cosignature": cosignature.cosign(checkpoint.issue("log.test", 8, ROOT, LOG).note, "w", WITNESS, 1)},
            ),
            "down",
        ),
        (RuntimeError("a surprise"), "down"),
    ],
)
def test_what_is_no_cosignature_is_not_kept(answer: Answer | Exception, state: str) -> None:
    """Refusals, wrong signatures and surprises leave the witness to be asked again."""
    setup = WitnessSetup()
    setup.wire.answers = [answer]
    setup.saw(9)
    setup.clock.advance(0)
    assert setup.cosigned == [] and setup.witness.state == state
    setup.clock.advance(RETRY_SECONDS_MOST + 1)
    assert setup.cosigned == [9]


def test_a_stopped_witness_sends_nothing_more() -> None:
    """Neither what waits nor what comes; what is under way is given up."""
    setup = WitnessSetup()
    hanging: Deferred[Answer] = Deferred()
    setup.wire.answers = [hanging]
    setup.saw(1)
    setup.clock.advance(0)
    setup.saw(2)
    setup.witness.stop()
    setup.saw(3)
    setup.clock.advance(10_000)
    assert len(setup.wire.submitted) == 1 and setup.clock.getDelayedCalls() == []


@each_row("required", [False, True])
@each_row("seen", [WitnessUnreachable("no route"), (503, {}), (401, {"reason": "not-entitled"})])
def test_a_witness_that_cannot_be_asked_at_start(seen: Answer | Exception, required: bool) -> None:
    """A warning, or no start where it is required."""
    setup = WitnessSetup(required=required)
    setup.wire.seen = seen
    if required:
        with pytest.raises(StoreError, match="required"):
            setup.witness.last()
    else:
        assert setup.witness.last() is None


def test_what_it_saw_last_is_read_and_continued() -> None:
    """The checkpoint of the answer; the next proof begins there."""
    setup = WitnessSetup()
    setup.wire.seen = (200, {"checkpoint": checkpoint.issue("log.test", 5, ROOT, LOG).note})
    found = setup.witness.last()
    assert found is not None and found.size == 5
    setup.saw(9)
    setup.clock.advance(0)
    assert setup.wire.submitted[0]["first"] == 5


@each_row(
    "note",
    [
        "nonsense",
        checkpoint.issue("log.test", 5, ROOT, key_of("unbelieved")).note,
        checkpoint.issue("other.test", 5, ROOT, LOG).note,
        checkpoint.issue("log.test", 5, ROOT, LOG).note.replace("\n5\n", "\n4\n"),
    ],
    ids=["nonsense", "another key", "another log", "another size"],
)
def test_what_cannot_be_believed_keeps_the_host_from_starting(note: str) -> None:
    """Fail closed: either side is not what it was."""
    setup = WitnessSetup()
    setup.wire.seen = (200, {"checkpoint": note})
    with pytest.raises(StoreError, match="does not verify"):
        setup.witness.last()


def test_links_of_keys_go_along_both_ways() -> None:
    """The log's with the checkpoint, the witness's with its cosignature; a link that is forged is no cosignature."""
    new, thief = SigningKey.generate(), SigningKey.generate()
    own = [dict(succeed(LOG, SigningKey.generate(), server_id="log.test", rotated_at=WHEN).statement)]
    good = dict(succeed(WITNESS, new, server_id="w", rotated_at=WHEN).statement)
    stolen = succeed(thief, new, server_id="w", rotated_at=WHEN).statement
    forged = {**good, "old_signature": stolen["old_signature"]}
    setup = WitnessSetup(links=lambda issued: own)

    def answered(size: int, key: SigningKey, links: list[dict[str, str]]) -> Answer:
        note = checkpoint.issue("log.test", size, ROOT, LOG).note
        return 200, {"cosignature": cosignature.cosign(note, "w", key, 1), "links": links}

    setup.wire.answers = [answered(1, new, [forged]), answered(1, new, []), answered(1, WITNESS, [good])]
    setup.saw(1)
    for _ in range(4):
        setup.clock.advance(15)
    assert setup.cosigned == [1] and setup.witness.state == "idle", "the fourth answer is of the first key, unlinked"
    assert len(setup.wire.submitted) == 4 and all(each["links"] == own for each in setup.wire.submitted)
    setup.wire.answers = [answered(2, new, [good])]
    setup.saw(2)
    setup.clock.advance(15)
    assert setup.cosigned == [1, 2]
