"""
EXECUTE on ``/cards/{id}``: calls of what a card describes (HAIDIP-027).

What is hosted here is called as it would be without the registry: as the same caller and through every gate. This makes
two records that refer to each other. Agents elsewhere are called by :mod:`.remote_agents`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from typing import Any, Protocol
from urllib.parse import quote

from twisted.internet.defer import Deferred
from twisted.logger import Logger
from zope.interface import implementer

from agtphost.contract.binding import Binding
from agtphost.contract.schemas import TooCostly
from agtphost.dispatch.inner_results import awaits_approval
from agtphost.dispatch.violations import scopes_of
from agtphost.errors import Refusal
from agtphost.handlers import parameters
from agtphost.handlers.built_in import Answer, BuiltInContext, IBuiltInHandler
from agtphost.registry.catalogue import Cards, Target, TargetOperation
from agtphost.vocabulary import jsontext
from agtphost.vocabulary.paths import parse_template
from agtphost.vocabulary.reasons import ForeignReason, Reason
from agtphost.vocabulary.status import Status
from agtphost.wire.events import Response

log = Logger()

MOST_AT_ONCE = 50
"""Inputs of one batch."""

OWN = frozenset(
    ("status", "task_id", "reason", "type", "code", "error", "explanation", "remedy", "attribution", "allowed_methods")
)
"""Members of a refusal's body that the outer refusal writes itself."""

PASSED_ON = frozenset({"retry-after"})
"""Header fields of a refusal that also apply to the caller of the outer call."""


class RemoteAgents(Protocol):
    """Client of agents that are not hosted here."""

    def call(
        self, context: BuiltInContext, target: Target, operation: str, given: Mapping[str, Any]
    ) -> Awaitable[tuple[Any, Mapping[str, Any]]]:
        """
        Call an operation of a remote agent.

        :return: the result, and further members of the record.
        :raises Refusal: it may not be called, or did not answer.
        """


@implementer(IBuiltInHandler)
class InvokeCards:
    """
    Handler of EXECUTE on ``/cards/{id}``.

    :param elsewhere: client of agents that are not hosted here.
    """

    kind = "built_in"

    def __init__(self, elsewhere: RemoteAgents) -> None:
        self.cards: Cards = None  # type: ignore[assignment]
        self._remote_agents = elsewhere

    async def handle(self, context: BuiltInContext) -> Answer:
        """
        Call an operation of a card, or call it once for each input of a batch.

        :raises Refusal: the refusal or failure of the call itself.
        """
        card_id = context.path_parameters["id"]
        batch = context.input.get("batch")
        if batch is not None:
            return await self._each(context, card_id, batch)
        target = self.cards.target(context, card_id)
        given = _object(context.input.get("parameters", {}), "parameters")
        if not target.operations and context.caller is None:
            # The card is public and its endpoint exists: what is missing is a caller.
            raise Refusal(
                Reason.AGENT_UNAUTHENTICATED, "A caller without credentials cannot call any operation of this agent."
            )
        name, given = _choose_operation(target, parameters.text(context.input, "action"), given)
        operation = target.operations[name]
        beside: Mapping[str, Any] = {}
        if operation.binding is None:
            # Authorize before validating the input: a caller without the right learns nothing about the schema. The
            # call is authorized again by its URL immediately before each request.
            self.cards.require_call(context, target.entry, operation.endpoint or target.endpoint)
            check_input(operation, given)
            result, beside = await self._remote_agents.call(context, target, name, given)
            check_output(operation, result)
        else:
            result = await self._call_hosted(context, target, operation.binding, given)
        if target.is_remote:
            self.cards.leases.renew(card_id)
        return Answer(result=result, extra={"card": card_id[:256], "operation": name[:128], **beside})

    async def _each(self, context: BuiltInContext, card_id: str, batch: Any) -> Answer:
        """
        Return one result or error for each input of a batch, in order; each input is a separate call with its own
        record.
        """
        if not isinstance(batch, list) or not 1 <= len(batch) <= MOST_AT_ONCE:
            raise parameters.invalid(
                "batch", f"batch must be a list of 1 to {MOST_AT_ONCE} inputs.", "Send a shorter list."
            )
        if context.invocation.streams:
            raise parameters.invalid("batch", "A batch cannot be answered as a stream.", "Leave out stream.")
        self.cards.target(context, card_id)
        action = {name: context.input[name] for name in ("action",) if name in context.input}
        context.invocation.announce(len(batch), lists=True)
        told = []
        for given in batch:
            asked = {**action, "parameters": given}
            response = await context.invocation.ask("EXECUTE", context.path, asked)
            told.append(_to_json(response))
        return Answer(result={"results": told, "count": len(told)}, extra={"card": card_id[:256]})

    async def _call_hosted(
        self, context: BuiltInContext, target: Target, binding: Binding, given: Mapping[str, Any]
    ) -> Any:
        method, path, input = call_of(target, binding, given)
        relay = InterimRelay(context) if context.invocation.streams else None
        response = await context.invocation.ask(method, path, input, relay)
        if response.status == 503 and binding.idempotent and _reason(response) == Reason.UPSTREAM_LOST:
            # Whether the call had an effect is unknown, so only idempotent operations are repeated.
            response = await context.invocation.ask(method, path, input, relay)
        if relay is not None:
            await relay.wait_sent()
        return _outcome(response)


class InterimRelay:
    """Relay of interim messages of an inner call to the outer one: each is sealed, one after the other."""

    def __init__(self, context: BuiltInContext) -> None:
        self._context = context
        self._last: Deferred[Any] = Deferred()
        self._last.callback(None)

    def __call__(self, response: Response) -> None:
        body = _body(response)
        result = body.get("result")
        event = result.get("event", result) if isinstance(result, dict) else result
        said = event if isinstance(event, dict) else {"event": event}
        self._last.addCallback(lambda _: Deferred.fromCoroutine(_emit(self._context, said)))

    async def wait_sent(self) -> None:
        """Wait until all messages are sent."""
        last, self._last = self._last, Deferred()
        await last


async def _emit(context: BuiltInContext, event: Mapping[str, Any]) -> None:
    try:
        await context.emit(event)
    except Refusal as refusal:
        log.info("an interim message of a call by its card could not be passed on: {why}", why=str(refusal))


def _object(value: Any, name: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise parameters.invalid(name, f"{name} must be an object.", "Send what the operation takes, by name.")
    return value


def _choose_operation(target: Target, action: str | None, given: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """
    Return the name of the requested operation, and its input without members that belong to the registry.

    ``operation`` names an operation if the path does not, and ``stream`` asks for a stream, unless the operation itself
    has members of these names.
    """
    operations = target.operations
    if not operations:
        raise Refusal(
            Reason.NOT_FOUND,
            "The agent has no operation that the caller may call.",
            remedy="Call as an agent that may; the operator of this host says which.",
        )
    first = next(iter(operations))
    named = given.get("operation")
    alone = len(operations) == 1
    if action is None and isinstance(named, str) and not (alone and "operation" in _members(operations[first])):
        action, given = named, {name: value for name, value in given.items() if name != "operation"}
    if action is None and not alone:
        raise Refusal(
            Reason.MISSING_PARAMETER,
            "The agent has several operations, and the request names none.",
            remedy="Name one as operation.",
            details={"parameter": "operation", "operations": list(operations)[:50]},
        )
    chosen = first if action is None else action
    if chosen not in operations:
        raise Refusal(
            Reason.NOT_FOUND,
            "The agent has no operation of that name that the caller may call.",
            remedy="Its card lists them.",
            details={"operations": list(operations)[:50]},
        )
    if isinstance(given.get("stream"), bool) and "stream" not in _members(operations[chosen]):
        given = {name: value for name, value in given.items() if name != "stream"}
    return chosen, given


def _members(operation: TargetOperation) -> Mapping[str, Any]:
    """Return the members of an operation's input that its schema names."""
    schema = operation.input_schema
    properties = {} if schema is None else schema.schema.get("properties", {})
    return properties if isinstance(properties, Mapping) else {}


def call_of(target: Target, binding: Binding, given: Mapping[str, Any]) -> tuple[str, str, dict[str, Any]]:
    """
    Return the request that calls a binding: its method, its path, and its parameters.

    :raises Refusal: a parameter of the path is missing.
    """
    if binding.call is not None:
        return "EXECUTE", binding.path, binding.call.parameters(given)
    template = parse_template(binding.path)
    rest, segments, names = dict(given), [], iter(template.parameters)
    for segment in template.segments:
        if segment is not None:
            segments.append(segment)
            continue
        name = next(names)
        value = rest.pop(name, None)
        if value is None or value == "":
            raise parameters.invalid(name, f"{name} is missing.", f"Send {name}.", missing=True)
        segments.append(quote(value if isinstance(value, str) else jsontext.encode(value).decode(), safe=""))
    path = "/" + "/".join(segments)
    asked = rest
    if binding.method == "EXECUTE" and "action" in binding.details and path == "/":
        asked = {"action": str(binding.details["action"]), "parameters": rest}
    return binding.method, f"/agents/{target.name}{path if path != '/' else ''}", asked


def check_input(operation: TargetOperation, given: Mapping[str, Any]) -> None:
    """
    Validate an input against the card's schema.

    :raises Refusal: the input does not match.
    """
    schema = operation.input_schema
    try:
        if schema is None or schema.is_valid(given):
            return
        faults = schema.faults(given)
    except TooCostly as error:
        raise Refusal(Reason.VALUE_TOO_COSTLY, details={"detail": error.reason}) from None
    raise Refusal(Reason.INVALID_INPUT, "The input does not follow the input schema.", details={"faults": faults})


def check_output(operation: TargetOperation, result: Any) -> None:
    """
    Validate an answer against the card's schema.

    :raises Refusal: the answer does not match.
    """
    schema = operation.output_schema
    try:
        if schema is None or schema.is_valid(result):
            return
    except TooCostly as error:
        log.info("an answer cannot be checked against its card: {why}", why=error.reason)
    raise Refusal(Reason.INVALID_OUTPUT, "The agent's answer does not follow the output schema of its card.")


def _body(response: Response) -> Mapping[str, Any]:
    body = jsontext.decode(response.body) if response.body else {}
    return body if isinstance(body, dict) else {"value": body}


def _reason(response: Response) -> str:
    return str(_body(response).get("reason", ""))


def _outcome(response: Response) -> Any:
    """
    Return the result of a call by its card.

    :raises Refusal: the call was refused, failed, or waits for an approval.
    """
    body = _body(response)
    succeeded = 200 <= response.status < 300 and response.status != Status.AUTHORIZATION_REQUIRED
    if not succeeded or awaits_approval(response.status, body):
        raise _to_outer_refusal(response, body)
    result = body["result"] if "result" in body and "attribution" in body else body
    said = result.get("tool_response") if isinstance(result, dict) else None
    if not isinstance(said, dict):
        return result
    if said.get("isError") is True:
        raise Refusal(
            Reason.TOOL_FAILED,
            "The tool says that it failed.",
            remedy="Read details: it holds the tool's own message.",
            details={
                "details": {"content": said.get("content", [])},
                "audit_id": response.audit_id,
            },
        )
    return said["structuredContent"] if "structuredContent" in said else {"content": said.get("content", [])}


def _to_outer_refusal(response: Response, body: Mapping[str, Any]) -> Refusal:
    """Return the refusal of an inner call as a refusal of the outer one."""
    reason = str(body.get("reason") or Reason.INVOCATION_FAILED)
    details = {name: value for name, value in body.items() if name not in OWN}
    return Refusal(
        ForeignReason(reason, Status(response.status)),  # type: ignore[call-arg]
        str(body.get("explanation", "")),
        remedy=str(body.get("remedy", "")),
        details={**details, "audit_id": response.audit_id},
        headers=tuple((name, value) for name, value in response.headers if name.lower() in PASSED_ON),
        scopes=scopes_of(body),
    )


def _to_json(response: Response) -> dict[str, Any]:
    """Return the JSON object of one answer of a batch."""
    body = _body(response)
    told: dict[str, Any] = {"status": response.status, "audit_id": response.audit_id}
    succeeded = 200 <= response.status < 300 and response.status != Status.AUTHORIZATION_REQUIRED
    if succeeded and not awaits_approval(response.status, body):
        return {**told, "result": body.get("result")}
    members = ("reason", "explanation", "remedy", "faults", "parameter", "approval_id", "expires_at", "details")
    return {**told, **{name: body[name] for name in members if name in body}}
