"""The TLS side of listeners that speak HTTP: from PEM files, and renewable while the listener runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from OpenSSL import SSL, crypto
from twisted.internet.interfaces import IOpenSSLServerConnectionCreator
from twisted.internet.ssl import CertificateOptions
from zope.interface import implementer

from agtphost.errors import ConfigurationError, Problem


def https_options(certificate: Path, key: Path) -> CertificateOptions:
    """
    TLS 1.2 or newer with a certificate from PEM files.

    :param certificate: the certificate, and after it its intermediates.
    :raises agtphost.errors.ConfigurationError: for files that cannot be used.
    """
    try:
        leaf, *chain = [
            crypto.X509.from_cryptography(found) for found in x509.load_pem_x509_certificates(certificate.read_bytes())
        ]
        private = crypto.PKey.from_cryptography_key(
            load_pem_private_key(key.read_bytes(), password=None)  # type: ignore[arg-type]
        )
        options = CertificateOptions(privateKey=private, certificate=leaf, extraCertChain=chain)
        options.getContext().check_privatekey()
    except (OSError, ValueError, TypeError, SSL.Error) as error:
        raise ConfigurationError(
            [
                Problem(
                    message=f"the certificate and the key of an HTTPS listener cannot be used: {error}",
                    file=str(certificate),
                    hint="both are PEM files, the certificate first, its intermediates after it",
                )
            ]
        ) from None
    return options


def names_of(certificate: Path) -> frozenset[str]:
    """
    The names of a server's certificate, as a ``Host`` field has them: DNS names in lower case, and IP addresses.

    :raises agtphost.errors.ConfigurationError: for a file that cannot be used.
    """
    try:
        leaf = x509.load_pem_x509_certificates(certificate.read_bytes())[0]
        named = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return frozenset()
    except (OSError, ValueError) as error:
        problem = Problem(message=f"the certificate cannot be used: {error}", file=str(certificate))
        raise ConfigurationError([problem]) from None
    names = {name.lower() for name in named.get_values_for_type(x509.DNSName)}
    for address in named.get_values_for_type(x509.IPAddress):
        names.add(f"[{address}]" if address.version == 6 else str(address))
    return frozenset(names)


def ask_browsers(options: CertificateOptions) -> CertificateOptions:
    """
    Have clients asked for a certificate, which they need not have.

    Whatever is shown is taken, whoever issued it and until when: TLS proves that the client has its key, and what it is
    worth is decided at each request by whoever lists certificates. No connection resumes another, whose certificate
    nobody would be asked for again.
    """
    context = options.getContext()
    context.set_verify(SSL.VERIFY_PEER, lambda connection, certificate, error, depth, accepted: True)
    context.set_session_cache_mode(SSL.SESS_CACHE_OFF)
    context.set_options(SSL.OP_NO_TICKET)
    return options


@implementer(IOpenSSLServerConnectionCreator)
class Connections:
    """
    The TLS side of connections, by one set of settings.

    :param options: such as :func:`https_options` gives.
    """

    def __init__(self, options: CertificateOptions) -> None:
        self._options = options

    def serverConnectionForTLS(self, protocol: object) -> SSL.Connection:
        """What Twisted asks for at each new connection."""
        return SSL.Connection(self._options.getContext(), None)


@implementer(IOpenSSLServerConnectionCreator)
class Renewable:
    """
    The TLS side of connections to come; those that are open keep theirs.

    :param creator: in force until :meth:`renew`.
    """

    def __init__(self, creator: IOpenSSLServerConnectionCreator) -> None:
        self._creator = creator

    def renew(self, creator: IOpenSSLServerConnectionCreator) -> None:
        """Use this from now on."""
        self._creator = creator

    def serverConnectionForTLS(self, protocol: object) -> Any:
        """See :class:`IOpenSSLServerConnectionCreator`."""
        return self._creator.serverConnectionForTLS(protocol)  # type: ignore[arg-type]
