"""The actions of one ACP server as bindings, so that the same gates decide about them as about other methods."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from hashlib import sha256
from typing import Any

from agtphost.adapters.acp.handlers import CreateRun, Ping, ReadAgents, ReadSession, ResumeRun, RunAction, RunEvents
from agtphost.adapters.acp.server import ACPServer
from agtphost.adapters.upstream_actions import action_binding
from agtphost.contract.binding import Binding
from agtphost.contract.schemas import compile_schema
from agtphost.handlers.built_in import IBuiltInHandler
from agtphost.identity.canonical import canonical
from agtphost.upstream.ownership import TaskOwnership
from agtphost.vocabulary import media_types

PAYLOAD_TYPE = media_types.ACP_RUN
MEMBER = "server"
"""The member of a payload that names the upstream."""

CREATE = "acp.runs.create"

_MESSAGES = {
    "type": "array",
    "maxItems": 1000,
    "items": {
        "type": "object",
        "properties": {"parts": {"type": "array", "maxItems": 1000, "items": {"type": "object"}}},
        "required": ["parts"],
    },
}
_RUN = {
    "type": "object",
    "properties": {"run_id": {"type": "string", "minLength": 1, "maxLength": 256}, "await_resume": {"type": "object"}},
}
_CREATE = {
    "type": "object",
    "properties": {
        "agent_name": {"type": "string", "minLength": 1, "maxLength": 128},
        "input": _MESSAGES,
        "mode": {"enum": ["sync", "async", "stream"]},
        "inputResponses": {"type": "object"},
        "requestState": {"type": "string", "maxLength": 256},
    },
}
_ANY = {"type": "object"}

_ACTIONS: Mapping[str, tuple[str, str, Mapping[str, Any], Callable[[ACPServer, TaskOwnership], IBuiltInHandler]]] = {
    CREATE: ("Run an agent of the ACP server", "transaction", _CREATE, CreateRun),
    "acp.runs.get": ("Read one of the caller's runs", "retrieval", _RUN, partial(RunAction, cancel=False)),
    "acp.runs.resume": ("Answer the question of one of the caller's runs", "transaction", _RUN, ResumeRun),
    "acp.runs.cancel": ("Cancel one of the caller's runs", "modification", _RUN, partial(RunAction, cancel=True)),
    "acp.runs.events": ("Read the events of one of the caller's runs", "retrieval", _RUN, RunEvents),
    "acp.sessions.get": ("Read the caller's session", "retrieval", _ANY, ReadSession),
    "acp.agents.list": ("List the server's agents", "retrieval", _ANY, partial(ReadAgents, one=False)),
    "acp.agents.get": ("Read the manifest of an agent", "retrieval", _ANY, partial(ReadAgents, one=True)),
    "acp.ping": ("Ask whether the server answers", "retrieval", _ANY, Ping),
}
ACTIONS = tuple(_ACTIONS)

_COMPILED = {action: compile_schema(schema, role="tool") for action, (_, _, schema, _) in _ACTIONS.items()}


def bindings_of(server: ACPServer, links: TaskOwnership) -> dict[str, Binding]:
    """Return the bindings of a server by action, as its present manifests describe them."""
    return {action: _binding(action, server, links) for action in ACTIONS}


def _binding(action: str, server: ACPServer, links: TaskOwnership) -> Binding:
    settings = server.settings
    what, capability, _, make = _ACTIONS[action]
    names = ", ".join(server.manifests)
    return action_binding(
        server,
        action,
        make(server, links),
        what=what,
        description=f"{what}: {names}" if action == CREATE and names else f"{what} ({settings.name})",
        capability=capability,
        schema=_COMPILED[action],
        digest=sha256(canonical([action, dict(server.manifests)])).hexdigest(),
        confidence=0.7 if action == CREATE else 0.9,
        extra={"acp_server": settings.name, "acp_action": action},
        payload_type=PAYLOAD_TYPE,
        member=MEMBER,
        known=bool(server.manifests),
    )
