"""Gates of the operator's own: they see what the gates before them proved, and can refuse; nothing else."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

from twisted.internet.defer import Deferred, TimeoutError
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger
from zope.interface import implementer

from agtphost.dispatch.call_view import CallView
from agtphost.dispatch.exchange import Exchange
from agtphost.dispatch.handler_wait import limit_time
from agtphost.dispatch.interfaces import IGate, IOperatorGate
from agtphost.errors import Refusal
from agtphost.handlers.built_in import Overstepped, require_plain_refusal
from agtphost.vocabulary.given_values import copy_given
from agtphost.vocabulary.reasons import Reason

PREFIX = "operator: "
"""Before the names of such gates in logs and decisions, so that none is taken for one of the host's."""

FIRST, LAST = "addressee and lifecycle", "schema"
"""Between these gates they may stand: the caller is known by then, and no key is taken yet."""

log = Logger()


def view(exchange: Exchange) -> CallView:
    """Return what an operator's gate sees of an exchange."""
    return CallView(
        method=exchange.method,
        path=exchange.path,
        path_parameters=copy_given(exchange.path_parameters),
        caller=exchange.caller,
        assurance=exchange.assurance,
        acting_principal=exchange.acting_principal,
        scopes=exchange.scopes,
        agent=exchange.agent,
        session_id=exchange.session_id,
        task_id=exchange.task_id,
        request_id=exchange.request_id,
        input=copy_given(exchange.input),
        address=exchange.peer.address,
        name="" if exchange.binding is None else exchange.binding.name,
    )


@implementer(IGate)
class OperatorGate:
    """
    Asks a plugin; an answer other than a refusal or a pass is 500.

    :param gate: the plugin.
    :param seconds: that it may wait.
    """

    def __init__(self, gate: IOperatorGate, clock: IReactorTime, seconds: float) -> None:
        self.name = PREFIX + str(gate.name)[:64]
        self._gate = gate
        self._clock = clock
        self._seconds = seconds

    async def check(self, exchange: Exchange) -> None:
        """Ask the plugin. An invalid verdict refuses the call."""
        try:
            verdict: Any = self._gate.check(view(exchange))
            if inspect.iscoroutine(verdict):
                verdict = Deferred.fromCoroutine(verdict)
            if isinstance(verdict, Deferred):
                verdict = await limit_time(verdict, self._seconds, self._clock)
        except Refusal as refusal:
            require_plain_refusal(refusal)
            raise
        except TimeoutError:
            raise Refusal(
                Reason.TIMEOUT, f"The call was not decided within {self._seconds:g} seconds.", remedy="Try again later."
            ) from None
        if verdict is not None:
            raise Overstepped(f"the gate {self.name} returned {type(verdict).__name__}: it refuses by raising Refusal")


def place_gates(gates: Sequence[IGate], own: Sequence[tuple[str, IGate]]) -> Sequence[IGate]:
    """
    Insert the operator's gates, in their order, into the host's.

    :param own: the name of the gate that each follows, and the gate.
    :raises ValueError: an operator's gate cannot follow that gate.
    """
    names = [gate.name for gate in gates]
    possible = names[names.index(FIRST) : names.index(LAST) + 1]
    order = list(gates)
    for after, gate in own:
        if after not in possible:
            raise ValueError(
                f"{after[:64]!r} is not a gate that another can follow; choose one of: {', '.join(possible)}"
            )
        at = next(index for index, each in enumerate(order) if each.name == after) + 1
        while at < len(order) and order[at].name.startswith(PREFIX):
            at += 1
        order.insert(at, gate)
    return order
