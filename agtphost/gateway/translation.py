"""
Translate between HTTP and AGTP, for the gateway: requests to AGTP, answers to HTTP.

This module does no I/O. Only these parts of a request are forwarded: its method, its target as it was sent,
its body, and the fields of :data:`FORWARDED`. The caller is never among them: the client's proof decides that. AGIS v01
section 6 defines the fields that name another method than HTTP's.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from agtphost.contract.carried_call import ToolAddress
from agtphost.errors import Refusal
from agtphost.gateway import tool_calls
from agtphost.http.request_heads import spell_text
from agtphost.http.status import FIELD, over_http
from agtphost.vocabulary import jsontext, media_types
from agtphost.vocabulary.catalog import Catalog
from agtphost.vocabulary.reasons import Reason
from agtphost.vocabulary.status import phrase_of
from agtphost.vocabulary.tool_paths import is_tool_path
from agtphost.wire import grammar
from agtphost.wire.events import Request, Response
from agtphost.wire.headers import Headers

Fields = tuple[tuple[str, str], ...]

Values = Callable[[bytes], Sequence[bytes] | None]
"""Returns all values of an HTTP field, by its name as :func:`agtphost.http.request_heads.spell_name` spells it."""

FORWARDED: Mapping[bytes, str] = MappingProxyType(
    {
        spell_text(name): name
        for name in (
            *("Content-Type", "Idempotency-Key", "Request-ID", "Task-ID", "Session-ID"),
            *("Budget-Limit", "AGTP-Catalog-Version", "If-None-Match", "Accept"),
        )
    }
)
"""Fields of every request that are forwarded, in addition to its trace, which :mod:`agtphost.http.clients` reads."""

FORWARDED_CERTIFIED: Mapping[bytes, str] = MappingProxyType(
    {**FORWARDED, spell_text("Authority-Scope"): "Authority-Scope"}
)
"""Fields forwarded for a client with a certificate: like a client of AGTP it states its own claims."""

_HOP = frozenset(
    (
        *("connection", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade"),
        *("content-length", "agtp-status", "date", "server", "allow", "www-authenticate"),
    )
)
"""Fields of an answer that belong to HTTP: about this connection, or set here."""

HTTP_ONLY_METHODS = frozenset({"TRACE", "CONNECT"})
"""Methods that concern HTTP itself."""

OPTIONS = "OPTIONS"
"""The method that asks for the methods of a path; it calls nothing."""

CARRIER = "POST"
"""The HTTP method by which ``X-AGIS-Method`` may name any method, at every path."""

GRAMMAR = "agis/1.0"

_METHOD, _GRAMMAR, _NAMESPACE = map(spell_text, ("X-AGIS-Method", "X-AGIS-Grammar", "X-AGIS-Namespace"))

_FORM = "application/x-www-form-urlencoded"
_BEARER = ("WWW-Authenticate", "Bearer")
_NO_STORE = ("Cache-Control", "no-store")
_READ = ("Accept", ", ".join((media_types.AGTP_JSON, media_types.JSON)))


@dataclass(frozen=True, kw_only=True)
class TranslationRules:
    """The settings of a translation, from the operator and the host's vocabulary."""

    catalog: Catalog
    forward: Mapping[bytes, str] = field(default_factory=dict)
    """Further fields to forward, by name as in :data:`Values`."""

    namespaces: frozenset[str] = frozenset()
    """Accepted values of ``X-AGIS-Namespace``, in lower case."""

    aliases: Mapping[str, str] = field(default_factory=dict)
    """HTTP methods, and the AGTP method for each."""

    tools: tool_calls.AddressFinder | None = None
    """Returns the addresses of hosted tools; None where they have no paths."""

    registered: Callable[[str], Collection[str]] = lambda path: ()
    """Returns the methods that endpoints have at a path."""

    described: Callable[[str], Sequence[str]] = lambda path: ()
    """Returns the HTTP methods by which the OpenAPI document describes a path, in lower case."""

    longest_line: int = 8192
    """Octets of the AGTP request line, as for AGTP's own clients."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TranslatedRequest:
    """A translated request."""

    request: Request
    forwarded: Mapping[str, str] = field(default_factory=dict)
    """The operator's further fields that it has."""


class UntranslatableRequest(Exception):
    """
    A request that cannot be translated to AGTP.

    :param line: its AGTP request line, as far as it has one.
    """

    def __init__(self, reason: Reason, explanation: str, line: bytes) -> None:
        super().__init__(explanation)
        self.reason, self.explanation, self.line = reason, explanation, line


class RefusedRequest(Exception):
    """
    A request that is understood, but refused before it is translated.

    :param request: its method, path and line, and the fields that say who calls.
    """

    def __init__(self, refusal: Refusal, request: Request) -> None:
        super().__init__(refusal.explanation)
        self.refusal, self.request = refusal, request


def read(
    method: str, target: str, values: Values, body: bytes, own: Fields, rules: TranslationRules, *, certified: bool
) -> TranslatedRequest:
    """
    Translate an HTTP request to AGTP.

    :param target: the path and the query, as they were sent.
    :param own: the fields that say who calls.
    :param certified: whether a certificate proves the caller.
    :raises UntranslatableRequest: it cannot be translated.
    :raises RefusedRequest: it is refused here.
    """
    verb = "GET" if method == "HEAD" else method
    named = None if method == OPTIONS else values(_METHOD)
    if method != OPTIONS:
        _check_agis_fields(verb, values, rules)
    if named is not None:
        verb = _value("X-AGIS-Method", named, f"AGTP/1.0 {verb}\r\n".encode())
    line = f"AGTP/1.0 {verb} {target}\r\n".encode("latin-1", "replace")
    fault = grammar.fault_of_method(verb) or grammar.fault_of_target(target)
    if fault:
        raise UntranslatableRequest(Reason.INVALID_REQUEST_LINE, fault, line)
    if len(line) - 2 > rules.longest_line:
        most = f"The request line is longer than the {rules.longest_line} octets that this host accepts."
        raise UntranslatableRequest(Reason.REQUEST_LINE_TOO_LARGE, most, line)
    path, mark, query = target.partition("?")
    if named is None and values(_GRAMMAR) is not None:
        _require_plain_method(verb, path, line, rules)
    if method == OPTIONS:
        raise RefusedRequest(_name_methods(path, rules), _bare_request(verb, path, own, line))
    if named is not None and method != CARRIER:
        _require_carrier(method, verb, path, own, line, rules)
    tool = None
    if verb == tool_calls.VERB and rules.tools is not None:
        tool = tool_calls.address_of(path, rules.tools)
        if tool is not None and mark:
            fault = "A tool call has no query; send the arguments in the body."
            raise UntranslatableRequest(Reason.INVALID_QUERY, fault, line)
    elif named is None and rules.tools is not None:
        try:
            tool_calls.check_verb(verb, path, rules.registered)
        except Refusal as refusal:
            raise RefusedRequest(refusal, _bare_request(verb, path, own, line)) from None
    fields = list(own)
    for name, spelled in (FORWARDED_CERTIFIED if certified else FORWARDED).items():
        given = values(name)
        if given is not None:
            fields.append((spelled, _value(spelled, given, line)))
    forwarded: dict[str, str] = {}
    for name, spelled in rules.forward.items():
        given = values(name)
        if given is not None:
            forwarded[spelled] = value = _value(spelled, given, line)
            fields.append((spelled, value))
    if body:
        _correct_type(fields, body)
    if tool is not None:
        request = _tool_request(tool, fields, body)
    else:
        headers = Headers(fields)
        request = Request(method=verb, path=path, query=query if mark else None, headers=headers, body=body, line=line)
    return TranslatedRequest(request=request, forwarded=forwarded)


def _bare_request(verb: str, path: str, own: Fields, line: bytes) -> Request:
    """Return the part of a refused request that its record names."""
    return Request(method=verb, path=path, headers=Headers(list(own)), line=line)


def _name_methods(path: str, rules: TranslationRules) -> Refusal:
    """Return the refusal of OPTIONS, whose ``Allow`` names the HTTP methods of the path (RFC 9110 section 9.3.7)."""
    methods = _described_methods(path, rules)
    if rules.tools is not None and not rules.registered(path) and is_tool_path(path):
        methods = [tool_calls.VERB]
    if not methods:
        return Refusal(
            Reason.NOT_FOUND,
            "Nothing is registered under that path.",
            remedy="DISCOVER /methods lists what can be called.",
            details={"path": path},
        )
    return Refusal(
        Reason.METHOD_NOT_ALLOWED,
        "OPTIONS calls nothing; Allow names the HTTP methods of this path.",
        remedy="Use one of the methods in Allow, as the OpenAPI document describes them.",
        details={"method": OPTIONS, "path": path, "allowed_methods_for_path": methods, "redirects_for_path": {}},
    )


def _described_methods(path: str, rules: TranslationRules) -> list[str]:
    """Return the HTTP methods by which the OpenAPI document describes a path, and HEAD with GET."""
    methods = [verb.upper() for verb in rules.described(path)]
    if "GET" in methods:
        methods.insert(methods.index("GET") + 1, "HEAD")
    return methods


def _require_carrier(method: str, verb: str, path: str, own: Fields, line: bytes, rules: TranslationRules) -> None:
    """
    Refuse an HTTP method other than POST that does not carry the method that ``X-AGIS-Method`` names.

    HTTP's method governs transport (AGIS v01 section 10.2): clients and proxies may repeat PUT, DELETE and QUERY,
    because HTTP calls them idempotent. A path carries by the methods that its OpenAPI document has.
    """
    methods = _described_methods(path, rules)
    if methods and method not in methods:
        refusal = Refusal(
            Reason.METHOD_NOT_ALLOWED,
            f"{method} carries no other method at this path; Allow names the HTTP methods that do.",
            remedy=f"Send X-AGIS-Method: {verb} by one of the methods in Allow.",
            details={
                "method": method,
                "path": path,
                "allowed_methods_for_path": methods if CARRIER in methods else [*methods, CARRIER],
                "redirects_for_path": {},
            },
        )
        raise RefusedRequest(refusal, _bare_request(verb, path, own, line))
    if method in ("GET", "HEAD") and not rules.catalog.reads(verb):
        fault = f"GET and HEAD only read, but {verb[:32]} changes state or is unknown: send it by POST."
        raise UntranslatableRequest(Reason.INVALID_HEADER_FIELD, fault, line)


def _tool_request(tool: ToolAddress, fields: list[tuple[str, str]], arguments: bytes) -> Request:
    """Return the EXECUTE of the tool that the path names."""
    body, enclosed = tool_calls.enclose_arguments(tool.call, arguments)
    if not arguments:
        fields = [*(each for each in fields if each[0] != "Content-Type"), ("Content-Type", media_types.JSON)]
    return Request(
        method="EXECUTE",
        path=tool.path,
        headers=Headers(fields),
        body=body,
        line=f"AGTP/1.0 EXECUTE {tool.path}\r\n".encode("latin-1", "replace"),
        enclosed=enclosed,
    )


def _value(name: str, given: Sequence[bytes], line: bytes) -> str:
    if len(given) > 1:
        raise UntranslatableRequest(Reason.REPEATED_HEADER, f"The field {name} occurs twice; send it once.", line)
    value = given[0]
    if value.translate(None, grammar.FIELD_OCTETS):
        fault = f"{name} has octets that AGTP does not allow in fields: send visible ASCII, spaces and tabs only."
        raise UntranslatableRequest(Reason.INVALID_HEADER_FIELD, fault, line)
    return value.decode("ascii").strip(" \t")


def _correct_type(fields: list[tuple[str, str]], body: bytes) -> None:
    """
    Correct the type of a JSON body sent as a form, which ``curl -d`` and similar clients do; no form begins with a
    brace.

    Foreign pages that post forms are refused before this, by :meth:`agtphost.http.mounts.Mount.is_foreign`.
    """
    for place, (name, value) in enumerate(fields):
        if name == "Content-Type" and value.lower() == _FORM and body.lstrip()[:1] == b"{":
            fields[place] = (name, media_types.JSON)


def _check_agis_fields(verb: str, values: Values, rules: TranslationRules) -> None:
    """Refuse another grammar, or a namespace that is not this host's; both count without ``X-AGIS-Method``, too."""
    line = f"AGTP/1.0 {verb}\r\n".encode()
    said = values(_GRAMMAR)
    if said is not None and [each.strip().lower() for each in said] != [GRAMMAR.encode()]:
        fault = "X-AGIS-Method is read here by X-AGIS-Grammar: AGIS/1.0; send that value once, or omit the field."
        raise UntranslatableRequest(Reason.INVALID_HEADER_FIELD, fault, line)
    space = values(_NAMESPACE)
    if space is not None:
        namespace = _value("X-AGIS-Namespace", space, line)
        if namespace.lower() not in rules.namespaces:
            here = ", ".join(sorted(rules.namespaces)) or "none"
            fault = f"X-AGIS-Namespace {namespace[:64]} is not a namespace of this host; use: {here}."
            raise UntranslatableRequest(Reason.INVALID_HEADER_FIELD, fault, line)


def _require_plain_method(verb: str, path: str, line: bytes, rules: TranslationRules) -> None:
    """
    Refuse ``X-AGIS-Grammar`` without a method at a path whose endpoints the HTTP method alone does not call.

    A path where it calls one may share it with others, which ``X-AGIS-Method`` names; there the field is optional.
    """
    bound = rules.registered(path)
    if bound and rules.aliases.get(verb, verb) not in bound and verb != OPTIONS:
        fault = f"X-AGIS-Grammar is for X-AGIS-Method, which is missing; at this path it is {', '.join(bound)}."
        raise UntranslatableRequest(Reason.INVALID_HEADER_FIELD, fault, line)


def answer(response: Response, rules: TranslationRules) -> tuple[int, list[tuple[str, str]]]:
    """
    Return the status and the fields of the HTTP response that carries an AGTP response; the body is the same.

    AGTP fields keep their names. ``AGTP-Status`` has the AGTP status, since the HTTP status may differ.
    """
    status = response.status
    fields = [(FIELD, agtp_status(status, response.text))]
    cached = False
    for name, value in response.headers:
        key = name.lower()
        if key not in _HOP:
            cached = cached or key == "cache-control"
            fields.append((name, value))
    if not cached:
        fields.append(_NO_STORE)
    if status == 401:
        fields.append(_BEARER)
    elif status == 405:
        fields.append(("Allow", ", ".join(allowed_methods(response.body, rules.aliases))))
    elif status == 400 and _is_of_unread_type(response.body):
        return 415, [*fields, _READ]
    return over_http(status), fields


def _is_of_unread_type(body: bytes) -> bool:
    """Return whether a refusal is that of a request body whose type is not read, which HTTP calls 415."""
    try:
        told = jsontext.decode(body)
    except jsontext.JSONTextError:
        return False
    return isinstance(told, dict) and told.get("reason") == Reason.UNSUPPORTED_MEDIA_TYPE


def agtp_status(status: int, text: str = "") -> str:
    """Return the value of ``AGTP-Status``."""
    return f"{status} {text or phrase_of(status)}"


def allowed_methods(body: bytes, aliases: Mapping[str, str]) -> list[str]:
    """Return the methods for ``Allow``: HTTP methods of those that a 405 names, then these themselves."""
    try:
        told = jsontext.decode(body)
    except jsontext.JSONTextError:
        return []
    named = told.get("allowed_methods_for_path") if isinstance(told, dict) else None
    methods = [each for each in named if isinstance(each, str)] if isinstance(named, list) else []
    verbs = [verb for verb, target in aliases.items() if target in methods and verb not in methods]
    if "GET" in verbs:
        verbs.insert(verbs.index("GET") + 1, "HEAD")
    return [*verbs, *methods]
