"""Tasks of A2A 1.0: their states, and how events change them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agtphost.upstream.failures import UnreadableAnswer
from agtphost.upstream.ownership import is_remote_id

INPUT_REQUIRED = "TASK_STATE_INPUT_REQUIRED"
AUTH_REQUIRED = "TASK_STATE_AUTH_REQUIRED"
REJECTED = "TASK_STATE_REJECTED"
FAILED = "TASK_STATE_FAILED"
TERMINAL = frozenset({"TASK_STATE_COMPLETED", "TASK_STATE_CANCELED", FAILED, REJECTED})
PENDING = frozenset({"TASK_STATE_SUBMITTED", "TASK_STATE_WORKING", INPUT_REQUIRED})
"""States whose answer is 202."""

MOST_ARTIFACTS = 1_000
MOST_PARTS = 100_000


def state_of(task: Mapping[str, Any]) -> str:
    """Return the state; empty where the task has none."""
    status = task.get("status")
    state = status.get("state") if isinstance(status, Mapping) else None
    return state if isinstance(state, str) else ""


def task_in(result: Any) -> dict[str, Any]:
    """
    Return the task in the result of an operation.

    :raises UnreadableAnswer: the result has no task.
    """
    if isinstance(result, dict) and isinstance(result.get("task"), dict):
        result = result["task"]
    if not isinstance(result, dict) or not is_remote_id(result.get("id")):
        raise UnreadableAnswer("its answer is not a task")
    return result


class TaskProgress:
    """The task or message of one call, updated by its events."""

    def __init__(self) -> None:
        self.task: dict[str, Any] | None = None
        self.message: dict[str, Any] | None = None
        self._parts = 0

    def take(self, event: Any) -> None:
        """
        Take a result of SendMessage, or an event.

        :raises UnreadableAnswer: it is neither.
        """
        known = {
            "task": self._take_task,
            "message": self._take_message,
            "statusUpdate": self._take_status,
            "artifactUpdate": self._take_artifact,
        }
        if isinstance(event, dict):
            for name, take in known.items():
                if isinstance(event.get(name), dict):
                    take(event[name])
                    return
        raise UnreadableAnswer("it sent something that is neither a task, a message nor an update")

    def _take_task(self, task: dict[str, Any]) -> None:
        if not is_remote_id(task.get("id")):
            raise UnreadableAnswer("its task has no proper id")
        self._require_same(task["id"])
        self.task = dict(task)

    def _take_message(self, message: dict[str, Any]) -> None:
        self.message = message

    def _take_status(self, update: dict[str, Any]) -> None:
        self._task_of(update)["status"] = update.get("status")

    def _take_artifact(self, update: dict[str, Any]) -> None:
        artifact = update.get("artifact")
        if not isinstance(artifact, dict) or not isinstance(artifact.get("parts", []), list):
            raise UnreadableAnswer("it sent an update without an artifact")
        task = self._task_of(update)
        given = task.get("artifacts")
        artifacts = list(given) if isinstance(given, list) else []
        self._parts += len(artifact.get("parts", ())) + 1
        if self._parts > MOST_PARTS or len(artifacts) >= MOST_ARTIFACTS:
            raise UnreadableAnswer("it sent more artifacts than this host gathers")
        for index, known in enumerate(artifacts):
            if isinstance(known, dict) and known.get("artifactId") == artifact.get("artifactId"):
                if update.get("append") is True:
                    parts = [*known.get("parts", ()), *artifact.get("parts", ())]
                    artifacts[index] = {**known, **artifact, "parts": parts}
                else:
                    artifacts[index] = artifact
                break
        else:
            artifacts.append(artifact)
        task["artifacts"] = artifacts

    def _task_of(self, update: Mapping[str, Any]) -> dict[str, Any]:
        task_id = update.get("taskId")
        if not is_remote_id(task_id):
            raise UnreadableAnswer("it sent an update that names no task")
        self._require_same(task_id)
        if self.task is None:
            self.task = {"id": task_id}
            if isinstance(update.get("contextId"), str):
                self.task["contextId"] = update["contextId"]
        return self.task

    def _require_same(self, task_id: object) -> None:
        if self.task is not None and self.task.get("id") != task_id:
            raise UnreadableAnswer("its events are about different tasks")
