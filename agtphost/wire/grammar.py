"""
The syntax of single lines: core v08 section 5.4.1, RFC 3986 section 3, RFC 9110 and 9112 section 5.

Every expression is matched in full and spells its characters out: a class such
as ``\\d`` would take digits of other scripts, ``match`` a trailing newline.
Repetitions are possessive, so that no line makes them backtrack.

Lines come in decoded as Latin-1, one character an octet.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from agtphost.errors import RemoteProtocolError
from agtphost.vocabulary.reasons import Reason
from agtphost.wire.headers import Headers

VERSION: Final = "AGTP/1.0"

MAX_METHOD: Final = 64
"""Longest method token in octets; AGTP-API section 3.2 has none over 32. What is between is answered 459."""

VISIBLE_OCTETS: Final = bytes(range(0x21, 0x7F))
"""VCHAR: what is printed of ASCII, without the space."""

FIELD_OCTETS: Final = b"\t " + VISIBLE_OCTETS
"""
What a field value may hold: VCHAR, SP and HTAB.

RFC 9110 section 5.5 also allows obs-text (0x80 to 0xFF). We don't: these octets
have no agreed meaning, and identifiers are echoed.
"""

# token = 1*tchar (RFC 9110 section 5.6.2)
_TCHAR: Final = r"[!#$%&'*+\-.^_`|~0-9A-Za-z]"

# A method is a token; "#" is a tchar, but may stand nowhere on a request line.
_METHOD: Final = r"[!$%&'*+\-.^_`|~0-9A-Za-z]"

# pchar = unreserved / pct-encoded / sub-delims / ":" / "@" (RFC 3986 section 3.3)
_PCHAR: Final = r"A-Za-z0-9\-._~!$&'()*+,;=:@"
_ESCAPE: Final = r"%[0-9A-Fa-f]{2}"

# path-absolute = "/" [ segment-nz *( "/" segment ) ]
_PATH: Final = rf"/(?!/)[{_PCHAR}/]*+(?:{_ESCAPE}[{_PCHAR}/]*+)*+"

# query = *( pchar / "/" / "?" )
_QUERY: Final = rf"[{_PCHAR}/?]*+(?:{_ESCAPE}[{_PCHAR}/?]*+)*+"

_REQUEST_LINE: Final = re.compile(
    rf"AGTP/1\.0 ({_METHOD}{{1,{MAX_METHOD}}}+)(?: ({_PATH})(?:\?({_QUERY}))?)?", re.ASCII
)
_METHOD_TOKEN: Final = re.compile(rf"{_METHOD}++", re.ASCII)
_TARGET: Final = re.compile(rf"{_PATH}(?:\?{_QUERY})?", re.ASCII)

# response-line = agtp-version SP 3DIGIT SP *( VCHAR / SP / HTAB )
_RESPONSE_LINE: Final = re.compile(r"AGTP/1\.0 ([0-9]{3}) ([\t\x20-\x7e]*+)", re.ASCII)

_FIELD_NAME: Final = re.compile(rf"{_TCHAR}++", re.ASCII)

# Content-Length: "0", or digits without a leading zero; RFC 9110 section 8.6 says
# 1*DIGIT, but two spellings of one number are two readings of one message.
_LENGTH: Final = re.compile(r"0|[1-9][0-9]{0,9}", re.ASCII)

# The names of core v08 section 5.5 and its companions: never checked by regular expression, even when a peer has filled
# the rest of the table.
USUAL_NAMES: Final = (
    "AGTP-API-Version",
    "AGTP-Catalog-Warning",
    "AGTP-Endpoint-Warning",
    "Agent-ID",
    "Allow-RCNS",
    "Attestation-Evidence",
    "Attribution-Record",
    "Audit-ID",
    "Authority-Scope",
    "Authorization",
    "Budget-Limit",
    "Cart-Digest",
    "Content-Length",
    "Content-Type",
    "Continuation-Token",
    "Contract-Synthesized",
    "Cost-Estimate",
    "Delegation-Chain",
    "Idempotency-Key",
    "Intent-Assertion",
    "Merchant-ID",
    "Merchant-Manifest-Fingerprint",
    "Owner-ID",
    "Priority",
    "Request-ID",
    "Response-ID",
    "Retry-After",
    "Server-ID",
    "Session-ID",
    "Supported-Methods",
    "Task-ID",
    "Trust-Tier",
    "Trust-Warning",
    "User-Agent",
    "Verification-Path",
)

MAX_KNOWN_NAMES: Final = 512
"""Bound of the table of names already checked: about 100 KiB when peers fill it."""

_MAX_KNOWN_LENGTH: Final = 64

_known_names: dict[str, str] = {name: name.lower() for name in USUAL_NAMES} | {
    name.lower(): name.lower() for name in USUAL_NAMES
}


def field_key(name: str) -> str | None:
    """Return the lower-case form of ``name`` if it is a token (RFC 9110 section 5.1), else None."""
    key = _known_names.get(name)
    if key is None and _FIELD_NAME.fullmatch(name):
        key = name.lower()
        if len(_known_names) < MAX_KNOWN_NAMES and len(name) <= _MAX_KNOWN_LENGTH:
            _known_names[name] = key
    return key


def parse_request_line(line: str, *, strict: bool) -> tuple[str, str, str | None]:
    """
    Take a request line apart; ``line`` is without its CRLF.

    :param strict: whether a line of two tokens is refused instead of read as path ``/`` (design decision 2).
    :return: method, path and query; the last is None without a ``?``.
    :raises RemoteProtocolError: ``invalid-request-line``.
    """
    match = _REQUEST_LINE.fullmatch(line)
    if match is not None:
        method, path, query = match.groups()
        if path is not None:
            return method, path, query
        if not strict:
            return method, "/", None
    raise invalid_request_line(line)


def invalid_request_line(line: str) -> RemoteProtocolError:
    """Return the error that says what is wrong with a request line."""
    return RemoteProtocolError(Reason.INVALID_REQUEST_LINE, _fault_of_request_line(line))


def _fault_of_request_line(line: str) -> str:
    """Name the first rule that a malformed request line breaks, the most telling ones first."""
    if not line.startswith(VERSION + " "):
        return f"A request line starts with {VERSION} and one space."
    if "#" in line:
        return "A request line has no fragment ('#')."
    if not (line.isascii() and line.isprintable()):
        return "A request line holds visible ASCII characters and single spaces only."
    tokens = line.split(" ")
    if "" in tokens or len(tokens) > 3:
        return "A request line has three tokens with exactly one space between them."
    return fault_of_method(tokens[1]) or fault_of_target(*tokens[2:])


def fault_of_method(method: str) -> str:
    """Return why ``method`` cannot be a method token; empty if it can."""
    if not _METHOD_TOKEN.fullmatch(method):
        return "A method is a token of RFC 9110 section 5.6.2."
    if len(method) > MAX_METHOD:
        return f"A method has at most {MAX_METHOD} characters."
    return ""


def fault_of_target(target: str = "") -> str:
    """Return why ``target`` cannot be a request-target (core v08 section 5.4.1); empty if it can."""
    if not target:
        return "The request line has no request-target."
    if not target.startswith("/"):
        return "A request-target starts with a slash."
    if target.startswith("//"):
        return "The first segment of a path is not empty."
    if not _TARGET.fullmatch(target):
        return "A request-target holds the characters of RFC 3986 sections 3.3 and 3.4 only."
    return ""


def parse_response_line(line: str) -> tuple[int, str]:
    """
    Take a response line apart; ``line`` is without its CRLF.

    :return: the status code, and the text that nothing may depend on.
    :raises RemoteProtocolError: ``invalid-response-line``.
    """
    match = _RESPONSE_LINE.fullmatch(line)
    if match is None:
        raise invalid_response_line(line)
    return int(match[1]), match[2]


def invalid_response_line(_line: str) -> RemoteProtocolError:
    """Return the error for a malformed response line."""
    return RemoteProtocolError(
        Reason.INVALID_RESPONSE_LINE,
        f"A response line is {VERSION}, a space, three digits, a space and a text of printable ASCII.",
    )


def parse_fields(lines: Sequence[str]) -> Headers:
    """
    Read field lines, each without its CRLF and of :data:`FIELD_OCTETS` only.

    ``field-line = field-name ":" OWS field-value OWS`` (RFC 9112 section 5): no
    space before the colon, no line folding.

    :raises RemoteProtocolError: ``invalid-header-field``.
    """
    fields: list[tuple[str, str]] = []
    index: dict[str, str] = {}
    known, add = _known_names, fields.append
    for line in lines:
        name, colon, value = line.partition(":")
        key = known.get(name) or field_key(name)
        if key is None or not colon:
            raise _invalid_field(line)
        index[key] = value = value.strip(" \t")
        add((name, value))
    return Headers.from_index(fields, index) if len(index) == len(fields) else Headers(fields)


def _invalid_field(line: str) -> RemoteProtocolError:
    if line[0] in " \t":
        fault = "A field line is never folded: it does not start with white space."
    elif ":" not in line:
        fault = "A field line has a colon after the name."
    elif line.partition(":")[0].endswith((" ", "\t")):
        fault = "There must be no white space between a field name and its colon."
    else:
        fault = "A field name is a token of RFC 9110 section 5.6.2."
    return RemoteProtocolError(Reason.INVALID_HEADER_FIELD, fault)


def parse_content_length(value: str) -> int:
    """
    Read the value of the only Content-Length field: ``0``, or up to ten digits that do not start with a zero.

    :raises RemoteProtocolError: ``invalid-content-length``.
    """
    if not _LENGTH.fullmatch(value):
        raise RemoteProtocolError(
            Reason.INVALID_CONTENT_LENGTH, "Content-Length is 0, or at most ten digits without a leading zero."
        )
    return int(value)
