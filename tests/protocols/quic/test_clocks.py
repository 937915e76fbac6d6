"""Clocks that jump: a machine that was suspended finds that hours have passed, and nothing on it hangs or spins."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from twisted.internet.base import DelayedCall
from twisted.internet.defer import succeed
from twisted.internet.task import Clock

from agtphost.client.errors import ClientError, ConnectionLost
from agtphost.client.quic.session import PING_SECONDS
from tests.client.quic.sessions import SessionClient, call_of, credentials_of
from tests.protocols.links import FakeDispatcher, Handler, at_once, reply
from tests.protocols.loopback import Site
from tests.protocols.quic.network import Network, QuicHost, quic_site

HOUR = 3_600.0


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return quic_site(tmp_path)


class OwnClock:
    """The clock of one machine of a network."""

    def __init__(self, clock: Clock) -> None:
        self._clock, self._ahead = clock, 0.0
        self._calls: list[DelayedCall] = []

    def seconds(self) -> float:
        return self._clock.seconds() + self._ahead

    def callLater(self, seconds: float, function: Callable[..., object], *given: Any) -> _OwnCall:
        call: Any = self._clock.callLater(seconds, function, *given)
        self._calls = [each for each in self._calls if each.active()] + [call]
        return _OwnCall(self, call)

    def jump(self, seconds: float) -> None:
        """Let the machine find that so many seconds have passed: what was due in them is done now."""
        self._ahead += seconds
        for call in self._calls:
            if call.active():
                call.reset(max(0.0, call.getTime() - self._clock.seconds() - seconds))

    def until(self, moment: float) -> float:
        return moment + self._ahead


class _OwnCall:
    """A call that says when it is due by its machine's clock."""

    def __init__(self, clock: OwnClock, call: Any) -> None:
        self._clock, self._call = clock, call
        self.active, self.cancel = call.active, call.cancel

    def getTime(self) -> float:
        return self._clock.until(self._call.getTime())


class Machine:
    """A network as one machine sees it."""

    def __init__(self, network: Network) -> None:
        self.clock: Any = OwnClock(network.clock)
        self.receivers, self.carry, self.run = network.receivers, network.carry, network.run


class Pair:
    """A host and a client, each with its own clock."""

    def __init__(self, site: Site, handler: Handler | None = at_once, **section: Any) -> None:
        self.network = Network()
        here, there = Machine(self.network), Machine(self.network)
        self.clocks = {"host": there.clock, "client": here.clock}
        self.host = QuicHost(there, site, FakeDispatcher(handler), **section)  # type: ignore[arg-type]
        self._here, self._credentials = here, credentials_of(site)
        self.client = self.dial()

    def dial(self) -> SessionClient:
        """Begin another connection of the client."""
        return SessionClient(self._here, self._credentials)  # type: ignore[arg-type]

    def jump(self, *machines: str) -> float:
        """Suspend machines for an hour; return when they go on."""
        for each in machines:
            self.clocks[each].jump(HOUR)
        self.host.factory.sweep()
        return self.network.clock.seconds()

    def redial(self) -> None:
        """Check that a call is answered, over another connection where this one has ended, and that nothing is left."""
        if not self.client.session.reusable:
            self.client = self.dial().connect()
        if not self.host.dispatcher.handler:
            self.host.dispatcher.handler = at_once
        assert self.client.call(call_of()).status == 200
        self.network.pass_time(self.host.factory.limits.idle_timeout + 10)
        self.host.factory.sweep()
        self.network.pass_time(10)
        assert self.host.endpoint.links == 0 == self.host.endpoint.connection_ids


WHO = pytest.mark.parametrize("who", [("host",), ("client",), ("host", "client")], ids="+".join)


@WHO
def test_a_call_after_an_hour_is_answered(site: Site, who: tuple[str, ...]) -> None:
    """An idle connection is over on a machine that was suspended; the other one learns of it with its next packet."""
    pair = Pair(site)
    pair.client.connect().call(call_of())
    pair.network.pass_time(1)
    began = pair.jump(*who)
    pair.network.pass_time(0.1)
    if pair.client.session.reusable:
        with pytest.raises(ConnectionLost, match="does not know this connection"):
            pair.client.call(call_of())
        assert who == ("host",) and pair.network.clock.seconds() - began < 0.2
    pair.redial()


@WHO
@pytest.mark.parametrize("ends", [False, True], ids=["serves", "stops"])
def test_a_client_that_waits_learns_that_its_host_was_suspended(site: Site, who: tuple[str, ...], ends: bool) -> None:
    """It sends nothing but PINGs, which are short: their reset is shorter. It has waited for a minute in silence."""
    pair = Pair(site, None)
    pair.client.connect().ask(call_of())
    pair.network.pass_time(1)
    if ends:
        pair.host.endpoint.drain()
    began = pair.jump(*who)
    with pytest.raises(ConnectionLost):
        pair.client.wait()
    assert pair.network.clock.seconds() - began <= PING_SECONDS
    if not ends:
        pair.redial()


@WHO
def test_a_long_answer_after_an_hour_ends_or_goes_on(site: Site, who: tuple[str, ...]) -> None:
    """Its client learns of the end within the pause of its PINGs, however little is under way."""
    pair = Pair(site, lambda request, *_: succeed(reply(request, bytes(3_000_000))))
    pair.client.connect().ask(call_of())
    pair.network.pass_time(0.15)
    began = pair.jump(*who)
    with pytest.raises(ConnectionLost):
        pair.client.wait()
    assert pair.network.clock.seconds() - began <= PING_SECONDS
    pair.redial()


@WHO
@pytest.mark.parametrize("delays", [0.5, 1.5, 2.5, 3.5, 4.5, 5.5])
@pytest.mark.parametrize("retry", ["pressed", "always"])
def test_a_handshake_that_is_suspended_ends_or_goes_on(
    site: Site, who: tuple[str, ...], delays: float, retry: str
) -> None:
    """Wherever an hour passes within it: the client is served, or knows soon that it has to begin again."""
    pair = Pair(site, retry=retry)
    pair.network.pass_time(delays * pair.network.delay)
    began = pair.jump(*who)
    try:
        assert pair.client.connect().session.fault or pair.client.call(call_of()).status == 200
    except ClientError:
        assert pair.client.session.fault
    assert pair.network.clock.seconds() - began <= 0.5
    pair.redial()
