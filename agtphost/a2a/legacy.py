"""
Translate A2A 0.3 at the front: its requests to 1.0, and answers of 1.0 to its form.

Version 0.3 names methods by path, distinguishes objects by ``kind``, writes roles and states in lower case, and nests
files in an object. It has no list of tasks.
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
"""The name of each method in 1.0."""

_FILE = (("bytes", "raw"), ("uri", "url"), ("name", "filename"), ("mimeType", "mediaType"))
_FINAL = frozenset({"completed", "canceled", "failed", "rejected"})
_KINDS = {"statusUpdate": "status-update", "artifactUpdate": "artifact-update"}


# Requests


def params_of(operation: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of a request in the form of 1.0."""
    found = dict(given)
    if operation.endswith(("PushNotificationConfig", "PushNotificationConfigs")):
        return _push_params(operation, found)
    if isinstance(found.get("message"), dict):
        found["message"] = _message(found["message"])
    configuration = found.get("configuration")
    if isinstance(configuration, dict):
        changed = {
            name: value for name, value in configuration.items() if name not in ("blocking", "pushNotificationConfig")
        }
        if configuration.get("blocking") is False:
            changed["returnImmediately"] = True
        push = configuration.get("pushNotificationConfig")
        if push is not None:
            changed["taskPushNotificationConfig"] = _push(push)
        found["configuration"] = changed
    return found


def _push_params(operation: str, given: dict[str, Any]) -> dict[str, Any]:
    if operation == "CreateTaskPushNotificationConfig":
        push = _push(given.get("pushNotificationConfig"))
        task = {"taskId": given["taskId"]} if "taskId" in given else {}
        return {**push, **task} if isinstance(push, dict) else task
    found = {"taskId": given["id"]} if "id" in given else {}
    if "pushNotificationConfigId" in given:
        found["id"] = given["pushNotificationConfigId"]
    elif operation == "GetTaskPushNotificationConfig" and "id" in given:
        # In 0.3 a request may omit the id; then it means the configuration with the task's id.
        found["id"] = given["id"]
    return found


def _push(push: Any) -> Any:
    """Return a push configuration in the form of 1.0, which has one scheme."""
    if not isinstance(push, dict):
        return push
    changed = dict(push)
    authentication = changed.get("authentication")
    if isinstance(authentication, dict) and isinstance(authentication.get("schemes"), list):
        kept = {name: value for name, value in authentication.items() if name != "schemes"}
        changed["authentication"] = {**kept, "scheme": next(iter(authentication["schemes"]), "")}
    return changed


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


def result_of(operation: str, value: Any) -> Any:
    """Return the result of an operation in the form of 0.3; results of agents behind the host may have any type."""
    if operation == "SendMessage":
        return event_of(value)
    if operation == "ListTaskPushNotificationConfigs":
        configs = value.get("configs", []) if isinstance(value, dict) else value
        return [_old_push(each) for each in configs] if isinstance(configs, list) else configs
    if operation.endswith("PushNotificationConfig"):
        return _old_push(value)
    return value if operation == "GetExtendedAgentCard" else _task(value)


def event_of(event: Mapping[str, Any]) -> Any:
    """Return an event, such as ``{"task": ...}`` or ``{"statusUpdate": ...}``, in the form of 0.3."""
    name, value = next(iter(event.items()), ("", event))
    if name == "task":
        return _task(value)
    if name == "message":
        return _old_message(value)
    if name not in _KINDS or not isinstance(value, dict):
        return event
    changed = {**value, "kind": _KINDS[name]}
    if "status" in changed:
        changed["status"] = _status(changed["status"])
        state = changed["status"].get("state") if isinstance(changed["status"], dict) else ""
        changed["final"] = state in _FINAL
    if "artifact" in changed:
        changed = {"append": False, "lastChunk": False, **changed, "artifact": _artifact(changed["artifact"])}
    return changed


def _task(task: Any) -> Any:
    if not isinstance(task, dict):
        return task
    changed = {**task, "kind": "task", "status": _status(task.get("status"))}
    for name, change in (("artifacts", _artifact), ("history", _old_message)):
        if isinstance(changed.get(name), list):
            changed[name] = [change(each) for each in changed[name]]
    return changed


def _status(status: Any) -> Any:
    if not isinstance(status, dict):
        return status
    state = str(status.get("state")).removeprefix("TASK_STATE_").lower().replace("_", "-")
    changed = {**status, "state": "unknown" if state == "unspecified" else state}
    if "message" in changed:
        changed["message"] = _old_message(changed["message"])
    return changed


def _old_message(message: Any) -> Any:
    if not isinstance(message, dict):
        return message
    role = str(message.get("role")).removeprefix("ROLE_").lower()
    return {**message, "kind": "message", "role": role, "parts": _old_parts(message.get("parts"))}


def _artifact(artifact: Any) -> Any:
    return {**artifact, "parts": _old_parts(artifact.get("parts"))} if isinstance(artifact, dict) else artifact


def _old_parts(parts: Any) -> Any:
    return [_old_part(part) for part in parts] if isinstance(parts, list) else []


def _old_part(part: Any) -> Any:
    """Return a part in the form of 0.3, where data is an object."""
    if not isinstance(part, dict):
        return part
    kept = {"metadata": part["metadata"]} if "metadata" in part else {}
    if "text" in part:
        return {**kept, "kind": "text", "text": part["text"]}
    if "data" in part:
        data = part["data"]
        return {**kept, "kind": "data", "data": data if isinstance(data, dict) else {"value": data}}
    return {**kept, "kind": "file", "file": {old: part[new] for old, new in _FILE if new in part}}


def _old_push(push: Any) -> Any:
    if not isinstance(push, dict):
        return push
    changed = {name: value for name, value in push.items() if name not in ("taskId", "tenant")}
    authentication = changed.get("authentication")
    if isinstance(authentication, dict) and "scheme" in authentication:
        kept = {name: value for name, value in authentication.items() if name != "scheme"}
        changed["authentication"] = {**kept, "schemes": [authentication["scheme"]]}
    return {"taskId": push.get("taskId", ""), "pushNotificationConfig": changed}


# Cards


def card_of(card: Mapping[str, Any], url: str) -> dict[str, Any]:
    """Return a card of 1.0, not signed yet, in the form of 0.3."""
    found = {name: value for name, value in card.items() if name not in ("supportedInterfaces", "securityRequirements")}
    found.update({"url": url, "preferredTransport": "JSONRPC", "protocolVersion": "0.3.0"})
    capabilities = card.get("capabilities")
    if isinstance(capabilities, dict) and "extendedAgentCard" in capabilities:
        found["capabilities"] = {name: value for name, value in capabilities.items() if name != "extendedAgentCard"}
        found["supportsAuthenticatedExtendedCard"] = capabilities["extendedAgentCard"]
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
