"""Requests that come in the datagram that ends the handshake: they are read together with the client's certificate."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agtphost.protocols.quic.core import SHORT_FRAME
from agtphost.vocabulary.quic_codes import CERTIFICATE_REQUIRED, CRYPTO_ERROR
from tests.protocols.authorities import Identity, issue
from tests.protocols.links import ask
from tests.protocols.loopback import Site
from tests.protocols.quic.network import Network, QuicClient, QuicHost, quic_site
from tests.protocols.test_tls import good

UNKNOWN_AUTHORITY = 48
"""An alert of TLS."""


class EagerClient(QuicClient):
    """A client that sends its request with the last octets of its handshake."""

    def _events(self) -> None:
        was_connected = self.is_connected
        super()._events()
        if self.is_connected and not was_connected:
            self.core.send_stream_data(0, ask(), end_stream=True)


def connect(site: Site, identity: Identity | None) -> tuple[QuicHost, EagerClient, int]:
    """Let a client call; return also how many octets of requests its last datagram of the handshake brought."""
    network = Network()
    host = QuicHost(network, site)
    client = EagerClient(network, site, identity)
    network.run(lambda: host.endpoint.links)
    [link] = host.endpoint._links
    core: Any = link.core
    core.release = lambda: None  # The test looks at what it has read.
    network.run(lambda: core._handshake_complete)
    read = core.fresh_octets
    network.run(lambda: client.ended or client.closed)
    return host, client, read


def test_a_request_with_the_end_of_the_handshake_is_answered(tmp_path: Path) -> None:
    """The client is known by then: its certificate is the caller's."""
    site = quic_site(tmp_path)
    host, client, read = connect(site, good(site.root))
    [peer] = host.dispatcher.peers
    assert read == len(ask()) - SHORT_FRAME and client.answers[0].startswith(b"AGTP/1.0 200 OK")
    assert peer.certificate is not None


@pytest.mark.parametrize("is_shown", [True, False], ids=["another authority", "no certificate"])
def test_a_request_of_a_refused_client_is_never_read(tmp_path: Path, is_shown: bool) -> None:
    """It is decrypted with the rest of its datagram, and reaches neither a stream nor the dispatcher."""
    site = quic_site(tmp_path, "required")
    host, client, read = connect(site, good(issue(name="other", authority=True)) if is_shown else None)
    alert = UNKNOWN_AUTHORITY if is_shown else CERTIFICATE_REQUIRED
    assert read == len(ask()) - SHORT_FRAME
    assert client.closed is not None and client.closed.error_code == CRYPTO_ERROR + alert
    assert (host.dispatcher.requests, host.endpoint.streams, host.endpoint.links) == ([], 0, 0)
    assert not any(b"AGTP" in each for each in client.answers.values())
