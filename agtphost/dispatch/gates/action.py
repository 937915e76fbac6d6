"""
The gate of EXECUTE: the request is from here on for the action that it names.

The action's own scopes, assurance and schema are what the later gates check, before any payload handler runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from zope.interface import implementer

from agtphost.contract.binding import Binding, Resolution
from agtphost.contract.declaration import FRAMEWORKS
from agtphost.contract.interfaces import IPayloadAdapter
from agtphost.dispatch import authority
from agtphost.dispatch.exchange import Exchange
from agtphost.dispatch.interfaces import Condition, ICacheableGate
from agtphost.dispatch.right_cures import name_lacking, require_assurance
from agtphost.dispatch.trial_calls import require_tool
from agtphost.dispatch.usable_actions import find_usable_actions
from agtphost.errors import NamingRefusal, Refusal
from agtphost.handlers import parameters
from agtphost.handlers.built_in import IBuiltInHandler
from agtphost.identity.peer import Assurance
from agtphost.identity.required_assurance import BELIEVED
from agtphost.vocabulary import media_types
from agtphost.vocabulary.identifiers import is_opaque_id
from agtphost.vocabulary.reasons import Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Modality:
    """The read that a QUERY with a ``modality`` requests."""

    payload_type: str
    action: str
    names: Mapping[str, str]
    """What its parameters are called in the payload."""

    upstream: str
    """The parameter that names the upstream."""

    unnamed: str = ""
    """The action where the request names nothing, not even a Task-ID."""


MODALITIES: Mapping[str, Modality] = {
    "mcp.resource": Modality(
        payload_type=media_types.MCP_TOOLS,
        action="mcp.resources.read",
        names={"mcp_resource_uri": "uri"},
        upstream="mcp_server",
    ),
    "mcp.prompt": Modality(
        payload_type=media_types.MCP_TOOLS,
        action="mcp.prompts.get",
        names={"mcp_prompt_name": "prompt", "mcp_prompt_arguments": "arguments"},
        upstream="mcp_server",
    ),
    "mcp.completion": Modality(
        payload_type=media_types.MCP_TOOLS,
        action="mcp.completion.complete",
        names={name: name for name in ("ref", "argument", "context")},
        upstream="mcp_server",
    ),
    "a2a.task": Modality(
        payload_type=media_types.A2A,
        action="a2a.tasks.get",
        names={"a2a_task_id": "id", "history_length": "historyLength", "status": "status", "page_size": "pageSize"},
        upstream="a2a_agent",
        unnamed="a2a.tasks.list",
    ),
    "acp.run": Modality(
        payload_type=media_types.ACP_RUN,
        action="acp.runs.get",
        names={"acp_run_id": "run_id"},
        upstream="acp_server",
    ),
}
"""The reads by ``modality`` of QUERY (core v08 section 8.4, adapters section 1)."""

_RESPONSES, _STATE = "inputResponses", "requestState"


def _with_input(given: Mapping[str, Any]) -> Any:
    """Return the payload, with the input that a repeated request may send next to it (design decision 11)."""
    payload = given.get("payload")
    if _RESPONSES not in given and _STATE not in given:
        return payload
    beside = {name: given[name] for name in (_RESPONSES, _STATE) if name in given}
    return {**payload, **beside} if isinstance(payload, dict) else payload


def _carried_framework(exchange: Exchange) -> str:
    """Return the framework that Content-Type names; empty for a plain body."""
    sent = exchange.media_type
    return "" if sent is None or sent in media_types.JSON_BODIES or sent == media_types.AGTP_YAML else sent


def _own_input(given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the input of one of the operator's own actions: ``parameters``, or ``payload`` in its place."""
    if "parameters" in given and "payload" in given:
        raise parameters.invalid(
            "payload",
            "The request has both parameters and payload, but the action accepts only one of them.",
            "Send parameters alone.",
        )
    name = "payload" if "payload" in given else "parameters"
    value = given.get(name, {})
    if not isinstance(value, dict):
        raise parameters.invalid(name, f"{name} is not an object.", "Send what the action takes, by name.")
    return value


def _resolve_action(
    exchange: Exchange, adapter: IPayloadAdapter, action: str, payload: Any, server: str | None
) -> Resolution:
    try:
        return adapter.resolve(action, payload, server)
    except NamingRefusal as refusal:
        refusal.name_to(lambda binding: authority.admits(exchange, binding))
        name_lacking(exchange, refusal)
        raise


def _take_input(exchange: Exchange, resolution: Resolution) -> None:
    exchange.input, exchange.handler, exchange.beside = resolution.input, resolution.handler, resolution.beside


def _is_opened(binding: Binding | None) -> bool:
    """Return whether a header is enough for a binding, or for the one that answers in its place."""
    while binding is not None and binding.min_assurance > Assurance.HEADER:
        binding = binding.alike
    return binding is not None


def _take_key(exchange: Exchange) -> None:
    """``idempotency_key`` counts as the header does, which goes first."""
    if exchange.idempotency_key is None and "idempotency_key" in exchange.parameters:
        exchange.idempotency_key = parameters.identifier(exchange.parameters, "idempotency_key")


@implementer(ICacheableGate)
class ActionGate:
    """
    Turns an EXECUTE into the binding of its action.

    :param carrier: the handler of the floor bindings.
    :param adapters: one per framework.
    :param endpoints: the operator's; those that declare an action are called by it.
    :param floor: how surely a caller of what changes state must be known. Where that is more than a header, a caller
        known by a header alone learns of no action but those that the operator opened to such callers.
    """

    name = "action"

    def __init__(
        self,
        carrier: IBuiltInHandler,
        adapters: Sequence[IPayloadAdapter],
        endpoints: Iterable[Binding] = (),
        floor: Assurance = Assurance.CERTIFICATE,
    ) -> None:
        self._carrier = carrier
        self._floor = floor
        self._actions = {str(each.details["action"]): each for each in endpoints if "action" in each.details}
        self._adapters = adapters
        self._by_type = {kind: adapter for adapter in adapters for kind in adapter.payload_types}

    def check(self, exchange: Exchange) -> None:
        binding = exchange.binding
        if binding is None or binding.handler is not self._carrier:
            if exchange.method == "QUERY" and binding is not None and exchange.path == "/":
                self._question(exchange, binding)
            elif exchange.method == "EXECUTE" and "idempotency_key" in exchange.parameters and binding is not None:
                self._take_own_key(exchange, binding)
            return
        # An anonymous caller learns nothing of which actions exist.
        if exchange.assurance < binding.min_assurance:
            require_assurance(exchange, binding)
        if exchange.assurance is Assurance.HEADER and self._floor > Assurance.HEADER:
            self._resolve_opened(exchange, binding)
        else:
            self._resolve(exchange)
        if exchange.operator and exchange.binding is not None:
            # A caller with rights to operators' actions only is refused first, because this is not one of them.
            require_assurance(exchange, exchange.binding)
        if "idempotency_key" in exchange.parameters:
            _take_key(exchange)

    def _resolve_opened(self, exchange: Exchange, carrying: Binding) -> None:
        """
        Resolve an action for a caller known by a header alone: unknown ones and those that are closed to it look alike.

        :raises Refusal: 401 for every action that the operator did not open to such callers.
        """
        try:
            self._resolve(exchange)
        except Refusal:
            exchange.binding = carrying
        found = exchange.binding
        if found is None or found is carrying or not _is_opened(found):
            exchange.binding = carrying
            require_assurance(exchange, replace(carrying, min_assurance=BELIEVED, operators=False))
        elif found.min_assurance is Assurance.NONE:
            exchange.unseen = exchange.nameless = True

    def _resolve(self, exchange: Exchange) -> None:
        """Have the exchange be for the action that its body names."""
        given = exchange.parameters
        action = parameters.require_text(given, "action")
        carried, named = _carried_framework(exchange), given.get("payload_type")
        if type(named) is not str or named not in self._by_type:  # As nearly all clients write it.
            named = media_types.essence(parameters.text(given, "payload_type") or "")
        declared = exchange.path == "/" and not carried and not named
        own = self._actions.get(action) if declared else None
        if own is not None:
            exchange.binding = own
            exchange.input = _own_input(given)
        elif declared and action.partition(".")[0] not in FRAMEWORKS:
            raise self._refuse_undeclared(exchange, action)
        else:
            adapter = self._adapter(carried, named)
            payload = _with_input(given)
            server = exchange.path_parameters.get("server")
            resolution = _resolve_action(exchange, adapter, action, payload, server)
            exchange.binding = resolution.binding
            _take_input(exchange, resolution)
        if exchange.peer.rights_of:
            require_tool(exchange)

    def _refuse_undeclared(self, exchange: Exchange, action: str) -> Refusal:
        """Return the refusal of an action that no endpoint declares: it names only what the caller may use."""
        usable = find_usable_actions(exchange, self._actions, self._adapters)
        return Refusal(
            Reason.UNKNOWN_ACTION,
            f"No endpoint of this host declares the action {action[:64]!r}, and the request names no payload_type.",
            remedy=usable.remedy,
            details={**usable.details, "supported_payload_types": sorted(self._by_type)},
        )

    def conditions(self, exchange: Exchange) -> Sequence[Condition] | None:
        """Keep the verdict where method and path alone decide what is called."""
        return (
            ()
            if exchange.is_binding_final
            and exchange.binding is not None
            and exchange.binding.handler is not self._carrier
            else None
        )

    @staticmethod
    def _take_own_key(exchange: Exchange, binding: Binding) -> None:
        """Read the ``idempotency_key`` of an EXECUTE with its own path, which counts too (core v08 section 7.2.8)."""
        schema = binding.input_schema.schema if binding.input_schema is not None else {}
        if "idempotency_key" in schema.get("properties", {}):
            # The operator has a parameter of that name: it belongs to the operator's endpoint, and may have any form.
            given = exchange.parameters["idempotency_key"]
            if exchange.idempotency_key is None and isinstance(given, str) and is_opaque_id(given):
                exchange.idempotency_key = given
            return
        _take_key(exchange)
        if exchange.requested_method is not None:
            return  # What the operator's policy says of HTTP verbs stays in the input (AGTP-API section 3.6).
        exchange.input = {name: value for name, value in exchange.input.items() if name != "idempotency_key"}

    def _question(self, exchange: Exchange, binding: Binding) -> None:
        """
        QUERY with a modality of MCP, A2A or ACP: core v08 section 8.4 (AGTP-274).

        What it needs is what the same read needs under EXECUTE. An operator's own QUERY answers for itself.
        """
        modality = exchange.input.get("modality")
        read = MODALITIES.get(modality) if type(modality) is str else None
        adapter = None if read is None else self._by_type.get(read.payload_type)
        if read is None or adapter is None or binding.tier != "A":
            return
        require_assurance(exchange, binding)
        payload = {name: exchange.input[given] for given, name in read.names.items() if given in exchange.input}
        action = read.action
        if read.unnamed and exchange.task_id is None and "id" not in payload:
            action = read.unnamed
        resolution = _resolve_action(exchange, adapter, action, payload, parameters.text(exchange.input, read.upstream))
        exchange.binding = replace(resolution.binding, method="QUERY", path="/", idempotent=True)
        _take_input(exchange, resolution)

    def _adapter(self, carried: str, named: str) -> IPayloadAdapter:
        """Payload type and Content-Type may each name the framework; naming two is refused (adapters rule G2)."""
        if carried and named and carried != named:
            raise Refusal(Reason.PAYLOAD_TYPE_CONFLICT)
        adapter = self._by_type.get(named or carried)
        if adapter is None:
            types = sorted(self._by_type)
            if not named and not carried:
                raise Refusal(
                    Reason.UNSUPPORTED_PAYLOAD_TYPE,
                    "The request names no payload_type, so no adapter of this host reads it.",
                    remedy=f"Add payload_type: one of {', '.join(types)}." if types else None,
                    details={"supported_payload_types": types},
                )
            raise Refusal(Reason.UNSUPPORTED_PAYLOAD_TYPE, details={"supported_payload_types": types})
        return adapter
