"""Push notification configurations of A2A 1.0: what a request about one must name (A2A 1.0 section 3.1.7)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

REQUIRED: Mapping[str, tuple[tuple[str, str], ...]] = {
    "CreateTaskPushNotificationConfig": (("url", "url"),),
    "GetTaskPushNotificationConfig": (("taskId", "task_id"), ("id", "id")),
    "ListTaskPushNotificationConfigs": (("taskId", "task_id"),),
    "DeleteTaskPushNotificationConfig": (("taskId", "task_id"), ("id", "id")),
}
"""Required members by operation, each with both names that ProtoJSON has for it."""


def missing_member(operation: str, params: Mapping[str, Any]) -> str:
    """
    Return the first required member that a request leaves out or leaves empty; empty where there is none.

    A server answers in this order: the request is incomplete, push notifications are not supported, the task is
    unknown, the URL is refused, the configuration is unknown.
    """
    for name, snake in REQUIRED[operation]:
        if not params.get(name) and not params.get(snake):
            return name
    return ""
