"""
The format of an external service's HTTP request: body, header fields, and styles of single members.

The terms are OpenAPI's: ``style``, ``explode`` and ``contentType`` of the Encoding Object and the Parameter Object
(OpenAPI 3.1 sections 4.8.12 and 4.8.15).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

BODY_FORMATS = ("json", "form", "multipart", "raw")
"""Values of ``handler.body``."""

STYLES = ("form", "spaceDelimited", "pipeDelimited", "deepObject", "simple")
"""Values of ``handler.encoding.NAME.style``; ``simple`` is for header fields."""

ENCODING = ("style", "explode", "content_type", "file")
"""Members of ``handler.encoding.NAME``."""

CREDENTIAL_HEADERS = frozenset(
    {"authorization", "proxy-authorization", "cookie", "x-api-key", "api-key", "x-auth-token", "apikey"}
)
"""Header fields whose values are never written into a configuration file and never come from a caller."""

MAX_HEADER_VALUE = 4096
"""Characters of a header field's value from a caller; HTTP servers take 8 KiB for all fields."""

_RESERVED_INPUTS = frozenset(
    {"accept", "content-type", "content-encoding", "content-disposition", "user-agent", "forwarded", "via", "origin"}
    | {"set-cookie", "date", "referer", "x-real-ip", "traceparent", "tracestate", "baggage", "x-http-method-override"}
)
_RESERVED_PREFIXES = ("agtp-", "x-forwarded-", "proxy-", "sec-", "x-original-")
_MEDIA_RANGE = re.compile(r"[!#$%&'+.^_`|~0-9A-Za-z*-]{1,64}/[!#$%&'+.^_`|~0-9A-Za-z*-]{1,64}", re.ASCII)

Say = Callable[[tuple[str | int, ...], str, str], None]
"""Takes a location below ``handler``, a sentence, and a hint."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberEncoding:
    """The format of one input member."""

    style: str = ""
    """One of :data:`STYLES`; empty: lists repeat the field, objects are JSON text."""

    explode: bool = True
    """Whether items and members become separate fields; see OpenAPI's table of styles."""

    content_types: tuple[str, ...] = ()
    """Media types that a part of a multipart body may have; the first one without a wildcard is the default."""

    file: bool = False
    """Whether the value is octets: base64 text, or a table of ``data``, ``filename`` and ``content_type``."""


def header_input_fault(name: str) -> str | None:
    """Return why callers may not set a header field; None if they may."""
    lower = name.lower()
    if lower in CREDENTIAL_HEADERS:
        return "is a credential, which callers must not set"
    if lower in _RESERVED_INPUTS or lower.startswith(_RESERVED_PREFIXES):
        return "is set by the host or identifies the caller"
    return None


def read_body_format(block: Mapping[str, Any], say: Say) -> str:
    """Return the value of ``handler.body``; empty if the Content-Type among the headers decides."""
    given = block.get("body", "")
    if "body" in block and given not in BODY_FORMATS:
        say(("body",), f"body {str(given)[:32]!r} is not one of {', '.join(BODY_FORMATS)}", "")
        return ""
    return str(given)


def read_encodings(block: Mapping[str, Any], say: Say) -> dict[str, MemberEncoding]:
    """Return ``handler.encoding`` by our names of the input members."""
    given = block.get("encoding", {})
    if not isinstance(given, Mapping):
        say(("encoding",), "encoding must be a table", "write [handler.encoding.NAME]")
        return {}
    found: dict[str, MemberEncoding] = {}
    for name, table in given.items():
        faults = list(_encoding_faults(table))
        for fault in faults:
            say(("encoding", name), f"encoding.{name[:64]} {fault}", "")
        if not faults:
            style = table.get("style", "")
            types = table.get("content_type", "")
            found[name] = MemberEncoding(
                style=style,
                explode=table.get("explode", style in ("", "form", "deepObject")),
                content_types=tuple(part.strip().lower() for part in types.split(",") if part.strip()),
                file=table.get("file", False),
            )
    return found


def _encoding_faults(table: Any) -> Iterator[str]:
    if not isinstance(table, Mapping):
        yield "must be a table"
        return
    for name in table:
        if name not in ENCODING:
            yield f"has the unknown member {str(name)[:64]}; known members: {', '.join(ENCODING)}"
    if table.get("style", "form") not in STYLES:
        yield f"has a style that is not one of {', '.join(STYLES)}"
    for name in ("explode", "file"):
        if not isinstance(table.get(name, False), bool):
            yield (
                f"has an {name} that is not true or false"
                if name == "explode"
                else "has a file that is not true or false"
            )
    types = table.get("content_type", "a/b")
    if not isinstance(types, str) or not all(_MEDIA_RANGE.fullmatch(part.strip()) for part in types.split(",")):
        yield "has a content_type that is not a list of media types such as image/png, image/*"
