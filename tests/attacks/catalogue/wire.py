"""Framing, smuggling and pipelining: what is done with the octets of requests."""

from __future__ import annotations

import time

from tests.attacks.attack import Attack, Target
from tests.system.raw_link import RawLink, client_context

GARBAGE = b"\x00\xff NOT AGTP AT ALL \r\r\n\n" * 8


def garbage(target: Target, seconds: float) -> None:
    """Each connection is told 400 and closed."""
    context, end = client_context(target, identified=False), time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            with RawLink(target, context=context) as link:
                link.send(GARBAGE)
                answer = link.answer()
        except OSError:  # Admission closed it.
            continue
        assert answer is None or answer.status in (400, 429), answer


ATTACKS = (
    Attack(
        name="garbage-requests",
        who="stranger",
        says="Octets that are no request, on one connection after the other: 400, closed, summed up.",
        run=garbage,
    ),
)
