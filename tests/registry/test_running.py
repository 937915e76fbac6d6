"""A running host with a registry: killed, what it acknowledged is there octet for octet; reloaded, leases go on."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.bench.load import Client
from tests.bench.registration import credentials, listed, operated, request
from tests.programmes import length
from tests.registry.hosts import card, text_of
from tests.system.hosting import Host, running, until

ROUNDS = length(1, 50)
CARDS = 40


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A host with a registry, of which an agent is an operator."""
    return operated(tmp_path_factory.mktemp("registry"))


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


@pytest.mark.release
def test_what_was_acknowledged_survives_sigkill(config: Path) -> None:
    """Killed the moment the last acknowledgement is in; the next start has every card, and the last as it was sent."""
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


def test_cards_and_leases_go_on(config: Path) -> None:
    """A running host takes other terms of the registry; what registered before is there with its lease."""
    with running(config) as host:
        _, agent_id = credentials(host)
        given = {"card": card(id="here", endpoint="https://api.example.com/"), "lifetime": 3_600}
        (answer,) = asked(host, request("REGISTER", "/cards", agent_id, given))
        assert answer.startswith(b"AGTP/1.0 200"), answer
        text, origin = config.read_text(), "https://api.example.com"
        more = f'[registry]\nforget_days = 3\n[[registry.provider]]\norigin = "{origin}"\nscopes = ["a:b"]\n'
        config.write_text(text.replace("[registry]\n", more))
        host.process.send_signal(signal.SIGHUP)
        until(lambda: any("[registry]" in line for line in host.lines))
        (answer,) = asked(host, request("QUERY", "/cards/here", agent_id, {"form": "entry"}))
        assert b'"lifetime":3600' in answer and b'"state":"live"' in answer, answer
