"""Keep calls that wait for input, by the ``requestState`` that their callers were given."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from twisted.internet.interfaces import IDelayedCall, IReactorTime

from agtphost.adapters.mcp.elicitation import PendingCall
from agtphost.adapters.mcp.requests import IsMcpServer
from agtphost.errors import Refusal
from agtphost.vocabulary.reasons import Reason

WAIT_SECONDS = 600.0
"""Seconds that a call waits for input."""

MOST_OF_AN_AGENT = 100
MOST = 2_000
MAX_STATE = 64 << 10
"""Characters of a server's own state that are kept for one call."""


@dataclass(kw_only=True, eq=False, slots=True)
class WaitingRequest:
    """A call that waits for its caller's input."""

    agent_id: str
    task_id: str | None
    named: str
    instance: IsMcpServer
    pending: PendingCall | None
    """The suspended call; None where the request is sent again with the input."""

    state: str | None
    """The server's own ``requestState``."""

    answered: Mapping[str, Any] = field(default_factory=dict)
    """The answers that the configuration gives."""

    timer: IDelayedCall | None = None


class RequestStates:
    """
    A bounded table of calls that wait for input.

    A state is a random text that is only valid in this table, so that no caller can make one up or change one. It is
    valid only for the agent, the Task-ID and the call that it was given to.

    :param clock: expires calls that wait too long.
    :param token: makes a state.
    """

    def __init__(self, clock: IReactorTime, token: Callable[[], str]) -> None:
        self._clock = clock
        self._token = token
        self._by_token: dict[str, WaitingRequest] = {}
        self._of: dict[str, dict[str, WaitingRequest]] = {}

    def __len__(self) -> int:
        return len(self._by_token)

    def put(self, waiting: WaitingRequest) -> str:
        """
        Store a call.

        :return: its state.
        :raises Refusal: 429 where too many wait; the call is cancelled then.
        """
        own = self._of.setdefault(waiting.agent_id, {})
        if len(own) >= MOST_OF_AN_AGENT or len(self._by_token) >= MOST or len(waiting.state or "") > MAX_STATE:
            _give_up(waiting)
            if not own:
                del self._of[waiting.agent_id]
            raise Refusal(
                Reason.TOO_MANY_WAITING_CALLS,
                f"An agent can have {MOST_OF_AN_AGENT} calls at a time that wait for its input.",
                headers=(("Retry-After", "60"),),
            )
        token = self._token()
        self._by_token[token] = own[token] = waiting
        waiting.timer = self._clock.callLater(WAIT_SECONDS, self._expire, token)
        return token

    def take(self, token: object, agent_id: str, task_id: str | None, named: str) -> WaitingRequest | None:
        """
        Return the call of a state; a suspended one is removed.

        :return: None for a state that was not given to this agent, for this task and this call.
        """
        waiting = self._by_token.get(token) if type(token) is str else None
        if waiting is None or (waiting.agent_id, waiting.task_id, waiting.named) != (agent_id, task_id, named):
            return None
        if waiting.pending is not None:
            self._remove(str(token))
        return waiting

    def give_up(self, agent_id: str, task_id: str) -> int:
        """Cancel the calls that wait for an agent under a Task-ID, and return their number."""
        tokens = [token for token, waiting in self._of.get(agent_id, {}).items() if waiting.task_id == task_id]
        for token in tokens:
            _give_up(self._remove(token))
        return len(tokens)

    def _expire(self, token: str) -> None:
        if token in self._by_token:
            _give_up(self._remove(token))

    def _remove(self, token: str) -> WaitingRequest:
        waiting = self._by_token.pop(token)
        if waiting.timer is not None and waiting.timer.active():
            waiting.timer.cancel()
        own = self._of[waiting.agent_id]
        del own[token]
        if not own:
            del self._of[waiting.agent_id]
        return waiting


def _give_up(waiting: WaitingRequest) -> None:
    if waiting.pending is not None:
        waiting.instance.release(waiting.pending)
