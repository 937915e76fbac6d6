"""
What both clients demand of TLS, and what they say when it is not met: core v08 section 10.1.

TLS 1.3, a chain to a trusted anchor, a validity period that covers now, and
the name that was dialled. None of this can be switched off.
"""

from __future__ import annotations

import ipaddress
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from service_identity import VerificationError
from service_identity.cryptography import verify_certificate_hostname, verify_certificate_ip_address
from service_identity.exceptions import CertificateError as NoUsableNames

from agtphost.client.errors import CannotConnect, HandshakeEnded, InvalidCall, TLSRefused
from agtphost.client.terminal import escape
from agtphost.identity.certificates import CertificateError, load_certificate, parse_peer_certificate
from agtphost.identity.peer import PeerCertificate
from agtphost.vocabulary.foreign_errors import explain, split, to_sentence
from agtphost.vocabulary.regular_files import Stamp, stamps

_TRUST_REMEDY = "Give the CA that issued it (--cacert), or have the server's certificate replaced."

_UNTRUSTED = ("no authority that is trusted here has issued it", _TRUST_REMEDY)
_RENEW = "The server's operator has to renew it."
_VERIFICATIONS = {
    "certificate has expired": ("it has expired", _RENEW),
    "certificate is not yet valid": ("it is not valid yet", "Check this machine's clock."),
    "certificate revoked": ("it was revoked", _RENEW),
    "CA cert does not verify": ("its authority's certificate is not one", _TRUST_REMEDY),
    "unsuitable certificate purpose": ("it is not one for servers", _RENEW),
    "unsupported certificate purpose": ("it is not one for servers", _RENEW),
    "EE certificate key too weak": ("its key is too short", _RENEW),
    "CA signature digest algorithm too weak": ("it is signed with SHA-1 or MD5", _RENEW),
}
"""What OpenSSL's verification says, in our words, and what to do; everything else means :data:`_UNTRUSTED`."""

_OTHER_CERTIFICATE = "Give the certificate and key of an agent of that host (--cert, --key)."
_ALERTS = {
    "certificate required": ("it wants a client certificate", "Give --cert and --key."),
    "unknown ca": ("it does not trust the authority of the client certificate", _OTHER_CERTIFICATE),
    "bad certificate": ("it does not take the client certificate", _OTHER_CERTIFICATE),
    "certificate expired": ("the client certificate has expired", "Have it renewed: agtp agent renew."),
    "certificate revoked": ("the client certificate was revoked", "Have another one issued."),
    "certificate unknown": ("it does not take the client certificate", _OTHER_CERTIFICATE),
    "unsupported certificate": ("it does not take client certificates of this kind", _OTHER_CERTIFICATE),
    "access denied": ("it does not admit this client certificate", _OTHER_CERTIFICATE),
}
"""The alerts by which a server refuses a client certificate, as OpenSSL words them: in our words, and what to do."""

_VERSION_WORDS = ("protocol version", "unsupported protocol", "wrong version number", "no protocols")


@dataclass(frozen=True, slots=True, kw_only=True)
class TLSSettings:
    """The certificates that a client trusts and shows; connections are shared only between equal settings."""

    trust: Path | None = None
    """A PEM file of CA certificates; None for those of the platform."""

    cert: Path | None = None
    """A PEM file: the client certificate, and after it its intermediates."""

    key: Path | None = None
    """A PEM file: the certificate's private key; None where :attr:`cert` holds it too."""

    def check(self) -> None:
        """
        Make sure that the files are there and can be opened.

        :raises InvalidCall: naming the first that is not.
        """
        if self.key is not None and self.cert is None:
            raise InvalidCall("A key without a certificate proves nothing.", "Give --cert as well.")
        for path in (self.trust, self.cert, self.key):
            if path is not None:
                try:
                    path.open("rb").close()
                except OSError as error:
                    raise InvalidCall(f"{path} cannot be read: {explain(error)}.") from error

    def stamp(self) -> Stamp:
        """Return the stamp of the client certificate's file; None where there is none."""
        return None if self.cert is None else stamps([self.cert])[self.cert]

    def peer_certificate(self) -> PeerCertificate | None:
        """
        Return the client certificate, as a server reads it.

        :raises InvalidCall: if it cannot be read.
        """
        if self.cert is None:
            return None
        try:
            leaf = load_certificate(self.cert)
            return parse_peer_certificate(leaf.public_bytes(Encoding.DER))
        except (CertificateError, OSError) as error:
            raise InvalidCall(f"The client certificate {self.cert} cannot be read: {explain(error)}.") from error


class PresentedCertificate:
    """
    The client certificate of further connections: another one once its file was replaced.

    So an agent that was given further scopes, or a renewed certificate, goes on without a restart.
    """

    def __init__(self, settings: TLSSettings) -> None:
        self._settings = settings
        self.stamp: Stamp = settings.stamp()
        """The stamp of the file that further connections are made with."""

    def follow(self, load: Callable[[], None]) -> bool:
        """
        Read the file again if it was replaced.

        :param load: reads it; where it raises InvalidCall, only half of a certificate and its key was replaced, and
            the next call looks again.
        :return: whether further connections present another certificate.
        """
        stamp = self._settings.stamp()
        if stamp is None or stamp == self.stamp:
            return False
        try:
            load()
        except InvalidCall:
            return False
        self.stamp = stamp
        return True


def settings_of(trust: str | Path | None, cert: str | Path | None, key: str | Path | None) -> TLSSettings:
    """
    Settings from file names.

    :raises InvalidCall: if a file cannot be opened.
    """
    settings = TLSSettings(
        trust=None if trust is None else Path(trust),
        cert=None if cert is None else Path(cert),
        key=None if key is None else Path(key),
    )
    settings.check()
    return settings


def stdlib_context(settings: TLSSettings) -> ssl.SSLContext:
    """
    Return the context of the blocking client.

    :raises InvalidCall: for files that OpenSSL does not take.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    try:
        if settings.trust is None:
            context.load_default_certs(ssl.Purpose.SERVER_AUTH)
        else:
            context.load_verify_locations(cafile=settings.trust)
    except (ssl.SSLError, OSError) as error:
        raise InvalidCall(f"{settings.trust} holds no CA certificate in PEM.") from error
    if settings.cert is not None:
        try:
            context.load_cert_chain(settings.cert, settings.key, password=_no_passphrase)
        except (ssl.SSLError, OSError, ValueError) as error:
            raise unusable_pair(settings, error) from error
    return context


def _no_passphrase() -> str:
    raise ValueError("keys with a passphrase are not read")


def unusable_pair(settings: TLSSettings, error: Exception | None = None) -> InvalidCall:
    """
    Return the error for a client certificate and key that OpenSSL does not take.

    :param error: the error of OpenSSL.
    """
    if "_TOO_SMALL" in str(error) or "_TOO_WEAK" in str(error) or "too small" in str(error):
        return InvalidCall(
            f"{settings.cert} has a key or a signature that OpenSSL refuses as too weak.",
            "Use a certificate with an Ed25519 or P-256 key, or RSA of at least 2,048 bits, signed with SHA-256.",
        )
    return InvalidCall(
        f"{settings.cert} and {settings.key or settings.cert} are not a certificate and its private key.",
        "Give PEM files that belong together; the key without a passphrase.",
    )


def verify_peer_name(der: bytes, host: str) -> None:
    """
    Make sure that a server's certificate is for ``host``: RFC 9525 through service-identity.

    :param der: the certificate, whose chain was verified before.
    :param host: the name or address that was dialled.
    :raises TLSRefused: if it is not.
    """
    certificate = x509.load_der_x509_certificate(der)
    try:
        if is_address(host):
            verify_certificate_ip_address(certificate, host)
        else:
            verify_certificate_hostname(certificate, host)
    except (VerificationError, NoUsableNames, ValueError) as error:
        raise wrong_name(host) from error


def wrong_name(host: str) -> TLSRefused:
    """Return the error for a certificate that is for another host."""
    return TLSRefused(
        f"The server's certificate is not for {host}.",
        "Dial a name that the certificate has, or have the server's certificate replaced.",
    )


def is_address(host: str) -> bool:
    """Return whether ``host`` is an IP address: these are never sent as server name (RFC 6066 section 3)."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def to_refusal(reason: str, verify_message: str = "") -> TLSRefused:
    """
    Return the error for a handshake that failed, or a connection that ended with a TLS alert.

    :param reason: OpenSSL's reason, in either of its spellings (``unknown ca``, ``TLSV1_ALERT_UNKNOWN_CA``).
    :param verify_message: what OpenSSL's verification says, if it was that.
    """
    words = reason.lower().replace("_", " ")
    if not words and not verify_message:
        return HandshakeEnded(
            "The server ended the TLS handshake.", "Check that host and port are those of an AGTP host."
        )
    if verify_message:
        what, remedy = _VERIFICATIONS.get(verify_message, _UNTRUSTED)
        return TLSRefused(f"The server's certificate is not trusted: {what}.", remedy)
    if any(word in words for word in _VERSION_WORDS):
        return TLSRefused("The server does not speak TLS 1.3.", "AGTP needs TLS 1.3; check host and port.")
    if "alert" in words:
        for alert, (what, remedy) in _ALERTS.items():
            if alert in words:
                return TLSRefused(f"The server refused this client: {what}.", remedy)
    return TLSRefused("The TLS handshake failed.", "Check that host and port are those of an AGTP host.")


_NAME_MISMATCH = frozenset({62, 64})
"""X509_V_ERR_HOSTNAME_MISMATCH and X509_V_ERR_IP_ADDRESS_MISMATCH."""


def cannot_connect(error: BaseException, destination: object) -> CannotConnect:
    """Return the error for a connection that was not made, before TLS."""
    what, cure = split(error)
    remedy = to_sentence(cure) or "Check host and port, and that the host is running."
    return CannotConnect(f"Cannot connect to {destination}: {escape(what)}.", remedy)


def unnameable(host: str) -> CannotConnect:
    """Return the error for a name that no TLS server can have."""
    return CannotConnect(
        f"{host} cannot be the name of a TLS server.",
        "Give a host name of letters, digits, '-' and '.', or an address.",
    )


def handshake_failed(error: OSError, host: str) -> TLSRefused:
    """Return the error for a failed handshake of the standard library, refused by either side."""
    if isinstance(error, ssl.SSLCertVerificationError):
        if error.verify_code in _NAME_MISMATCH:
            return wrong_name(host)
        return to_refusal("certificate verify failed", error.verify_message)
    if isinstance(error, (ssl.SSLEOFError, ConnectionError)):
        return to_refusal("")
    if isinstance(error, ssl.SSLError):
        return to_refusal(error.reason or "")
    return to_refusal(error.strerror or "")
