"""What a ledger reads of its store before it serves, and what it says of damage."""

from __future__ import annotations

from collections.abc import Sequence

from twisted.logger import Logger

from agtphost.audit.tree import TreeKeeper
from agtphost.audit.writer import GroupWriter
from agtphost.stores.interfaces import IStoreUpkeep
from agtphost.stores.rows import ItemRow, StateRow, StoreError

log = Logger()


def read(
    store: IStoreUpkeep, writer: GroupWriter, tree: TreeKeeper | None
) -> tuple[dict[str, StateRow], Sequence[ItemRow]]:
    """
    Heads and tree into the writer's memory, compared with the witnesses.

    Old evidence that is damaged is told, and keeps nobody from serving; what the next record rests on does.

    :return: lifecycle states and state items.
    :raises StoreError: a head is damaged, the store cannot be read, or a witness contradicts it.
    """
    try:
        for damage in store.damage():
            log.error("the store is damaged: {damage}; `agtp audit verify` lists every record", damage=damage)
        states, held = writer.load(), writer.held()
        if tree is not None:
            tree.check_witnesses()
    except (StoreError, OSError):
        raise
    except Exception as error:
        raise StoreError(
            f"the store cannot be read: {error}; `agtp audit verify` lists the records concerned. Restore it from a "
            "backup"
        ) from error
    return states, held
