"""
Parse heads of requests that arrived completely, as nearly all do, in one step instead of line by line.

Names and values are as Twisted would read them line by line. A head that is not plainly well-formed is left to Twisted
by :class:`agtphost.http.channel.BoundedChannel`, which refuses it or takes it by its own rules.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import islice
from typing import Any, NamedTuple

from twisted.web.http_headers import Headers, InvalidHeaderName

MOST_FIELDS = 100
"""Fields of one head."""

LONGEST_HEAD = 16_384
"""Octets of one head."""

REQUEST_LINE = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,32} [!-~]+ HTTP/1\.[01]")

LENGTH = re.compile(rb"[0-9]{1,12}")

_CODED = b"Transfer-Encoding"
_LENGTH_FIELD = b"Content-Length"

MOST_NAMES = 1024
"""Spellings of field names that are cached for all clients; further ones are parsed each time."""

LONGEST_NAME = 64
"""Octets of a name that is cached."""

_names: dict[bytes, bytes] = {}


class SpelledHeaders(Headers):
    """The fields of a message, for code that uses Twisted's spelling of their names directly."""

    __slots__ = ()

    @property
    def by_name(self) -> dict[bytes, list[bytes]]:
        """Return the values by names such as ``Content-Type``."""
        return self._rawHeaders

    def put(self, name: str, value: str) -> None:
        """Set a single-line value: see :meth:`twisted.web.http_headers.Headers.setRawHeaders`."""
        octets = value.encode("utf-8")
        if b"\n" in octets or b"\r" in octets:
            self.setRawHeaders(name, [value])
        else:
            self._rawHeaders[spell_text(name)] = [octets]

    def getRawHeaders(self, name: Any, default: Any = None) -> Any:
        """
        Return the values of a field, by cached spelling: see :meth:`twisted.web.http_headers.Headers.getRawHeaders`.
        """
        known = _names.get(name)
        if known is None:
            if type(name) is not bytes:
                return super().getRawHeaders(name, default)
            known = spell_name(name)
        return self._rawHeaders.get(known) or default


class RequestHead(NamedTuple):
    """The head of a request."""

    method: bytes
    target: bytes
    version: bytes
    fields: dict[bytes, list[bytes]]
    """Values by name, as in :class:`SpelledHeaders`."""

    length: int
    """The length of the body."""

    repeats: bool
    """Whether a field occurs more than once."""


def spell_name(name: bytes) -> bytes:
    """
    Return the name of a field in Twisted's spelling.

    :raises twisted.web.http_headers.InvalidHeaderName: the name is invalid.
    """
    known = _names.get(name)
    if known is None:
        one = SpelledHeaders()
        one.addRawHeader(name, b"")
        (known,) = one.by_name
        if len(_names) < MOST_NAMES and len(name) <= LONGEST_NAME:
            _names[name] = known
    return known


@lru_cache(MOST_NAMES)
def spell_text(name: str) -> bytes:
    """Return the name of a field, given as text, in Twisted's spelling; cached, as the host names few fields."""
    return spell_name(name.encode("ascii"))


def read(octets: bytes) -> RequestHead | None:
    """
    Return the head in these octets.

    :param octets: up to the empty line, without it.
    :return: None if Twisted has to parse them line by line.
    """
    lines = octets.split(b"\r\n")
    ends = len(lines) - 1
    first = lines[0]
    if ends > MOST_FIELDS or octets.count(b"\n") != ends or octets.count(b"\r") != ends or b"\0" in octets:
        return None
    if REQUEST_LINE.fullmatch(first) is None:
        return None
    fields: dict[bytes, list[bytes]] = {}
    try:
        for line in islice(lines, 1, None):
            name, colon, value = line.partition(b":")
            if not colon:
                return None
            key = _names.get(name) or spell_name(name)
            if key in fields:
                fields[key].append(value.strip(b" \t"))
            else:
                fields[key] = [value.strip(b" \t")]
    except InvalidHeaderName:
        return None
    if _CODED in fields:
        return None
    said = fields.get(_LENGTH_FIELD)
    if said is not None and (len(said) > 1 or LENGTH.fullmatch(said[0]) is None):
        return None
    method, target, version = first.split(b" ")
    length = 0 if said is None else int(said[0])
    return RequestHead(method, target, version, fields, length, len(fields) < ends)
