"""Drafts as the dispatcher makes them, and stores to put them into."""

from __future__ import annotations

from itertools import count
from pathlib import Path

from agtphost.audit.chain import RecordSigner
from agtphost.audit.drafts import HOST_CHAIN, Draft, LifecycleEvent, Sealed
from agtphost.audit.writer import Entry, GroupWriter, Submission
from agtphost.iagtp import IChainStore
from agtphost.stores import SQLiteStore, open_store
from tests.identity.samples import key_of

ALICE = "a1" * 32
BOB = "b0" * 32
KEY = key_of("drafting key")
KEYS = {KEY.kid: KEY.public}

_numbers = count()


def payload(chain: str = ALICE, **members: object) -> dict[str, object]:
    """The payload of one record before the ledger completes it."""
    number = next(_numbers)
    return {
        "audit_record_version": "1",
        "server_id": "agtp.test",
        "agent_id": chain,
        "owner_id": "acme",
        "request_id": "",
        "response_id": f"0190a0b0-0000-7000-8000-{number:012d}",
        "status": 200,
        "method": "QUERY",
        "path": "/orders",
        "caller_id": BOB,
        "identity_assurance": "certificate",
        "request_hash": "0" * 64,
        "result_hash": "1" * 64,
        **members,
    }


def draft(chain: str = ALICE, **members: object) -> Draft:
    """A draft without an event."""
    return Draft(chain=chain, payload=payload(chain, **members))


def transition(
    expected: str | None, new: str, event_type: str = "agent-lifecycle-suspended", agent_id: str = ALICE
) -> Draft:
    """A draft that changes an agent's state and answers with the event's Audit-ID."""

    def render(event: Sealed) -> bytes:
        return event.audit_id.encode()

    event = LifecycleEvent(
        agent_id=agent_id,
        event_type=event_type,
        expected_status=expected,
        new_status=new,
        fields={"previous_status": expected or "active", "reason": "Prüfung"},
    )
    return Draft(chain=HOST_CHAIN, payload=payload(HOST_CHAIN, method="DEACTIVATE"), event=event, render=render)


def group_writer(store: IChainStore, **options: object) -> GroupWriter:
    """A loaded writer."""
    writer = GroupWriter(store, RecordSigner(KEY), server_id="agtp.test", **options)  # type: ignore[arg-type]
    writer.load()
    return writer


def sealed(writer: GroupWriter, *drafts: Draft) -> list[Sealed]:
    """Write one group and return what became of each draft."""
    entries: list[Entry] = [Submission(each) for each in drafts]
    writer.write(entries)
    outcomes = []
    for entry in entries:
        assert isinstance(entry.outcome, Sealed), entry.outcome
        outcomes.append(entry.outcome)
    return outcomes


def sqlite_store(folder: Path) -> SQLiteStore:
    """A new store in a file."""
    return open_store(f"sqlite:{folder / 'records.sqlite3'}", create=True)
