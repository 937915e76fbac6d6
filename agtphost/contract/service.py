"""
The external service of an endpoint: what is called over HTTPS, and how (AGTP-API section 12.3).

The functions are pure: header values still contain references to secrets, which the host resolves at its start. Nothing
of this is published.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from agtphost.contract.request_format import (
    CREDENTIAL_HEADERS,
    MemberEncoding,
    header_input_fault,
    read_body_format,
    read_encodings,
)

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS")
BODY_METHODS = frozenset({"POST", "PUT", "PATCH"})
"""Methods that send the input as a body; the others send it as the query."""

MAY_HAVE_BODY = BODY_METHODS | {"DELETE"}
"""Methods that send a body if ``handler.body`` is set."""

UPSTREAM_ERRORS = (
    *("upstream_timeout", "upstream_connection_error", "upstream_malformed_response"),
    *("upstream_authentication_failed", "upstream_error"),
)
"""Errors that every external service endpoint must declare."""

DEFAULT_TIMEOUT = 30.0
"""Seconds (AGTP-API section 12.3)."""

LONGEST_TIMEOUT = 600.0
LARGEST_RESPONSE = 64 << 20

IPNetwork = ipaddress.IPv4Network | ipaddress.IPv6Network

_URL = re.compile(r"https://[A-Za-z0-9.:_\[\]-]+(?:/[!-~]*)?(?:\?[!-~]*)?", re.ASCII)
_PLACE = re.compile(r"\{([A-Za-z0-9_.~-]{1,64})\}", re.ASCII)
_LABEL = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9])?", re.ASCII)
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}", re.ASCII)
_REFERENCE = re.compile(r"\$\{[A-Za-z_][A-Za-z0-9_]*\}|^env:|^file:", re.ASCII)

_OWN_HEADERS = frozenset(
    {"host", "content-length", "transfer-encoding", "connection", "upgrade", "te", "trailer", "expect"}
    | {"accept-encoding", "proxy-connection", "keep-alive"}
)
"""Header fields that the HTTP client sets."""

MEMBERS = (
    *("type", "url", "method", "headers", "input_transform", "output_transform", "error_map", "timeout_seconds"),
    *("query", "body", "whole_body", "input_headers", "encoding", "empty_response"),
    *("ca", "allow_addresses", "forward_identity", "idempotency_header"),
    *("max_response", "max_concurrency", "failures", "open_seconds"),
)
"""Members of AGTP-API section 12.3, then members of this project."""

Say = Callable[[tuple[str | int, ...], str, str], None]
"""Takes a location below ``handler``, a sentence, and a hint."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceReference:
    """An upstream, checked as far as possible without a request."""

    url: str
    """https URL; ``{name}`` in the path or query is replaced by a value of the input; see :meth:`ours`."""

    method: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Fields of every request; ``${VAR}``, ``env:NAME`` and ``file:PATH`` are not resolved yet."""

    input_transform: Mapping[str, str] = field(default_factory=dict)
    """Maps our names to the upstream's; two may be equal if one of them goes into the path or the query."""

    output_transform: Mapping[str, str] = field(default_factory=dict)
    """Maps our names to the upstream's; applied in reverse to the response."""

    error_map: Mapping[int, str] = field(default_factory=dict)
    """Maps upstream statuses to declared errors."""

    timeout: float = DEFAULT_TIMEOUT
    """Seconds for the whole exchange."""

    query: tuple[str, ...] = ()
    """Input members that go into the query even if there is a body; see :meth:`ours`."""

    body: str = ""
    """One of ``BODY_FORMATS``; empty: form if the Content-Type of :attr:`headers` says so, otherwise JSON."""

    whole_body: str = ""
    """Our name of the input member that is the whole body; empty: an object of all members."""

    input_headers: Mapping[str, str] = field(default_factory=dict)
    """Maps our names of input members to the header fields that carry them."""

    encoding: Mapping[str, MemberEncoding] = field(default_factory=dict)
    """Format of single members in query, form and header fields, by our names."""

    empty_response: bool = False
    """Whether a 2xx answer without a body is an empty object; otherwise it is malformed, except for 204 and 205."""

    ca: str = ""
    """PEM file of the only trusted authorities; empty: this machine's."""

    allow_addresses: tuple[IPNetwork, ...] = ()
    """Non-public networks that may be connected to."""

    forward_identity: bool = False
    """Whether ``AGTP-Agent-ID`` and ``AGTP-Principal-ID`` are sent; off by default."""

    idempotency_header: str = ""
    """The field for a key derived from the caller's Idempotency-Key; empty: none."""

    max_response: int = 1 << 20
    """Octets of a response."""

    max_concurrency: int = 64
    """Concurrent requests; a further one is answered 429."""

    failures: int = 5
    """Consecutive failures after which the circuit breaker opens."""

    open_seconds: float = 30.0
    """Seconds for which it stays open."""

    @property
    def places(self) -> tuple[str, ...]:
        """Return the upstream's names of the input members in the URL."""
        return tuple(dict.fromkeys(_PLACE.findall(self.url)))

    @property
    def sends_body(self) -> bool:
        """Return whether remaining input is sent as the body, not as the query."""
        return self.method in BODY_METHODS or bool(self.body)

    def ours(self, name: str) -> str:
        """Return our name of the member that a URL place or ``query`` item names, by our name or by the upstream's."""
        if name in self.input_transform:
            return name
        return next((ours for ours, theirs in self.input_transform.items() if theirs == name), name)

    def sent_alike(self, members: Iterable[str]) -> Iterator[tuple[str, str, str]]:
        """
        Yield pairs of input members of which the upstream would get only one: both names, and the part of the request.

        :param members: members by our names.
        """
        placed, queried = set(map(self.ours, self.places)), set(map(self.ours, self.query))
        seen: dict[tuple[str, str], str] = {}
        for name in members:
            if name in placed or name in self.input_headers or name == self.whole_body:
                continue
            part = "query" if name in queried or not self.sends_body else "body"
            first = seen.setdefault((part, self.input_transform.get(name, name)), name)
            if first != name:
                yield first, name, part


def read_service(block: Mapping[str, Any], say: Say) -> ServiceReference | None:
    """
    Check the ``handler`` table of an external service; the names of its members are already checked.

    :return: None if anything is wrong.
    """
    return _ServiceReader(block, say).service()


class _ServiceReader:
    """A checker of one table."""

    def __init__(self, block: Mapping[str, Any], say: Say) -> None:
        self._block = block
        self._report = say
        self._wrong = False

    def _add_fault(self, location: tuple[str | int, ...], message: str, hint: str = "") -> None:
        self._wrong = True
        self._report(location, f"handler.{message}", hint)

    def service(self) -> ServiceReference | None:
        block = self._block
        found: dict[str, Any] = {
            "url": self._url(),
            "method": self._method(),
            "headers": self._headers(),
            "input_transform": self._renames("input_transform"),
            "output_transform": self._renames("output_transform"),
            "error_map": self._error_map(),
            "timeout": self._number("timeout_seconds", DEFAULT_TIMEOUT, LONGEST_TIMEOUT),
            "query": self._query(),
            "body": read_body_format(block, self._add_fault),
            "whole_body": self._text("whole_body"),
            "input_headers": self._input_headers(),
            "encoding": read_encodings(block, self._add_fault),
            "empty_response": self._flag("empty_response"),
            "ca": self._text("ca"),
            "allow_addresses": self._networks(),
            "forward_identity": self._flag("forward_identity"),
            "idempotency_header": self._header_name(("idempotency_header",), block.get("idempotency_header")),
            "max_response": self._count("max_response", 1 << 20, LARGEST_RESPONSE),
            "max_concurrency": self._count("max_concurrency", 64, 10_000),
            "failures": self._count("failures", 5, 1_000),
            "open_seconds": self._number("open_seconds", 30.0, 3_600.0),
        }
        self._combinations(found)
        return None if self._wrong else ServiceReference(**found)

    def _combinations(self, found: Mapping[str, Any]) -> None:
        """Check members that depend on each other."""
        kind, whole = found["body"], found["whole_body"]
        if (kind or whole) and found["method"] not in (MAY_HAVE_BODY if kind else BODY_METHODS):
            name = "body" if kind else "whole_body"
            self._add_fault((name,), f"{name} is only for methods with a body, but method is {found['method']}")
        if kind == "raw" and not whole:
            self._add_fault(("body",), 'body = "raw" sends one member unchanged, but whole_body does not name one')
        if whole and kind in ("form", "multipart"):
            self._add_fault(("whole_body",), f'whole_body sends one value, but body = "{kind}" sends fields')
        if kind == "multipart" and any(name.lower() == "content-type" for name in found["headers"]):
            hint = "leave it out, because the host writes it with the boundary"
            self._add_fault(("headers",), 'headers must not have a Content-Type if body = "multipart"', hint)

    def _input_headers(self) -> Mapping[str, str]:
        """Return the header fields that callers set: none that the host or the operator sets."""
        given = self._table("input_headers")
        taken = {name.lower() for name in self._table("headers")}
        taken.add(str(self._block.get("idempotency_header", "")).lower())
        for name, field_name in given.items():
            at = ("input_headers", name)
            self._header_name(at, field_name if field_name is not None else "")
            if not isinstance(field_name, str):
                continue
            fault = header_input_fault(field_name)
            if fault is not None:
                self._add_fault(at, f"input_headers.{name[:64]}: {field_name[:64]} {fault}")
            elif field_name.lower() in taken:
                self._add_fault(at, f"input_headers.{name[:64]}: {field_name[:64]} is set twice")
            taken.add(field_name.lower())
        return {str(name): str(value) for name, value in given.items()}

    def _url(self) -> str:
        url = self._block.get("url", "https://-.invalid")
        for fault in url_faults(url):
            self._add_fault(("url",), f"url {fault}", "such as https://api.example.com/rooms/{room_id}")
        return str(url)

    def _method(self) -> str:
        method = self._block.get("method", "GET")
        if method not in METHODS:
            self._add_fault(("method",), f"method {str(method)[:32]!r} is not one of {', '.join(METHODS)}")
        return str(method)

    def _table(self, name: str) -> Mapping[str, Any]:
        value = self._block.get(name, {})
        if not isinstance(value, Mapping):
            self._add_fault((name,), f"{name} must be a table")
            return {}
        return value

    def _headers(self) -> Mapping[str, str]:
        given = self._table("headers")
        for name, value in given.items():
            at = ("headers", name)
            self._header_name(at, name)
            if not isinstance(value, str) or not value.isascii() or not value.isprintable() or not value.strip():
                self._add_fault(at, f"headers.{name[:64]} must be one line of ASCII text")
            elif name.lower() in CREDENTIAL_HEADERS and _REFERENCE.search(value) is None:
                hint = 'write "Bearer ${VARIABLE}", "env:NAME" or "file:PATH"'
                self._add_fault(at, f"headers.{name[:64]} has a credential in plain text", hint)
        return dict(given)

    def _header_name(self, at: tuple[str, ...], name: Any) -> str:
        if name is None:
            return ""
        for fault in header_name_faults(name):
            self._add_fault(at, f"{'.'.join(at)[:80]}{fault}")
        return str(name)

    def _renames(self, member: str) -> Mapping[str, str]:
        given = self._table(member)
        for name, other in given.items():
            if not isinstance(other, str) or not other:
                self._add_fault((member, name), f"{member}.{name[:64]} is not a name")
        # For the input it depends on where each member is sent: see `sent_alike`.
        if member == "output_transform" and len({str(other) for other in given.values()}) < len(given):
            self._add_fault((member,), f"{member} gives two members the same name")
        return dict(given)

    def _error_map(self) -> Mapping[int, str]:
        found: dict[int, str] = {}
        for status, error in self._table("error_map").items():
            if re.fullmatch(r"[345][0-9]{2}", status, re.ASCII) is None:
                self._add_fault(
                    ("error_map", status), f"error_map.{status[:32]} must be an HTTP status from 300 to 599"
                )
            elif not isinstance(error, str):
                self._add_fault(("error_map", status), f"error_map.{status} must be the name of an error")
            else:
                found[int(status)] = error
        return found

    def _query(self) -> tuple[str, ...]:
        given = self._block.get("query", [])
        if not isinstance(given, list) or not all(isinstance(name, str) for name in given):
            self._add_fault(("query",), "query must be a list of input members")
            return ()
        return tuple(given)

    def _networks(self) -> tuple[IPNetwork, ...]:
        given = self._block.get("allow_addresses", [])
        if not isinstance(given, list):
            self._add_fault(("allow_addresses",), "allow_addresses must be a list")
            return ()
        found: list[IPNetwork] = []
        for index, text in enumerate(given):
            try:
                found.append(ipaddress.ip_network(text if isinstance(text, str) else ""))
            except ValueError:
                hint = 'such as "10.1.2.3" or "10.1.0.0/16"'
                self._add_fault(
                    ("allow_addresses", index),
                    f"allow_addresses has {str(text)[:64]!r}, which is not an address or network",
                    hint,
                )
        return tuple(found)

    def _text(self, name: str) -> str:
        value = self._block.get(name, "")
        if not isinstance(value, str) or (name in self._block and not value):
            self._add_fault((name,), f"{name} must be a text")
        return str(value)

    def _flag(self, name: str) -> bool:
        value = self._block.get(name, False)
        if not isinstance(value, bool):
            self._add_fault((name,), f"{name} must be true or false, not {value!r:.64}")
        return value is True

    def _number(self, name: str, default: float, most: float) -> float:
        value = self._block.get(name, default)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= most:
            self._add_fault((name,), f"{name} must be a positive number of seconds up to {most:.0f}, not {value!r:.64}")
            return default
        return float(value)

    def _count(self, name: str, default: int, most: int) -> int:
        value = self._block.get(name, default)
        if isinstance(value, bool) or not isinstance(value, int) or not 0 < value <= most:
            self._add_fault((name,), f"{name} must be a whole number from 1 to {most}, not {value!r:.64}")
            return default
        return value


def header_name_faults(name: Any) -> Iterator[str]:
    """Yield why a declared header field cannot be sent."""
    if not isinstance(name, str) or _TOKEN.fullmatch(name) is None:
        yield " is not the name of a header field"
    elif name.lower() in _OWN_HEADERS:
        yield f": {name} is set by the host itself"


def url_faults(url: Any) -> Iterator[str]:
    """Yield the faults of an upstream's URL."""
    if not isinstance(url, str):
        yield "must be a text"
        return
    if url[:8].lower() != "https://":
        yield "must begin with https://"
        return
    if _URL.fullmatch(url) is None or "#" in url:
        yield f"{url[:128]!r} is not a plain https URL without user name, password and fragment"
        return
    try:
        parts = urlsplit(_PLACE.sub("x", url))
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        yield f"{url[:128]!r} is not a URL"
        return
    authority = url[8:].partition("/")[0].partition("?")[0]
    if "{" in authority or not _is_host(host):
        yield f"has the host {host[:64]!r}, which is neither a name nor an IP address"
    if "{" in _PLACE.sub("", url) or "}" in _PLACE.sub("", url):
        yield "has braces that are not of the form {name}"
    path, _, query = url[8 + len(authority) :].partition("?")
    if any(segment in (".", "..") for segment in path.split("/")):
        yield "has dot segments"
    for part in query.split("&") if query else ():
        if "{" in part.partition("=")[0]:
            yield "has a {name} in the name of a query field"


def _is_host(host: str) -> bool:
    """Return whether a host is an address, or a name that cannot be read as a number."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        labels = host.split(".")
        numeric = labels[-1].isdigit() or labels[-1].lower().startswith("0x")
        return len(host) <= 253 and not numeric and all(_LABEL.fullmatch(label) for label in labels)
    return True
