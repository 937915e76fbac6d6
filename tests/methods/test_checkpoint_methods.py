"""The witnessing side: what is cosigned, what is refused, and which evidence is kept."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import pytest_twisted

from agtphost.audit import checkpoint, cosignature
from agtphost.audit.checkpoint import Checkpoint
from agtphost.audit.drafts import Change
from agtphost.audit.merkle import Tree
from agtphost.audit.state import StateTable
from agtphost.audit.tree import TreeKeeper
from agtphost.errors import Refusal
from agtphost.handlers.built_in import BuiltInContext
from agtphost.identity.key_history import HostKey, succeed
from agtphost.identity.key_ring import follow_statements
from agtphost.identity.keys import SigningKey
from agtphost.identity.peer import Peer, PeerCertificate
from agtphost.methods import checkpoint_methods
from agtphost.methods.checkpoint_methods import WitnessedLog, Witnessing
from agtphost.stores.rows import ItemRow
from agtphost.vocabulary import jsontext
from tests.audit.drafting import KEY, draft, group_writer, sealed, sqlite_store
from tests.identity.issued import REGISTRAR, STRANGER, of_key
from tests.identity.samples import key_of

WITNESS = key_of("witnessing witness")


class Log:
    """A growing log, with a proof between any two of its checkpoints."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        self._store = sqlite_store(folder)
        self._tree = TreeKeeper(self._store, "log.test", KEY)
        self._writer = group_writer(self._store, tree=self._tree)

    def grow(self, count: int) -> Checkpoint:
        sealed(self._writer, *(draft() for _ in range(count)))
        issued = self._tree.catch_up()
        assert issued is not None
        return issued

    def proof(self, first: int, second: int) -> list[str]:
        digests = Tree(self._store.tile, second).consistency(first) if 0 < first < second else []
        return [base64.b64encode(digest).decode() for digest in digests]

    def adopt(self, key: SigningKey) -> None:
        self._tree.adopt(key)


class Host:
    """A witness whose changes are committed as a ledger would."""

    def __init__(self, clients: frozenset[str] = frozenset()) -> None:
        self.held = StateTable()
        self._log = WitnessedLog(origin="log.test", keys=(KEY.public,), clients=clients)
        self.witness(WITNESS)

    def witness(self, key: SigningKey) -> None:
        self._handler = Witnessing(self.held, [self._log], "witness.test", key, lambda: 1_795_000_000.0)

    async def ask(self, method: str, given: Mapping[str, Any], certificate: PeerCertificate | None = None) -> Any:
        peer = Peer(address="127.0.0.1", certificate=certificate)
        try:
            response = await self._handler.handle(
                BuiltInContext(input=given, method=method, path="/checkpoints", peer=peer)
            )
        except Refusal as refusal:
            self._commit(refusal.changes)
            raise
        self._commit(response.changes)
        return response.result

    def _commit(self, changes: Sequence[Change]) -> None:
        for change in changes:
            known = self.held.get(change.kind, change.key)
            version = 0 if known is None else known.version
            assert change.expected in (None, version)
            assert change.value is not None
            self.held.apply([ItemRow(change.kind, change.key, b"", version + 1, None, jsontext.encode(change.value))])

    async def confirm(
        self, issued: Checkpoint, first: int = 0, proof: Sequence[str] = (), links: Any = None, **options: Any
    ) -> Any:
        attestation: dict[str, Any] = {"checkpoint": issued.note, "first": first, "proof": list(proof)}
        if links is not None:
            attestation["links"] = links
        given = {"target_id": "log.test", "status": "accepted", "attestation": attestation}
        return await self.ask("CONFIRM", given, **options)

    async def seen(self) -> Any:
        return await self.ask("QUERY", {"origin": "log.test"})


async def refusal_of(asking: Any) -> Refusal:
    with pytest.raises(Refusal) as caught:
        await asking
    return caught.value


@pytest_twisted.ensureDeferred
async def test_a_log_that_grows_is_cosigned(tmp_path: Path) -> None:
    """The first checkpoint on its signature, each later one with its proof; the same again is no fault."""
    log, host = Log(tmp_path), Host()
    before = await refusal_of(host.seen())
    assert (before.status, before.reason) == (404, "checkpoint-unseen")
    seen = 0
    for count in (3, 1, 300):
        issued = log.grow(count)
        for _ in range(2):
            receipt = await host.confirm(issued, seen, log.proof(seen, issued.size))
            found = cosignature.verify(issued.note, receipt["cosignature"], [WITNESS.public])
            assert found.witness == receipt["witness"] == "witness.test"
            assert receipt["attestation_id"].startswith("att-") and receipt["timestamp"]
        seen = issued.size
        assert (await host.seen())["checkpoint"] == issued.note
    assert (await host.seen())["contradictions"] == []


@pytest_twisted.ensureDeferred
async def test_a_proof_from_another_size_is_sent_back_with_the_size(tmp_path: Path) -> None:
    """409 checkpoint-proof-outdated: no evidence of anything, and the sender knows where to begin."""
    log, host = Log(tmp_path), Host()
    first, second, third = log.grow(2), log.grow(2), log.grow(2)
    await host.confirm(second)
    refusal = await refusal_of(host.confirm(third, first.size, log.proof(first.size, third.size)))
    assert (refusal.status, refusal.reason, refusal.details["size"]) == (409, "checkpoint-proof-outdated", 4)
    assert (await host.seen())["contradictions"] == []


@pytest.mark.parametrize("kind", ["rollback", "fork of the same size", "fork that grew", "fork with another's proof"])
@pytest_twisted.ensureDeferred
async def test_a_rollback_or_fork_is_refused_and_both_notes_are_kept(kind: str, tmp_path: Path) -> None:
    """409 checkpoint-inconsistent; what was seen before stays what was seen; the evidence verifies by itself."""
    log, other, host = Log(tmp_path / "a"), Log(tmp_path / "b"), Host()
    small, seen = log.grow(2), log.grow(3)
    forked = other.grow(5)
    grown, honest = other.grow(4), log.grow(4)
    await host.confirm(seen)
    offered, proof = {
        "rollback": (small, []),
        "fork of the same size": (forked, []),
        "fork that grew": (grown, other.proof(5, 9)),
        "fork with another's proof": (grown, log.proof(5, honest.size)),
    }[kind]
    for _ in range(3):
        refusal = await refusal_of(host.confirm(offered, 5, proof))
        assert (refusal.status, refusal.reason) == (409, "checkpoint-inconsistent")
        assert refusal.details["kind"] == kind.split(" ", 1)[0] and refusal.remedy
    answer = await host.seen()
    assert answer["checkpoint"] == seen.note
    (kept,) = answer["contradictions"]
    for name, expected in (("seen", seen), ("offered", offered)):
        assert checkpoint.verify(kept[name], [KEY.public]).root == expected.root
    # The honest log goes on.
    assert (await host.confirm(honest, 5, log.proof(5, honest.size)))["size"] == honest.size


@pytest_twisted.ensureDeferred
async def test_evidence_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever signs fork after fork fills no disk."""
    monkeypatch.setattr(checkpoint_methods, "MOST_CONTRADICTIONS", 2)
    log, host = Log(tmp_path / "seen"), Host()
    await host.confirm(log.grow(3))
    for number in range(4):
        await refusal_of(host.confirm(Log(tmp_path / str(number)).grow(3)))
    assert len((await host.seen())["contradictions"]) == 2


@pytest.mark.parametrize(
    ("change", "status", "reason"),
    [
        ({"target_id": "other.test"}, 404, "log-unknown"),
        ({"target_id": 7}, 422, "invalid-parameter"),
        ({"target_id": None}, 422, "missing-parameter"),
        ({"status": "rejected"}, 422, "invalid-parameter"),
        ({"status": None}, 422, "missing-parameter"),
        ({"attestation": None}, 422, "missing-parameter"),
        ({"attestation": {}}, 422, "missing-parameter"),
        ({"attestation": {"checkpoint": "nonsense"}}, 422, "checkpoint-unverified"),
        ({"attestation": {"checkpoint": "unsigned"}}, 422, "checkpoint-unverified"),
        ({"attestation": {"checkpoint": "of another key"}}, 422, "checkpoint-unverified"),
        ({"attestation": {"checkpoint": "of another log"}}, 422, "checkpoint-unverified"),
        ({"attestation": {"checkpoint": "next"}}, 409, "checkpoint-proof-outdated"),
        ({"attestation": {"checkpoint": "next", "first": True}}, 409, "checkpoint-proof-outdated"),
        ({"attestation": {"checkpoint": "next", "first": 2}}, 422, "missing-parameter"),
        ({"attestation": {"checkpoint": "next", "first": 2, "proof": [7]}}, 422, "invalid-parameter"),
        ({"attestation": {"checkpoint": "next", "first": 2, "proof": ["AAAA"]}}, 422, "invalid-parameter"),
        ({"attestation": {"checkpoint": "next", "first": 2, "proof": ["é"]}}, 422, "invalid-parameter"),
        ({"attestation": {"checkpoint": "next", "first": 2, "proof": [""] * 131}}, 422, "invalid-parameter"),
    ],
)
@pytest_twisted.ensureDeferred
async def test_what_a_witness_does_not_take(change: dict[str, Any], status: int, reason: str, tmp_path: Path) -> None:
    """Each fault by status and reason; nothing is kept, and what was seen stays."""
    log, host = Log(tmp_path), Host()
    seen, following = log.grow(2), log.grow(3)
    await host.confirm(seen)
    notes = {
        "unsigned": following.note.partition("\n\n")[0] + "\n\n",
        "of another key": checkpoint.issue("log.test", 5, following.root, SigningKey.generate()).note,
        "of another log": checkpoint.issue("other.test", 5, following.root, KEY).note,
        "next": following.note,
    }
    given = {"target_id": "log.test", "status": "accepted", **change}
    attestation = given.get("attestation")
    if attestation:
        given["attestation"] = {**attestation, "checkpoint": notes.get(attestation["checkpoint"], "nonsense")}
    elif "attestation" not in given:
        given["attestation"] = {"checkpoint": following.note, "first": 2, "proof": log.proof(2, 5)}
    refusal = await refusal_of(host.ask("CONFIRM", given))
    assert (refusal.status, refusal.reason) == (status, reason)
    assert not refusal.changes
    assert (await host.seen())["checkpoint"] == seen.note


@pytest_twisted.ensureDeferred
async def test_a_log_can_be_bound_to_a_client_certificate(tmp_path: Path) -> None:
    """Then an old note of it, which anybody may have, makes no false evidence."""
    log, host = Log(tmp_path), Host(frozenset({REGISTRAR.public.fingerprint}))
    issued = log.grow(2)
    assert (await refusal_of(host.confirm(issued))).status == 401
    assert (await refusal_of(host.confirm(issued, certificate=of_key(STRANGER)))).status == 403
    assert (await host.confirm(issued, certificate=of_key(REGISTRAR)))["size"] == 2


# A log that changes its key


def link_keys(old: SigningKey, new: SigningKey, host: str = "log.test") -> dict[str, str]:
    """What a host says of two of its keys."""
    return dict(succeed(old, new, server_id=host, rotated_at="2026-11-21T00:00:00Z").statement)


@pytest_twisted.ensureDeferred
async def test_the_key_of_a_log_is_followed(tmp_path: Path) -> None:
    """The new key counts as soon as the registered one says so, after a restart of the witness too; nobody edits."""
    log, host, second, third = Log(tmp_path), Host(), SigningKey.generate(), SigningKey.generate()
    links: list[dict[str, str]] = []
    seen = 0
    for before, key in ((None, KEY), (KEY, second), (second, third)):
        if before is not None:
            links.append(link_keys(before, key))
            log.adopt(key)
        issued = log.grow(2)
        proof = log.proof(seen, issued.size)
        if links:
            control = await refusal_of(host.confirm(issued, seen, proof))
            assert (control.status, control.reason) == (422, "checkpoint-unverified"), "without the link"
        await host.confirm(issued, seen, proof, links=links)
        seen = issued.size
        assert (await host.seen())["links"] == links
    # What was learned is kept: it need not be said again.
    issued = log.grow(1)
    await host.confirm(issued, seen, log.proof(seen, issued.size))


@pytest_twisted.ensureDeferred
async def test_the_earlier_key_counts_no_longer(tmp_path: Path) -> None:
    """Whoever steals it after the change continues no log: 409, and a second successor of it is kept as evidence."""
    log, host, second, thief = Log(tmp_path), Host(), SigningKey.generate(), SigningKey.generate()
    first = log.grow(1)
    await host.confirm(first)
    log.adopt(second)
    issued = log.grow(1)
    await host.confirm(issued, 1, log.proof(1, 2), links=[link_keys(KEY, second)])
    log.adopt(KEY)
    stale = log.grow(1)
    late = await refusal_of(host.confirm(stale, 2, log.proof(2, 3)))
    assert (late.status, late.reason) == (409, "checkpoint-key-retired")
    log.adopt(thief)
    other = log.grow(1)
    forked = await refusal_of(host.confirm(other, 2, log.proof(2, 4), links=[link_keys(KEY, thief)]))
    assert (forked.status, forked.reason, forked.details["kind"]) == (409, "checkpoint-inconsistent", "keys")
    (kept,) = (await host.seen())["contradictions"]
    assert second.public.text in kept["seen"] and thief.public.text in kept["offered"]
    assert (await host.seen())["size"] == 2


@pytest_twisted.ensureDeferred
async def test_a_forged_link_counts_for_nothing(tmp_path: Path) -> None:
    """One signature of two, another host's, a mutated one, one of strangers, nonsense: 422, and nothing is kept."""
    log, host, new, thief = Log(tmp_path), Host(), SigningKey.generate(), SigningKey.generate()
    log.adopt(new)
    issued = log.grow(1)
    good, stolen = link_keys(KEY, new), link_keys(thief, new)
    hostile: list[Any] = [
        [{**good, "old_signature": stolen["old_signature"]}],
        [{**good, "new_key": thief.public.text, "new_kid": thief.kid}],
        [{**good, "rotated_at": "2027-01-01T00:00:00Z"}],
        [link_keys(KEY, new, "other.test")],
        [stolen],
        [good, 1],
        [{}],
        "x",
        {"links": good},
        [good] * 1_000,
    ]
    for links in hostile:
        refusal = await refusal_of(host.confirm(issued, links=links))
        assert (refusal.status, refusal.reason) == (422, "checkpoint-unverified"), links
    assert (await refusal_of(host.seen())).reason == "checkpoint-unseen"
    assert (await host.confirm(issued, links=[good]))["status"] == "accepted", "the control"


@pytest_twisted.ensureDeferred
async def test_a_witness_says_what_followed_its_key(tmp_path: Path) -> None:
    """Its cosignatures are believed after a change of its own key, by whoever knows the first."""
    log, host = Log(tmp_path), Host()
    new = SigningKey.generate()
    key = HostKey.load(save(WITNESS, tmp_path / "w.key"))
    assert isinstance(key, HostKey)
    host.witness(key)
    first = await host.confirm(log.grow(1))
    assert "links" not in first
    key.follow(new, succeed(WITNESS, new, server_id="witness.test", rotated_at="2026-11-21T00:00:00Z"))
    issued = log.grow(1)
    receipt = await host.confirm(issued, 1, log.proof(1, 2))
    ring = follow_statements([WITNESS.public], receipt["links"])
    assert ring.in_use == [new.public]
    assert cosignature.verify(issued.note, receipt["cosignature"], ring.in_use).witness == "witness.test"


def save(key: SigningKey, path: Path) -> Path:
    key.save(path)
    return path
