"""The life of a connection: every transition by its effects, and none that is missing."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from automat import NoTransition

from agtphost.errors import RemoteProtocolError
from agtphost.protocols.connection_states import Inputs, Wait, automaton
from agtphost.vocabulary.reasons import Reason
from tests.rows import each_row

ERROR = RemoteProtocolError(Reason.INVALID_REQUEST_LINE, "It is seeded.")


class Recorded:
    """Lists what the machine causes."""

    def __init__(self) -> None:
        self.effects: list[object] = []

    def expect(self, wait: Wait) -> None:
        self.effects.append(wait)

    def refuse(self, error: RemoteProtocolError) -> None:
        self.effects.append(error.reason)

    def close(self) -> None:
        self.effects.append("close")

    def abort(self) -> None:
        self.effects.append("abort")


INPUTS: dict[str, Callable[[Inputs], None]] = {
    "secured": lambda machine: machine.on_secured(),
    "malformed": lambda machine: machine.on_malformed(ERROR),
    "ended": lambda machine: machine.on_ended(),
    "cleared": lambda machine: machine.on_cleared(),
    "broken": lambda machine: machine.on_broken(),
    "departed": lambda machine: machine.on_departed(),
}

WAYS: dict[str, Sequence[str]] = {
    "handshaking": (),
    "serving": ("secured",),
    "refusing": ("secured", "malformed"),
    "flushing": ("secured", "ended"),
    "closing": ("secured", "ended", "cleared"),
    "closed": ("secured", "departed"),
}
"""How each state is reached."""

CUT = [Wait.GONE, "abort"]
FORGET = [Wait.GONE]
FLUSH = [Wait.FLUSHING]

TABLE: dict[tuple[str, str], list[object]] = {
    ("handshaking", "secured"): [Wait.IDLE],
    ("handshaking", "ended"): CUT,
    ("handshaking", "broken"): CUT,
    ("handshaking", "departed"): FORGET,
    ("serving", "malformed"): [Wait.ANSWER, "invalid-request-line"],
    ("serving", "ended"): FLUSH,
    ("serving", "broken"): CUT,
    ("serving", "departed"): FORGET,
    ("refusing", "ended"): FLUSH,
    ("refusing", "broken"): CUT,
    ("refusing", "departed"): FORGET,
    ("flushing", "ended"): [],
    ("flushing", "cleared"): [Wait.CLOSE, "close"],
    ("flushing", "broken"): CUT,
    ("flushing", "departed"): FORGET,
    ("closing", "ended"): [],
    ("closing", "broken"): CUT,
    ("closing", "departed"): FORGET,
    ("closed", "secured"): [],
    ("closed", "ended"): [],
    ("closed", "broken"): [],
    ("closed", "departed"): [],
}


def effects_of(state: str, happening: str) -> list[object]:
    """What ``happening`` causes in ``state``."""
    recorded = Recorded()
    machine = automaton(recorded)
    for step in WAYS[state]:
        INPUTS[step](machine)
    recorded.effects.clear()
    INPUTS[happening](machine)
    return recorded.effects


@each_row(("state", "happening"), TABLE, ids="-".join)
def test_every_transition(state: str, happening: str) -> None:
    """Each input that a state knows has exactly the effects of the table."""
    assert effects_of(state, happening) == TABLE[state, happening]


@each_row(
    ("state", "happening"),
    [(state, happening) for state in WAYS for happening in INPUTS if (state, happening) not in TABLE],
    ids="-".join,
)
def test_there_are_no_others(state: str, happening: str) -> None:
    """An input that cannot happen in a state is an error, not silence: it fails the connection."""
    with pytest.raises(NoTransition):
        effects_of(state, happening)


def test_a_whole_life() -> None:
    """From handshake to refusal to the peer's departure, effect by effect."""
    recorded = Recorded()
    machine = automaton(recorded)
    for step in ("secured", "malformed", "ended", "cleared", "ended", "departed", "broken"):
        INPUTS[step](machine)
    assert recorded.effects == [
        Wait.IDLE,
        Wait.ANSWER,
        "invalid-request-line",
        Wait.FLUSHING,
        Wait.CLOSE,
        "close",
        Wait.GONE,
    ]
