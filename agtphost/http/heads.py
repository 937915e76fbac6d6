"""
Heads of requests that arrived whole, as nearly all do: read in one step instead of line by line.

What is read here is what Twisted would read line by line, in its names and values. A head that is anything else than
plainly well-formed is not read here at all: :class:`agtphost.http.channel.BoundedChannel` gives it to Twisted, which
refuses it, or takes it by rules that are none of this module's.
"""

from __future__ import annotations

import re
from itertools import islice
from typing import Any, NamedTuple

from twisted.web.http_headers import Headers, InvalidHeaderName

MOST_FIELDS = 100
"""Of one head."""

LONGEST_HEAD = 16_384
"""Octets, in all."""

REQUEST_LINE = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,32} [!-~]+ HTTP/1\.[01]")

LENGTH = re.compile(rb"[0-9]{1,12}")

_CODED = b"Transfer-Encoding"
_LENGTH_FIELD = b"Content-Length"

MOST_NAMES = 1024
"""Spellings of fields' names that are remembered: those of all clients together; one more is looked at again."""

LONGEST_NAME = 64
"""Octets of one that is remembered."""

_names: dict[bytes, bytes] = {}


class Fields(Headers):
    """The fields of one message, for readers and writers who know how Twisted spells their names."""

    __slots__ = ()

    @property
    def by_name(self) -> dict[bytes, list[bytes]]:
        """Their values, by names such as ``Content-Type``."""
        return self._rawHeaders

    def put(self, name: str, value: str) -> None:
        """One value, of one line: see :meth:`twisted.web.http_headers.Headers.setRawHeaders`."""
        octets = value.encode("utf-8")
        if b"\n" in octets or b"\r" in octets:
            self.setRawHeaders(name, [value])
        else:
            self._rawHeaders[spelled(name.encode("ascii"))] = [octets]

    def getRawHeaders(self, name: Any, default: Any = None) -> Any:
        """See :meth:`twisted.web.http_headers.Headers.getRawHeaders`: a name that is known is not looked at again."""
        known = _names.get(name)
        if known is None:
            if type(name) is not bytes:
                return super().getRawHeaders(name, default)
            known = spelled(name)
        return self._rawHeaders.get(known) or default


class Head(NamedTuple):
    """What a request says before its body."""

    method: bytes
    target: bytes
    version: bytes
    fields: dict[bytes, list[bytes]]
    """Values by name, as :class:`Fields` has them."""

    length: int
    """Of the body."""


def spelled(name: bytes) -> bytes:
    """
    How Twisted spells the name of a field.

    :raises twisted.web.http_headers.InvalidHeaderName: it is none.
    """
    known = _names.get(name)
    if known is None:
        one = Fields()
        one.addRawHeader(name, b"")
        (known,) = one.by_name
        if len(_names) < MOST_NAMES and len(name) <= LONGEST_NAME:
            _names[name] = known
    return known


def read(octets: bytes) -> Head | None:
    """
    The head that these octets are.

    :param octets: up to the empty line, without it.
    :return: None where they are to be read line by line.
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
            key = _names.get(name) or spelled(name)
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
    return Head(method, target, version, fields, 0 if said is None else int(said[0]))
