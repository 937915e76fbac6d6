"""External services against real HTTPS servers (AGTP-API section 12.3; T-SS, T-UP)."""

from __future__ import annotations

import gzip
import ipaddress
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import pytest_twisted
from twisted.internet.defer import Deferred, ensureDeferred, gatherResults, maybeDeferred
from twisted.internet.task import deferLater
from twisted.logger import globalLogPublisher

from agtphost.contract.service import ServiceReference, read_service
from agtphost.errors import Refusal
from agtphost.handlers.context import EndpointContext, EndpointError
from agtphost.identity.peer import Assurance
from agtphost.upstream.external import ExternalService, State
from agtphost.upstream.external_http import OVERHEAD
from agtphost.vocabulary import jsontext
from tests.dispatch.hosts import CALLER, agent
from tests.handlers.upstreams import Authority, Names, Script, Server, answer, says, target
from tests.late import lateness
from tests.measuring import measured

LOOPBACK = (ipaddress.ip_network("127.0.0.1"),)


def reactor() -> Any:
    """The running reactor."""
    from twisted.internet import reactor as running

    return running


class Yard:
    """Upstreams and handlers of one test, all gone after it."""

    def __init__(self) -> None:
        self.authority = Authority()
        self.servers: list[Server] = []
        self.handlers: list[ExternalService] = []

    def server(self, script: Script) -> Server:
        server = self.authority.server(reactor(), script)
        self.servers.append(server)
        return server

    def handler(
        self,
        server: Server | int,
        path: str = "/",
        method: str = "POST",
        *,
        names: Any = None,
        trust: Any = None,
        host: str = "localhost",
        secrets: dict[str, str] | None = None,
        **changes: Any,
    ) -> ExternalService:
        port = server if isinstance(server, int) else server.number
        changes.setdefault("allow_addresses", LOOPBACK)
        changes.setdefault("timeout", 5.0)
        reference = ServiceReference(url=f"https://{host}:{port}{path}", method=method, **changes)
        handler = ExternalService(
            reference,
            secrets or {},
            self.authority.trust if trust is None else trust,
            reactor(),
            names or Names(["127.0.0.1"]),
        )
        self.handlers.append(handler)
        return handler

    async def close(self) -> None:
        for handler in self.handlers:
            await handler.close()
        for server in self.servers:
            await maybeDeferred(server.port.stopListening)


@pytest.fixture
def yard(request: pytest.FixtureRequest) -> Yard:
    found = Yard()
    request.addfinalizer(lambda: pytest_twisted.blockon(ensureDeferred(found.close())))
    return found


def context(given: dict[str, Any] | None = None, **members: Any) -> EndpointContext:
    """A call with that input."""
    return EndpointContext(input=given or {}, method="QUERY", path="/rooms", **members)


async def error(handler: ExternalService, given: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
    """The error that a call ends in."""
    with pytest.raises(EndpointError) as caught:
        await handler.handle(context(given))
    return caught.value.name, dict(caught.value.details)


# What is sent, and what comes back


@pytest_twisted.ensureDeferred
async def test_names_are_translated_both_ways(yard: Yard) -> None:
    """API-133: the upstream sees its names, the agent ours; others pass through."""
    server = yard.server(says(answer(200, {"confirmationNumber": "c1", "extra": [1]})))
    handler = yard.handler(
        server,
        "/booking",
        input_transform={"guest_id": "guestId"},
        output_transform={"confirmation_code": "confirmationNumber"},
    )
    assert await handler.handle(context({"guest_id": 7, "nights": 2})) == {"confirmation_code": "c1", "extra": [1]}
    (heard,) = server.heard
    assert target(heard) == ("POST", "/booking")
    assert heard.json() == {"guestId": 7, "nights": 2}
    assert heard.headers["content-type"] == "application/json"
    assert heard.headers["host"] == f"localhost:{server.number}"


@pytest_twisted.ensureDeferred
async def test_places_in_the_url_are_one_value_each(yard: Yard) -> None:
    """T-SS-41 to T-SS-48: what a caller sends stays inside its segment or query value."""
    server = yard.server(says(answer(200, {})))
    handler = yard.handler(server, "/rooms/{roomId}/x?view={view}", "GET", input_transform={"room_id": "roomId"})
    hostile = "../../admin?x=1#y&z=/%2e%2e\\"
    await handler.handle(context({"room_id": hostile, "view": "a&b=c", "n": 3, "flag": True, "tags": ["p", "q r"]}))
    method, path = target(server.heard[0])
    assert method == "GET"
    assert path == (
        "/rooms/..%2F..%2Fadmin%3Fx%3D1%23y%26z%3D%2F%252e%252e%5C/x?view=a%26b%3Dc&n=3&flag=true&tags=p&tags=q+r"
    )
    assert server.heard[0].body == b"" and "content-length" not in server.heard[0].headers
    # A joiner of letters, a space that does not break, and a character of no Unicode yet are texts like any other.
    await handler.handle(context({"room_id": "a\u200cb\u00a0\U000ab47a", "view": "v"}))
    assert target(server.heard[1])[1] == "/rooms/a%E2%80%8Cb%C2%A0%F2%AB%91%BA/x?view=v"
    for value in ("..", ".", "", "a\nb", "a\x00b", "a\x84b", "a\u2028b"):
        with pytest.raises(Refusal) as caught:
            await handler.handle(context({"room_id": value, "view": "v"}))
        assert (caught.value.status, caught.value.reason) == (422, "invalid-input")
    assert len(server.heard) == 2


@pytest_twisted.ensureDeferred
async def test_bodies_as_forms_and_members_in_the_query(yard: Yard) -> None:
    """``query`` moves members there; a Content-Type of a form makes the body one."""
    server = yard.server(says(answer(200, {})))
    handler = yard.handler(server, "/x", secrets={"Content-Type": "application/x-www-form-urlencoded"}, query=("page",))
    await handler.handle(context({"page": 2, "a": "b c", "d": {"e": 1}}))
    assert target(server.heard[0]) == ("POST", "/x?page=2")
    assert server.heard[0].body == b"a=b+c&d=%7B%22e%22%3A1%7D"


@pytest_twisted.ensureDeferred
async def test_nobodys_identity_and_credentials_are_forwarded(yard: Yard) -> None:
    """API-132, API-138, T-SS-60: the operator's header is sent; the caller's names are not, unless configured."""
    server = yard.server(says(answer(200, {})))
    caller = agent(CALLER, "caller", hosted=False)
    call = context({}, caller=caller, assurance=Assurance.CERTIFICATE, idempotency_key="key-1")
    await yard.handler(server, secrets={"Authorization": "Bearer t0ken"}).handle(call)
    sent = server.heard[0].headers
    assert sent["authorization"] == "Bearer t0ken"
    assert not any("agent" in name and name != "user-agent" for name in sent)
    assert CALLER not in str(sent) and "acme" not in str(sent) and "key-1" not in str(sent)
    told = yard.handler(server, forward_identity=True, idempotency_header="Idempotency-Key")
    await told.handle(call)
    sent = server.heard[1].headers
    assert (sent["agtp-agent-id"], sent["agtp-principal-id"]) == (CALLER, "acme.example")
    assert len(sent["idempotency-key"]) == 32 and sent["idempotency-key"] != "key-1"
    await told.handle(replace_caller(call))
    assert server.heard[2].headers["idempotency-key"] != sent["idempotency-key"], "another caller, another key"
    # A name that a header alone says: the service is not told it, and the key of that agent is another one.
    await told.handle(replace(call, assurance=Assurance.HEADER))
    claimed = server.heard[3].headers
    assert not any("agent" in name and name != "user-agent" for name in claimed) and CALLER not in str(claimed)
    assert claimed["idempotency-key"] != sent["idempotency-key"]


def replace_caller(call: EndpointContext) -> EndpointContext:
    """The same call of another agent."""
    return replace(call, caller=agent("c" * 64, "other", hosted=False))


@pytest_twisted.ensureDeferred
async def test_connections_are_kept(yard: Yard) -> None:
    """Ten calls, one connection; an error's small body does not end it."""
    answers = [answer(200, {"n": 1}), answer(404, b"nope", kind="text/plain")] * 5
    server = yard.server(lambda heard, transport: transport.write(answers.pop(0)))
    handler = yard.handler(server)
    for _ in range(5):
        assert await handler.handle(context()) == {"n": 1}
        assert (await error(handler))[0] == "upstream_error"
    assert server.connections == 1


@pytest_twisted.ensureDeferred
@pytest.mark.parametrize(
    ("method", "octets", "result"),
    [
        ("DELETE", b"HTTP/1.1 204 No Content\r\n\r\n", {}),
        ("HEAD", b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n", {}),
        ("GET", answer(200, [1, 2]), [1, 2]),
        ("GET", answer(201, {"a": 1}, kind="text/plain"), {"a": 1}),
        ("OPTIONS", answer(200, {"a": 1}), {"a": 1}),
        ("PUT", b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n7\r\n{"a":1}\r\n0\r\n\r\n', {"a": 1}),
        ("PATCH", b"HTTP/1.1 100 Continue\r\n\r\n" + answer(200, {"a": 1}), {"a": 1}),
    ],
)
async def test_every_method_and_way_to_answer(yard: Yard, method: str, octets: bytes, result: Any) -> None:
    """API-131: all seven methods; empty answers, lists, chunks and interim responses."""
    handler = yard.handler(yard.server(says(octets)), method=method)
    assert await handler.handle(context()) == result


@pytest_twisted.ensureDeferred
@pytest.mark.parametrize(
    ("status", "body", "fine"), [(200, b"", True), (202, b"", True), (200, b"oh", False), (500, b"", False)]
)
async def test_an_answer_may_be_empty_where_the_operator_says_so(
    yard: Yard, status: int, body: bytes, fine: bool
) -> None:
    """``empty_response``: 2xx without a body has no members, and a body is still JSON."""
    handler = yard.handler(yard.server(says(answer(status, body))), empty_response=True)
    if fine:
        assert await handler.handle(context()) == {}
    else:
        name, _ = await error(handler)
        assert name in ("upstream_malformed_response", "upstream_error")


# The five errors, and error_map


@pytest_twisted.ensureDeferred
@pytest.mark.parametrize(
    ("octets", "name"),
    [
        (answer(200, b"not json"), "upstream_malformed_response"),
        (answer(200, b""), "upstream_malformed_response"),
        (answer(200, b'{"a":1,"a":2}'), "upstream_malformed_response"),
        (answer(200, b'{"a":NaN}'), "upstream_malformed_response"),
        (answer(200, b"[" * 100 + b"]" * 100), "upstream_malformed_response"),
        (answer(200, b'"\\ud800"'), "upstream_malformed_response"),
        (answer(200, b"\xff"), "upstream_malformed_response"),
        (answer(401), "upstream_authentication_failed"),
        (answer(403), "upstream_authentication_failed"),
        (answer(500), "upstream_error"),
        (answer(503, b"x" * 200_000), "upstream_error"),
        (answer(418), "upstream_error"),
        (answer(302, b"", "Location: https://169.254.169.254/latest/meta-data"), "upstream_error"),
        (answer(404), "room_not_found"),
        (answer(402), "payment_needed"),
    ],
)
async def test_statuses_become_declared_errors(yard: Yard, octets: bytes, name: str) -> None:
    """API-134, API-136, T-SS-49: and a redirect is an error, never followed."""
    server = yard.server(says(octets))
    found, details = await error(yard.handler(server, error_map={404: "room_not_found", 402: "payment_needed"}))
    assert found == name
    assert details["upstream_status"] == int(octets[9:12])
    assert len(server.heard) == 1


@pytest_twisted.ensureDeferred
async def test_a_mapped_401_is_what_it_is_mapped_to(yard: Yard) -> None:
    """API-136: ``error_map`` comes first."""
    handler = yard.handler(yard.server(says(answer(401))), error_map={401: "login_needed"})
    assert (await error(handler))[0] == "login_needed"


@pytest_twisted.ensureDeferred
async def test_nobody_listens(yard: Yard) -> None:
    """API-136: a closed port."""
    server = yard.server(says(b""))
    port = server.number
    await maybeDeferred(server.port.stopListening)
    assert (await error(yard.handler(port)))[0] == "upstream_connection_error"


@pytest_twisted.ensureDeferred
async def test_an_unknown_name(yard: Yard) -> None:
    """API-136: DNS that has no answer."""
    assert (await error(yard.handler(1, names=Names([]))))[0] == "upstream_connection_error"


@pytest_twisted.ensureDeferred
async def test_certificates_are_verified_for_the_name(yard: Yard) -> None:
    """T-UP-1, T-UP-2: another authority, and another name, are connection errors; the right ones are not."""
    server = yard.server(says(answer(200, {})))
    assert await yard.handler(server).handle(context()) == {}
    stranger = Authority().trust
    assert (await error(yard.handler(server, trust=stranger)))[0] == "upstream_connection_error"
    assert (await error(yard.handler(server, host="other.example")))[0] == "upstream_connection_error"
    assert len(server.heard) == 1, "nothing was sent to whom the certificate did not name"


# Hostile upstreams


def never(heard: Any, transport: Any) -> None:
    """Say nothing."""


def drip(octet: bytes, start: bytes) -> Script:
    """One octet every 20 ms, for as long as anybody listens."""

    def script(heard: Any, transport: Any) -> None:
        transport.write(start)

        def more() -> None:
            if transport.connected and not transport.disconnecting:
                transport.write(octet)
                reactor().callLater(0.02, more)

        more()

    return script


def flood(piece: bytes, start: bytes) -> Script:
    """The same piece over and over."""

    def script(heard: Any, transport: Any) -> None:
        transport.write(start)

        def more() -> None:
            if transport.connected and not transport.disconnecting:
                transport.write(piece * 64)
                reactor().callLater(0, more)

        more()

    return script


def bomb(heard: bytes, transport: Any) -> None:
    """Answer with 50 MiB of spaces, compressed: made when the row runs, as each worker imports this module."""
    says(answer(200, gzip.compress(b" " * (50 << 20), 1), "Content-Encoding: gzip"))(heard, transport)


OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
MALFORMED, CONNECTION, LATE = {"upstream_malformed_response"}, {"upstream_connection_error"}, {"upstream_timeout"}

HOSTILE: list[tuple[str, Script, set[str]]] = [
    ("silence", never, LATE),
    ("slow header", drip(b"x", OK + b"X: "), LATE),
    ("slow body", drip(b" ", OK + b"Content-Length: 1000\r\n\r\n"), LATE),
    ("slow chunks", drip(b"1\r\n \r\n", CHUNKED), LATE),
    ("slow error", drip(b" ", b"HTTP/1.1 500 No\r\nContent-Length: 1000\r\n\r\n"), {"upstream_error"}),
    ("endless body", flood(b" " * 1000, OK + b"\r\n"), MALFORMED),
    ("endless chunks", flood(b"3e8\r\n" + b" " * 1000 + b"\r\n", CHUNKED), MALFORMED),
    ("announced giant", says(OK + b"Content-Length: 99999999999\r\n\r\n{"), MALFORMED),
    ("1xx flood", flood(b"HTTP/1.1 100 Continue\r\n\r\n", b""), CONNECTION),
    ("header flood", flood(b"X-Y: " + b"z" * 100 + b"\r\n", OK), CONNECTION),
    ("one endless header", flood(b"z" * 1000, OK + b"X: "), CONNECTION),
    ("gzip bomb", bomb, MALFORMED),
    ("no HTTP", says(b"SSH-2.0-OpenSSH_9.2\r\n\r\n"), {"upstream_connection_error", "upstream_timeout"}),
    (
        "cut in the middle",
        lambda heard, transport: (transport.write(OK + b"Content-Length: 100\r\n\r\n{"), transport.abortConnection()),
        CONNECTION,
    ),
    ("cut at once", lambda heard, transport: transport.abortConnection(), CONNECTION),
    (
        "negative length",
        says(OK + b"Content-Length: -5\r\n\r\n{}"),
        {"upstream_connection_error", "upstream_malformed_response", "upstream_timeout"},
    ),
    (
        "two lengths",
        says(OK + b"Content-Length: 2\r\nContent-Length: 9\r\n\r\n{}"),
        {"upstream_connection_error", "upstream_malformed_response", "upstream_timeout"},
    ),
    (
        "bad chunk",
        says(CHUNKED + b"zz\r\n{}\r\n"),
        {"upstream_connection_error", "upstream_malformed_response", "upstream_timeout"},
    ),
]


@measured
@pytest_twisted.ensureDeferred
@pytest.mark.parametrize(("script", "names"), [case[1:] for case in HOSTILE], ids=[case[0] for case in HOSTILE])
async def test_hostile_upstreams_end_in_a_mandated_error_in_time(yard: Yard, script: Script, names: set[str]) -> None:
    """P16, T-UP-3 to T-UP-20: within the deadline and a second, one of the five, and no connection stays."""
    server = yard.server(script)
    # What is no matter of time does not end by it, however busy the machine is.
    deadline = 0.8 if "upstream_timeout" in names else 60.0
    handler = yard.handler(server, timeout=deadline, max_response=100_000)
    began = reactor().seconds()
    with lateness(reactor()) as late:
        name, details = await error(handler)
    assert name in names
    assert reactor().seconds() - began < 1.8 + late.seconds
    assert "ssh" not in str(details).lower(), "nothing that the upstream said"


@measured
@pytest_twisted.ensureDeferred
async def test_what_an_upstream_can_make_the_host_hold_is_bounded(yard: Yard) -> None:
    """T-UP-10: a flood of header fields is cut after the body's limit and the overhead, not read to the timeout."""
    server = yard.server(flood(b"X-Y: " + b"z" * 100 + b"\r\n", b"HTTP/1.1 200 OK\r\n"))
    handler = yard.handler(server, timeout=20.0, max_response=10_000)
    began = reactor().seconds()
    assert (await error(handler))[0] == "upstream_connection_error"
    assert reactor().seconds() - began < 5, f"cut by {OVERHEAD} octets, not by time"


# Server-side request forgery


@pytest_twisted.ensureDeferred
@pytest.mark.parametrize("address", ["127.0.0.1", "169.254.169.254", "10.0.0.1", "0.0.0.0", "::1", "::ffff:127.0.0.1"])
async def test_addresses_that_are_not_public_are_not_connected_to(yard: Yard, address: str) -> None:
    """T-SS-13 to T-SS-30: unless the endpoint lists them, as every other test here does."""
    server = yard.server(says(answer(200, {})))
    handler = yard.handler(server, names=Names([address]), allow_addresses=())
    assert (await error(handler))[0] == "upstream_connection_error"
    assert server.connections == 0


@pytest_twisted.ensureDeferred
async def test_an_address_in_the_url_is_checked_too(yard: Yard) -> None:
    """T-SS-31: https://127.0.0.1/ in a declaration is still refused, and works where it is listed."""
    server = yard.server(says(answer(200, {})))
    real = reactor().nameResolver
    closed = yard.handler(server, host="127.0.0.1", names=real, allow_addresses=())
    assert (await error(closed))[0] == "upstream_connection_error"
    assert await yard.handler(server, host="127.0.0.1", names=real).handle(context()) == {}
    assert server.connections == 1


@pytest_twisted.ensureDeferred
async def test_an_answer_that_changes_after_the_check(yard: Yard) -> None:
    """T-SS-35, DNS rebinding: one look-up, one check, one connection to what was checked."""
    server = yard.server(says(answer(200, {"from": "listed"}, "Connection: close")))
    names = Names(["127.0.0.1"], ["169.254.169.254"])
    handler = yard.handler(server, names=names)
    assert await handler.handle(context()) == {"from": "listed"}
    assert names.asked == ["localhost"], "the name is not looked up a second time for the connection"
    assert (await error(handler))[0] == "upstream_connection_error"
    assert len(server.heard) == 1


@pytest_twisted.ensureDeferred
async def test_forbidden_addresses_among_others_are_passed_over(yard: Yard) -> None:
    """T-SS-36: of a mixed answer only what passed the check is tried."""
    server = yard.server(says(answer(200, {})))
    handler = yard.handler(server, names=Names(["169.254.169.254", "10.0.0.1", "127.0.0.1"]))
    assert await handler.handle(context()) == {}


# Load and trouble


@pytest_twisted.ensureDeferred
async def test_a_failing_upstream_is_left_alone(yard: Yard) -> None:
    """T-UP-30: five failures, then no connection; after the pause one trial decides."""
    script: list[Callable[..., Any]] = [says(answer(500))]
    server = yard.server(lambda heard, transport: script[0](heard, transport))
    handler = yard.handler(server, open_seconds=0.2)
    for _ in range(5):
        assert (await error(handler))[0] == "upstream_error"
    name, details = await error(handler)
    assert (name, details["circuit"]) == ("upstream_connection_error", "open") and details["retry_after"] >= 1
    assert len(server.heard) == 5
    script[0] = says(answer(200, {}))
    await deferLater(reactor(), 0.25, lambda: None)
    assert await handler.handle(context()) == {}
    assert handler.circuit.state is State.CLOSED


@pytest_twisted.ensureDeferred
async def test_errors_of_the_caller_do_not_open_the_circuit(yard: Yard) -> None:
    """The control: 404 and 401 are answers of an upstream that works."""
    handler = yard.handler(yard.server(says(answer(404))))
    for _ in range(8):
        assert (await error(handler))[0] == "upstream_error"
    assert handler.circuit.state is State.CLOSED


@pytest_twisted.ensureDeferred
async def test_requests_at_once_are_bounded(yard: Yard) -> None:
    """One more than ``max_concurrency`` is 429 at once."""
    waiting: list[Any] = []
    server = yard.server(lambda heard, transport: waiting.append(transport))
    handler = yard.handler(server, max_concurrency=2)
    running: list[Deferred[Any]] = [ensureDeferred(handler.handle(context())) for _ in range(2)]
    with pytest.raises(Refusal) as caught:
        await handler.handle(context())
    assert (caught.value.status, caught.value.reason) == (429, "upstream-busy")
    while len(waiting) < 2:
        await deferLater(reactor(), 0.01, lambda: None)
    for transport in waiting:
        transport.write(answer(200, {}))
    assert await gatherResults(running) == [{}, {}]


@pytest_twisted.ensureDeferred
async def test_a_cancelled_call_lets_go_of_its_connection(yard: Yard) -> None:
    """When the caller is gone, the upstream is too; the circuit learns nothing from it."""
    server = yard.server(never)
    handler = yard.handler(server)
    running = ensureDeferred(handler.handle(context()))
    while not server.heard:
        await deferLater(reactor(), 0.01, lambda: None)
    running.addErrback(lambda failure: None)
    running.cancel()
    for _ in range(100):
        if server.lost:
            break
        await deferLater(reactor(), 0.01, lambda: None)
    assert server.lost == 1
    assert handler.circuit.state is State.CLOSED and handler._running == 0


@pytest_twisted.ensureDeferred
async def test_a_request_that_may_have_had_effect_is_never_repeated(yard: Yard) -> None:
    """A POST whose kept connection is cut is an error; a GET is sent again, once."""
    for method, requests, fine in (("POST", 2, False), ("GET", 3, True)):
        count = [0]

        def script(heard: Any, transport: Any, count: list[int] = count) -> None:
            count[0] += 1
            if count[0] == 2:
                transport.abortConnection()
            else:
                transport.write(answer(200, {}))

        handler = yard.handler(yard.server(script), method=method)
        assert await handler.handle(context()) == {}
        if fine:
            assert await handler.handle(context()) == {}
        else:
            assert (await error(handler))[0] == "upstream_connection_error"
        assert count[0] == requests


@pytest_twisted.ensureDeferred
async def test_secrets_stay_out_of_logs_and_errors(yard: Yard) -> None:
    """T-SE-1: a canary in a header, a failing upstream that repeats it, every log event and error searched."""
    heard: list[str] = []

    def observe(event: Any) -> None:
        heard.append(str(event))

    canary = "canary-8c1f"
    script: Script = lambda request, transport: transport.write(  # noqa: E731
        answer(500, request.headers["authorization"].encode(), f"X-Echo: {canary}")
    )
    globalLogPublisher.addObserver(observe)
    try:
        handler = yard.handler(yard.server(script), secrets={"Authorization": f"Bearer {canary}"})
        found = [str(await error(handler)) for _ in range(6)]
    finally:
        globalLogPublisher.removeObserver(observe)
    assert heard and not any(canary in text for text in (*heard, *found, repr(handler)))


def test_the_default_time_is_thirty_seconds() -> None:
    """API-137: absent means 30 s."""
    said: list[str] = []
    found = read_service({"url": "https://a.example/", "method": "GET"}, lambda *words: said.append(str(words)))
    assert said == [] and found is not None and found.timeout == 30.0


HALF = b'{"rooms": [{"name": "half-of-an-answer"}'
"""So much arrives of an answer."""


def _cut(head: bytes, body: bytes = HALF) -> Script:
    """The head, the half, and the end of the connection: with and without TLS's own goodbye."""

    def script(heard: Any, transport: Any) -> None:
        transport.write(head + body)
        transport.loseConnection()

    return script


def _reset(head: bytes) -> Script:
    def script(heard: Any, transport: Any) -> None:
        transport.write(head + HALF)
        reactor().callLater(0.05, transport.abortConnection)

    return script


LENGTH = OK + b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n"
PACKED = gzip.compress(HALF * 100)

CUT: dict[str, tuple[Script, set[str]]] = {
    "by length": (_cut(LENGTH % 400), CONNECTION),
    "by length, reset": (_reset(LENGTH % 400), CONNECTION),
    "one octet short of sound JSON": (_cut(LENGTH % 3, b"{}"), CONNECTION),
    "whole JSON, and less than was announced": (_cut(LENGTH % 400, b'{"rooms": []}'), CONNECTION),
    "between chunks": (_cut(CHUNKED, b"28\r\n" + HALF + b"\r\n"), CONNECTION),
    "in a chunk": (_cut(CHUNKED, b"99\r\n" + HALF), CONNECTION),
    "whole JSON, and no last chunk": (_cut(CHUNKED, b"d\r\n" + b'{"rooms": []}' + b"\r\n"), CONNECTION),
    "no length at all": (
        _cut(OK + b"Content-Type: application/json\r\n\r\n", b'{"rooms": []}'),
        MALFORMED | CONNECTION,
    ),
    "packed": (
        _cut(OK + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(PACKED), PACKED[: len(PACKED) // 2]),
        CONNECTION,
    ),
    "in the head": (_cut(OK + b"Content-Ty", b""), CONNECTION),
}


@pytest_twisted.ensureDeferred
@pytest.mark.parametrize("case", CUT)
async def test_an_answer_that_is_cut_is_no_answer(yard: Yard, case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The call fails and says so; nothing of the half is decoded, told, or taken for the answer of the next call."""
    decoded: list[bytes] = []
    decode = jsontext.decode

    def noting(octets: bytes, *given: Any, **named: Any) -> Any:
        decoded.append(octets)
        return decode(octets, *given, **named)

    monkeypatch.setattr(jsontext, "decode", noting)
    script, names = CUT[case]
    cut = [True]

    def first_cut(heard: Any, transport: Any) -> None:
        (script if cut.pop() else says(answer(200, {"rooms": [], "whole": True})))(heard, transport)

    cut.insert(0, False)
    handler = yard.handler(yard.server(first_cut), timeout=3.0)
    name, details = await error(handler)
    assert name in names
    assert decoded == [], "the half was parsed"
    assert "half-of-an-answer" not in repr(details)
    assert await handler.handle(context()) == {"rooms": [], "whole": True}, "the control"
    assert len(decoded) == 1
