"""The Twisted client on a machine whose clock is set ahead: its connections and deadlines go by one that is not."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
import pytest_twisted
from twisted.internet.defer import Deferred

from tests.client.quic.test_blocking import QuicHost
from tests.client.quic.test_twisted import client_of, event
from tests.protocols.links import FakeDispatcher
from tests.protocols.loopback import Site, make_site

HOUR = 3_600.0


class SteadyReactor:
    """The reactor as a machine has it whose clock is not set."""

    def __init__(self, reactor: Any) -> None:
        self._reactor = reactor

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reactor, name)

    def seconds(self) -> float:
        return time.monotonic()


class OtherHost(QuicHost):
    """A host on another machine."""

    def __init__(self, site: Site, dispatcher: FakeDispatcher | None = None) -> None:
        super().__init__(site, dispatcher)
        self.reactor = SteadyReactor(self.reactor)
        self.factory._clock = self.reactor


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return make_site(tmp_path)


def set_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set the system's clock, which the reactor reads, an hour ahead."""
    from twisted.internet import reactor

    monkeypatch.setattr(reactor, "seconds", lambda: time.time() + HOUR)


@pytest.mark.parametrize("quic", [True, False], ids=["quic", "tls"])
@pytest_twisted.ensureDeferred
async def test_a_clock_that_is_set_ahead_during_a_call_ends_none(
    site: Site, monkeypatch: pytest.MonkeyPatch, quic: bool
) -> None:
    """The call is answered by the same connection, which serves the next one too."""
    dispatcher = FakeDispatcher()
    async with OtherHost(site, dispatcher) as host, client_of(site, quic=quic) as client:
        calling = [Deferred.fromCoroutine(client.call(host.uri, "QUERY"))]
        await event(lambda: dispatcher.waiting)
        set_ahead(monkeypatch)
        await event(lambda: True)
        calling.append(Deferred.fromCoroutine(client.call(host.uri, "QUERY")))
        await event(lambda: calling[0].called or len(dispatcher.waiting) == 2)
        dispatcher.answer()
        dispatcher.answer()
        assert [(await each).status for each in calling] == [200, 200]
        if quic:
            assert host.factory.connections == 1


@pytest_twisted.ensureDeferred
async def test_a_clock_that_is_set_ahead_during_a_handshake_does_not_end_it(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The clock is set when the first datagram has arrived; the call is answered."""
    async with OtherHost(site) as host, client_of(site) as client:
        receive = host.quic.endpoint.datagramReceived

        def receive_first(datagram: bytes, addr: Any) -> None:
            monkeypatch.setattr(host.quic.endpoint, "datagramReceived", receive)
            set_ahead(monkeypatch)
            receive(datagram, addr)

        monkeypatch.setattr(host.quic.endpoint, "datagramReceived", receive_first)
        assert (await client.call(host.uri, "QUERY")).status == 200
        assert host.factory.connections == 1
