"""Rows that decide, changed in the database by somebody who has no key."""

from __future__ import annotations

import json
import random
import sqlite3
from contextlib import closing

from tests.attacks.attack import Attack, Target
from tests.attacks.catalogue.ledger import DATABASE, _copy, _start
from tests.attacks.strikes import turns
from tests.system.hosting import agtp

SEED = 20_261_123


def altered_state(target: Target, seconds: float) -> None:
    """
    In copies of the deployment: an agent's state is deleted or another, and a grant is added that nobody gave.

    `agtp audit verify` names each row with its table, and the host does not start.
    """
    chance = random.Random(SEED)
    for _ in turns(seconds, most=20):
        with _copy(target) as config:
            (database,) = config.parent.rglob(DATABASE)
            with closing(sqlite3.connect(database)) as store, store:
                agents = store.execute("SELECT agent_id FROM lifecycle ORDER BY agent_id").fetchall()
                assert agents, "no agent has a state that could be changed"
                (agent_id,) = chance.choice(agents)
                alter = chance.choice(("DELETE FROM lifecycle", "UPDATE lifecycle SET status = 'retired'"))
                store.execute(f"{alter} WHERE agent_id = ?", (agent_id,))
                row = ("authorization", "grant-nobody-gave", agent_id, 1, None, b"{}")
                store.execute("INSERT INTO held VALUES (?, ?, ?, ?, ?, ?)", row)
            done = agtp("audit", "verify", "--json", "--config", str(config))
            named = {(fault.get("table"), fault.get("row")) for fault in json.loads(done.stdout)["faults"]}
            assert named >= {("lifecycle", agent_id.hex()), ("held", "authorization grant-nobody-gave")}, named
            status, said = _start(config)
            assert status == 1 and "is not what the newest records signed" in said, (status, said[-800:])


ATTACKS = (
    Attack(
        name="altered-state",
        who="fault",
        says="Rows of agents' states and of grants changed in the database: no start, and each is named.",
        run=altered_state,
    ),
)
