"""
OpenSSL's own functions, for what is done with every record of TLS: taking one in, and making one.

pyOpenSSL does the same, with a further buffer and a check for errors in every step. These functions return None for an
error; the caller then repeats the step with pyOpenSSL, which reports it. If a version of pyOpenSSL has other internals,
these functions are not used at all.
"""

from __future__ import annotations

from typing import Any

from cryptography.hazmat.bindings.openssl.binding import Binding

_lib: Any = Binding.lib
_ffi: Any = Binding.ffi
_buffer: Any = _ffi.new_allocator(should_clear_after_alloc=False)

MOST_CONTENT = 1 << 14
"""Octets that one record takes (RFC 8446 section 5.1)."""


class Records:
    """
    The records of one connection whose handshake is over. Built by :func:`records_of`.

    :param ssl: OpenSSL's connection.
    :param incoming: what it reads from, in memory.
    :param outgoing: what it writes to, in memory.
    """

    __slots__ = ("_incoming", "_outgoing", "_ssl")

    def __init__(self, ssl: Any, incoming: Any, outgoing: Any) -> None:
        self._ssl = ssl
        self._incoming = incoming
        self._outgoing = outgoing

    def content(self, record: bytes) -> bytes | None:
        """
        Take in one whole record.

        :return: what was in it; None where that is nothing for the protocol above, and may be an error.
        """
        size = len(record)
        if _lib.BIO_write(self._incoming, record, size) != size:
            raise MemoryError("OpenSSL has no room for a record")
        room = _buffer("char[]", size)
        got = _lib.SSL_read(self._ssl, room, size)
        return bytes(_ffi.buffer(room, got)) if got > 0 else None

    def contents(self, octets: bytes) -> bytes:
        """
        Take in octets that may hold several records, or parts of some.

        :return: what was in the records that are complete now; the caller asks pyOpenSSL why there is no more, which
            may be an error.
        """
        size = len(octets)
        if _lib.BIO_write(self._incoming, octets, size) != size:
            raise MemoryError("OpenSSL has no room for records")
        room, parts = _buffer("char[]", MOST_CONTENT), []
        filled = 0
        while (got := _lib.SSL_read(self._ssl, room + filled, MOST_CONTENT - filled)) > 0:
            filled += got
            if filled == MOST_CONTENT:
                parts.append(bytes(_ffi.buffer(room, filled)))
                filled = 0
        parts.append(bytes(_ffi.buffer(room, filled)))
        return b"".join(parts)

    def record(self, content: bytes, most: int) -> bytes | None:
        """
        Make a record.

        :param content: as much as fits one.
        :param most: octets of the result; the rest that is to be sent stays.
        :return: what is to be sent; None where nothing was made of ``content``.
        """
        if _lib.SSL_write(self._ssl, content, len(content)) <= 0:
            return None
        room = _buffer("char[]", most)
        got = _lib.BIO_read(self._outgoing, room, most)
        return bytes(_ffi.buffer(room, max(got, 0)))


def records_of(connection: Any) -> Records | None:
    """
    Return the records of a connection of pyOpenSSL's that reads and writes in memory; None where its parts are not
    known.

    :param connection: its handshake is over.
    """
    parts = [getattr(connection, name, None) for name in ("_ssl", "_into_ssl", "_from_ssl")]
    return None if None in parts else Records(*parts)
