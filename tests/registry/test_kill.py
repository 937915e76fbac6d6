"""kill -9 of a host among registrations: whatever was acknowledged is there, octet for octet."""

from __future__ import annotations

from pathlib import Path

from tests.bench.load import Client
from tests.bench.registration import credentials, listed, operated, request
from tests.programmes import length
from tests.registry.hosts import card, text_of
from tests.system.hosting import Host, running

ROUNDS = length(1, 50)
CARDS = 40


def asked(host: Host, *octets: bytes) -> list[bytes]:
    """Answers on one connection, in order."""
    context, _ = credentials(host)
    waiting = iter(octets)
    client = Client(("127.0.0.1", host.port), context, lambda: next(waiting))
    found = []
    for _ in octets:
        client.send()
        answer = None
        while answer is None:
            answer = client.receive()
        found.append(answer)
    client.tls.close()
    return found


def test_what_was_acknowledged_survives_sigkill(tmp_path: Path) -> None:
    """Killed the moment the last acknowledgement is in; the next start has every card, and the last as it was sent."""
    config = operated(tmp_path)
    registered = 0
    for turn in range(ROUNDS):
        text = text_of(card(id=f"card-{turn}-{CARDS - 1}", description=f"Turn {turn}."))
        with running(config) as host:
            _, agent_id = credentials(host)
            sent: list[object] = [card(id=f"card-{turn}-{number}") for number in range(CARDS - 1)]
            octets = [request("REGISTER", "/cards", agent_id, {"card": each}) for each in (*sent, text)]
            assert all(each.startswith(b"AGTP/1.0 200") for each in asked(host, *octets))
            host.kill()
        registered += CARDS
        with running(config) as host:
            assert listed(host) == registered
            path = f"/cards/card-{turn}-{CARDS - 1}"
            (answer,) = asked(host, request("QUERY", path, credentials(host)[1], {}))
            assert answer.partition(b"\r\n\r\n")[2] == text.encode()
