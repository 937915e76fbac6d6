"""
Answer ``roots/list``, with which an MCP server asks for the directories of a caller.

A server of the handshake era asks once and remembers the answer, often right after the handshake, when no call is in
flight. So a process that was given roots belongs to one caller: they are known before it is called, and callers with
other roots get another process.

- A caller of the handshake era has a separate session, and so a separate process. Where its roots change, the process
  is notified, and asks again.
- Requests of 2026-07-28 are independent of each other: many clients may share one Session-ID. Each request has its
  roots, and the process is chosen by the agent, the session and these roots.

The caller sends them in ``inputResponses``, under :data:`ROOTS`; a caller that does not is asked before anything is
sent to the server.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime

from agtphost.adapters.mcp.jsonrpc import JsonRpcPeer
from agtphost.adapters.mcp.versions import HANDSHAKE, META
from agtphost.errors import Refusal
from agtphost.upstream.failures import UpstreamFailure
from agtphost.vocabulary import jsontext
from agtphost.vocabulary.mcp_members import ROOTS
from agtphost.vocabulary.reasons import Reason

REQUEST: Mapping[str, Any] = {ROOTS: {"method": "roots/list", "params": {}}}

MOST_ROOTS = 64
LONGEST_URI = 4_096
"""Characters of a root's URI, and of its name."""

WAIT_SECONDS = 5.0
"""Seconds that a server waits for the roots of an unknown caller; then the answer is an empty list."""

RENEWAL_SECONDS = 1.0
"""Seconds within which a server that was notified of a change asks again."""

READ_SECONDS = 0.2
"""The least seconds that a server has to read directories after it got them, before it is called."""

READ_PINGS = 8
"""Answers to ``ping`` that a server gives after it got directories: it reads each by several turns of its loop."""

PING_SECONDS = 1.0
"""Seconds that a server has for the answer to a ``ping``, which shows that it handled what was sent before."""

MOST_HELD = 16
"""Requests for roots of one process that wait for an answer."""

Roots = tuple[Mapping[str, str], ...]
Ping = Callable[[], Deferred[Any]]
"""Sends ``ping`` to the process; its answer comes within :data:`PING_SECONDS`, or an upstream failure."""


class RootsNeeded(Exception):
    """The error for a request that cannot be sent before its caller has sent its roots."""


def configured_roots(uris: Sequence[str]) -> dict[str, Any]:
    """Return the answer to ``roots/list`` of a server whose roots the operator named."""
    return {"roots": [{"uri": uri, "name": uri.rstrip("/").rpartition("/")[2]} for uri in uris]}


def declares_roots(meta: Mapping[str, Any]) -> bool:
    """Return whether a caller says in ``_meta`` that it can be asked for roots."""
    declared = meta.get(META + "clientCapabilities")
    return type(declared) is dict and "roots" in declared


def keeps_session(meta: Mapping[str, Any]) -> bool:
    """Return whether a caller says in ``_meta`` that it speaks a revision with handshakes, and so with sessions."""
    return meta.get(META + "protocolVersion") in HANDSHAKE


def roots_of(responses: Mapping[str, Any]) -> Roots | None:
    """
    Return the roots that a caller sent.

    :param responses: its ``inputResponses``.
    :return: None where it sent none; no roots where it answered with an error.
    :raises Refusal: 422 for an answer that is not a ListRootsResult within the limits.
    """
    if ROOTS not in responses:
        return None
    answer = responses[ROOTS]
    if type(answer) is dict and type(answer.get("error")) is dict:
        return ()
    listed = answer.get("roots") if type(answer) is dict else None
    if type(listed) is not list or len(listed) > MOST_ROOTS:
        raise _roots_refusal(f"must be a ListRootsResult with at most {MOST_ROOTS} roots")
    return tuple(_root(each) for each in listed)


def _root(given: object) -> Mapping[str, str]:
    uri = given.get("uri") if isinstance(given, dict) else None
    name = given.get("name") if isinstance(given, dict) else None
    if type(uri) is not str or not 0 < len(uri) <= LONGEST_URI:
        raise _roots_refusal(f"holds a root whose uri is not a URI of at most {LONGEST_URI} characters")
    if name is not None and (type(name) is not str or len(name) > LONGEST_URI):
        raise _roots_refusal(f"holds a root whose name is not a text of at most {LONGEST_URI} characters")
    return {"uri": uri} if name is None else {"uri": uri, "name": name}


def _roots_refusal(why: str) -> Refusal:
    return Refusal(
        Reason.INVALID_PAYLOAD,
        f"inputResponses[{ROOTS!r}] {why}.",
        remedy='Send the result of roots/list: {"roots": [{"uri": "file:///home/me/project"}]}.',
    )


def digest_of(roots: Roots) -> str:
    """Return the digest of roots, a part of the key of a process."""
    return sha256(jsontext.encode([dict(root) for root in roots])).hexdigest()


class ServerRoots:
    """
    The answers to one process that asks for roots.

    :param configured: the operator's roots, the answer for every caller. None: the caller's are used.
    :param alone: whether the process works for one caller. A shared one gets an empty list.
    :param offered: whether the process was offered the capability.
    :param noticed: called when the process asks for roots outside of any call.
    """

    def __init__(
        self,
        clock: IReactorTime,
        configured: Sequence[str] | None,
        *,
        alone: bool,
        offered: bool,
        noticed: Callable[[], None],
    ) -> None:
        self._clock = clock
        self._configured = configured
        self._alone, self._offered = alone, offered
        self._noticed = noticed
        self.caller_roots: Roots | None = None
        """The caller's roots; None: not known yet."""

        self._held: list[tuple[JsonRpcPeer, int | str]] = []
        self._timers: set[IDelayedCall] = set()
        self._peer: JsonRpcPeer | None = None
        self._answered = 0.0
        self._waited = False
        self._answering = False
        """Whether the process has answered a ``ping``."""
        self._read = True
        """Whether the process had the time to read the roots that it was last given."""
        self._asked_again: Deferred[None] | None = None

    @property
    def has_waiting(self) -> bool:
        """Whether the process waits for roots that its caller has not sent."""
        return bool(self._held)

    def answer(self, peer: JsonRpcPeer, call_id: int | str) -> bool:
        """Answer a request for roots where the answer is known; return whether it is."""
        if self._configured is not None:
            peer.respond(call_id, {"result": configured_roots(self._configured)})
        elif not self._offered:
            return False
        elif not self._alone:
            self._noticed()
            peer.respond(call_id, {"result": {"roots": []}})
        elif self.caller_roots is not None:
            self._noticed()
            self._respond(peer, call_id, self.caller_roots)
        else:
            return False
        return True

    def hold(self, peer: JsonRpcPeer, call_id: int | str) -> bool:
        """Keep a request that belongs to no call until the caller's roots are known; return whether it is kept."""
        if not self._alone or len(self._held) >= MOST_HELD:
            return False
        self._noticed()
        self._held.append((peer, call_id))
        timer = self._clock.callLater(WAIT_SECONDS, lambda: self._give_up(peer, call_id, timer))
        self._timers.add(timer)
        return True

    def take(self, roots: Roots) -> None:
        """Take the roots of the caller: answer waiting requests, and notify a process that had other roots."""
        if roots == self.caller_roots:
            return
        self.caller_roots = roots
        held, self._held = self._held, []
        for peer, call_id in held:
            self._respond(peer, call_id, roots)
        if not held and self._peer is not None:
            self._asked_again = self._asked_again or Deferred()
            self._peer.notify("notifications/roots/list_changed")

    async def wait_until_asked(self, ping: Ping) -> None:
        """
        Wait until a process that asks for roots when it starts has done so, and has its request kept.

        Whether it does is unknown until it answers a ``ping``: it asks before.
        """
        if not self._answering and self.caller_roots is None:
            await _await_answer(ping)
            self._answering = True

    async def wait_until_read(self, ping: Ping, *, asks: bool) -> None:
        """
        Wait until the process has read the roots of its caller.

        On a busy machine a server may take seconds to ask for roots and to read them. Its answers to ``ping`` show how
        far it is: it asks before it answers, and after READ_PINGS answers it has as long again to read, READ_SECONDS at
        least. No message of MCP tells that it has read them.

        :param asks: whether the server asks for roots when it starts, so that its request is waited for.
        """
        if self.caller_roots is None:
            return
        if asks and self._peer is None and not self._waited:
            self._waited = True
            self._asked_again = self._asked_again or Deferred()
        if self._asked_again is not None:
            await _await_answer(ping)
        if self._asked_again is not None:
            await self._wait_at_most(self._asked_again, RENEWAL_SECONDS)
            self._fire()
        if self._peer is not None and not self._read:
            await self._give_time(ping)

    async def _give_time(self, ping: Ping) -> None:
        """Let the process read the roots that it was given."""
        given, began = self._answered, self._clock.seconds()
        for _ in range(READ_PINGS):
            if not await _await_answer(ping):
                break
        now = self._clock.seconds()
        left = max(given + READ_SECONDS, now + (now - began)) - now
        if left > 0:
            await self._wait_at_most(Deferred(), left)
        # Other roots may have come since.
        self._read = self._read or self._answered == given

    def forget_link(self) -> None:
        """Forget the process that ended; the next one has no roots yet."""
        self._held, self._peer, self._answered, self._waited = [], None, 0.0, False
        self._answering, self._read = False, True
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()
        self._fire()

    def _respond(self, peer: JsonRpcPeer, call_id: int | str, roots: Roots) -> None:
        peer.respond(call_id, {"result": {"roots": [dict(root) for root in roots]}})
        self._peer, self._answered, self._read = peer, self._clock.seconds(), False
        self._fire()

    def _fire(self) -> None:
        waiting, self._asked_again = self._asked_again, None
        if waiting is not None and not waiting.called:
            waiting.callback(None)

    def _give_up(self, peer: JsonRpcPeer, call_id: int | str, timer: IDelayedCall) -> None:
        self._timers.discard(timer)
        if (peer, call_id) in self._held:
            self._held.remove((peer, call_id))
            self._respond(peer, call_id, ())

    async def _wait_at_most(self, waited: Deferred[None], seconds: float) -> None:
        """Wait for a Deferred that others may wait for too, with a time limit."""
        mine: Deferred[None] = Deferred()
        late = self._clock.callLater(seconds, mine.callback, None)

        def finish(result: None) -> None:
            if late.active():
                late.cancel()
            if not mine.called:
                mine.callback(None)

        waited.addCallback(finish)
        try:
            await mine
        finally:
            if late.active():
                late.cancel()


async def _await_answer(ping: Ping) -> bool:
    """Send a ``ping`` and return whether it was answered; a server that ended fails the call itself."""
    with suppress(UpstreamFailure):
        await ping()
        return True
    return False
