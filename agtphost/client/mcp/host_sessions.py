"""
Begin another session at the host where one ended with its agent.

The host ends all sessions of an agent that is suspended (core v08 section 10.5). Once the agent is reinstated, its MCP
clients go on, and most of them could not begin a session: they know nothing of it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable

from agtphost.client.reply import Reply
from agtphost.client.requests import new_session_id
from agtphost.vocabulary.lru import keep
from agtphost.vocabulary.reasons import Reason

MOST_RENEWED = 1_000
"""Sessions that were renewed; of more, the one that was renewed first begins again with its own identifier."""


class HostSessions:
    """The Session-IDs that are used at the host, in place of those that have ended."""

    def __init__(self) -> None:
        self._renewed: OrderedDict[str, str] = OrderedDict()

    def current(self, session_id: str) -> str:
        """Return the Session-ID that is used in place of one."""
        return self._renewed.get(session_id, session_id)

    async def request(self, session_id: str, attempt: Callable[[str], Awaitable[Reply]]) -> Reply:
        """
        Make a request in a session, and once more in another one where that session has ended.

        A request in an ended session is refused before anything is called.

        :param attempt: makes the request with a Session-ID.
        """
        used = self.current(session_id)
        reply = await attempt(used)
        if reply.status != 401 or reply.reason != Reason.SESSION_ENDED:
            return reply
        if self.current(session_id) == used:  # A concurrent request may have renewed it.
            keep(self._renewed, session_id, new_session_id(), MOST_RENEWED)
        return await attempt(self.current(session_id))
