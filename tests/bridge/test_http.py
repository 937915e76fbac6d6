"""The bridge's HTTP port against clients that are slow, greedy, or somebody else."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import httpx
import httpx2
import mcp_types as types
import pytest
import pytest_twisted
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from twisted.internet import reactor as _reactor
from twisted.internet.defer import CancelledError, Deferred, succeed
from twisted.internet.threads import blockingCallFromThread, deferToThread

from agtphost.bridge.http import BridgeHttpLimits, BridgeListener
from agtphost.mcp.context import Context
from agtphost.mcp.revisions import BATCHES
from agtphost.mcp.server import Server
from tests.bridge.nobody import Nobody
from tests.measuring import measured
from tests.rows import each_row

reactor: Any = _reactor

ACCEPT = {"Accept": "application/json, text/event-stream"}
TOKENS = ("the-first-token-of-two", "the-second-token-of-two")


def request(method: str, number: int = 1, **params: Any) -> dict[str, Any]:
    """A JSON-RPC request."""
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


HANDSHAKE = request(
    "initialize", protocolVersion="2025-11-25", capabilities={}, clientInfo={"name": "test", "version": "1"}
)
SLOW = request("tools/call", 2, name="slow", arguments={}, _meta={"progressToken": "p"})


class Gate:
    """Something that happens once: on the loop of the test, or on the reactor; both may wait for it."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._event = asyncio.Event()
        self._open = False
        self._waiting: list[Deferred[None]] = []

    def set(self) -> None:
        """It happens."""
        reactor.callFromThread(self._happened)

    def _happened(self) -> None:
        self._open = True
        self._loop.call_soon_threadsafe(self._event.set)
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            each.callback(None)

    async def wait(self) -> None:
        """On the loop."""
        await self._event.wait()

    def passed(self) -> Deferred[None]:
        """On the reactor."""
        if self._open:
            return succeed(None)
        waiting: Deferred[None] = Deferred(self._waiting.remove)
        self._waiting.append(waiting)
        return waiting


class Steps:
    """A tool ``slow`` that reports, waits to be let go, and answers."""

    def __init__(self) -> None:
        self.go, self.told, self.ended = Gate(), Gate(), Gate()
        self.started = 0
        self.cancelled = 0

    async def call(self, context: Context) -> dict[str, Any]:
        """``tools/call``."""
        self.started += 1
        try:
            context.progress(1, 3, "before")
            await self.go.passed()
            context.progress(2, 3, "while nobody listens")
            self.told.set()
        except CancelledError:
            self.cancelled += 1
            self.ended.set()
            raise
        return {"content": [{"type": "text", "text": "whole"}]}

    async def list(self, context: Context) -> dict[str, Any]:
        """``tools/list``."""
        return {"tools": [{"name": "slow", "inputSchema": {"type": "object"}}]}


@asynccontextmanager
async def serving(
    limits: BridgeHttpLimits | None = None, tokens: Sequence[str] = ()
) -> AsyncIterator[tuple[str, Steps]]:
    """A port that serves the tool."""
    steps = Steps()
    server = Server(Nobody(), reactor, endpoints=False)
    server.handlers.update({"tools/call": steps.call, "tools/list": steps.list})
    listener = BridgeListener(reactor, server, 0, tokens, limits)

    def begin() -> None:
        listener.take_port()
        listener.startService()

    async def on_reactor(act: Callable[[], Any]) -> None:
        await asyncio.get_running_loop().run_in_executor(None, blockingCallFromThread, reactor, act)

    await on_reactor(begin)
    try:
        yield listener.url, steps
    finally:
        await on_reactor(listener.stopService)
        await on_reactor(server.end)


async def run(story: Callable[[], Awaitable[None]]) -> None:
    """Run a story on a loop of its own, for 30 seconds at most, while the reactor serves."""

    async def limited() -> None:
        async with asyncio.timeout(30):
            await story()

    await deferToThread(asyncio.run, limited())


async def opened(
    client: httpx.AsyncClient, url: str, *, revision: str = "2025-11-25", **headers: str
) -> dict[str, str]:
    """Shake hands; the headers of the session."""
    handshake = {**HANDSHAKE, "params": {**HANDSHAKE["params"], "protocolVersion": revision}}
    answer = await client.post(url, json=handshake, headers={**ACCEPT, **headers})
    assert answer.status_code == 200, answer.text
    session = {
        **ACCEPT,
        **headers,
        "Mcp-Session-Id": answer.headers["mcp-session-id"],
        "MCP-Protocol-Version": revision,
    }
    told = await client.post(url, json={"jsonrpc": "2.0", "method": "notifications/initialized"}, headers=session)
    assert told.status_code == 202
    return session


async def events(answer: httpx.Response) -> AsyncIterator[tuple[str, Any]]:
    """Id and message of each event of a stream."""
    key = ""
    async for line in answer.aiter_lines():
        if line.startswith("id:"):
            key = line[3:].strip()
        elif line.startswith("data:"):
            text = line[5:].strip()
            yield key, json.loads(text) if text else None


async def begun(client: httpx.AsyncClient, url: str, session: dict[str, str]) -> str:
    """Call the tool, hear its first report, and drop the connection; the id of the report."""
    async with client.stream("POST", url, json=SLOW, headers=session) as answer:
        async for key, message in events(answer):
            if message is not None and message.get("method") == "notifications/progress":
                assert key
                return key
    raise AssertionError("there was no report")


# Resumption


@pytest_twisted.ensureDeferred
async def test_a_call_whose_connection_drops_is_resumed() -> None:
    """AGTP: Last-Event-ID brings what was missed and the answer, once each; the call ran once and was not cancelled."""

    async def story() -> None:
        async with serving() as (url, steps), httpx.AsyncClient(trust_env=False) as client:
            session = await opened(client, url)
            last = await begun(client, url, session)
            steps.go.set()
            await steps.told.wait()
            heard = []
            async with client.stream("GET", url, headers={**session, "Last-Event-ID": last}) as answer:
                async for _, message in events(answer):
                    heard.append(message)
            assert [each["params"]["message"] for each in heard[:-1]] == ["while nobody listens"]
            assert heard[-1]["result"]["content"][0]["text"] == "whole"
            assert (steps.started, steps.cancelled) == (1, 0)

    await run(story)


@pytest_twisted.ensureDeferred
async def test_an_answer_that_is_not_ready_is_waited_for() -> None:
    """A client that is back early gets it when it comes, and the stream ends there."""

    async def story() -> None:
        async with serving() as (url, steps), httpx.AsyncClient(trust_env=False) as client:
            session = await opened(client, url)
            last = await begun(client, url, session)
            heard = []
            async with client.stream("GET", url, headers={**session, "Last-Event-ID": last}) as answer:
                asyncio.get_running_loop().call_later(0.2, steps.go.set)
                async for _, message in events(answer):
                    heard.append(message)
            assert "result" in heard[-1] and len(heard) == 2

    await run(story)


class Breaking(httpx2.AsyncHTTPTransport):
    """A network on which the answer to the first tool call breaks off after its first report."""

    def __init__(self) -> None:
        super().__init__()
        self.broken = 0
        self.resumed = 0

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        answer = await super().handle_async_request(request)
        self.resumed += "last-event-id" in request.headers
        if not self.broken and b"tools/call" in (request.content if request.method == "POST" else b""):
            self.broken += 1
            answer.stream = Cut(answer.stream)  # type: ignore[arg-type]
        return answer


class Cut(httpx2.AsyncByteStream):
    """A stream that breaks off."""

    def __init__(self, stream: httpx2.AsyncByteStream) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._stream:
            yield chunk
            if b"notifications/progress" in chunk:
                raise httpx2.ReadError("the connection broke")

    async def aclose(self) -> None:
        await self._stream.aclose()


@pytest_twisted.ensureDeferred
async def test_the_official_client_resumes_a_call_by_itself() -> None:
    """The connection breaks in the middle of a call; the caller sees nothing but the answer, and every report."""

    async def story() -> None:
        network = Breaking()
        reports: list[str | None] = []

        async def report(progress: float, total: float | None, message: str | None) -> None:
            reports.append(message)

        async with serving() as (url, steps), httpx2.AsyncClient(transport=network, timeout=20) as connection:
            async with Client(streamable_http_client(url, http_client=connection), mode="legacy") as client:
                asyncio.get_running_loop().call_later(0.3, steps.go.set)
                result = await client.call_tool("slow", {}, progress_callback=report)
            assert isinstance(result.content[0], types.TextContent) and result.content[0].text == "whole"
            assert (network.broken, network.resumed, steps.started, steps.cancelled) == (1, 1, 1, 0)
            assert reports == ["before", "while nobody listens"]

    await run(story)


@pytest_twisted.ensureDeferred
async def test_since_2026_07_28_a_stream_that_ends_is_a_call_that_is_cancelled() -> None:
    """That revision has no resumption: no event ids, no GET, and the call ends with its stream."""
    modern = {**ACCEPT, "MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "slow"}
    meta = {
        "progressToken": "p",
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    call = request("tools/call", 2, name="slow", arguments={}, _meta=meta)

    async def story() -> None:
        async with serving() as (url, steps), httpx.AsyncClient(trust_env=False) as client:
            async with client.stream("POST", url, json=call, headers=modern) as answer:
                async for line in answer.aiter_lines():
                    assert not line.startswith("id:")
                    if "notifications/progress" in line:
                        break
            await steps.ended.wait()
            asked = await client.get(url, headers={**modern, "Last-Event-ID": "x"})
            assert asked.status_code == 405
            assert (steps.started, steps.cancelled) == (1, 1)

    await run(story)


# Other people's sessions


@pytest_twisted.ensureDeferred
async def test_a_session_belongs_to_the_token_that_opened_it() -> None:
    """T: with another's session id, and his event id, a client with a token of its own gets 404 and nothing more."""

    async def story() -> None:
        async with serving(tokens=TOKENS) as (url, steps), httpx.AsyncClient(trust_env=False) as client:
            mine, other = ({"Authorization": f"Bearer {token}"} for token in TOKENS)
            session = await opened(client, url, **mine)
            last = await begun(client, url, session)
            stolen = {**session, **other, "Last-Event-ID": last}
            for verb in ("GET", "DELETE", "POST"):
                answer = await client.request(verb, url, json=SLOW if verb == "POST" else None, headers=stolen)
                assert answer.status_code == 404, verb
            # In a session of his own the id means nothing.
            own = {**await opened(client, url, **other), "Last-Event-ID": last}
            async with client.stream("GET", url, headers=own) as answer:
                assert [message async for _, message in events(answer)] == []
            steps.go.set()
            async with client.stream("GET", url, headers={**session, "Last-Event-ID": last}) as answer:
                assert [message async for _, message in events(answer)][-1]["result"]
            assert steps.started == 1

    await run(story)


@pytest_twisted.ensureDeferred
@each_row("given", [None, "", "Bearer", "Bearer the-first-token-of-tw", "Bearer wrong", "Basic x"])
async def test_without_one_of_the_tokens_nothing_is_answered(given: str | None) -> None:
    """401 before a body is read or a session looked up."""

    async def story() -> None:
        async with serving(tokens=TOKENS) as (url, _), httpx.AsyncClient(trust_env=False) as client:
            headers = ACCEPT if given is None else {**ACCEPT, "Authorization": given}
            answer = await client.post(url, json=HANDSHAKE, headers=headers)
            assert answer.status_code == 401 and "mcp-session-id" not in answer.headers

    await run(story)


# Bounds


@pytest_twisted.ensureDeferred
async def test_one_session_too_many_is_refused_and_the_others_go_on() -> None:
    """503, until one ends."""

    async def story() -> None:
        async with serving(BridgeHttpLimits(sessions=2)) as (url, _), httpx.AsyncClient(trust_env=False) as client:
            first = await opened(client, url)
            await opened(client, url)
            refused = await client.post(url, json=HANDSHAKE, headers=ACCEPT)
            assert refused.status_code == 503
            listed = await client.post(url, json=request("tools/list", 3), headers=first)
            assert listed.status_code == 200
            assert (await client.delete(url, headers=first)).status_code == 200
            await opened(client, url)

    await run(story)


@pytest_twisted.ensureDeferred
async def test_an_unused_session_ends() -> None:
    """Its id answers 404 afterwards, and its place is free."""

    async def story() -> None:
        limits = BridgeHttpLimits(sessions=1, idle=0.2)
        async with serving(limits) as (url, _), httpx.AsyncClient(trust_env=False) as client:
            first = await opened(client, url)
            while (await client.post(url, json=HANDSHAKE, headers=ACCEPT)).status_code == 503:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
            assert (await client.post(url, json=request("tools/list", 3), headers=first)).status_code == 404

    await run(story)


@pytest_twisted.ensureDeferred
@pytest.mark.parametrize("chunked", [False, True])
async def test_a_body_that_is_too_large_is_refused(chunked: bool) -> None:
    """413, whether or not the client says how large it is; one of just the size is the control."""

    async def story() -> None:
        async with serving(BridgeHttpLimits(body=2_000)) as (url, _), httpx.AsyncClient(trust_env=False) as client:
            text = json.dumps(HANDSHAKE).encode()

            async def parts(octets: bytes) -> AsyncIterator[bytes]:
                for start in range(0, len(octets), 500):
                    yield octets[start : start + 500]

            for size, status in ((2_000, 200), (2_001, 413)):
                octets = text.ljust(size)
                answer = await client.post(
                    url,
                    content=parts(octets) if chunked else octets,
                    headers={**ACCEPT, "Content-Type": "application/json"},
                )
                assert answer.status_code == status, answer.text

    await run(story)


async def exchanged(url: str, pieces: Sequence[bytes], pause: float) -> tuple[bytes, float]:
    """Send pieces with pauses; what comes back until the end, and after how long that was."""
    since = time.monotonic()
    reader, writer = await asyncio.open_connection("127.0.0.1", httpx.URL(url).port)

    async def send() -> None:
        for piece in pieces:
            writer.write(piece)
            await asyncio.sleep(pause)

    sending = asyncio.create_task(send())
    answer = b""
    try:
        # Where octets were still on their way, the system tells of the end by a reset.
        with contextlib.suppress(ConnectionError):
            while octets := await asyncio.wait_for(reader.read(65_536), 60):
                answer += octets
    finally:
        sending.cancel()
        writer.close()
    return answer, time.monotonic() - since


HEAD = b"POST /mcp HTTP/1.1\r\nHost: %b\r\nAccept: application/json, text/event-stream\r\n"


@measured
@pytest_twisted.ensureDeferred
@pytest.mark.parametrize("drips", [[], [b"P"] * 60, [b"POST /mcp HTTP/1.1\r\n", *[b"X-A: b\r\n"] * 60]])
async def test_a_header_that_takes_too_long_ends_the_connection(drips: list[bytes]) -> None:
    """Nothing, or an octet now and then: the connection is closed when the time is over, however busy it looks."""

    async def story() -> None:
        async with serving(BridgeHttpLimits(head_seconds=0.4)) as (url, _):
            answer, seconds = await exchanged(url, drips, 0.05)
            assert seconds < 60
            assert b" 200 " not in answer

    await run(story)


@measured
@pytest_twisted.ensureDeferred
async def test_a_further_request_has_the_same_time_for_its_header() -> None:
    """A connection that had an answer may not drip either."""

    async def story() -> None:
        async with serving(BridgeHttpLimits(head_seconds=0.4)) as (url, _):
            whole = b"GET /none HTTP/1.1\r\nHost: %b\r\n\r\n" % httpx.URL(url).netloc
            answer, seconds = await exchanged(url, [whole, b"GET /n", *[b"o"] * 4_000], 0.1)
            assert answer.count(b"HTTP/1.1 404") == 1
            assert seconds < 60

    await run(story)


@measured
@pytest_twisted.ensureDeferred
async def test_a_body_that_takes_too_long_is_refused() -> None:
    """408, and no session."""

    async def story() -> None:
        async with serving(BridgeHttpLimits(body_gap=0.4)) as (url, _):
            head = HEAD % httpx.URL(url).netloc + b"Content-Type: application/json\r\nContent-Length: 5000\r\n\r\n"
            answer, seconds = await exchanged(url, [head, *[b"x"] * 4_000], 0.05)
            assert answer.startswith(b"HTTP/1.1 408")
            assert b"mcp-session-id" not in answer.lower()
            assert seconds < 60

    await run(story)


@pytest_twisted.ensureDeferred
async def test_silent_connections_make_room() -> None:
    """Three places, ten silent connections: whoever asks is answered, and of the silent ones three at most stay."""

    async def story() -> None:
        async with serving(BridgeHttpLimits(connections=3)) as (url, _), httpx.AsyncClient(trust_env=False) as client:
            port = httpx.URL(url).port
            silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(10)]
            assert (await client.post(url, json=HANDSHAKE, headers=ACCEPT)).status_code == 200
            ended = 0
            for reader, writer in silent:
                try:
                    async with asyncio.timeout(0.2):
                        await reader.read()
                    ended += 1
                except ConnectionError:
                    ended += 1
                except TimeoutError:
                    pass
                writer.close()
            assert ended >= 7

    await run(story)


@pytest_twisted.ensureDeferred
@each_row(
    "headers",
    [
        {"Host": "evil.example.com"},
        {"Host": "127.0.0.1:1"},
        {"Origin": "https://evil.example.com"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},
    ],
)
@each_row("era", ["2025-11-25", "2026-07-28"])
async def test_another_site_s_name_is_refused_in_both_eras(era: str, headers: dict[str, str]) -> None:
    """T: a name that was made to point here (DNS rebinding), and a page of another site, get nothing."""

    async def story() -> None:
        async with serving() as (url, steps), httpx.AsyncClient(trust_env=False) as client:
            sent = {**ACCEPT, **headers, "MCP-Protocol-Version": era, "Mcp-Method": "tools/call", "Mcp-Name": "slow"}
            steps.go.set()
            answer = await client.post(url, json=SLOW, headers=sent)
            assert answer.status_code in (403, 421), answer.text
            assert steps.started == 0

    await run(story)


# Batches, which one revision has

PINGS = [{"jsonrpc": "2.0", "id": number, "method": "ping"} for number in (3, 4)]
INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}


@pytest_twisted.ensureDeferred
async def test_several_messages_at_once_are_answered_on_one_stream() -> None:
    """Revision 2025-03-26: as each is ready, and the stream ends with the last; what asks nothing is accepted."""

    async def story() -> None:
        async with serving() as (url, steps), httpx.AsyncClient(trust_env=False) as client:
            session = await opened(client, url, revision=BATCHES)
            told = await client.post(url, json=[INITIALIZED, INITIALIZED], headers=session)
            assert (told.status_code, told.content) == (202, b"")
            heard = []
            async with client.stream("POST", url, json=[SLOW, INITIALIZED, *PINGS], headers=session) as answer:
                async for _, message in events(answer):
                    heard.append(message)
                    if message.get("id") == 4:
                        steps.go.set()
            assert [each["id"] for each in heard if "id" in each] == [3, 4, 2]
            assert heard[-1]["result"]["content"][0]["text"] == "whole"

    await run(story)


@each_row(
    ("revision", "batch"),
    [
        (BATCHES, []),
        (BATCHES, [PINGS[0]] * 101),
        (BATCHES, [PINGS[0], 7]),
        (BATCHES, [PINGS[0], HANDSHAKE]),
        (BATCHES, [PINGS]),
        ("2025-06-18", PINGS),
        ("2025-11-25", PINGS),
        ("2024-11-05", PINGS),
    ],
)
@pytest_twisted.ensureDeferred
async def test_what_is_no_batch_is_refused_as_a_whole(revision: str, batch: Any) -> None:
    """None of it is done; and the session goes on."""

    async def story() -> None:
        async with serving() as (url, _), httpx.AsyncClient(trust_env=False) as client:
            session = await opened(client, url, revision=revision)
            refused = await client.post(url, json=batch, headers=session)
            assert (refused.status_code, refused.json()["error"]["code"]) == (400, -32600)
            assert '"id":3' not in refused.text
            alone = await client.post(url, json=PINGS[0], headers=session)
            assert '"id":3' in alone.text

    await run(story)
