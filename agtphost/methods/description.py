"""
DESCRIBE: capabilities, Identity Documents and the namespace (core v08 sections 6 and 7.2.3, design decision 5).

``DESCRIBE /`` is the Capability Document, ``DESCRIBE /agents`` the signed
Agent Namespace Document, ``DESCRIBE /agents/NAME`` an agent's Identity
Document and ``DESCRIBE /agents/NAME/status`` its status.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from zope.interface import implementer

from agtphost.audit.lifecycle import LifecycleState, LifecycleStatus
from agtphost.dispatch.identity_gates import refuse_stopped
from agtphost.errors import Refusal
from agtphost.handlers.context import EndpointContext, EndpointResponse
from agtphost.iagtp import IAgentDirectory, IHandler, IPayloadAdapter
from agtphost.identity.agents import Agent
from agtphost.methods import execution, parameters
from agtphost.vocabulary import media_types
from agtphost.vocabulary.status import Status

PROTOCOL_VERSION = "1.0"

DOMAINS = ("methods", "modalities", "tools", "version", "budget", "zones")
"""``capability_domains`` of core v08 section 7.2.3."""

FORMATS = ("manifest", "json", "status")
"""``?format=`` values that this host serves (core v08 section 6.1)."""

_VERSION = re.compile(r"[0-9]{1,4}(?:\.[0-9]{1,4}){0,2}", re.ASCII)


def version_key(text: str) -> tuple[int, ...]:
    """``1.0`` as ``(1, 0, 0)``, so that versions compare as numbers."""
    numbers = [int(part) for part in text.split(".")]
    return tuple(numbers + [0] * (3 - len(numbers)))


@implementer(IHandler)
class Description:
    """
    Answers ``DESCRIBE``.

    :param methods: every method this host has something bound to; read at every call.
    :param adapters: whose upstreams and tools are described.
    :param states: the present lifecycle state of an agent.
    :param namespace: builds the signed namespace document.
    """

    kind = "built_in"

    def __init__(
        self,
        directory: IAgentDirectory,
        methods: Callable[[], Sequence[str]],
        adapters: Sequence[IPayloadAdapter],
        states: Callable[[Agent], LifecycleState],
        namespace: Callable[[], Mapping[str, Any]],
    ) -> None:
        self._directory = directory
        self._methods = methods
        self._adapters = adapters
        self._states = states
        self._namespace = namespace

    def handle(self, context: EndpointContext) -> EndpointResponse:
        if context.path == "/agents":
            return EndpointResponse(
                result=self._namespace(), enveloped=False, content_type=media_types.AGTP_JSON
            )
        if "name" in context.path_parameters:
            return self._agent(context)
        return EndpointResponse(result=self._capabilities(context))

    # Capabilities

    def _capabilities(self, context: EndpointContext) -> Mapping[str, Any]:
        wanted = self._domains(context.input)
        version_min = parameters.text(context.input, "version_min")
        if version_min is not None and not _VERSION.fullmatch(version_min):
            raise parameters.invalid("version_min", "version_min is not a version.", "Send 1.0.")
        agent = context.agent
        score = agent.document.get("trust_score") if agent is not None else None
        tools = [tool.name for tool in execution.callable_tools(self._adapters, context)]
        satisfied = version_min is None or version_key(version_min) <= version_key(PROTOCOL_VERSION)
        zone = agent.governance_zone if agent is not None else None
        sections: dict[str, Mapping[str, Any]] = {
            "methods": {"methods": list(self._methods())},
            "modalities": {"modalities": ["text", "structured"]},
            "tools": {
                "tools": tools,
                "hosted_protocols": [dict(entry) for adapter in self._adapters for entry in adapter.hosted()],
            },
            "version": {"version": PROTOCOL_VERSION, "version_min_satisfied": satisfied},
            "budget": {"budget_units_accepted": []},
            "zones": {"zones_accepted": [zone] if zone else []},
        }
        document: dict[str, Any] = {}
        for domain in wanted:
            document.update(sections[domain])
        if score is not None or wanted == DOMAINS:
            # Part of the whole document, null where nobody has scored the agent.
            document["trust_score"] = score
        return document

    @staticmethod
    def _domains(given: Mapping[str, Any]) -> tuple[str, ...]:
        asked = parameters.text(given, "capability_domains")
        if asked is None:
            return DOMAINS
        wanted = tuple(part.strip() for part in asked.split(","))
        unknown = [part for part in wanted if part not in DOMAINS]
        if unknown:
            raise parameters.invalid(
                "capability_domains",
                f"{unknown[0][:40]!r} is no capability domain.",
                f"Use {', '.join(DOMAINS)}.",
            )
        return wanted

    # Agents

    def _agent(self, context: EndpointContext) -> EndpointResponse:
        agent = context.agent
        if agent is None:
            raise Refusal(Status.NOT_FOUND, "agent-not-hosted", "No agent of that name is hosted here.")
        state = self._states(agent)
        form = context.input.get("format", "manifest")
        if context.path.endswith("/status") or form == "status":
            return EndpointResponse(
                result=status_document(agent, state), enveloped=False, content_type=media_types.AGTP_JSON
            )
        if form not in FORMATS:
            raise parameters.invalid("format", "That format is not served.", f"Use {', '.join(FORMATS)}.")
        refuse_stopped(state, "agent", agent.agent_id)
        document = agent.served_document(status=state.status.value, updated_at=state.since or None)
        document.update({name: value for name, value in _signals(state).items() if value})
        return EndpointResponse(result=document, enveloped=False, content_type=media_types.IDENTITY_JSON)


def _signals(state: LifecycleState) -> dict[str, Any]:
    """What an Identity Document says of a planned end (companion section 6.3)."""
    if state.status is not LifecycleStatus.DEPRECATED:
        return {}
    return {"successor_agent_id": state.successor, "migration_deadline": state.deadline}


def status_document(agent: Agent, state: LifecycleState) -> dict[str, Any]:
    """The status of core v08 section 6.3.7, as far as it is known without permission."""
    document: dict[str, Any] = {
        "document_type": "agtp-status",
        "canonical_id": agent.agent_id,
        "agent_label": agent.name,
        "lifecycle_state": state.status.value,
        "last_updated": state.since,
    }
    document.update({name: value for name, value in _signals(state).items() if value})
    return document
