"""
What an answer of AGTP is to HTTP: the one table for every surface that gives such answers.

Where a number says to HTTP what it does not say in AGTP, another one is sent: 262 refuses, and every client of HTTP
takes a 2xx for success; 408 says that the call took too long, and browsers and proxies send such a request again.
Everything else keeps its number. ``AGTP-Status`` has the original in any case.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from agtphost.vocabulary.status import Status

FIELD = "AGTP-Status"

OVER_HTTP: Mapping[int, int] = MappingProxyType(
    {
        Status.NEGOTIATION_IN_PROGRESS: 202,
        Status.AUTHORIZATION_REQUIRED: 403,
        Status.PROPOSAL_APPROVED: 201,
        Status.TIMEOUT: 504,
    }
)


def over_http(status: int) -> int:
    """The status of the HTTP response that carries an answer of AGTP."""
    return OVER_HTTP.get(status, status)
