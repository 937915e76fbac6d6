"""How long, how much and how many: what one peer can cost this host (security section 2.2)."""

from __future__ import annotations

import ipaddress

from agtphost.config.limits import Limits as ConnectionLimits

__all__ = ["ConnectionLimits"]

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

READ_AHEAD = 16_384
"""Octets taken in while an answer is owed; then reading stops, so TCP holds the rest at the sender's."""

ABORT_AFTER = 3.0
"""Seconds between closing a connection and cutting it: a peer that answers the close has by then."""

SLOWEST_READER = 32_768
"""Octets per second that a peer is expected to take a last answer at: adds to the time above."""

FAREWELL = 0.25
"""Seconds that a peer has at least, although its last answer was given to the system long before the close."""

UNREAD_INTERIM = 1_048_576
"""Octets of interim messages that may wait for a peer that does not read; it may miss none, so it is cut."""

UNREAD = 1_048_576
"""Octets of an answer that may wait for a peer that takes nothing, without haste; an answer on its way is larger."""

STALL = 5.0
"""Seconds that a peer may take nothing of a larger answer: then memory is worth more than patience."""

WAITING = 2_097_152
"""Octets that may wait for a peer that takes nothing for longer than :data:`HASTE`."""

HASTE = 1.0
"""Seconds that a peer may take nothing while more than :data:`WAITING` waits: a slow one takes something in each."""

LAGGING_IN_ALL = 41_943_040
"""
Octets of large answers that may wait for the peers of one listener together, at any moment: 2 MiB each for twenty.

Beyond that, the connection is dropped that has taken nothing for the longest; a peer that reads keeps its answer.
"""

UNREAD_IN_ALL = 134_217_728
"""Octets that may wait for the peers of one listener together, smaller answers too; those with the most are cut."""


def closing_seconds(octets: int, limits: ConnectionLimits, idle: float = 0.0) -> float:
    """
    Return the seconds between closing a connection and cutting it: cutting would lose an answer on its way.

    :param octets: the size of the last answer.
    :param idle: seconds since the last answer was given to the system, if nothing has come in between.
    """
    return max(min(ABORT_AFTER + octets / SLOWEST_READER, limits.write_timeout) - idle, FAREWELL)
