"""The status document: what the agent did last, what waits, and who may see its sessions."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred, succeed

from agtphost.audit.drafts import StoredRecord
from agtphost.audit.lifecycle import LifecycleState, LifecycleStatus
from agtphost.audit.state import StateTable
from agtphost.dispatch.sessions import ESCALATION, SessionRegistry
from agtphost.handlers.authorization import Authorization
from agtphost.handlers.built_in import BuiltInContext
from agtphost.identity import jws
from agtphost.identity.directory import AgentDirectory
from agtphost.identity.peer import Assurance, Peer
from agtphost.methods.discovery.status_document import LOOKED_AT, OBSERVE, Actions, StatusDocuments
from agtphost.stores.rows import ItemRow
from agtphost.vocabulary import jsontext
from tests.identity.issued import CALLER, DESK, REGISTRAR, STRANGER, of_key
from tests.rows import each_row

ACTIVE = LifecycleState(status=LifecycleStatus.ACTIVE)


class Chain:
    """The records of one chain, newest last."""

    def __init__(self) -> None:
        self.payloads: list[dict[str, Any]] = []
        self.read = 0

    def add(self, method: str, *, acts: bool, times: int = 1) -> None:
        payload = {"method": method, "issued_at": f"2026-06-01T00:00:{len(self.payloads) % 60:02}Z"}
        self.payloads.extend([{**payload, "action_id": "x"} if acts else payload] * times)

    def walk(self, chain: str, before: int | None, limit: int) -> Any:
        last = len(self.payloads) if before is None else before - 1
        seqs = range(last, max(last - limit, 0), -1)
        self.read += len(seqs)
        return succeed([record(seq, self.payloads[seq - 1]) for seq in seqs])


def record(seq: int, payload: dict[str, Any]) -> StoredRecord:
    """A stored record of that payload."""
    signed = jws.compact(jws.protected_header(None), jsontext.encode(payload), None).encode()
    return StoredRecord(
        chain=DESK.agent_id,
        seq=seq,
        kind="record",
        audit_id=f"{seq:064x}",
        previous_audit_id="",
        format="jws",
        signed=signed,
    )


def last(actions: Actions) -> Any:
    """The last action of the desk."""
    found: list[Any] = []
    Deferred.fromCoroutine(actions.last(DESK.agent_id)).addBoth(found.append)
    return found[0]


def test_the_last_action_is_the_newest_that_changed_something() -> None:
    """AGTP-157: reading is no action; what was looked through is not read again."""
    chain = Chain()
    actions = Actions(chain)  # type: ignore[arg-type]
    assert last(actions) is None
    chain.add("BOOK", acts=True)
    chain.add("DESCRIBE", acts=False, times=70)
    assert last(actions).method == "BOOK"
    chain.add("QUERY", acts=False, times=3)
    chain.read = 0
    assert last(actions).method == "BOOK"
    assert chain.read <= 100
    chain.add("PAY", acts=True)
    assert last(actions).method == "PAY"


def test_the_search_for_actions_is_bounded() -> None:
    """A long chain of readings is looked through to a limit."""
    chain = Chain()
    chain.add("BOOK", acts=True)
    chain.add("DESCRIBE", acts=False, times=LOOKED_AT * 2)
    assert last(Actions(chain)) is None  # type: ignore[arg-type]
    assert chain.read == LOOKED_AT


def status(context: BuiltInContext, held: StateTable, sessions: SessionRegistry) -> dict[str, Any]:
    """The desk's status, as that caller sees it."""
    directory = AgentDirectory([DESK, CALLER])
    writer = StatusDocuments(
        "acme.tld",
        lambda: "2026-06-01T00:00:00Z",
        records=Chain(),  # type: ignore[arg-type]
        held=held,
        sessions=sessions,
        authorization=Authorization(None, directory),
    )
    found: list[Any] = []
    Deferred.fromCoroutine(writer.write(DESK, ACTIVE, context)).addBoth(found.append)  # type: ignore[arg-type]
    document: dict[str, Any] = found[0]
    return document


def asking(**given: Any) -> BuiltInContext:
    """A DESCRIBE of the desk's status."""
    return BuiltInContext(input={}, method="DESCRIBE", path="/agents/desk/status", **given)


def test_pending_escalations_are_counted() -> None:
    """AGTP-157: those that wait, of this agent alone."""
    held = StateTable()
    rows = [
        ItemRow(kind=ESCALATION, key=str(number), owner=bytes.fromhex(owner), version=1, expires_at=None,
                value=jsontext.encode({"status": word, "task_id": str(number)}))
        for number, (owner, word) in enumerate(
            [(DESK.agent_id, "pending"), (DESK.agent_id, "accepted"), (CALLER.agent_id, "pending")]
        )
    ]  # fmt: skip
    held.apply(rows)
    found = status(asking(), held, SessionRegistry())
    assert (found["pending_escalations"], found["org_domain"]) == (1, "acme.tld")


@each_row(
    ("given", "shown"),
    [
        ({}, False),
        ({"peer": Peer(address="x", certificate=of_key(STRANGER))}, False),
        ({"peer": Peer(address="x", certificate=of_key(REGISTRAR))}, True),
        ({"caller": CALLER, "assurance": Assurance.CERTIFICATE}, False),
        ({"caller": CALLER, "assurance": Assurance.CERTIFICATE, "scopes": frozenset({OBSERVE})}, True),
        ({"caller": CALLER, "assurance": Assurance.HEADER, "scopes": frozenset({OBSERVE})}, False),
        ({"caller": DESK, "assurance": Assurance.CERTIFICATE}, True),
    ],
)
def test_sessions_are_for_permitted_requesters(given: dict[str, Any], shown: bool) -> None:
    """AGTP-158: anonymous and unpermitted callers get no count; the issuer and agents with the scope do."""
    sessions = SessionRegistry()
    sessions.note("s1", DESK.agent_id, "k")
    found = status(asking(**given), StateTable(), sessions)
    assert found.get("active_session_count") == (1 if shown else None)
    assert ("active_session_count" in found) is shown


def test_old_sessions_are_not_active() -> None:
    """A session that was not used for a while does not count."""
    now = [0.0]
    sessions = SessionRegistry(lambda: now[0])
    sessions.note("s1", DESK.agent_id, "k")
    now[0] = 500.0
    sessions.note("s2", DESK.agent_id, "k")
    assert (sessions.active(DESK.agent_id, 900), sessions.active(DESK.agent_id, 400)) == (2, 1)
    now[0] = 600.0
    sessions.note("s1", DESK.agent_id, "k")
    assert sessions.active(DESK.agent_id, 400) == 2
