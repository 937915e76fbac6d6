"""
DISCOVER and its built-in documents: AGTP-API section 5.8, design decision 5.

Every list shows what the caller could call at this moment and nothing else:
it is filtered by the gates' own decision (design decision 14).
"""

from __future__ import annotations

import operator
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from zope.interface import implementer

from agtphost.contract.binding import Binding
from agtphost.contract.reserved import DISCOVERY
from agtphost.dispatch.merchants import MerchantManifest
from agtphost.errors import Refusal
from agtphost.handlers import parameters
from agtphost.handlers.built_in import Answer, BuiltInContext, IBuiltInHandler
from agtphost.iagtp import IAgentDirectory, IPayloadAdapter
from agtphost.identity.agents import Agent
from agtphost.methods import execution
from agtphost.methods.discovery import agis
from agtphost.methods.discovery.candidates import Candidates, describe_role
from agtphost.methods.discovery.description import at_once
from agtphost.methods.discovery.filters import result_type
from agtphost.methods.discovery.openapi import FORMAT, OpenAPIFace, Run
from agtphost.methods.discovery.visibility import Visibility
from agtphost.methods.discovery.zones import Sees
from agtphost.methods.overrides import Overrides
from agtphost.vocabulary import jsontext, media_types
from agtphost.vocabulary.jsonslices import Encoded
from agtphost.vocabulary.lru import keep
from agtphost.vocabulary.reasons import Reason

Manifest = Callable[[bool, bool, str], Awaitable[Answer]]
"""
The signed server manifest as it is sent: whether hosted agents are disclosed, and whether the reader is known, so that
data classes are listed in full.
"""


Listing = Callable[[BuiltInContext], Any]
"""What DISCOVER answers with, for one caller."""


Fields = tuple[tuple[str, str], ...]
Admits = Callable[[Binding], bool]

ROOTS = dict.fromkeys((media_types.MANIFEST_JSON, media_types.AGTP_JSON, media_types.JSON, "*/*"), "")
"""What else Accept may prefer at the root."""

TARGETS = ("methods", "agents", "genesis", "tools", "apis")
"""What the body of a DISCOVER may name, for callers of earlier drafts (AGTP-API section 5.10)."""

MOST_WARNED = 10_000
"""Agents that are known to have been warned."""

MOST_LISTS = 64
"""Lists of methods and of agents that are kept, each of one authority."""

MOST_LISTED = 32 * 1024 * 1024
"""Octets of all lists that are kept."""

_Known = tuple[list[Any], bytes]
"""What a list was made of, compared by identity, and its octets."""


def document(result: Any, content_type: str = "") -> Answer:
    """Return the answer for a discovery document: the body itself, without the method envelope."""
    return Answer(result=result, enveloped=False, content_type=content_type)


@implementer(IBuiltInHandler)
class Discovery:
    """
    Answers ``DISCOVER`` on the built-in paths.

    :param directory: the agents this host knows.
    :param bindings: everything registered, in registration order; read at every call.
    :param adapters: whose tools are listed.
    :param manifest: builds the server manifest.
    :param visibility: which agents a caller is shown.
    :param patterns: what this host would synthesize (AGTP-API section 5.8.6).
    :param contracts: the contracts that the caller may see (AGTP-API section 5.8.7).
    :param apis: the HTTP APIs that this server fronts (AGTP-API section 5.8.5).
    :param candidates: answers searches; None on a host that does not search.
    :param overrides: built-ins that the operator answers himself.
    :param merchants: the manifests of merchants, for ``result_type`` (core v08 section 9).
    :param openapi: writes what a caller may call for clients of HTTP; None on a host that does not.
    :param face: writes it as an AGIS document; None on a host that does not.
    :param offload: calls a function that takes its time off the reactor.
    """

    kind = "built_in"

    def __init__(
        self,
        directory: IAgentDirectory,
        bindings: Callable[[], Iterable[Binding]],
        adapters: Sequence[IPayloadAdapter],
        manifest: Manifest,
        visibility: Visibility,
        *,
        patterns: Listing = lambda context: {"rcns_enabled": False, "patterns": []},
        contracts: Listing = lambda context: [],
        apis: Sequence[Mapping[str, Any]] = (),
        candidates: Candidates | None = None,
        overrides: Overrides | None = None,
        merchants: Callable[[Agent], MerchantManifest] | None = None,
        openapi: OpenAPIFace | None = None,
        face: agis.AgisFace | None = None,
        offload: Run = at_once,
    ) -> None:
        self._agis = face
        self._offload = offload
        self._face = openapi
        self._merchants = merchants
        self._candidates = candidates
        self._overrides = Overrides() if overrides is None else overrides
        self._visibility = visibility
        self._warned: OrderedDict[str, None] = OrderedDict()
        self._lists: OrderedDict[tuple[Any, ...], _Known] = OrderedDict()
        self._listed_octets = 0
        self._directory = directory
        self._bindings = bindings
        self._adapters = adapters
        self._manifest = manifest
        self._long: dict[str, Callable[[BuiltInContext, Fields], Awaitable[Answer]]] = {
            "/agents": self._agents,
            "/methods": self._methods,
            "/tools": self._tools,
        }
        self._documents: dict[str, Callable[[BuiltInContext], Answer]] = {
            "/genesis": self._genesis,
            "/apis": lambda context: document([dict(entry) for entry in apis]),
            "/patterns": lambda context: document(patterns(context)),
            "/contracts": lambda context: document(contracts(context)),
        }

    def handle(self, context: BuiltInContext) -> Answer | Awaitable[Answer]:
        path, warning = self._path(context)
        if path == "/methods" and "format" in context.input:
            return self._openapi(context)
        if path in self._overrides:
            return self._overridden(path, context, warning)
        if path == "/" and self._candidates is not None and Candidates.is_search(context.input):
            return self._candidates.search(context)
        if path == "/" and "result_type" not in context.input:
            form = agis.form_of(context, ROOTS) if self._agis is not None else ""
            if not form and context.input.get("format", "json") != "json":
                raise parameters.invalid(
                    "format", "This host does not support that format.", "Use agis, agis-yaml or json."
                )
            return self._root(context) if self._agis is None or not form else self._agis.answer(context, form)
        if (long := self._long.get("/agents" if path == "/" else path)) is not None:
            return long(context, warning)
        answer = self._documents[path](context)
        return replace(answer, headers=(*answer.headers, *warning)) if warning else answer

    async def _overridden(self, path: str, context: BuiltInContext, warning: Fields) -> Answer:
        body = await self._overrides.answer(path, context, self._directory.by_id)
        return Answer(body=body, content_type=media_types.AGTP_JSON, headers=warning)

    # The body-keyed form (AGTP-API section 5.10)

    def _path(self, context: BuiltInContext) -> tuple[str, Fields]:
        """Return the built-in's path, and header fields about the form of the request."""
        target = context.input.get("target")
        if target is None:
            return context.path, ()
        if target not in TARGETS:
            raise parameters.invalid(
                "target", "target has an unknown value.", f"Use the path instead: DISCOVER /{', /'.join(TARGETS)}."
            )
        meant = f"/{target}"
        if context.path not in ("/", meant):
            raise Refusal(
                Reason.TARGET_CONFLICT,
                remedy=f"Send DISCOVER {context.path} without a target, or DISCOVER {meant}.",
                details={"path": context.path, "target": target},
            )
        return meant, self._deprecation(context, meant)

    def _deprecation(self, context: BuiltInContext, meant: str) -> Fields:
        """Return the deprecation warning, once for each agent that asks this way."""
        peer = context.peer.address if context.peer is not None else ""
        who = context.owner or peer
        if who in self._warned:
            return ()
        keep(self._warned, who, None, MOST_WARNED)
        return (("AGTP-Endpoint-Warning", f'deprecated="target"; use="DISCOVER {meant}"'),)

    # Lists

    def _root(self, context: BuiltInContext) -> Answer | Awaitable[Answer]:
        """Answer with the manifest, or with the directory if the caller names an agent."""
        directory = [{"path": path, "tier": "A"} for path in DISCOVERY]
        if context.named:
            return document({"directory": directory})
        visible = self._visibility
        shown = visible.in_manifest(context, self._directory.list_hosted())
        return self._manifest(shown, visible.proven(context), parameters.text(context.input, "part") or "")

    async def _methods(self, context: BuiltInContext, warning: Fields = ()) -> Answer:
        """Answer with every binding that the caller could call; cached for callers with the same authority."""
        bindings = list(self._bindings())
        tools = execution.list_offered_tools(self._adapters, context)
        key = context.authority()
        known = self._lists.get(key)
        current: list[Any] = [*bindings, *tools]
        if known is None or not _same(known[0], current):
            known = current, await self._offload(_listed_methods, context.admits, bindings, tools)
            self._keep(key, known)
        else:
            self._lists.move_to_end(key)
        return Answer(body=known[1], content_type=media_types.AGTP_JSON, headers=warning)

    def _openapi(self, context: BuiltInContext) -> Answer | Awaitable[Answer]:
        """Return the list in the format that the call names: JSON, or an OpenAPI document for HTTP clients."""
        wanted = parameters.text(context.input, "format")
        if wanted == FORMAT and self._face is not None:
            return self._face.answer(context, built_ins=context.input.get("built_ins") in (True, "true"))
        if wanted == "json":
            return self._methods(context)
        raise parameters.invalid("format", "This host does not support that format.", f"Use json or {FORMAT}.")

    def _keep(self, key: tuple[Any, ...], known: _Known) -> None:
        """Keep a list, and let go of those that were not asked for longest."""
        self._listed_octets += len(known[1]) - len(self._lists.pop(key, (None, b""))[1])
        self._lists[key] = known
        while len(self._lists) > MOST_LISTS or self._listed_octets > MOST_LISTED:
            self._listed_octets -= len(self._lists.popitem(last=False)[1][1])

    async def _tools(self, context: BuiltInContext, warning: Fields) -> Answer:
        tools = execution.list_offered_tools(self._adapters, context)
        listed = await self._offload(_listed_tools, context.admits, tools)
        return replace(document(Encoded(listed)), headers=warning)

    async def _agents(self, context: BuiltInContext, warning: Fields) -> Answer:
        kind, sees = result_type(context.input), self._visibility.in_lists(context)
        accepted = frozenset(binding.method for binding in self._bindings())
        key = ("agents", kind, accepted, context.authority())
        known = await self._offload(self._listed_agents, kind, sees, accepted, self._lists.get(key))
        self._keep(key, known)
        return replace(document(Encoded(known[1])), headers=warning)

    def _listed_agents(self, kind: str, sees: Sees, accepted: frozenset[str], known: _Known | None) -> _Known:
        """Return what a list of agents was made of, and the list: ``known`` if it was made of the same."""
        # What is withheld is withheld silently (AGTP-API section 5.8.2).
        agents = [agent for agent in self._directory.list_hosted() if kind in ("", "any", agent.role) and sees(agent)]
        states = [self._visibility.state(agent) for agent in agents]
        roles = [describe_role(agent, self._merchants) if kind else {} for agent in agents]
        current = [*agents, *states, *(role.get("manifest") for role in roles)]
        if known is not None and _same(known[0], current):
            return known
        return current, jsontext.encode(
            [
                {**agent_entry(agent, accepted), "lifecycle_state": state, **role}
                for agent, state, role in zip(agents, states, roles, strict=True)
            ]
        )

    def _genesis(self, context: BuiltInContext) -> Answer:
        """Answer with the addressed agent's Genesis, octet for octet as received (AGTP-API section 5.8.1)."""
        caller, agent = context.caller, context.agent
        if caller is not None and caller.hosted and not context.invocation.is_addressed_by_path:
            # Without a path that says otherwise, Agent-ID is whose Genesis is meant (spec reading 61).
            agent = caller
        if agent is None or agent.genesis is None or not self._visibility.genesis_of(context, agent):
            raise Refusal(
                Reason.GENESIS_NOT_LOADED,
                "This host has no Genesis of the addressed agent.",
                remedy="Address a hosted agent by the path /agents/NAME/genesis.",
            )
        return Answer(body=agent.genesis.octets, content_type=media_types.AGTP_JSON)


def _same(one: list[Any], other: list[Any]) -> bool:
    """Return whether two lists have the same objects, by identity."""
    return len(one) == len(other) and all(map(operator.is_, one, other))


def _listed_methods(admits: Admits, bindings: Iterable[Binding], tools: Iterable[Binding]) -> bytes:
    return jsontext.encode(
        [
            *(method_entry(binding) for binding in bindings if admits(binding)),
            *(tool_method(tool) for tool in tools if admits(tool)),
        ]
    )


def _listed_tools(admits: Admits, tools: Iterable[Binding]) -> bytes:
    return jsontext.encode([tool_entry(tool) for tool in tools if admits(tool)])


def method_entry(binding: Binding) -> dict[str, Any]:
    """Return the entry of a binding in the list of methods (AGTP-API section 5.8), with its action if it has one."""
    entry = {
        "method": binding.method,
        "path": binding.path,
        "description": binding.description,
        "tier": binding.tier,
    }
    if "action" in binding.details:
        entry["action"] = binding.details["action"]
    if binding.approval:
        entry["approval"] = "required"
    return entry


def tool_method(tool: Binding) -> dict[str, Any]:
    """Return the entry of a hosted tool in the list of methods: the EXECUTE that calls it."""
    return {
        **({"approval": "required"} if tool.approval else {}),
        "method": tool.method,
        "path": tool.path,
        "description": tool.description,
        "tier": tool.tier,
        "tool": tool.name,
        **execution.called_by(tool),
    }


def tool_entry(tool: Binding) -> dict[str, Any]:
    """Return a tool in the form of MCP's tools/list, with what a call needs (AGTP-API section 5.8.4)."""
    return {
        "name": tool.name,
        "description": tool.description,
        "required_scopes": list(tool.required_scopes),
        "min_assurance": tool.min_assurance.label,
        "path": tool.path,
        "input_schema": execution.arguments_of(tool),
        **tool.details,
        **execution.called_by(tool),
    }


def agent_entry(agent: Agent, accepted: frozenset[str]) -> dict[str, Any]:
    """
    Return the entry of one hosted agent, always in agreement with its Identity Document (AGTP-API section 5.8.2).

    :param accepted: the methods of its host, which its document lists with its own.
    """
    posture = agent.posture
    entry: dict[str, Any] = {
        "agent_id": agent.agent_id,
        "name": agent.name,
        "description": agent.description,
        "trust_tier": posture.trust_tier,
        "verification_path": posture.verification_path,
        "skills_summary": agent.description,
        "methods_count": len(accepted.union(agent.document.get("methods", ()))),
        "uri": f"/agents/{agent.name}",
    }
    if agent.owner_id:
        entry["owner_id"] = agent.owner_id
    if posture.trust_warning:
        entry["trust_warning"] = posture.trust_warning
    return entry
