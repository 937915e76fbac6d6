"""
What can go wrong on the client's side of a call, and what to do about it.

A response with any status is not an error: it is a :class:`~agtphost.client.reply.Reply`, until its
``raise_for_status`` is asked. All others are calls that got none. Texts of the peer appear in messages only
with their control characters escaped.
"""

from __future__ import annotations

from typing import Any

from agtphost.vocabulary.escaping import escape

__all__ = [
    "AgentGone",
    "ApprovalRequired",
    "CallRefused",
    "CannotConnect",
    "CatalogMismatch",
    "ClientError",
    "ConnectionLost",
    "HandshakeEnded",
    "InvalidCall",
    "NotConfirmed",
    "ProtocolBroken",
    "TLSRefused",
    "Timeout",
    "ToolFailed",
    "UnverifiedRecord",
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


class NotConfirmed(ClientError):
    """The call needs a person's consent and did not get it; nothing was sent."""


class CannotConnect(ClientError):
    """No connection came about; nothing was sent."""


class TLSRefused(ClientError):
    """
    A client or server refused the other's TLS version, certificate or name: core v08 section 10.1.

    No request was answered. If it was this client that refused, none was sent.
    """


class HandshakeEnded(TLSRefused):
    """
    The server ended the connection during the TLS handshake without giving a reason; no request was sent.

    A load balancer without a server behind it does that, and so does a host that stops.
    """


class Timeout(ClientError):
    """The time for the call ran out; if a request was sent, whether it was carried out is unknown."""


class ConnectionLost(ClientError):
    """
    The connection ended before the answer was complete; whether the request was carried out is unknown.

    :param answered: whether any octet of an answer had arrived.
    :param unprocessed: whether the host says that it has not begun with the request: any call may be made again.
    """

    def __init__(self, explanation: str, remedy: str = "", *, answered: bool, unprocessed: bool = False) -> None:
        super().__init__(explanation, remedy)
        self.answered = answered
        self.unprocessed = unprocessed


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


class UnverifiedRecord(VerificationFailed):
    """
    An answer whose record is not genuine, or not the record of this exchange: it is not handed out as one.

    :param reply: the :class:`.reply.Reply`, for who wants to look at it all the same.
    :param failures: each :class:`.verification.Check` that failed.
    """

    def __init__(self, reply: Any, failures: tuple[Any, ...]) -> None:
        told = "; ".join(f"{check.name}: {check.detail}" for check in failures)
        super().__init__(
            f"The record of the answer does not verify: {told}",
            "Do not rely on the answer; ask the host's operator, or write verify=False to look at it.",
        )
        self.reply = reply
        self.failures = failures


class CallRefused(ClientError):
    """
    A host refused a call, or failed at it; raised by ``raise_for_status``, and where there is nothing else to return.

    :param reply: the :class:`.reply.Reply`: status, reason, explanation, remedy and Audit-ID are its.
    """

    def __init__(self, reply: Any) -> None:
        self.reply = reply
        self.status: int = reply.status
        self.reason: str = reply.reason
        """The stable token."""

        self.audit_id: str | None = reply.audit_id
        told = f"{reply.status} {reply.reason or reply.text}".rstrip()
        more = [reply.remedy, *(f"{each}." for each in reply.particulars)]
        if reply.audit_id:
            more.append(f"(Audit-ID {reply.audit_id})")
        said = f"{told}: {reply.explanation}" if reply.explanation else f"{told}."
        super().__init__(escape(said), escape(" ".join(filter(None, more))))
        self.explanation, self.remedy = escape(reply.explanation), escape(reply.remedy)


class ApprovalRequired(CallRefused):
    """
    A person has to approve the call first; nothing was done.

    ``wait_for_approval=SECONDS`` waits for that.
    """

    def __init__(self, reply: Any) -> None:
        super().__init__(reply)
        self.approval = reply.approval
        """The :class:`.approvals.PendingApproval`."""

    def __str__(self) -> str:
        return (
            f"A person has to approve the call first: approval {escape(self.approval.approval_id)}. "
            "Make the same call again once it is approved, or wait for that: wait_for_approval=SECONDS."
        )


class ToolFailed(ClientError):
    """
    A tool was called, and says itself that it failed.

    :param result: the :class:`.tools.ToolResult`.
    """

    def __init__(self, result: Any) -> None:
        super().__init__(f"The tool {escape(result.tool)} reports an error: {escape(result.text)}")
        self.result = result
