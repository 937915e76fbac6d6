"""
External services: an endpoint answered by an upstream over HTTPS (AGTP-API section 12.3).

A request to the upstream is made from the operator's declaration and the validated input alone: no credential and no
identity of the caller is forwarded unless the declaration says so.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from enum import Enum
from hashlib import sha256
from typing import Any
from urllib.parse import quote, unquote_plus, urlencode, urlsplit

from twisted.internet.defer import TimeoutError
from twisted.internet.interfaces import IHostnameResolver
from twisted.logger import Logger
from zope.interface import implementer

from agtphost.contract.service import ServiceReference
from agtphost.errors import Refusal
from agtphost.handlers.context import EndpointContext, EndpointError
from agtphost.handlers.http_bodies import (
    PLAIN,
    check_exploded,
    encode_multipart,
    form_pairs,
    header_value,
    read_file,
    to_text,
    unsendable,
)
from agtphost.handlers.interface import IHandler
from agtphost.handlers.log_context import client_span
from agtphost.handlers.tracing import end_span_after
from agtphost.identity.required_assurance import is_believed
from agtphost.upstream.external_http import Answer, Upstream
from agtphost.upstream.failures import AnswerTooLong, UpstreamLost
from agtphost.vocabulary import jsontext
from agtphost.vocabulary.addresses import AddressPolicy
from agtphost.vocabulary.paths import CONTROL
from agtphost.vocabulary.reasons import Reason


class State(Enum):
    """The states of a circuit breaker."""

    CLOSED = "closed"
    """Calls go through."""

    OPEN = "open"
    """None does, for a while."""

    HALF_OPEN = "half-open"
    """One is on its way, and decides."""


class Circuit:
    """
    Counts failures in a row.

    :param failures: how many open it.
    :param seconds: for how long.
    :param clock: seconds.
    """

    def __init__(self, failures: int, seconds: float, clock: Callable[[], float]) -> None:
        self._most = failures
        self._seconds = seconds
        self._clock = clock
        self._failures = 0
        self._until = 0.0
        self.state = State.CLOSED

    @property
    def wait(self) -> float:
        """Seconds until a call is let through again; 0 where one is now."""
        return 0.0 if self.state is State.CLOSED else max(0.0, self._until - self._clock())

    def admit(self) -> bool:
        """
        Return whether a call may be made; if it may, one of the other three methods must follow.

        Of an open circuit whose time is over, the first call that asks becomes the trial.
        """
        if self.state is State.CLOSED:
            return True
        if self.state is State.OPEN and self._clock() >= self._until:
            self.state = State.HALF_OPEN
            return True
        return False

    def note_success(self) -> None:
        """Note that the upstream answered."""
        self._failures = 0
        self.state = State.CLOSED

    def note_failure(self) -> bool:
        """
        Note that the upstream failed.

        :return: whether that opened the circuit.
        """
        self._failures += 1
        if self.state is State.HALF_OPEN or (self.state is State.CLOSED and self._failures >= self._most):
            self._until = self._clock() + self._seconds
            self.state = State.OPEN
            return True
        return False

    def note_undecided(self) -> None:
        """Note a call that ended without a result: the next one is the trial."""
        if self.state is State.HALF_OPEN:
            self.state = State.OPEN


FORM = "application/x-www-form-urlencoded"
CONTENT_TYPES = {"json": "application/json", "form": FORM, "raw": "application/octet-stream"}
"""By body format, where the operator's headers name none."""

EMPTY = frozenset({204, 205})
"""Statuses whose answers have no body."""

_PLACE = re.compile(r"\{([A-Za-z0-9_.~-]{1,64})\}", re.ASCII)

log = Logger()


@implementer(IHandler)
class ExternalService:
    """
    Answers with an upstream.

    :param reference: the declaration.
    :param headers: its header fields with their secrets.
    :param trust: the authorities that may vouch for the upstream.
    :param resolver: looks names up.
    """

    kind = "external_service"

    def __init__(
        self,
        reference: ServiceReference,
        headers: Mapping[str, str],
        trust: Any,
        reactor: Any,
        resolver: IHostnameResolver,
    ) -> None:
        self._reference = reference
        lower = {name.lower(): value for name, value in headers.items()}
        typed = lower.get("content-type", "").partition(";")[0].strip().lower()
        self._format = reference.body or ("form" if typed == FORM else "json")
        self._headers = {"accept": "application/json", "user-agent": "agtphost", **lower}
        self._body = reference.sends_body
        if self._body and self._format in CONTENT_TYPES:
            self._headers.setdefault("content-type", CONTENT_TYPES[self._format])
        self._placed = {name: reference.ours(name) for name in reference.places}
        self._fixed = frozenset(
            unquote_plus(part.partition("=")[0]) for part in reference.url.partition("?")[2].split("&") if part
        )
        self._queried = tuple(map(reference.ours, reference.query))
        self._circuit = Circuit(reference.failures, reference.open_seconds, reactor.seconds)
        self._running = 0
        # As the operator wrote it: what a caller fills in is in no span.
        template = urlsplit(reference.url)
        named = {"http.request.method": reference.method, "url.template": template.path, "agtp.upstream": "https"}
        if template.hostname:
            named["server.address"] = template.hostname
        self._span = f"{reference.method} {template.path}", named
        policy = AddressPolicy(reference.allow_addresses)
        self._upstream = Upstream(reactor, resolver, policy, trust, reference.method, reference.max_response)

    @property
    def circuit(self) -> Circuit:
        """Whether the upstream is asked at present."""
        return self._circuit

    def close(self) -> Any:
        """Let go of kept connections."""
        return self._upstream.close()

    async def handle(self, context: EndpointContext) -> Any:
        """
        Ask the upstream for one caller.

        :raises agtphost.EndpointError: one of the five mandated errors, or one of ``error_map``.
        :raises agtphost.errors.Refusal: 422 for input that cannot be sent, 429 where too many requests run.
        """
        reference = self._reference
        url, given, body = self._request(context.input)
        if self._running >= reference.max_concurrency:
            raise Refusal(
                Reason.UPSTREAM_BUSY,
                "As many calls of this endpoint are running as it may have.",
                remedy="Try again later.",
                headers=(("Retry-After", "1"),),
            )
        if not self._circuit.admit():
            wait = max(1, round(self._circuit.wait))
            raise EndpointError("upstream_connection_error", {"circuit": "open", "retry_after": wait})
        decided = False
        self._running += 1
        try:
            answer = await self._exchange_in_span(url, {**self._fields(context), **given}, body)
            result = self._result(answer)
            decided = True
            self._circuit.note_success()
            return result
        except (TimeoutError, UpstreamLost, AnswerTooLong, EndpointError) as error:
            decided = True
            raise self._failure(context, error) from None
        finally:
            self._running -= 1
            if not decided:
                self._circuit.note_undecided()

    async def _exchange_in_span(self, url: str, fields: Mapping[str, str], body: bytes | None) -> Answer:
        span = client_span(*self._span)
        if span is not None:
            fields = {**fields, **dict(span.fields)}
        return await end_span_after(
            span, self._upstream.exchange(url, fields, body, self._reference.timeout), _error_of
        )

    # The request

    def _request(self, given: Mapping[str, Any]) -> tuple[str, Mapping[str, str], bytes | None]:
        """Return the URL, the header fields of the input alone, and the body."""
        reference = self._reference
        names = reference.input_transform

        def place(match: re.Match[str]) -> str:
            return _percent_encode(match[1], given.get(self._placed[match[1]]))

        path, mark, query = reference.url.partition("?")
        filled = _PLACE.sub(place, path)
        if any(segment in (".", "..") for segment in filled.split("/")[3:]):
            raise unsendable("a value would change the path that the upstream sees")
        fields = [_PLACE.sub(place, query)] if mark else []
        used = self._placed.values()
        rest = {name: value for name, value in given.items() if name not in used}
        headers: dict[str, str] = {}
        for name, field in reference.input_headers.items():
            value = header_value(name, rest.pop(name, None), reference.encoding.get(name, PLAIN))
            if value is not None:
                headers[field.lower()] = value
        # By our names, since a member of the query may have the upstream's name of one of the body.
        chosen = [name for name in self._queried if name in rest] if self._body else list(rest)
        asked = {name: rest.pop(name) for name in chosen}
        check_exploded(asked, names, reference.encoding, self._fixed)
        pairs = self._pairs(asked)
        if pairs:
            fields.append(urlencode(pairs))
        url = filled + ("?" + "&".join(field for field in fields if field) if any(fields) else "")
        if not self._body:
            return url, headers, None
        return url, headers, self._encode(rest, headers)

    def _encode(self, rest: Mapping[str, Any], headers: dict[str, str]) -> bytes:
        """
        Return the body; it is empty where an optional whole body is absent.

        :param headers: gets the Content-Type where it depends on the input.
        """
        reference = self._reference
        names, encodings, whole = reference.input_transform, reference.encoding, reference.whole_body
        if whole and whole not in rest:
            return b""
        if self._format == "raw":
            return self._raw(whole, rest[whole], headers)
        if whole:
            return jsontext.encode(rest[whole])
        if self._format == "multipart":
            headers["content-type"], body = encode_multipart(rest, names, encodings)
            return body
        if self._format == "form":
            check_exploded(rest, names, encodings)
            return urlencode(self._pairs(rest)).encode("ascii")
        return jsontext.encode({names.get(name, name): value for name, value in rest.items()})

    def _pairs(self, members: Mapping[str, Any]) -> list[tuple[str, str]]:
        """Return the fields of a query or a form."""
        names, encodings = self._reference.input_transform, self._reference.encoding
        return [
            pair
            for name, value in members.items()
            for pair in form_pairs(names.get(name, name), value, encodings.get(name, PLAIN))
        ]

    def _raw(self, name: str, value: Any, headers: dict[str, str]) -> bytes:
        encoding = self._reference.encoding.get(name, PLAIN)
        if not encoding.file:
            return to_text(value).encode()
        found = read_file(name, value, encoding)
        if isinstance(value, dict) and "content_type" in value:
            headers["content-type"] = found.content_type
        return found.data

    def _fields(self, context: EndpointContext) -> Mapping[str, str]:
        reference = self._reference
        if not reference.forward_identity and not reference.idempotency_header:
            return self._headers
        fields = dict(self._headers)
        caller, believed = context.caller, is_believed(context.assurance)
        if reference.forward_identity and caller is not None and believed:
            # A name in a header proves nothing: the service would answer for the agent whose name it is.
            fields["AGTP-Agent-ID"] = caller.agent_id
            if caller.owner_id and caller.owner_id.isascii() and caller.owner_id.isprintable():
                fields["AGTP-Principal-ID"] = caller.owner_id
        if reference.idempotency_header and context.idempotency_key is not None:
            who = "" if caller is None else caller.agent_id
            if not believed:
                who = f"{context.assurance.label}:{who}"
            # Another caller's key of the same text is another key, also to the upstream.
            digest = sha256(f"{who}\n{context.idempotency_key}".encode()).hexdigest()
            fields[reference.idempotency_header] = digest[:32]
        return fields

    # The answer

    def _result(self, answer: Answer) -> Any:
        status = answer.status
        if not 200 <= status < 300:
            name = self._reference.error_map.get(status)
            if name is None:
                refused = status in (401, 403)
                name = "upstream_authentication_failed" if refused else "upstream_error"
            raise EndpointError(name, {"upstream_status": status})
        may_be_empty = status in EMPTY or self._reference.empty_response
        if self._reference.method == "HEAD" or (may_be_empty and not answer.body):
            return {}
        if answer.content_encoding not in ("", "identity"):
            raise EndpointError("upstream_malformed_response", {"upstream_status": status})
        try:
            value = jsontext.decode(answer.body)
        except jsontext.JSONTextError:
            raise EndpointError("upstream_malformed_response", {"upstream_status": status}) from None
        names = {theirs: ours for ours, theirs in self._reference.output_transform.items()}
        if isinstance(value, dict) and names:
            return {names.get(name, name): member for name, member in value.items()}
        return value

    def _failure(self, context: EndpointContext, error: Exception) -> EndpointError:
        """Return the error for the caller, and tell the reason to the operator's log and the circuit breaker."""
        if isinstance(error, EndpointError):
            status = error.details.get("upstream_status", 0)
            if error.name == "upstream_malformed_response" or (error.name == "upstream_error" and status >= 500):
                self._note_failure(context, f"it answered {status}, {error.name}")
            else:
                self._circuit.note_success()
            return error
        if isinstance(error, TimeoutError):
            self._note_failure(context, "it did not answer in time")
            return EndpointError("upstream_timeout", {"timeout_seconds": self._reference.timeout})
        if isinstance(error, AnswerTooLong):
            self._note_failure(context, f"its answer has more than {self._reference.max_response} octets")
            return EndpointError("upstream_malformed_response", {"max_response": self._reference.max_response})
        self._note_failure(context, str(error))
        return EndpointError("upstream_connection_error", {})

    def _note_failure(self, context: EndpointContext, why: str) -> None:
        opened = self._circuit.note_failure()
        log.warn(
            "the upstream of {method} {path} failed: {why}{pause}",
            method=context.method,
            path=context.path,
            why=why,
            pause=f"; it is left alone for {self._reference.open_seconds:g} s" if opened else "",
        )


def _error_of(answer: Answer) -> str:
    """Return the error of an answer, as OpenTelemetry's conventions for HTTP clients name it."""
    return str(answer.status) if answer.status >= 400 else ""


def _percent_encode(name: str, value: Any) -> str:
    """Percent-encode a value for a path or query, so that it stays one segment or value."""
    text = to_text(value)
    if not text:
        raise unsendable(f"{name} is empty")
    if CONTROL.search(text):
        # isprintable() is false for joiners of letters and emoji, and for characters newer than Python's tables.
        raise unsendable(f"{name} has a control character")
    return quote(text, safe="")
