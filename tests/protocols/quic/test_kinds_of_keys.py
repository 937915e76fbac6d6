"""Keys and numbers of certificates that a handshake takes: over QUIC as over TLS, from clients and from servers."""

from __future__ import annotations

import ssl
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aioquic import tls as quic_tls
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID

from agtphost.client import TLSRefused
from agtphost.client.tls import TLSSettings, stdlib_context
from agtphost.protocols import ServerTLS
from agtphost.vocabulary.quic_codes import CRYPTO_ERROR
from tests.client.quic.sessions import SessionClient, call_of, credentials_of
from tests.client.quic.test_server_chains import verdict_of_tls as verdict_on_server
from tests.protocols.authorities import Identity, issue, weak_key
from tests.protocols.loopback import Site
from tests.protocols.quic.network import Network, QuicHost, logged_failures, quic_site
from tests.protocols.test_chain_verification import verdict_of_tls as verdict_on_client

CURVES = {
    curve.name: curve
    for curve in (
        *(ec.SECP256R1(), ec.SECP384R1(), ec.SECP521R1()),
        *(ec.BrainpoolP256R1(), ec.BrainpoolP384R1(), ec.BrainpoolP512R1()),
    )
}
KEYS = {name: lambda curve=curve: ec.generate_private_key(curve) for name, curve in CURVES.items()} | {
    "ed25519": ed25519.Ed25519PrivateKey.generate,
    "ed448": ed448.Ed448PrivateKey.generate,
    "rsa": lambda: rsa.generate_private_key(public_exponent=65537, key_size=2048),
}
"""Other curves have no signature in TLS 1.3."""

WEAK = "RSA of 1024 bits"

ILLEGAL_PARAMETER = 47
"""An alert of TLS."""

SIGNED_BY = {
    "secp256r1": 0x0403,
    "secp384r1": 0x0503,
    "secp521r1": 0x0603,
    "brainpoolP256r1": 0x081A,
    "brainpoolP384r1": 0x081B,
    "brainpoolP512r1": 0x081C,
}
"""The number of each curve's algorithm in TLS 1.3."""


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return quic_site(tmp_path)


def is_served(network: Network, host: QuicHost, identity: Identity, site: Site) -> bool:
    """Return whether a host serves a client with these certificates."""
    client = SessionClient(network, credentials_of(site, identity)).connect()
    try:
        return client.call(call_of()).status == 200
    except TLSRefused:
        assert host.dispatcher.requests == [] and host.endpoint.links == 0
        return False


@pytest.mark.parametrize("kind", [*KEYS, WEAK])
def test_a_client_may_have_the_keys_that_tls_takes(site: Site, kind: str) -> None:
    """The signature of the handshake is that of the key's own algorithm; no other key is taken than by OpenSSL."""
    identity = issue(site.root, name="agent", key=weak_key() if kind == WEAK else KEYS[kind]())
    by_tls = verdict_on_client(ServerTLS.load(site.files), identity) is not None
    network = Network()
    host = QuicHost(network, site)
    assert is_served(network, host, identity, site) is by_tls
    assert by_tls is (kind != WEAK)


@pytest.mark.parametrize("kind", KEYS)
def test_a_server_may_have_the_keys_that_tls_takes(site: Site, tmp_path: Path, kind: str) -> None:
    """What the blocking client takes over TLS it takes over QUIC; the log has nothing of a client's refusal."""
    identity = issue(site.root, name="server", usage=ExtendedKeyUsageOID.SERVER_AUTH, key=KEYS[kind]())
    by_tls = verdict(site, identity, tmp_path)
    identity.save(site.folder, "server")
    network = Network()
    with logged_failures() as seen:
        host = QuicHost(network, site)
        client = SessionClient(network, credentials_of(site)).connect()
        if by_tls:
            assert client.call(call_of()).status == 200
        else:
            assert isinstance(client.session.fault, TLSRefused) and host.dispatcher.requests == []
    assert seen == []


def verdict(site: Site, identity: Identity, folder: Path) -> bool:
    """Return whether the blocking client takes a server over TLS."""
    try:
        return verdict_on_server(stdlib_context(TLSSettings(trust=site.folder / "root.pem")), identity, folder)
    except ssl.SSLError:
        return False


@pytest.mark.parametrize("others", [15, 16, 17, 200])
def test_any_number_of_certificates_may_be_shown(site: Site, others: int) -> None:
    """Their octets are bounded, as over TLS, and not how many there are."""
    unused: list[Any] = [issue(site.root, name="unused").certificate] * others
    identity = replace(issue(site.root, name="agent"), chain=tuple(unused))
    assert verdict_on_client(ServerTLS.load(site.files), identity) is not None
    network = Network()
    assert is_served(network, QuicHost(network, site), identity, site)


@pytest.mark.parametrize("named", SIGNED_BY)
@pytest.mark.parametrize("curve", ["secp256r1", "secp521r1", "brainpoolP256r1"])
def test_a_client_signs_by_the_algorithm_of_its_curve(
    site: Site, monkeypatch: pytest.MonkeyPatch, curve: str, named: str
) -> None:
    """A client that names the algorithm of another curve is refused by an alert, also where the hash is the same."""
    push, sides = quic_tls.push_certificate_verify, iter(("the host", "the client"))

    def push_other(octets: Any, verify: Any) -> None:
        if next(sides) == "the client":
            verify.algorithm = SIGNED_BY[named]
        push(octets, verify)

    monkeypatch.setattr(quic_tls, "push_certificate_verify", push_other)
    identity = issue(site.root, name="agent", key=KEYS[curve]())
    network = Network()
    host = QuicHost(network, site)
    client = SessionClient(network, credentials_of(site, identity)).connect()
    if named == curve:
        assert client.call(call_of()).status == 200
    else:
        with pytest.raises(TLSRefused):
            client.call(call_of())
        assert client.core._close_event.error_code == CRYPTO_ERROR + ILLEGAL_PARAMETER
        assert host.dispatcher.requests == [] and host.endpoint.links == 0
    assert next(sides, None) is None
