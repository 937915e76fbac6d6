"""The AGTP status registry: core v08 section 5.6, with the readings of AGTP-API section 11."""

from __future__ import annotations

from enum import IntEnum
from functools import lru_cache


class Status(IntEnum):
    """
    A status code with its standard text and the section that defines it.

    The drafts reserve 462, 465 and 552 to 555 and withdrew 451 to 454; none of
    these is listed, so none can be sent.
    """

    phrase: str
    source: str

    def __new__(cls, code: int, phrase: str, source: str) -> Status:
        member = int.__new__(cls, code)
        member._value_ = code
        member.phrase = phrase
        member.source = source
        return member

    OK = 200, "OK", "core v08 section 5.6"
    ACCEPTED = 202, "Accepted", "core v08 section 5.6"
    NO_CONTENT = 204, "No Content", "core v08 section 5.6"
    NEGOTIATION_IN_PROGRESS = 261, "Negotiation In Progress", "core v08 section 5.6, 7.5"
    AUTHORIZATION_REQUIRED = 262, "Authorization Required", "core v08 section 5.6, 7.5"
    PROPOSAL_APPROVED = 263, "Proposal Approved", "core v08 section 5.6, AGTP-API section 10.4.3"
    MOVED_PERMANENTLY = 301, "Moved Permanently", "core v08 section 6.1"
    BAD_REQUEST = 400, "Bad Request", "core v08 section 5.6"
    UNAUTHORIZED = 401, "Unauthorized", "core v08 section 5.6"
    FORBIDDEN = 403, "Forbidden", "core v08 section 5.6"
    NOT_FOUND = 404, "Not Found", "core v08 section 5.6, API 11"
    METHOD_NOT_ALLOWED = 405, "Method Not Allowed", "core v08 section 5.6, API 11"
    TIMEOUT = 408, "Timeout", "core v08 section 5.6"
    CONFLICT = 409, "Conflict", "core v08 section 5.6"
    GONE = 410, "Gone", "core v08 section 5.6"
    UNPROCESSABLE = 422, "Unprocessable Entity", "core v08 section 5.6"
    RATE_LIMITED = 429, "Rate Limited", "core v08 section 5.6"
    SCOPE_VIOLATION = 455, "Scope Violation", "core v08 section 5.6, 7.2.8"
    BUDGET_EXCEEDED = 456, "Budget Exceeded", "core v08 section 5.6"
    ZONE_VIOLATION = 457, "Zone Violation", "core v08 section 5.6"
    COUNTERPARTY_UNVERIFIED = 458, "Counterparty Unverified", "core v08 section 5.6, 9"
    METHOD_VIOLATION = 459, "Method Violation", "core v08 section 5.6, AGTP-API section 3.2"
    ENDPOINT_VIOLATION = 460, "Endpoint Violation", "core v08 section 5.6, AGTP-API section 5.1"
    CONTRACT_AVAILABLE = 461, "RCNS Contract Available", "core v08 section 5.6, AGTP-API section 10.1.3"
    PROPOSAL_REJECTED = 463, "Proposal Rejected", "core v08 section 5.6, AGTP-API section 10.3"
    NO_CONTRACT = 464, "RCNS No Contract", "core v08 section 5.6, AGTP-API section 10.1.2"
    SERVER_ERROR = 500, "Server Error", "core v08 section 5.6"
    NOT_IMPLEMENTED = 501, "Not Implemented", "core v08 section 5.5 (reserved headers)"
    UNAVAILABLE = 503, "Unavailable", "core v08 section 5.6"
    DELEGATION_FAILURE = 550, "Delegation Failure", "core v08 section 5.6"
    AUTHORITY_CHAIN_BROKEN = 551, "Authority Chain Broken", "core v08 section 5.6"


@lru_cache(1_024)
def phrase_of(code: int) -> str:
    """Return the standard text of ``code``; the text has no meaning for programs (core v08 section 5.4.1)."""
    try:
        return Status(code).phrase  # type: ignore[call-arg]
    except ValueError:
        return "Unknown"
