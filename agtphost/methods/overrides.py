"""
Built-ins that the operator answers himself: ``[policies.builtins]`` (AGTP-API section 5.9).

An override may say something else than the host would, but not in another
shape: its answer is held against what the drafts document for the built-in,
and a wrong one becomes 500, never a surprise for the caller. What is checked
are the very octets that are sent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from twisted.logger import Logger

from agtphost.contract.schemas import CompiledSchema, compile_schema
from agtphost.errors import Refusal
from agtphost.handlers.authorization import INSPECT_ALL
from agtphost.handlers.built_in import BuiltInContext, ask_handler
from agtphost.handlers.context import EndpointResponse
from agtphost.handlers.interface import IHandler
from agtphost.identity.agents import Agent
from agtphost.vocabulary import jsontext, scopes
from agtphost.vocabulary.reasons import Reason

log = Logger()

MOST_VALUES = 1_000_000
"""Values and names of an answer: the inventory of a large host has many."""

_TEXT = {"type": "string", "minLength": 1}
_TEXT_OR_NOT = {"type": "string"}
_DIGEST = {"type": "string", "pattern": "^[0-9a-f]{64}$"}
_PATH = {"type": "string", "pattern": "^/"}
_METHOD = {"type": "string", "pattern": "^[A-Z]{3,32}$"}


def _listing(optional: Mapping[str, Any] | None = None, /, **members: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schema: an array of objects with these members, ``optional`` ones included, and perhaps more."""
    return {
        "type": "array",
        "items": {"type": "object", "required": list(members), "properties": {**members, **(optional or {})}},
    }


def _patterns() -> dict[str, Any]:
    """Synthesis patterns, each with exactly one of the two kinds of path."""
    listing = _listing(
        {"path_exact": _PATH, "path_regex": _TEXT}, recipe_name=_TEXT, recipe_version=_TEXT, method=_METHOD
    )
    listing["items"]["oneOf"] = [{"required": ["path_exact"]}, {"required": ["path_regex"]}]
    return listing


CONTRACTS: Mapping[str, Mapping[str, Any]] = {
    "/methods": _listing(
        method=_METHOD,
        path=_PATH,
        description=_TEXT_OR_NOT,
        tier={"type": "string", "enum": ["A", "B", "C"]},
    ),
    "/agents": _listing(
        {
            "skills_summary": _TEXT_OR_NOT,
            "methods_count": {"type": "integer", "minimum": 0},
            "owner_id": _TEXT,
            "trust_warning": _TEXT,
        },
        agent_id=_DIGEST,
        name=_TEXT,
        trust_tier={"type": "integer", "minimum": 1, "maximum": 3},
        verification_path=_TEXT,
    ),
    "/tools": _listing({"description": _TEXT_OR_NOT, "agent_id": _DIGEST}, name=_TEXT),
    "/apis": _listing({"description": _TEXT_OR_NOT, "base_url": _TEXT}, name=_TEXT),
    "/patterns": {
        "type": "object",
        "required": ["rcns_enabled", "patterns"],
        "properties": {"rcns_enabled": {"type": "boolean"}, "patterns": _patterns()},
    },
    "/contracts": _listing(
        {"issued_at": _TEXT, "expires_at": _TEXT},
        synthesis_id=_TEXT,
        method=_METHOD,
        path=_PATH,
        originating_agent_id=_DIGEST,
        recipe_lineage={},
        contract_hash=_DIGEST,
        negotiation_origin=_TEXT,
    ),
}
"""What each built-in answers with: AGTP-API sections 5.8 to 5.8.7. Manifest and Genesis are never overridden."""

POSTURE = ("trust_tier", "verification_path", "trust_warning", "owner_id")
"""What /agents never says otherwise than the Identity Document (AGTP-API section 5.8.2)."""

Known = Callable[[str], Agent | None]
"""The agent of an Agent-ID."""


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

    async def answer(self, path: str, context: BuiltInContext, known: Known) -> bytes:
        """
        Call the operator's override; return its answer.

        :param known: finds hosted agents, whose postures no override can change.
        :raises agtphost.errors.Refusal: 500 where it has not the documented shape, or says what it must not.
        """
        answer = await ask_handler(self._handlers[path], context)
        if isinstance(answer, EndpointResponse) and answer.status == 200 and answer.body is None:
            answer = answer.result
        try:
            body = jsontext.encode(answer)
            answer = jsontext.decode(body, max_tokens=MOST_VALUES)
        except (TypeError, ValueError) as error:
            raise _contract_violation(path, f"it is not JSON: {error}") from None
        schema = self._schemas[path]
        # These schemas are the host's own and cost little for each entry: no budget cuts a long list short.
        if not schema.checks(answer):
            raise _contract_violation(path, str(schema.faults(answer)[:5]))
        for fault in _faults(path, answer, context, known):
            raise _contract_violation(path, fault)
        return body


def _contract_violation(path: str, fault: str) -> Refusal:
    log.error("the override of DISCOVER {path} answered outside its contract: {fault}", path=path, fault=fault)
    return Refusal(Reason.BUILTIN_CONTRACT_VIOLATED)


def _faults(path: str, answer: Any, context: BuiltInContext, known: Known) -> Iterator[str]:
    """Yield contract violations that a schema cannot express."""
    if path == "/agents":
        for entry in answer:
            agent = known(entry["agent_id"])
            resolved = {} if agent is None else {**agent.posture.fields(), "owner_id": agent.owner_id}
            for name in POSTURE if agent is not None else ():
                if name in entry and entry[name] != resolved.get(name):
                    yield f"{name} of {entry['agent_id']} is not that of its Identity Document"
    elif path == "/contracts" and not scopes.covers(context.scopes, INSPECT_ALL):
        caller = context.caller.agent_id if context.caller is not None else None
        for entry in answer:
            if entry["originating_agent_id"] != caller:
                yield "it shows a contract of another agent (AGTP-API section 5.8.7)"
