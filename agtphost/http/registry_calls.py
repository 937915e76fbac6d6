"""Translate a request to the registry to AGTP, and the answer to the form of the registry's clients; without I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from agtphost.http import registry_errors as errors
from agtphost.http.registry_routes import InvalidRegistryRequest, RegistryRoute, read_query
from agtphost.vocabulary import jsontext, media_types
from agtphost.wire.events import Request, Response
from agtphost.wire.headers import Headers

Fields = tuple[tuple[str, str], ...]

CARD_TYPE = "application/agent-card+json"
"""The media type that HAIDIP would have registered; sent if requested."""

BODIES = frozenset({media_types.JSON, CARD_TYPE})

MOST_AT_ONCE = 50
"""Inputs of one batch."""

SEARCH = frozenset(("query", "filters", "top", "skip", "ranked", "include_metadata", "include_unavailable"))
"""Members of a search that are read; unknown ones are ignored, since later versions of the draft have more."""

FORWARDED = ("Idempotency-Key", "Request-ID", "Task-ID", "Session-ID", "Budget-Limit")
"""Fields of a request that are forwarded; none of them says who calls."""

CHANGES = frozenset(("registerAgent", "updateAgent", "withdrawAgent"))
"""Operations on one version of a card, if the client names the version."""

_WRAPPED = frozenset(("card", "url", "lifetime", "public"))
"""Members of a registration that has more than a card."""

_OWN_FIELDS = frozenset(
    (
        *("connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade", "content-length"),
        *("content-type", "cache-control", "retry-after", "supported-methods", "agtp-status", "date", "server"),
    )
)
"""Fields of an answer that this module sets itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryCall:
    """A client's request, translated to AGTP."""

    request: Request
    stream: bool = False
    """Whether interim messages are wanted."""

    batch: bool = False


def read(
    route: RegistryRoute, query: bytes, body: bytes, own: Fields, headers: Mapping[str, str], *, stream: bool
) -> RegistryCall:
    """
    Translate an HTTP request to AGTP.

    :param own: the fields that say who calls, as the client has proven.
    :param headers: the header fields that are read, by name.
    :param stream: whether it asks for events.
    :raises InvalidRegistryRequest: it cannot be translated.
    """
    parameters: dict[str, Any] = read_query(route, query)
    value = _value(route, body)
    batch = isinstance(value, list)
    if route.method == "EXECUTE":
        stream = _add_call(route, value, parameters) or stream
        if batch and stream:
            raise InvalidRegistryRequest("A batch cannot be answered as a stream; leave stream out.", "stream")
    elif route.method == "REGISTER":
        _add_registration(route, value, body, parameters)
    elif route.method == "FIND":
        parameters.update({name: each for name, each in value.items() if name in SEARCH})
    elif isinstance(value, dict):
        parameters.update({name: value[name] for name in ("lifetime",) if name in value})
    if route.operation == "listPublicAgents":
        parameters["public"] = True
    if headers.get("If-Match") and route.operation in CHANGES:
        parameters["if_match"] = headers["If-Match"].strip().removeprefix("W/").strip('"')
    if headers.get("If-None-Match", "").strip() == "*" and route.method == "REGISTER":
        parameters["if_none_match"] = "*"
    fields = [*own, *((name, headers[name]) for name in FORWARDED if name in headers)]
    return RegistryCall(request=_request(route, fields, parameters, stream=stream), stream=stream, batch=batch)


def _request(
    route: RegistryRoute, fields: Sequence[tuple[str, str]], parameters: Mapping[str, Any], *, stream: bool
) -> Request:
    body: dict[str, Any] = {"method": route.method, "parameters": parameters}
    if stream:
        body["context"] = {"stream": True}
    return Request(
        method=route.method,
        path=route.path,
        headers=Headers([*fields, ("Content-Type", media_types.AGTP_JSON)]),
        body=jsontext.encode(body),
        line=f"AGTP/1.0 {route.method} {route.path}\r\n".encode("ascii"),
    )


def _value(route: RegistryRoute, body: bytes) -> Any:
    if not route.takes:
        return None
    if not body.strip() and route.takes == "maybe":
        return None
    try:
        value = jsontext.decode(body)
    except jsontext.JSONTextError as error:
        raise InvalidRegistryRequest(f"The body is not valid JSON: {error}.") from None
    if isinstance(value, list) and route.takes == "either":
        if not 1 <= len(value) <= MOST_AT_ONCE:
            raise InvalidRegistryRequest(f"A batch has 1 to {MOST_AT_ONCE} inputs.")
        for place, each in enumerate(value):
            if not isinstance(each, dict):
                raise InvalidRegistryRequest(f"Input {place} of the batch is not an object.", str(place))
        return value
    if not isinstance(value, dict):
        also = ", or an array of them" if route.takes == "either" else ""
        raise InvalidRegistryRequest(f"The body is not an object{also}.")
    return value


def _add_call(route: RegistryRoute, value: Any, parameters: dict[str, Any]) -> bool:
    """Add the parameters of a call; return whether its body asks for a stream."""
    if route.action:
        parameters["action"] = route.action
    if isinstance(value, list):
        parameters["batch"] = value
        return False
    parameters["parameters"] = value
    return value.get("stream") is True


def _add_registration(route: RegistryRoute, value: Mapping[str, Any], body: bytes, parameters: dict[str, Any]) -> None:
    """Add the parameters of a registration; a card is kept as its text, so that what is stored is what was written."""
    if value.keys() <= _WRAPPED and ("url" in value or isinstance(value.get("card"), dict)):
        if route.id:
            raise InvalidRegistryRequest("To change a card, send the whole card.", "id")
        parameters.update(value)
        return
    if route.id and value.get("id") != route.id:
        raise InvalidRegistryRequest("The card has another id than the path.", "id")
    parameters["card"] = body.decode("utf-8")


def forwarded_fields(response: Response) -> list[tuple[str, str]]:
    """Return the AGTP fields of an answer: its host and its signed record."""
    return [(name, value) for name, value in response.headers if name.lower() not in _OWN_FIELDS]


def result_of(response: Response) -> Any:
    """Return the result of a successful response."""
    body = jsontext.decode(response.body) if response.body else {}
    return body["result"] if isinstance(body, dict) and "result" in body and "attribution" in body else body


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryAnswer:
    """An answer over HTTP."""

    status: int
    octets: bytes
    kind: str = media_types.JSON
    fields: Sequence[tuple[str, str]] = ()


def _outputs(result: Any) -> list[Any]:
    """Return the outputs of a batch in order: a result or an error object for each call."""
    told = []
    for each in result["results"]:
        if "result" in each:
            told.append(each["result"])
        else:
            told.append(errors.build_fault(each["status"], each, audit_id=each.get("audit_id", "")).document)
    return told


def answer(
    route: RegistryRoute, response: Response, base: str, headers: Mapping[str, str], *, batch: bool = False
) -> RegistryAnswer:
    """
    Return the answer to a request.

    :param base: the URL of the registry, for ``Location``.
    :param headers: header fields of the request.
    """
    fields = forwarded_fields(response)
    if not errors.is_success(response):
        fault = errors.fault_of(response)
        return RegistryAnswer(status=fault.status, octets=fault.octets, fields=(*fields, *fault.fields))
    if route.operation == "getAgent":
        return _card(response, fields, headers)
    result = result_of(response)
    if route.method == "EXECUTE":
        return RegistryAnswer(status=200, octets=jsontext.encode(_outputs(result) if batch else result), fields=fields)
    status = 200
    if route.created and isinstance(result, dict) and result.get("created") is True:
        status = 201
        fields.append(("Location", f"{base}/agents/{quote(str(result.get('id', '')), safe='')}"))
    if isinstance(result, dict) and isinstance(result.get("etag"), str):
        fields.append(("ETag", quote_tag(result["etag"])))
    return RegistryAnswer(status=status, octets=jsontext.encode(result), fields=fields)


def _card(response: Response, fields: list[tuple[str, str]], headers: Mapping[str, str]) -> RegistryAnswer:
    etag = response.headers.get("etag") or ""
    fields.append(("Vary", "Accept, Authorization"))
    if etag and is_unchanged(headers, etag, response.headers.get("last-modified")):
        return RegistryAnswer(status=304, octets=b"", fields=fields)
    wants = CARD_TYPE in headers.get("Accept", "").lower()
    return RegistryAnswer(
        status=200, octets=response.body, kind=CARD_TYPE if wants else media_types.JSON, fields=fields
    )


def quote_tag(etag: str) -> str:
    """Return an entity tag in quotes."""
    return etag if etag.startswith('"') else f'"{etag}"'


def is_unchanged(headers: Mapping[str, str], etag: str, modified: str | None) -> bool:
    """Return whether a client has the present version (RFC 9110 section 13.2.2)."""
    known = headers.get("If-None-Match")
    if known is not None:
        tags = [each.strip().removeprefix("W/") for each in known.split(",")]
        return "*" in tags or etag in tags
    return modified is not None and headers.get("If-Modified-Since") == modified
