"""The answer to a datagram of another version of QUIC, of which only what all versions share is read (RFC 8999)."""

from __future__ import annotations

from aioquic.quic.packet import QuicProtocolVersion, encode_quic_version_negotiation

LEAST_INITIAL = 1200
"""Octets of a datagram that may begin a connection (RFC 9000 section 14.1)."""

_LONG_HEADER = 0x80
_VERSION, _IDS = slice(1, 5), 5
"""Where the version of a long header is, and the lengths and octets of its two connection IDs."""


def names_other_version(datagram: bytes) -> bool:
    """Return whether a datagram begins with a long header that names another version than ours, or none (0)."""
    is_long = len(datagram) > _IDS and datagram[0] & _LONG_HEADER
    return bool(is_long) and int.from_bytes(datagram[_VERSION], "big") != QuicProtocolVersion.VERSION_1


def read_connection_ids(datagram: bytes) -> tuple[bytes, bytes]:
    """
    Return the connection IDs of the destination and the source, which may have 255 octets in another version.

    :param datagram: of :data:`LEAST_INITIAL` octets at least, so that both are in it.
    """
    start = _IDS + 1
    middle = start + datagram[_IDS]
    return datagram[start:middle], datagram[middle + 1 : middle + 1 + datagram[middle]]


def encode_answer(datagram: bytes) -> bytes | None:
    """
    Return the datagram that names our version, which is less than half as long as the one that asks for it.

    :param datagram: one of which :func:`names_other_version` is true.
    :return: None for one that is too short to begin a connection, or an answer like this one (RFC 9000 section 6.1).
    """
    version = int.from_bytes(datagram[_VERSION], "big")
    if len(datagram) < LEAST_INITIAL or version == QuicProtocolVersion.NEGOTIATION:
        return None
    destination, source = read_connection_ids(datagram)
    return encode_quic_version_negotiation(
        source_cid=destination, destination_cid=source, supported_versions=[QuicProtocolVersion.VERSION_1]
    )
