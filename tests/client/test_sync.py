"""What the blocking client does in threads."""

from __future__ import annotations

import threading
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from agtphost.client import Reply
from agtphost.client.aio import Client as AsyncClient
from agtphost.client.sync import Client
from agtphost.wire.headers import Headers

SECONDS = 20.0


class SlowLink:
    """A connection that answers when it is told to."""

    has_served = is_shared = False
    presented = None
    fresh = reusable = True

    def __init__(self, taken: threading.Event, answer: threading.Event) -> None:
        self._taken, self._answer = taken, answer
        self.closed = False

    async def perform(self, *_: Any) -> Reply:
        self._taken.set()
        assert self._answer.wait(SECONDS)
        return Reply(status=200, text="OK", headers=Headers([]), body=b"", request_line=b"")

    def close(self) -> None:
        self.closed = True


class Hosts:
    """Hosts behind :class:`SlowLink`, and a client with one connection to each."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.taken: dict[str, threading.Event] = defaultdict(threading.Event)
        self.answers: dict[str, threading.Event] = defaultdict(threading.Event)
        self.waits: dict[str, threading.Event] = defaultdict(threading.Event)
        self.links: list[SlowLink] = []
        self.client = Client(connections=1, timeout=SECONDS)
        calls = self.client._calls
        freed = calls._wait_freed

        async def connect(key: Any, deadline: Any) -> Any:
            self.links.append(SlowLink(self.taken[key.host], self.answers[key.host]))
            return self.links[-1]

        async def waits(key: Any, deadline: Any) -> None:
            # The guard is held from here until the thread waits.
            self.waits[key.host].set()
            await freed(key, deadline)

        monkeypatch.setattr(calls, "_connect", connect)
        monkeypatch.setattr(calls, "_wait_freed", waits)

    def call(self, host: str) -> int:
        return self.client.call(f"agtp://{host}", "DISCOVER", anonymous=True).status


def test_a_thread_is_woken_for_its_own_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two threads that wait for different hosts, the one whose host's connection becomes free goes on."""
    hosts = Hosts(monkeypatch)
    with ThreadPoolExecutor(4) as threads:
        for host in ("first.test", "second.test"):
            threads.submit(hosts.call, host)
            assert hosts.taken[host].wait(SECONDS)
        waiting = []
        for host in ("first.test", "second.test"):
            waiting.append(threads.submit(hosts.call, host))
            assert hosts.waits[host].wait(SECONDS)
        with hosts.client._calls._guard:
            hosts.answers["second.test"].set()
        try:
            assert waiting[1].result(SECONDS / 2) == 200
            assert not waiting[0].done()
        finally:
            hosts.answers["first.test"].set()
        assert waiting[0].result(SECONDS) == 200
    assert len(hosts.links) == 2


def test_a_closed_client_keeps_no_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection that was in use when the client was closed is closed when its call ends."""
    hosts = Hosts(monkeypatch)
    with ThreadPoolExecutor(1) as threads:
        call = threads.submit(hosts.call, "first.test")
        assert hosts.taken["first.test"].wait(SECONDS)
        hosts.client.close()
        assert not hosts.links[0].closed
        hosts.answers["first.test"].set()
        assert call.result(SECONDS) == 200
    assert hosts.links[0].closed


@pytest.mark.parametrize("kind", [Client, AsyncClient])
def test_an_option_that_no_client_has_is_an_error(kind: Any) -> None:
    """A misspelt ``trust`` or ``cert`` would make calls that the client's owner did not mean."""
    with pytest.raises(TypeError, match=r"a client has no option cacert; its options are agent_id, .* trust"):
        kind(cacert="ca.pem")
