"""What is the asyncio client's own: cancellation, loops and their end, and nothing of Twisted."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import importlib
import itertools
import random
import select
import selectors
import socket
import ssl
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import psutil
import pytest

from agtphost.client import ConnectionLost, Reply, Timeout, aio, aio_connection
from agtphost.client.aio_attempts import await_race
from agtphost.client.deadline import Deadline
from agtphost.client.delivery import Delivery
from agtphost.client.requests import Destination
from tests.client.credentials import Credentials
from tests.client.scripted_host import Exchange, ScriptedHost, answer, echo
from tests.programmes import length, seed_of_chance

Main = Callable[[], Coroutine[Any, Any, Any]]


def sockets() -> int:
    """Of this process."""
    return len(psutil.Process().net_connections("tcp"))


@contextlib.contextmanager
def nothing_left() -> Iterator[None]:
    """No socket, no warning of one, and nothing that a loop complains of."""
    # What other tests of this process have left is theirs.
    gc.collect()
    before = sockets()
    with warnings.catch_warnings(record=True) as noted:
        warnings.simplefilter("always")
        yield
        gc.collect()
    assert [str(each.message) for each in noted] == []
    assert sockets() == before


def run(main: Main, loop_factory: Callable[[], asyncio.AbstractEventLoop] | None = None) -> Any:
    """Like ``asyncio.run``, and the loop must have nothing to complain of."""
    complaints: list[dict[str, Any]] = []

    async def heard() -> Any:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
        return await main()

    with asyncio.Runner(debug=True, loop_factory=loop_factory) as runner:
        result = runner.run(heard())
        gc.collect()
    assert complaints == []
    return result


async def until(condition: Callable[[], bool]) -> None:
    """Let the loop run until something is so."""
    while not condition():  # noqa: ASYNC110
        await asyncio.sleep(0.001)


def test_there_is_no_twisted_in_the_process() -> None:
    """Neither the reactor nor anything else of it, also once a call was tried and a host was looked for."""
    program = """
import asyncio, sys
from agtphost.client import ClientError, aio
from agtphost.client.mcp import governed_session
async def main():
    async with aio.Client(connect_timeout=1) as client:
        try:
            await client.call("agtp://127.0.0.1:1", "QUERY")
        except ClientError as error:
            print(type(error).__name__)
    try:
        aio.Client.of("nowhere.toml")
    except ClientError as error:
        print(type(error).__name__)
asyncio.run(main())
print([name for name in sys.modules if name.split(".")[0] in ("twisted", "zope")])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split("\n")[:3] == ["CannotConnect", "InvalidCall", "[]"]


def foreign_loop() -> asyncio.AbstractEventLoop:
    """A loop of another make, whose transports are of no class of asyncio."""
    made: asyncio.AbstractEventLoop = importlib.import_module("uvloop").new_event_loop()
    return made


class PollLoop(asyncio.SelectorEventLoop):
    """A loop that is not the platform's own."""

    def __init__(self) -> None:
        super().__init__(selectors.PollSelector())


@pytest.mark.parametrize("factory", [None, PollLoop, foreign_loop])
def test_any_loop_will_do_and_ends_with_nothing_left(
    credentials: Credentials, factory: Callable[[], asyncio.AbstractEventLoop] | None
) -> None:
    """Calls, a stream that is left early, an error and a cancelled call: after ``async with`` nothing is open."""

    def script(exchange: Exchange) -> None:
        if exchange.request.path in ("/sleep", "/asleep"):
            exchange.quiet(5)
        elif exchange.request.path == "/stream":
            exchange.send(answer({"event": {"n": 1}}, 202, Continuation_Token="c"), final=False)
            exchange.quiet(5)
        else:
            echo(exchange)

    with ScriptedHost(credentials, script) as host:

        async def main() -> None:
            async with aio.Client(trust=credentials.trust, timeout=5) as client:
                assert (await client.call(host.uri, "QUERY", "/a")).result["path"] == "/a"
                async for reply in client.stream(host.uri, "EXECUTE", "/stream"):
                    assert reply.interim
                    break
                with pytest.raises(Timeout):
                    await client.call(host.uri, "QUERY", "/sleep", timeout=0.1)
                asleep = asyncio.create_task(client.call(host.uri, "QUERY", "/asleep"))
                # The one before may have come to no connection in its time.
                await until(lambda: any(request.path == "/asleep" for request in host.requests))
                asleep.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await asleep

        with nothing_left():
            run(main, factory)


def test_a_loop_that_is_left_open_is_noticed(credentials: Credentials) -> None:
    """The control: without ``close`` a socket stays, and Python says so."""
    with ScriptedHost(credentials, echo) as host:

        async def main() -> None:
            await aio.Client(trust=credentials.trust).call(host.uri, "QUERY", "/a")

        with pytest.raises(AssertionError), nothing_left():
            asyncio.run(main())
        gc.collect()


def test_a_connection_that_is_there_after_the_time_is_closed() -> None:
    """The time may be over before the loop cancels the call: the connection of TCP is not used, and not left."""
    now = itertools.chain([0.0] * 3, itertools.repeat(9.0))
    with socket.create_server(("127.0.0.1", 0)) as server, nothing_left():

        async def main() -> None:
            place, deadline = Destination(*server.getsockname()), Deadline(lambda: next(now), 1.0)
            with pytest.raises(Timeout, match="while shaking hands"):
                await aio_connection.connect(place, ssl.create_default_context(), deadline, pytest.fail)
            server.accept()[0].close()

        run(main)


@pytest.mark.parametrize("is_first", [True, False], ids=["the call first", "the connection first"])
def test_a_connection_of_the_turn_of_a_cancellation_is_dropped(is_first: bool) -> None:
    """The caller of a race is cancelled, and the race has its connection in the same turn, in either order."""

    async def main() -> list[str]:
        dropped, done = list[str](), list[Callable[[Any], object]]()

        def begin(found: Callable[[Any], object]) -> Callable[[], object]:
            done.append(found)
            return lambda: None

        racing = asyncio.create_task(await_race(begin, dropped.append))
        await asyncio.sleep(0)
        acts: list[Callable[[], object]] = [racing.cancel, lambda: done[0]("the connection")]
        for act in acts if is_first else reversed(acts):
            act()
        with pytest.raises(asyncio.CancelledError):
            await racing
        return dropped

    assert run(main) == ["the connection"]


def test_a_call_that_is_cancelled_as_the_handshake_ends_leaves_nothing(
    credentials: Credentials, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loop ends the connection with a notice, which needs the server: the client drops it, and waits for that."""
    made = aio_connection.AsyncioConnection.connection_made

    with ScriptedHost(credentials, echo) as host:

        async def main() -> None:
            async with aio.Client(trust=credentials.trust, timeout=5) as client:
                calling = asyncio.create_task(client.call(host.uri, "QUERY", "/a"))

                def note(link: aio_connection.AsyncioConnection, transport: asyncio.BaseTransport) -> None:
                    made(link, transport)
                    calling.cancel()

                monkeypatch.setattr(aio_connection.AsyncioConnection, "connection_made", note)
                with pytest.raises(asyncio.CancelledError):
                    await calling
            assert not client._open_links

        with nothing_left():
            run(main)


def forgetful(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broken client: a connection whose call was cancelled serves the next one."""

    def forget(self: Delivery) -> None:
        self._done = None
        self._conversation._call = None

    monkeypatch.setattr(Delivery, "forget", forget)


@pytest.mark.parametrize("broken", [False, True], ids=["real", "control"])
def test_the_answer_to_a_cancelled_call_is_nobodys(
    credentials: Credentials, monkeypatch: pytest.MonkeyPatch, broken: bool
) -> None:
    """It comes while the next call is out: that has its own answer. The control takes the other's for it."""
    if broken:
        forgetful(monkeypatch)
    second = threading.Event()

    def script(exchange: Exchange) -> None:
        if exchange.request.path == "/first":
            # Its answer is sent once the second request is on its way, wherever that goes.
            if broken:
                select.select([exchange.channel], [], [], 5)
            else:
                second.wait(60)
            with contextlib.suppress(OSError):
                exchange.send(answer("first"))
        else:
            second.set()
            exchange.send(answer("second"))

    with ScriptedHost(credentials, script) as host:

        async def main() -> Any:
            async with aio.Client(trust=credentials.trust, timeout=5, connections=1) as client:
                first = asyncio.create_task(client.call(host.uri, "QUERY", "/first"))
                await until(lambda: bool(host.requests))
                first.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await first
                return (await client.call(host.uri, "QUERY", "/second")).result

        assert asyncio.run(main()) == ("first" if broken else "second")


async def storm(client: aio.Client, uri: str, calls: int, seed: int) -> tuple[int, int, int]:
    """
    Many calls, each given up after a moment of its own, or not at all.

    :return: how many were answered, how many of these with another's answer, and how many were cancelled.
    """
    chance = random.Random(seed)
    answered = mixed = cancelled = 0

    async def one(number: int) -> None:
        nonlocal answered, mixed
        reply = await client.call(uri, "QUERY", f"/p{number}", {"n": number})
        answered += 1
        mixed += reply.result["path"] != f"/p{number}" or reply.result["body"]["parameters"] != {"n": number}

    async def given_up(number: int, turns: int) -> None:
        nonlocal cancelled
        task = asyncio.create_task(one(number))
        for _ in range(turns):
            await asyncio.sleep(0)
        cancelled += task.cancel()
        await asyncio.wait([task])
        if not task.cancelled():
            task.result()

    running: set[asyncio.Task[None]] = set()
    for number in range(calls):
        work = one(number) if chance.random() < 0.1 else given_up(number, chance.choice((0, 1, 3, 10, 30, 100, 300)))
        task = asyncio.create_task(work)
        running.add(task)
        if len(running) >= 32:
            done, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            for each in done:
                each.result()
    for task in running:
        await task
    return answered, mixed, cancelled


@pytest.mark.release
@pytest.mark.programme
@pytest.mark.parametrize("factory", length([None], [None, foreign_loop]))
def test_a_storm_of_cancellations_mixes_nothing_up(
    credentials: Credentials, factory: Callable[[], asyncio.AbstractEventLoop] | None
) -> None:
    """At any moment of a call; those that go on have their own answers, and nothing is left open."""
    calls, seed = length(1200, 6000), seed_of_chance()
    with ScriptedHost(credentials, echo) as host:

        async def main() -> tuple[int, int, int]:
            async with aio.Client(trust=credentials.trust, timeout=30) as client:
                found = await storm(client, host.uri, calls, seed)
                # The pool has lost no place: as many calls as it has connections, at once.
                replies = await asyncio.gather(*(client.call(host.uri, "QUERY", f"/{n}") for n in range(8)))
                assert [reply.result["path"] for reply in replies] == [f"/{n}" for n in range(8)]
                return found

        with nothing_left(), asyncio.Runner(loop_factory=factory) as runner:
            answered, mixed, cancelled = runner.run(main())
    assert mixed == 0
    assert answered > calls // 20 and cancelled > calls // 3


@pytest.mark.parametrize("broken", [False, True], ids=["real", "control"])
def test_the_turn_of_a_cancelled_call_is_the_next_ones(
    credentials: Credentials, monkeypatch: pytest.MonkeyPatch, broken: bool
) -> None:
    """Cancelled as it is told of a free connection, it lets the one behind it have that. The control keeps it."""
    release = threading.Event()

    def script(exchange: Exchange) -> None:
        release.wait(60)
        echo(exchange)

    with ScriptedHost(credentials, script) as host:

        async def main() -> Reply:
            async with aio.Client(trust=credentials.trust, timeout=0.5 if broken else 10, connections=1) as client:
                wake = client._wake
                tasks = [asyncio.create_task(client.call(host.uri, "QUERY", f"/{n}")) for n in range(3)]

                def woken(key: Any) -> None:
                    client._wake = (lambda _: None) if broken else wake  # type: ignore[method-assign]
                    wake(key)
                    tasks[1].cancel()

                await until(lambda: bool(host.requests) and sum(map(len, client._waiting.values())) == 2)
                monkeypatch.setattr(client, "_wake", woken)
                release.set()
                await asyncio.wait(tasks)
                assert tasks[1].cancelled()
                return tasks[2].result()

        if broken:
            with pytest.raises(Timeout, match="free connection"):
                asyncio.run(main())
        else:
            assert asyncio.run(main()).result["path"] == "/2"


def test_a_connection_that_ends_between_two_calls_is_not_waited_for(credentials: Credentials) -> None:
    """A call on it ends at once, and not after its time."""
    with ScriptedHost(credentials, echo) as host:

        async def main() -> None:
            async with aio.Client(trust=credentials.trust, timeout=5) as client:
                await client.call(host.uri, "QUERY", "/a")
                (link,) = client._open_links
                link.abort()
                await link.ended
                call = client._caller.prepare(host.uri, "QUERY", "/b", None)
                from agtphost.client.deadline import Deadline

                with pytest.raises(ConnectionLost, match="before it was asked"):
                    await link.perform(call, None, Deadline(client._now, 5))
                assert (await client.call(host.uri, "QUERY", "/c")).ok

        run(main)


def test_one_client_on_several_loops(credentials: Credentials) -> None:
    """Programs that call ``asyncio.run`` more than once: a connection of a loop that is over is not used again."""
    with ScriptedHost(credentials, echo) as host:
        client = aio.Client(trust=credentials.trust, timeout=5)

        async def main(path: str) -> str:
            return str((await client.call(host.uri, "SUBMIT", path)).result["path"])

        async def last() -> str:
            async with client:
                return await main("/c")

        with warnings.catch_warnings():
            # Two loops were left with a connection open, as Python says.
            warnings.simplefilter("ignore", ResourceWarning)
            assert [asyncio.run(main("/a")), asyncio.run(main("/b")), run(last)] == ["/a", "/b", "/c"]
            gc.collect()
        assert host.connections == 3
