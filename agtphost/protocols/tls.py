"""
TLS on the server's side: core v08 section 10.1, companion section 9, design decision 3.

TLS 1.3 and nothing else. Without a session cache and early data, no session can be resumed, so every connection
proves itself anew. (pyOpenSSL has no way to keep OpenSSL from sending its two session tickets of 79 octets. They are
the stateful kind, and are void without a cache: a client that presents one gets a full handshake.)

Client certificates may carry critical extensions that OpenSSL does not know and
therefore refuses: the AGTP ones. OpenSSL is configured to ignore criticality, and for every
certificate of the chain this module puts the question to
:func:`agtphost.identity.certificates.refused_critical_extensions` instead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path
from types import MappingProxyType
from typing import Any

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from OpenSSL import SSL, crypto
from twisted.internet.interfaces import IOpenSSLServerConnectionCreator
from twisted.logger import Logger
from zope.interface import implementer

from agtphost.config.tls import TLS
from agtphost.errors import ConfigurationError, Problem
from agtphost.identity import revocation
from agtphost.identity.authorities import REMEDY, ClientAuthorities, Mandate, Mandates, ambiguity, digest_of
from agtphost.identity.chain_verification import (
    INTERMEDIATES,
    LIST_EXPIRED,
    NO_LIST,
    ChainVerifier,
    first_refused_extension,
)
from agtphost.identity.revocation import UNKNOWN, RevocationError, Revocations, RevokedLinks
from agtphost.protocols.own_certificates import OwnCertificate, OwnCertificates
from agtphost.vocabulary.foreign_errors import original_of, split
from agtphost.vocabulary.regular_files import Stamp, read_octets, stamps

log = Logger()

_pyopenssl: Any = SSL
"""For the parts of pyOpenSSL whose types not every version describes."""

APPLICATION_PROTOCOLS = (b"agtp/1.0", b"agtp")
"""What a client may ask for by ALPN, best first; it may also not ask."""

GROUPS = b"X25519:P-256"
"""The two key exchanges that every TLS 1.3 implementation of today has."""

SECURITY_LEVEL = b"DEFAULT:@SECLEVEL=2"
"""112 bits and more: no RSA or DSA under 2048 bits and no SHA-1, in any certificate of a chain."""


@dataclass(frozen=True, kw_only=True)
class PreparedTLS:
    """The content of the TLS files, ready to be adopted."""

    context: SSL.Context
    revoked: RevokedLinks
    mandates: Mandates
    fingerprint: str = ""
    """SHA-256, hex, of the host's own certificate."""

    until: float = inf
    """When the first of the host's certificates ends, those of further names too; seconds since the Unix epoch."""

    faults: tuple[Problem, ...] = ()
    """What is wrong with revocation lists, where that was to be lived with."""

    own: OwnCertificates | None = None
    """The host's certificates with their keys."""

    chains: ChainVerifier | None = None
    """Verifies clients' chains where OpenSSL does not shake hands; None where no client is asked for a certificate."""


@implementer(IOpenSSLServerConnectionCreator)
class ServerTLS:
    """
    Makes the TLS side of accepted connections.

    :param files: read by :meth:`load` and :meth:`prepare` only.
    :param prepared: what was made of them.
    :param mandates: for whom each ``client_authority`` speaks, in their order.
    :param read: stamps of the files, from before they were read.
    """

    def __init__(
        self,
        files: TLS,
        prepared: PreparedTLS,
        mandates: Sequence[Mandate] = (),
        read: Mapping[Path, Stamp] = MappingProxyType({}),
    ) -> None:
        self.files = files
        self._mandates = mandates
        self.read = read
        """Stamps of the files that were read first; one that differs by now has to be read again."""

        self.revocations = Revocations(required=files.crl_required)
        """Who is revoked, for the check on every request; follows each reload."""

        self.authorities = ClientAuthorities()
        """Whose certificates count for which agents, for the check on every request; follows each reload too."""

        self.adopt(prepared)

    @classmethod
    def load(cls, files: TLS, mandates: Sequence[Mandate] = ()) -> ServerTLS:
        """
        Read everything once.

        :raises ConfigurationError: naming each file that is wrong.
        """
        read = stamps(files.files)
        return cls(files, _prepare(files, mandates, forgiving=False), mandates, read)

    def prepare(self) -> PreparedTLS:
        """
        Read the files again; for any thread, and without effect.

        An unreadable revocation list does not keep a new certificate from being used, because client certificates are
        then refused.

        :raises ConfigurationError: naming each other file that is wrong.
        """
        return _prepare(self.files, self._mandates, forgiving=True)

    def adopt(self, prepared: PreparedTLS) -> None:
        """Use these for connections accepted from now on, and the lists for every request from now on."""
        self._context, self.chains, self.own = prepared.context, prepared.chains, prepared.own
        self.fingerprint = prepared.fingerprint
        self.until = prepared.until
        self.revocations.adopt(prepared.revoked)
        self.authorities.adopt(prepared.mandates)

    def follow(self, other: ServerTLS) -> None:
        """Have what another one has, files and all, for connections and requests from now on."""
        self.files, self._mandates, self.read = other.files, other._mandates, other.read
        self._context, self.chains, self.own = other._context, other.chains, other.own
        self.fingerprint, self.until = other.fingerprint, other.until
        self.revocations.adopt(other.revocations.revoked, required=other.files.crl_required)
        self.authorities.follow(other.authorities)

    def serverConnectionForTLS(self, protocol: object) -> SSL.Connection:
        """Return the TLS state of a connection; see :class:`IOpenSSLServerConnectionCreator`."""
        return SSL.Connection(self._context, None)


# Files


class _Reader:
    """Reads PEM files, gathering what is wrong with them."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []

    def blame(self, path: Path, message: str, hint: str = "", original: str = "") -> None:
        self.problems.append(Problem(message=message, file=str(path), hint=hint, original=original))

    def octets(self, path: Path) -> bytes:
        try:
            return read_octets(path)
        except OSError as error:
            what, cure = split(error)
            self.blame(path, f"cannot be read: {what}", cure, original_of(error))
            return b""

    def certificates(self, path: Path) -> Sequence[x509.Certificate]:
        known = len(self.problems)
        octets = self.octets(path)
        if len(self.problems) > known:
            return ()
        try:
            return x509.load_pem_x509_certificates(octets)
        except ValueError as error:
            message = "holds no PEM certificate" if octets else "is empty"
            self.blame(path, message, "name a file with one or more certificates in PEM", original_of(error))
            return ()

    def revocation_lists(
        self, paths: Sequence[Path], authorities: Sequence[x509.Certificate]
    ) -> Sequence[x509.CertificateRevocationList]:
        found: list[x509.CertificateRevocationList] = []
        for path in paths:
            octets = self.octets(path)
            try:
                lists = revocation.read_lists(octets) if octets else ()
                revocation.require_signatures(lists, authorities)
            except RevocationError as error:
                self.blame(path, str(error))
            else:
                if not octets and not any(problem.file == str(path) for problem in self.problems):
                    self.blame(path, "is empty", "fetch the list from its authority, or remove it from client_crl")
                found.extend(lists)
        return found


def _prepare(files: TLS, mandates: Sequence[Mandate], *, forgiving: bool) -> PreparedTLS:
    """
    Read the TLS files.

    """
    reader, lists = _Reader(), _Reader()
    chain = reader.certificates(files.certificate)
    key = reader.octets(files.key)
    named = {
        server.name: (reader.certificates(server.certificate), reader.octets(server.key)) for server in files.server
    }
    authorities: Sequence[x509.Certificate] = ()
    by_authority = Mandates()
    revoked: Sequence[x509.CertificateRevocationList] = ()
    if files.client_auth != "none":
        authorities, by_authority = _authorities(files, mandates, reader)
        revoked = lists.revocation_lists(files.client_crl, authorities)
        if not forgiving and files.crl_required:
            reader.problems += lists.problems
    if reader.problems:
        raise ConfigurationError(reader.problems)
    # With a list missing, revocation is unknown: either no client is verified, or only by the lists that could be read.
    known = not (lists.problems and files.crl_required)
    asked = revoked if known else ()

    def context(chain: Sequence[x509.Certificate], key: bytes, certificate_file: Path, key_file: Path) -> SSL.Context:
        made = _build_hardened_context()
        _present(made, certificate_file, key_file, chain, key, reader)
        if authorities and not reader.problems:
            _demand(made, files, authorities, asked)
        return made

    main = context(chain, key, files.certificate, files.key)
    others = {server.name: context(*named[server.name], server.certificate, server.key) for server in files.server}
    if reader.problems:
        raise ConfigurationError(reader.problems)
    if others:
        main.set_tlsext_servername_callback(_Names(others))
    links = RevokedLinks.from_lists(revoked) if known else UNKNOWN
    judge = ChainVerifier(authorities, asked, links, asks_lists=bool(files.client_crl), tolerant=not files.crl_required)
    return PreparedTLS(
        context=main,
        revoked=links,
        chains=judge if authorities else None,
        own=OwnCertificates(
            OwnCertificate(tuple(chain), key),
            {name: OwnCertificate(tuple(each), its_key) for name, (each, its_key) in named.items()},
        ),
        mandates=by_authority,
        fingerprint=digest_of(chain[0]),
        until=min(leaf.not_valid_after_utc.timestamp() for leaf in (chain[0], *(own[0][0] for own in named.values()))),
        faults=tuple(lists.problems),
    )


def _authorities(
    files: TLS, mandates: Sequence[Mandate], reader: _Reader
) -> tuple[Sequence[x509.Certificate], Mandates]:
    """Return the certificates that clients' chains may end in, and for whom each speaks."""
    if not files.client_authority:
        found = list(reader.certificates(files.client_ca))
        if wrong := ambiguity(found):
            reader.blame(files.client_ca, wrong, REMEDY)
        return found, Mandates()
    every: list[x509.Certificate] = []
    by_authority: dict[str, Mandate] = {}
    for authority, mandate in zip(files.client_authority, mandates, strict=True):
        for certificate in reader.certificates(authority.file):
            if by_authority.setdefault(digest_of(certificate), mandate) != mandate:
                reader.blame(authority.file, "holds a certificate that another client_authority has, for others")
            every.append(certificate)
    return every, Mandates(by_authority=by_authority)


class _Names:
    """Gives a connection the certificate of the name that the client asked for."""

    def __init__(self, contexts: Mapping[str, SSL.Context]) -> None:
        self._contexts = {name.encode("ascii"): context for name, context in contexts.items()}

    def __call__(self, connection: SSL.Connection) -> None:
        asked = connection.get_servername()
        context = self._contexts.get(asked.lower()) if asked else None
        if context is not None:
            connection.set_context(context)


def _present(
    context: Any,
    certificate_file: Path,
    key_file: Path,
    chain: Sequence[x509.Certificate],
    key: bytes,
    reader: _Reader,
) -> None:
    """Give the server its own certificate and key."""
    try:
        context.use_certificate(chain[0])
        for intermediate in chain[1:]:
            context.add_extra_chain_cert(intermediate)
    except SSL.Error as error:
        reader.blame(
            certificate_file,
            "holds a certificate that TLS does not accept as a server's",
            "its key is P-256, Ed25519 or RSA of 2048 bits, and its signature is not SHA-1",
            original_of(error),
        )
        return
    try:
        context.use_privatekey(load_pem_private_key(key, password=None))
        context.check_privatekey()
    except (SSL.Error, ValueError, TypeError, UnsupportedAlgorithm) as error:
        original = original_of(error) or repr(error)
        if isinstance(error, TypeError):  # The one error of this kind: a passphrase was needed, and none given.
            what, cure = split(error)
            reader.blame(key_file, f"cannot be used: {what}", cure, original)
            return
        reader.blame(
            key_file,
            f"does not hold the private key of {certificate_file}",
            "it is PEM without a passphrase, made together with the certificate",
            original,
        )


# Contexts


def _build_hardened_context() -> SSL.Context:
    """Return a context for TLS 1.3 without the features that attacks have used."""
    context = SSL.Context(SSL.TLS_SERVER_METHOD)
    context.set_min_proto_version(SSL.TLS1_3_VERSION)
    context.set_options(SSL.OP_NO_TICKET | SSL.OP_NO_COMPRESSION | _pyopenssl.OP_NO_RENEGOTIATION)
    context.set_session_cache_mode(SSL.SESS_CACHE_OFF)
    context.set_session_id(b"agtp")
    # Idle connections give their 34 KiB of record buffers back.
    context.set_mode(SSL.MODE_RELEASE_BUFFERS)
    context.set_cipher_list(SECURITY_LEVEL)
    _restrict_groups(context)
    context.set_alpn_select_callback(_select_protocol)
    return context


def _restrict_groups(context: Any) -> None:
    """
    Exchange keys by :data:`GROUPS` only.

    pyOpenSSL's public interface takes a single curve. Where its binding of
    the list is missing, that curve is P-256, which TLS 1.3 obliges every
    client to have.
    """
    restrict = getattr(getattr(_pyopenssl, "_lib", None), "SSL_CTX_set1_curves_list", None)
    if restrict is None or restrict(context._context, GROUPS) != 1:
        context.set_tmp_ecdh(ec.SECP256R1())


def _select_protocol(connection: SSL.Connection, offered: list[bytes]) -> bytes:
    for name in APPLICATION_PROTOCOLS:
        if name in offered:
            return name
    # Any exception here becomes the alert no_application_protocol; Twisted expects one of this type.
    raise SSL.Error([("agtphost", "alpn", "the client wants another protocol")])


def _demand(
    context: SSL.Context,
    files: TLS,
    authorities: Sequence[x509.Certificate],
    revoked: Sequence[x509.CertificateRevocationList],
) -> None:
    """Ask clients for a certificate, and verify the one that comes."""
    store = context.get_cert_store()
    assert store is not None, "a context has a certificate store"
    for authority in authorities:
        store.add_cert(crypto.X509.from_cryptography(authority))
        context.add_client_ca(authority)
    flags = crypto.X509StoreFlags.IGNORE_CRITICAL
    verify = _verify
    if files.client_crl:
        if not files.crl_required:
            verify = _verify_without_lists
        flags |= crypto.X509StoreFlags.CRL_CHECK | crypto.X509StoreFlags.CRL_CHECK_ALL
        for item in revoked:
            store.add_crl(item)
    store.set_flags(flags)
    mode = SSL.VERIFY_PEER
    if files.client_auth == "required":
        mode |= SSL.VERIFY_FAIL_IF_NO_PEER_CERT
    context.set_verify(mode, verify)
    context.set_verify_depth(INTERMEDIATES)


def _verify(connection: SSL.Connection, certificate: crypto.X509, error: int, depth: int, accepted: int) -> bool:
    """
    Judge one certificate of a client's chain, after OpenSSL did.

    Dates, signatures, purposes and revocation are OpenSSL's; what is left is every critical extension, which it was
    configured to ignore.
    """
    if not accepted:
        log.debug("a client certificate was refused: error {error} at depth {depth}", error=error, depth=depth)
        return False
    refused = first_refused_extension(certificate.to_cryptography())
    if refused:
        log.debug(
            "a client certificate was refused: unknown critical extension {oid} at depth {depth}",
            oid=refused,
            depth=depth,
        )
    return not refused


def _verify_without_lists(
    connection: SSL.Connection, certificate: crypto.X509, error: int, depth: int, accepted: int
) -> bool:
    """Verify as :func:`_verify`, but accept issuers without a list in force; what an old list revokes stays revoked."""
    put_up_with = error in (NO_LIST, LIST_EXPIRED)
    return _verify(connection, certificate, error, depth, int(bool(accepted) or put_up_with))
