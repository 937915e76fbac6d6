"""
Built-ins that the operator answers himself: ``[policies.builtins]`` (AGTP-API section 5.9).

An override may say something else than the host would, but not in another
shape: its answer is held against what the drafts document for the built-in,
and a wrong one becomes 500, never a surprise for the caller.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from twisted.logger import Logger

from agtphost.contract.schemas import CompiledSchema, compile_schema
from agtphost.errors import Refusal
from agtphost.handlers.context import EndpointContext
from agtphost.iagtp import IHandler
from agtphost.vocabulary.status import Status

log = Logger()

_TEXT = {"type": "string", "minLength": 1}


def _listing(**members: Mapping[str, Any]) -> dict[str, Any]:
    """An array of objects that have these members, and perhaps more."""
    return {
        "type": "array",
        "items": {"type": "object", "required": list(members), "properties": dict(members)},
    }


_OBJECTS = {"type": "array", "items": {"type": "object"}}

CONTRACTS: Mapping[str, Mapping[str, Any]] = {
    "/methods": _listing(
        method={"type": "string", "pattern": "^[A-Z]{3,32}$"},
        path={"type": "string", "pattern": "^/"},
        description={"type": "string"},
        tier={"type": "string", "enum": ["A", "B", "C"]},
    ),
    "/agents": _listing(
        agent_id={"type": "string", "pattern": "^[0-9a-f]{64}$"},
        name=_TEXT,
        trust_tier={"type": "integer", "minimum": 1, "maximum": 3},
        verification_path=_TEXT,
    ),
    "/tools": _listing(name=_TEXT),
    "/apis": _listing(name=_TEXT, base_url=_TEXT),
    "/patterns": {
        "type": "object",
        "required": ["rcns_enabled", "patterns"],
        "properties": {
            "rcns_enabled": {"type": "boolean"},
            "patterns": _listing(recipe_name=_TEXT, recipe_version=_TEXT, method=_TEXT),
        },
    },
    "/contracts": _OBJECTS,
}
"""What each built-in answers with: AGTP-API sections 5.8.2 to 5.8.7. Manifest and Genesis are never overridden."""


class Overrides:
    """
    Answers of the operator's own.

    :param handlers: by built-in path; each path is one of :data:`CONTRACTS`.
    """

    def __init__(self, handlers: Mapping[str, IHandler] | None = None) -> None:
        self._handlers = dict(handlers or {})
        self._schemas: dict[str, CompiledSchema] = {
            path: compile_schema(CONTRACTS[path], role="output") for path in self._handlers
        }

    def __contains__(self, path: str) -> bool:
        return path in self._handlers

    async def answer(self, path: str, context: EndpointContext) -> Any:
        """
        The override's answer.

        :raises agtphost.errors.Refusal: 500 where it has not the documented shape.
        """
        answer = self._handlers[path].handle(context)
        if inspect.isawaitable(answer):
            answer = await answer
        schema = self._schemas[path]
        if schema.is_valid(answer):
            return answer
        log.error(
            "the override of DISCOVER {path} answered outside its contract: {faults}",
            path=path,
            faults=schema.faults(answer)[:5],
        )
        raise Refusal(
            Status.SERVER_ERROR,
            "builtin-contract-violated",
            "The operator's answer for this built-in has not the shape that it must have.",
            remedy="The operator's log has the details.",
        )
