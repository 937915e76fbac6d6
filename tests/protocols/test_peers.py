"""What is read of a client's certificate is remembered, and is what would be read anew."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from OpenSSL import crypto

from agtphost.identity import certificates
from agtphost.identity.authorities import digest_of
from agtphost.identity.certificates import parse_peer_certificate, refused_critical_extensions
from agtphost.protocols import peers
from agtphost.protocols.peers import peer_of
from tests.protocols.authorities import UNKNOWN, Identity, agtp_extensions, issue


def connection(*chain: Identity) -> Any:
    """What OpenSSL says after a handshake with this chain."""
    shown = [crypto.X509.from_cryptography(each.certificate) for each in chain]
    return SimpleNamespace(
        get_peer_certificate=lambda: shown[0] if shown else None,
        get_verified_chain=lambda: shown or None,
        get_servername=lambda: b"Host.Example",
    )


def der(identity: Identity) -> bytes:
    return identity.certificate.public_bytes(Encoding.DER)


def test_who_connects_again_is_who_it_was_and_nobody_else() -> None:
    """Each certificate under each chain by itself; what is remembered is what is read of it."""
    root, other = issue(name="root", authority=True), issue(name="other", authority=True)
    middle = issue(root, name="middle", authority=True)
    first = issue(middle, name="first", extensions=agtp_extensions())
    second = issue(middle, name="second", extensions=agtp_extensions(b"b2" * 32))
    chains = ((first, middle, root), (second, middle, root), (first, middle, other), (first, root), (root,))
    for chain in (*chains, *chains):
        peer = peer_of(connection(*chain), "127.0.0.1")
        above = [each.certificate for each in chain[1:-1]]
        trusted = [digest_of(each.certificate) for each in chain[1:] or chain]
        assert peer.certificate == parse_peer_certificate(der(chain[0]), above, trusted)
        assert (peer.server_name, peer.address, peer.loopback) == ("host.example", "127.0.0.1", True)
    assert len({id(peer_of(connection(*chain), "x").certificate) for chain in (*chains, *chains)}) == len(chains)
    assert peer_of(connection(), "127.0.0.1").certificate is None
    one, two = peer_of(connection(*chains[0]), "127.0.0.1"), peer_of(connection(*chains[0]), "127.0.0.1")
    assert one.link is not two.link and one.leaving is not two.leaving


def test_a_certificate_is_read_once_and_a_long_one_each_time() -> None:
    short, long = issue(), issue(extensions=[(x509.UnrecognizedExtension(UNKNOWN.oid, b"x" * 9_000), False)])
    refused = issue(extensions=[(UNKNOWN, True)])
    with patch.object(peers, "parse_peer_certificate", wraps=parse_peer_certificate) as read:
        for _ in range(3):
            peer_of(connection(short), "x")
            peer_of(connection(long), "x")
    assert read.call_count == 1 + 3
    whole = certificates.x509.load_der_x509_certificate
    with patch.object(certificates.x509, "load_der_x509_certificate", wraps=whole) as loaded:
        for _ in range(3):
            assert refused_critical_extensions(der(short)) == ()
            assert refused_critical_extensions(der(refused)) == (UNKNOWN.oid.dotted_string,)
            assert refused_critical_extensions(der(long)) == ()
    assert loaded.call_count == 2 + 3
