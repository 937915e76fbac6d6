"""A2A agents that are dead, slow, huge or liars: every call ends by its deadline, with its status (P16, T-UP)."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import pytest_twisted
from joserfc import jws
from joserfc.jwk import ECKey, OKPKey
from twisted.internet import reactor

from agtphost.adapters.a2a import A2AAdapter, A2AAgent
from agtphost.adapters.a2a.card import PATH, CardRefused, read
from agtphost.config.web_upstreams import A2AAgentSection
from agtphost.errors import Refusal
from agtphost.identity.canonical import canonical
from agtphost.upstream.ownership import TaskOwnership
from agtphost.upstream.supervision import UpstreamState
from tests.adapters.hostile import FAULTS, STREAM_FAULTS, Script, Server, deadline, hostile, reply
from tests.adapters.mcp.hosting import pause, until
from tests.adapters.peers import AdapterCalls, Book, kept, seconds
from tests.measuring import measured

DEADLINE = 0.5
SLACK = 10.0
"""Seconds that a busy machine may be late."""


def card(port: int, **changes: Any) -> dict[str, Any]:
    """A card of 1.0."""
    interface = {"url": f"http://127.0.0.1:{port}/rpc", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
    return {
        "name": "liar",
        "description": "",
        "version": "1",
        "supportedInterfaces": [interface],
        "capabilities": {"streaming": True},
        "skills": [],
        **changes,
    }


@asynccontextmanager
async def calling(server: Server, *, wait: bool = True, **settings: Any) -> AsyncIterator[AdapterCalls]:
    """A hostile agent behind the adapter."""
    book = Book()
    made = A2AAgentSection(
        name="liar", url=f"http://127.0.0.1:{server.port}", scopes=("a:b",), **{"timeout": DEADLINE, **settings}
    )
    agent = A2AAgent(reactor, made, jitter=lambda: 0.5)
    async with kept(agent, wait=wait):
        yield AdapterCalls(A2AAdapter([agent], TaskOwnership(book, "a2a-task")), book)


MESSAGE = {"message": {"parts": [{"text": "hello"}]}}


async def outcome(on: AdapterCalls, *, stream: bool = False) -> tuple[Refusal, float]:
    """How a call ends, and when."""
    began = seconds()
    with pytest.raises(Refusal) as caught:
        await on.call("a2a.message.send", MESSAGE, task_id="T-1", stream=stream)
    return caught.value, seconds() - began


@measured
@pytest.mark.parametrize(("fault", "status"), FAULTS.values(), ids=list(FAULTS))
@pytest_twisted.ensureDeferred
async def test_every_call_ends_by_its_deadline(fault: Script, status: int) -> None:
    """Each fault of an answer has its status, at the latest at the deadline, and the agent is asked once."""
    async with hostile() as server:
        server.page(PATH, card(server.port))
        server.fault = fault
        async with calling(server, timeout=deadline(status)) as on:
            refusal, took = await outcome(on)
            assert (refusal.status, took < deadline(status) + SLACK) == (status, True), str(refusal)
            assert sum(b"POST /rpc" in seen for seen in server.seen) == 1


@measured
@pytest.mark.parametrize(("fault", "status"), STREAM_FAULTS.values(), ids=list(STREAM_FAULTS))
@pytest_twisted.ensureDeferred
async def test_every_stream_ends_by_its_deadline(fault: Script, status: int) -> None:
    """The same of streams."""
    async with hostile() as server:
        server.page(PATH, card(server.port))
        server.fault = fault
        async with calling(server, timeout=deadline(status)) as on:
            refusal, took = await outcome(on, stream=True)
            assert (refusal.status, took < deadline(status) + SLACK) == (status, True), str(refusal)


@pytest_twisted.ensureDeferred
async def test_without_a_deadline_a_silent_agent_would_hang() -> None:
    """The control: the same silent agent and a deadline far away keep the call waiting."""
    async with hostile() as server:
        server.page(PATH, card(server.port))
        async with calling(server, timeout=30.0) as on:
            from twisted.internet.defer import Deferred

            waiting = Deferred.fromCoroutine(on.call("a2a.message.send", MESSAGE))
            await until(lambda: any(b"POST /rpc" in seen for seen in server.seen))
            began = seconds()
            await until(lambda: seconds() - began > 5 * DEADLINE)
            assert not waiting.called
            waiting.addErrback(lambda failure: failure.trap(Refusal))
            waiting.cancel()


@measured
@pytest_twisted.ensureDeferred
async def test_a_dead_agent_is_503_and_comes_back() -> None:
    """A connection refused is 503 with Retry-After at once, the state is visible, and the next attempt succeeds."""
    server = Server()
    server.page(PATH, card(server.port))
    async with calling(server) as on:
        await server.stop()
        await pause(0.05)
        refusal, took = await outcome(on)
        assert (refusal.status, refusal.reason) == (503, "upstream-down")
        assert took < SLACK
        entry, report = on.adapter.hosted_protocols()[0], on.adapter.upstreams()[0]
        assert (entry["state"], report["state"], report["protocol"]) == ("backoff", "backoff", "A2A")
        assert 0 < entry["next_attempt_in"] <= 1.2
        assert report["reason"].startswith("the request failed")
        assert on.adapter.tools() == []
        again, _ = await outcome(on)
        assert dict(again.headers)["Retry-After"] == "1"


def _other_origin(port: int) -> dict[str, Any]:
    interface = {"url": "http://169.254.169.254/rpc", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
    return card(port, supportedInterfaces=[interface])


LIES: dict[str, tuple[Any, str]] = {
    "another origin": (_other_origin, "another origin"),
    "another port": (
        lambda port: card(
            port,
            supportedInterfaces=[
                {"url": "http://127.0.0.1:1/", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
            ],
        ),
        "another origin",
    ),
    "credentials in the URL": (
        lambda port: card(
            port,
            supportedInterfaces=[
                {"url": f"http://a:b@127.0.0.1:{port}/", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
            ],
        ),
        "another origin",
    ),
    "gRPC alone": (
        lambda port: card(
            port,
            supportedInterfaces=[{"url": "http://127.0.0.1", "protocolBinding": "GRPC", "protocolVersion": "1.0"}],
        ),
        "no interface",
    ),
    "no name": (lambda port: card(port, name=""), "no proper name"),
    "no object": (lambda port: [1], "not a JSON object"),
    "skills without ids": (lambda port: card(port, skills=[{}]), "no id"),
    "a thousand skills": (lambda port: card(port, skills=[{"id": "x"}] * 1000), "proper list of skills"),
    "huge": (lambda port: card(port, description="x" * (300 << 10)), "longer than"),
}


@pytest.mark.parametrize(("lie", "why"), LIES.values(), ids=list(LIES))
@pytest_twisted.ensureDeferred
async def test_a_lying_card_is_not_believed(lie: Any, why: str) -> None:
    """T-SS: a card cannot send requests elsewhere, nor can it be nonsense; no request follows it."""
    async with hostile() as server:
        server.page(PATH, lie(server.port))
        async with calling(server, wait=False) as on:
            service = on.adapter.by_name["liar"]
            await until(lambda: service.state is UpstreamState.BACKOFF)
            assert why in service.snapshot().reason
            refusal, _ = await outcome(on)
            assert (refusal.status, refusal.reason) == (503, "upstream-down")
            assert all(b"GET " in seen for seen in server.seen)


@pytest.mark.parametrize(("fault", "status"), FAULTS.values(), ids=list(FAULTS))
@pytest_twisted.ensureDeferred
async def test_a_card_that_does_not_come(fault: Script, status: int) -> None:
    """Whatever happens to the card, the agent is down with a reason, and others are not harmed."""
    async with hostile() as server:
        server.fault = fault
        async with calling(server, wait=False, start_timeout=DEADLINE) as on:
            service = on.adapter.by_name["liar"]
            await until(lambda: service.state is UpstreamState.BACKOFF)
            assert service.snapshot().reason


@pytest_twisted.ensureDeferred
async def test_a_changed_card_is_off_until_it_is_approved() -> None:
    """Design decision 16: the card approved first stays the only one; its return brings the agent back."""
    async with hostile() as server:
        server.page(PATH, card(server.port))
        async with calling(server, refresh=0.1) as on:
            service = on.adapter.by_name["liar"]
            server.page(PATH, card(server.port, description="I now also take money"))
            await until(lambda: service.state is UpstreamState.BACKOFF)
            assert "not the approved one" in service.snapshot().reason
            server.page(PATH, card(server.port))
            await until(lambda: service.state is UpstreamState.UP)


def signed(document: dict[str, Any], key: Any, kid: str, algorithm: str, **header: Any) -> dict[str, Any]:
    """The card with one more signature."""
    members = {"alg": algorithm, "kid": kid, "typ": "JOSE", **header}
    compact = jws.serialize_compact(members, canonical(document), key, algorithms=[algorithm])
    protected, _, signature = compact.split(".")
    return {**document, "signatures": [{"protected": protected, "signature": signature}]}


@pytest.mark.parametrize(
    ("key", "algorithm"), [(OKPKey.generate_key("Ed25519"), "EdDSA"), (ECKey.generate_key("P-256"), "ES256")]
)
def test_a_signed_card_is_verified(key: Any, algorithm: str) -> None:
    """A signature counts by a key that the operator named, and covers every member."""
    home = "http://127.0.0.1:9"
    plain = card(9)
    good = signed(plain, key, "k1", algorithm)
    assert read(json.dumps(good).encode(), home, {"k1": key}).trust == "verified"
    assert read(json.dumps(good).encode(), home, {}).trust == "unverified"
    other = OKPKey.generate_key("Ed25519")
    for bad, keys in (
        (plain, {"k1": key}),
        (good, {"k2": key}),
        (good, {"k1": other}),
        ({**good, "name": "another"}, {"k1": key}),
        ({**good, "signatures": []}, {"k1": key}),
        (signed(plain, other, "k1", "EdDSA"), {"k1": key}),
    ):
        with pytest.raises(CardRefused):
            read(json.dumps(bad).encode(), home, keys)


def test_the_digest_is_of_the_card_without_its_signatures() -> None:
    """A card that is signed anew is the same card."""
    key = OKPKey.generate_key("Ed25519")
    first = read(json.dumps(card(9)).encode(), "http://127.0.0.1:9", {})
    second = read(json.dumps(signed(card(9), key, "k", "EdDSA")).encode(), "http://127.0.0.1:9", {})
    assert first.digest == second.digest


@measured
@pytest_twisted.ensureDeferred
async def test_one_more_than_may_wait_is_429() -> None:
    """Bounded queues: a call that finds the queue full is refused at once and never sent."""
    from twisted.internet.defer import Deferred

    async with hostile() as server:
        server.page(PATH, card(server.port))
        async with calling(server, timeout=60.0, max_concurrency=1, max_queue=1) as on:
            calls = [Deferred.fromCoroutine(on.call("a2a.message.send", MESSAGE)) for _ in range(2)]
            refusal, took = await outcome(on)
            assert (refusal.status, refusal.reason) == (429, "upstream-busy")
            assert took < SLACK
            for call in calls:
                call.addErrback(lambda failure: failure.trap(Refusal))
                call.cancel()


@pytest_twisted.ensureDeferred
async def test_events_about_another_task_are_refused() -> None:
    """An agent that mixes tasks up in one stream is not believed."""

    def events(*each: Any) -> bytes:
        texts = [json.dumps({"jsonrpc": "2.0", "id": 1, "result": event}) for event in each]
        return "".join(f"data: {text}\n\n" for text in texts).encode()

    begun = {"task": {"id": "t1", "contextId": "c", "status": {"state": "TASK_STATE_WORKING"}}}
    mixed = {"statusUpdate": {"taskId": "t2", "contextId": "c", "status": {"state": "TASK_STATE_COMPLETED"}}}
    async with hostile() as server:
        server.page(PATH, card(server.port))
        server.fault = lambda connection: reply(connection, events(begun, mixed), kind="text/event-stream")
        async with calling(server) as on:
            refusal, _ = await outcome(on, stream=True)
            assert (refusal.status, refusal.reason) == (500, "upstream-answer-refused")
            assert refusal.details["a2a_task_id"] == "t1"


RPC_ERROR = {"jsonrpc": "2.0", "id": 1, "error": {"code": -32004, "message": "no more"}}
REST_ERROR = {"error": {"code": 500, "status": "INTERNAL", "message": "no more"}}
INFO = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "UNSUPPORTED_OPERATION"}
FOREIGN = {**REST_ERROR["error"], "details": [{**INFO, "domain": "agents.example"}]}
OWN = {**REST_ERROR["error"], "details": [{**INFO, "domain": "a2a-protocol.org"}]}


@pytest.mark.parametrize(
    ("binding", "kind", "data", "reason", "code"),
    [
        ("JSONRPC", "error", json.dumps(RPC_ERROR), "a2a-operation-unsupported", -32004),
        ("JSONRPC", "message", json.dumps(RPC_ERROR), "a2a-operation-unsupported", -32004),
        ("JSONRPC", "error", "it is over", "a2a-error", -32603),
        ("HTTP+JSON", "error", json.dumps(REST_ERROR), "a2a-error", -32603),
        ("HTTP+JSON", "error", json.dumps({"error": OWN}), "a2a-operation-unsupported", -32004),
        ("HTTP+JSON", "error", json.dumps({"error": FOREIGN}), "a2a-error", -32603),
        ("HTTP+JSON", "error", "{}", "a2a-error", -32603),
    ],
)
@pytest_twisted.ensureDeferred
async def test_an_error_event_ends_the_call_as_an_error(
    binding: str, kind: str, data: str, reason: str, code: int
) -> None:
    """An event of type ``error`` is read, whatever it says, and names its reason by A2A's domain."""
    task = {"task": {"id": "t1", "contextId": "c", "status": {"state": "TASK_STATE_WORKING"}}}
    first = json.dumps({"jsonrpc": "2.0", "id": 1, "result": task} if binding == "JSONRPC" else task)
    octets = f": ping\r\n\r\ndata: {first}\r\n\r\nevent: {kind}\r\ndata: {data}\r\n\r\n".encode()
    async with hostile() as server:
        interface = {"url": f"http://127.0.0.1:{server.port}/rpc", "protocolBinding": binding, "protocolVersion": "1.0"}
        server.page(PATH, card(server.port, supportedInterfaces=[interface]))
        server.fault = lambda connection: reply(connection, octets, kind="text/event-stream")
        async with calling(server) as on:
            refusal, _ = await outcome(on, stream=True)
            shown: Any = refusal.details["result"]
            assert (refusal.reason, shown["error"]["code"]) == (reason, code)
            assert refusal.details["a2a_task_id"] == "t1"
