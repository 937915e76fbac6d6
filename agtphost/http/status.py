"""
Map AGTP statuses to HTTP, for every surface that answers with AGTP responses.

A status gets another number if HTTP gives it another meaning: 262 refuses, and every HTTP client takes a 2xx for
success; 408 reports that the call took too long, and browsers and proxies repeat such a request. All other statuses
keep their number. ``AGTP-Status`` always has the original.
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
    """Return the HTTP status of a response that carries an AGTP answer."""
    return OVER_HTTP.get(status, status)
