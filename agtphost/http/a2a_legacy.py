"""
A2A 0.3 at the front: its requests in the shapes of 1.0, and answers of 1.0 in its shapes.

0.3 names methods by path, tells things apart by ``kind``, writes roles and states in lower case, and puts files into
an object of their own. It has no list of tasks.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

VERSION = "0.3"

METHODS: Mapping[str, str] = {
    "message/send": "SendMessage",
    "message/stream": "SendStreamingMessage",
    "tasks/get": "GetTask",
    "tasks/cancel": "CancelTask",
    "tasks/resubscribe": "SubscribeToTask",
    "tasks/pushNotificationConfig/set": "CreateTaskPushNotificationConfig",
    "tasks/pushNotificationConfig/get": "GetTaskPushNotificationConfig",
    "tasks/pushNotificationConfig/list": "ListTaskPushNotificationConfigs",
    "tasks/pushNotificationConfig/delete": "DeleteTaskPushNotificationConfig",
    "agent/getAuthenticatedExtendedCard": "GetExtendedAgentCard",
}
"""What each method is called in 1.0."""

_FILE = (("bytes", "raw"), ("uri", "url"), ("name", "filename"), ("mimeType", "mediaType"))
_KINDS = {"statusUpdate": "status-update", "artifactUpdate": "artifact-update"}


# Requests


def params_of(given: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters of a request, as 1.0 has them."""
    found = dict(given)
    if isinstance(found.get("message"), dict):
        found["message"] = _message(found["message"])
    configuration = found.get("configuration")
    if isinstance(configuration, dict):
        changed = {name: value for name, value in configuration.items() if name != "blocking"}
        if configuration.get("blocking") is False:
            changed["returnImmediately"] = True
        found["configuration"] = changed
    return found


def _message(message: Mapping[str, Any]) -> dict[str, Any]:
    changed = {name: value for name, value in message.items() if name != "kind"}
    role = changed.get("role")
    if isinstance(role, str):
        changed["role"] = {"user": "ROLE_USER", "agent": "ROLE_AGENT"}.get(role, role)
    if isinstance(changed.get("parts"), list):
        changed["parts"] = [_part(part) for part in changed["parts"]]
    return changed


def _part(part: Any) -> Any:
    if not isinstance(part, dict):
        return part
    changed = {name: value for name, value in part.items() if name not in ("kind", "file")}
    file = part.get("file")
    if isinstance(file, dict):
        changed.update({new: file[old] for old, new in _FILE if old in file})
    return changed


# Answers


def result_of(operation: str, value: Mapping[str, Any]) -> Any:
    """The result of an operation, as 0.3 has it."""
    if operation == "SendMessage":
        return event_of(value)
    return _task(value)


def event_of(event: Mapping[str, Any]) -> dict[str, Any]:
    """``{"task": ...}``, ``{"statusUpdate": ...}`` and so on, as 0.3 has them."""
    name, value = next(iter(event.items()))
    if name == "task":
        return _task(value)
    if name == "message":
        return _old_message(value)
    changed = {**value, "kind": _KINDS[name]}
    if "status" in changed:
        changed["status"] = _status(changed["status"])
        changed["final"] = changed["status"]["state"] not in ("working", "submitted")
    if "artifact" in changed:
        changed["artifact"] = _artifact(changed["artifact"])
    return changed


def _task(task: Mapping[str, Any]) -> dict[str, Any]:
    changed = {**task, "kind": "task", "status": _status(task["status"])}
    if "artifacts" in changed:
        changed["artifacts"] = [_artifact(each) for each in changed["artifacts"]]
    if "history" in changed:
        changed["history"] = [_old_message(each) for each in changed["history"]]
    return changed


def _status(status: Mapping[str, Any]) -> dict[str, Any]:
    state = str(status["state"]).removeprefix("TASK_STATE_").lower().replace("_", "-")
    changed = {**status, "state": "unknown" if state == "unspecified" else state}
    if "message" in changed:
        changed["message"] = _old_message(changed["message"])
    return changed


def _old_message(message: Mapping[str, Any]) -> dict[str, Any]:
    role = str(message["role"]).removeprefix("ROLE_").lower()
    parts = [_old_part(part) for part in message["parts"]]
    return {**message, "kind": "message", "role": role, "parts": parts}


def _artifact(artifact: Mapping[str, Any]) -> dict[str, Any]:
    return {**artifact, "parts": [_old_part(part) for part in artifact["parts"]]}


def _old_part(part: Mapping[str, Any]) -> dict[str, Any]:
    """The front itself makes text and data parts alone; data is an object in 0.3."""
    if "text" in part:
        return {**part, "kind": "text"}
    data = part["data"]
    return {**part, "kind": "data", "data": data if isinstance(data, dict) else {"value": data}}


# Cards


def card_of(card: Mapping[str, Any], url: str) -> dict[str, Any]:
    """A card of 1.0, not signed yet, as 0.3 has it."""
    found = {name: value for name, value in card.items() if name not in ("supportedInterfaces", "securityRequirements")}
    found.update({"url": url, "preferredTransport": "JSONRPC", "protocolVersion": "0.3.0"})
    schemes = card.get("securitySchemes")
    if isinstance(schemes, dict):
        found["securitySchemes"] = {name: _scheme(scheme) for name, scheme in schemes.items()}
        found["security"] = [
            {name: [] for name in requirement["schemes"]} for requirement in card.get("securityRequirements", ())
        ]
    return found


def _scheme(scheme: Mapping[str, Any]) -> dict[str, Any]:
    if "mtlsSecurityScheme" in scheme:
        return {"type": "mutualTLS", **scheme["mtlsSecurityScheme"]}
    return {"type": "http", **scheme["httpAuthSecurityScheme"]}
