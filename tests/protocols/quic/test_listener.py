"""The QUIC listener on a real UDP port, beside the TLS listener whose factory it shares."""

from __future__ import annotations

import socket
import time
from pathlib import Path
from typing import Any

import pytest
import pytest_twisted
from aioquic.quic import events
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.connection import QuicConnection
from aioquic.quic.packet import QuicProtocolVersion

from agtphost.config.quic import QuicSection
from agtphost.errors import ConfigurationError
from agtphost.protocols.quic import listener
from agtphost.protocols.quic.listener import QuicListeningService
from tests.protocols.links import ask
from tests.protocols.loopback import PATIENCE, Host, Site, in_thread, make_site
from tests.protocols.test_tls import good

OK = b"AGTP/1.0 200 OK\r\n"


def exchange(site: Site, port: int, identity: Any) -> bytes:
    """One call by a blocking client; to be called in a thread."""
    configuration = QuicConfiguration(
        is_client=True,
        alpn_protocols=["agtp"],
        server_name="localhost",
        supported_versions=[QuicProtocolVersion.VERSION_1],
        certificate=identity.certificate,
        private_key=identity.key,
    )
    configuration.load_verify_locations(cafile=str(site.folder / "root.pem"))
    core = QuicConnection(configuration=configuration)
    answer, end, to = b"", time.monotonic() + PATIENCE, ("127.0.0.1", port)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as link:
        link.connect(to)
        core.connect(to, now=time.monotonic())
        core.send_stream_data(core.get_next_available_stream_id(), ask(), end_stream=True)
        while time.monotonic() < end:
            for octets, _ in core.datagrams_to_send(now=time.monotonic()):
                link.send(octets)
            due = core.get_timer()
            link.settimeout(max(0.001, min(1.0, (due or end) - time.monotonic())))
            try:
                core.receive_datagram(link.recv(65536), to, now=time.monotonic())
            except TimeoutError:
                core.handle_timer(now=time.monotonic())
            while (event := core.next_event()) is not None:
                if isinstance(event, events.StreamDataReceived):
                    answer += event.data
                    if event.end_stream:
                        core.close()
                        for octets, _ in core.datagrams_to_send(now=time.monotonic()):
                            link.send(octets)
                        return answer
                elif isinstance(event, events.ConnectionTerminated):
                    raise AssertionError(event)
    raise AssertionError("no answer")


def service_of(host: Host, **section: Any) -> QuicListeningService:
    return QuicListeningService(
        QuicSection(enabled=True, **section), host.tls, host.factory, host.service, host.reactor, "127.0.0.1", b"s" * 32
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
        assert quic.port is None and quic.endpoint.links == 0


def test_another_library_keeps_the_listener_from_starting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the library is not the one that is known, the service is a configuration error with the reason."""
    monkeypatch.setattr(listener, "find_fault", lambda: "aioquic 9.9 has no QuicConnection._streams")
    with pytest.raises(ConfigurationError) as raised:
        service_of(Host(make_site(tmp_path)))
    [problem] = raised.value.problems
    assert "9.9" in problem.message and "agtphost[quic]" in problem.hint
