"""Hosts that refuse new connections: the clients go on elsewhere, and say what they were told where they cannot."""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import ExitStack
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import pytest
import pytest_twisted

from agtphost.client import CannotConnect
from agtphost.client.quic import aio as quic_aio
from agtphost.client.quic import blocking, twisted
from agtphost.config.quic import QuicSection
from agtphost.protocols.quic.datagrams import QuicEndpoint
from agtphost.protocols.quic.retry_tokens import LIFETIME
from tests.client.quic.test_addresses import CALLS, SILENT, resolved
from tests.client.quic.test_auto import Memory, Publishing, make, uri
from tests.client.quic.test_blocking import QuicHost, closed_port
from tests.protocols.loopback import Site, make_site

__all__ = ["make"]

STOPPING = "127.0.0.3"
"""An address of the name where a host stops."""


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return make_site(tmp_path)


@pytest.fixture
def reactor() -> Any:
    from twisted.internet import reactor

    return reactor


def stopping_port(host: QuicHost) -> Any:
    """Open the UDP port of a host that stops, with the number of another one's port, at another address."""
    endpoint = QuicEndpoint(QuicSection(), host.tls, host.factory, host.reactor, lambda: b"o" * 32)
    endpoint.drain()
    return host.reactor.listenUDP(host.port, endpoint, interface=STOPPING)


@pytest.mark.usefixtures("long_patience")
@pytest.mark.parametrize("call", CALLS)
@pytest_twisted.ensureDeferred
async def test_another_address_is_tried_where_a_host_stops(
    call: Callable[..., Any], site: Site, reactor: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A standby with the same name takes the calls, as where a port of TCP is closed."""
    async with QuicHost(site) as host:
        port = stopping_port(host)
        options = {"trust": site.folder / "root.pem", "timeout": 20.0, "quic": True}
        with resolved(reactor, monkeypatch, host.port, STOPPING, "127.0.0.1"):
            assert await call(reactor, options, host.uri) == 200
        await port.stopListening()
    assert [peer.carrier for peer in host.dispatcher.peers] == ["quic"]


@pytest.mark.parametrize("order", [(SILENT, STOPPING), (STOPPING, SILENT)], ids=["silent-first", "stopping-first"])
@pytest.mark.parametrize("call", CALLS)
@pytest_twisted.ensureDeferred
async def test_what_a_host_says_counts_more_than_silence(
    call: Callable[..., Any], order: tuple[str, str], site: Site, reactor: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where one address of a name is silent and another refuses, the error is the refusal, whatever answers by TCP."""
    async with QuicHost(site) as host:
        with ExitStack() as stack:
            silent = stack.enter_context(socket.socket(type=socket.SOCK_DGRAM))
            silent.bind((SILENT, host.port))
            left = iter([0.05 if each == SILENT else 1e6 for each in order])
            for module in (blocking, quic_aio, twisted):
                monkeypatch.setattr(module, "choose_patience", lambda seconds, *, alone: next(left))
            port = stopping_port(host)
            options = {"trust": site.folder / "root.pem", "timeout": 20.0, "quic": True}
            stack.enter_context(resolved(reactor, monkeypatch, host.port, *order))
            with pytest.raises(CannotConnect, match="takes no more connections: it shuts down"):
                await call(reactor, options, host.uri)
            await port.stopListening()
    assert host.dispatcher.requests == []


@pytest.mark.parametrize("call", CALLS)
@pytest_twisted.ensureDeferred
async def test_tls_is_looked_for_at_its_own_port(call: Callable[..., Any], site: Site, reactor: Any) -> None:
    """Where the client knows the port of TLS, the error of a host that is silent by UDP says what answers there."""
    uri = f"agtp://127.0.0.1:{closed_port()}"
    options: dict[str, Any] = {"trust": site.folder / "root.pem", "timeout": 20.0, "quic": True}
    with socket.create_server(("127.0.0.1", 0)) as answering:
        port = answering.getsockname()[1]
        with pytest.raises(CannotConnect) as raised:
            await call(reactor, options | {"tls_port": port}, uri)
        assert f"does not answer by UDP; without --quic it answers, by TCP at port {port}." in raised.value.explanation
        assert "port in the URI" not in raised.value.remedy
        with pytest.raises(CannotConnect, match=r"neither by UDP nor by TCP\..*call without --quic"):
            await call(reactor, options, uri)
    with pytest.raises(CannotConnect) as raised:
        await call(reactor, options | {"tls_port": port}, uri)
    assert f"answers neither by UDP nor by TCP at port {port}." in raised.value.explanation
    assert "--quic" not in raised.value.remedy


@pytest.mark.usefixtures("long_head_start")
@pytest_twisted.ensureDeferred
async def test_a_refusal_over_quic_is_replaced_by_tls_without_a_wait(site: Site, make: Callable[..., Any]) -> None:
    """A host that takes no more connections by QUIC and still some by TLS, as one whose [quic] is turned off."""
    dispatcher, reported = Publishing(), []
    async with QuicHost(site, dispatcher) as host:
        host.quic.endpoint.drain()
        async with make(on_fallback=reported.append, carrier_memory=Memory(host.quic.port)) as client:
            assert (await client.call(uri(host), "BOOK")).status == 200
    assert dispatcher.calls == [("BOOK", "tls")]
    assert [each.cause for each in reported] == ["The host takes no more connections: it shuts down."]


@pytest.mark.usefixtures("long_patience")
@pytest.mark.parametrize("call", CALLS)
@pytest_twisted.ensureDeferred
async def test_a_proof_that_came_too_late_is_got_anew(call: Callable[..., Any], site: Site, reactor: Any) -> None:
    """A client that is told so begins its handshake again without the proof, once, and makes its call."""
    host = QuicHost(site)
    host.section = QuicSection(enabled=True, retry="always")
    async with host:
        moments = chain((0.0, 0.0), repeat(LIFETIME + 1))
        host.quic.endpoint._wall = lambda: next(moments)
        options = {"trust": site.folder / "root.pem", "timeout": 20.0, "quic": True}
        assert await call(reactor, options, host.uri) == 200
        assert host.quic.endpoint.counts.handshakes["late"] == 1


@pytest.fixture
def long_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no address count as silent, however busy the machine is."""
    for module in (blocking, quic_aio, twisted):
        monkeypatch.setattr(module, "choose_patience", lambda seconds, *, alone: 1e6)


@pytest.fixture
def long_head_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give QUIC all the time that a busy machine takes, before TLS is tried besides."""
    monkeypatch.setattr("agtphost.client.carrier_race.HEAD_START", 3600.0)
    monkeypatch.setattr("agtphost.client.tcp_rival.HEAD_START", 3600.0)
