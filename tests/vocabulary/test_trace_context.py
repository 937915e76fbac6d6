"""W3C Trace Context from anybody: what is read, and what counts as absent."""

from __future__ import annotations

import time

from hypothesis import given
from hypothesis import strategies as st

from agtphost.vocabulary.trace_context import LONGEST_STATE, TraceContext, is_state, read
from tests.measuring import measured
from tests.rows import each_row

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = "00f067aa0ba902b7"
GOOD = f"00-{TRACE}-{PARENT}-01"

MALFORMED = [
    "",
    "00",
    GOOD[:-1],
    GOOD + "0",
    GOOD + "-extra",
    f"{GOOD}, {GOOD}",
    GOOD.upper(),
    f" {GOOD[1:]}",
    f"ff-{TRACE}-{PARENT}-01",
    f"0g-{TRACE}-{PARENT}-01",
    f"00-{'0' * 32}-{PARENT}-01",
    f"00-{TRACE}-{'0' * 16}-01",
    f"00-{TRACE[:-1]}g-{PARENT}-01",
    f"00-{TRACE}-{PARENT[:-1]}G-01",
    f"00-{TRACE}-{PARENT}-0x",
    f"00_{TRACE}_{PARENT}_01",
    f"00-{TRACE}{PARENT}--01",
    f"00-{TRACE[:-1]}٣-{PARENT}-01",
    f"00-{TRACE}-{PARENT}-1\n",
    f"00-{TRACE}-{PARENT}-01"[:-2] + "\r\n",
]


@each_row("value", MALFORMED)
def test_what_is_malformed_counts_as_absent(value: str) -> None:
    """To the letter: nothing of it is taken."""
    assert read(value, "vendor=1") is None


def test_what_is_well_formed_is_read() -> None:
    """The control, with and without a state; bits of the flags that nobody knows yet are no fault."""
    assert read(GOOD) == TraceContext(TRACE, PARENT, 1)
    assert read(GOOD, "a=1,b@c=2") == TraceContext(TRACE, PARENT, 1, "a=1,b@c=2")
    assert read(f"00-{TRACE}-{PARENT}-ff") == TraceContext(TRACE, PARENT, 255)
    assert read(f"cc-{TRACE}-{PARENT}-00") == TraceContext(TRACE, PARENT, 0)
    assert read(None, "a=1") is None


@each_row(
    "value",
    [
        "A=1",
        "a",
        "a=",
        "=1",
        "a=1,a=2",
        "a=1=2",
        "a=\t",
        "a=\x7f",
        "a=é",
        "é=1",
        "@a=1",
        "a@=1",
        "a@b@c=1",
        "a b=1",
        ",",
        ",".join(f"k{number}=1" for number in range(33)),
        "a=" + "x" * 257,
        "a" * 257 + "=1",
        "a=1," + "b=" + "x" * (LONGEST_STATE - 5),
        "a=1\r\nAgent-ID: x",
    ],
)
def test_a_state_that_is_malformed_or_too_long_is_left_out(value: str) -> None:
    """And what it stands beside is read all the same."""
    assert read(GOOD, value) == TraceContext(TRACE, PARENT, 1)


@each_row(
    "value",
    [
        "a=1",
        "a=1, b=2",
        "a=1,,b=2",
        "0tenant@sys=x y",
        "a=" + "x" * 256,
        "a=" + "x" * 251 + ",b=" + "x" * 255 + "",
        ",".join(f"k{number}=1" for number in range(32)),
    ],
)
def test_a_state_of_the_grammar_is_kept(value: str) -> None:
    """The control."""
    assert len(value) <= LONGEST_STATE
    assert is_state(value)


@given(st.text(max_size=60), st.text(max_size=600))
def test_whatever_is_read_can_be_sent(parent: str, state: str) -> None:
    """No text makes it fail, and what it gives is ASCII without controls."""
    for found in (read(parent, state), read(GOOD, state)):
        if found is not None:
            assert found.state == "" or (found.state.isascii() and found.state.replace("\t", " ").isprintable())


@measured
@each_row("value", ["a=1," * 20_000, "a" * 80_000, "=" * 80_000, "a@" * 40_000])
def test_long_states_are_refused_at_once(value: str) -> None:
    """By their length, before anything looks at them."""
    began = time.thread_time()
    assert not is_state(value)
    assert time.thread_time() - began < 0.01
