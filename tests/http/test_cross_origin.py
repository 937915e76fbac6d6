"""CORS: exactly the listed origins may read answers, and a preflight of theirs is answered before anybody calls."""

from __future__ import annotations

import re
from typing import Any

import pytest
from twisted.internet.task import Clock

from agtphost.http.bounded_request import BoundedRequest
from agtphost.http.cross_origin import MOST_FIELDS, CrossOrigin, CrossOriginRules
from agtphost.http.http_service import HTTP_LIMITS, HttpFactory
from agtphost.http.mounts import Mounts
from tests.http.mounted import mounted
from tests.http.test_mounts import HERE, Named, Wire

PAGE = "https://app.example.com"
RULES = CrossOriginRules(fields=("Authorization", "Content-Type"), exposed=("Audit-ID", "Retry-After"))
ASKS = ("Access-Control-Request-Method: POST", "Access-Control-Request-Headers: authorization,content-type")
OTHERS = (
    *("http://app.example.com", "https://app.example.com:8443", "https://app.example.com.evil.example", "null"),
    *("https://evil-app.example.com", "https://example.com", "https://app.example.com.", "*"),
)
"""Another scheme, another port, and names that only look like the listed one."""


def site(rules: CrossOriginRules = RULES, resource: Any = None, **more: Any) -> Mounts:
    cross_origin = CrossOrigin(origins=frozenset({PAGE}), rules=lambda: rules, **more)
    told = mounted(
        resource or Named("a"), origins=frozenset({PAGE}), cross_origin=cross_origin, fields=(("Vary", "Origin"),)
    )
    return Mounts([told])


def fields_of(
    mounts: Mounts, *lines: str, method: str = "OPTIONS", times: int = 1, host: str = "localhost:8080"
) -> list[tuple[int, dict[str, str]]]:
    """Status and fields of each answer, on one connection."""
    clock = Clock()
    channel: Any = HttpFactory(mounts, HTTP_LIMITS, clock, None).buildProtocol(None)
    wire = Wire(hostAddress=HERE)
    channel.makeConnection(wire)
    head = "\r\n".join([f"{method} / HTTP/1.1", f"Host: {host}", *lines])
    for _ in range(times):
        channel.dataReceived(f"{head}\r\n\r\n".encode())
        clock.advance(0)
    found = []
    for part in re.findall(rb"HTTP/1\.1 \d{3} .*?\r\n\r\n", wire.value(), re.DOTALL):
        first, *rest = part.decode().strip().split("\r\n")
        fields: dict[str, str] = {}
        for line in rest:
            name, _, value = line.partition(": ")
            fields[name.lower()] = f"{fields[name.lower()]}, {value}" if name.lower() in fields else value
        found.append((int(first.split()[1]), fields))
    return found


def shared(fields: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in fields.items() if name.startswith("access-control-")}


def test_a_preflight_of_a_listed_origin_is_answered() -> None:
    """204 with that origin, the methods and fields of the surface, and no credentials."""
    resource = Named("a")
    ((status, fields),) = fields_of(site(resource=resource), f"Origin: {PAGE}", *ASKS)
    assert status == 204 and resource.asked == 0 and "content-length" not in fields
    assert fields["access-control-allow-origin"] == PAGE and "Origin" in fields["vary"]
    assert fields["access-control-allow-headers"] == "Authorization, Content-Type"
    assert "POST" in fields["access-control-allow-methods"].split(", ")
    assert int(fields["access-control-max-age"]) > 0
    assert "access-control-allow-credentials" not in fields and "*" not in shared(fields).values()
    assert "access-control-allow-private-network" not in fields


def test_it_leaves_the_connection_open() -> None:
    """The call that it is for comes on the same one."""
    found = fields_of(site(), f"Origin: {PAGE}", *ASKS, times=3)
    assert [status for status, _ in found] == [204, 204, 204]
    assert all(fields.get("connection") != "close" for _, fields in found)


@pytest.mark.parametrize("origin", OTHERS)
@pytest.mark.parametrize("method", ["OPTIONS", "GET", "POST"])
def test_other_origins_are_told_nothing(origin: str, method: str) -> None:
    """Nothing but 403, whatever is asked for; the answer varies by Origin, so that no cache mixes them up."""
    resource = Named("a")
    ((status, fields),) = fields_of(site(resource=resource), f"Origin: {origin}", *ASKS, method=method)
    assert (status, shared(fields), resource.asked) == (403, {}, 0)
    assert "Origin" in fields["vary"]


def test_a_listed_origin_reads_answers_and_refusals() -> None:
    """Also those of who may not call: otherwise a page could not tell why."""
    for lines, expected in (((), 200), (("No: 1",), 401), (("Content-Encoding: gzip",), 415)):
        ((status, fields),) = fields_of(site(), f"Origin: {PAGE}", *lines, method="GET")
        told = {"access-control-allow-origin": PAGE, "access-control-expose-headers": "Audit-ID, Retry-After"}
        assert (status, shared(fields)) == (expected, told)
    ((status, fields),) = fields_of(site(), method="GET")
    assert (status, shared(fields)) == (200, {}) and "Origin" in fields["vary"]


@pytest.mark.parametrize("method", ["OPTIONS", "GET"])
@pytest.mark.parametrize("origin", [PAGE, *OTHERS])
def test_a_wrong_host_is_refused_where_a_listed_page_can_read_it(method: str, origin: str) -> None:
    """DNS rebinding is looked for before a preflight is answered; only a page that is listed learns what is wrong."""
    resource = Named("a")
    mounts = site(resource=resource)
    ((status, fields),) = fields_of(mounts, f"Origin: {origin}", *ASKS, method=method, host="rebound.example")
    told = {"access-control-allow-origin": PAGE, "access-control-expose-headers": "Audit-ID, Retry-After"}
    assert (status, resource.asked, shared(fields)) == (421, 0, told if origin == PAGE else {})
    assert "Origin" in fields["vary"]


def test_options_that_is_no_preflight_is_the_surfaces() -> None:
    """Without the field that browsers send with every preflight."""
    resource = Named("a")
    ((status, _),) = fields_of(site(resource=resource), f"Origin: {PAGE}")
    assert (status, resource.asked) == (200, 1)


def test_a_method_that_is_none_is_not_repeated() -> None:
    """One of AGTP's own is allowed where the surface takes such; what is no method is not written into a field."""

    def allowed(method: str, **options: Any) -> list[str]:
        rules = CrossOriginRules(fields=(), exposed=(), **options)
        ((_, fields),) = fields_of(site(rules), f"Origin: {PAGE}", f"Access-Control-Request-Method: {method}")
        return fields["access-control-allow-methods"].split(", ")

    assert "BOOK" in allowed("BOOK") and allowed("POST").count("POST") == 1
    assert "BOOK" not in allowed("BOOK", other_methods=False)
    for strange in ("book", "B OOK", "BOOK,X", "*", "B" * 33):
        assert strange not in ", ".join(allowed(strange)), strange


def test_fields_are_the_surfaces_or_begin_as_it_says() -> None:
    """What is asked for is looked at up to a bound, and nothing else comes back."""
    rules = CrossOriginRules(fields=("Accept",), exposed=(), prefixes=("mcp-param-",))
    asked = ["x-evil", "MCP-Param-Region", "mcp-param-a b", *(f"mcp-param-{number}" for number in range(200))]
    lines = (ASKS[0], f"Access-Control-Request-Headers: {', '.join(asked)}")
    ((_, fields),) = fields_of(site(rules), f"Origin: {PAGE}", *lines)
    allowed = fields["access-control-allow-headers"].split(", ")
    assert allowed[:3] == ["Accept", "mcp-param-region", "mcp-param-0"] and len(allowed) <= MOST_FIELDS
    assert not [name for name in allowed if " " in name or "evil" in name]


def test_a_private_network_is_opened_to_listed_origins_alone() -> None:
    """Chromium asks whether a public page may reach an address of this network."""
    private = "Access-Control-Request-Private-Network: true"
    ((_, fields),) = fields_of(site(), f"Origin: {PAGE}", *ASKS, private)
    assert fields["access-control-allow-private-network"] == "true"
    ((status, fields),) = fields_of(site(), "Origin: https://evil.example", *ASKS, private)
    assert (status, shared(fields)) == (403, {})


def test_too_many_preflights_are_told_to_wait() -> None:
    """Nobody has shown who they are by then; the address is what is counted."""
    waits = [0.0, 0.0, 2.5]
    counted: list[str] = []

    def wait(address: str) -> float:
        counted.append(address)
        return waits[len(counted) - 1]

    found = fields_of(site(wait=wait), f"Origin: {PAGE}", *ASKS, times=3)
    assert [status for status, _ in found] == [204, 204, 429]
    assert found[-1][1]["retry-after"] == "3" and found[-1][1]["access-control-allow-origin"] == PAGE
    assert len(counted) == 3


def test_a_field_that_stands_twice_is_refused() -> None:
    """Two readers of one request would disagree about the origin, or about what it asks for."""
    for line in (f"Origin: {PAGE}", ASKS[0], ASKS[1]):
        ((status, fields),) = fields_of(site(), f"Origin: {PAGE}", *ASKS, line)
        assert (status, shared(fields)) == (400, {})


def test_a_surface_without_it_answers_no_preflight() -> None:
    """Its listed origins may send requests, and read nothing."""
    mounts = Mounts([mounted(Named("a"), origins=frozenset({PAGE}))])
    ((status, fields),) = fields_of(mounts, f"Origin: {PAGE}", *ASKS)
    assert (status, shared(fields)) == (200, {})


def test_a_preflight_has_no_body() -> None:
    """One that announces a body is answered by its head, and its connection ends."""

    class Deaf(Named):
        def render(self, request: BoundedRequest) -> bytes:
            raise AssertionError("it is not asked")

    ((status, fields),) = fields_of(site(resource=Deaf("a")), f"Origin: {PAGE}", *ASKS, "Content-Length: 5")
    assert status == 204 and fields["connection"] == "close"
