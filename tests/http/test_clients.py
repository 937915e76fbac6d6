"""Who an HTTP client is: by what it proves, and never by what it says."""

from __future__ import annotations

from typing import Any

import pytest
from twisted.internet.address import IPv4Address

from agtphost.http.clients import ClientRefused, HttpClient, HttpClients, HttpClientToken
from agtphost.http.request_heads import SpelledHeaders
from tests.rows import each_row

NIGHTLY = HttpClientToken(name="nightly", token="n" * 32, agent_id="a" * 64, scopes=("documents:read",))
WEEKLY = HttpClientToken(name="weekly", token="w" * 32, agent_id="b" * 64)


class Asked:
    """A request, as far as clients are concerned."""

    method = b"POST"
    channel: Any = None

    def __init__(self, **fields: str) -> None:
        self.requestHeaders = SpelledHeaders()
        for name, value in fields.items():
            self.requestHeaders.put(name.replace("_", "-"), value)

    def getClientAddress(self) -> IPv4Address:
        """Where it comes from."""
        return IPv4Address("TCP", "192.0.2.7", 50_000)


def of(clients: HttpClients, token: str | None = None, **fields: str) -> HttpClient:
    if token is not None:
        fields["authorization"] = f"Bearer {token}"
    return clients.identify(Asked(**fields))  # type: ignore[arg-type]


def test_a_key_is_its_agent() -> None:
    """Whatever else is said of the sender; with the scopes that the operator gave to the key, or with all."""
    clients = HttpClients("a2a", agent_id="c" * 64, tokens=("f" * 32,), keyholders=(NIGHTLY, WEEKLY))
    nightly = of(clients, NIGHTLY.token, agent_id="d" * 64, authority_scope="everything:do")
    assert nightly.fields == (("Agent-ID", "a" * 64), ("Authority-Scope", "documents:read"))
    assert (nightly.name, nightly.key) == ("nightly", "client:nightly")
    assert of(clients, WEEKLY.token).fields == (("Agent-ID", "b" * 64),)
    assert of(clients, "f" * 32).fields == (("Agent-ID", "c" * 64),)
    assert len({of(clients, token).key for token in (NIGHTLY.token, WEEKLY.token, "f" * 32)}) == 3


@each_row("token", [None, "", "n" * 31, "n" * 33, "N" * 32, "x" * 32, "é" * 32])
def test_what_is_no_key_is_nobody(token: str | None) -> None:
    """Nothing is close to a key."""
    with pytest.raises(ClientRefused):
        of(HttpClients("a2a", keyholders=(NIGHTLY,)), token)
    with pytest.raises(ClientRefused):
        of(HttpClients("a2a", agent_id="c" * 64, keyholders=(NIGHTLY,)), token)


def test_every_key_is_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """With each in the same time, and with all of them, wherever the right one stands."""
    compared: list[tuple[int, int]] = []

    def compare(one: bytes, other: bytes) -> bool:
        compared.append((len(one), len(other)))
        return one == other

    monkeypatch.setattr("agtphost.http.clients.hmac.compare_digest", compare)
    clients = HttpClients("a2a", agent_id="c" * 64, tokens=("f", "g"), keyholders=(NIGHTLY, WEEKLY))
    for token in (NIGHTLY.token, "g", "f" * 9999):
        compared.clear()
        try:
            of(clients, token)
        except ClientRefused:
            assert token == "f" * 9999
        assert compared == [(32, 32)] * 4


def test_the_open_front_proves_nobody() -> None:
    """Where nothing is asked for, the caller is one who merely says who it is: not vouched for."""
    peer = of(HttpClients("a2a", agent_id="c" * 64)).peer()
    assert not peer.vouched
    proven = of(HttpClients("a2a", keyholders=(NIGHTLY,)), NIGHTLY.token).peer()
    assert proven.vouched
    assert proven.http == {"surface": "a2a", "client": "nightly", "method": "POST"}
