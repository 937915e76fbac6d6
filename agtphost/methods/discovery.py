"""
DISCOVER and its built-in documents: AGTP-API section 5.8, design decision 5.

Every list shows what the caller could call at this moment and nothing else:
it is filtered by the gates' own decision (design decision 14).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from zope.interface import implementer

from agtphost.contract.binding import Binding
from agtphost.contract.reserved import DISCOVERY
from agtphost.dispatch.merchants import MERCHANT, MerchantManifest
from agtphost.errors import Refusal
from agtphost.handlers.context import EndpointContext, EndpointResponse
from agtphost.iagtp import IAgentDirectory, IHandler, IPayloadAdapter
from agtphost.identity.agents import Agent
from agtphost.methods import execution, parameters
from agtphost.vocabulary import media_types
from agtphost.vocabulary.status import Status

Manifest = Callable[[bool], EndpointResponse]
"""The signed server manifest as it is sent; the argument says whether hosted agents are disclosed."""


Listing = Callable[[EndpointContext], Any]
"""What DISCOVER answers with, for one caller."""


RESULT_TYPES = ("agent", "merchant", "any")
"""``result_type`` of DISCOVER: core v08 section 9."""


def document(result: Any, content_type: str = "") -> EndpointResponse:
    """A discovery document: the body itself, without the method envelope."""
    return EndpointResponse(result=result, enveloped=False, content_type=content_type)


@implementer(IHandler)
class Discovery:
    """
    Answers ``DISCOVER`` on the built-in paths.

    :param directory: the agents this host knows.
    :param bindings: everything registered, in registration order; read at every call.
    :param adapters: whose tools are listed.
    :param manifest: builds the server manifest.
    :param anonymous: whether callers without Agent-ID may discover.
    :param disclosure: ``public``, ``authenticated`` or ``private``: who sees the hosted agents.
    :param patterns: what this host would synthesize (AGTP-API section 5.8.6).
    :param contracts: the contracts that the caller may see (AGTP-API section 5.8.7).
    :param merchants: the manifests of merchants, for ``result_type`` (core v08 section 9).
    """

    kind = "built_in"

    def __init__(
        self,
        directory: IAgentDirectory,
        bindings: Callable[[], Iterable[Binding]],
        adapters: Sequence[IPayloadAdapter],
        manifest: Manifest,
        *,
        anonymous: bool,
        disclosure: str,
        patterns: Listing = lambda context: {"rcns_enabled": False, "patterns": []},
        contracts: Listing = lambda context: [],
        merchants: Callable[[Agent], MerchantManifest] | None = None,
    ) -> None:
        self._merchants = merchants
        self._directory = directory
        self._bindings = bindings
        self._adapters = adapters
        self._manifest = manifest
        self._anonymous = anonymous
        self._disclosure = disclosure
        self._documents: dict[str, Callable[[EndpointContext], EndpointResponse]] = {
            "/": self._root,
            "/agents": self._agents,
            "/genesis": self._genesis,
            "/methods": self._methods,
            "/tools": self._tools,
            "/patterns": lambda context: document(patterns(context)),
            "/contracts": lambda context: document(contracts(context)),
        }

    def handle(self, context: EndpointContext) -> EndpointResponse:
        if context.caller is None and not self._anonymous:
            raise Refusal(
                Status.AUTHORIZATION_REQUIRED,
                "anonymous-discovery-disabled",
                "This host does not answer discovery without a calling agent.",
                remedy="Send Agent-ID, and present the agent's client certificate.",
            )
        return self._documents[context.path](context)

    def _root(self, context: EndpointContext) -> EndpointResponse:
        """The manifest for callers that name no agent, the directory for those that do."""
        if "criteria" in context.input:
            raise parameters.invalid(
                "criteria",
                "This host lists what it has and does not search it.",
                "Read DISCOVER /methods, /tools and /agents.",
            )
        if "result_type" in context.input:
            return self._agents(context)
        directory = [{"path": path, "tier": "A"} for path in DISCOVERY]
        if context.named:
            return document({"directory": directory})
        return self._manifest(self._disclosed(context))

    def _disclosed(self, context: EndpointContext) -> bool:
        if self._disclosure == "authenticated":
            return context.assurance.label == "certificate"
        return self._disclosure == "public"

    def _methods(self, context: EndpointContext) -> EndpointResponse:
        listed = [
            {
                "method": binding.method,
                "path": binding.path,
                "description": binding.description,
                "tier": binding.tier,
            }
            for binding in self._bindings()
            if context.admits(binding)
        ]
        return document(listed + [tool_method(tool) for tool in self._callable_tools(context)])

    def _tools(self, context: EndpointContext) -> EndpointResponse:
        return document([tool_entry(tool) for tool in self._callable_tools(context)])

    def _callable_tools(self, context: EndpointContext) -> list[Binding]:
        return execution.callable_tools(self._adapters, context)

    def _agents(self, context: EndpointContext) -> EndpointResponse:
        if not self._disclosed(context):
            return document([])
        kind = context.input.get("result_type", "")
        if not kind:
            return document([agent_entry(agent) for agent in self._directory.hosted()])
        if kind not in RESULT_TYPES:
            raise parameters.invalid(
                "result_type", "That type of result is not served.", f"Use {', '.join(RESULT_TYPES)}."
            )
        wanted = [agent for agent in self._directory.hosted() if kind in ("any", agent.role)]
        return document([self._typed(agent) for agent in wanted])

    def _typed(self, agent: Agent) -> dict[str, Any]:
        """An agent with its role; a merchant with its manifest, for a buyer to verify."""
        entry = {**agent_entry(agent), "role": agent.role}
        if agent.role == MERCHANT and self._merchants is not None:
            manifest = self._merchants(agent)
            entry.update(manifest=manifest.document, manifest_fingerprint=manifest.fingerprint)
        return entry

    def _genesis(self, context: EndpointContext) -> EndpointResponse:
        """The addressed agent's Genesis as it was received, octet for octet (AGTP-API section 5.8.1)."""
        caller = context.caller
        agent = caller if caller is not None and caller.hosted else context.agent
        if agent is None or agent.genesis is None:
            raise Refusal(
                Status.NOT_FOUND,
                "genesis-not-loaded",
                "No Genesis is loaded for the addressed agent.",
                remedy="Address a hosted agent by the path /agents/NAME/genesis.",
            )
        return EndpointResponse(body=agent.genesis.octets, content_type=media_types.AGTP_JSON)


def tool_method(tool: Binding) -> dict[str, Any]:
    """A hosted tool among the methods: which EXECUTE calls it."""
    return {
        "method": tool.method,
        "path": tool.path,
        "description": tool.description,
        "tier": tool.tier,
        "tool": tool.name,
        "action": tool.details.get("action", ""),
        "payload_type": media_types.MCP_TOOLS,
    }


def tool_entry(tool: Binding) -> dict[str, Any]:
    """A hosted tool in the shape of MCP's tools/list, with what calling it needs (AGTP-API section 5.8.4)."""
    return {
        "name": tool.name,
        "description": tool.description,
        "required_scopes": list(tool.required_scopes),
        "min_assurance": tool.min_assurance.label,
        **tool.details,
    }


def agent_entry(agent: Agent) -> dict[str, Any]:
    """One hosted agent: never in disagreement with its Identity Document (AGTP-API section 5.8.2)."""
    posture = agent.posture
    entry: dict[str, Any] = {
        "agent_id": agent.agent_id,
        "name": agent.name,
        "description": agent.description,
        "trust_tier": posture.trust_tier,
        "verification_path": posture.verification_path,
        "skills_summary": agent.description,
        "methods_count": len(agent.document.get("methods", ())),
        "uri": f"/agents/{agent.name}",
    }
    if agent.owner_id:
        entry["owner_id"] = agent.owner_id
    if posture.trust_tier == 2 and posture.trust_warning:
        entry["trust_warning"] = posture.trust_warning
    return entry
