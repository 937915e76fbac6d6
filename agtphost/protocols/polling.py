"""
Reading from connections, pipes of processes and the reactor's own waker in fewer steps than epoll's reactor takes.

Twisted sets a log context around each operation on a descriptor, and asks it whether it is still open: a dozen calls
before each read, which hardly any read needs. If epoll reports one of these as readable, and nothing else, it is read
from directly; the log context is only set if that fails. All other events and descriptors take Twisted's way, and so
does everything with another reactor, or a Twisted with other internals.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from select import EPOLLIN
from typing import Any

from twisted.internet.epollreactor import EPollReactor
from twisted.internet.process import ProcessReader
from twisted.python import log as named

from agtphost.protocols.immediate_write import PromptServer

within: Callable[..., None] = named.callWithLogger

_PARTS = ("_poller", "_selectables", "_doReadOrWrite", "_disconnectSelectable")


def hasten(reactor: Any) -> bool:
    """
    Have a reactor read from this host's connections in fewer steps, from its next turn on.

    :return: whether it does.
    """
    if type(reactor) is not EPollReactor or not all(hasattr(reactor, name) for name in _PARTS):
        return False
    setattr(reactor, "doIteration", _polling(reactor))  # noqa: B010 - the class declares it as a method
    return True


def _polling(reactor: Any) -> Callable[[float | None], None]:
    """Return the replacement for what the reactor does in each of its turns."""
    poll, selectables = reactor._poller.poll, reactor._selectables
    usual, disconnect = reactor._doReadOrWrite, reactor._disconnectSelectable
    # A closed pipe or waker has left the selectables; a connection may still be there without its socket.
    direct = frozenset({PromptServer, ProcessReader, type(reactor.waker)})

    def iterate(timeout: float | None) -> None:
        try:
            events = poll(-1 if timeout is None else timeout, len(selectables))
        except OSError as error:
            if error.errno == errno.EINTR:
                return
            raise
        for number, event in events:
            selectable = selectables.get(number)
            if selectable is None:
                continue
            kind = selectable.__class__
            if event != EPOLLIN or kind not in direct or (kind is PromptServer and selectable.socket is None):
                within(selectable, usual, selectable, number, event)
                continue
            reading = True
            try:
                why = selectable.doRead()
            except BaseException as failure:
                within(selectable, named.err)
                why, reading = failure, False
            if why:
                within(selectable, disconnect, selectable, why, reading)

    return iterate
