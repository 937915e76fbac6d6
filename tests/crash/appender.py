"""A process that appends to one chain, for :mod:`tests.crash.test_forks`: DATABASE COUNT KIND."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

from agtphost.audit.chain import RecordSigner
from agtphost.audit.drafts import Sealed
from agtphost.audit.writer import GroupWriter, Submission
from agtphost.stores import open_store
from agtphost.stores.connection import connect
from agtphost.stores.sqlite import SQLiteStore
from tests.audit.drafting import draft


class NaiveStore(SQLiteStore):
    """The control: heads are read first, the transaction comes later, and nothing says that others wrote."""

    def __init__(self, path: Path) -> None:
        connection = connect(f"file:{path}?mode=rw")
        connection.execute("PRAGMA busy_timeout=5000")
        super().__init__(path, connect, connection)

    def begin(self) -> bool:
        return True

    def append(self, records: Any) -> None:
        time.sleep(0.001)
        self._execute("BEGIN IMMEDIATE")
        number = self.last_number()
        super().append([row._replace(number=number + place) for place, row in enumerate(records, 1)])

    def commit(self) -> None:
        if self._connection.in_transaction:
            super().commit()


def main(path: str, count: str, kind: str) -> None:
    store = NaiveStore(Path(path)) if kind == "naive" else open_store(f"sqlite:{path}", create=False)
    if kind == "real":
        # A busy machine may keep one of four from its turn for longer than a host waits.
        assert isinstance(store, SQLiteStore)
        store._connection.execute("PRAGMA busy_timeout=60000")
    writer = GroupWriter(store, RecordSigner(None), server_id="s")
    writer.load()
    print("ready", flush=True)
    sys.stdin.readline()
    refused = 0
    for _ in range(int(count)):
        submission = Submission(draft())
        try:
            writer.write([submission])
        except Exception:
            refused += 1
            continue
        assert isinstance(submission.outcome, Sealed)
    print(refused, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
