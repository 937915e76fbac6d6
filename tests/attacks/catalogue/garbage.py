"""
Garbage by the hundred thousand, on many connections of many addresses, and what it leaves on the disk.

Each connection pipelines requests that are refused for different reasons, and some end with octets that are no request.
Answers are only counted: by status, and by whether a record of its own is behind one. That is the case where it has no
``Audit-Summary`` (``docs/evidence.rst``).
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import random
import re
import ssl
import time
from base64 import urlsafe_b64decode
from collections import Counter
from datetime import datetime

from tests.attacks.attack import MIB, Attack, Target
from tests.system.raw_link import client_context, request

MILLION = 1_000_000
ADDRESSES = 8
"""From 127.0.4.1 on."""

EACH = 8
"""Connections of one address at once."""

PACE = 0.2
"""Seconds between two connections of one address: a flood of handshakes is another attack."""

SPEED = 500.0
"""Requests a second. What grows with time alone is told for a million at this speed, where the run is slower."""

BURST = 20
"""Requests that a connection sends before it reads."""

RECORD = 4_096
"""Octets that a record takes on the disk, indexes and tree included: more than any refusal's does."""

MEASURED = 2.0
"""Seconds for which records are counted, at least, once no address has anything at once any more."""

PATIENCE = 40.0
"""Seconds that this may take longer than the flood itself."""

BOUND = 50 * MIB
AN_HOUR = 3_600.0
_ANSWER = re.compile(rb"AGTP/1\.0 ([0-9]{3}) [^\r]*\r\n(?:[^\r]+\r\n)*\r\n")
_RECORD = re.compile(rb"\r\nAttribution-Record: [^.\r]+\.([^.\r]+)\.", re.IGNORECASE)
_LENGTH = re.compile(rb"\r\nContent-Length: ([0-9]+)\r\n")


class Flood:
    """
    What is sent, and what came back.

    :param most: answers after which it is over.
    :param seconds: after which it is over, if it has been measured for long enough by then.
    """

    def __init__(self, target: Target, most: int, seconds: float) -> None:
        seed = random.randrange(2**32)
        print("seed", seed)
        self._chance = random.Random(seed)
        self._port = target.port
        self._context = client_context(target, identified=False)
        self._most = most
        self._end = time.monotonic() + seconds
        self._names = itertools.count()
        self.statuses: Counter[int] = Counter()
        self.recorded: list[float] = []
        """
        When the host made each answer that has its own record, in seconds of its clock.

        On a busy machine answers are read long after the host has made them.
        """

        self.latest = 0.0
        """When the host made the newest answer."""

        self._summed: dict[str, float] = {}

    @property
    def answered(self) -> int:
        return self.statuses.total()

    @property
    def settled(self) -> float | None:
        """When every address had used up its initial allowance, in seconds of the host's clock; None if one has not."""
        return max(self._summed.values()) if len(self._summed) == ADDRESSES else None

    @property
    def over(self) -> bool:
        now = time.monotonic()
        if self.answered >= self._most or now >= self._end + PATIENCE:
            return True
        # On a slow machine it takes longer until there is something to measure.
        return now >= self._end and self.settled is not None and self.latest >= self.settled + MEASURED

    async def run(self) -> None:
        """Until it is over."""
        sources = [f"127.0.4.{number}" for number in range(1, ADDRESSES + 1)]
        await asyncio.gather(*(self._attacker(source, PACE * at) for at in range(EACH) for source in sources))

    async def _attacker(self, source: str, begin: float) -> None:
        await asyncio.sleep(begin)
        while not self.over:
            try:
                await asyncio.wait_for(self._connection(source), max(1.0, self._end + PATIENCE - time.monotonic()))
            except (OSError, asyncio.IncompleteReadError, TimeoutError):  # Admission or the host closed it.
                await asyncio.sleep(PACE * EACH)

    async def _connection(self, source: str) -> None:
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", self._port, ssl=self._context, server_hostname="localhost", local_addr=(source, 0)
        )
        try:
            for _ in range(self._chance.randrange(20, 60)):
                writer.write(b"".join(self._refused() for _ in range(BURST)))
                for _ in range(BURST):
                    await self._answer(reader, source)
                if self.over:
                    return
            writer.write(self._chance.choice((b"\x16garbage\r\n\r\n", bytes(range(256)), b"GET / HTTP/1.1\r\n\r\n")))
            await self._answer(reader, source)
        finally:
            writer.transport.abort()

    def _refused(self) -> bytes:
        number = next(self._names)
        kinds = (
            lambda: request("DISCOVER", "/agents", Agent_ID=f"{number:064x}"),
            lambda: request("QUERY", f"/nowhere/{number}"),
            lambda: request(f"FROB{number}", "/"),
            lambda: request("QUERY", "/words", {"text": number}, Agent_ID=os.urandom(32).hex()),
            lambda: request("DISCOVER", "/methods", Agent_ID="A" * 64),
        )
        return kinds[number % len(kinds)]()

    async def _answer(self, reader: asyncio.StreamReader, source: str) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        found = _ANSWER.fullmatch(head)
        assert found is not None, f"no answer: {head[:200]!r}"
        length = _LENGTH.search(head)
        if length is not None:
            await reader.readexactly(int(length[1]))
        self.statuses[int(found[1])] += 1
        made = issued_at(head)
        self.latest = max(self.latest, made)
        if b"\r\nAudit-Summary: " not in head:
            self.recorded.append(made)
        else:
            self._summed[source] = min(made, self._summed.get(source, made))

    def require_refused(self) -> None:
        """Every answer is a refusal."""
        assert all(400 <= status < 500 for status in self.statuses), dict(self.statuses)


def issued_at(head: bytes) -> float:
    """Return when the host made an answer, by the record in its header."""
    found = _RECORD.search(head)
    assert found is not None, f"no record: {head[:200]!r}"
    payload = json.loads(urlsafe_b64decode(found[1] + b"=" * (-len(found[1]) % 4)))
    return datetime.fromisoformat(payload["issued_at"]).timestamp()


def flooded(target: Target, most: int, seconds: float) -> Flood:
    """A flood that is over."""
    flood = Flood(target, most, seconds)
    try:
        asyncio.run(flood.run())
    except ssl.SSLError as failure:
        raise AssertionError(f"the host broke a connection: {failure}") from None
    # They went over asyncio's connections, which nobody watches.
    target.arrived(flood.answered)
    flood.require_refused()
    return flood


def flood_of_garbage(target: Target, seconds: float) -> None:
    """
    As much as can be sent in the time; growth is told for a million.

    What each address has at once is there once. From then on records are made so many a second, however much is sent:
    that is measured, and told for the time that a million takes at the speed of the run.
    """
    begun = time.monotonic()
    flood = flooded(target, MILLION, max(seconds, EACH * PACE + 2.0))
    end = time.monotonic()
    since, recorded = flood.settled, len(flood.recorded)
    assert since is not None, f"{recorded} of {flood.answered} answers have a record, and no end of it"
    first = sum(made <= since for made in flood.recorded)
    speed = max(flood.answered / (end - begun), SPEED)
    each_second = (recorded - first) / max(flood.latest - since, 1.0)
    grown = (first + each_second * MILLION / speed) * RECORD
    print(f"{flood.answered} answers; {first} records at once, then {each_second:.1f} a second; {grown / MIB:.1f} MiB")
    assert grown <= BOUND, f"a million would leave {grown / MIB:.0f} MiB"


def million(target: Target, seconds: float) -> None:
    """All of the million, for as long as it takes."""
    begun = time.monotonic()
    flood = flooded(target, MILLION, AN_HOUR)
    print(f"{dict(flood.statuses)} in {time.monotonic() - begun:.0f} s, {len(flood.recorded)} with a record")
    assert flood.answered >= MILLION, f"{flood.answered} in an hour"


ATTACKS = (
    Attack(
        name="garbage-flood",
        who="stranger",
        says="Garbage on 64 connections of 8 addresses: what a million would leave is at most 50 MiB.",
        run=flood_of_garbage,
    ),
    Attack(
        name="million-garbage",
        who="stranger",
        says="A million requests of garbage: at most 50 MiB. By name alone: takes from ten minutes to an hour.",
        run=million,
        lasts=AN_HOUR,
        honest=False,
    ),
)
