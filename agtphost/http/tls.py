"""Provide the TLS side of HTTP listeners: from PEM files, renewable while the listener runs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from OpenSSL import SSL, crypto
from twisted.internet.interfaces import IOpenSSLServerConnectionCreator
from twisted.internet.ssl import CertificateOptions
from zope.interface import implementer

from agtphost.errors import ConfigurationError, Problem
from agtphost.vocabulary.foreign_errors import original_of, split
from agtphost.vocabulary.regular_files import read_octets


@dataclass(frozen=True, kw_only=True)
class ListenerTls:
    """The TLS side of a listener."""

    creator: IOpenSSLServerConnectionCreator
    names: frozenset[str]


def https_options(certificate: Path, key: Path) -> CertificateOptions:
    """
    Return settings for TLS 1.2 or newer with a certificate from PEM files.

    :param certificate: the certificate, followed by its intermediates.
    :raises agtphost.errors.ConfigurationError: the files cannot be used.
    """
    try:
        leaf, *chain = [
            crypto.X509.from_cryptography(found) for found in x509.load_pem_x509_certificates(read_octets(certificate))
        ]
        private = crypto.PKey.from_cryptography_key(
            load_pem_private_key(read_octets(key), password=None)  # type: ignore[arg-type]
        )
        options = CertificateOptions(privateKey=private, certificate=leaf, extraCertChain=chain)
        options.getContext().check_privatekey()
    except (OSError, ValueError, TypeError, SSL.Error) as error:
        what, cure = split(error)
        raise ConfigurationError(
            [
                Problem(
                    message=f"the certificate and the key of an HTTPS listener cannot be used: {what}",
                    file=str(certificate),
                    original=original_of(error) or repr(error),
                    hint=cure or "name two PEM files; the first holds the certificate, followed by its intermediates",
                )
            ]
        ) from error
    return options


def names_of(certificate: Path) -> frozenset[str]:
    """
    Return the names of a server's certificate as in a ``Host`` field: DNS names in lower case, and IP addresses.

    :raises agtphost.errors.ConfigurationError: the file cannot be used.
    """
    try:
        leaf = x509.load_pem_x509_certificates(read_octets(certificate))[0]
        named = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return frozenset()
    except (OSError, ValueError) as error:
        what, cure = split(error)
        problem = Problem(
            message=f"the certificate cannot be used: {what}",
            original=original_of(error),
            file=str(certificate),
            hint=cure,
        )
        raise ConfigurationError([problem]) from error
    names = {name.lower() for name in named.get_values_for_type(x509.DNSName)}
    for address in named.get_values_for_type(x509.IPAddress):
        names.add(f"[{address}]" if address.version == 6 else str(address))
    return frozenset(names)


def ask_browsers(options: CertificateOptions) -> CertificateOptions:
    """
    Ask clients for an optional certificate.

    Any certificate is accepted, of any issuer and age: TLS proves only that the client has its key. Each request
    compares it with the listed certificates. Sessions cannot be resumed, because a resumed one would not present its
    certificate again.
    """
    context = options.getContext()
    context.set_verify(SSL.VERIFY_PEER, lambda connection, certificate, error, depth, accepted: True)
    context.set_session_cache_mode(SSL.SESS_CACHE_OFF)
    context.set_options(SSL.OP_NO_TICKET)
    return options


@implementer(IOpenSSLServerConnectionCreator)
class TlsCreator:
    """
    A creator of the TLS side of connections, with one set of settings.

    :param options: such as :func:`https_options` returns.
    """

    def __init__(self, options: CertificateOptions) -> None:
        self._options = options

    def serverConnectionForTLS(self, protocol: object) -> SSL.Connection:
        """Return the TLS connection of a new connection."""
        return SSL.Connection(self._options.getContext(), None)


@implementer(IOpenSSLServerConnectionCreator)
class RenewableTls:
    """
    A creator whose settings can be replaced; open connections keep theirs.

    :param creator: in use until :meth:`renew`.
    """

    def __init__(self, creator: IOpenSSLServerConnectionCreator) -> None:
        self._creator = creator

    def renew(self, creator: IOpenSSLServerConnectionCreator) -> None:
        """Use another creator from the next connection on."""
        self._creator = creator

    def serverConnectionForTLS(self, protocol: object) -> Any:
        """Return the TLS connection of a new connection; see :class:`IOpenSSLServerConnectionCreator`."""
        return self._creator.serverConnectionForTLS(protocol)  # type: ignore[arg-type]
