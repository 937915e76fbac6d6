"""Which requests of HTTP clients have a head in common, under which gates keep what they found."""

from __future__ import annotations

import pytest

from agtphost.http.client_heads import ClientHeads
from agtphost.http.clients import HttpClient
from tests.bench.front_path import FrontPath
from tests.bench.gateway_path import GatewayPath
from tests.bench.http_path import HttpPath

MOST = 16
FIELDS = (("Agent-ID", "a" * 64),)


def client(number: int = 0, fields: tuple[tuple[str, str], ...] = FIELDS) -> HttpClient:
    """Return a client with a key of the operator's, at one of many addresses."""
    return HttpClient(key="client:c", address=f"192.0.2.{number}", fields=fields)


def test_a_clients_head_is_shared_from_its_second_operation_on() -> None:
    """By all that come from one address with the same fields, and by no others."""
    asked = ClientHeads(MOST)
    first, second, third = (asked.find_common(client()) for _ in range(3))
    assert first is None and second is not None and third is second
    assert asked.find_common(client(1)) is None
    assert asked.find_common(client(1)) not in (None, second)
    other = client(0, (("Agent-ID", "b" * 64),))
    assert [asked.find_common(other), asked.find_common(other)][1] not in (None, second)


def test_of_clients_that_come_from_ever_other_addresses_nothing_is_learned() -> None:
    """Learning costs more than it saves, and what is remembered is bounded."""
    asked = ClientHeads(MOST)
    for _ in range(3):
        assert [asked.find_common(client(number)) for number in range(MOST + 1)] == [None] * (MOST + 1)
    assert len(asked) == MOST


def test_a_head_with_a_providers_token_is_never_shared() -> None:
    """The token expires, and is not kept here."""
    asked, bearer = ClientHeads(MOST), client(0, (*FIELDS, ("Authorization", "Bearer x")))
    assert [asked.find_common(bearer) for _ in range(3)] == [None] * 3
    assert len(asked) == 0


def test_a_long_head_is_never_shared() -> None:
    """Any client chooses what its heads have; what is remembered of all of them stays small."""
    asked = ClientHeads(MOST)
    for long in (("GET", b"/" * 1_025), ("GET", b"/", ("Accept", "a" * 1_024))):
        assert [asked.find_common(client(), long) for _ in range(3)] == [None] * 3
    assert len(asked) == 0
    short = ("GET", b"/", ("Accept", "a"))
    assert [asked.find_common(client(), short) is None for _ in range(3)] == [True, False, False]


@pytest.mark.parametrize("surface", [GatewayPath, FrontPath])
def test_a_client_whose_calls_were_all_alike_is_refused_once_it_is_suspended(surface: type[HttpPath]) -> None:
    """What gates found of its calls holds for the next one only as long as its agent may call."""
    with surface() as path:
        for _ in range(4):
            path.calls(2)
        kept = path._host.dispatcher._passage._kept.values()  # type: ignore[attr-defined]
        assert [each for each in kept if not isinstance(each, int)], "gates have learned of the client"
        path._host.put(path._caller.agent_id, "suspended")
        path._begin(path.requests(1))
        (_, wire, _), *_ = path._wires
        assert b"agent-suspended" in wire.value()
        assert not path._child.answers(), "nothing reached the tool's server"
