"""What the library does not check of a peer's transport parameters."""

from __future__ import annotations

from aioquic.buffer import Buffer  # type: ignore[attr-defined]
from aioquic.quic.connection import QuicConnectionError
from aioquic.quic.packet import QuicErrorCode, QuicFrameType


def refuse_duplicates(data: bytes) -> None:
    """
    Close the connection of a peer that names a transport parameter twice, unknown ones included (RFC 9000 section 7.4).

    The library takes the last one, and other readers of the same octets may take the first.

    :param data: parameters that the library could read.
    """
    found: set[int] = set()
    left = Buffer(data=data)
    while not left.eof():
        number = left.pull_uint_var()
        left.pull_bytes(left.pull_uint_var())
        if number in found:
            raise QuicConnectionError(
                error_code=QuicErrorCode.TRANSPORT_PARAMETER_ERROR,
                frame_type=QuicFrameType.CRYPTO,
                reason_phrase=f"transport parameter {number:#x} is named twice",
            )
        found.add(number)
