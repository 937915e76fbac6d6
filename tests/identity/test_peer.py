"""Which peers are alike to the gates in front of a body: those of two calls of one client, and no others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from agtphost.identity.peer import Peer, Withdrawable

OF_ONE_CALL: Mapping[str, Any] = {
    "link": Withdrawable(client="other"),
    "leaving": {print},
    "parting": {print},
    "inside": object(),
    "greeted": True,
    "follow": object(),
    "recorded": {},
}
"""What belongs to a call, or is made of other fields; no gate in front of a body reads it."""


def front_peer() -> Peer:
    """Return the peer of a request of a front's client."""
    http = {"surface": "mcp", "client": "c", "method": "POST"}
    return Peer(address="192.0.2.1", transport="http", vouched=True, http=http, link=Withdrawable(client="c"))


def test_peers_of_two_calls_of_a_client_are_alike() -> None:
    """They differ in the link and in what belongs to a call."""
    one, other = front_peer(), front_peer()
    for name, value in OF_ONE_CALL.items():
        setattr(other, name, value)
    assert one.is_alike(other) and other.is_alike(one)


def test_peers_that_differ_in_anything_else_are_not_alike() -> None:
    """A field that is added to a peer counts, unless it is listed here."""
    one = front_peer()
    found = 0
    for each in fields(Peer):
        if each.name not in OF_ONE_CALL:
            other = front_peer()
            setattr(other, each.name, object())
            assert not one.is_alike(other) and not other.is_alike(one), each.name
            found += 1
    assert found > 15


def test_peers_of_connections_are_not_alike() -> None:
    """Two connections share nothing, even from one address with one certificate."""
    one = replace(front_peer(), http=None, transport="agtp")
    assert not one.is_alike(replace(one))
