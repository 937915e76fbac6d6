"""What a server may make the host read unasked."""

from __future__ import annotations

from twisted.internet.task import Clock

from agtphost.upstream.throttle import LEAST, PATIENCE, SLICE, SMALLEST, UNSOLICITED_OCTETS, ReadThrottle


class Source:
    """A source that sends messages of one length whenever it may."""

    def __init__(self, octets: int) -> None:
        self.clock = Clock()
        self.octets = octets
        self.running = True
        self.allowance = ReadThrottle(self.clock, self.pause, self.resume)

    def pause(self) -> None:
        self.running = False

    def resume(self) -> None:
        self.running = True

    def send(self, seconds: float) -> int:
        """As much as goes in that time; the messages that went."""
        sent = 0
        end = self.clock.seconds() + seconds
        while self.clock.seconds() < end:
            while self.running:
                self.allowance.spend(self.octets)
                sent += 1
            self.clock.advance(SLICE / 4)
        return sent


def test_short_messages_count_for_what_they_cost() -> None:
    """P14: messages of two octets are no more in number than those of a kibibyte."""
    assert Source(2).send(1.0) == Source(LEAST).send(1.0) <= UNSOLICITED_OCTETS // LEAST + 4


def test_a_flood_that_does_not_end_is_worth_less_and_less() -> None:
    """P13: after two seconds its share falls to a small part; a source that then keeps quiet has it back."""
    source = Source(LEAST)
    first = source.send(1.0)
    source.send(PATIENCE * SLICE + 8 * SLICE)
    late = source.send(1.0)
    assert late <= first * SMALLEST + 8
    source.clock.advance(10.0)
    assert source.send(1.0) == first


def test_a_closed_allowance_pauses_and_resumes_nothing_more() -> None:
    """The end of a link leaves no timer behind."""
    source = Source(UNSOLICITED_OCTETS)
    source.allowance.spend(UNSOLICITED_OCTETS)
    assert source.allowance.is_paused and not source.running
    source.allowance.close()
    assert not source.allowance.is_paused and not source.clock.getDelayedCalls()
