"""The gates that read a request's body: what it says, and what the legacy verbs add to it."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache
from itertools import islice
from typing import Any

from twisted.logger import Logger
from zope.interface import implementer

from agtphost.contract.binding import Binding
from agtphost.contract.built_in_contracts import contract_of
from agtphost.contract.policy import MethodPolicy
from agtphost.contract.schema_violations import MAX_NAMES, MAX_SHOWN
from agtphost.dispatch.exchange import Exchange
from agtphost.dispatch.interfaces import Condition, ICacheableGate, IGate
from agtphost.errors import Refusal
from agtphost.identity.peer import INTERNAL
from agtphost.vocabulary import jsontext, media_types, paths, yamltext
from agtphost.vocabulary.identifiers import is_opaque_id
from agtphost.vocabulary.reasons import Reason

ENVELOPE = frozenset({"method", "task_id", "session_id", "parameters", "context"})
"""The members of a method body; a body with ``parameters`` and no other name is an envelope."""

_EMPTY: Mapping[str, Any] = {}


def _decode_yaml(octets: bytes) -> Any:
    try:
        return yamltext.decode(octets)
    except yamltext.YAMLTextError as error:
        raise Refusal(
            Reason.MALFORMED_BODY,
            f"The body is not YAML that this host reads: {error}.",
            remedy="Send plain YAML mappings of strings, numbers, booleans and lists, or JSON.",
        ) from None


def decode(body: bytes, media_type: str | None, *, yaml: bool = False) -> Any:
    """
    Read a request body.

    :param media_type: the type that Content-Type names; None where the request had none.
    :param yaml: whether the operator asks for YAML bodies: ``[wire] yaml``.
    :raises Refusal: 400 for a body without a type, of another type, or malformed.
    """
    if media_type is None:
        raise Refusal(Reason.CONTENT_TYPE_MISSING, remedy=f"Send Content-Type: {media_types.AGTP_JSON}.")
    if media_type in media_types.JSON_BODIES or media_type.endswith("+json"):
        return _decode_json(body, jsontext.decode)
    if media_type == media_types.AGTP_YAML:
        if yaml:
            return _decode_yaml(body)
        raise Refusal(
            Reason.UNSUPPORTED_MEDIA_TYPE,
            "This host does not read YAML bodies.",
            remedy=f"Send the same value as {media_types.AGTP_JSON}, or have the operator set yaml = true in [wire].",
        )
    raise Refusal(
        Reason.UNSUPPORTED_MEDIA_TYPE,
        f"Bodies of type {media_type[:80]!r} are not read.",
        remedy=f"Send {media_types.AGTP_JSON}.",
    )


def _decode_json(body: bytes, read: Callable[[bytes], Any]) -> Any:
    try:
        return read(body)
    except jsontext.JSONTextError as error:
        raise Refusal(
            Reason.MALFORMED_BODY, f"The body is not JSON that this host reads: {error}.", remedy="Correct the body."
        ) from None


def unwrap(value: Any, method: str = "") -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """
    Take the envelope off.

    :param method: the request's method; the parameters of QUOTE have an envelope's names, but another method.
    :return: ``(parameters, context)``.
    :raises Refusal: 400 where the body is not an object, or the envelope's members are not.
    """
    if not isinstance(value, dict):
        raise Refusal(Reason.MALFORMED_BODY, "The body is not a JSON object.")
    if len(value) == 1 and type(parameters := value.get("parameters")) is dict:
        return parameters or _EMPTY, _EMPTY
    if method == "QUOTE" and value.get("method", method) != method:
        return value, _EMPTY
    wrapped = "parameters" in value or "method" in value or value.keys() == {"context"}
    if not wrapped or not value.keys() <= ENVELOPE:
        # Also ``{session_id, context}``: the parameters of SUSPEND, and of every method that accepts a context.
        return value, _EMPTY
    parameters, context = value.get("parameters"), value.get("context")
    for name, member in (("parameters", parameters), ("context", context)):
        if member is not None and not isinstance(member, dict):
            raise Refusal(Reason.MALFORMED_BODY, f"The member {name!r} is not an object.")
    return parameters or _EMPTY, context or _EMPTY


_ENVELOPED = re.compile(rb'\s*\{\s*"parameters"\s*:(.*)\}\s*', re.DOTALL)


def _text_of(exchange: Exchange, value: Any) -> bytes:
    """
    Find the JSON of the parameters in a body that was read.

    :return: empty for YAML, and for an envelope with other members.
    """
    body = exchange.request.body
    if exchange.media_type == media_types.AGTP_YAML:
        return b""
    if exchange.parameters is value:
        return body
    found = _ENVELOPED.fullmatch(body) if len(value) == 1 else None
    return b"" if found is None else found[1]


LOG_SECONDS = 10.0
"""Envelopes that contradict their headers are logged, but no more often than this."""

BUILT_IN = "A"
"""The tier of the host's own endpoints."""

CORRELATING = frozenset({"task_id", "session_id"})
"""Members of the envelope that headers have, too."""

log = Logger()

_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]{0,15})", re.ASCII)
_DECIMAL = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?", re.ASCII)
_LONGEST_NUMBER = 64
"""Characters of a number in an address, as in a JSON body."""

NUMBERS: Mapping[str, str] = {
    **dict.fromkeys(("max_results", "limit", "offset", "before", "grace"), "integer"),
    "confidence_threshold": "number",
}
"""Parameters of the built-in methods that are numbers, for their query strings."""


def _input(exchange: Exchange) -> Mapping[str, Any]:
    """
    Merge query, body and path parameters, each overriding those before (AGTP-API section 5.5); values in a URI get
    their declared types.
    """
    query = exchange.request.query
    if query is None and not exchange.path_parameters:
        return exchange.parameters
    try:
        merged: dict[str, Any] = dict(paths.parse_query(query)) if query else {}
    except paths.PathError as error:
        raise Refusal(Reason.INVALID_QUERY, f"{error}") from None
    if merged:
        merged = _convert_types(exchange, merged)
    merged.update(exchange.parameters)
    if exchange.path_parameters:
        merged.update(_convert_types(exchange, exchange.path_parameters))
    return merged


def _convert_types(exchange: Exchange, given: Mapping[str, Any]) -> dict[str, Any]:
    """
    Convert texts of a URI to the types in the binding's schema (AGTP-API section 5.3).

    A text that is not such a value stays text, for the schema to refuse. Built-ins without a schema know their numbers.
    """
    binding = exchange.binding
    if binding is None:
        return dict(given)
    schema = binding.input_schema
    properties = schema.schema.get("properties", {}) if schema is not None else {}
    found = dict(given)
    for name, text in given.items():
        if name in properties:
            inner = properties[name]
            declared = inner.get("type") if isinstance(inner, Mapping) else None
        else:
            declared = NUMBERS.get(name) if schema is None and binding.tier == "A" else None
        read = _READ.get(declared) if isinstance(declared, str) else None
        if read is not None and type(text) is str:
            found[name] = read(text)
    return found


def _number(text: str) -> Any:
    if _INTEGER.fullmatch(text):
        return _integer(text)
    if len(text) > _LONGEST_NUMBER or _DECIMAL.fullmatch(text) is None:
        return text
    value = float(text)
    return value if abs(value) <= jsontext.MAX_INTEGER else text


def _integer(text: str) -> Any:
    if _INTEGER.fullmatch(text) is None:
        return text
    value = int(text)
    return value if abs(value) <= jsontext.MAX_INTEGER else text


def _boolean(text: str) -> Any:
    return {"true": True, "false": False}.get(text, text)


_READ: Mapping[str, Callable[[str], Any]] = {"integer": _integer, "number": _number, "boolean": _boolean}


def _too_long(exchange: Exchange, most: int) -> Refusal:
    """422 for a body with more octets than its binding takes; it is not read."""
    octets = len(exchange.request.body)
    return Refusal(Reason.COMPUTATION_TOO_COSTLY, f"The body has {octets} octets, and {exchange.method} takes {most}.")


@implementer(IGate)
class BodyGate:
    """
    The body is JSON, or YAML where the operator asks for it, as this host reads them.

    Every gate that needs no body comes before this one, so that a forbidden call costs no parse (design decision 13).
    The envelope may name task and session where the headers do not (core v08 section 5.7); where both do, the headers
    win (core v08 section 8.3).
    """

    name = "body"

    def __init__(self, *, yaml: bool = False) -> None:
        self._yaml = yaml
        self._logged = 0.0

    def check(self, exchange: Exchange) -> None:
        request = exchange.request
        body, binding = request.body, exchange.binding
        sent = request.headers.get("content-type")
        exchange.media_type = sent if sent is None or sent in media_types.JSON_BODIES else media_types.essence(sent)
        if body:
            if binding is not None and binding.most_octets is not None and len(body) > binding.most_octets:
                raise _too_long(exchange, binding.most_octets)
            if request.own or exchange.peer.transport == INTERNAL:
                # What this host wrote itself, for a call inside another or for a client of its MCP front, is JSON.
                value = request.value
                if value is None or not jsontext.is_unchecked(body):
                    value = _decode_json(body, jsontext.decode_own)
            elif request.enclosed is not None:
                content = decode(request.enclosed.content, exchange.media_type)
                value = request.enclosed.enclose(content)
            else:
                value = decode(body, exchange.media_type, yaml=self._yaml)
            exchange.parameters, exchange.context = unwrap(value, exchange.method)
            if len(body) >= jsontext.LONG and request.enclosed is None:  # A short one is as soon written anew.
                exchange.parameter_text = _text_of(exchange, value)
            named = CORRELATING if exchange.parameters is not value else _correlating_names(binding)
            if "task_id" in named and "task_id" in value:
                exchange.task_id = self._choose_identifier(exchange, exchange.task_id, value["task_id"], "task_id")
            if "session_id" in named and "session_id" in value:
                exchange.session_id = self._choose_identifier(
                    exchange, exchange.session_id, value["session_id"], "session_id"
                )
        else:
            exchange.parameters = {}
        if exchange.peer.stream:
            exchange.context = {**exchange.context, "stream": True}
        exchange.input = _input(exchange)

    def _choose_identifier(self, exchange: Exchange, header: str | None, member: Any, name: str) -> str | None:
        if member is None:
            return header
        if not isinstance(member, str) or not is_opaque_id(member):
            raise Refusal(Reason.INVALID_IDENTIFIER, f"{name} is not 1 to 128 visible ASCII characters.")
        if header is None:
            return member
        if header != member and exchange.now - self._logged > LOG_SECONDS:
            self._logged = exchange.now
            log.warn(
                "the {name} of {caller}'s envelope is not that of its headers, which count",
                name=name,
                caller="a stranger" if exchange.caller is None else exchange.caller.agent_id,
            )
        return header


@implementer(ICacheableGate)
class ParametersGate:
    """
    A built-in takes the parameters that its published schema names, and no others: else 422 (AGTP-API section 13.3).

    It comes before the action of an EXECUTE is looked for, because the action has a separate schema.
    """

    name = "parameters"

    def check(self, exchange: Exchange) -> None:
        binding = exchange.binding
        if binding is None or binding.tier != BUILT_IN:
            return
        declared = _parameters(binding)
        if declared.issuperset(exchange.input):
            return
        unknown = [name[:MAX_SHOWN] for name in islice((n for n in exchange.input if n not in declared), MAX_NAMES)]
        close = list(
            dict.fromkeys(near for name in unknown for near in difflib.get_close_matches(name, sorted(declared), 1))
        )
        raise Refusal(
            Reason.UNKNOWN_PARAMETER,
            f"{binding.method} {binding.path} has no parameter {unknown[0]!r}.",
            remedy=(f"Did you mean {close[0]!r}? " if close else "")
            + "The endpoint's input_schema in the manifest names every parameter; leave others out.",
            details={"parameter": unknown[0], "parameters": unknown, "close_matches": close},
        )

    def conditions(self, exchange: Exchange) -> Sequence[Condition] | None:
        """Keep the verdict of a binding that is not a built-in: this gate does not check its input."""
        return () if exchange.binding is not None and exchange.binding.tier != BUILT_IN else None


def _correlating_names(binding: Binding | None) -> Collection[str]:
    """Return which of task and session a body without an envelope may name next to a built-in's own parameters."""
    if binding is None or binding.tier != BUILT_IN:
        return ()
    if binding.input_schema is not None:
        return CORRELATING
    return CORRELATING - contract_of(binding.method, binding.path).takes.keys()


def _parameters(binding: Binding) -> frozenset[str]:
    if binding.input_schema is None:
        return _parameter_names(binding.method, binding.path)
    return frozenset(binding.input_schema.schema["properties"])


@cache
def _parameter_names(method: str, path: str) -> frozenset[str]:
    """Return the parameters of a built-in; cached, and bounded by the number of built-ins."""
    return contract_of(method, path).names(path)


@implementer(ICacheableGate)
class LegacyGate:
    """
    Gives an opted-in HTTP verb the parameters of its EXECUTE (AGTP-API section 3.6).

    DELETE and PATCH name their ``action``; PUT has an ``idempotency_key``,
    which is its Idempotency-Key. Only in the order where the policy opts such
    a verb in.
    """

    name = "legacy verb"

    def __init__(self, policy: MethodPolicy) -> None:
        self._policy = policy

    def check(self, exchange: Exchange) -> None:
        verb = exchange.requested_method
        if verb is None or exchange.method != "EXECUTE":
            return
        added: dict[str, str] = dict(self._policy.legacy_parameters(verb))
        if self._policy.demands_key(verb):
            added["idempotency_key"] = self._key(exchange)
        for name, value in added.items():
            if exchange.parameters.get(name, value) != value:
                raise Refusal(
                    Reason.LEGACY_PARAMETER_CONFLICT,
                    f"The parameter {name} contradicts what {verb} stands for.",
                    remedy=f"Leave {name} out, or call EXECUTE.",
                    details={"parameter": name, "expected": value},
                )
        if added:
            exchange.parameters, exchange.parameter_text = {**exchange.parameters, **added}, b""
            exchange.input = _input(exchange)

    def conditions(self, exchange: Exchange) -> Sequence[Condition] | None:
        """Keep the verdict unless the request is an HTTP verb for an EXECUTE."""
        return () if exchange.requested_method is None or exchange.method != "EXECUTE" else None

    @staticmethod
    def _key(exchange: Exchange) -> str:
        if exchange.idempotency_key is None:
            given = exchange.parameters.get("idempotency_key")
            if not isinstance(given, str) or not is_opaque_id(given):
                raise Refusal(Reason.IDEMPOTENCY_KEY_REQUIRED, details={"parameter": "idempotency_key"})
            exchange.idempotency_key = given
        return exchange.idempotency_key
