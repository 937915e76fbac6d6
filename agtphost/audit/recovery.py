"""What a ledger reads of its store before it serves, and what it says of damage."""

from __future__ import annotations

import time
from collections.abc import Sequence

from twisted.logger import Logger

from agtphost.audit.start_check import check_start
from agtphost.audit.table_check import Expected
from agtphost.audit.tree import TreeKeeper
from agtphost.audit.writer import GroupWriter
from agtphost.identity.keys import VerifyingKey
from agtphost.stores.interfaces import IStoreUpkeep
from agtphost.stores.rows import DamagedRow, ItemRow, StateRow, StoreError
from agtphost.stores.table_interfaces import ITableSource
from agtphost.vocabulary.foreign_errors import explain

log = Logger()

_UNREADABLE = "the store cannot be read: {}; `agtp audit verify` lists the records concerned. Restore it from a backup"


def _compare(store: IStoreUpkeep, keys: Sequence[VerifyingKey]) -> None:
    """
    Compare tables with what was signed, as far as that is cheap.

    :raises StoreError: what the next record or checkpoint rests on was changed.
    """
    expected = Expected(keys={key.kid: key for key in keys} or None, now=int(time.time() * 1000))
    with ITableSource(store).tables() as rows:
        report = check_start(rows, expected)
    for finding in report.told:
        log.error("the store was changed or is damaged: {finding}; `agtp audit verify` lists all", finding=str(finding))
    if report.fatal:
        more = f", and {len(report.fatal) - 1} more" if len(report.fatal) > 1 else ""
        raise StoreError(
            f"the store was changed or is damaged: {report.fatal[0]}{more}; `agtp audit verify` lists all. Restore it "
            "from a backup"
        )


def read(
    store: IStoreUpkeep, writer: GroupWriter, tree: TreeKeeper | None
) -> tuple[dict[str, StateRow], Sequence[ItemRow]]:
    """
    Load heads and tree into the writer's memory, and compare them with the witnesses.

    Damage of old evidence is reported, and the host serves; damage of what the next record depends on keeps it from
    serving.

    :return: lifecycle states and state items.
    :raises StoreError: a head is damaged, the store cannot be read, its state is not what was signed, or a witness
        contradicts it.
    """
    try:
        for damage in store.damage():
            log.error("the store is damaged: {damage}; `agtp audit verify` lists every record", damage=damage)
        if ITableSource.providedBy(store):
            _compare(store, () if tree is None else tree.keys)
        states, held = writer.load()
        if tree is not None:
            tree.check_witnesses()
    except DamagedRow as error:
        raise StoreError(_UNREADABLE.format(error)) from error
    except (StoreError, OSError):
        raise
    except Exception as error:
        raise StoreError(_UNREADABLE.format(explain(error))) from error
    return states, held
