"""The Twisted client's TLS context: the demands of :mod:`agtphost.client.tls`, through pyOpenSSL."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from OpenSSL import SSL
from OpenSSL.crypto import X509
from twisted.internet.interfaces import IOpenSSLClientConnectionCreator
from zope.interface import implementer

from agtphost.client.errors import InvalidCall
from agtphost.client.tls import TLSSettings, is_address, unusable_pair

_VERIFY_MESSAGES = {
    9: "certificate is not yet valid",
    10: "certificate has expired",
    18: "self-signed certificate",
    19: "self-signed certificate in certificate chain",
    20: "unable to get local issuer certificate",
    21: "unable to verify the first certificate",
    23: "certificate revoked",
    26: "unsuitable certificate purpose",
}
"""What OpenSSL calls the failures that occur; the others are shown by their number."""


def openssl_context(settings: TLSSettings) -> SSL.Context:
    """
    Return the context of the Twisted client.

    :raises InvalidCall: for files that OpenSSL does not take.
    """
    context = SSL.Context(SSL.TLS_CLIENT_METHOD)
    context.set_min_proto_version(SSL.TLS1_3_VERSION)
    context.set_session_cache_mode(SSL.SESS_CACHE_OFF)
    context.set_verify(SSL.VERIFY_PEER)
    if settings.trust is None:
        context.set_default_verify_paths()
    else:
        try:
            context.load_verify_locations(str(settings.trust))
        except SSL.Error as error:
            raise InvalidCall(f"{settings.trust} holds no CA certificate in PEM.") from error
    if settings.cert is not None:
        _present(context, settings.cert, settings.key or settings.cert, settings)
    return context


def _present(context: SSL.Context, cert: Path, key: Path, settings: TLSSettings) -> None:
    """Show the client certificate and its intermediates to servers that ask for one."""
    try:
        certificates: list[Any] = [*x509.load_pem_x509_certificates(cert.read_bytes())]
        private: Any = load_pem_private_key(key.read_bytes(), password=None)
        context.use_certificate(certificates[0])
        for intermediate in certificates[1:]:
            context.add_extra_chain_cert(intermediate)
        context.use_privatekey(private)
        context.check_privatekey()
    except (SSL.Error, OSError, ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise unusable_pair(settings, error) from error


class HandshakeNotes:
    """Notes of why verification failed, which pyOpenSSL's own error does not contain."""

    def __init__(self) -> None:
        self.message = ""

    def note(self, connection: SSL.Connection, certificate: X509, code: int, depth: int, ok: int) -> bool:
        """Take OpenSSL's verdict on one certificate: remember the first failure, change nothing."""
        if not ok and not self.message:
            self.message = _VERIFY_MESSAGES.get(code, f"verification error {code}")
        return bool(ok)


@implementer(IOpenSSLClientConnectionCreator)
class ConnectionCreator:
    """
    Makes the OpenSSL connection of one link.

    :param host: the name or address that is dialled.
    """

    def __init__(self, context: SSL.Context, host: str, notes: HandshakeNotes) -> None:
        self._context = context
        self._host = host
        self._notes = notes

    def clientConnectionForTLS(self, tlsProtocol: object) -> SSL.Connection:
        """Return the connection that Twisted asks for; the server name is set unless it is an address."""
        connection = SSL.Connection(self._context, None)
        connection.set_verify(SSL.VERIFY_PEER, self._notes.note)
        if not is_address(self._host):
            connection.set_tlsext_host_name(self._host.encode("ascii"))
        return connection
