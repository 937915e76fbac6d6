"""A call that is given up before there is a connection for it: cancelled as any other, and no failure of the client."""

from __future__ import annotations

import itertools
import socket
from collections.abc import Iterator

import pytest
import pytest_twisted
from twisted.internet import reactor
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.task import deferLater

from agtphost.client import Client, Timeout
from agtphost.client.deadline import Deadline
from agtphost.client.requests import Destination
from tests.client.quic.test_twisted import event


@pytest.fixture
def full_port() -> Iterator[int]:
    """Where connections are begun, and nobody takes them."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as listener:
        address = listener.getsockname()
        others = [socket.socket() for _ in range(4)]
        for other in others:
            other.setblocking(False)
            other.connect_ex(address)
        yield int(address[1])
        for other in others:
            other.close()


@pytest_twisted.ensureDeferred
@pytest.mark.parametrize("turns", [0, 3])
async def test_it_is_cancelled(full_port: int, turns: int) -> None:
    """While its host is looked up, and while it is connected to: Twisted's endpoints call that a failure of theirs."""
    async with Client(reactor=reactor) as client:
        call = Deferred.fromCoroutine(client.call(f"agtp://127.0.0.1:{full_port}", "DISCOVER"))
        for _ in range(turns):
            await deferLater(reactor, 0)
        assert not call.called
        call.cancel()
        with pytest.raises(CancelledError):
            await call


@pytest_twisted.ensureDeferred
async def test_a_connection_that_is_there_after_the_time_is_closed() -> None:
    """The time may be over before the reactor gives the call up: the connection of TCP is not used, and not left."""
    now = itertools.chain([0.0] * 3, itertools.repeat(9.0))
    with socket.create_server(("127.0.0.1", 0)) as server:
        async with Client(reactor=reactor) as client:
            client._load_tls()
            with pytest.raises(Timeout, match="while shaking hands"):
                await client._connect_by_tls(Destination(*server.getsockname()), Deadline(lambda: next(now), 1.0))
            with server.accept()[0] as accepted:
                accepted.setblocking(False)

                def is_closed() -> bool:
                    try:
                        return not accepted.recv(65_536)
                    except ConnectionResetError:
                        return True
                    except BlockingIOError:
                        return False

                await event(is_closed)
