"""
A second reading of core v08 section 5.4.1, for comparison.

Slow, short, octet by octet, and sharing nothing with the host: no expression, no
table, no code. It judges complete heads only.
"""

from __future__ import annotations

from collections.abc import Callable

from tests.wire.case import Message

ALNUM = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
TCHAR = ALNUM + b"!#$%&'*+-.^_`|~"
PCHAR = ALNUM + b"-._~!$&'()*+,;=:@"
HEX = b"0123456789abcdefABCDEF"


class Illegal(Exception):
    """A rule is broken."""


def must(truth: object) -> None:
    """Illegal unless true."""
    if not truth:
        raise Illegal


def strict_length(value: bytes) -> int:
    """Content-Length as the rules have it."""
    must(value and all(octet in b"0123456789" for octet in value) and len(value) <= 10)
    must(value == b"0" or value[0] != ord("0"))
    return int(value)


def read(octets: bytes, length_of: Callable[[bytes], int] = strict_length) -> tuple[list[Message], str]:
    """
    The requests in ``octets``, and what follows them.

    :return: the verdict is ``complete``, ``refused``, or what is unfinished: ``header`` or ``body``.
    """
    messages: list[Message] = []
    while octets:
        head, end, rest = octets.partition(b"\r\n\r\n")
        if not end:
            return messages, "header"
        try:
            first, fields, length = read_head(head, length_of)
        except Illegal:
            return messages, "refused"
        if len(rest) < length:
            return messages, "body"
        messages.append(Message(first=first, fields=fields, body=rest[:length]))
        octets = rest[length:]
    return messages, "complete"


def read_head(
    head: bytes, length_of: Callable[[bytes], int]
) -> tuple[tuple[object, ...], tuple[tuple[str, str], ...], int]:
    """First line, fields and length of the body."""
    line, *lines = head.split(b"\r\n")
    must(len(line) <= 8192 and len(lines) <= 100)
    must(all(len(each) <= 8192 for each in lines) and sum(len(each) + 2 for each in lines) <= 32768)
    version, *tokens = line.split(b" ")
    must(version == b"AGTP/1.0" and len(tokens) in (1, 2))
    method, target = (*tokens, b"/")[:2]
    must(0 < len(method) <= 64 and all(octet in TCHAR and octet != ord("#") for octet in method))
    path, mark, query = target.partition(b"?")
    must(path[:1] == b"/" and path[:2] != b"//" and legal(path, PCHAR + b"/") and legal(query, PCHAR + b"/?"))
    fields = [field(each) for each in lines]
    names = [name.lower() for name, _ in fields]
    must(b"transfer-encoding" not in names)
    lengths = [value for name, value in fields if name.lower() == b"content-length"]
    must(len(lengths) == 1 or (not lengths and b"content-type" not in names))
    length = length_of(lengths[0]) if lengths else 0
    must(length <= 1 << 20)
    first = (method.decode(), path.decode(), query.decode() if mark else None)
    return first, tuple((name.decode(), value.decode()) for name, value in fields), length


def field(line: bytes) -> tuple[bytes, bytes]:
    """Name and value of a field line."""
    name, colon, value = line.partition(b":")
    must(colon and name and all(octet in TCHAR for octet in name))
    must(all(octet == 9 or 32 <= octet <= 126 for octet in value))
    return name, value.strip(b" \t")


def legal(text: bytes, plain: bytes) -> bool:
    """Whether ``text`` is made of octets of ``plain`` and escapes."""
    place = 0
    while place < len(text):
        if text[place] == ord("%") and len(text[place : place + 3]) == 3:
            if text[place + 1] not in HEX or text[place + 2] not in HEX:
                return False
            place += 3
        elif text[place] in plain:
            place += 1
        else:
            return False
    return True
