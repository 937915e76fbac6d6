"""Read the payload of ``a2a.message.send``, and translate its ids to those of the agent."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agtphost.adapters import precedence
from agtphost.adapters.a2a.tasks import INPUT_REQUIRED, TERMINAL
from agtphost.adapters.callers import agent_of, is_forwarded, owner_of
from agtphost.errors import Refusal, not_found
from agtphost.handlers.built_in import BuiltInContext
from agtphost.upstream.ownership import OwnedTask, TaskOwnership
from agtphost.vocabulary.reasons import Reason

CALLBACKS = ("taskPushNotificationConfig", "pushNotificationConfig", "pushNotification")
"""Members that could name a URL to be called back at: never taken from a request (T-SS)."""

CONFIGURATION = ("acceptedOutputModes", "historyLength", "returnImmediately")
FORWARDED = "agtp.agent_id"
"""Metadata with the caller's Agent-ID, sent where the operator wants that."""


@dataclass(frozen=True, kw_only=True)
class OutgoingMessage:
    """A message, ready to be sent."""

    params: dict[str, Any]
    link: OwnedTask | None
    """The task that it continues; None for a new task."""

    task_id: str
    """The AGTP Task-ID: the caller's, or a new one."""

    contradicted: tuple[str, ...]
    """Header fields that the payload contradicts."""


def callback_refusal(explanation: str) -> Refusal:
    """Return the 422 refusal of a request that has a URL to call back at."""
    return Refusal(
        Reason.CALLBACK_REFUSED,
        explanation,
        remedy="Ask for a stream, poll with a2a.tasks.get, or use the host's own push configuration.",
    )


def unknown_task() -> Refusal:
    """Return the 404 refusal for a task that this caller did not begin."""
    return not_found(
        Reason.UNKNOWN_TASK,
        "The caller has no such task with this agent.",
        remedy="a2a.tasks.list lists the caller's tasks; send the Task-ID of one, or its a2a_task_id, as id.",
    )


def find_task(context: BuiltInContext, payload: Mapping[str, Any], links: TaskOwnership, upstream: str) -> OwnedTask:
    """
    Return the task that a request is about: ``id`` of its payload, or else its Task-ID.

    :raises Refusal: 404 where it is not the caller's.
    """
    owner = owner_of(context)
    given = payload.get("id", payload.get("taskId"))
    if given is None:
        link = links.by_task(owner, upstream, context.task_id)
    else:
        link = links.by_remote(owner, upstream, str(given)) or links.by_task(owner, upstream, str(given))
    if link is None:
        raise unknown_task()
    return link


def read(context: BuiltInContext, links: TaskOwnership, upstream: str, *, forward: bool) -> OutgoingMessage:
    """
    Read a payload, whose shape its schema has checked.

    :param forward: whether the agent gets the caller's Agent-ID.
    :raises Refusal: 404 for another caller's task, 422 for another caller's context, 409 for a stale requestState.
    """
    payload = context.input
    owner = owner_of(context)
    message = dict(_message(payload))
    contradicted = precedence.differences(context, payload, payload.get("metadata"), message.get("metadata"))
    link, ignored = _link(context, message, links, upstream)
    called = payload.get("a2a_task_id")
    if link is None and called is not None:
        # A delegator's own name for the task, which may be new to this host (core v08 appendix G).
        link = links.by_remote(owner, upstream, called) or links.by_task(owner, upstream, called)
    _require_state(payload, link)
    configuration = _configuration(payload)
    message.setdefault("messageId", secrets.token_hex(16))
    message["role"] = "ROLE_USER"
    for name in ("taskId", "contextId"):
        message.pop(name, None)
    conversation = _conversation(context, payload, links, upstream, link)
    if conversation:
        message["contextId"] = conversation
    if link is not None and link.remote_id and link.state not in TERMINAL:
        message["taskId"] = link.remote_id
    else:
        link = None
    said = precedence.drop_claims(message.pop("metadata", None))
    if said:
        message["metadata"] = said
    params: dict[str, Any] = {"message": message}
    metadata = precedence.drop_claims(payload.get("metadata"))
    if forward and is_forwarded(context):
        metadata[FORWARDED] = agent_of(context)
    if metadata:
        params["metadata"] = metadata
    if configuration:
        params["configuration"] = configuration
    if ignored and "Task-ID" not in contradicted:
        contradicted = tuple(sorted((*contradicted, "Task-ID")))
    return OutgoingMessage(
        params=params, link=link, task_id=context.task_id or secrets.token_hex(16), contradicted=contradicted
    )


def _message(payload: Mapping[str, Any]) -> Mapping[str, Any]:
    responses = payload.get("inputResponses")
    message = payload.get("message")
    if isinstance(responses, dict) and message is None:
        answer = responses.get("message")
        message = answer.get("message", answer) if isinstance(answer, dict) else None
    if not isinstance(message, dict) or not isinstance(message.get("parts"), list) or not message["parts"]:
        raise Refusal(
            Reason.INVALID_PAYLOAD,
            "The payload has no message with parts.",
            remedy='Send {"message": {"parts": [{"text": "..."}]}} as the payload.',
        )
    if message.get("role") not in (None, "ROLE_USER", "user"):
        raise Refusal(Reason.INVALID_PAYLOAD, "A caller speaks as ROLE_USER.", remedy="Leave message.role out.")
    return message


def _link(
    context: BuiltInContext, message: Mapping[str, Any], links: TaskOwnership, upstream: str
) -> tuple[OwnedTask | None, bool]:
    """Return the task that the message continues, and whether the payload named another than the header."""
    owner = owner_of(context)
    by_header = links.by_task(owner, upstream, context.task_id)
    given = message.get("taskId")
    if not given:
        return by_header, False
    if by_header is not None:
        return by_header, given not in (by_header.remote_id, by_header.task_id)
    link = links.by_remote(owner, upstream, str(given)) or links.by_task(owner, upstream, str(given))
    if link is None:
        raise unknown_task()
    return link, context.task_id is not None and link.task_id != context.task_id


def _require_state(payload: Mapping[str, Any], link: OwnedTask | None) -> None:
    """Check that an answer to a question is for the task that asked it, and that the task still waits."""
    if "inputResponses" not in payload:
        return
    state = payload.get("requestState")
    if link is None or link.state != INPUT_REQUIRED or (state is not None and state != link.remote_id):
        raise Refusal(
            Reason.STALE_REQUEST_STATE,
            "No task of this Task-ID waits for this answer.",
            remedy="Read the task with a2a.tasks.get, and answer its present question.",
        )


def _configuration(payload: Mapping[str, Any]) -> dict[str, Any]:
    given = payload.get("configuration")
    configuration = given if isinstance(given, dict) else {}
    if any(name in configuration or name in payload for name in CALLBACKS):
        raise callback_refusal("A request cannot set the URL that an agent calls back.")
    found = {name: configuration[name] for name in CONFIGURATION if name in configuration}
    if configuration.get("blocking") is False:
        found["returnImmediately"] = True
    return found


def _conversation(
    context: BuiltInContext, payload: Mapping[str, Any], links: TaskOwnership, upstream: str, link: OwnedTask | None
) -> str:
    """Return the A2A context: that of the task, of the Session-ID, or one that the caller takes part in."""
    owner = owner_of(context)
    if link is not None and link.conversation:
        return link.conversation
    known = links.find_conversation(owner, upstream, context.session_id)
    if known:
        return known
    message = payload.get("message")
    given = message.get("contextId") if isinstance(message, dict) else None
    if not given:
        return ""
    if not isinstance(given, str) or not links.owns_conversation(owner, upstream, given):
        raise not_found(Reason.UNKNOWN_CONTEXT)
    return given
