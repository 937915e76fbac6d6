"""A large store in PostgreSQL: records in many chains, state items, their digests, tree and checkpoint."""

from __future__ import annotations

import time
from typing import Any

from agtphost.audit.chain import RecordSigner
from agtphost.audit.drafts import Change, Draft
from agtphost.audit.state_keeper import StateKeeper
from agtphost.audit.tree import TreeKeeper
from agtphost.audit.writer import Entry, GroupWriter, Submission
from agtphost.vocabulary.quotas import COLLECTION_ITEM
from tests import postgres
from tests.audit.drafting import KEY, draft
from tests.stores.test_postgres import place_of

GROUP = 500
"""Records of one transaction, and items that one of them changes."""

MANY = 100_000
"""Records for which a server is made faster while it fills the tables; it has to be the test's own."""


def agent(number: int) -> str:
    """Return the Agent-ID of a chain."""
    return f"{number:064x}"


FILL = """
INSERT INTO chain SELECT n, decode(lpad(to_hex(n), 64, '0'), 'hex') FROM generate_series(2, {chains}) AS n;
INSERT INTO record SELECT {before} + n, (n - 1) % ({chains} - 1) + 2, (n - 1) / ({chains} - 1) + 1, sha256(signed),
    CASE WHEN n >= {chains} THEN {before} + n - {chains} + 1 ELSE 0 END, 0, 0, {now}, 200, 'QUERY', '/orders', '',
    signed
FROM (SELECT n, convert_to(lpad(n::text, 1300, 'x'), 'UTF8') AS signed FROM generate_series(1, {records}) AS n) AS one;
INSERT INTO record_index SELECT {before} + n, '', '', '/orders', 1 FROM generate_series(1, {records}) AS n;
UPDATE store SET last = {before} + {records}, issued_at = {now}, news = news + 1
"""
"""Makes records of all chains but the first, of which nothing was signed: no start reads them."""


def make_store(server: postgres.Server, url: str, *, records: int, chains: int, items: int) -> None:
    """
    Make a store and fill it.

    The newest record of each chain was sealed by a host, and so were those that changed items. The earlier ones are
    filler of the same size in chains of the same shape; a start does not read them, and ``agtp audit verify`` would
    name them.

    :param records: how many; a multiple of :data:`GROUP`.
    :param items: state items of some 300 octets, spread over the agents.
    """
    place: Any = place_of(url)
    place.create("agtp.test")
    store = place.open_store(create=False, holder="fill", server_id="agtp.test")
    writer, tree = writer_of(store)
    writer.load()
    for first in range(0, items, GROUP):
        _write(writer, [_change(range(first, min(first + GROUP, items)), chains)])
    before = store.last_number()
    now = int(time.time() * 1000)
    filler = records - before - chains
    _restart(server, filler, fsync="off", full_page_writes="off")
    server.run(FILL.format(chains=chains, before=before, records=filler, now=now), "CHECKPOINT", url=url)
    _restart(server, filler)
    store.reopen()
    store.begin()
    tree.load()
    store.rollback()
    tree.catch_up()
    # Its begin() says then that all is to be read, and permits the time for that.
    store.reopen()
    writer, tree = writer_of(store)
    writer.load()
    for first in range(0, chains, GROUP):
        _write(writer, [draft(agent(1 + n)) for n in range(first, min(first + GROUP, chains))])
    tree.catch_up()
    store.close()


def _restart(server: postgres.Server, filler: int, **settings: str) -> None:
    """Restart a server with memory for many insertions, where there are many."""
    if filler > MANY:
        server.stop()
        server.start(shared_buffers="1GB", max_wal_size="8GB", checkpoint_timeout="1h", **settings)


def _write(writer: GroupWriter, drafts: list[Draft]) -> None:
    entries: list[Entry] = [Submission(each) for each in drafts]
    writer.write(entries)
    assert not [each.outcome for each in entries if isinstance(each.outcome, Exception)]


def _change(numbers: range, chains: int) -> Draft:
    """Return a record of the first chain that makes items."""
    until = int(time.time() * 1000) + 86_400_000
    made = draft(agent(1))
    made.changes = tuple(
        Change(
            kind=COLLECTION_ITEM,
            key=f"{n:08}",
            value={"collection": "orders", "state": "open", "n": n, "text": "x" * 200},
            owner=agent(1 + n % chains),
            expires_at=until,
        )
        for n in numbers
    )
    return made


def writer_of(store: Any) -> tuple[GroupWriter, TreeKeeper]:
    """Return writer and tree of a store, not yet loaded."""
    tree = TreeKeeper(store, "agtp.test", KEY)
    states = StateKeeper(store, lambda: [KEY.public])
    return GroupWriter(store, RecordSigner(KEY), server_id="agtp.test", tree=tree, states=states), tree
