"""What attackers have in common: connections from as many loopback addresses as they like, until their time is over."""

from __future__ import annotations

import contextlib
import itertools
import json
import socket
import ssl
import time
from collections.abc import Callable, Iterator

from tests.attacks.attack import Target
from tests.system.raw_link import Answer, RawLink, Truncated, client_context

ADDRESSES = 40
"""From 127.0.3.1 on: so that limits per address do not end an attack, but only what a distributed one would meet."""


def addresses() -> Iterator[str]:
    """One after the other, for ever."""
    return itertools.cycle(f"127.0.3.{number}" for number in range(1, ADDRESSES + 1))


def turns(seconds: float, most: int = 20_000, least: int = 0) -> Iterator[int]:
    """
    Count from 0 until the time is over.

    :param least: how many turns a slow machine takes all the same: what an attack needs to be one.
    """
    end = time.monotonic() + seconds
    for number in range(most):
        if number >= least and time.monotonic() >= end:
            return
        yield number


def fewer(count: int, seconds: float, least: int = 4) -> int:
    """
    Return how many peers, agents or connections an attack of so many seconds has.

    :param count: how many it has; one that lasts a moment, as in the suite, has a third of them.
    :param least: how many it has in any case.
    """
    return count if seconds >= WHOLE else min(count, max(count // 3, least))


WHOLE = 0.5
"""Seconds from which on an attack is made with all that it has."""


def opened(target: Target, context: ssl.SSLContext, source: str, timeout: float = 20.0) -> RawLink | None:
    """A connection; None where admission refused it."""
    try:
        return RawLink(target, context=context, source=source, timeout=timeout)
    except OSError:
        return None


def plain(target: Target, source: str, timeout: float = 20.0, port: int = 0) -> socket.socket:
    """A TCP connection, without TLS; ``port`` is another listener's."""
    return socket.create_connection(("127.0.0.1", port or target.port), timeout, source_address=(source, 0))


def hello(context: ssl.SSLContext) -> bytes:
    """What a client begins its handshake with."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = context.wrap_bio(incoming, outgoing, server_hostname="localhost")
    with contextlib.suppress(ssl.SSLWantReadError):
        tls.do_handshake()
    return outgoing.read()


def agent_of(target: Target, name: str) -> str:
    """The Agent-ID of a caller."""
    document = json.loads((target.state / "agents" / name / "document.json").read_text())
    return str(document["agent_id"])


def said(link: RawLink) -> Answer | None:
    """What the host answers; None where it closed the connection, in whatever way."""
    try:
        return link.answer()
    except Truncated:
        raise AssertionError("the host cut an answer in the middle") from None
    except TimeoutError:
        raise AssertionError("the host neither answers nor closes") from None
    except OSError:
        return None


_SOURCES = addresses()


def answered(target: Target, context: ssl.SSLContext, message: bytes) -> Answer:
    """
    The answer to one message on a connection of its own; from another address where limits close that connection.

    :raises AssertionError: no address is answered.
    """
    for source in itertools.islice(_SOURCES, ADDRESSES):
        if (link := opened(target, context, source)) is None:
            continue
        with link:
            with contextlib.suppress(OSError):
                link.send(message)
            if (answer := said(link)) is not None:
                return answer
    raise AssertionError(f"the host answered none of {ADDRESSES} addresses")


def each_alone(
    target: Target,
    seconds: float,
    messages: list[bytes],
    judge: Callable[[bytes, Answer | None], None],
    *,
    agent: str | None = None,
) -> None:
    """
    Each message on a connection of its own, again and again.

    :param judge: what the answer must be; raises AssertionError. None is a connection that was closed without one.
    :param agent: whose certificate is shown; None: nobody's.
    """
    context = client_context(target, identified=agent is not None, agent=agent or "demo")
    for number, source in zip(turns(seconds), addresses(), strict=False):
        message = messages[number % len(messages)]
        link = opened(target, context, source)
        if link is None:
            continue
        with link:
            try:
                link.send(message)
            except OSError:
                continue
            judge(message, said(link))


def gone(link: RawLink) -> bool:
    """Whether the host has closed a connection, or closes it now."""
    try:
        return link.answer() is None
    except Truncated:
        return False
    except TimeoutError:
        return False
    except OSError:
        return True
