"""
Convert between A2A 0.3 and 1.0: requests to 0.3, answers from 0.3.

0.3 marks types by ``kind``, writes roles and states in lower case, and puts files into a nested object. Members without
a counterpart are kept unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_STATES = {
    "submitted": "TASK_STATE_SUBMITTED",
    "working": "TASK_STATE_WORKING",
    "input-required": "TASK_STATE_INPUT_REQUIRED",
    "completed": "TASK_STATE_COMPLETED",
    "canceled": "TASK_STATE_CANCELED",
    "failed": "TASK_STATE_FAILED",
    "rejected": "TASK_STATE_REJECTED",
    "auth-required": "TASK_STATE_AUTH_REQUIRED",
    "unknown": "TASK_STATE_UNSPECIFIED",
}
_ROLES = {"user": "ROLE_USER", "agent": "ROLE_AGENT"}
_OLD_ROLES = {new: old for old, new in _ROLES.items()}


def to_old_params(operation: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Convert parameters of an operation of 1.0 to 0.3."""
    if operation.endswith(("PushNotificationConfig", "PushNotificationConfigs")):
        return _old_push_params(operation, given)
    found = dict(given)
    if isinstance(found.get("message"), dict):
        found["message"] = _old_message(found["message"])
    configuration = found.get("configuration")
    if isinstance(configuration, dict):
        changed = {name: value for name, value in configuration.items() if name != "returnImmediately"}
        if "returnImmediately" in configuration:
            changed["blocking"] = configuration["returnImmediately"] is not True
        if "taskPushNotificationConfig" in changed:
            changed["pushNotificationConfig"] = _old_push(changed.pop("taskPushNotificationConfig"))
        found["configuration"] = changed
    return found


def _old_push_params(operation: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Convert parameters of an operation on push configurations: 0.3 nests the configuration."""
    task_id = given.get("taskId")
    if operation == "CreateTaskPushNotificationConfig":
        return {"taskId": task_id, "pushNotificationConfig": _old_push(given)}
    named = {"pushNotificationConfigId": given["id"]} if "id" in given else {}
    return {"id": task_id, **named}


def _old_push(push: Any) -> Any:
    """Convert a push configuration to 0.3, which has a list of schemes."""
    if not isinstance(push, dict):
        return push
    changed = _drop_members(push, "taskId", "tenant")
    authentication = changed.get("authentication")
    if isinstance(authentication, dict) and "scheme" in authentication:
        kept = _drop_members(authentication, "scheme")
        changed["authentication"] = {**kept, "schemes": [authentication["scheme"]]}
    return changed


def _old_message(message: Mapping[str, Any]) -> dict[str, Any]:
    changed = {**message, "kind": "message"}
    changed["role"] = _OLD_ROLES.get(str(message.get("role")), message.get("role"))
    changed["parts"] = [_old_part(part) for part in message.get("parts", ()) if isinstance(part, dict)]
    return changed


def _old_part(part: Mapping[str, Any]) -> dict[str, Any]:
    kept = {"metadata": part["metadata"]} if "metadata" in part else {}
    if "text" in part:
        return {"kind": "text", "text": part["text"], **kept}
    if "data" in part:
        return {"kind": "data", "data": part["data"], **kept}
    file: dict[str, Any] = {}
    for old, new in (("bytes", "raw"), ("uri", "url"), ("name", "filename"), ("mimeType", "mediaType")):
        if new in part:
            file[old] = part[new]
    return {"kind": "file", "file": file, **kept}


def from_old_result(value: Any) -> Any:
    """
    Convert an answer or event of 0.3 to 1.0: ``{"task": ...}``, ``{"message": ...}`` and so on.

    The only lists among the answers of 0.3 are those of push configurations.
    """
    kind = value.get("kind") if isinstance(value, dict) else None
    if kind == "task":
        return {"task": _task(value)}
    if kind == "message":
        return {"message": _message(value)}
    if kind == "status-update":
        return {"statusUpdate": {**_drop_members(value, "kind", "final"), "status": _status(value.get("status"))}}
    if kind == "artifact-update":
        return {"artifactUpdate": {**_drop_members(value, "kind"), "artifact": _artifact(value.get("artifact"))}}
    if isinstance(value, list):
        return {"configs": [_push(each) for each in value]}
    return _push(value)


def _push(value: Any) -> Any:
    """Convert a task's push configuration to 1.0; other values stay as they are."""
    push = value.get("pushNotificationConfig") if isinstance(value, dict) else None
    if not isinstance(push, dict):
        return value
    changed = {**push, "taskId": value.get("taskId", "")}
    authentication = changed.get("authentication")
    if isinstance(authentication, dict) and isinstance(authentication.get("schemes"), list):
        scheme = next(iter(authentication["schemes"]), "")
        changed["authentication"] = {**_drop_members(authentication, "schemes"), "scheme": scheme}
    return changed


def _drop_members(value: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: inner for name, inner in value.items() if name not in names}


def _task(value: Mapping[str, Any]) -> dict[str, Any]:
    task = _drop_members(value, "kind")
    task["status"] = _status(value.get("status"))
    for name, change in (("artifacts", _artifact), ("history", _message)):
        if isinstance(value.get(name), list):
            task[name] = [change(each) for each in value[name]]
    return task


def _status(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    changed = {**value, "state": _STATES.get(str(value.get("state")), value.get("state"))}
    if "message" in value:
        changed["message"] = _message(value["message"])
    return changed


def _message(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    changed = _drop_members(value, "kind")
    changed["role"] = _ROLES.get(str(value.get("role")), value.get("role"))
    changed["parts"] = _parts(value.get("parts"))
    return changed


def _artifact(value: Any) -> Any:
    return {**value, "parts": _parts(value.get("parts"))} if isinstance(value, dict) else value


def _parts(value: Any) -> Any:
    return [_part(part) for part in value] if isinstance(value, list) else value


def _part(part: Any) -> Any:
    if not isinstance(part, dict):
        return part
    kept = _drop_members(part, "kind", "file")
    file = part.get("file")
    if isinstance(file, dict):
        for old, new in (("bytes", "raw"), ("uri", "url"), ("name", "filename"), ("mimeType", "mediaType")):
            if old in file:
                kept[new] = file[old]
    return kept
