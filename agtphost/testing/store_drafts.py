"""Records for tests of stores: drafts, rows, and how a group of them is written."""

from __future__ import annotations

from itertools import count

from agtphost.audit.chain import RecordSigner
from agtphost.audit.drafts import Draft, Sealed
from agtphost.audit.writer import Entry, GroupWriter, Submission
from agtphost.iagtp import IChainStore
from agtphost.identity.keys import SigningKey
from agtphost.stores.rows import RecordRow

ALICE, BOB = "a1" * 32, "b0" * 32
KEY = SigningKey.generate()
KEYS = {KEY.kid: KEY.public}

_numbers = count()


def draft(chain: str = ALICE, **members: object) -> Draft:
    """Return a record as the dispatcher drafts it."""
    payload = {
        "audit_record_version": "1",
        "server_id": "agtp.test",
        "agent_id": chain,
        "response_id": f"0190a0b0-0000-7000-8000-{next(_numbers):012d}",
        "status": 200,
        "method": "QUERY",
        "path": "/orders",
        "caller_id": BOB,
        **members,
    }
    return Draft(chain=chain, payload=payload)


def row(chain: int, number: int, seq: int, previous: int) -> RecordRow:
    """Return a row of a record that is not signed."""
    return RecordRow(
        number, chain, seq, bytes([number % 256]) * 32, previous, 0, 0, 1, 200, "QUERY", "/", b"", b"signed"
    )


def write_drafts(store: IChainStore, *drafts: Draft, seconds: float = 1_000.0) -> list[Sealed]:
    """Write a group at that time, as the host does, and return the result of each draft."""
    writer = GroupWriter(store, RecordSigner(KEY), server_id="agtp.test", now=lambda: seconds)
    writer.load()
    entries: list[Entry] = [Submission(each) for each in drafts]
    writer.write(entries)
    outcomes = [entry.outcome for entry in entries]
    assert all(isinstance(outcome, Sealed) for outcome in outcomes), outcomes
    return [outcome for outcome in outcomes if isinstance(outcome, Sealed)]
