"""
What somebody else's long work does to a small call beside it: from one end to the other it takes little longer.

What counts is the CPU time of the whole process between the two ends: that of all threads, since where a thread has the
interpreter the reactor has to wait for it, a dozen times in each call.
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Iterator
from unittest.mock import patch

import pytest
from twisted.internet.defer import Deferred
from twisted.internet.threads import deferToThreadPool

from agtphost.compute import functions
from agtphost.compute.pool import Encode, WorkerPool
from agtphost.host import root
from agtphost.testing import Answer
from tests.measuring import measured
from tests.methods.standard.full import most
from tests.methods.standard.largest import ROWS
from tests.methods.standard.turns import TurnHost
from tests.programmes import length
from tests.rows import each_row

AT_ONCE = length(3, 6)
"""Connections that ask for it."""

PAUSE = 0.01
"""
Seconds of the reactor's between two small calls, unless something happens before.

Calls without a pause take the processor from the workers that are waited for: eight times as much CPU time in all.
"""


def soon() -> float:
    """Seconds of a call from one end to the other: it takes some turns, and none of them has what :func:`most` says."""
    return 2 * most()


LONG = {
    "ANALYZE": {"target": ROWS},
    "EVALUATE": {
        "target": {"rows": ROWS},
        "criteria": [{"name": f"c{n}", "meets": {"rows": {"contains": f"x{n}"}}} for n in range(10)],
    },
    "MERGE": {"sources": [ROWS[::2], ROWS[1::2]], "strategy": "union"},
    "NORMALIZE": {"data": ["31.12.2026"] * length(2_000, 9_000), "type": "date"},
    "RANK": {"items": ROWS, "criterion": "text"},
}


class Beside(TurnHost):
    """A host, who keeps it busy, and who has a small wish."""

    def __init__(self) -> None:
        super().__init__({"methods": {"standard": "*"}})
        self.clerk, self.other = (self.agent(name, scopes=("activation:run",)) for name in ("clerk", "other"))
        self.endpoint("QUERY", "/small", lambda context: {})

    def small(self) -> float:
        """CPU seconds of the process from a small call's request to its answer."""
        answers: list[Answer] = []
        self.begin("QUERY", "/small", {}, caller=self.other).addCallback(answers.append)
        began = time.process_time()
        while not answers:
            self.turns.iterate(0)
        assert answers[0].status == 200
        return time.process_time() - began

    def beside(self, method: str, times: int = AT_ONCE) -> float:
        """The longest of those that were made while the other work was done, so many times at once."""
        answers: list[Answer] = []
        for _ in range(times):
            connection = self.connect(self.clerk)
            asked = self.begin(method, "/", LONG[method], caller=self.clerk, connection=connection)
            asked.addCallback(answers.append)
        taken = []
        while len(answers) < times:
            taken.append(self.small())
            self.turns.iterate(PAUSE)
        assert {answer.status for answer in answers} == {200}, answers[0].document
        return max(taken)


@pytest.fixture(scope="module")
def host() -> Iterator[Beside]:
    thresholds, switch = gc.get_threshold(), sys.getswitchinterval()
    made = Beside()
    root.tune_collector()
    root.tune_threads()
    made.small()
    yield made
    made.close()
    gc.unfreeze()
    gc.set_threshold(*thresholds)
    sys.setswitchinterval(switch)


def longest(host: Beside, method: str) -> float:
    """The best of six, where the first is too long."""
    found = []
    for _ in range(6):
        found.append(host.beside(method))
        if found[-1] < soon():
            break
    return min(found)


@measured
@pytest.mark.programme
@each_row("method", LONG)
def test_a_small_call_beside_long_ones_is_a_small_call(host: Beside, method: str) -> None:
    seconds = longest(host, method)
    print(f"beside {AT_ONCE} of {method}: {seconds * 1000:.1f} ms")
    assert seconds < soon()


@pytest.mark.release
@measured
@pytest.mark.programme
def test_control_threads_that_share_the_interpreter_as_usual(host: Beside) -> None:
    """With computations in threads of the host's own process, handed over every 5 ms, the same is not true."""

    def in_a_thread(self: WorkerPool, key: str, function: str, encode: Encode, length: int) -> Deferred[bytes]:
        async def perform() -> bytes:
            given = await encode()
            pool = self._reactor.getThreadPool()
            _, octets = await deferToThreadPool(self._reactor, pool, functions.perform, function, given)
            return octets

        return Deferred.fromCoroutine(perform())

    apart = host.beside("RANK", 2)
    sys.setswitchinterval(0.005)
    try:
        with patch.object(WorkerPool, "run", in_a_thread):
            together = 0.0
            for _ in range(5):
                together = max(together, host.beside("RANK", 2))
                if together > 2 * apart:
                    break
        root.tune_threads()
        for _ in range(2 if together <= 2 * apart else 0):
            # Another program had the machine at that moment.
            apart = min(apart, host.beside("RANK", 2))
        print(f"in workers {apart * 1000:.1f} ms, in threads {together * 1000:.1f} ms")
        assert together > 2 * apart
    finally:
        root.tune_threads()
