"""Servers that break the rules of QUIC: the client ends the connection, and its error blames the server for that."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from agtphost.client.errors import ConnectionLost, HandshakeEnded, TLSRefused
from agtphost.protocols.quic.core import ServerCore
from tests.client.quic.sessions import SessionClient, call_of, credentials_of
from tests.protocols.loopback import Site
from tests.protocols.quic.network import HOST, Network, QuicHost, quic_site
from tests.protocols.quic.test_hostile_frames import number, send
from tests.rows import each_row


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return quic_site(tmp_path)


@each_row(
    ("octets", "told"),
    [
        (b"\x0a\x01\x01x", "0x4: Too many streams open"),  # a stream of the server
        (b"\x30datagram", "0xa: Unexpected DATAGRAM frame"),
        (b"\x12" + number((1 << 60) + 1), "0x7: Maximum Streams cannot exceed 2^60"),
        (b"\x21", "0x7: Unknown frame type"),
    ],
)
def test_a_server_that_breaks_the_rules_is_blamed_for_it(site: Site, octets: bytes, told: str) -> None:
    """The error has QUIC's code and says who ended the connection, and that the call may have been carried out."""
    client = client_of_frame(site, octets)
    assert isinstance(client.session.fault, ConnectionLost)
    assert client.session.fault.explanation == (
        f"The server broke the rules of QUIC (code {told}), and this client ended the connection, before it answered."
    )
    assert not client.session.fault.unprocessed


def client_of_frame(site: Site, octets: bytes) -> SessionClient:
    """Return a client that waits for an answer while its server sends these frames."""
    network = Network()
    host = QuicHost(network, site)
    host.dispatcher.handler = None
    client = SessionClient(network, credentials_of(site)).connect()
    client.ask(call_of())
    network.pass_time(0.1)
    [link] = host.endpoint._links
    send(SimpleNamespace(core=link.core, flush=link.flush, network=network), octets)  # type: ignore[arg-type]
    network.run(lambda: client.session.fault)
    return client


def test_a_message_of_tls_at_a_wrong_time_is_named(site: Site) -> None:
    """A KeyUpdate of TLS has no words of its own in the library: the alert is named."""
    client = client_of_frame(site, b"\x06\0\5\x18\0\0\1\0")
    assert isinstance(client.session.fault, TLSRefused)
    assert client.session.fault.explanation == "This client refused the server: alert 10 of TLS."


@each_row(
    ("surplus", "told"),
    [
        (b"\x10\x08" + bytes(8), "retry_source_connection_id"),  # though there was no Retry
        (b"\x1b\0" * 2, "transport parameter 0x1b is named twice"),
    ],
)
def test_a_handshake_that_breaks_the_rules_is_blamed_on_the_server(
    site: Site, surplus: bytes, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client says what was wrong; with ``quic="auto"`` it goes on with TLS, as after any handshake that ended."""
    serialize: Callable[..., bytes] = ServerCore._serialize_transport_parameters

    def serialize_wrongly(self: Any) -> bytes:
        return serialize(self) + surplus

    network = Network()
    QuicHost(network, site)
    with monkeypatch.context() as patch:
        patch.setattr(ServerCore, "_serialize_transport_parameters", serialize_wrongly)
        fault = SessionClient(network, credentials_of(site)).connect().session.fault
    assert isinstance(fault, HandshakeEnded)
    assert fault.explanation.startswith(f"The server broke the rules of QUIC (code 0x8: {told}")


@each_row(("is_used", "is_over"), [(True, True), (False, False)])
def test_a_reset_counts_by_the_connection_id_in_use(site: Site, is_used: bool, is_over: bool) -> None:
    """A token of an ID to which this client sends nothing resets nothing (RFC 9000 section 10.3.1)."""
    network = Network()
    QuicHost(network, site)
    client = SessionClient(network, credentials_of(site)).connect()
    client.call(call_of())
    chosen = client.core._peer_cid if is_used else client.core._peer_cid_available[0]
    network.receivers[client.address](b"\x40" + bytes(30) + chosen.stateless_reset_token, HOST)
    assert (client.session.fault is not None) is is_over
    if not is_over:
        assert client.call(call_of()).status == 200
