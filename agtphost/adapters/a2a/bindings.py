"""The actions of one A2A agent as bindings, so that the same gates decide about them as about other methods."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agtphost.adapters.a2a import relay
from agtphost.adapters.a2a.agent import A2AAgent
from agtphost.adapters.a2a.dialects import A2aOperation
from agtphost.adapters.a2a.handlers import ListTasks, PushAction, ReadCard, SendMessage, SubscribeToTask, TaskAction
from agtphost.adapters.upstream_actions import action_binding
from agtphost.contract.binding import Binding
from agtphost.contract.schemas import compile_schema
from agtphost.handlers.built_in import IBuiltInHandler
from agtphost.upstream.ownership import TaskOwnership
from agtphost.vocabulary import media_types

PAYLOAD_TYPE = media_types.A2A
MEMBER = "agent"
"""The member of a payload that names the upstream."""

SEND = "a2a.message.send"
GET = "a2a.tasks.get"
LIST = "a2a.tasks.list"
CANCEL = "a2a.tasks.cancel"
SUBSCRIBE = "a2a.tasks.subscribe"
CARD = "a2a.card.get"
EXTENDED_CARD = "a2a.card.extended"
PUSH = {
    "a2a.push.create": A2aOperation.PUSH_CREATE,
    "a2a.push.get": A2aOperation.PUSH_GET,
    "a2a.push.list": A2aOperation.PUSH_LIST,
    "a2a.push.delete": A2aOperation.PUSH_DELETE,
}

ACTIONS = (SEND, GET, LIST, CANCEL, SUBSCRIBE, CARD, EXTENDED_CARD, *PUSH)

_PARTS = {"type": "array", "minItems": 1, "maxItems": 1000, "items": {"type": "object"}}
_MESSAGE = {
    "type": "object",
    "properties": {
        "messageId": {"type": "string", "minLength": 1, "maxLength": 256},
        "contextId": {"type": "string", "maxLength": 256},
        "taskId": {"type": "string", "maxLength": 256},
        "role": {"type": "string"},
        "parts": _PARTS,
        "metadata": {"type": "object"},
        "extensions": {"type": "array", "maxItems": 32, "items": {"type": "string"}},
        "referenceTaskIds": {"type": "array", "maxItems": 0},
    },
    "required": ["parts"],
    "additionalProperties": False,
}
_TASK = {
    "type": "object",
    "properties": {
        "agent": {"type": "string"},
        "id": {"type": "string", "minLength": 1, "maxLength": 256},
        "historyLength": {"type": "integer", "minimum": 0, "maximum": 1000},
    },
}
_SCHEMAS: Mapping[str, Mapping[str, Any]] = {
    SEND: {
        "type": "object",
        "properties": {
            "agent": {},
            "a2a_task_id": {"type": "string", "minLength": 1, "maxLength": 256},
            "message": _MESSAGE,
            "configuration": {"type": "object"},
            "metadata": {"type": "object"},
            "inputResponses": {"type": "object"},
            "requestState": {"type": "string", "maxLength": 256},
        },
        "required": ["message"],
    },
    GET: _TASK,
    CANCEL: _TASK,
    SUBSCRIBE: _TASK,
    LIST: {
        "type": "object",
        "properties": {
            "status": {"type": "string"},
            "pageSize": {"type": "integer", "minimum": 1, "maximum": 1000},
        },
    },
    **dict.fromkeys(relay.ACTIONS, relay.SCHEMA),
}
CONTINUATION = compile_schema({**_SCHEMAS[SEND], "required": []}, role="tool")
"""The schema of a payload without a message: ``inputResponses`` may have it."""

_COMPILED = {action: compile_schema(schema, role="tool") for action, schema in _SCHEMAS.items()}


def _capability(operation: A2aOperation) -> str:
    if operation in (A2aOperation.SEND, A2aOperation.STREAM):
        return "transaction"
    return "retrieval" if operation in relay.READ_OPERATIONS else "modification"


_DESCRIPTIONS: Mapping[str, tuple[str, str]] = {
    SEND: ("Send a message to the A2A agent", "transaction"),
    GET: ("Read one of the caller's tasks", "retrieval"),
    LIST: ("List the caller's tasks", "retrieval"),
    CANCEL: ("Cancel one of the caller's tasks", "modification"),
    SUBSCRIBE: ("Follow one of the caller's tasks as a stream", "retrieval"),
    CARD: ("Read the agent's card", "retrieval"),
    EXTENDED_CARD: ("Read the agent's extended card", "retrieval"),
    "a2a.push.create": ("Have a task pushed to the place that the operator configured", "modification"),
    "a2a.push.get": ("Read a push configuration of a task", "retrieval"),
    "a2a.push.list": ("List the push configurations of a task", "retrieval"),
    "a2a.push.delete": ("Remove a push configuration of a task", "modification"),
    **{
        action: (f"Carry {operation.value[0]} of A2A to the agent", _capability(operation))
        for action, operation in relay.ACTIONS.items()
    },
}


def _handler(action: str, agent: A2AAgent, links: TaskOwnership) -> IBuiltInHandler:
    if action == SEND:
        return SendMessage(agent, links)
    if action in (GET, CANCEL):
        return TaskAction(agent, links, A2aOperation.GET if action == GET else A2aOperation.CANCEL)
    if action == SUBSCRIBE:
        return SubscribeToTask(agent, links)
    if action in relay.ACTIONS:
        return relay.A2aRelay(agent, links, relay.ACTIONS[action])
    if action == LIST:
        return ListTasks(agent, links)
    if action in PUSH:
        return PushAction(agent, links, PUSH[action])
    return ReadCard(agent, links, extended=action == EXTENDED_CARD)


def bindings_of(agent: A2AAgent, links: TaskOwnership) -> dict[str, Binding]:
    """
    Return the bindings of an agent by action. The present card describes them; only the operator sets their rights.
    """
    return {action: _binding(action, agent, links) for action in (*ACTIONS, *relay.ACTIONS)}


def list_offered_actions(agent: A2AAgent) -> tuple[str, ...]:
    """Return the actions that the agent's card offers and the operator's settings make possible."""
    card = agent.card
    if card is None:
        return ()
    able = {
        SUBSCRIBE: card.streaming,
        EXTENDED_CARD: card.extended,
        **{action: card.push and bool(agent.settings.push_url) for action in PUSH},
    }
    return tuple(action for action in ACTIONS if able.get(action, True))


def _binding(action: str, agent: A2AAgent, links: TaskOwnership) -> Binding:
    settings, card = agent.settings, agent.card
    what, capability = _DESCRIPTIONS[action]
    title = "" if card is None else card.name
    described = f"{what} {title or settings.name}" if action == SEND else f"{what} ({settings.name})"
    if action == SEND and card is not None and card.description:
        described = f"{described}: {card.description}"
    return action_binding(
        agent,
        action,
        _handler(action, agent, links),
        what=what,
        description=described,
        capability=capability,
        schema=_COMPILED.get(action),
        digest="" if card is None else f"{card.digest}:{action}",
        outcome="The agent's answer." if action == SEND else "",
        confidence=0.7 if action == SEND else 0.9,
        extra={"a2a_agent": settings.name, "a2a_action": action},
        payload_type=PAYLOAD_TYPE,
        member=MEMBER,
        known=card is not None,
    )
