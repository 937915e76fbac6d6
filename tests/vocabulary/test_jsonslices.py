"""Large JSON texts in slices: the same octets, and no slice that takes long."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agtphost.vocabulary import jsonslices, jsontext
from tests.measuring import measured

SCALARS = st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=90)
VALUES = st.recursive(
    SCALARS,
    lambda below: st.lists(below, max_size=6) | st.dictionaries(st.text(max_size=5), below, max_size=6),
    max_leaves=60,
)
LONGEST = 0.05
"""Seconds of CPU time: the reactor never waits longer."""


@given(VALUES, st.integers(1, 30), st.integers(1, 20))
def test_slices_are_the_same_text(value: Any, heavy: int, text: int) -> None:
    """However small the slices are."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jsonslices, "HEAVY", heavy)
        patch.setattr(jsonslices, "TEXT", text)
        assert b"".join(jsonslices.slices(value)) == jsontext.encode(value)


def large(kind: str) -> Any:
    """A result of about 16 MiB."""
    if kind == "text":
        return {"content": [{"type": "text", "text": "a line of a file\n" * 1_000_000}]}
    if kind == "records":
        return {"records": [{"seq": number, "payload": {"a": "b" * 200, "c": [1, 2, 3]}} for number in range(50_000)]}
    return {str(number): number for number in range(800_000)}


@pytest.fixture
def uncollected() -> Iterator[None]:
    """No garbage is looked for meanwhile: that takes as long as the heap of the other tests is large."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@measured
@pytest.mark.usefixtures("uncollected")
@pytest.mark.parametrize("kind", ["text", "records", "members"])
def test_no_slice_takes_long(kind: str) -> None:
    """16 MiB are written in slices of less than 50 ms; the control is the same in one go, which takes ten times one."""
    value, longest, octets = large(kind), 0.0, 0
    pieces = jsonslices.slices(value)
    while True:
        began = time.thread_time()
        piece = next(pieces, None)
        longest = max(longest, time.thread_time() - began)
        if piece is None:
            break
        octets += len(piece)
    began = time.thread_time()
    whole = jsontext.encode(value)
    at_once = time.thread_time() - began
    assert octets == len(whole) > 8 << 20
    assert longest < LONGEST
    assert kind == "text" or at_once > 5 * longest


@pytest.mark.parametrize("value", [[float("nan")] * 30, {"a": ["x" * 50_000, "\ud800" + "y" * 50_000]}])
def test_what_json_cannot_hold_is_refused(value: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in one go."""
    monkeypatch.setattr(jsonslices, "HEAVY", 4)
    with pytest.raises(ValueError, match=r"not JSON compliant|surrogates not allowed"):
        b"".join(jsonslices.slices(value))
