"""The error codes of AGTP over QUIC, the alerts of TLS that end a handshake, and the limit of cancellations."""

from __future__ import annotations

from enum import IntEnum


class Code(IntEnum):
    """An application error code of this host: of streams and of connections."""

    DONE = 0x00
    """The stream or connection has done its work."""

    INTERNAL = 0x01
    """A fault of this side."""

    MISUSED = 0x02
    """A stream had more than one message."""

    CANCELLED = 0x03
    """The caller wants no answer any more."""

    LATE = 0x04
    """The peer was too slow."""

    TOO_MUCH = 0x05
    """The peer asked for too much: resets, moves, or octets that it did not read."""

    ENDING = 0x06
    """The host shuts down. A stream with this code was not processed, and any method may be repeated elsewhere."""


SHUTTING_DOWN = "the host shuts down"
"""
The reason phrase of QUIC's own CONNECTION_REFUSED (RFC 9000 section 20.1) where the host stops; without one a limit of
connections is reached.
"""

CRYPTO_ERROR = 0x100
"""A transport error code plus an alert of TLS (RFC 9001 section 4.8)."""

CRYPTO_FRAME = 0x06
"""The frame that a refused handshake is blamed on."""

CERTIFICATE_REQUIRED, CERTIFICATE_UNKNOWN = 116, 46
"""Alerts of TLS (RFC 8446 section 6.2)."""

MOST_RESETS, RESET_SECONDS = 100, 10.0
"""
Requests that a client may reset unanswered in so many seconds, before its connection is closed (rapid reset). Each
answer that it reads to the end makes up for one.
"""
