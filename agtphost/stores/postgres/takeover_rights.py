"""Whether a host could end the session of another one that froze while it had the store locked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

_RIGHTS: Final = """
    SELECT current_setting('track_activities') = 'on',
        has_function_privilege('pg_terminate_backend(integer, bigint)', 'EXECUTE'),
        current_user::text,
        (SELECT rolname::text FROM store CROSS JOIN (SELECT ?::text AS altered, ?::text AS anything) AS pattern,
                pg_stat_activity JOIN pg_roles ON pg_roles.oid = usesysid
            WHERE datname = current_database() AND starts_with(application_name, 'agtphost/')
                AND (position(to_json(substr(application_name, 10))::text IN holder) > 0 OR holder LIKE concat(
                    anything, '"', regexp_replace(substr(application_name, 10), altered, anything, 'g'),
                    CASE WHEN octet_length(application_name) < 63 THEN '"' END, anything) ESCAPE '')
                AND has_table_privilege(usesysid, to_regclass('store')::oid, 'UPDATE')
                AND NOT pg_has_role(usesysid, 'USAGE')
                AND (rolsuper OR NOT pg_has_role('pg_signal_backend', 'USAGE')
                    OR NOT pg_has_role('pg_read_all_stats', 'USAGE'))
            LIMIT 1)
"""
"""
The last column is the role of the host that serves, if it is one whose sessions this role cannot see and end.

Applications show their names to every role, and :class:`agtphost.stores.postgres.connection.Address` has that of a
host, without what follows 63 octets. The right to write to the store tells it from a host of the same name with another
store of the database.
"""

_ALTERED: Final = (r"([?]|\\x[0-9a-f]{2})+", "%")
"""What PostgreSQL makes of octets that are not of ASCII in the name of an application, and the pattern of any text."""

_COST: Final = "a host that freezes while it has the store locked could not be taken over from here"


def find_right_faults(execute: Callable[..., Any]) -> Sequence[str]:
    """
    Return what keeps a host from a takeover where the other one froze within a message; see :mod:`.transactions`.

    :param execute: runs a statement of a session, in a database with a store.
    """
    tracks, may_end, own, other = execute(_RIGHTS, _ALTERED).fetchone()
    faults = []
    if not tracks:
        faults.append(f"has track_activities off for the role {own}, and {_COST}: set it to on")
    if not may_end:
        faults.append(
            f"does not let the role {own} call pg_terminate_backend, and {_COST}: GRANT EXECUTE ON FUNCTION "
            f'pg_terminate_backend(integer, bigint) TO "{own}"'
        )
    if other is not None:
        faults.append(
            f"is used by this host with the role {own} and by the one that serves with {other}, and {_COST}: name one "
            "role in the [store] url of all hosts"
        )
    return faults
