"""Servers' chains over QUIC have the verdict that the blocking client gives over TLS."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID

from agtphost.client import InvalidCall
from agtphost.client.quic.core import load_credentials
from agtphost.client.tls import TLSSettings, stdlib_context
from agtphost.identity.chain_verification import ChainRefused, ServerChainVerifier
from tests.protocols import authorities
from tests.protocols.authorities import DAY, UNKNOWN, Identity, agtp_extensions, issue, now
from tests.rows import each_row

SERVER = ExtendedKeyUsageOID.SERVER_AUTH


def server(issuer: Identity | None, **options: object) -> Identity:
    return issue(issuer, name="localhost", **{"usage": SERVER, **options})  # type: ignore[arg-type]


def constrained(root: Identity, name: str) -> Identity:
    """A server of an authority that may only name hosts below ``name``."""
    limits = x509.NameConstraints([x509.DNSName(name)], None)
    return server(authorities.intermediates(root, 1, extensions=[(limits, True)]))


CHAINS: dict[str, Callable[[Identity], Identity]] = {
    "plain": server,
    "no purpose": lambda root: issue(root, name="localhost", usage=None),
    "Ed25519": lambda root: server(root, key=ed25519.Ed25519PrivateKey.generate()),
    "RSA": lambda root: server(root, key=rsa.generate_private_key(65537, 2048)),
    "one intermediate": lambda root: server(authorities.intermediates(root, 1)),
    "five intermediates": lambda root: server(authorities.intermediates(root, 5)),
    "constrained to its name": lambda root: constrained(root, "localhost"),
    "constrained to others": lambda root: constrained(root, "example.com"),
    "unknown extension": lambda root: server(root, extensions=[(UNKNOWN, False)]),
    "unknown critical extension": lambda root: server(root, extensions=[(UNKNOWN, True)]),
    "extensions of an agent": lambda root: server(root, extensions=agtp_extensions()),
    "expired": lambda root: server(root, start=now() - 3 * DAY, end=now() - DAY),
    "not yet valid": lambda root: server(root, start=now() + DAY, end=now() + 2 * DAY),
    "self-signed": lambda root: server(None),
    "another authority": lambda root: server(issue(name="root", authority=True)),
    "issued by no authority": lambda root: server(issue(authorities.intermediates(root, 1), name="leaf that signs")),
    "expired intermediate": lambda root: server(
        authorities.intermediates(root, 1, start=now() - 3 * DAY, end=now() - DAY)
    ),
    "for clients": lambda root: server(root, usage=ExtendedKeyUsageOID.CLIENT_AUTH),
    "weak key": lambda root: server(root, key=authorities.weak_key()),
    "weak intermediate": lambda root: server(authorities.intermediates(root, 1, key=authorities.weak_key())),
}

TAKEN = {
    *("plain", "no purpose", "Ed25519", "RSA", "one intermediate", "five intermediates", "constrained to its name"),
    "unknown extension",
}


def verdict_of_tls(context: ssl.SSLContext, identity: Identity, folder: Path) -> bool:
    """Return whether the blocking client's context accepts a server, in a handshake in memory."""
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.set_ciphers("DEFAULT:@SECLEVEL=0")
    serving.load_cert_chain(*identity.save(folder, "shown"))
    forth, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    context.check_hostname = False  # the name is not what is compared here
    sides = context.wrap_bio(back, forth), serving.wrap_bio(forth, back, server_side=True)
    for _ in range(3):
        for side in sides:
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
            except ssl.SSLCertVerificationError:
                return False
    return sides[0].version() == "TLSv1.3"


def verdict(verifier: ServerChainVerifier, identity: Identity) -> bool:
    try:
        verifier.verify(identity.certificate, identity.chain)
    except ChainRefused:
        return False
    return True


def test_verdict_is_that_of_tls(tmp_path: Path) -> None:
    """What the client takes over TLS it takes over QUIC, and what it refuses there it refuses here."""
    root = issue(name="root", authority=True)
    trust, _ = root.save(tmp_path, "root")
    settings = TLSSettings(trust=trust)
    verifier = load_credentials(settings).verifier
    for kind, make in CHAINS.items():
        identity = make(root)
        expected = verdict_of_tls(stdlib_context(settings), identity, tmp_path)
        assert expected is (kind in TAKEN), kind
        assert verdict(verifier, identity) is expected, kind


def test_platform_authorities_count_without_a_file() -> None:
    """Without a file of authorities those of the platform count, and an unknown one does not."""
    verifier = load_credentials(TLSSettings()).verifier
    assert not verdict(verifier, server(issue(name="root", authority=True)))


def test_authorities_are_read_as_for_tls(tmp_path: Path, recwarn: pytest.WarningsRecorder) -> None:
    """OpenSSL reads the file; an authority with a negative number, as platforms have, brings no warning on stderr."""
    root, odd = issue(name="root", authority=True), issue(name="odd", authority=True)
    number = odd.certificate.serial_number
    encoded = number.to_bytes(number.bit_length() // 8 + 1, "big")
    # With most first octets OpenSSL would refuse some numbers, whose first nine bits are ones.
    octets = odd.certificate.public_bytes(Encoding.DER).replace(encoded, b"\x80" + encoded[1:], 1)
    (trust := tmp_path / "trust.pem").write_text(
        ssl.DER_cert_to_PEM_cert(octets) + root.certificate.public_bytes(Encoding.PEM).decode()
    )
    settings, shown = TLSSettings(trust=trust), server(root)
    assert verdict_of_tls(stdlib_context(settings), shown, tmp_path)
    recwarn.clear()
    assert verdict(load_credentials(settings).verifier, shown)
    assert [str(each.message) for each in recwarn.list] == []


@each_row("kind", ["no certificate", "another key", "no key", "secp256k1", "no authority"])
def test_unusable_files_are_named(kind: str, tmp_path: Path) -> None:
    """Files that TLS does not take are refused in its words, and a key that QUIC cannot use makes no anonymous call."""
    curve = ec.SECP256K1() if kind == "secp256k1" else ec.SECP256R1()
    mine = issue(key=ec.generate_private_key(curve))
    certificate, key = mine.save(tmp_path, "mine")
    trust: Path | None = None
    if kind == "no certificate":
        certificate.write_text("nothing")
    elif kind == "another key":
        key.write_bytes(issue().key_pem())
    elif kind == "no key":
        key.write_text("nothing")
    elif kind == "no authority":
        trust = key
    with pytest.raises(InvalidCall) as refused:
        load_credentials(TLSSettings(trust=trust, cert=certificate, key=key))
    messages = {"secp256k1": "cannot use", "no authority": "holds no CA"}
    assert messages.get(kind, "not a certificate and its private key") in str(refused.value)


def test_another_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the installed library is not the one that is known, no call is made by it."""
    monkeypatch.setattr("agtphost.client.quic.core.find_fault", lambda: "aioquic 9.9 has no QuicConnection._streams")
    with pytest.raises(InvalidCall, match=r"9\.9.*agtphost\[quic\]"):
        load_credentials(TLSSettings())
