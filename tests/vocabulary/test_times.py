"""Times as RFC 3339 texts."""

from __future__ import annotations

import time

import pytest

from agtphost.identity.genesis import is_timestamp
from agtphost.vocabulary import times


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "1970-01-01T00:00:00Z"), (1_801_353_599.25, "2027-01-30T23:59:59Z"), (951_782_400, "2000-02-29T00:00:00Z")],
)
def test_a_time_has_whole_seconds_in_utc(seconds: float, text: str) -> None:
    """As all other parts read it."""
    assert times.stamp(seconds) == text and is_timestamp(text)


def test_without_a_time_it_is_the_present_one() -> None:
    """Between two looks at the clock."""
    before = times.stamp(time.time())
    assert before <= times.stamp() <= times.stamp(time.time())


def test_instants_never_repeat_and_never_go_back() -> None:
    """Whatever the clock says; their texts are in their order."""
    instants = times.Instants()
    texts = [instants.stamp(seconds) for seconds in (5.0, 5.0, 3.0, 5.000_001, 6.0)]
    assert texts == sorted(set(texts)) and texts[0] == "1970-01-01T00:00:05.000000Z"
