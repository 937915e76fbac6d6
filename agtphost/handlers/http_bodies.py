"""
Form fields, multipart parts and header values made of JSON values (OpenAPI 3.1 sections 4.8.12 and 4.8.15).

No value of a caller can begin another field, part or line:
names and file names are escaped as browsers do (WHATWG HTML, multipart form
data), a boundary is 128 random bits, and a header value is one printable line.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from secrets import token_hex
from typing import Any

from agtphost.contract.request_format import MAX_HEADER_VALUE, MemberEncoding
from agtphost.errors import Refusal
from agtphost.vocabulary import jsontext
from agtphost.vocabulary.paths import CONTROL
from agtphost.vocabulary.reasons import Reason

OCTETS = "application/octet-stream"
PLAIN = MemberEncoding()

MAX_DEPTH = 32
"""Objects and lists inside each other in a deepObject field."""

_MEDIA_TYPE = re.compile(r"[!#$%&'+.^_`|~0-9A-Za-z-]{1,64}/[!#$%&'+.^_`|~0-9A-Za-z-]{1,64}", re.ASCII)
_ESCAPED = {"\r": "%0D", "\n": "%0A", '"': "%22"}

Encodings = Mapping[str, MemberEncoding]


def unsendable(why: str) -> Refusal:
    """Return the refusal of an input that passed its schema and cannot be sent."""
    return Refusal(
        Reason.INVALID_INPUT, f"The input cannot be sent to the upstream: {why}.", remedy="Send another value."
    )


def to_text(value: Any) -> str:
    """Return text as it is, null as nothing, and anything else as JSON."""
    if isinstance(value, str):
        return value
    return "" if value is None else jsontext.encode(value).decode("utf-8")


# Fields


def form_pairs(name: str, value: Any, encoding: MemberEncoding = PLAIN) -> Iterator[tuple[str, str]]:
    """
    Return the fields that one member becomes in a query or a form; null becomes none.

    :param name: the upstream's.
    """
    if value is None:
        return
    if encoding.style == "deepObject":
        yield from _deep_pairs(name, value, 0)
    elif not encoding.style and any("json" in kind for kind in encoding.content_types):
        yield name, jsontext.encode(value).decode("utf-8")
    elif isinstance(value, list):
        items = [to_text(item) for item in value if item is not None]
        if encoding.explode or encoding.style == "":
            yield from ((name, item) for item in items)
        elif items:
            yield name, _join(name, items, _SEPARATORS.get(encoding.style, ","))
    elif isinstance(value, dict) and encoding.style:
        members = [(inner, to_text(item)) for inner, item in value.items() if item is not None]
        if encoding.explode:
            yield from members
        elif members:
            yield name, _join(name, [text for pair in members for text in pair], _SEPARATORS.get(encoding.style, ","))
    else:
        yield name, to_text(value)


_SEPARATORS = {"spaceDelimited": " ", "pipeDelimited": "|"}


def _join(name: str, items: Sequence[str], separator: str) -> str:
    """
    Return the items of a list as one value.

    :raises agtphost.errors.Refusal: 422 where an item has the separator in it: the service would read more items than
        the schema allowed.
    """
    wrong = next((item for item in items if separator in item), None)
    if wrong is not None:
        raise unsendable(f"{name} is sent as items with {separator!r} between them, and {wrong[:64]!r} has one in it")
    return separator.join(items)


def _deep_pairs(name: str, value: Any, depth: int) -> Iterator[tuple[str, str]]:
    """``name[member]``, and ``name[0]`` for lists, which OpenAPI leaves open and form APIs with nested values take."""
    if depth > MAX_DEPTH:
        raise unsendable(f"a value is nested more than {MAX_DEPTH} deep")
    if isinstance(value, dict):
        for inner, item in value.items():
            yield from _deep_pairs(f"{name}[{inner}]", item, depth + 1)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _deep_pairs(f"{name}[{index}]", item, depth + 1)
    elif value is not None:
        yield name, to_text(value)


def header_value(name: str, value: Any, encoding: MemberEncoding = PLAIN) -> str | None:
    """
    Return a header field's value in OpenAPI's style ``simple``; None where there is none.

    :raises agtphost.errors.Refusal: 422 where it is not one printable line of ASCII.
    """
    if value is None:
        return None
    if isinstance(value, list):
        text = _join(name, [to_text(item) for item in value if item is not None], ",")
    elif isinstance(value, dict):
        sign = "=" if encoding.style and encoding.explode else ","
        text = ",".join(f"{inner}{sign}{to_text(item)}" for inner, item in value.items() if item is not None)
    else:
        text = to_text(value)
    if not text.isascii() or not text.isprintable() or text != text.strip():
        raise unsendable(f"{name} is sent in a header field, and is not one printable line of ASCII")
    if len(text) > MAX_HEADER_VALUE:
        raise unsendable(f"{name} is sent in a header field, and has more than {MAX_HEADER_VALUE} characters")
    return text


def check_exploded(
    members: Mapping[str, Any], names: Mapping[str, str], encodings: Encodings, fixed: Collection[str] = ()
) -> None:
    """
    Refuse an object whose members become separate fields, where one has the name of another field.

    A caller would otherwise add a second value to a field of the operator's, or to one that its schema bounds.

    :param members: by our names; all those of one query or one body.
    :param names: our names to the upstream's.
    :param fixed: names of fields that the operator has written.
    :raises agtphost.errors.Refusal: 422.
    """
    styles = {name: encodings.get(name, PLAIN) for name in members}
    exploded = {
        name: value
        for name, value in members.items()
        if isinstance(value, dict) and styles[name].explode and styles[name].style not in ("", "deepObject")
    }
    seen = {*fixed, *(names.get(name, name) for name in members if name not in exploded)}
    for name, value in exploded.items():
        if twice := sorted(seen & value.keys()):
            raise unsendable(f"{name} has the member {twice[0][:64]!r}, which is a field of the request already")
        seen |= value.keys()


# Files


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """Octets that a caller uploads."""

    data: bytes
    filename: str
    content_type: str


def read_file(name: str, value: Any, encoding: MemberEncoding) -> File:
    """
    Return the file of an input member.

    :param value: base64 text, or an object of ``data`` and perhaps ``filename`` and ``content_type``.
    :raises agtphost.errors.Refusal: 422 for text that is not base64, and for a media type that is not one of those
        declared.
    """
    given = value if isinstance(value, dict) else {"data": value}
    data, filename, kind = given.get("data"), given.get("filename"), given.get("content_type")
    if not isinstance(data, str):
        raise unsendable(f"{name} is a file, and has no data in base64")
    try:
        octets = base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        raise unsendable(f"{name} is a file, and its data is not base64") from None
    if filename is not None and (not isinstance(filename, str) or CONTROL.search(filename) or len(filename) > 255):
        raise unsendable(f"{name} has a filename that is not one line of at most 255 characters")
    if kind is None:
        kind = next((each for each in encoding.content_types if "*" not in each), OCTETS)
    if not isinstance(kind, str) or _MEDIA_TYPE.fullmatch(kind) is None:
        raise unsendable(f"{name} has a content_type that is not a media type")
    if not _is_declared(kind.lower(), encoding.content_types):
        raise unsendable(f"{name} has a content_type that is not one of {', '.join(encoding.content_types)}")
    return File(data=octets, filename=filename or name, content_type=kind)


def _is_declared(kind: str, ranges: tuple[str, ...]) -> bool:
    main = kind.partition("/")[0]
    return not ranges or any(each in ("*/*", f"{main}/*", kind) for each in ranges)


# Multipart


def encode_multipart(members: Mapping[str, Any], names: Mapping[str, str], encodings: Encodings) -> tuple[str, bytes]:
    """
    Return the Content-Type and the body of a ``multipart/form-data`` request.

    :param members: by our names.
    :param names: our names to the upstream's.
    """
    check_exploded(members, names, encodings)
    boundary = f"agtp-{token_hex(16)}"
    pieces: list[bytes] = []
    for name, value in members.items():
        encoding = encodings.get(name, PLAIN)
        for head, octets in _parts(names.get(name, name), name, value, encoding):
            pieces += [f"--{boundary}\r\n{head}\r\n\r\n".encode(), octets, b"\r\n"]
    pieces.append(f"--{boundary}--\r\n".encode("ascii"))
    return f"multipart/form-data; boundary={boundary}", b"".join(pieces)


def _parts(theirs: str, ours: str, value: Any, encoding: MemberEncoding) -> Iterator[tuple[str, bytes]]:
    """Head and octets of each part of one member."""
    if encoding.file:
        for item in value if isinstance(value, list) else () if value is None else (value,):
            found = read_file(ours, item, encoding)
            where = f'{_disposition(theirs)}; filename="{_escape(found.filename)}"'
            yield f"{where}\r\nContent-Type: {found.content_type}", found.data
    elif encoding.style:
        yield from ((_disposition(name), text.encode()) for name, text in form_pairs(theirs, value, encoding))
    else:
        declared = next((each for each in encoding.content_types if "*" not in each), "")
        whole = isinstance(value, list) and "json" in declared
        for item in value if isinstance(value, list) and not whole else (value,):
            if item is None:
                continue
            kind = declared or ("application/json" if isinstance(item, (dict, list)) else "")
            text = jsontext.encode(item) if "json" in kind else to_text(item).encode()
            yield _disposition(theirs) + (f"\r\nContent-Type: {kind}" if kind else ""), text


def _disposition(name: str) -> str:
    return f'Content-Disposition: form-data; name="{_escape(name)}"'


def _escape(name: str) -> str:
    return "".join(_ESCAPED.get(char, char) for char in name)
