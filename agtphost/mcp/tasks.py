"""
Which client began which task, where several clients call in the name of one agent.

The host knows tasks by the agent; two tokens of one agent are two clients nevertheless. What is remembered here is lost
with the process: then a task is its agent's again.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from agtphost.mcp.messages import INVALID_PARAMS, Fault
from agtphost.vocabulary.newest import keep

MOST = 100_000
"""Tasks that are remembered; the one that was begun first is forgotten first."""


class TaskOwners:
    """Those of all clients."""

    def __init__(self) -> None:
        self._owners: OrderedDict[str, str] = OrderedDict()

    def note(self, task_id: Any, owner: str) -> None:
        """A client began one."""
        if isinstance(task_id, str):
            keep(self._owners, task_id, owner, MOST)

    def require(self, task_id: Any, owner: str) -> None:
        """
        Let a client ask about a task.

        :raises Fault: -32602 for another client's, in the words for one that there is not.
        """
        if self._owners.get(task_id, owner) != owner:
            raise Fault(INVALID_PARAMS, "404 unknown-task: There is no such task here.")
