"""
The tokens by which clients prove their addresses, as a Retry asks them to (RFC 9000 section 8.1.2).

A client takes one Retry for a connection. So a host that is started again, and a standby that takes over, know the
tokens of the process before: otherwise a client that was asked just then would wait for its idle timeout.
"""

from __future__ import annotations

import hmac

from aioquic.quic.packet import QuicHeader

from agtphost.protocols.admission import canonical_address

LIFETIME = 30.0
"""Seconds for which a token counts."""

_PREFIX = b"agtp"
"""What tokens begin with: those of other servers do not (RFC 9000 section 8.1.1)."""

_KEY = b"key of the tokens by which clients of QUIC prove their addresses"
"""Longer than a connection ID, of which the same secret makes a token that strangers get to see."""

_TIME, _CODE = 8, 16
"""Octets of the time of issue, in milliseconds, and of the authentication code."""

_LONGEST = _TIME + 20
"""Octets of the time and of the longest connection ID (RFC 9000 section 17.2)."""


class StaleToken(Exception):
    """A token of a host that proves nothing: it is too old, or of another address, connection or secret."""


class RetryTokens:
    """
    Issues and reads tokens, which are the connection ID that a client chose first, and when it was asked.

    :param secret: the same in processes that take each other's tokens.
    """

    def __init__(self, secret: bytes) -> None:
        self._key = hmac.digest(secret, _KEY, "sha256")

    def issue(self, header: QuicHeader, addr: tuple[str, int], chosen: bytes, now: float) -> bytes:
        """
        Return the token for the client of a first packet.

        :param chosen: the connection ID that the client is to use.
        """
        body = int(now * 1000).to_bytes(_TIME, "big") + header.destination_cid
        return _PREFIX + body + self._authenticate(body, chosen, addr)

    def find_original(self, header: QuicHeader, addr: tuple[str, int], now: float) -> bytes | None:
        """
        Return the connection ID that a client chose before its Retry; None where it shows no token of a host.

        A token may be of another server that had this address, and is then as good as none (RFC 9000 section 8.1.3).

        :raises StaleToken: for a token of a host that does not count here: its client takes no second Retry.
        """
        token = header.token
        if not token.startswith(_PREFIX):
            return None
        body, code = token[len(_PREFIX) : -_CODE], token[-_CODE:]
        if len(body) > _LONGEST:
            raise StaleToken
        if not hmac.compare_digest(code, self._authenticate(body, header.destination_cid, addr)):
            raise StaleToken
        if abs(now - int.from_bytes(body[:_TIME], "big") / 1000) > LIFETIME:
            raise StaleToken
        return body[_TIME:]

    def _authenticate(self, body: bytes, chosen: bytes, addr: tuple[str, int]) -> bytes:
        place = f"{canonical_address(addr[0])} {addr[1]}".encode()
        return hmac.digest(self._key, bytes((len(body), len(chosen))) + body + chosen + place, "sha256")[:_CODE]
