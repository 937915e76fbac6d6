"""Floods of what is refused: records, log lines and connections that strangers cause by the thousand."""

from __future__ import annotations

import http.client
import itertools
import os
import socket
import ssl
import threading
import time
from collections.abc import Callable

from tests.attacks.attack import MIB, Attack, Target
from tests.system.raw_link import RawLink, client_context, request

MOST = 1_000_000
"""Requests of one attack, however fast the host is."""

LINKS = 16
"""Connections at once."""


def _flood(target: Target, seconds: float, octets: bytes, wanted: tuple[int, ...], *, agent: str = "") -> None:
    """The same request on some connections until the time is over; each answer has one of the statuses."""
    context = client_context(target, identified=bool(agent), agent=agent or "demo")
    end, wrong = time.monotonic() + seconds, []

    def ask() -> None:
        for _ in range(MOST // LINKS):
            try:
                with RawLink(target, context=context) as link:
                    while time.monotonic() < end:
                        link.send(octets)
                        answer = link.answer()
                        if answer is None:
                            break
                        if answer.status not in wanted:
                            wrong.append(answer.status)
                            return
            except OSError:  # Admission closed it.
                time.sleep(0.05)
            if time.monotonic() >= end:
                return

    threads = [threading.Thread(target=ask, daemon=True) for _ in range(LINKS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(seconds + 30)
    assert not wrong, f"answered {sorted(set(wrong))}"


def unknown_identities(target: Target, seconds: float) -> None:
    """Each connection calls as an agent that nobody knows."""
    octets = request("DISCOVER", "/agents", Agent_ID=os.urandom(32).hex())
    _flood(target, seconds, octets, (401, 429))


def anonymous_reads(target: Target, seconds: float) -> None:
    """Strangers ask what there is, of many addresses: answered, and soon without a record each."""
    asked = [request("DISCOVER", "/methods"), request("DESCRIBE", "/"), request("DISCOVER", "/agents")]
    context, counts, wrong = client_context(target, identified=False), {True: 0, False: 0}, []
    end = time.monotonic() + seconds

    def ask(number: int) -> None:
        with RawLink(target, context=context, source=f"127.0.5.{1 + number}") as link:
            for octets in itertools.cycle(asked):
                if time.monotonic() >= end:
                    return
                link.send(octets * 20)
                for _ in range(20):
                    answer = link.answer()
                    if answer is None or answer.status not in (200, 429):
                        wrong.append(answer)
                        return
                    counts["audit-summary" in answer.headers] += 1

    threads = [threading.Thread(target=ask, args=(number,), daemon=True) for number in range(LINKS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(seconds + 30)
    assert not wrong, f"answered {wrong[0]}"
    # 300 at once, and as many again in a minute.
    assert counts[False] <= 300 + 5 * (seconds + 5), f"{counts[False]} answers have a record"


def refused_agent(target: Target, seconds: float) -> None:
    """An agent asks for what is not there, as fast as it is answered."""
    _flood(target, seconds, request("QUERY", "/nowhere"), (404, 405, 429), agent="other")


def unfounded_confirmations(target: Target, seconds: float) -> None:
    """A method whose handler itself refuses, so that it has run each time."""
    octets = request("CONFIRM", "/", {"target_id": "nothing", "status": "accepted"})
    _flood(target, seconds, octets, (400, 401, 403, 404, 422, 429))


def bad_bearer(target: Target, seconds: float) -> None:
    """A token that is no text, again and again."""
    context = ssl.create_default_context(cafile=str(target.state / "ca.pem"))
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        connection = http.client.HTTPSConnection("127.0.0.1", target.front, context=context, timeout=20)
        try:
            for number in range(100):
                if number and time.monotonic() >= end:
                    break
                connection.putrequest("POST", "/agents/assistant")
                connection.putheader("Authorization", b"Bearer \xff")
                connection.putheader("Content-Length", "2")
                connection.endheaders(b"{}")
                answer = connection.getresponse()
                answer.read()
                assert answer.status in (401, 429, 503), answer.status
        except (OSError, http.client.HTTPException):  # The listener closed it.
            time.sleep(0.02)
        finally:
            connection.close()


def connections_beyond_the_limit(target: Target, seconds: float) -> None:
    """More connections than one address may have, closed and opened again."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        links: list[socket.socket] = []
        try:
            links += (socket.create_connection(("127.0.0.1", target.port), timeout=5) for _ in range(200))
            time.sleep(0.05)
        except OSError:
            time.sleep(0.05)
        finally:
            for link in links:
                link.close()


def _attack(name: str, who: str, says: str, run: Callable[[Target, float], None], disk: int = 40 * MIB) -> Attack:
    return Attack(name=name, who=who, says=says, run=run, disk=disk)


ATTACKS = (
    _attack(
        "unknown-identities",
        "stranger",
        "Calls as agents that do not exist, over many connections: 401 or 429, summed up, no disk to speak of.",
        unknown_identities,
    ),
    _attack(
        "anonymous-discover-flood",
        "stranger",
        "DISCOVER and DESCRIBE without a name, from 16 addresses: 300 records at once, all else summed up.",
        anonymous_reads,
        disk=16 * MIB,
    ),
    _attack(
        "unfounded-confirmations",
        "stranger",
        "CONFIRM of nothing: refused by the handler itself, summed up like any other refusal.",
        unfounded_confirmations,
    ),
    _attack(
        "refused-agent",
        "agent",
        "An agent with its certificate asks for what is not there: summed up beyond some hundred a minute.",
        refused_agent,
    ),
    _attack(
        "bad-bearer",
        "stranger",
        "A bearer token that is no text, at the A2A front: 401, no traceback, no line each.",
        bad_bearer,
    ),
    Attack(
        name="connections-beyond-the-limit",
        who="stranger",
        says="Connections by the hundred from one address: closed before TLS, and not spoken of.",
        run=connections_beyond_the_limit,
        connections=True,
    ),
)
