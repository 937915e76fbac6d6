"""Clients' chains outside of OpenSSL's handshake: the verdict is that of the TLS listener, for every chain."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st
from OpenSSL import SSL, crypto

from agtphost.identity import chain_verification
from agtphost.identity.chain_verification import ChainRefused
from agtphost.identity.peer import PeerCertificate
from agtphost.protocols import ServerTLS
from agtphost.protocols.peers import certificate_of, peer_of
from tests.protocols.authorities import DAY, UNKNOWN, Identity, agtp_extensions, issue, now, revocation_list
from tests.protocols.loopback import make_site
from tests.protocols.test_tls import ACCEPTED, REFUSED
from tests.rows import each_row


def verdict_of_tls(tls: ServerTLS, identity: Identity) -> PeerCertificate | None:
    """What a handshake of TLS in memory says of a client's certificate; None: it is refused."""
    server = tls.serverConnectionForTLS(None)
    server.set_accept_state()
    context = SSL.Context(SSL.TLS_CLIENT_METHOD)
    context.set_cipher_list(b"DEFAULT:@SECLEVEL=0")
    context.use_certificate(identity.certificate)
    for each in identity.chain:
        context.add_extra_chain_cert(each)
    context.use_privatekey(identity.key)
    client = SSL.Connection(context, None)
    client.set_connect_state()
    for _ in range(4):
        for one, other in ((client, server), (server, client)):
            try:
                one.do_handshake()
            except SSL.WantReadError:
                pass
            except SSL.Error:
                return None
            with suppress(SSL.WantReadError):
                other.bio_write(one.bio_read(1 << 17))
    assert server.get_finished() is not None
    return peer_of(server, "127.0.0.1").certificate


def verdict(tls: ServerTLS, identity: Identity) -> PeerCertificate | None:
    """What is said of the same chain outside of a handshake."""
    assert tls.chains is not None
    try:
        return certificate_of(tls.chains.verify(identity.certificate, identity.chain))
    except ChainRefused:
        return None


@pytest.mark.parametrize("kind", [*ACCEPTED, *REFUSED])
def test_verdict_is_that_of_tls_for_every_chain_of_the_tls_tests(tmp_path: Path, kind: str) -> None:
    """What TLS accepts is accepted with the same certificate, and what TLS refuses is refused."""
    site = make_site(tmp_path)
    identity = (ACCEPTED | REFUSED)[kind](site.root)
    tls = ServerTLS.load(site.files)
    expected = verdict_of_tls(tls, identity)
    assert (expected is not None) is (kind in ACCEPTED)
    assert verdict(tls, identity) == expected


KEYS: dict[str, Any] = {
    "p256": lambda: ec.generate_private_key(ec.SECP256R1()),
    "p384": lambda: ec.generate_private_key(ec.SECP384R1()),
    "p192": lambda: ec.generate_private_key(ec.SECP192R1()),
    "ed25519": ed25519.Ed25519PrivateKey.generate,
    "ed448": ed448.Ed448PrivateKey.generate,
    "rsa1024": lambda: rsa.generate_private_key(65537, 1024),
    "rsa2048": lambda: rsa.generate_private_key(65537, 2048),
}
DIGESTS: dict[str, Any] = {"sha256": hashes.SHA256(), "sha384": hashes.SHA384(), "sha224": hashes.SHA224()}
LISTS = ("none", "current", "expired", "future", "leaf revoked", "intermediate revoked", "issuer's missing")


@cache
def key(kind: str, number: int) -> Any:
    """One key of a kind for each depth: making them costs most of the time."""
    return KEYS[kind]()


def sign(
    issuer: tuple[x509.Certificate, Any] | None, own: Any, name: str, digest: str, *, ca: bool, **options: Any
) -> x509.Certificate:
    """A certificate with any fault that is asked for."""
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    start, end = options.get("dates", (-1, 1))
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer[0].subject if issuer else subject)
        .public_key(own.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now() + start * DAY)
        .not_valid_after(now() + end * DAY)
        .add_extension(x509.BasicConstraints(ca=ca, path_length=options.get("length") if ca else None), critical=True)
    )
    if (usage := options.get("usage")) is not None:
        builder = builder.add_extension(x509.ExtendedKeyUsage([usage]), critical=options.get("critical", False))
    if (signs := options.get("signs")) is not None:
        names = ("digital_signature", "content_commitment", "key_encipherment", "data_encipherment", "key_agreement")
        others = ("key_cert_sign", "crl_sign", "encipher_only", "decipher_only")
        flags = dict.fromkeys((*names, *others), False)
        flags |= {"digital_signature": not ca or not signs, "key_cert_sign": ca and signs, "crl_sign": ca and signs}
        builder = builder.add_extension(x509.KeyUsage(**flags), critical=True)
    for extension, critical in options.get("extensions", ()):
        builder = builder.add_extension(extension, critical=critical)
    signer = issuer[1] if issuer else own
    own_digest = isinstance(signer, (ed25519.Ed25519PrivateKey, ed448.Ed448PrivateKey))
    if digest != "sha1":
        return builder.sign(signer, None if own_digest else DIGESTS[digest])
    made = crypto.X509.from_cryptography(builder.sign(signer, None if own_digest else hashes.SHA256()))
    if not own_digest:  # the library signs nothing by SHA-1 any more; OpenSSL does
        made.sign(crypto.PKey.from_cryptography_key(signer), "sha1")
    return made.to_cryptography()


def a_list(issuer: tuple[x509.Certificate, Any], revoked: Sequence[x509.Certificate], state: str) -> bytes:
    """A revocation list of an issuer that is current, expired or of the future."""
    first, last = {"expired": (-3, -1), "future": (1, 3)}.get(state, (-1, 1))
    builder = (
        x509.CertificateRevocationListBuilder()
        .issuer_name(issuer[0].subject)
        .last_update(now() + timedelta(days=first))
        .next_update(now() + timedelta(days=last))
    )
    for each in revoked:
        entry = x509.RevokedCertificateBuilder().serial_number(each.serial_number).revocation_date(now() - DAY)
        builder = builder.add_revoked_certificate(entry.build())
    own_digest = isinstance(issuer[1], (ed25519.Ed25519PrivateKey, ed448.Ed448PrivateKey))
    found = builder.sign(issuer[1], None if own_digest else hashes.SHA256())
    return found.public_bytes(serialization.Encoding.PEM)


usual = st.sampled_from([(-1, 1)] * 5 + [(-3, -1), (1, 3)])
extensions = st.sampled_from([[]] * 3 + [[(UNKNOWN, True)], [(UNKNOWN, False)], agtp_extensions()])
digests = st.sampled_from(["sha256"] * 6 + ["sha1", "sha384", "sha224"])
member = st.fixed_dictionaries(
    {
        "kind": st.sampled_from(["p256"] * 5 + list(KEYS)),
        "digest": digests,
        "dates": usual,
        "extensions": extensions,
        "signs": st.sampled_from([None, None, True, True, False]),
        "usage": st.sampled_from(
            [None, None, ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
            + [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE]
        ),
        "critical": st.booleans(),
        "ca": st.sampled_from([True] * 7 + [False]),
        "length": st.sampled_from([None, None, None, 0, 1]),
    }
)
SEED = 20_261_128


@seed(SEED)
@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck), database=None)
@given(
    members=st.lists(member, min_size=1, max_size=6),
    lists=st.sampled_from(("none",) * 3 + LISTS),
    required=st.booleans(),
    shuffled=st.booleans(),
    own_list_state=st.sampled_from(["current"] * 3 + ["expired", "future"]),
)
def test_verdict_is_that_of_tls_for_drawn_chains(
    tmp_path_factory: pytest.TempPathFactory,
    members: list[dict[str, Any]],
    lists: str,
    required: bool,
    shuffled: bool,
    own_list_state: str,
) -> None:
    """Whatever key, hash, dates, purpose, depth, extensions and lists a chain has: TLS has the same verdict of it."""
    tls, identity = draw_case(tmp_path_factory.mktemp("drawn"), members, lists, required, own_list_state)
    expected = verdict_of_tls(tls, identity)
    if shuffled:
        identity = Identity(certificate=identity.certificate, key=identity.key, chain=identity.chain[::-1])
    SEEN[expected is not None] += 1
    assert verdict(tls, identity) == expected


SEEN = {True: 0, False: 0}


def draw_case(
    folder: Path, members: list[dict[str, Any]], lists: str, required: bool, state: str
) -> tuple[ServerTLS, Identity]:
    """A host's TLS with the lists, and a client's chain: its members from below the authority to the client's own."""
    site = make_site(folder)
    issuer: tuple[x509.Certificate, Any] = (site.root.certificate, site.root.key)
    issuers, made = [issuer], []
    for number, each in enumerate(members):
        options = dict(each)
        own = key(options.pop("kind"), number)
        last = number == len(members) - 1
        ca = options.pop("ca") and not last
        certificate = sign(issuer, own, f"member {number}", options.pop("digest"), ca=ca, **options)
        issuer = (certificate, own)
        issuers.append(issuer)
        made.append(certificate)
    options = {}
    if lists != "none":
        written = folder / "lists.pem"
        octets = b""
        for number, signer in enumerate(issuers[:-1]):
            if lists == "issuer's missing" and number == max(0, len(issuers) - 2):
                continue
            revoked = [made[number]] if lists == "leaf revoked" and number == len(made) - 1 else []
            revoked += [made[0]] if lists == "intermediate revoked" and number == 0 else []
            octets += a_list(signer, revoked, state if revoked or number else lists)
        written.write_bytes(octets or revocation_list(issue(name="another", authority=True)))
        options = {"client_crl": written, "crl_required": required}
    files = site.files.model_copy(update={name: (v,) if name == "client_crl" else v for name, v in options.items()})
    identity = Identity(certificate=made[-1], key=issuer[1], chain=tuple(reversed(made[:-1])))
    return ServerTLS.load(files), identity


SOUND = {"kind": "p256", "digest": "sha256", "dates": (-1, 1), "extensions": [], "signs": True, "ca": True}
STATES = [
    (depth, lists, required, state)
    for depth in (1, 2, 3)
    for lists in LISTS
    for required in (True, False)
    for state in ("current", "expired", "future")
]


@each_row("depth, lists, required, state", STATES)
def test_verdict_is_that_of_tls_for_every_state_of_lists(
    tmp_path_factory: pytest.TempPathFactory, depth: int, lists: str, required: bool, state: str
) -> None:
    """Whatever lists there are, of whom, in force or not: a chain without another fault has the verdict of TLS."""
    tls, identity = draw_case(tmp_path_factory.mktemp("lists"), [SOUND] * depth, lists, required, state)
    expected = verdict_of_tls(tls, identity)
    if "revoked" in lists and state != "future" and (depth > 1 or lists == "leaf revoked"):
        assert expected is None
    assert verdict(tls, identity) == expected


def test_drawn_chains_were_of_both_kinds() -> None:
    """The control of the test above: it saw accepted chains and refused ones."""
    if sum(SEEN.values()):
        assert min(SEEN.values()) > 10, SEEN


def test_without_a_purpose_no_chain_is_accepted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where OpenSSL cannot be asked for client certificates, nothing is accepted, not everything."""
    site = make_site(tmp_path)
    tls = ServerTLS.load(site.files)
    identity = ACCEPTED["agtp extensions"](site.root)
    assert verdict(tls, identity) is not None
    monkeypatch.setattr(chain_verification, "CAN_SET_PURPOSE", False)
    assert verdict(tls, identity) is None
