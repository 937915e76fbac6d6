"""INSPECT of the tree over all records: checkpoints and proofs (RFC 9162, C2SP tlog-checkpoint)."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from agtphost.audit import checkpoint
from agtphost.audit.checkpoint import Checkpoint
from agtphost.audit.merkle import ProofError, Tiles, Tree, proof_to_texts
from agtphost.errors import Refusal, not_found
from agtphost.handlers import parameters
from agtphost.handlers.built_in import BuiltInContext
from agtphost.iagtp import IRecordStore
from agtphost.vocabulary.identifiers import is_audit_id
from agtphost.vocabulary.reasons import Reason


class Proofs:
    """
    Proves by the newest checkpoint.

    :param records: the store's reading side.
    :param cosigned: the newest checkpoint that a witness cosigned; empty where there is none.
    """

    def __init__(self, records: IRecordStore, cosigned: Callable[[], str] = str) -> None:
        self._records = records
        self._cosigned = cosigned

    async def checkpoint(self, context: BuiltInContext) -> Mapping[str, Any]:
        """Return the newest checkpoint, and the newest with witnesses' lines, which follow a little later."""
        cosigned = self._cosigned()
        return {**_checkpoint_to_json(await self._newest()), **({"cosigned": cosigned} if cosigned else {})}

    async def inclusion(self, context: BuiltInContext) -> Mapping[str, Any]:
        """
        Prove that the record of ``audit_id`` is among those of the newest checkpoint.

        The member ``cosigned`` has the same of the newest checkpoint that has witnesses' lines; without a proof where
        the record came after that.
        """
        audit_id = parameters.matching(context.input, "audit_id", is_audit_id, "64 lower-case hexadecimal digits")
        number = await self._records.number_of(audit_id)
        if number is None:
            raise not_found(Reason.RECORD_NOT_FOUND, "No record has that Audit-ID.")
        newest = await self._newest()
        if number > newest.size:
            raise Refusal(Reason.CHECKPOINT_PENDING, headers=(("Retry-After", "1"),), details={"size": newest.size})

        note = self._cosigned()
        seen = checkpoint.read(note) if note else None
        beside = {} if seen is None else {"cosigned": {**await self._place(number, seen), **_checkpoint_to_json(seen)}}
        return {
            "audit_id": audit_id,
            "index": number - 1,
            **await self._place(number, newest),
            **_checkpoint_to_json(newest),
            **beside,
        }

    async def _place(self, number: int, found: Checkpoint) -> dict[str, Any]:
        """Return the proof that a checkpoint's tree has a record; empty if the record is newer."""
        if number > found.size:
            return {}

        def prove(tiles: Tiles) -> Sequence[bytes]:
            return Tree(tiles, found.size).inclusion(number - 1)

        return {"proof": await self._proof(prove)}

    async def consistency(self, context: BuiltInContext) -> Mapping[str, Any]:
        """Prove that the newest checkpoint continues the tree of the first ``size`` records."""
        first = context.input.get("size")
        newest = await self._newest()
        if isinstance(first, bool) or not isinstance(first, int) or not 0 < first <= newest.size:
            raise parameters.invalid(
                "size",
                f"size is not a number from 1 to {newest.size}, the size of the newest checkpoint.",
                "Send the size of an earlier checkpoint.",
                missing=first is None,
            )

        def prove(tiles: Tiles) -> Sequence[bytes]:
            return Tree(tiles, newest.size).consistency(first)

        return {"first": first, "proof": await self._proof(prove), **_checkpoint_to_json(newest)}

    async def _newest(self) -> Checkpoint:
        row = await self._records.checkpoint()
        if row is None:
            raise Refusal(Reason.CHECKPOINT_MISSING, headers=(("Retry-After", "1"),))
        return checkpoint.read(row.note)

    async def _proof(self, prove: Any) -> list[str]:
        try:
            return proof_to_texts(await self._records.read_proof(prove))
        except ProofError as error:
            raise Refusal(Reason.TREE_DAMAGED, f"The host cannot read the tree over the records: {error}.") from None


def _checkpoint_to_json(found: Checkpoint) -> dict[str, Any]:
    return {"size": found.size, "root": base64.b64encode(found.root).decode(), "checkpoint": found.note}
