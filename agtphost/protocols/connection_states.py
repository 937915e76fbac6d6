"""
The life of one server connection, and what follows what.

How it works. The machine knows nothing of octets: :class:`Inputs` is all that can happen to a connection,
:class:`Effects` all that it causes. A connection shakes hands, serves, perhaps refuses, flushes what is written, closes
and is closed; it never goes back. The rules:

- A message that breaks the framing, or that is late, ends serving: one refusal, and out.
- What was written is taken by the peer before the connection closes.
- From every state, what must not happen leads to ``closed`` by cutting; a peer that is
  gone leads there without.
- ``closed`` takes everything and does nothing: the answer of a handler that is still running is then dropped.

The turn of a request, from reading to answering and back, goes round inside ``serving``,
in terms of :class:`Wait`: the state's own datum, which the connection keeps. (Automat
finds a transition by looking at all of them. Two more per request and a dozen more states
for them made each request 10 microseconds longer.)
"""

from __future__ import annotations

from enum import Enum
from typing import Protocol

from automat import TypeMachineBuilder

from agtphost.errors import RemoteProtocolError


class Wait(Enum):
    """The states in which a connection waits; they decide whether requests are read, and the deadline."""

    HANDSHAKE = "the peer's TLS handshake"
    """Late: cut."""

    IDLE = "the next request"
    """Reads. Late: closed."""

    HEADER = "the rest of a header"
    """Reads. Late: refused with 408."""

    BODY = "the rest of a body"
    """Reads. Late: refused with 408."""

    ANSWER = "this host's answer"
    """Never late: handlers have the dispatcher's deadlines."""

    TAKING = "the peer, to take what was written"
    """Late: cut."""

    FLUSHING = "the peer, to take the last of it"
    """Late: cut."""

    CLOSE = "the peer's side of closing"
    """Late: cut."""

    GONE = "nobody"


class Effects(Protocol):
    """The effects of the state machine on its connection."""

    def expect(self, wait: Wait) -> None:
        """Wait for this from now on; set the deadline anew."""

    def refuse(self, error: RemoteProtocolError) -> None:
        """Answer octets that are not a request; ends in ``ended``."""

    def close(self) -> None:
        """End the connection in order: everything is written."""

    def abort(self) -> None:
        """Cut the connection."""


class Inputs(Protocol):
    """The events of a connection, as inputs of the state machine."""

    def on_secured(self) -> None:
        """Handle the end of the TLS handshake."""

    def on_malformed(self, error: RemoteProtocolError) -> None:
        """Handle octets that are not a request, or a request that is late."""

    def on_ended(self) -> None:
        """Handle the end of the last answer: the connection can be closed."""

    def on_cleared(self) -> None:
        """Handle that the transport has taken everything."""

    def on_broken(self) -> None:
        """Handle a forbidden or late event: cut the connection."""

    def on_departed(self) -> None:
        """Handle that the peer is gone, or ended its side, which is the same."""


_builder = TypeMachineBuilder(Inputs, Effects)  # type: ignore[type-abstract]
_handshaking = _builder.state("handshaking")
_serving = _builder.state("serving")
_refusing = _builder.state("refusing")
_flushing = _builder.state("flushing")
_closing = _builder.state("closing")
_closed = _builder.state("closed")

# What changes nothing: an end that is under way, and anything after it.

_flushing.upon(Inputs.on_ended).loop().returns(None)
_closing.upon(Inputs.on_ended).loop().returns(None)
_closed.upon(Inputs.on_ended).loop().returns(None)
_closed.upon(Inputs.on_secured).loop().returns(None)
_closed.upon(Inputs.on_broken).loop().returns(None)
_closed.upon(Inputs.on_departed).loop().returns(None)

# The way of a connection.


@_handshaking.upon(Inputs.on_secured).to(_serving)
def _serve(machine: Inputs, effects: Effects) -> None:
    effects.expect(Wait.IDLE)


@_serving.upon(Inputs.on_malformed).to(_refusing)
def _refuse(machine: Inputs, effects: Effects, error: RemoteProtocolError) -> None:
    effects.expect(Wait.ANSWER)
    effects.refuse(error)


@_serving.upon(Inputs.on_ended).to(_flushing)
@_refusing.upon(Inputs.on_ended).to(_flushing)
def _flush(machine: Inputs, effects: Effects) -> None:
    effects.expect(Wait.FLUSHING)


@_flushing.upon(Inputs.on_cleared).to(_closing)
def _close(machine: Inputs, effects: Effects) -> None:
    effects.expect(Wait.CLOSE)
    effects.close()


# The ways out of it.


@_handshaking.upon(Inputs.on_ended).to(_closed)
@_handshaking.upon(Inputs.on_broken).to(_closed)
@_serving.upon(Inputs.on_broken).to(_closed)
@_refusing.upon(Inputs.on_broken).to(_closed)
@_flushing.upon(Inputs.on_broken).to(_closed)
@_closing.upon(Inputs.on_broken).to(_closed)
def _cut(machine: Inputs, effects: Effects) -> None:
    effects.expect(Wait.GONE)
    effects.abort()


@_handshaking.upon(Inputs.on_departed).to(_closed)
@_serving.upon(Inputs.on_departed).to(_closed)
@_refusing.upon(Inputs.on_departed).to(_closed)
@_flushing.upon(Inputs.on_departed).to(_closed)
@_closing.upon(Inputs.on_departed).to(_closed)
def _forget(machine: Inputs, effects: Effects) -> None:
    effects.expect(Wait.GONE)


automaton = _builder.build()
"""Makes the machine of one connection, handshaking: ``automaton(effects)``."""
