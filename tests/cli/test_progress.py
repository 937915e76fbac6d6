"""How far a long command is: what is told, how often, and to whom."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import redirect_stderr

import click
import pytest
from twisted.internet.task import Clock

from agtphost.cli.failures import JSON_MODE
from agtphost.cli.progress import EVERY, show_progress


class Terminal(io.StringIO):
    """Standard error with somebody in front of it."""

    def isatty(self) -> bool:
        return True

    def lines(self) -> list[str]:
        """What was shown, one line in the place of the other."""
        return self.getvalue().split("\r\x1b[K")


@pytest.mark.parametrize(
    ("total", "shown"),
    [
        (None, ["", "2 records", "4 records", ""]),
        (4, ["", "2 of 4 (50 %) records", "4 of 4 (100 %) records", ""]),
    ],
)
def test_the_count_and_its_share(total: int | None, shown: list[str]) -> None:
    """Told after each tenth of a second and not more often; nothing stays at the end."""
    clock = Clock()

    def records() -> Iterator[int]:
        for number in range(4):
            clock.advance(EVERY / 2)
            yield number

    with redirect_stderr(Terminal()) as terminal:
        assert list(show_progress(records(), "records", total, clock=clock.seconds)) == [0, 1, 2, 3]
    assert terminal.lines() == shown


def test_a_failure_leaves_no_line() -> None:
    """What is said next begins on a clean line."""
    with redirect_stderr(Terminal()) as terminal, pytest.raises(RuntimeError):
        for _ in show_progress(range(4), "records", clock=iter((0, EVERY, EVERY)).__next__):
            if terminal.getvalue():
                raise RuntimeError
    assert terminal.lines() == ["", "1 records", ""]


def test_programs_are_told_nothing() -> None:
    """None with --json, though standard error is a terminal; none where it is not."""
    with redirect_stderr(Terminal()) as terminal, click.Context(click.Command("verify")) as context:
        context.meta[JSON_MODE] = True
        assert list(show_progress(range(4), "records")) == [0, 1, 2, 3]
    with redirect_stderr(io.StringIO()) as unwatched:
        assert list(show_progress(range(4), "records")) == [0, 1, 2, 3]
    assert terminal.getvalue() == unwatched.getvalue() == ""
