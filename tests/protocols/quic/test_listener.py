"""The QUIC listener on a real UDP port, beside the TLS listener whose factory it shares."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
import pytest_twisted
from twisted.internet.defer import Deferred

from agtphost.config.quic import QuicSection
from agtphost.errors import ConfigurationError
from agtphost.protocols.quic import listener
from agtphost.protocols.quic.listener import QuicListeningService
from tests.protocols.authorities import Identity
from tests.protocols.links import FakeDispatcher, ask
from tests.protocols.loopback import Host, Site, in_thread, make_site
from tests.protocols.quic.blocking import BlockingQuic
from tests.protocols.test_listener import until
from tests.protocols.test_tls import good

OK = b"AGTP/1.0 200 OK\r\n"


def exchange(site: Site, port: int, identity: Identity) -> bytes:
    """One call; to be called in a thread."""
    certificate, key = identity.save(site.folder, "quic-client")
    with BlockingQuic(site.folder / "root.pem", port, certificate=certificate, key=key) as client:
        return client.call(ask())


def service_of(host: Host, **section: int) -> QuicListeningService:
    settings = QuicSection(enabled=True, **section)
    return QuicListeningService(
        settings, host.tls, host.factory, host.service, host.reactor, "127.0.0.1", lambda: b"s" * 32
    )


@pytest_twisted.ensureDeferred
async def test_both_carriers_have_one_port_and_one_count(tmp_path: Path) -> None:
    """The UDP port has the number of the TCP port; calls of both carriers are answered and counted together."""
    site = make_site(tmp_path)
    identity = good(site.root)
    host = Host(site)
    quic = service_of(host)
    quic.startService()
    async with host:
        assert await quic.when_listening() == host.port
        assert (await in_thread(exchange, site, host.port, identity)).startswith(OK)
        assert (await in_thread(host.exchange, site.client(identity))).startswith(OK)
        over_quic, over_tls = host.dispatcher.peers
        assert (over_quic.carrier, over_tls.carrier) == ("quic", "tls")
        assert over_quic.certificate == over_tls.certificate
        await quic.stopService()
        assert quic.port == host.port, "it closes with that of TLS"
    assert quic.port is None and quic.endpoint.links == 0


@pytest_twisted.ensureDeferred
async def test_a_second_stop_cuts_no_call(tmp_path: Path) -> None:
    """While both listeners wait for the answers that they owe, another stop ends with the first, as over TLS."""
    site = make_site(tmp_path)
    dispatcher = FakeDispatcher()
    host = Host(site, dispatcher)
    quic = service_of(host)
    quic.startService()
    host.service.startService()
    asking = Deferred.fromCoroutine(in_thread(exchange, site, host.port, good(site.root)))
    await until(host, lambda: dispatcher.waiting)
    await quic.stopService()
    stopped = host.service.stopService()
    again = quic.stopService()
    assert quic.port is not None and host.factory.calls == 1
    dispatcher.answer()
    assert (await asking).startswith(OK)
    await stopped
    await again
    assert quic.port is None and quic.endpoint.links == 0


def send_and_leave(port: int, datagram: bytes) -> None:
    """Send a datagram, and close the port before the answer can arrive: the system reports that to the listener."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as leaving:
        leaving.sendto(datagram, ("127.0.0.1", port))


@pytest_twisted.ensureDeferred
async def test_a_peer_whose_port_is_closed_ends_nothing(tmp_path: Path) -> None:
    """Answers to ports that are closed by then bring reports of ICMP; the listener goes on, at the same port."""
    site = make_site(tmp_path)
    identity = good(site.root)
    host = Host(site)
    quic = service_of(host)
    quic.startService()
    async with host:
        initial = BlockingQuic(site.folder / "root.pem", host.port)
        [(first, _), *_] = initial._core.datagrams_to_send(now=0.0)
        initial._socket.close()
        unknown = bytes([0x40]) + b"u" * 99  # of a connection that is not known: answered with a stateless reset
        other_version = bytes([0xC0]) + b"\x0a\x0a\x0a\x0a" + first[5:]
        answered = quic.endpoint.transport.socket
        for datagram in (first, unknown, other_version) * 3:
            send_and_leave(host.port, datagram)
            assert (await in_thread(exchange, site, host.port, identity)).startswith(OK)
        assert quic.endpoint.transport.socket is answered and quic.port == host.port
        await quic.stopService()


@pytest_twisted.ensureDeferred
async def test_a_taken_port_keeps_the_host_from_starting(tmp_path: Path) -> None:
    """A host that was told to listen for QUIC does not go on without it: the start names the port and the key."""
    site = make_site(tmp_path)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(("127.0.0.1", 0))
        async with Host(site) as host:
            quic = service_of(host, port=taken.getsockname()[1])
            with pytest.raises(ConfigurationError) as raised:
                quic.startService()
            [problem] = raised.value.problems
            assert f"UDP port {taken.getsockname()[1]}" in problem.message and "[quic] port" in problem.hint
            await quic.stopService()


def test_another_library_keeps_the_listener_from_starting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the library is not the one that is known, the service is a configuration error with the reason."""
    monkeypatch.setattr(listener, "find_fault", lambda: "aioquic 9.9 has no QuicConnection._streams")
    with pytest.raises(ConfigurationError) as raised:
        service_of(Host(make_site(tmp_path)))
    [problem] = raised.value.problems
    assert "9.9" in problem.message and "agtphost[quic]" in problem.hint
