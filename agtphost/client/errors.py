"""
What can go wrong on the client's side of a call, and what to do about it.

A response, whatever its status, is no error: it is a :class:`~agtphost.client.reply.Reply`.
These are the calls that got none. Texts of the peer appear in messages only
with their control characters escaped.
"""

from __future__ import annotations

__all__ = [
    "AgentGone",
    "CannotConnect",
    "CatalogMismatch",
    "ClientError",
    "ConnectionLost",
    "InvalidCall",
    "ProtocolBroken",
    "TLSRefused",
    "Timeout",
    "VerificationFailed",
]


class ClientError(Exception):
    """
    A call without a usable answer.

    :param explanation: one sentence: what happened.
    :param remedy: one sentence: what to do about it; may be empty.
    """

    def __init__(self, explanation: str, remedy: str = "") -> None:
        super().__init__(f"{explanation} {remedy}".rstrip())
        self.explanation = explanation
        self.remedy = remedy


class InvalidCall(ClientError):
    """The call itself is wrong; nothing was sent."""


class CannotConnect(ClientError):
    """No connection came about; nothing was sent."""


class TLSRefused(ClientError):
    """
    One side refused the other's TLS version, certificate or name: core v08 section 10.1.

    No request was answered. If it was this client that refused, none was sent.
    """


class Timeout(ClientError):
    """The time for the call ran out; if a request was sent, whether it was carried out is unknown."""


class ConnectionLost(ClientError):
    """
    The connection ended before the answer was complete; whether the request was carried out is unknown.

    :param answered: whether any octet of an answer had arrived.
    """

    def __init__(self, explanation: str, remedy: str = "", *, answered: bool) -> None:
        super().__init__(explanation, remedy)
        self.answered = answered


class ProtocolBroken(ClientError):
    """The server's octets are not AGTP: core v08 section 5.4.1."""


class AgentGone(ClientError):
    """The Agent-ID was answered with 410 before; it is not called again: core v08 section 5.6."""


class CatalogMismatch(ClientError):
    """
    Client and server have no version of the method catalog in common: AGTP-API section 4.6.

    :param preferred: the client's version.
    :param supported: the server's.
    """

    def __init__(self, explanation: str, remedy: str, *, preferred: str, supported: tuple[str, ...]) -> None:
        super().__init__(explanation, remedy)
        self.preferred = preferred
        self.supported = supported


class VerificationFailed(ClientError):
    """An answer that is not what it claims to be."""
