"""The UDP port of ``[quic]``: datagrams, handshakes and streams of clients that mean harm."""

from __future__ import annotations

import random
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tests.attacks.attack import MIB, Attack, Target
from tests.attacks.measure import consumed_by_reactor
from tests.attacks.quic_caller import QuicCaller
from tests.attacks.site import amend
from tests.attacks.strikes import addresses, fewer, turns
from tests.programmes import seed_of_chance
from tests.system.raw_link import request


def with_quic(folder: Path) -> None:
    """Let the host listen for QUIC."""
    amend(folder, "quic", "enabled = true")


@contextmanager
def attacker(target: Target, source: str = "127.0.3.1", *, agent: str | None = "demo") -> Iterator[QuicCaller]:
    """Have a client that is connected, if the host takes it."""
    client = QuicCaller(target, source, agent=agent)
    try:
        client.connect()
        yield client
    finally:
        client.close()


def first_datagrams(target: Target, seconds: float) -> None:
    """Clients of 40 addresses begin a handshake and read nothing: never more than three times their octets."""
    for _, source in zip(turns(seconds, least=20), addresses(), strict=False):
        client = QuicCaller(target, source, agent=None)
        client.socket.close()
        target.arrived(1)


def broken_datagrams(target: Target, seconds: float) -> None:
    """Datagrams that look like QUIC, and are octets of chance."""
    chance = random.Random(seed_of_chance())
    for _, source in zip(turns(seconds, least=50), addresses(), strict=False):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as line:
            line.bind((source, 0))
            head = bytes([chance.choice((0xC0, 0xC3, 0xE0, 0xF0, 0x40))]) + chance.choice((b"\0\0\0\1", b"\xfa" * 4))
            with suppress(OSError):
                line.sendto(head + chance.randbytes(chance.choice((3, 40, 1_195, 1_400))), ("127.0.0.1", target.port))
        target.arrived(1)


def reconnects(target: Target, seconds: float) -> None:
    """An agent that makes a connection for each request."""
    answered = 0
    for _ in turns(seconds, least=2):
        with attacker(target) as client:
            if client.is_ready:
                number = client.begin(request("DISCOVER", "/methods"))
                answered += client.answer(number, 2.0).startswith(b"AGTP/1.0 200")
        target.arrived(1)
    assert answered, "no request was answered over QUIC"


def rapid_resets(target: Target, seconds: float) -> None:
    """An agent that resets each request as soon as it is sent, on one connection after the other."""
    end = time.monotonic() + max(seconds, 0.1)
    while time.monotonic() < end:
        with attacker(target) as client:
            for _ in turns(end - time.monotonic(), most=400):
                if not client.wait(client.may_open, 0.2):
                    break
                number = client.begin(request("ECHO", "/text", {"text": "x"}))
                client.core.reset_stream(number, 0x03)
                client.send()
                target.arrived(1)


def half_requests(target: Target, seconds: float) -> None:
    """Agents that begin all the requests that their connections allow, and end none."""
    head = b"AGTP/1.0 ECHO /text\r\nContent-Type: application/json\r\nContent-Length: 900000\r\n\r\n{"
    clients = [QuicCaller(target, source) for _, source in zip(range(fewer(30, seconds)), addresses(), strict=False)]
    for client in clients:
        client.connect(2.0)
        for _ in range(16):
            if client.may_open():
                client.begin(head, ends=False)
                target.arrived(1)
    time.sleep(min(1.0, seconds / 4))
    for client in clients:
        client.close()


def unread_answers(target: Target, seconds: float) -> None:
    """Agents that ask for the longest answers there are, and read nothing."""
    clients = [QuicCaller(target, source) for _, source in zip(range(fewer(20, seconds)), addresses(), strict=False)]
    for client in clients:
        client.connect(2.0)
        for _ in range(16):
            if client.may_open():
                client.begin(request("DISCOVER", "/methods"))
                target.arrived(1)
    time.sleep(min(2.0, seconds / 2))
    for client in clients:
        client.socket.close()


WORK_BETWEEN = 0.02
"""
Seconds of the host's processor time after which strangers send more: a third of what they sent, so that some is always
left. By the clock of a busy machine they would send while the host waits for a processor, and the caller for the host.
"""

MOST_OF_OTHERS = 0.05
"""
Seconds of the host's processor time within which a quarter of the calls beside a flood are answered. Of the others the
caller may read the answer late, because its machine is busy; without fairness even the fastest call takes 80 ms.
"""


def costly_datagrams(target: Target, seconds: float) -> None:
    """
    Strangers fill datagrams with frames that say nothing, as many as may be; a caller over QUIC is answered meanwhile.

    There are 40 of them at four addresses, ten each, which is as many as may shake hands there together. What the host
    did until an answer came is counted, since the time includes what this machine did besides: a datagram of each
    connection would be 60 ms.
    """
    strangers = [QuicCaller(target, f"127.0.3.{4 + number % 4}", agent=None) for number in range(40)]
    for each in strangers:
        each.connect()
        each.send()
    took: list[float] = []
    with attacker(target, "127.0.3.3") as caller:
        for _ in turns(seconds, least=10):
            begun, spent = time.monotonic(), consumed_by_reactor(target.pid)
            number, answer = caller.begin(request("ECHO", "/text", {"text": "x"})), b""
            more = spent
            while not answer and time.monotonic() < begun + 10:
                if consumed_by_reactor(target.pid) >= more:
                    more = consumed_by_reactor(target.pid) + WORK_BETWEEN
                    for stranger in strangers:
                        stranger.send_frames(b"\x0a\0\0" * 150 + b"\x15\0\1" * 300)  # empty STREAM, blocked
                        target.arrived(1)
                answer = caller.answer(number, 0.005)
            assert answer.startswith(b"AGTP/1.0 200"), f"a call over QUIC has the answer {answer[:40]!r}"
            took.append(consumed_by_reactor(target.pid) - spent)
    for each in strangers:
        each.close()
    fast = sorted(took)[len(took) // 4]
    assert fast < MOST_OF_OTHERS, f"the host works for {fast * 1000:.0f} ms until a call over QUIC is answered"


def moves(target: Target, seconds: float) -> None:
    """An agent whose address changes with each request: after eight moves in a minute the connection ends."""
    end = time.monotonic() + max(seconds, 0.1)
    while time.monotonic() < end:
        with attacker(target) as client:
            for _ in turns(end - time.monotonic(), most=30):
                if client.has_ended or not client.is_ready:
                    break
                number = client.begin(request("ECHO", "/text", {"text": "x"}))
                client.answer(number, 0.5)
                client.move()
                target.arrived(1)


def _attack(name: str, who: str, says: str, run: Callable[[Target, float], None], **more: Any) -> Attack:
    return Attack(name=name, who=who, says=says, run=run, configure=with_quic, **more)


ATTACKS = (
    _attack("quic-first-datagrams", "stranger", "Handshakes over QUIC that do not go on.", first_datagrams),
    _attack("quic-broken-datagrams", "stranger", "Datagrams that look like QUIC.", broken_datagrams),
    _attack("quic-costly-datagrams", "stranger", "Datagrams of frames that say nothing.", costly_datagrams),
    _attack("quic-reconnects", "agent", "A QUIC connection for each request.", reconnects),
    _attack("quic-rapid-resets", "agent", "Requests that are reset as soon as they are sent.", rapid_resets),
    _attack("quic-half-requests", "agent", "All streams of 30 connections, each with half a request.", half_requests),
    _attack(
        "quic-unread-answers", "agent", "Answers that nobody reads, on 20 connections.", unread_answers, memory=60 * MIB
    ),
    _attack("quic-moves", "agent", "Another address for each request.", moves),
)
