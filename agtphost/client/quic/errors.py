"""How a QUIC connection or a call on it ends, as the client's errors: in the words of TLS where TLS has any."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from aioquic.quic.events import ConnectionTerminated
from aioquic.quic.packet import QuicErrorCode

from agtphost.client import tls
from agtphost.client.errors import CannotConnect, ClientError, ConnectionLost, HandshakeEnded, TLSRefused
from agtphost.client.terminal import escape
from agtphost.vocabulary.quic_codes import CRYPTO_ERROR, SHUTTING_DOWN, Code

if TYPE_CHECKING:
    from agtphost.client.requests import Destination

_IDLE = "Idle timeout"
"""What aioquic says where no packet came for too long."""

_ALERTS = {
    40: "handshake failure",
    42: "bad certificate",
    43: "unsupported certificate",
    44: "certificate revoked",
    45: "certificate expired",
    46: "certificate unknown",
    48: "unknown ca",
    49: "access denied",
    116: "certificate required",
}
"""The alerts of TLS by which a server refuses a client, as :func:`agtphost.client.tls.to_refusal` takes them."""

_NO_APPLICATION_PROTOCOL = 120

_UNKNOWN = "Whether it carried the request out is unknown; repeat it with an Idempotency-Key only."

_REASONS: dict[int, str] = {
    Code.INTERNAL: "because of an internal fault",
    Code.LATE: "because it took too long",
    Code.TOO_MUCH: "because too much was asked of it",
    Code.ENDING: "because it shuts down",
}

_UNBEGUN = (QuicErrorCode.APPLICATION_ERROR, QuicErrorCode.CONNECTION_REFUSED)
"""By which a server ends a handshake: the first where it may not say why there (RFC 9000 section 10.2.3)."""

PROBE_SECONDS = 2.0
"""For the TCP connection that shows whether a silent host is there at all."""


class Unanswered(CannotConnect):
    """No datagram of the server arrived."""


class ConnectionRefused(CannotConnect):
    """The server takes no connection at this time; another address of its name may."""


def explain_silence(destination: Destination, tls_port: int, *, is_there: bool) -> CannotConnect:
    """
    Return the error for a host that does not answer by UDP.

    :param tls_port: the host's port for TLS; 0: it is not known, or is that of ``destination``.
    :param is_there: whether it answers by TCP at :func:`tls_place`.
    """
    at_port = f" at port {tls_port}" if tls_port else ""
    if not is_there:
        other = "" if tls_port else " If [quic] port is not TLS's, TCP has another: call without --quic."
        return CannotConnect(
            f"{destination} answers neither by UDP nor by TCP{at_port}.",
            f"Check host and port, and that the host is running.{other}",
        )
    named = "" if tls_port else " its port in the URI if [quic] port is not TLS's,"
    return CannotConnect(
        f"{destination} does not answer by UDP; without --quic it answers, by TCP{at_port}.",
        f"QUIC needs enabled = true in [quic] of the host's host.toml,{named} and a network that lets UDP through.",
    )


def tls_place(destination: Destination, tls_port: int) -> Destination:
    """Return where a host listens for TLS, whose QUIC listens at ``destination``."""
    return replace(destination, port=tls_port or destination.port)


def to_loss(what: str, *, answered: bool, cause: BaseException | None = None) -> ConnectionLost:
    """
    Return the error of a call whose connection or stream ended.

    :param what: the server did.
    :param answered: whether any octet of the answer had arrived.
    """
    where = "within its answer" if answered else "before it answered"
    error = ConnectionLost(f"The server {what}, {where}.", _UNKNOWN, answered=answered)
    error.__cause__ = cause
    return error


def convert_unsent(error: ClientError) -> ClientError:
    """Return the error of a call that was not sent when its connection ended with ``error``."""
    if not isinstance(error, ConnectionLost):
        return error
    return _to_unbegun(error.explanation)


def _to_unbegun(explanation: str) -> ConnectionLost:
    return ConnectionLost(explanation, "Make the call again.", answered=False, unprocessed=True)


def convert_reset(code: int, *, answered: bool) -> ConnectionLost:
    """Return the error of a call whose stream the server has reset."""
    if code == Code.ENDING and not answered:
        return _to_unbegun("The host shuts down, and has not begun with this request.")
    return to_loss(f"gave up the call {_REASONS.get(code, f'with code {code:#x}')}", answered=answered)


def is_quics_own(ended: ConnectionTerminated, code: QuicErrorCode) -> bool:
    """Return whether a connection has ended with a code of QUIC, and not with one of AGTP."""
    return ended.frame_type is not None and ended.error_code == code


def convert_end(
    ended: ConnectionTerminated, *, by_peer: bool, is_ready: bool, is_confirmed: bool, was_used: bool, answered: bool
) -> ClientError:
    """
    Return the error of a connection that either side has ended.

    :param by_peer: whether the server has ended it.
    :param is_ready: whether the handshake was over for this side.
    :param is_confirmed: whether the server has shown that it was over for it too.
    :param was_used: whether the server had answered anything on it: until then it may refuse the client's certificate.
    :param answered: whether any octet of an answer to the last call had arrived.
    """
    is_transport = ended.frame_type is not None
    alert = ended.error_code - CRYPTO_ERROR if is_transport else -1
    if 0 <= alert < CRYPTO_ERROR and not was_used:
        if alert == _NO_APPLICATION_PROTOCOL:
            return TLSRefused("The server does not speak AGTP by QUIC.", "Check host and port.")
        if not by_peer:
            why = escape(ended.reason_phrase) or f"alert {alert} of TLS"
            explanation = f"This client refused the server: {why}."
            return TLSRefused(explanation, "Check host, port and the host's certificate.")
        return tls.to_refusal(f"alert {_ALERTS.get(alert, alert)}")
    if ended.reason_phrase == _IDLE:
        return to_loss("sent nothing any more", answered=answered)
    if is_transport and not by_peer:
        broke = f"broke the rules of QUIC (code {_describe(ended)})"
        if not is_ready:
            return HandshakeEnded(f"The server {broke}.", "Check that host and port are those of an AGTP host.")
        return to_loss(f"{broke}, and this client ended the connection", answered=answered)
    if not is_ready and is_quics_own(ended, QuicErrorCode.CONNECTION_REFUSED):
        if ended.reason_phrase == SHUTTING_DOWN:
            return ConnectionRefused(
                "The host takes no more connections: it shuts down.",
                "Make the call again once it has started, or call another host.",
            )
        return ConnectionRefused(
            "The host takes no more connections: its limit for this address, or for all, is reached.",
            "End connections that are not needed, or raise connections_per_address in [limits] of its host.toml.",
        )
    if not is_ready and is_quics_own(ended, QuicErrorCode.INVALID_TOKEN):
        return CannotConnect(
            "The host asked where this client is, and takes the proof no more: it came late, or from another address, "
            "twice.",
            "Make the call again.",
        )
    if not is_ready:
        return HandshakeEnded(
            "The server ended the QUIC handshake.", "Check that host and port are those of an AGTP host."
        )
    if is_transport and ended.error_code in _UNBEGUN and not is_confirmed:
        # It has read no request yet.
        return _to_unbegun(
            "The host ended the connection while it was being made, and has not begun with this request."
        )
    if not is_transport and ended.error_code == Code.ENDING and not answered:
        # A host that drains ends its connection after the last answer: what crossed that was not begun with.
        return _to_unbegun("The host shuts down, and has not begun with this request.")
    known = None if is_transport else _REASONS.get(ended.error_code)
    return to_loss(f"ended the connection {known or f'with code {_describe(ended)}'}", answered=answered)


def _describe(ended: ConnectionTerminated) -> str:
    """Return the code of an end, and its reason, which may be the peer's."""
    return f"{ended.error_code:#x}" + (f": {escape(ended.reason_phrase)}" if ended.reason_phrase else "")
