"""The host's time: jumps of the system's clock are told and not followed, and small steps are."""

from __future__ import annotations

from random import Random

from agtphost.audit.host_clock import AHEAD, BELIEVED_AFTER, JUMP, ClockEvent, HostClock, JumpKind
from agtphost.vocabulary.bounds import DAY, HOUR

EPOCH = 1_900_000_000.0


class Clocks:
    """A host's clock over two that the test sets."""

    def __init__(self) -> None:
        self.passed = 700.0
        self.ahead = 0.0
        self.clock = self.started()

    def started(self) -> HostClock:
        """Another process of the host."""
        return HostClock(self.wall, lambda: self.passed)

    def wall(self) -> float:
        return EPOCH + self.passed + self.ahead

    def looks(self, seconds: float, every: float = 5.0) -> list[ClockEvent]:
        """What is told while so much time passes."""
        told = []
        for _ in range(int(seconds / every)):
            self.passed += every
            told.append(self.clock.look())
        return [each for each in told if each is not None]

    @property
    def true(self) -> float:
        return EPOCH + self.passed


def kinds(told: list[ClockEvent]) -> list[JumpKind]:
    return [each.kind for each in told]


def test_a_jump_is_told_once_and_not_followed_in_either_direction() -> None:
    """Days ahead or back and then right again: the host's time is that which passed, to the second."""
    for ahead in (3 * DAY, -3 * DAY, JUMP + 1, -JUMP - 1):
        clocks = Clocks()
        clocks.looks(60)
        clocks.ahead = ahead
        told = clocks.looks(600)
        assert kinds(told) == [JumpKind.JUMPED] and told[0].seconds == ahead and told[0].leap == 0
        assert clocks.clock.seconds() == clocks.true
        clocks.ahead = 0.0
        assert kinds(clocks.looks(600)) == [JumpKind.RETURNED]
        assert clocks.clock.seconds() == clocks.true


def test_no_jump_shows_between_two_looks() -> None:
    """The system's clock is not read where the host's time is: what expires does not depend on when a look comes."""
    clocks = Clocks()
    clocks.ahead = 30 * DAY
    assert clocks.clock.seconds() == clocks.true


def test_small_differences_are_followed_without_a_word() -> None:
    """A time server steps by seconds, or slews by 500 ppm for two days: the host's time is the system's."""
    clocks = Clocks()
    clocks.ahead = 20.0
    assert not clocks.looks(5) and clocks.clock.seconds() == clocks.wall()
    for _ in range(2 * DAY // 60):
        clocks.ahead += 60 * 0.0005
        assert not clocks.looks(60, every=60)
        assert clocks.clock.seconds() == clocks.wall()


def test_steps_that_stay_small_do_not_add_up_unseen() -> None:
    """Who moves the clock by a minute again and again has moved it by no more than a jump before that is told."""
    clocks = Clocks()
    moved, told = 0.0, []
    while not told and moved < DAY:
        moved += 60
        clocks.ahead = moved
        told = clocks.looks(5)
    assert kinds(told) == [JumpKind.JUMPED]
    assert clocks.clock.seconds() - clocks.true <= JUMP


def test_a_jump_that_lasts_is_believed_and_a_second_one_begins_anew() -> None:
    """The time that it has to last is counted from the last jump."""
    clocks = Clocks()
    clocks.ahead = float(DAY)
    assert kinds(clocks.looks(BELIEVED_AFTER - 60)) == [JumpKind.JUMPED]
    clocks.ahead = 9.0 * DAY
    assert kinds(clocks.looks(BELIEVED_AFTER - 60)) == [JumpKind.JUMPED]
    assert clocks.clock.seconds() == clocks.true
    told = clocks.looks(600)
    assert kinds(told) == [JumpKind.BELIEVED] and told[0].leap == 9 * DAY
    assert clocks.clock.seconds() == clocks.wall() == clocks.true + 9 * DAY
    assert not clocks.looks(600)


def test_sleep_is_time_that_passed() -> None:
    """The steady clock goes on while the machine sleeps: a week later nothing is told, and a week has passed."""
    clocks = Clocks()
    clocks.looks(60)
    clocks.passed += 7 * DAY
    assert not clocks.looks(60) and clocks.clock.seconds() == clocks.true


def test_a_start_far_behind_the_newest_record_goes_on_from_there() -> None:
    """The newest signed time is the lower bound, until the difference has lasted; a clock set right ends it at once."""
    clocks = Clocks()
    newest = clocks.wall()
    clocks.ahead = -5.0 * DAY
    clocks.clock = clocks.started()
    event = clocks.clock.begin(newest)
    assert event is not None and event.kind is JumpKind.BEHIND and event.seconds == -5 * DAY
    assert clocks.clock.seconds() == newest
    assert clocks.clock.latest() == clocks.wall(), "it may be the record that was wrong: certificates follow the clock"
    assert not clocks.looks(60) and clocks.clock.seconds() == newest + 60
    clocks.ahead = 0.0
    assert kinds(clocks.looks(5)) == [JumpKind.RETURNED] and clocks.clock.seconds() == clocks.wall()


def test_a_start_long_after_the_newest_record_is_believed_and_told() -> None:
    """A machine that was off for a week is normal; what was kept is kept for as long again."""
    clocks = Clocks()
    for behind, expected in ((7.0 * DAY, JumpKind.AHEAD), (AHEAD - 1, None), (-JUMP + 1, None)):
        clocks.clock = clocks.started()
        event = clocks.clock.begin(clocks.wall() - behind)
        assert (None if event is None else event.kind) is expected
        assert clocks.clock.seconds() == clocks.wall()
        assert event is None or event.leap == behind
    assert clocks.started().begin(0.0) is None, "nothing is signed yet"


def test_leaps_count_for_as_long_as_they_are_remembered() -> None:
    """Several add up; each ends by itself, and where its item is gone."""
    clocks = Clocks()
    clock = clocks.clock
    clock.remember("a", clock.seconds() + HOUR, 100.0)
    clock.remember("b", clock.seconds() + DAY, 1000.0)
    assert clock.leaped_seconds() == 1100
    clocks.passed += HOUR
    assert clock.leaped_seconds() == 1000
    clock.forget("b")
    assert clock.leaped_seconds() == 0


def test_what_others_wrote_ends_by_the_later_clock() -> None:
    """Ahead, the system's clock counts, as it does in TLS; behind, the host's: what ended does not begin again."""
    clocks = Clocks()
    clocks.looks(60)
    clocks.ahead = float(DAY)
    assert clocks.clock.latest() == clocks.wall()
    clocks.ahead = -float(DAY)
    assert clocks.clock.latest() == clocks.true


def test_whatever_the_clock_does_the_host_is_late_by_no_more_than_it_lasts() -> None:
    """Ten thousand random steps: the host's time never goes ahead of both clocks, and goes back only where believed."""
    seed = 20_270_131
    print("seed", seed)
    random, clocks = Random(seed), Clocks()
    before = clocks.clock.seconds()
    for _ in range(10_000):
        if random.random() < 0.02:
            clocks.ahead = random.choice((0.0, random.uniform(-9, 9) * DAY, random.uniform(-1, 1) * JUMP))
        clocks.passed += random.uniform(0.1, 20)
        event, ahead = clocks.clock.look(), clocks.clock.seconds()
        if event is None or event.kind is JumpKind.JUMPED:
            assert ahead - before > -2 * JUMP
            assert ahead - before < 20 + 2 * JUMP
        before = ahead
