"""
DESCRIBE: capabilities, Identity Documents and the namespace (core v08 sections 6 and 7.2.3, design decision 5).

``DESCRIBE /`` is the Capability Document, ``DESCRIBE /agents`` the signed
Agent Namespace Document, ``DESCRIBE /agents/NAME`` an agent's Identity
Document and ``DESCRIBE /agents/NAME/status`` its status. Where ``Accept``
prefers a type of Identity Documents, ``DESCRIBE /`` is that of the agent
that is addressed, as deployed clients ask for it.
"""

from __future__ import annotations

import re
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from twisted.logger import Logger
from zope.interface import implementer

from agtphost.audit.lifecycle import LifecycleState
from agtphost.contract.binding import Binding
from agtphost.dispatch.gates.identity import refuse_stopped
from agtphost.errors import Refusal
from agtphost.handlers import parameters
from agtphost.handlers.built_in import Answer, BuiltInContext, IBuiltInHandler
from agtphost.iagtp import IAgentDirectory, IPayloadAdapter
from agtphost.identity.agents import Agent
from agtphost.identity.packages import FAILURE, Package, PackageError
from agtphost.identity.scope_statement import HEADER, MOST_IN_HEADER
from agtphost.methods import execution
from agtphost.methods.discovery import agis
from agtphost.methods.discovery.publication import ACCEPTED, IDENTITY, DocumentPublisher
from agtphost.methods.discovery.status_document import StatusDocuments
from agtphost.methods.discovery.visibility import Visibility
from agtphost.methods.discovery.zones import Sees
from agtphost.vocabulary import media_types, times
from agtphost.vocabulary.reasons import Reason

log = Logger()

PROTOCOL_VERSION = "1.0"

DOMAINS = ("methods", "modalities", "tools", "version", "budget", "zones")
"""``capability_domains`` of core v08 section 7.2.3."""

FORMATS = ("manifest", "json", "certificate", "status", "yaml", "html")
"""``?format=`` values that this host serves: core v08 section 6.1, and two for people."""

_VERSION = re.compile(r"[0-9]{1,4}(?:\.[0-9]{1,4}){0,2}", re.ASCII)


def version_key(text: str) -> tuple[int, ...]:
    """``1.0`` as ``(1, 0, 0)``, so that versions compare as numbers."""
    numbers = [int(part) for part in text.split(".")]
    return tuple(numbers + [0] * (3 - len(numbers)))


def _form(context: BuiltInContext, otherwise: str) -> str:
    """Return the requested format: that of ``?format=``, otherwise that of Accept."""
    if "format" in context.input:
        asked = context.input["format"]
        if not isinstance(asked, str):
            raise parameters.invalid("format", "format is not a text.", f"Use {', '.join(FORMATS)}.")
        return asked
    accept = context.headers.get("accept") if context.headers is not None else None
    return otherwise if accept is None else media_types.choose_form(accept, otherwise, ACCEPTED)


def _list_descriptions(adapter: IPayloadAdapter) -> Iterable[Mapping[str, object]]:
    """Return an adapter's descriptions for callers, which may have more, and more current, detail than the manifest."""
    entries: Iterable[Mapping[str, object]] = getattr(adapter, "describe_protocols", adapter.hosted_protocols)()
    return entries


async def at_once(work: Callable[..., Any], *given: Any) -> Any:
    """Call a function here and now."""
    return work(*given)


@implementer(IBuiltInHandler)
class Description:
    """
    The handler of ``DESCRIBE`` requests.

    :param methods: every method this host has something bound to; read at every call.
    :param adapters: whose upstreams and tools are described.
    :param states: the present lifecycle state of an agent.
    :param namespace: builds the signed namespace document of those agents that its reader may be shown.
    :param publisher: gives documents their form and signature.
    :param status: writes status documents.
    :param offload: calls a function that waits for files, or takes its time, off the reactor.
    :param visibility: which agents a caller is shown; without one, every one that can be called.
    :param units: those that what is here tells its costs in.
    :param face: writes what a caller may call as an AGIS document; None on a host that does not.
    """

    kind = "built_in"

    def __init__(
        self,
        directory: IAgentDirectory,
        methods: Callable[[], Sequence[str]],
        adapters: Sequence[IPayloadAdapter],
        states: Callable[[Agent], LifecycleState],
        namespace: Callable[[Sees], Mapping[str, Any]],
        publisher: DocumentPublisher | None = None,
        status: StatusDocuments | None = None,
        offload: Callable[..., Awaitable[Any]] = at_once,
        visibility: Visibility | None = None,
        units: Callable[[], Iterable[str]] = tuple,
        face: agis.AgisFace | None = None,
    ) -> None:
        self._agis = face
        self._units = units
        self._visibility = Visibility(states) if visibility is None else visibility
        self._directory = directory
        self._methods = methods
        self._adapters = adapters
        self._states = states
        self._namespace = namespace
        self._publisher = publisher or DocumentPublisher("", None)
        self._status = status or StatusDocuments("", lambda: times.stamp(time.time()))
        self._offload = offload

    def handle(self, context: BuiltInContext) -> Answer | Awaitable[Answer]:
        if context.path == "/agents":
            return self._all(self._visibility.in_lists(context), _form(context, "json"))
        if "name" in context.path_parameters:
            return self._agent(context, _form(context, "manifest"))
        if self._agis is not None and (asked := agis.form_of(context, IDENTITY)):
            return self._agis.answer(context, asked)
        accept = context.headers.get("accept") if context.headers is not None else None
        if accept is not None and (form := media_types.choose_form(accept, "", IDENTITY)):
            return self._agent(context, form)
        return self._capable(context)

    async def _all(self, sees: Sees, form: str) -> Answer:
        answer: Answer = await self._offload(self._publish_namespace, sees, form)
        return answer

    def _publish_namespace(self, sees: Sees, form: str) -> Answer:
        return self._publisher.document(self._namespace(sees), form)

    # Capabilities

    def _capable(self, context: BuiltInContext) -> Answer | Awaitable[Answer]:
        wanted = self._domains(context.input)
        if "tools" in wanted and (tools := execution.list_offered_tools(self._adapters, context)):
            return self._with_tools(context, wanted, tools)
        return Answer(result=self._capabilities(context, wanted, []))

    async def _with_tools(self, context: BuiltInContext, wanted: Sequence[str], offered: Sequence[Binding]) -> Answer:
        tools = await self._offload(lambda: [tool.name for tool in offered if context.admits(tool)])
        return Answer(result=self._capabilities(context, wanted, tools))

    def _capabilities(self, context: BuiltInContext, wanted: Sequence[str], tools: Sequence[str]) -> Mapping[str, Any]:
        version_min = parameters.text(context.input, "version_min")
        if version_min is not None and not _VERSION.fullmatch(version_min):
            raise parameters.invalid("version_min", "version_min is not a version.", "Send 1.0.")
        agent = context.agent
        if agent is not None and not self._visibility.documents_of(context, agent):
            agent = None
        score = agent.document.get("trust_score") if agent is not None else None
        satisfied = version_min is None or version_key(version_min) <= version_key(PROTOCOL_VERSION)
        zone = agent.governance_zone if agent is not None else None
        sections: dict[str, Mapping[str, Any]] = {
            "methods": {"methods": list(self._methods())},
            "modalities": {"modalities": ["text", "structured", "streaming"]},
            "tools": {
                "tools": tools,
                "hosted_protocols": [
                    dict(entry) for adapter in self._adapters for entry in _list_descriptions(adapter)
                ],
            },
            "version": {"version": PROTOCOL_VERSION, "version_min_satisfied": satisfied},
            "budget": {"budget_units_accepted": sorted(self._units())},
            "zones": {"zones_accepted": [zone] if zone else []},
        }
        document: dict[str, Any] = {}
        for domain in wanted:
            document.update(sections[domain])
        if score is not None or wanted == DOMAINS:
            # Part of the whole document, null where the agent has no score.
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
                f"{unknown[0][:40]!r} is not a capability domain.",
                f"Use {', '.join(DOMAINS)}.",
            )
        return wanted

    # Agents

    def _agent(self, context: BuiltInContext, form: str) -> Answer | Awaitable[Answer]:
        agent, named = context.agent, "name" in context.path_parameters
        if agent is None or not (named or self._visibility.documents_of(context, agent)):
            raise Refusal(
                Reason.AGENT_NOT_HOSTED,
                "The request does not address a hosted agent.",
                remedy="Address one by /agents/NAME, or by its Agent-ID; DISCOVER /agents lists them.",
            )
        if named:
            self._visibility.require_documents(context, agent)
        state = self._states(agent)
        if context.path.endswith("/status") or form == "status":
            written = self._status.write(agent, state, context)
            return self._status_of(written, form) if isinstance(written, dict) else self._status_later(written, form)
        if form not in FORMATS:
            raise parameters.invalid("format", "This host does not support that format.", f"Use {', '.join(FORMATS)}.")
        refuse_stopped(state, "agent", agent.agent_id)
        if agent.package is not None:
            return self._from_package(agent, agent.package, state, form)
        return self._identity(agent, state, form)

    def _status_of(self, document: Mapping[str, Any], form: str) -> Answer:
        return self._publisher.document(document, form)

    async def _status_later(self, written: Awaitable[Mapping[str, Any]], form: str) -> Answer:
        return self._status_of(await written, form)

    async def _from_package(self, agent: Agent, package: Package, state: LifecycleState, form: str) -> Answer:
        """Verify an agent's package again before something from it is served (core v08 section 6.1)."""
        try:
            await self._offload(package.verify)
        except PackageError as error:
            log.error("{failure}: {file}: {why}", failure=FAILURE, file=str(package.path), why=str(error))
            raise Refusal(
                Reason.PACKAGE_INTEGRITY_FAILURE,
                details={"agent_id": agent.agent_id},
            ) from None
        return self._identity(agent, state, form)

    def _identity(self, agent: Agent, state: LifecycleState, form: str) -> Answer:
        if form == "certificate":
            if agent.genesis is None:
                raise Refusal(Reason.GENESIS_NOT_LOADED, "This host has not loaded the agent's Genesis.")
            shown = self._publisher.answer(agent.genesis.octets, media_types.AGTP_JSON)
            if not 0 < len(agent.scope_statement) <= MOST_IN_HEADER:
                return shown
            return replace(shown, headers=(*shown.headers, (HEADER, agent.scope_statement)))
        return self._publisher.identity(agent, state, tuple(self._methods()), form)
