"""The circuit of an upstream: closed, open, half-open."""

from __future__ import annotations

from agtphost.upstream.external import Circuit, State


def test_failures_in_a_row_open_it_and_one_trial_decides() -> None:
    """Security section 2.4: 5 failures open 30 s; then one call is let through, and no second one."""
    now = [0.0]
    circuit = Circuit(5, 30.0, lambda: now[0])
    for _ in range(4):
        assert circuit.admit()
        assert not circuit.note_failure()
    circuit.note_success()
    for _ in range(4):
        circuit.note_failure()
    assert circuit.state is State.CLOSED, "a success in between begins anew"
    assert circuit.note_failure()
    assert circuit.state is State.OPEN and not circuit.admit() and circuit.wait == 30.0
    now[0] = 29.9
    assert not circuit.admit()
    now[0] = 30.0
    assert circuit.admit() and circuit.state is State.HALF_OPEN
    assert not circuit.admit(), "one trial at a time"
    assert circuit.note_failure() and circuit.wait == 30.0
    now[0] = 60.0
    assert circuit.admit()
    circuit.note_success()
    assert circuit.state is State.CLOSED and circuit.admit() and circuit.wait == 0.0


def test_a_trial_that_tells_nothing_leaves_room_for_another() -> None:
    """A trial whose caller left does not keep the circuit half-open for ever."""
    circuit = Circuit(1, 0.0, lambda: 0.0)
    circuit.note_failure()
    assert circuit.admit()
    circuit.note_undecided()
    assert circuit.admit()
