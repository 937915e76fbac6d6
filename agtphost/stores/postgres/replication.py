"""Whether a database has a synchronous replica, without which a failover can lose acknowledged records."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

_REPLICAS: Final = """
    SELECT current_setting('synchronous_standby_names'),
        (SELECT count(*) FROM pg_stat_replication WHERE sync_state IN ('sync', 'quorum')),
        pg_has_role('pg_read_all_stats', 'USAGE')
"""

_SET = "set synchronous_standby_names on its server"


def find_replica_fault(execute: Callable[..., Any]) -> str:
    """
    Return why an acknowledged record may be on the primary server alone; empty if each is on a replica, too.

    Only a role with the rights of ``pg_read_all_stats`` sees whether a replica is connected. For others the setting
    counts: while it names a replica that is away, the server lets each COMMIT wait.

    :param execute: runs a statement of a session.
    """
    names, connected, sees = execute(_REPLICAS).fetchone()
    if not names.strip():
        return f"has no synchronous replica, so a failover can lose acknowledged records: {_SET}"
    if sees and not connected:
        return f"waits for a synchronous replica, and none is connected: start it, or correct {_SET[4:]}"
    return ""
