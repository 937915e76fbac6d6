"""
Translate requests of a front's client to the ids of an A2A agent behind the host, and answers back.

Everything passes unchanged, except what decides the owner of a task. The ids of tasks are the agent's: a client reaches
the tasks that it began, and for any other it gets the answer for one that does not exist. A context's id is the agent's
too if the agent made it. If a client made it up, it gets another name at the agent, so that two clients who choose the
same id do not share a conversation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any
from urllib.parse import urlsplit

from agtphost.adapters import precedence
from agtphost.adapters.a2a.dialects import A2aOperation
from agtphost.adapters.a2a.messages import FORWARDED
from agtphost.upstream.failures import ErrorAnswer
from agtphost.upstream.ownership import LONGEST_ID, OwnedTask, TaskOwnership
from agtphost.vocabulary import a2a_errors

ANYWHERE = "*"
"""The value of ``push_origins`` that allows every URL."""

MOST_REFERENCES = 32

_OF_TASK = ("id", "taskId", "contextId", "tenant")
_OF_PUSH = (*_OF_TASK, "url", "token", "authentication")
_OF_SENDING = ("message", "configuration", "metadata", "tenant")
_OF_MESSAGE = ("messageId", "taskId", "contextId", "referenceTaskIds", "role", "parts", "metadata", "extensions")
_OF_CONFIGURATION = (
    *("acceptedOutputModes", "historyLength", "returnImmediately", "taskPushNotificationConfig"),
    *("pushNotificationConfig", "pushNotification", "blocking"),
)
_OLD_MEMBERS = ("pushNotificationConfig", "pushNotification", "blocking")
"""Members of versions before 1.0; the front has already converted them to 1.0."""


def make_error(code: int, message: str) -> ErrorAnswer:
    """Return the error that the agent would answer with, if it knew this client as the host does."""
    return ErrorAnswer({"code": code, "message": message, "data": [a2a_errors.info(code, {})]})


def unknown_task() -> ErrorAnswer:
    """Return the error -32001, for tasks that do not exist and for those of others alike."""
    return make_error(a2a_errors.TASK_NOT_FOUND, "Task not found")


def normalize_members(value: Any, names: tuple[str, ...]) -> Any:
    """
    Return an object in which no member besides ``names`` can be read as one of them.

    ProtoJSON has two names for each member, and some agents ignore the case of members. Without this, every client
    could reach a task by naming it in a way that this host does not check. Of both names the last counts, and only that
    is sent.
    """
    if not isinstance(value, dict):
        return value
    plain = {name.lower(): name for name in names}
    found: dict[str, Any] = {}
    for name, inner in value.items():
        meant = plain.get(name.replace("_", "").replace("-", "").lower())
        if meant is None:
            found[name] = inner
        elif name in (meant, _snake(meant)):
            found[meant] = inner
    return found


def _snake(name: str) -> str:
    return "".join(f"_{sign.lower()}" if sign.isupper() else sign for sign in name)


@dataclass(frozen=True, slots=True, kw_only=True)
class RelayClient:
    """A client, and its tasks with one agent."""

    links: TaskOwnership
    upstream: str
    owner: str
    """The owner of its tasks: see :func:`agtphost.adapters.callers.owner_of`."""

    client: str
    """The client of the front; empty: the agent itself."""

    malformed: int = a2a_errors.INVALID_PARAMS
    """The error code for a member of a wrong type, in the binding that the client speaks."""

    def task(self, value: Any) -> OwnedTask:
        """
        Return the client's task of an id.

        :raises ErrorAnswer: -32001 for other tasks; for a value that is not a text, that it is malformed.
        """
        if not isinstance(value, str):
            raise make_error(self.malformed, "The id of a task must be a text")
        link = self.links.by_remote(self.owner, self.upstream, value, self.client) if value else None
        if link is None or not link.remote_id:
            raise unknown_task()
        return link

    def all(self) -> list[OwnedTask]:
        """Return its links, the last changed first."""
        return list(self.links.list_of(self.owner, self.upstream, self.client))

    def context(self, given: str) -> str:
        """Return the agent's id for a context of the client."""
        for link in self.all():
            if given == (link.shown or link.conversation):
                return link.conversation
        named = f"{self.owner}\n{self.client}\n{self.upstream}\n{given}"
        return sha256(named.encode()).hexdigest()[:32]


@dataclass(frozen=True, slots=True, kw_only=True)
class RelayRequest:
    """An operation, ready to be sent to the agent."""

    params: dict[str, Any]
    link: OwnedTask | None = None
    """The task that it names."""

    context: str = ""
    """The agent's id of the context that it names; empty where it names none."""

    shown: str = ""
    """The client's id of that context."""

    pushed: Any = None
    """The push configuration that it has."""


def read(operation: A2aOperation, given: Mapping[str, Any], whose: RelayClient) -> RelayRequest:
    """
    Translate parameters to the agent's ids.

    :raises ErrorAnswer: they name what does not belong to the client.
    """
    if operation in (A2aOperation.SEND, A2aOperation.STREAM):
        return _read_sending(given, whose)
    names = _OF_PUSH if operation is A2aOperation.PUSH_CREATE else _OF_TASK
    params = normalize_members(dict(given), names)
    params.pop("tenant", None)
    if operation in (A2aOperation.LIST, A2aOperation.EXTENDED_CARD):
        return _read_listing(params, whose)
    member = "taskId" if operation.name.startswith("PUSH") else "id"
    if member not in params or params[member] == "":
        return RelayRequest(params=params, pushed=params if operation is A2aOperation.PUSH_CREATE else None)
    if not _is_whole_number(params.get("historyLength", 0)):
        raise make_error(whose.malformed, "historyLength must be a whole number")
    if _is_negative(params.get("historyLength")):
        raise make_error(a2a_errors.INVALID_PARAMS, "historyLength must not be negative")
    link = whose.task(params[member])
    return RelayRequest(params=params, link=link, pushed=params if operation is A2aOperation.PUSH_CREATE else None)


def _is_whole_number(value: Any) -> bool:
    """Return whether ProtoJSON reads a value as a whole number."""
    text = value.lstrip("-") if isinstance(value, str) else ""
    return value is None or type(value) in (int, float) or (text.isascii() and text.isdigit())


def _is_negative(value: Any) -> bool:
    """Return whether a whole number of ProtoJSON, which may be a text, is below zero."""
    return value.startswith("-") and bool(value.strip("-0")) if isinstance(value, str) else bool(value and value < 0)


def _read_listing(params: dict[str, Any], whose: RelayClient) -> RelayRequest:
    given = params.get("contextId")
    if not isinstance(given, str) or not given:
        return RelayRequest(params=params)
    context = params["contextId"] = whose.context(given)
    return RelayRequest(params=params, context=context, shown=given)


def _read_sending(given: Mapping[str, Any], whose: RelayClient) -> RelayRequest:
    params = normalize_members(dict(given), _OF_SENDING)
    params.pop("tenant", None)
    params.pop(FORWARDED, None)
    if "metadata" in params and isinstance(params["metadata"], dict):
        params["metadata"] = precedence.drop_claims(params["metadata"])
    asked = RelayRequest(params=params)
    message = normalize_members(params.get("message"), _OF_MESSAGE)
    if isinstance(message, dict):
        asked = _read_message(params, message, whose)
    configuration = normalize_members(params.get("configuration"), _OF_CONFIGURATION)
    if isinstance(configuration, dict):
        for name in _OLD_MEMBERS:
            configuration.pop(name, None)
        params["configuration"] = configuration
        push = normalize_members(configuration.get("taskPushNotificationConfig"), _OF_PUSH)
        if isinstance(push, dict):
            for name in ("taskId", "tenant"):
                push.pop(name, None)
            configuration["taskPushNotificationConfig"] = push
            asked = replace(asked, pushed=push)
    return asked


def _read_message(params: dict[str, Any], message: dict[str, Any], whose: RelayClient) -> RelayRequest:
    params["message"] = message
    if isinstance(message.get("metadata"), dict):
        message["metadata"] = precedence.drop_claims(message["metadata"])
    references = message.get("referenceTaskIds")
    if isinstance(references, list):
        if len(references) > MOST_REFERENCES:
            raise make_error(a2a_errors.INVALID_PARAMS, "message.referenceTaskIds are too many")
        for each in references:
            whose.task(each)
    link = whose.task(message["taskId"]) if message.get("taskId") else None
    given = message.get("contextId")
    if not isinstance(given, str) or not given:
        # If the agent takes the context from the task, the client knows it by the agent's id.
        return RelayRequest(params=params, link=link)
    if len(given) > LONGEST_ID:
        raise make_error(a2a_errors.INVALID_PARAMS, f"message.contextId is longer than {LONGEST_ID} characters")
    if link is not None and given == (link.shown or link.conversation):
        message["contextId"] = link.conversation
    else:
        message["contextId"] = whose.context(given)
    return RelayRequest(params=params, link=link, context=message["contextId"], shown=given)


# Push notifications


def may_push(url: Any, origins: tuple[str, ...]) -> bool:
    """
    Return whether an agent may be given a URL to call.

    :param origins: such as ``https://hooks.example``, ``http://localhost:*`` for any port, or ``*``.
    """
    if ANYWHERE in origins:
        return True
    if not isinstance(url, str) or not url.isascii() or not url.isprintable() or "\\" in url or " " in url:
        return False
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return False
    if parts.scheme not in ("https", "http") or not parts.hostname or parts.username is not None:
        return False
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    usual = 443 if parts.scheme == "https" else 80
    base = f"{parts.scheme}://{host}"
    if f"{base}:*" in origins or f"{base}:{port or usual}" in origins:
        return True
    return base in origins and port in (None, usual)


# Answers


def rename_context(value: Any, remote: str, shown: str) -> Any:
    """
    Return a task, message or event in which a context has the client's id.

    :param remote: the agent's id of the context.
    """
    if not shown or remote == shown or not isinstance(value, dict):
        return value
    changed = dict(value)
    if changed.get("contextId") == remote:
        changed["contextId"] = shown
    for name in ("task", "message", "statusUpdate", "artifactUpdate", "status"):
        if isinstance(changed.get(name), dict):
            changed[name] = rename_context(changed[name], remote, shown)
    if isinstance(changed.get("history"), list):
        changed["history"] = [rename_context(each, remote, shown) for each in changed["history"]]
    return changed


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskNews:
    """The ids and the state that an answer or event has of a task, or of a conversation without one."""

    task_id: str = ""
    context: str = ""
    state: str = ""


def read_news(value: Any) -> TaskNews:
    """Return what a result of SendMessage or an event is about; ids in an unusable form are left out."""
    event = value if isinstance(value, dict) else {}
    for name, member in (("task", "id"), ("statusUpdate", "taskId"), ("artifactUpdate", "taskId"), ("message", "")):
        inner = event.get(name)
        if isinstance(inner, dict):
            return read_task_news(inner, member)
    return TaskNews()


def read_task_news(task: Mapping[str, Any], member: str = "id") -> TaskNews:
    """
    Return the id, context and state of a task.

    :param member: the member that has its id.
    """
    status = task.get("status")
    state = status.get("state") if isinstance(status, dict) else None
    return TaskNews(task_id=_short(task.get(member)), context=_short(task.get("contextId")), state=_short(state))


def _short(value: Any) -> str:
    return value if isinstance(value, str) and len(value) <= LONGEST_ID and value.isprintable() else ""
