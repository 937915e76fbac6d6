"""
The wire cases: octets, and what they mean.

Plain data that imports nothing of the host, so that the same table can drive the
parser in this process, a host across a network, and the fuzz corpora. Every refusal
is one response 400 followed by the end of the connection (core v08 section 5.4.1,
design decision 2).

Ids follow the test programme: T-RL request line, T-RS response line, T-WF framing,
T-HI header fields, T-LM limits.
"""

from __future__ import annotations

from tests.wire import cases_fields, cases_framing, cases_limits, cases_request_line, cases_response
from tests.wire.case import Case, Message

__all__ = ["CASES", "Case", "Message"]

CASES: list[Case] = [
    *cases_request_line.TABLE,
    *cases_framing.TABLE,
    *cases_fields.TABLE,
    *cases_limits.TABLE,
    *cases_response.TABLE,
]
