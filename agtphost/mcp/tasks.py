"""
Remember which client began which task, where several clients call in the name of one agent.

The host knows tasks only by their agent, but two tokens of one agent are two clients. The table is lost with the
process: then a task belongs to its agent again.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from agtphost.mcp.messages import INVALID_PARAMS, McpFault
from agtphost.vocabulary.lru import keep

MOST = 100_000
"""Tasks that are remembered; the oldest is forgotten first."""


class TaskOwners:
    """The owners of the tasks of all clients."""

    def __init__(self) -> None:
        self._owners: OrderedDict[str, str] = OrderedDict()

    def note(self, task_id: Any, owner: str) -> None:
        """Remember that a client began a task."""
        if isinstance(task_id, str):
            keep(self._owners, task_id, owner, MOST)

    def require(self, task_id: Any, owner: str) -> None:
        """
        Check that a client may ask about a task.

        :raises McpFault: -32602 for another client's, with the text for an unknown task.
        """
        if self._owners.get(task_id, owner) != owner:
            raise McpFault(INVALID_PARAMS, "404 unknown-task: There is no such task here.")
