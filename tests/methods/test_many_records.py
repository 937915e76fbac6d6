"""
A page of a chain of long records is read off the reactor: no turn of it is long.

What counts is the CPU time of one turn of the reactor's thread, as in :mod:`tests.methods.standard.test_turns`.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from agtphost.methods.inspection import inspect
from tests.audit.drafting import draft
from tests.measuring import measured
from tests.methods.standard.test_turns import most
from tests.methods.standard.turns import TurnHost


class Recorded(TurnHost):
    """A host with as many records of an agent as an answer has; each says as much as one may."""

    def __init__(self) -> None:
        super().__init__({})
        self.clerk = self.agent("clerk")
        ledger = self.core.services.evidence.ledger
        numbers = list(range(500))
        for n in range(inspect.MOST_ENTRIES):
            ledger.submit(draft(self.clerk.agent_id, note=numbers, number=n))
        self.settle()

    def page(self) -> float:
        """Seconds of the longest turn of reading them all."""
        given = {"target": "chain", "agent_id": self.clerk.agent_id, "limit": inspect.MOST_ENTRIES}
        found = []
        for _ in range(2):
            answer, seconds = self.longest("INSPECT", "/", given, caller=self.clerk)
            # More than a client of ours decodes; what counts here is that all of it is there.
            assert answer.status == 200 and answer.reply.body.count(b'"jws":') == inspect.MOST_ENTRIES
            found.append(seconds)
        return min(found)


@pytest.fixture(scope="module")
def host() -> Iterator[Recorded]:
    made = Recorded()
    gc.disable()
    yield made
    gc.enable()
    made.close()


@measured
def test_a_page_of_a_chain_is_read_aside(host: Recorded, monkeypatch: pytest.MonkeyPatch) -> None:
    """The control reads it in the reactor's thread."""
    seconds = host.page()
    print(f"{seconds * 1000:.1f} ms")
    assert seconds < most()
    monkeypatch.setattr(inspect, "FEW", inspect.MOST_ENTRIES)
    assert host.page() > most()
