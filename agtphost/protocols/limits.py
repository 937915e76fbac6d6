"""How long, how much and how many: what one peer can cost this host (security section 2.2)."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimits:
    """
    What connections may take; times in seconds, sizes in octets.

    A deadline is noticed by the next sweep, so up to
    :data:`agtphost.protocols.listening.SWEEP_INTERVAL` late, never early.
    """

    handshake_timeout: float = 10.0
    """From the TCP connection to the end of the TLS handshake: two round trips, even by satellite."""

    header_timeout: float = 10.0
    """From a message's first octet to its blank line, in all: a header block fits one segment or a few."""

    body_gap_timeout: float = 10.0
    """Between two portions of a body; long enough for a lost segment to be sent several times."""

    body_min_rate: int = 1024
    """
    Octets per second that a body must arrive at on average, once ``body_gap_timeout`` has passed.

    No link in use is slower; whoever is, means to hold the connection. 0 switches the check off.
    """

    idle_timeout: float = 75.0
    """Between two requests: core v08 section 5.4 recommends at least 60; who counts to 60 closes first."""

    write_timeout: float = 30.0
    """Without the peer taking anything of what waits for it: TCP gets over most outages in that time."""

    request_timeout: float = 60.0
    """For a handler that says nothing else; the dispatcher enforces it, and answers 408."""

    connections: int = 10_000
    """In all: at 48 KiB each, 480 MiB; half of what a process may usually have of descriptors."""

    connections_per_address: int = 64
    """One machine's fleet of agents with a pool each, but no flood. IPv6 addresses count by their /64."""

    handshakes_per_second_per_address: int = 10
    """Handshakes without a client certificate: each costs half a millisecond. As many may come at once."""

    exempt_addresses: tuple[Network, ...] = (
        ipaddress.IPv4Network("127.0.0.0/8"),
        ipaddress.IPv6Network("::1/128"),
    )
    """Whom the limits per address do not apply to: this machine, where a gateway speaks for many."""

    requests_per_connection: int = 10_000
    """Then the answer is the last: balances load over hosts, and bounds whatever grows with a connection."""

    connection_age: float = 3_600.0
    """Then the next answer is the last: a revoked certificate outlives its handshake by an hour at most."""

    output_high_water: int = 65_536
    """Answers gathered before they are written, and how much is written at once: the transport's own mark."""

    drain_timeout: float = 30.0
    """From SIGTERM to cutting the connections that still wait for an answer."""


READ_AHEAD = 16_384
"""Octets taken in while an answer is owed; then reading stops, so TCP holds the rest at the sender's."""

ABORT_AFTER = 3.0
"""Seconds between closing a connection and cutting it: a peer that answers the close has by then."""

SLOWEST_READER = 32_768
"""Octets per second that a peer is expected to take a last answer at: adds to the time above."""

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

Who comes beyond has one dropped that has taken nothing for the longest: whoever reads keeps its answer.
"""

UNREAD_IN_ALL = 134_217_728
"""Octets that may wait for the peers of one listener together, smaller answers too; those with the most are cut."""
