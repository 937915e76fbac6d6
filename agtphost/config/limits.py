"""``[limits]``: what one peer, one agent and all together may cost this host."""

from __future__ import annotations

import ipaddress
from typing import Annotated

from pydantic import Field

from agtphost.config.values import Count, Items, Network, Seconds, Section
from agtphost.vocabulary.quotas import ANSWERS


class Limits(Section):
    """The section ``[limits]``: sizes in octets, times in seconds; the reasons are in security section 2.2."""

    request_line: Annotated[int, Field(ge=64, le=1_048_576)] = 8_192
    """Octets of a request line; a longer one is refused with 400."""

    header_line: Annotated[int, Field(ge=64, le=1_048_576)] = 8_192
    """Octets of one header line."""

    header_block: Annotated[int, Field(ge=64, le=16_777_216)] = 32_768
    """Octets of all header lines of one message."""

    header_count: Annotated[int, Field(ge=1, le=10_000)] = 100
    """Header fields of one message."""

    body: Annotated[int, Field(ge=0, le=1_073_741_824)] = 1_048_576
    """Octets of a request's body; a larger one is refused with 400, before any of it is read."""

    handshake_timeout: Seconds = 10.0
    """From the TCP connection to the end of the TLS handshake: two round trips, even by satellite."""

    header_timeout: Seconds = 10.0
    """From a message's first octet to its blank line, in all: a header block fits one segment or a few."""

    body_gap_timeout: Seconds = 10.0
    """Between two portions of a body; long enough for a lost segment to be sent several times."""

    body_min_rate: Annotated[int, Field(ge=0, le=1_073_741_824)] = 1_024
    """
    Octets per second that a body must arrive at on average, once ``body_gap_timeout`` has passed; 0 switches the check
    off. No real link is slower; a slower peer means to hold the connection.
    """

    idle_timeout: Seconds = 75.0
    """Between two requests: core v08 section 5.4 recommends at least 60; who counts to 60 closes first."""

    write_timeout: Seconds = 30.0
    """How long a peer may take nothing of what waits for it, which is most outages; then its connection is cut."""

    request_timeout: Seconds = 60.0
    """Until a call is answered 408, where its endpoint says nothing else."""

    connections: Count = 10_000
    """TCP connections in all: at 48 KiB each, 480 MiB; half of what a process may usually have of descriptors."""

    connections_per_address: Count = 64
    """
    From one address: one machine's fleet of agents, but no flood. IPv6 addresses count by their /64, those of NAT64
    (``64:ff9b::/96``) by their IPv4 address.
    """

    handshakes_per_second_per_address: Count = 10
    """TLS handshakes without a client certificate, half a millisecond each; so many may also come together."""

    exempt_addresses: Items[Network] = (
        ipaddress.IPv4Network("127.0.0.0/8"),
        ipaddress.IPv6Network("::1/128"),
    )
    """Addresses that the limits per address do not apply to: this machine, where a gateway speaks for many."""

    requests_per_minute: Annotated[int, Field(ge=1, le=1_000_000_000)] = 600_000
    """
    Of one agent, for reading, acting and ESCALATE each (core v08 section 10.11); beyond it 429. Each call that a
    request makes inside the host counts as one, and so does each 6,000 octets that it stores.
    """

    requests_per_minute_per_principal: Annotated[int, Field(ge=1, le=1_000_000_000)] = 6_000_000
    """Of all agents of one owner together."""

    anonymous_requests_per_minute: Annotated[int, Field(ge=1, le=1_000_000_000)] = 6_000
    """From one address, without a name."""

    keyed_requests_per_agent: Annotated[int, Field(ge=1, le=1_000_000_000)] = ANSWERS.keys
    """Requests with an Idempotency-Key that are remembered of one agent, for a day; beyond it 429."""

    keyed_octets_per_agent: Annotated[int, Field(ge=65_536, le=1 << 40)] = ANSWERS.octets
    """Octets of their stored answers."""

    keyed_requests_in_all: Annotated[int, Field(ge=1, le=1_000_000_000)] = ANSWERS.keys_in_all
    """Of all agents together; in shares that shrink with what is free; beyond them 429."""

    keyed_octets_in_all: Annotated[int, Field(ge=65_536, le=1 << 40)] = ANSWERS.octets_in_all
    """Octets of their stored answers."""

    rate_burst: Seconds = 60.0
    """How many seconds' worth of requests may come together."""

    requests_per_connection: Count = 10_000
    """Then the answer is the last, which its ``Connection: close`` says: that balances load, and bounds what grows."""

    connection_age: Seconds = 3_600.0
    """Then the next answer is the last: a certificate that was revoked is not used for longer."""

    output_high_water: Annotated[int, Field(ge=1_024, le=1_073_741_824)] = 65_536
    """Octets of answers that are gathered before they are written, and written together: the transport's own mark."""

    drain_timeout: Seconds = 30.0
    """From SIGTERM to cutting the connections that still wait for an answer."""

    drain_delay: Annotated[float, Field(ge=0, le=3_600)] = 0.0
    """
    From SIGTERM on the host is not ready, and for so long it accepts as before: until balancers send nothing any more.
    """
