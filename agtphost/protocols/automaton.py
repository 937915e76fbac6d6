"""
The states of one server connection, and what follows what.

How it works. The machine knows nothing of octets: :class:`Happening` is all that can
happen to a connection, :class:`Effects` all that it causes. Each state is one
:class:`Wait`: whom the connection waits for, which is also what decides its deadline
and whether requests are read. The rules:

- ``idle``, ``receiving header`` and ``receiving body`` are the only states that read.
  From a request to the moment the transport has taken its whole answer, nothing is parsed.
- Whoever is late gets what the state allows: a silent peer is closed, one in the middle
  of a message gets the one refusal 408, one that does not read or does not complete its
  handshake is cut.
- After ``closing`` comes ``closed``, by the peer's doing or by the deadline.
- ``closed`` takes everything and does nothing: a handler that is still running then finds
  nobody to answer.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, Protocol

from automat import TypeMachineBuilder

from agtphost.errors import RemoteProtocolError
from agtphost.vocabulary.status import Status
from agtphost.wire import Request


class Wait(Enum):
    """Whom a connection waits for."""

    HANDSHAKE = "the peer's TLS handshake"
    IDLE = "the next request"
    HEADER = "the rest of a header"
    BODY = "the rest of a body"
    ANSWER = "this host's answer"
    TAKING = "the peer, to take what was written"
    CLOSE = "the peer's side of closing"
    GONE = "nobody"


class Effects(Protocol):
    """What the machine causes."""

    def expect(self, wait: Wait) -> None:
        """From now on the connection waits for this; sets the deadline anew."""

    def dispatch(self, request: Request) -> None:
        """Have it answered; ends in ``answered``."""

    def refuse(self, error: RemoteProtocolError) -> None:
        """Answer octets that are no request; ends in ``answered``."""

    def close(self) -> None:
        """End the connection in order: everything is written."""

    def abort(self) -> None:
        """Cut it."""


class Happening(Protocol):
    """What happens to a connection."""

    def secured(self) -> None:
        """The TLS handshake is complete."""

    def header_begun(self) -> None:
        """Some of a message's header is there, but not all."""

    def body_begun(self) -> None:
        """A message's header is there, and not all of its body."""

    def requested(self, request: Request) -> None:
        """A whole request arrived."""

    def malformed(self, error: RemoteProtocolError) -> None:
        """What arrived is no request."""

    def answered(self) -> None:
        """The final answer is ready for the transport."""

    def clogged(self) -> None:
        """The transport takes no more for now."""

    def cleared(self) -> None:
        """The transport has taken everything."""

    def overdue(self) -> None:
        """The deadline passed."""

    def drain(self) -> None:
        """End the connection as soon as nothing is owed."""

    def broken(self) -> None:
        """Something happened that must not."""

    def departed(self) -> None:
        """The peer is gone, or ended its side, which is the same."""


HEADER_TIMEOUT: Final = "header-timeout"
BODY_TIMEOUT: Final = "body-timeout"

_builder = TypeMachineBuilder(Happening, Effects)  # type: ignore[type-abstract]
_handshaking = _builder.state("handshaking")
_idle = _builder.state("idle")
_receiving_header = _builder.state("receiving header")
_receiving_body = _builder.state("receiving body")
_dispatching = _builder.state("dispatching")
_finishing = _builder.state("finishing")  # dispatching, and the answer is the last
_refusing = _builder.state("refusing")
_blocked = _builder.state("blocked")
_flushing = _builder.state("flushing")  # blocked, and then the end
_closing = _builder.state("closing")
_closed = _builder.state("closed")

_READING = (_idle, _receiving_header, _receiving_body)
_ANSWERING = (_dispatching, _finishing, _refusing)
_ENDING = (_closing, _closed)

# What changes nothing.

for _state in _ENDING:
    for _input in (Happening.answered, Happening.clogged, Happening.cleared, Happening.drain):
        _state.upon(_input).loop().returns(None)
for _state in (*_READING, _handshaking):
    _state.upon(Happening.cleared).loop().returns(None)
for _state in (_finishing, _refusing, _flushing):
    _state.upon(Happening.drain).loop().returns(None)
_receiving_header.upon(Happening.header_begun).loop().returns(None)
_receiving_body.upon(Happening.body_begun).loop().returns(None)
_closed.upon(Happening.overdue).loop().returns(None)
_closed.upon(Happening.broken).loop().returns(None)
_closed.upon(Happening.departed).loop().returns(None)

# Reading.


@_handshaking.upon(Happening.secured).to(_idle)
def _welcome(machine: Happening, effects: Effects) -> None:
    effects.expect(Wait.IDLE)


@_idle.upon(Happening.header_begun).to(_receiving_header)
def _await_header(machine: Happening, effects: Effects) -> None:
    effects.expect(Wait.HEADER)


@_idle.upon(Happening.body_begun).to(_receiving_body)
@_receiving_header.upon(Happening.body_begun).to(_receiving_body)
def _await_body(machine: Happening, effects: Effects) -> None:
    effects.expect(Wait.BODY)


@_idle.upon(Happening.requested).to(_dispatching)
@_receiving_header.upon(Happening.requested).to(_dispatching)
@_receiving_body.upon(Happening.requested).to(_dispatching)
def _answer(machine: Happening, effects: Effects, request: Request) -> None:
    effects.expect(Wait.ANSWER)
    effects.dispatch(request)


@_idle.upon(Happening.malformed).to(_refusing)
@_receiving_header.upon(Happening.malformed).to(_refusing)
@_receiving_body.upon(Happening.malformed).to(_refusing)
def _refuse(machine: Happening, effects: Effects, error: RemoteProtocolError) -> None:
    effects.expect(Wait.ANSWER)
    effects.refuse(error)


@_receiving_header.upon(Happening.overdue).to(_refusing)
def _header_late(machine: Happening, effects: Effects) -> None:
    effects.expect(Wait.ANSWER)
    effects.refuse(
        RemoteProtocolError(HEADER_TIMEOUT, "The header did not arrive whole in time.", Status.TIMEOUT)
    )


@_receiving_body.upon(Happening.overdue).to(_refusing)
def _body_late(machine: Happening, effects: Effects) -> None:
    effects.expect(Wait.ANSWER)
    effects.refuse(RemoteProtocolError(BODY_TIMEOUT, "The body did not arrive in time.", Status.TIMEOUT))


# Answering.


@_dispatching.upon(Happening.answered).to(_idle)
@_blocked.upon(Happening.cleared).to(_idle)
def _read_on(machine: Happening, effects: Effects) -> None:
    effects.expect(Wait.IDLE)


@_dispatching.upon(Happening.clogged).loop()
@_finishing.upon(Happening.clogged).loop()
@_refusing.upon(Happening.clogged).loop()
@_blocked.upon(Happening.clogged).loop()
@_flushing.upon(Happening.clogged).loop()
@_idle.upon(Happening.clogged).to(_blocked)
@_receiving_header.upon(Happening.clogged).to(_blocked)
@_receiving_body.upon(Happening.clogged).to(_blocked)
@_blocked.upon(Happening.drain).to(_flushing)
@_finishing.upon(Happening.answered).to(_flushing)
@_refusing.upon(Happening.answered).to(_flushing)
def _await_taking(machine: Happening, effects: Effects) -> None:
    effects.expect(Wait.TAKING)


@_dispatching.upon(Happening.cleared).loop()
@_finishing.upon(Happening.cleared).loop()
@_refusing.upon(Happening.cleared).loop()
def _await_answer(machine: Happening, effects: Effects) -> None:
    effects.expect(Wait.ANSWER)


_dispatching.upon(Happening.drain).to(_finishing).returns(None)

# Ending.


@_idle.upon(Happening.overdue).to(_closing)
@_idle.upon(Happening.drain).to(_closing)
@_receiving_header.upon(Happening.drain).to(_closing)
@_receiving_body.upon(Happening.drain).to(_closing)
@_flushing.upon(Happening.cleared).to(_closing)
def _close(machine: Happening, effects: Effects) -> None:
    effects.expect(Wait.CLOSE)
    effects.close()


def _cut(machine: Happening, effects: Effects) -> None:
    effects.expect(Wait.GONE)
    effects.abort()


def _forget(machine: Happening, effects: Effects) -> None:
    effects.expect(Wait.GONE)


for _state in (_handshaking, *_ANSWERING, _blocked, _flushing, _closing):
    _state.upon(Happening.overdue).to(_closed)(_cut)
for _state in (_handshaking, *_READING, *_ANSWERING, _blocked, _flushing, _closing):
    _state.upon(Happening.broken).to(_closed)(_cut)
    _state.upon(Happening.departed).to(_closed)(_forget)
_handshaking.upon(Happening.drain).to(_closed)(_cut)

automaton = _builder.build()
"""Makes the machine of one connection, handshaking: ``automaton(effects)``."""
