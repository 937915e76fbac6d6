"""From what a caller says to the request that goes out: core v08 sections 5.5, 5.7 and 6.1."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from agtphost.client.errors import InvalidCall
from agtphost.client.retries import is_repeatable
from agtphost.client.tracing import active_trace
from agtphost.errors import LocalProtocolError
from agtphost.vocabulary import jsontext, media_types, scopes, uris
from agtphost.vocabulary.identifiers import is_agent_id, is_opaque_id
from agtphost.vocabulary.trace_context import TRACEPARENT
from agtphost.vocabulary.uris import AgtpUri, Form, UriError
from agtphost.wire.codec import REFUSED_NAMES, serialize_request
from agtphost.wire.events import Request
from agtphost.wire.headers import Headers

Scopes = Iterable[str] | str | None
"""Scope tokens, or a header value; None sends no Authority-Scope and so claims all that is declared."""


@dataclass(frozen=True, slots=True)
class Destination:
    """The host and port that a call connects to."""

    host: str
    """A name or an address; an IPv6 address without brackets."""

    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """The agent and scopes that a client calls with, unless a call has others."""

    agent_id: str | None = None
    scopes: Scopes = None
    session_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedCall:
    """A call that is known to be well-formed and not yet sent."""

    destination: Destination
    request: Request
    """With ``line`` as it will be sent."""

    caller_id: str | None
    """The Agent-ID header."""

    agent_id: str | None
    """The canonical Agent-ID that the URI names."""

    addressee: str
    """The agent addressed by the URI, by ID or by host and name; empty for a server."""

    repeatable: bool
    """Whether carrying it out twice does no more than once."""

    confidence: float | None = None
    """How sure the caller is that it is what was wanted; None where it does not say."""

    cancelled_by_message: bool = False
    """Whether a message tells the server of its cancellation, and not the end of the connection."""


def new_session_id() -> str:
    """Return an unguessable Session-ID: 256 random bits, base64url (AGTP-315)."""
    return secrets.token_urlsafe(32)


_parse_text = lru_cache(256)(uris.parse)  # calls address the same few servers and agents


def parse_uri(text: str | AgtpUri) -> AgtpUri:
    """
    Return the URI of a call.

    :raises InvalidCall: naming what is wrong and what to write.
    """
    if isinstance(text, AgtpUri):
        return text
    try:
        return _parse_text(text)
    except UriError as error:
        remedy = f"{error.hint[:1].upper()}{error.hint[1:]}." if error.hint else ""
        raise InvalidCall(error.explanation, remedy) from error


def prepare(
    uri: str | AgtpUri,
    method: str,
    path: str = "/",
    input: Mapping[str, Any] | None = None,
    *,
    identity: Identity,
    resolver: AgtpUri | None = None,
    body: bytes | None = None,
    content_type: str | None = None,
    headers: Iterable[tuple[str, str]] = (),
    scopes: Scopes = None,
    task_id: str | None = None,
    session_id: str | None = None,
    idempotency_key: str | None = None,
    context: Mapping[str, Any] | None = None,
    streaming: bool = False,
    anonymous: bool = False,
    idempotent: bool | None = None,
    confidence: float | None = None,
    cancelled_by_message: bool = False,
    plain: bool = False,
) -> PreparedCall:
    """
    Build one request.

    :param uri: what is addressed; an agent's URI puts ``/agents/NAME`` in front of ``path``.
    :param path: the endpoint's path, with its query if it has one.
    :param input: the method's parameters, sent in the drafts' envelope, or ``plain`` at the top of the body.
    :param body: octets to send instead of ``input``.
    :param resolver: where Agent-IDs without a host are asked for.
    :param streaming: whether interim messages are asked for (``context.stream``).
    :param anonymous: leaves Agent-ID out.
    :param confidence: from 0 to 1: how sure the caller is; it is not sent.
    :param cancelled_by_message: whether the caller tells the server of a cancellation itself.
    :raises InvalidCall: for everything that cannot be sent.
    """
    if confidence is not None and not 0 <= confidence <= 1:
        raise InvalidCall(f"The confidence {confidence} is not a number from 0 to 1.", "Give one such as 0.9.")
    target = parse_uri(uri)
    place, addressee = _place(target, resolver)
    if session_id is None:
        session_id = identity.session_id
    extra = _extra_fields(headers)
    if body is None:
        if streaming:
            context = {**(context or {}), "stream": True}
        body = _plain(input, context) if plain else _envelope(method, task_id, session_id, input, context)
    elif input is not None or context is not None:
        raise InvalidCall("A call has parameters or a ready body, not both.", "Leave out input and context, or body.")
    fields = [
        ("Agent-ID", None if anonymous else _agent_id(identity.agent_id)),
        ("Authority-Scope", _scope_value(identity.scopes if scopes is None else scopes)),
        ("Session-ID", _opaque("Session-ID", session_id)),
        ("Task-ID", _opaque("Task-ID", task_id)),
        ("Idempotency-Key", _opaque("Idempotency-Key", idempotency_key)),
        ("Content-Type", (content_type or media_types.AGTP_JSON) if body else None),
    ]
    given = {name.lower() for name, _ in extra}
    if TRACEPARENT not in given:
        extra.extend(active_trace())
    own = [(name, value) for name, value in fields if value is not None and name.lower() not in given]
    sent = Headers(own + extra)
    path, query = _request_target(target, path)
    request = _check_sendable(Request(method=method, path=path, query=query, headers=sent, body=body))
    keyed = "idempotency-key" in sent
    return PreparedCall(
        destination=place,
        request=request,
        caller_id=sent.get("agent-id"),
        agent_id=target.agent_id,
        addressee=addressee,
        repeatable=is_repeatable(method, keyed=keyed, idempotent=idempotent),
        confidence=confidence,
        cancelled_by_message=cancelled_by_message,
    )


def with_field(call: PreparedCall, name: str, value: str) -> PreparedCall:
    """Return the call with one more header field, unless it has one of that name already."""
    headers = call.request.headers
    if name.lower() in headers:
        return call
    return replace(call, request=replace(call.request, headers=Headers([*headers, (name, value)])))


def _check_sendable(request: Request) -> Request:
    """Set the line of a request that was just made, after the codec agreed to send it, and return it."""
    try:
        octets = serialize_request(request)
    except LocalProtocolError as error:
        raise InvalidCall(f"The request cannot be sent: {error}") from error
    request.line = octets[: octets.index(b"\n") + 1]
    return request


def _place(uri: AgtpUri, resolver: AgtpUri | None) -> tuple[Destination, str]:
    """Return where to connect, and the name under which the addressed agent is remembered."""
    at = uri
    if not uri.host:
        if resolver is None or not resolver.host:
            raise InvalidCall(
                "An Agent-ID alone does not say where its agent can be reached.",
                f"Write agtp://{uri.agent_id}@HOST, or name a resolver.",
            )
        at = resolver
    place = Destination(at.host, at.port)
    return place, uri.agent_id or (f"{place}/{uri.agent_name}" if uri.agent_name else "")


def _request_target(uri: AgtpUri, path: str) -> tuple[str, str | None]:
    path, question, query = path.partition("?")
    whole = uri.form is Form.NAMESPACE or uri.status
    if whole and path != "/":
        raise InvalidCall("This URI addresses a document, which has no endpoints.", "Leave the path out.")
    if uri.form is Form.NAMESPACE:
        path = "/agents"
    elif uri.agent_path:
        path = uri.agent_path + ("/status" if uri.status else "" if path == "/" else path)
    queries = [part for part in (uri.query, query if question else None) if part is not None]
    return path, "&".join(queries) if queries else None


def _agent_id(value: str | None) -> str | None:
    if value is not None and not is_agent_id(value):
        raise InvalidCall(
            f"The Agent-ID to call as, {str(value)[:80]!r}, is not 64 lower-case hexadecimal digits.",
            "Give the agent_id of its Identity Document.",
        )
    return value


def _opaque(name: str, value: str | None) -> str | None:
    if value is not None and not is_opaque_id(value):
        raise InvalidCall(
            f"{name} {str(value)[:64]!r} is not 1 to 128 visible ASCII characters.",
            "Shorten it, or write it without spaces and other characters.",
        )
    return value


def _scope_value(value: Scopes) -> str | None:
    """Return the header form; an empty list claims nothing, which is not the same as no header."""
    if value is None:
        return None
    try:
        return scopes.render(scopes.parse(value if isinstance(value, str) else ",".join(value)))
    except scopes.ScopeError as error:
        raise InvalidCall(f"The scopes cannot be sent: {error}.") from error


def _extra_fields(headers: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    extra = [(name, value) for name, value in headers]
    for name, _ in extra:
        why = REFUSED_NAMES.get(name.lower())
        if why is not None:
            raise InvalidCall(f"The header {name} {why}.", "Leave it out.")
    return extra


def _envelope(
    method: str,
    task_id: str | None,
    session_id: str | None,
    parameters: Mapping[str, Any] | None,
    context: Mapping[str, Any] | None,
) -> bytes:
    """
    Return the body's octets; none where there is nothing to say.

    Parameters always go in the envelope: bare ones would be taken for an
    envelope where a parameter is itself called ``parameters`` or ``method``.
    """
    if parameters is None and context is None:
        return b""
    envelope: dict[str, Any] = {"method": method}
    if task_id is not None:
        envelope["task_id"] = task_id
    if session_id is not None:
        envelope["session_id"] = session_id
    envelope["parameters"] = dict(parameters or {})
    if context is not None:
        envelope["context"] = dict(context)
    return _encode(envelope)


def _plain(parameters: Mapping[str, Any] | None, context: Mapping[str, Any] | None) -> bytes:
    """
    Return the body's octets with the parameters at its top: the other reading of core v08 section 5.7.

    Servers that know no envelope want it so. Task and session are in the header alone.
    """
    if context is None:
        return b"" if parameters is None else _encode(dict(parameters))
    if parameters is not None and "context" in parameters:
        raise InvalidCall(
            "A parameter 'context' and the context of the call have one place in a plain body.",
            "Leave out one of them: a stream, or the parameter.",
        )
    return _encode({**(parameters or {}), "context": dict(context)})


def _encode(value: dict[str, Any]) -> bytes:
    try:
        return jsontext.encode(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidCall(
            f"The parameters cannot be written as JSON: {error}.",
            "Give texts, finite numbers, booleans, None, lists, and dictionaries whose keys are texts.",
        ) from error
