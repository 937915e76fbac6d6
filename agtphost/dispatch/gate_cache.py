"""
How a request passes the gates, and which of them need not look again at the next one of its connection.

Theory of operation. A connection mostly carries requests of one kind: the same first line, the same fields but for
identifiers of single calls (:mod:`agtphost.wire.heads`), from the same peer. So do the operations of one client of the
MCP front, whose peers differ in the call alone (:meth:`agtphost.identity.peer.Peer.is_alike`). What most gates in front
of the body find in one of them, they would find in all, as long as nothing changes that they consult. So gates say what
their verdict rests on (:class:`agtphost.iagtp.ICacheableGate`): nothing but head and peer, or what they name as
conditions, which are asked of every request: that the certificate counts at this moment, that caller and addressee are
the same agents in the same states, that the caller is not narrowed. Where all hold, the findings are reused, and only
the remaining gates check, in their order: those that count, read the body, or are the operator's own. Where one does
not hold, every gate checks, from the first on, so that a request is refused by the gate and for the reason by which it
always was.

Nothing is learned of a request that was refused, or that waited for a gate in front of the body, and nothing is kept
of who presents a contract or a token, or is narrowed: a gate that would have to look again says so, and then all do.
What is kept goes with its connection, and with the dispatcher.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from operator import attrgetter
from typing import Any
from weakref import WeakKeyDictionary, ref

from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater

from agtphost.audit.catch_up import Door
from agtphost.contract.binding import Binding
from agtphost.dispatch.encoding import LARGE
from agtphost.dispatch.exchange import Exchange
from agtphost.dispatch.interfaces import Condition, ICacheableGate, IGate
from agtphost.dispatch.large_bodies import LargeBodies
from agtphost.identity.peer import Peer
from agtphost.vocabulary.steps import TURN
from agtphost.wire.headers import Common

_Check = Callable[[Exchange], Any]

FRAMING, BODY = "framing", "body"
"""The gate of identifiers of single calls, and the first gate that reads more than the head."""

_named = attrgetter("agent_id", "task_id", "session_id", "request_id", "idempotency_key")
"""What the former writes."""

_OWN = ("request", "peer", "now", "waited", "call", "place", "stored", "unpaid")
"""Members that differ for each request."""

_MEMBERS = tuple(name for name in Exchange.__slots__ if name not in _OWN)


class _CachedPass:
    """The findings of the gates about one kind of request."""

    __slots__ = (
        *("__weakref__", "bound", "caller", "checks", "conditions", "fields", "found", "method", "named", "passage"),
        *("path", "peer", "proven"),
    )

    def __init__(self, exchange: Exchange, passage: GateChain) -> None:
        request = exchange.request
        self.passage = passage
        self.peer: Peer = exchange.peer
        self.method, self.path = request.method, request.path
        # Not the headers themselves: they refer to what this is kept under, and would keep it alive.
        self.fields = request.headers.fields
        """Those of which :attr:`named` was found."""
        self.named: tuple[str | None, ...] = ()
        self.found: tuple[tuple[str, Any], ...] = ()
        self.caller, self.proven = "", False
        self.bound: Binding | None = None
        self.conditions: tuple[Condition, ...] = ()
        self.checks: tuple[_Check, ...] = ()
        """Of the gates that look at each."""


class GateChain:
    """
    All gates, in order.

    :param gates: the first of them says what the fields name, and refuses what has no form.
    :param objection: why a call may not go on although it waited for a gate alone; None: it may.
    :param clock: between two gates that read a large body the others have their turn.
    :param door: where calls wait while what gates consult is taken over from the store.
    :param rest_always: see :class:`agtphost.dispatch.large_bodies.LargeBodies`.
    """

    def __init__(
        self,
        gates: Sequence[IGate],
        objection: Callable[[Exchange], Exception | None],
        clock: IReactorTime,
        door: Door,
        *,
        rest_always: bool = False,
    ) -> None:
        self.gates = tuple(gates)
        self._objection = objection
        self._clock = clock
        self._door = door
        self._large = LargeBodies(clock, rest_always=rest_always)
        self._checks: tuple[_Check, ...] = tuple(gate.check for gate in gates)
        names = [gate.name for gate in gates]
        self._learns = names[:1] == [FRAMING] and BODY in names
        self._body = names.index(BODY) if self._learns else len(names)
        self._kept: WeakKeyDictionary[Common, _CachedPass | int] = WeakKeyDictionary()
        """Or how often it was tried in vain to learn something: it is tried again, but less and less often."""

    def begin(self, exchange: Exchange) -> Awaitable[None] | None:
        """
        Pass a request that no gate has seen.

        :raises agtphost.errors.Refusal: the first gate's that objects.
        :return: None where it has passed; else what to wait for.
        """
        request = exchange.request
        if len(request.body) > LARGE or self._door.shut:
            return self._slowly(exchange)
        common = request.headers.common
        if common is None or not self._learns:
            return self._pass(exchange, self._checks)
        kept: _CachedPass | None = None if common.found is None else common.found()
        if kept is not None and kept.passage is self and self._reuse(exchange, kept):
            return self._pass(exchange, kept.checks)
        before = self._kept.get(common, 0)
        tries = before if isinstance(before, int) else 0
        self._kept[common] = tries + 1
        return self._pass(exchange, self._checks) if tries & (tries - 1) else self._learn(exchange, common)

    def pass_again(self, exchange: Exchange) -> Awaitable[None] | None:
        """Pass a request once more: every gate checks it again."""
        if len(exchange.request.body) > LARGE or self._door.shut:
            return self._slowly(exchange)
        return self._pass(exchange, self._checks)

    def _pass(self, exchange: Exchange, checks: Sequence[_Check]) -> Awaitable[None] | None:
        further = iter(checks)
        for check in further:
            waiting = check(exchange)
            if waiting is not None:
                return self._rest(exchange, waiting, (*further,))
        return None

    async def _rest(self, exchange: Exchange, waiting: Awaitable[None], checks: Sequence[_Check]) -> None:
        await waiting
        self._require_standing(exchange)
        for check in checks:
            further = check(exchange)
            if further is not None:
                await further
                self._require_standing(exchange)

    async def _slowly(self, exchange: Exchange) -> None:
        """Ask every gate, and let other calls have their turn in between; for large bodies."""
        if self._door.shut:
            await self._door.wait_turn()
        await self._each(exchange, self._checks[: self._body])
        if len(exchange.request.body) <= LARGE or self._body == len(self._checks):
            await self._each(exchange, self._checks[self._body :])
            return
        # Only allowed callers wait here: bodies are read in turns.
        end = await self._large.begin(exchange)
        try:
            self._require_standing(exchange)
            await self._each(exchange, self._checks[self._body :], end)
        finally:
            end()

    async def _each(self, exchange: Exchange, checks: Sequence[_Check], end: Callable[[], None] | None = None) -> None:
        """
        Have a request pass gate after gate.

        :param end: called before a gate is waited for, which may take its time.
        """
        began = time.thread_time()
        for check in checks:
            waiting = check(exchange)
            if waiting is not None and end is not None:
                end()
            if waiting is None and time.thread_time() - began > TURN / 2:
                waiting = deferLater(self._clock, 0)
            if waiting is not None:
                await waiting
                self._require_standing(exchange)
                began = time.thread_time()

    def _require_standing(self, exchange: Exchange) -> None:
        """Time has passed since the gates above looked at the agents of a call."""
        objection = self._objection(exchange)
        if objection is not None:
            raise objection

    # What need not be asked again

    def _reuse(self, exchange: Exchange, kept: _CachedPass) -> bool:
        """
        Reuse the findings about a request of the same kind; False where all gates have to check.

        :raises agtphost.errors.Refusal: the first gate's, which checks each request that names another call.
        """
        request, call = exchange.request, exchange.call
        if kept.path != request.path or kept.method != request.method:
            return False
        if kept.peer is not exchange.peer and not kept.peer.is_alike(exchange.peer):
            return False
        for condition in kept.conditions:
            if not condition(exchange):
                return False
        if kept.fields is not request.headers.fields:
            self._checks[0](exchange)
            kept.named, kept.fields = _named(exchange), request.headers.fields
        else:
            (
                exchange.agent_id,
                exchange.task_id,
                exchange.session_id,
                exchange.request_id,
                exchange.idempotency_key,
            ) = kept.named
            call.task_id = exchange.task_id or ""
        for name, value in kept.found:
            setattr(exchange, name, value)
        if kept.caller:
            call.caller, call.proven = kept.caller, kept.proven
            call.agent_id = exchange.caller.agent_id  # type: ignore[union-attr]
        call.bound = kept.bound
        return True

    def _learn(self, exchange: Exchange, common: Common) -> Awaitable[None] | None:
        """Have every gate look, and keep what need not be looked at again."""
        kept = _CachedPass(exchange, self)
        conditions: list[Condition] = []
        checks: list[_Check] = []
        found: dict[str, Any] = {}
        worth = True
        for number, gate in enumerate(self.gates):
            before = _members(exchange) if number < self._body else {}
            waiting = gate.check(exchange)
            if waiting is not None:
                if worth and number >= self._body:
                    self._keep(common, kept, conditions, found, (*checks, *self._checks[number:]))
                return self._rest(exchange, waiting, self._checks[number + 1 :])
            holds = gate.conditions(exchange) if ICacheableGate.providedBy(gate) else None
            if number == 0:
                kept.named = _named(exchange)
            elif holds is not None:
                conditions += holds
                if before:
                    found.update(_differences(before, _members(exchange)))
            elif number < self._body and ICacheableGate.providedBy(gate):
                worth = False
            else:
                checks.append(self._checks[number])
            if number == self._body:
                kept.caller, kept.proven, kept.bound = exchange.call.caller, exchange.call.proven, exchange.call.bound
        if worth:
            self._keep(common, kept, conditions, found, checks)
        return None

    def _keep(
        self,
        common: Common,
        kept: _CachedPass,
        conditions: Sequence[Condition],
        found: dict[str, Any],
        checks: Sequence[_Check],
    ) -> None:
        kept.conditions, kept.found, kept.checks = tuple(conditions), tuple(found.items()), tuple(checks)
        # The connection only has a weak reference: idle connections must not keep the gates of a host alive that has
        # reloaded.
        self._kept[common], common.found = kept, ref(kept)


def _members(exchange: Exchange) -> dict[str, Any]:
    """Return the members that gates set, with their present values."""
    return {name: getattr(exchange, name) for name in _MEMBERS}


def _differences(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in after.items() if value is not before[name]}
