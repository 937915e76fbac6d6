"""
Stores that span changes of the signing key: verified from the first key on, and nothing an ended key signs counts.

T-KY: the attacker of these tests has the host's earlier key, taken after the change, and the file that he hands on.
"""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from agtphost.audit import checkpoint
from agtphost.audit.chain import RecordSigner
from agtphost.audit.drafts import HOST_CHAIN, Draft, StoredRecord, StreamEvent
from agtphost.audit.export import ExportError, Prover, verify_export, write_export
from agtphost.audit.merkle import Tree
from agtphost.audit.tree import TreeKeeper
from agtphost.audit.verify import FaultKind, Report, verify_records
from agtphost.audit.writer import GroupWriter
from agtphost.identity import envelope
from agtphost.identity.key_history import EVENT, Succession, event_fields, succeed
from agtphost.identity.key_ring import KeyRing, follow_statements
from agtphost.identity.keys import KeyFormatError, SigningKey, VerifyingKey
from agtphost.stores import Selection
from tests.audit import independent
from tests.audit.drafting import ALICE, BOB, draft, sealed, sqlite_store
from tests.identity.samples import key_of
from tests.programmes import length

KEYS = [key_of(f"succession {number}") for number in range(3)]
FIRST = {KEYS[0].kid: KEYS[0].public}
START = 1_795_000_000.0


def moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class Host:
    """A store whose host signs with one key after the other, as a running host does."""

    def __init__(self, folder: Path, keys: Sequence[SigningKey] = KEYS, events: str = "jws") -> None:
        self.now = START
        self.store = sqlite_store(folder)
        self.tree = TreeKeeper(self.store, "agtp.test", keys[0])
        signer = RecordSigner(keys[0], events)
        self.writer = GroupWriter(self.store, signer, server_id="agtp.test", now=lambda: self.now, tree=self.tree)
        self.writer.load()
        self.links: list[Succession] = []
        self.work()
        for old, new in itertools.pairwise(keys):
            self.change(old, new)

    def work(self) -> None:
        self.now += 1
        sealed(self.writer, draft(ALICE), draft(BOB), draft(HOST_CHAIN))

    def change(self, old: SigningKey, new: SigningKey) -> None:
        link = succeed(old, new, server_id="agtp.test", rotated_at=moment(self.now + 5))
        event = StreamEvent(chain=HOST_CHAIN, event_type=EVENT, fields=event_fields(link))
        sealed(self.writer, Draft(chain=HOST_CHAIN, payload={}, events=(event,), performed=True))
        self.links.append(link)
        self.work()  # With the old key still: its files are being put in place.
        self.writer.adopt(new)
        self.work()

    def records(self, **selection: Any) -> list[StoredRecord]:
        return list(self.store.reader().records(Selection(**selection)))

    def export(
        self,
        records: Sequence[StoredRecord] | None = None,
        *,
        links: Sequence[Mapping[str, str]] | None = None,
        whole: bool = True,
        note: str = "",
        proofs: bool = True,
    ) -> list[bytes]:
        self.tree.catch_up()
        reader = self.store.reader()
        row = reader.checkpoint()
        tree = Tree(reader.tile, row.size)
        prover = Prover(note=note or row.note, tree=tree, number_of=reader.number_of, newest=row.size)
        return list(
            write_export(
                self.records() if records is None else records,
                server_id="agtp.test",
                keys=[(key.kid, key.public) for key in KEYS],
                links=[link.statement for link in self.links] if links is None else links,
                whole=whole,
                prover=prover if proofs else None,
            )
        )


def kinds(report: Report) -> set[FaultKind]:
    return {fault.kind for fault in report.faults}


def signed_again(record: StoredRecord, key: SigningKey, **members: Any) -> StoredRecord:
    """The record with other members, signed by a key of the attacker's choice."""
    payload = {**envelope.parse_unverified(record.format, record.signed), **members}
    signature = RecordSigner(key).sign(payload)
    return replace(
        record,
        audit_id=signature.audit_id_text,
        signed=signature.octets,
        format="jws",
        previous_audit_id=payload["previous_audit_id"],
    )


def append_record(records: Sequence[StoredRecord], key: SigningKey, chain: str, **members: Any) -> list[StoredRecord]:
    """One more record at the end of a chain."""
    last = [record for record in records if record.chain == chain][-1]
    more = signed_again(last, key, previous_audit_id=last.audit_id, **members)
    at = records.index(last) + 1
    return [*records[:at], replace(more, seq=last.seq + 1), *records[at:]]


@pytest.mark.parametrize("events", ["jws", "cose"])
@pytest.mark.parametrize("proofs", [True, False])
def test_the_first_key_and_the_file_are_enough(events: str, proofs: bool, tmp_path: Path) -> None:
    """Chain of custody: two changes of the key, one key known; ours and the independent verifier."""
    host = Host(tmp_path, events=events)
    lines = host.export(proofs=proofs)
    report = verify_export(lines, FIRST)
    assert report.ok and report.records == len(host.records()) == len(lines) - 2, report.faults
    assert list(report.keys) == [key.kid for key in KEYS] and len(report.keys.until) == 2
    assert report.proven == (report.records if proofs else 0)
    raw = {KEYS[0].kid: KEYS[0].public.raw}
    assert len(independent.verify(lines, raw)) == report.records
    assert len(independent.members(lines, raw)) == report.proven
    # The control: a later key does not vouch for what came before it.
    for key in KEYS[1:]:
        assert FaultKind.SIGNATURE in kinds(verify_export(lines, {key.kid: key.public}))


def test_the_linking_record_alone_is_a_link(tmp_path: Path) -> None:
    """Without the statements in the first line, the host's own chain says the same; so does a walk over the store."""
    host = Host(tmp_path)
    assert verify_export(host.export(links=[], proofs=False), FIRST).ok
    assert verify_records(host.records(), FIRST).ok
    without = [record for record in host.records() if record.chain != HOST_CHAIN]
    assert FaultKind.SIGNATURE in kinds(verify_records(without, FIRST)), "the control: nobody says what follows"


def test_a_selection_of_one_agent_verifies_from_the_first_key(tmp_path: Path) -> None:
    """The host's chain is not in it; the statements of the first line lead on."""
    host = Host(tmp_path)
    chosen = host.records(chain=ALICE)
    assert verify_export(host.export(chosen), FIRST).ok
    assert not verify_export(host.export(chosen, links=[]), FIRST).ok, "the control"


def test_what_an_ended_key_signs_later_is_refused(tmp_path: Path) -> None:
    """Its time says so: ``not_after`` of the link; as the last record of a chain that nobody else added to."""
    host = Host(tmp_path, KEYS[:1])
    sealed(host.writer, draft("c0" * 32))
    host.change(KEYS[0], KEYS[1])
    late = moment(host.now + 60).replace("Z", ".000Z")
    hostile = append_record(host.records(), KEYS[0], "c0" * 32, issued_at=late)
    report = verify_records(hostile, FIRST)
    assert kinds(report) == {FaultKind.KEY} and len(report.unverified_ids) == 1
    assert kinds(verify_export(host.export(hostile, proofs=False), FIRST)) == {FaultKind.KEY}
    with pytest.raises(AssertionError, match="retired at"):
        independent.verify(host.export(hostile, proofs=False), {KEYS[0].kid: KEYS[0].public.raw})
    known = KeyRing([KEYS[0].public, KEYS[1].public])
    assert known.follow(host.links[0])
    assert kinds(verify_records(hostile, known)) == {FaultKind.KEY}, "with both keys known beforehand likewise"
    assert verify_records(hostile, {key.kid: key.public for key in KEYS}, whole=True).faults, "and without their ends"


def test_a_record_dated_back_is_found_behind_its_successors(tmp_path: Path) -> None:
    """In a chain that the new key has signed in, the old key comes too late whatever time it claims."""
    host = Host(tmp_path)
    for chain in (ALICE, HOST_CHAIN):
        last = [record for record in host.records() if record.chain == chain][-1]
        time = envelope.parse_unverified(last.format, last.signed)["issued_at"]
        for key in KEYS[:2]:
            hostile = append_record(host.records(), key, chain, issued_at=time)
            assert FaultKind.KEY in kinds(verify_records(hostile, FIRST))
        control = append_record(host.records(), KEYS[2], chain, issued_at=time)
        assert verify_records(control, FIRST).ok


def test_a_log_in_which_an_ended_key_signs_again_is_found(tmp_path: Path) -> None:
    """Dated back, in a chain of its own, and even logged: the log has one order, and the proofs show it."""
    host = Host(tmp_path)
    host.now = START + 2
    host.writer.adopt(KEYS[0])
    sealed(host.writer, draft("c0" * 32))
    host.writer.adopt(KEYS[2])
    host.work()
    report = verify_export(host.export(), FIRST)
    assert kinds(report) == {FaultKind.KEY} and "after" in str(report.faults[0])
    assert verify_export(host.export(proofs=False), FIRST).ok, "the control: without proofs nobody can tell"


def test_a_checkpoint_of_an_ended_key_proves_nothing(tmp_path: Path) -> None:
    """It covers records that only the next key can have signed."""
    host = Host(tmp_path)
    host.export()
    row = host.store.reader().checkpoint()
    root = checkpoint.read(row.note).root
    for key in KEYS[:2]:
        note = checkpoint.issue("agtp.test", row.size, root, key).note
        assert kinds(verify_export(host.export(note=note), FIRST)) == {FaultKind.PROOF}
    assert verify_export(host.export(note=checkpoint.issue("agtp.test", row.size, root, KEYS[2]).note), FIRST).ok


def test_every_forged_linking_record_is_found(tmp_path: Path) -> None:
    """Each member of the statement changed, the record signed anew by the very key that it retires."""
    host = Host(tmp_path)
    records = host.records()
    place = next(n for n, record in enumerate(records) if _links(record))
    payload = envelope.parse_unverified(records[place].format, records[place].signed)
    thief = SigningKey.generate()
    own = event_fields(succeed(KEYS[0], thief, server_id="agtp.test", rotated_at=payload["rotated_at"]))
    stranger = event_fields(succeed(thief, KEYS[1], server_id="agtp.test", rotated_at=payload["rotated_at"]))
    elsewhere = event_fields(succeed(KEYS[0], KEYS[1], server_id="other.test", rotated_at=payload["rotated_at"]))
    forgeries: dict[str, dict[str, Any]] = {
        **{
            name: {name: str(value)[:-2] + ("A" if str(value)[-2] != "A" else "B") + str(value)[-1]}
            for name, value in own.items()
        },
        "another successor": own,
        "a stranger's": stranger,
        "another host's": elsewhere,
        "no signature": {"new_signature": ""},
        "no time": {"rotated_at": 7},
    }
    for what, members in forgeries.items():
        hostile = [*records]
        hostile[place] = signed_again(records[place], KEYS[0], **members)
        for links in (None, []):
            report = verify_export(host.export(hostile, links=links, proofs=False), FIRST)
            # Where the file names no other successor, this one is linked; what the true one signed is not, then.
            alone = what == "another successor" and links == []
            assert (FaultKind.SIGNATURE if alone else FaultKind.KEY) in kinds(report), what
            with pytest.raises((independent.Refuted, ValueError)):
                independent.verify(host.export(hostile, links=links, proofs=False), {KEYS[0].kid: KEYS[0].public.raw})


def _links(record: StoredRecord) -> bool:
    return envelope.parse_unverified(record.format, record.signed).get("event_type") == EVENT


@pytest.mark.release
@pytest.mark.programme
def test_one_flipped_bit_anywhere_is_found_by_both(tmp_path: Path) -> None:
    """In the first line with its keys, links and checkpoint, in any record or proof, in the end: six hundred bits."""
    anywhere, in_first = length((100, 60), (400, 200))
    whole = b"".join(Host(tmp_path).export())
    chance, raw = random.Random(11), {KEYS[0].kid: KEYS[0].public.raw}
    first = whole.index(b"\n")
    places = [chance.randrange(len(whole)) for _ in range(anywhere)]
    places += [chance.randrange(first) for _ in range(in_first)]
    for place in places:
        hostile = bytearray(whole)
        hostile[place] ^= 1 << chance.randrange(8)
        lines = bytes(hostile).splitlines(keepends=True)
        assert not is_accepted(lines), place
        with pytest.raises((independent.Refuted, ValueError)):
            independent.verify(lines, raw)
    assert is_accepted(whole.splitlines(keepends=True)), "the control"


def is_accepted(lines: list[bytes]) -> bool:
    try:
        return verify_export(lines, FIRST).ok
    except ExportError:
        return False


def test_every_forged_statement_beside_the_records_is_found(tmp_path: Path) -> None:
    """In the first line of a selection, each member changed; and one that no record of the host's chain tells of."""
    host = Host(tmp_path)
    good = [dict(link.statement) for link in host.links]
    chosen = host.records(chain=ALICE)
    for name, value in good[0].items():
        forged = {**good[0], name: value[:-2] + ("A" if value[-2] != "A" else "B") + value[-1]}
        for links in ([forged, good[1]], [forged]):
            assert FaultKind.KEY in kinds(verify_export(host.export(chosen, links=links), FIRST)), name
    thief = SigningKey.generate()
    untold = dict(succeed(KEYS[2], thief, server_id="agtp.test", rotated_at=moment(host.now)).statement)
    assert kinds(verify_export(host.export(links=[*good, untold]), FIRST)) >= {FaultKind.KEY}
    fork = dict(succeed(KEYS[0], thief, server_id="agtp.test", rotated_at=moment(host.now)).statement)
    assert kinds(verify_export(host.export(chosen, links=[*good, fork]), FIRST)) == {FaultKind.KEY}


def test_a_change_that_is_stated_again_is_no_fork(tmp_path: Path) -> None:
    """A host that ended in between says it once more with a later end; only the same two keys can."""
    host = Host(tmp_path, KEYS[:1])
    link = succeed(KEYS[0], KEYS[1], server_id="agtp.test", rotated_at=moment(host.now + 5))
    event = StreamEvent(chain=HOST_CHAIN, event_type=EVENT, fields=event_fields(link))
    sealed(host.writer, Draft(chain=HOST_CHAIN, payload={}, events=(event,), performed=True))
    host.now += 3600
    host.work()
    host.change(KEYS[0], KEYS[1])
    report = verify_export(host.export(), FIRST)
    assert report.ok, report.faults
    assert report.keys.until == {KEYS[0].kid: host.links[0].rotated_at}


def test_keys_do_not_follow_each_other_in_a_circle() -> None:
    """A ring of statements, and two successors: refused; statements about unknown keys say nothing."""
    a, b, c = KEYS

    def link(old: SigningKey, new: SigningKey) -> dict[str, str]:
        return dict(succeed(old, new, server_id="h", rotated_at=moment(START)).statement)

    refused: list[Callable[[], object]] = [
        lambda: follow_statements([a.public], [link(a, b), link(b, a)]),
        lambda: follow_statements([a.public], [link(a, b), link(b, c), link(c, a)]),
        lambda: follow_statements([a.public], [link(a, b), link(a, c)]),
        lambda: follow_statements([a.public], [link(a, b)] * 300),
    ]
    for attempt in refused:
        with pytest.raises(KeyFormatError):
            attempt()
    assert follow_statements([a.public], [link(b, c)]).in_use == [a.public]
    assert follow_statements([a.public], [link(a, b), link(b, c)]).in_use == [c.public]


def test_the_end_of_a_keys_use_is_a_moment() -> None:
    """The very second counts; what is no time, or has no zone, is too late."""
    link = succeed(KEYS[0], KEYS[1], server_id="h", rotated_at=moment(START))
    ring = follow_statements([KEYS[0].public], [dict(link.statement)])
    kid = KEYS[0].kid
    assert not ring.has_ended(kid, moment(START)) and not ring.has_ended(kid, moment(START - 1))
    for late in (moment(START + 1), moment(START)[:-1], "x", "", None, 7, {}):
        assert ring.has_ended(kid, late)
    assert not ring.has_ended(KEYS[1].kid, "x") and not ring.has_ended("unknown", moment(START))


def test_the_header_names_the_keys_in_order(tmp_path: Path) -> None:
    """What an auditor reads in the first line: every key, and the statements oldest first; none before a change."""
    host = Host(tmp_path, KEYS[:1])
    assert "links" not in json.loads(host.export()[0])
    host.change(KEYS[0], KEYS[1])
    assert [link["old_kid"] for link in json.loads(host.export()[0])["links"]] == [KEYS[0].kid]
    assert VerifyingKey.from_text(json.loads(host.export()[0])["links"][0]["new_key"]) == KEYS[1].public
