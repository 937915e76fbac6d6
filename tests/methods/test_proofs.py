"""INSPECT of the tree: what an auditor asks for, over the real gates, with a real ledger's checkpoints."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest
import pytest_twisted
from twisted.internet.defer import maybeDeferred

from agtphost.audit import checkpoint, cosignature
from agtphost.audit.merkle import leaf_hash, verify_consistency, verify_inclusion
from agtphost.audit.tree import TreeKeeper
from agtphost.errors import Refusal
from agtphost.handlers.authorization import Authorization
from agtphost.handlers.built_in import BuiltInContext
from agtphost.methods.inspection.access import ReadACL
from agtphost.methods.inspection.inspect import Inspection
from agtphost.stores import OffReactorRecords
from tests.audit.drafting import KEY, draft, group_writer, sealed, sqlite_store
from tests.identity.samples import key_of


class Audited:
    """A store with its tree, asked by INSPECT."""

    def __init__(self, folder: Path) -> None:
        store = sqlite_store(folder)
        self.tree = TreeKeeper(store, "agtp.test", KEY)
        self.writer = group_writer(store, tree=self.tree)
        records = OffReactorRecords(store.reader(), maybeDeferred)
        self._inspection = Inspection(records, ReadACL.PUBLIC, Authorization(), lambda: self.tree.cosigned)

    def record(self, count: int) -> list[str]:
        return [record.audit_id for record in sealed(self.writer, *(draft() for _ in range(count)))]

    async def ask(self, **given: Any) -> dict[str, Any]:
        context = BuiltInContext(input=given, method="INSPECT", path="/")
        return dict((await self._inspection.handle(context)).result)


def digests(result: dict[str, Any]) -> list[bytes]:
    return [base64.b64decode(text) for text in result["proof"]]


@pytest_twisted.ensureDeferred
async def test_an_auditor_proves_a_record_and_an_earlier_checkpoint(tmp_path: Path) -> None:
    """Everything follows from the answers and the host's key alone."""
    host = Audited(tmp_path)
    made = host.record(5)
    host.tree.catch_up()
    earlier = checkpoint.verify((await host.ask(target="checkpoint"))["checkpoint"], [KEY.public])
    made += host.record(300)
    host.tree.catch_up()
    for audit_id in (made[0], made[4], made[304]):
        answer = await host.ask(target="inclusion", audit_id=audit_id)
        signed = checkpoint.verify(answer["checkpoint"], [KEY.public])
        leaf = leaf_hash(bytes.fromhex(audit_id))
        verify_inclusion(answer["index"], signed.size, leaf, digests(answer), signed.root)
        assert answer["size"] == signed.size == 305
    answer = await host.ask(target="consistency", size=earlier.size)
    later = checkpoint.verify(answer["checkpoint"], [KEY.public])
    verify_consistency(earlier.size, earlier.root, later.size, later.root, digests(answer))


@pytest.mark.parametrize(
    ("given", "status", "reason"),
    [
        ({"target": "checkpoint"}, 404, "checkpoint-missing"),
        ({"target": "inclusion"}, 422, "missing-parameter"),
        ({"target": "inclusion", "audit_id": "0" * 64}, 404, "record-not-found"),
        ({"target": "consistency", "size": 1}, 404, "checkpoint-missing"),
    ],
)
@pytest_twisted.ensureDeferred
async def test_before_the_first_checkpoint(given: dict[str, Any], status: int, reason: str, tmp_path: Path) -> None:
    """Each refusal says what is missing."""
    with pytest.raises(Refusal) as caught:
        await Audited(tmp_path).ask(**given)
    assert (caught.value.status, caught.value.reason) == (status, reason)


@pytest_twisted.ensureDeferred
async def test_a_record_newer_than_the_checkpoint_is_pending(tmp_path: Path) -> None:
    """409 with Retry-After: the proof comes with the next checkpoint."""
    host = Audited(tmp_path)
    host.record(1)
    host.tree.catch_up()
    (newer,) = host.record(1)
    with pytest.raises(Refusal) as caught:
        await host.ask(target="inclusion", audit_id=newer)
    assert (caught.value.status, caught.value.reason) == (409, "checkpoint-pending")
    assert ("Retry-After", "1") in caught.value.headers


@pytest_twisted.ensureDeferred
async def test_a_record_is_proven_by_what_a_witness_cosigned_too(tmp_path: Path) -> None:
    """One answer has both proofs; a record that came after the cosigned tree has none in it."""
    host, witness = Audited(tmp_path), key_of("witness of proofs")
    made = host.record(5)
    seen = host.tree.catch_up()
    assert seen is not None
    host.tree.cosign(seen.size, cosignature.cosign(seen.note, "witness.test", witness, 1_795_000_000))
    host.tree.keep_cosignatures()
    made += host.record(3)
    host.tree.catch_up()
    for audit_id in made[:5]:
        answer = await host.ask(target="inclusion", audit_id=audit_id)
        beside = answer["cosigned"]
        (line,) = cosignature.find_cosignatures(beside["checkpoint"], [witness.public])
        signed = checkpoint.verify(beside["checkpoint"], [KEY.public])
        assert (line.witness, signed.size, answer["size"]) == ("witness.test", 5, 8)
        verify_inclusion(answer["index"], signed.size, leaf_hash(bytes.fromhex(audit_id)), digests(beside), signed.root)
    later = (await host.ask(target="inclusion", audit_id=made[6]))["cosigned"]
    assert later["size"] == 5 and "proof" not in later


@pytest.mark.parametrize("size", [0, 3, -1, True, "1", None, 2**70])
@pytest_twisted.ensureDeferred
async def test_impossible_sizes_are_named(size: object, tmp_path: Path) -> None:
    """422 for what no checkpoint ever had."""
    host = Audited(tmp_path)
    host.record(2)
    host.tree.catch_up()
    with pytest.raises(Refusal) as caught:
        await host.ask(target="consistency", size=size)
    assert caught.value.status == 422 and caught.value.details["parameter"] == "size"
