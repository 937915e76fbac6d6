"""The tokens by which clients prove their addresses, as a Retry asks them to (RFC 9000 section 8.1.2)."""

from __future__ import annotations

from aioquic.quic.packet import QuicHeader
from aioquic.quic.retry import NONCE_LENGTH, QuicRetryTokenHandler
from cryptography.exceptions import InvalidTag


class StaleToken(Exception):
    """A token of ours that proves nothing: it is too old, or of another address or connection."""


class RetryTokens:
    """Issues and reads tokens; they are good for 30 seconds, and until the process ends."""

    def __init__(self) -> None:
        self._handler = QuicRetryTokenHandler()

    def issue(self, header: QuicHeader, addr: tuple[str, int], chosen: bytes, now: float) -> bytes:
        """
        Return the token for the client of a first packet.

        :param chosen: the connection ID that the client is to use.
        """
        return self._handler.create_token(
            address=addr,
            original_destination_connection_id=header.destination_cid,
            retry_source_connection_id=chosen,
            now=now,
        )

    def find_original(self, header: QuicHeader, addr: tuple[str, int], now: float) -> bytes | None:
        """
        Return the connection ID that a client chose before its Retry; None where it shows no token of ours.

        A token may be of another server that had this address, and is then as good as none (RFC 9000 section 8.1.3).

        :raises StaleToken: for a token of ours that does not hold: its client takes no second Retry.
        """
        if len(header.token) < NONCE_LENGTH:
            return None
        try:
            return self._handler.validate_token(
                address=addr, destination_cid=header.destination_cid, token=header.token, now=now
            )
        except ValueError as error:
            if isinstance(error.__cause__, InvalidTag):
                return None
            raise StaleToken from error
