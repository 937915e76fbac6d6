"""``/.well-known/agtp`` as clients read it: advice, bounded and verified; 404 alone is an answer of its own."""

from __future__ import annotations

import contextlib
import ipaddress
import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import pytest_twisted

from agtphost.client import bootstrap, requests
from agtphost.client.bootstrap import (
    ABSENT_SECONDS,
    FAILED_SECONDS,
    MAX_DOMAINS,
    MAX_OCTETS,
    BootstrapPolicy,
    Bootstraps,
    HTTPAnswer,
    NoNamespace,
)
from agtphost.client.errors import CannotConnect, ClientError
from agtphost.vocabulary import uris
from agtphost.vocabulary.addresses import AddressPolicy
from agtphost.vocabulary.uris import parse
from tests.client.credentials import Credentials, Pair
from tests.client.drivers import Driver
from tests.client.scripted_host import ScriptedHost, echo
from tests.rows import each_row
from tests.system.hosting import free_port

NewClient = Callable[..., Driver]
LOOPBACK = AddressPolicy([ipaddress.ip_network("127.0.0.0/8"), ipaddress.ip_network("::1/128")])
NAMED = "agtp://localhost/agents/librarian"


@pytest.fixture(autouse=True)
def usual_port(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """Make a port the usual one on which nobody listens: on 4480 this machine may have a host."""
    port = free_port()
    with monkeypatch.context() as patch:
        for module in (uris, bootstrap):
            patch.setattr(module, "DEFAULT_PORT", port)
        requests._parse_text.cache_clear()
        yield port
    requests._parse_text.cache_clear()


class Domain:
    """The HTTPS server of a domain, on loopback while its ``with`` block runs; answers with octets as they are."""

    def __init__(self, credentials: Credentials, octets: bytes, *, pair: Pair | None = None) -> None:
        self.octets = octets
        self.asked: list[str] = []
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        pair = pair or credentials.server
        self._context.load_cert_chain(pair.cert, pair.key)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._serve, daemon=True)

    @property
    def policy(self) -> BootstrapPolicy:
        return BootstrapPolicy(port=self.port, timeout=20.0, single_labels=True, addresses=LOOPBACK)

    def __enter__(self) -> Domain:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(5)

    def _serve(self) -> None:
        while True:
            try:
                raw, _ = self._listener.accept()
            except OSError:
                return
            raw.settimeout(5)
            with contextlib.suppress(OSError), raw, self._context.wrap_socket(raw, server_side=True) as channel:
                head = channel.recv(4096)
                self.asked.append(head.partition(b"\r\n")[0].decode())
                channel.sendall(self.octets)


def http(status: str, body: bytes = b"", *fields: str) -> bytes:
    head = "\r\n".join([f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", "Connection: close", *fields, "", ""])
    return head.encode() + body


def pointing(endpoint: str) -> bytes:
    return http("200 OK", json.dumps({"agtp_version": "1.0", "endpoint": endpoint}).encode())


@pytest_twisted.ensureDeferred
async def test_the_endpoint_of_the_document_is_dialled(credentials: Credentials, new_client: NewClient) -> None:
    """AGTP-128: a domain that was not seen before is asked once, over HTTPS, before AGTP; its endpoint is used."""
    with ScriptedHost(credentials, echo) as host, Domain(credentials, pointing(host.uri)) as domain:
        async with new_client(bootstrap=domain.policy) as client:
            reply = await client.resolve(NAMED)
            assert reply.result["path"] == "/agents/librarian"
            await client.resolve(NAMED)
            assert (await client.call(NAMED, "QUERY", "/books")).ok, "calls follow what resolving learned"
        assert domain.asked == ["GET /.well-known/agtp HTTP/1.1"]
        assert [request.path for request in host.requests] == ["/agents/librarian"] * 2 + ["/agents/librarian/books"]


@pytest_twisted.ensureDeferred
async def test_404_is_an_answer_and_remembered(credentials: Credentials, new_client: NewClient) -> None:
    """AGTP-129: no namespace, no AGTP traffic, and no second HTTPS request."""
    with Domain(credentials, http("404 Not Found")) as domain:
        async with new_client(bootstrap=domain.policy) as client:
            for _ in range(2):
                with pytest.raises(NoNamespace):
                    await client.resolve(NAMED)
        assert len(domain.asked) == 1


FAILURES: dict[str, bytes] = {
    "an error": http("500 Oops"),
    "a redirect": http("302 Found", b"", "Location: https://localhost:1/elsewhere"),
    "no json": http("200 OK", b"<html>"),
    "no endpoint": http("200 OK", b"{}"),
    "an endpoint that is none": pointing("https://localhost/"),
    "too large": http("200 OK", b" " * (MAX_OCTETS + 1)),
    "no http": b"AGTP/1.0 200 OK\r\n\r\n",
    "cut off": b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{",
    "nothing": b"",
}


@pytest.mark.parametrize("case", FAILURES)
@pytest_twisted.ensureDeferred
async def test_anything_else_is_only_no_advice(
    credentials: Credentials, new_client: NewClient, case: str, usual_port: int
) -> None:
    """AGTP-128: where the document is not to be had, AGTP is dialled as the URI says; redirects are not followed."""
    with Domain(credentials, FAILURES[case]) as domain:
        async with new_client(bootstrap=domain.policy, connect_timeout=2.0) as client:
            with pytest.raises(CannotConnect) as error:
                await client.resolve(NAMED)
            assert f"localhost:{usual_port}" in str(error.value)
        assert len(domain.asked) == 1


@pytest_twisted.ensureDeferred
async def test_an_unverified_server_gives_no_advice(credentials: Credentials, new_client: NewClient) -> None:
    """AGTP-128: the certificate is checked: authority, name, validity; nothing of such an answer is used."""
    with ScriptedHost(credentials, echo) as host:
        for pair in (credentials.self_signed, credentials.wrong_name, credentials.expired):
            with Domain(credentials, pointing(host.uri), pair=pair) as domain:
                async with new_client(bootstrap=domain.policy, connect_timeout=2.0) as client:
                    with pytest.raises(CannotConnect):
                        await client.resolve(NAMED)
            assert domain.asked == []
        assert host.requests == []


@pytest_twisted.ensureDeferred
async def test_a_domain_that_does_not_answer_costs_only_its_time(
    credentials: Credentials, new_client: NewClient
) -> None:
    """AGTP-128: nobody listens, or nobody speaks: bounded, and then AGTP is dialled."""
    silent = socket.create_server(("127.0.0.1", 0))
    port = silent.getsockname()[1]
    with silent:
        policy = BootstrapPolicy(port=port, timeout=0.3, single_labels=True, addresses=LOOPBACK)
        async with new_client(bootstrap=policy, connect_timeout=2.0) as client:
            with pytest.raises(CannotConnect):
                await client.resolve(NAMED)
    async with new_client(bootstrap=policy, connect_timeout=2.0) as client:
        with pytest.raises(CannotConnect):
            await client.resolve(NAMED)


def learned(answer: HTTPAnswer | str) -> Bootstraps:
    bootstraps = Bootstraps(BootstrapPolicy())
    bootstraps.note("example.com", answer, 100.0)
    return bootstraps


@each_row(
    ("uri", "asked"),
    [
        ("agtp://example.com", True),
        ("agtp://example.com/agents", True),
        ("agtp://example.com/agents/x", True),
        ("agtp://agtp.example.com/agents/x", True),
        ("agtp://example.com:4481", False),
        ("agtp://192.0.2.1", False),
        ("agtp://[2001:db8::1]", False),
        ("agtp://localhost", False),
        (f"agtp://{'a' * 64}", False),
        (f"agtp://{'a' * 64}@example.com", False),
    ],
)
def test_who_is_asked(uri: str, asked: bool) -> None:
    """AGTP-128: domains alone, and none where the client is told not to."""
    assert (Bootstraps(BootstrapPolicy()).domain_to_ask(parse(uri), 0.0) is not None) is asked
    assert Bootstraps(None).domain_to_ask(parse(uri), 0.0) is None


@each_row(
    ("answer", "seconds"),
    [
        (HTTPAnswer(status=404), ABSENT_SECONDS),
        (HTTPAnswer(status=404, cache_control="max-age=60"), 60.0),
        (HTTPAnswer(status=404, cache_control="no-store"), 0.0),
        (HTTPAnswer(status=404, cache_control="max-age=999999999"), 604_800.0),
        (HTTPAnswer(status=503), FAILED_SECONDS),
        ("no connection", FAILED_SECONDS),
    ],
)
def test_how_long_an_answer_counts(answer: HTTPAnswer | str, seconds: float) -> None:
    """AGTP-129: a 404 for as long as it says, else a day; a failure for minutes."""
    bootstraps, uri = learned(answer), parse("agtp://example.com/agents")
    if seconds:
        assert bootstraps.domain_to_ask(uri, 100.0 + seconds - 1) is None
    assert bootstraps.domain_to_ask(uri, 100.0 + seconds) == "example.com"


def test_a_domain_without_a_namespace_may_still_have_a_server() -> None:
    """AGTP-129, spec reading 62: 404 speaks of the namespace; other failures of nothing."""
    absent = learned(HTTPAnswer(status=404))
    assert str(absent.locate(parse("agtp://example.com"))) == "agtp://example.com"
    for uri in ("agtp://example.com/agents", "agtp://example.com/agents/x"):
        with pytest.raises(NoNamespace):
            absent.locate(parse(uri))
        assert str(learned("no connection").locate(parse(uri))) == uri
        assert issubclass(NoNamespace, ClientError)


def test_domains_are_forgotten_in_the_end() -> None:
    """What one client remembers is bounded."""
    bootstraps: Any = Bootstraps(BootstrapPolicy())
    for number in range(MAX_DOMAINS + 5):
        bootstraps.note(f"d{number}.example", "no connection", 0.0)
    assert len(bootstraps._known) == MAX_DOMAINS
    assert bootstraps.domain_to_ask(parse("agtp://d0.example"), 1.0) == "d0.example"
