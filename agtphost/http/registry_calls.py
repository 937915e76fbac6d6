"""One request to the registry as one request of AGTP, and one answer as the registry's clients read it: no I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from agtphost.http import registry_errors as errors
from agtphost.http.registry_routes import Route, Unanswerable, asked_in
from agtphost.vocabulary import jsontext, media_types
from agtphost.wire.events import Request, Response
from agtphost.wire.headers import Headers

Fields = tuple[tuple[str, str], ...]

CARD_TYPE = "application/agent-card+json"
"""What HAIDIP would have registered; asked for, it is sent."""

BODIES = frozenset({media_types.JSON, CARD_TYPE})

MOST_AT_ONCE = 50
"""Inputs of one batch."""

SEARCH = frozenset(("query", "filters", "top", "skip", "ranked", "include_metadata", "include_unavailable"))
"""Members of a search that are read; unknown ones are let be, for later versions of the draft have more."""

FORWARDED = ("Idempotency-Key", "Request-ID", "Task-ID", "Session-ID", "Budget-Limit")
"""Fields of a request that go on; whatever says who calls does not."""

CHANGES = frozenset(("registerAgent", "updateAgent", "withdrawAgent"))
"""What is done to one version of a card, where the client says to which."""

_WRAPPED = frozenset(("card", "url", "lifetime", "public"))
"""Members of a registration that has more to say than the card."""

_OWN = frozenset(
    (
        *("connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade", "content-length"),
        *("content-type", "cache-control", "retry-after", "supported-methods", "agtp-status", "date", "server"),
    )
)
"""Fields of an answer that are said here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One request of AGTP, of a client's."""

    request: Request
    stream: bool = False
    """Whether interim messages are wanted."""

    batch: bool = False


def read(route: Route, query: bytes, body: bytes, own: Fields, said: Mapping[str, str], *, stream: bool) -> Asked:
    """
    One request of HTTP as one of AGTP.

    :param own: the fields that say who calls, as the client was proven.
    :param said: header fields of the request that decide something, by name.
    :param stream: whether it asks for events.
    :raises Unanswerable: it becomes none.
    """
    parameters: dict[str, Any] = asked_in(route, query)
    value = _value(route, body)
    batch = isinstance(value, list)
    if route.method == "EXECUTE":
        stream = _called(route, value, parameters) or stream
        if batch and stream:
            raise Unanswerable("A batch is answered as a whole, and not as a stream.", "stream")
    elif route.method == "REGISTER":
        _registered(route, value, body, parameters)
    elif route.method == "FIND":
        parameters.update({name: each for name, each in value.items() if name in SEARCH})
    elif isinstance(value, dict):
        parameters.update({name: value[name] for name in ("lifetime",) if name in value})
    if route.operation == "listPublicAgents":
        parameters["public"] = True
    if said.get("If-Match") and route.operation in CHANGES:
        parameters["if_match"] = said["If-Match"].strip().removeprefix("W/").strip('"')
    if said.get("If-None-Match", "").strip() == "*" and route.method == "REGISTER":
        parameters["if_none_match"] = "*"
    fields = [*own, *((name, said[name]) for name in FORWARDED if name in said)]
    return Asked(request=_request(route, fields, parameters, stream=stream), stream=stream, batch=batch)


def _request(
    route: Route, fields: Sequence[tuple[str, str]], parameters: Mapping[str, Any], *, stream: bool
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


def _value(route: Route, body: bytes) -> Any:
    if not route.takes:
        return None
    if not body.strip() and route.takes == "maybe":
        return None
    try:
        value = jsontext.decode(body)
    except jsontext.JSONTextError as error:
        raise Unanswerable(f"The body is not JSON as this host reads it: {error}.") from None
    if isinstance(value, list) and route.takes == "either":
        if not 1 <= len(value) <= MOST_AT_ONCE:
            raise Unanswerable(f"A batch has 1 to {MOST_AT_ONCE} inputs.")
        for place, each in enumerate(value):
            if not isinstance(each, dict):
                raise Unanswerable(f"Input {place} of the batch is not an object.", str(place))
        return value
    if not isinstance(value, dict):
        also = ", or an array of them" if route.takes == "either" else ""
        raise Unanswerable(f"The body is not an object{also}.")
    return value


def _called(route: Route, value: Any, parameters: dict[str, Any]) -> bool:
    """The parameters of a call; whether its body asks for a stream."""
    if route.action:
        parameters["action"] = route.action
    if isinstance(value, list):
        parameters["batch"] = value
        return False
    parameters["parameters"] = value
    return value.get("stream") is True


def _registered(route: Route, value: Mapping[str, Any], body: bytes, parameters: dict[str, Any]) -> None:
    """The parameters of a registration: a card as the text that it is, so that what is kept is what was written."""
    if value.keys() <= _WRAPPED and ("url" in value or isinstance(value.get("card"), dict)):
        if route.id:
            raise Unanswerable("A card is changed by sending it whole.", "id")
        parameters.update(value)
        return
    if route.id and value.get("id") != route.id:
        raise Unanswerable("The card has another id than the path.", "id")
    parameters["card"] = body.decode("utf-8")


def told(response: Response) -> list[tuple[str, str]]:
    """The fields of AGTP that go with an answer: whose it is, and the signed record of it."""
    return [(name, value) for name, value in response.headers if name.lower() not in _OWN]


def result_of(response: Response) -> Any:
    """What a success has to say."""
    body = jsontext.decode(response.body) if response.body else {}
    return body["result"] if isinstance(body, dict) and "result" in body and "attribution" in body else body


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """One answer over HTTP."""

    status: int
    octets: bytes
    kind: str = media_types.JSON
    fields: Sequence[tuple[str, str]] = ()


def _outputs(result: Any) -> list[Any]:
    """What each call of a batch came to: its result, or an error object, in order."""
    told = []
    for each in result["results"]:
        if "result" in each:
            told.append(each["result"])
        else:
            told.append(errors.fault(each["status"], each, audit_id=each.get("audit_id", "")).document)
    return told


def answer(route: Route, response: Response, base: str, said: Mapping[str, str], *, batch: bool = False) -> Said:
    """
    The answer to a request.

    :param base: where the registry is, for ``Location``.
    :param said: header fields of the request.
    """
    fields = told(response)
    if not errors.succeeded(response):
        fault = errors.fault_of(response)
        return Said(status=fault.status, octets=fault.octets, fields=(*fields, *fault.fields))
    if route.operation == "getAgent":
        return _card(response, fields, said)
    result = result_of(response)
    if route.method == "EXECUTE":
        return Said(status=200, octets=jsontext.encode(_outputs(result) if batch else result), fields=fields)
    status = 200
    if route.created and isinstance(result, dict) and result.get("created") is True:
        status = 201
        fields.append(("Location", f"{base}/agents/{quote(str(result.get('id', '')), safe='')}"))
    if isinstance(result, dict) and isinstance(result.get("etag"), str):
        fields.append(("ETag", quoted(result["etag"])))
    return Said(status=status, octets=jsontext.encode(result), fields=fields)


def _card(response: Response, fields: list[tuple[str, str]], said: Mapping[str, str]) -> Said:
    etag = response.headers.get("etag") or ""
    fields.append(("Vary", "Accept, Authorization"))
    if etag and unchanged(said, etag, response.headers.get("last-modified")):
        return Said(status=304, octets=b"", fields=fields)
    wants = CARD_TYPE in said.get("Accept", "").lower()
    return Said(status=200, octets=response.body, kind=CARD_TYPE if wants else media_types.JSON, fields=fields)


def quoted(etag: str) -> str:
    """An entity tag as it stands in a field."""
    return etag if etag.startswith('"') else f'"{etag}"'


def unchanged(said: Mapping[str, str], etag: str, modified: str | None) -> bool:
    """Whether a client has the present version: RFC 9110 section 13.2.2."""
    known = said.get("If-None-Match")
    if known is not None:
        tags = [each.strip().removeprefix("W/") for each in known.split(",")]
        return "*" in tags or etag in tags
    return modified is not None and said.get("If-Modified-Since") == modified
