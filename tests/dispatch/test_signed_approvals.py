"""What releases a held call is the signed record of a decision, and not a row of the store."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agtphost.audit.state_item import item_of
from agtphost.audit.state_keeper import StateContradiction
from agtphost.host.services import HostServices
from agtphost.stores import open_store
from agtphost.stores.rows import ItemRow
from agtphost.vocabulary import jsontext
from agtphost.vocabulary.quotas import APPROVAL, ITEM_KINDS
from tests.dispatch.approval_hosts import DELETION, ApprovalHost
from tests.methods.floor_hosts import body_of


class SignedHost(ApprovalHost):
    """The same with the ledger that a host has, and a store in a file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        super().__init__({})
        self.store: Any = open_store(f"sqlite:{path}", create=not path.exists())
        assert self.core is not None

    def foundation(self, on: HostServices) -> HostServices:
        self.ledger, self.held, self.states = on.evidence.ledger, on.evidence.held, on.evidence.states
        return replace(on)

    def alter(self, change: Callable[[dict[str, Any]], object]) -> None:
        """As another program: the row of the approval."""
        with closing(sqlite3.connect(self.path)) as database, database:
            ((key, octets),) = database.execute("SELECT key, value FROM held WHERE kind = 'approval'").fetchall()
            value = jsontext.decode(octets)
            change(value)
            database.execute("UPDATE held SET value = ? WHERE key = ?", (jsontext.encode(value), key))

    def believe(self, change: Callable[[dict[str, Any]], object]) -> None:
        """As a fault of this program: memory has another item than was ever committed."""
        (item,) = self.held.all(APPROVAL)
        value = dict(item.value)
        change(value)
        octets = jsontext.encode(value)
        row = ItemRow(APPROVAL, item.key, bytes.fromhex(item.owner), item.version, item.expires_at, octets)
        self.held.apply((row,), (item_of(row, octets, ITEM_KINDS[APPROVAL]),))


@pytest.fixture
def host(tmp_path: Path) -> Iterator[SignedHost]:
    made = SignedHost(tmp_path / "records.sqlite3")
    yield made
    made.close()


def accept(value: dict[str, Any]) -> None:
    """What CONFIRM makes of an approval, without its record."""
    decision = {"reason": "", "attestation": None, "by": "key:x", "at": "", "attestation_id": "att-x"}
    value.update(status="accepted", use_by=2**40, decision=decision, decided_audit_id=value["proposed_audit_id"])


def test_an_approved_call_runs(host: SignedHost) -> None:
    """The control of all others: with the decision on record it runs, once."""
    host.approved()
    assert host.ask("REMOVE", "/file", DELETION).status == 200 and len(host.ran) == 1


def test_a_row_set_to_accepted_runs_nothing_while_the_host_runs(host: SignedHost) -> None:
    """The next record is refused: the state is not what was signed, and the handler is not called."""
    host.waits()
    host.alter(accept)
    assert host.ask("REMOVE", "/file", DELETION).status == 503
    assert not host.ran and not host.ledger.healthy


def test_a_row_set_to_accepted_keeps_a_host_from_starting(tmp_path: Path) -> None:
    """The start names the row."""
    path = tmp_path / "records.sqlite3"
    first = SignedHost(path)
    approval_id = first.waits()["approval_id"]
    first.close()
    first.alter(accept)
    with pytest.raises(StateContradiction, match=f"held: approval {approval_id} was changed"):
        SignedHost(path)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(accept, id="the record of another call"),
        pytest.param(lambda value: (accept(value), value.update(decided_audit_id="")), id="no record"),
        pytest.param(
            lambda value: (accept(value), value.update(decided_audit_id="0" * 64)), id="one that is not there"
        ),
    ],
)
def test_an_approval_without_a_decision_on_record_releases_nothing(
    host: SignedHost, change: Callable[[dict[str, Any]], object]
) -> None:
    """Whatever memory says; the refusal says why, and the handler is not called."""
    host.waits()
    host.believe(change)
    answer = host.ask("REMOVE", "/file", DELETION)
    assert (answer.status, body_of(answer)["reason"]) == (500, "record-damaged") and not host.ran


@pytest.mark.parametrize(
    "change",
    [
        {"digest": "0" * 64},
        {"proposed_audit_id": "0" * 64},
        {"decision": {"by": "key:other", "reason": "", "at": "", "attestation": None, "attestation_id": ""}},
    ],
    ids=["of another call", "asked for elsewhere", "by another"],
)
def test_a_decision_about_something_else_releases_nothing(host: SignedHost, change: dict[str, Any]) -> None:
    """The record has to say who decided, on what, and which question it answers."""
    host.approved()
    digest = next(iter(host.held.all(APPROVAL))).value["digest"]
    host.believe(lambda value: value.update(change))
    # A call with another digest would not find it: the gate's own look is held against the record all the same.
    if "digest" in change:
        host.believe(lambda value: value.update(digest=digest, approval_id="apr-other"))
        (item,) = host.held.all(APPROVAL)
        host.held.apply((ItemRow(APPROVAL, item.key, b"", 1, None, None),), (None,))
        octets = jsontext.encode(item.value)
        row = ItemRow(APPROVAL, "apr-other", bytes.fromhex(item.owner), item.version, item.expires_at, octets)
        host.held.apply((row,), (item_of(row, octets, ITEM_KINDS[APPROVAL]),))
    answer = host.ask("REMOVE", "/file", DELETION)
    assert (answer.status, body_of(answer)["reason"]) == (500, "record-damaged") and not host.ran
