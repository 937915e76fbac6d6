"""Certificates that are long: what TLS takes is taken over QUIC, and what it refuses is refused, from either side."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID

from agtphost.client import TLSRefused
from agtphost.client.tls import TLSSettings, stdlib_context
from agtphost.protocols import ServerTLS
from agtphost.vocabulary.quic_codes import CRYPTO_ERROR
from tests.client.quic.sessions import SessionClient, call_of, credentials_of
from tests.client.quic.test_server_chains import verdict_of_tls as verdict_on_server
from tests.protocols.authorities import Identity, issue
from tests.protocols.loopback import Site
from tests.protocols.quic.network import Network, QuicHost, logged_failures, quic_site
from tests.protocols.test_chain_verification import verdict_of_tls as verdict_on_client

LONGEST = 102_400
"""Octets that OpenSSL takes."""

ILLEGAL_PARAMETER = 47
"""An alert of TLS."""

AROUND = 9
"""Octets of the message besides one certificate: its context, and the lengths of the list, of it, of its extensions."""


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return quic_site(tmp_path)


def long(root: Identity, octets: int, usage: x509.ObjectIdentifier = ExtendedKeyUsageOID.CLIENT_AUTH) -> Identity:
    """A certificate whose message has so many octets; a signature and a serial number have one more or less."""
    name, size = x509.ObjectIdentifier("1.3.6.1.4.1.55555.9"), octets - 500
    while True:
        filled = [(x509.UnrecognizedExtension(name, bytes(size)), False)]
        found = issue(root, name="long", usage=usage, extensions=filled)
        if (missing := octets - AROUND - len(found.certificate.public_bytes(Encoding.DER))) == 0:
            return found
        size += missing


@pytest.mark.parametrize(("octets", "is_taken"), [(17_000, True), (LONGEST, True), (LONGEST + 1, False)])
def test_a_client_may_show_as_much_as_over_tls(site: Site, octets: int, is_taken: bool) -> None:
    """A chain that OpenSSL does not read is refused, by the same alert, and the longest that it reads is served."""
    identity = long(site.root, octets)
    assert (verdict_on_client(ServerTLS.load(site.files), identity) is not None) is is_taken
    network = Network()
    host = QuicHost(network, site)
    client = SessionClient(network, credentials_of(site, identity)).connect()
    if is_taken:
        assert client.call(call_of()).status == 200
        [peer] = host.dispatcher.peers
        assert peer.certificate is not None
        return
    with pytest.raises(TLSRefused):
        client.call(call_of())
    assert client.session.fault is not None and host.dispatcher.requests == [] and host.endpoint.links == 0
    assert client.core._close_event.error_code == CRYPTO_ERROR + ILLEGAL_PARAMETER


@pytest.mark.parametrize(("octets", "is_taken"), [(17_000, True), (LONGEST, True), (LONGEST + 1, False)])
def test_a_server_may_show_as_much_as_over_tls(site: Site, tmp_path: Path, octets: int, is_taken: bool) -> None:
    """The client has the limit too; a host with a long chain makes no line in its log for each client."""
    identity = long(site.root, octets, ExtendedKeyUsageOID.SERVER_AUTH)
    trust = TLSSettings(trust=site.folder / "root.pem")
    identity.save(site.folder, "server")
    if is_taken:
        assert verdict_on_server(stdlib_context(trust), identity, tmp_path)
    else:
        with pytest.raises(ssl.SSLError, match="excessive message size"):
            verdict_on_server(stdlib_context(trust), identity, tmp_path)
    network = Network()
    with logged_failures() as seen:
        QuicHost(network, site)
        client = SessionClient(network, credentials_of(site)).connect()
        if is_taken:
            assert client.call(call_of()).status == 200
        else:
            assert isinstance(client.session.fault, TLSRefused)
    assert seen == []
