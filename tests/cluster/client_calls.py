"""Callers that use this package's client, and make only calls that are safe to repeat."""

from __future__ import annotations

import threading
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from agtphost.client import ClientError
from agtphost.client.sync import Client

CALLERS = 4


@dataclass
class Results:
    """What the callers of a client got."""

    good: int = 0
    failed: Counter[str] = field(default_factory=Counter)
    stopping: bool = False


def call_until_stopped(client: Client, uri: str, results: Results) -> None:
    """Make idempotent calls and keyed ones in turn."""
    for number in count():
        if results.stopping:
            return
        mark = uuid.uuid4().hex
        try:
            if number % 2:
                reply = client.call(uri, "BOOK", "/stay", {"mark": mark}, idempotency_key=mark)
            else:
                reply = client.call(uri, "DISCOVER", "/methods")
            name = "" if reply.ok else f"{reply.status} {reply.reason}"
        except ClientError as error:
            name = f"{type(error).__name__}: {error}"
        if name:
            results.failed[name] += 1
        else:
            results.good += 1


@contextmanager
def calling(state: Path, port: int, seconds: float, *, quic: bool = False) -> Iterator[Results]:
    """
    Callers of one client, until the end of the block.

    :param seconds: for which it makes a call again.
    """
    demo, results = state / "agents" / "demo", Results()
    with Client(
        trust=state / "ca.pem", cert=demo / "agent.pem", key=demo / "agent.key", retry_seconds=seconds, quic=quic
    ) as client:
        uri = f"agtp://localhost:{port}"
        threads = [threading.Thread(target=call_until_stopped, args=(client, uri, results)) for _ in range(CALLERS)]
        for thread in threads:
            thread.start()
        try:
            yield results
        finally:
            results.stopping = True
            for thread in threads:
                thread.join(90)
