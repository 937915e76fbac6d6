"""Failures of an MCP call as AGTP responses: the table of adapters.md section 1.1."""

from __future__ import annotations

from collections.abc import Mapping

from agtphost.adapters.mcp.failures import NegotiationFailed, RulesUnmatched
from agtphost.errors import Refusal
from agtphost.upstream.failures import (
    Busy,
    Cancelled,
    Down,
    ErrorAnswer,
    Lost,
    NotReading,
    Refused,
    Timeout,
    TooLong,
    Unreadable,
    UpstreamFailure,
)
from agtphost.vocabulary.status import Status

INVALID_PARAMS = -32602
MISSING_CAPABILITY = (-32021, -32003)
"""What a server says that would have to ask something which its caller cannot answer; the second is the extensions'."""

METHOD_NOT_FOUND = -32601


def refusal(server: str, failure: UpstreamFailure) -> Refusal:
    """
    The response to a call that has no result.

    :param server: the server's configured name.
    """
    named: dict[str, object] = {"mcp_server": server}
    if isinstance(failure, ErrorAnswer):
        return _rpc(failure, named)
    if isinstance(failure, Down):
        return Refusal(
            Status.UNAVAILABLE,
            "mcp-server-down",
            f"The MCP server {server} is not up.",
            remedy=f"Try again in {failure.retry_after} s.",
            details={**named, "server_state": failure.state},
            headers=(("Retry-After", str(failure.retry_after)),),
        )
    if isinstance(failure, RulesUnmatched):
        return rules_unmatched(named)
    if isinstance(failure, Lost):
        return _lost(server, failure, named)
    if isinstance(failure, TooLong):
        return Refusal(
            Status.SERVER_ERROR,
            "mcp-answer-too-long",
            f"The tool's answer has more than {failure.limit} octets and is not passed on; the call had its effect.",
            remedy="Ask for less, or for it in parts.",
            details={**named, "most_octets": failure.limit},
        )
    for kind, status, reason, explanation, remedy in _PLAIN:
        if isinstance(failure, kind):
            again = (("Retry-After", "1"),) if status in (Status.RATE_LIMITED, Status.UNAVAILABLE) else ()
            return Refusal(status, reason, explanation, remedy=remedy, details=named, headers=again)
    return Refusal(
        Status.UNPROCESSABLE, "mcp-call-refused", "The call cannot be sent to the MCP server.", details=named
    )


def rules_unmatched(details: Mapping[str, object]) -> Refusal:
    """The 503 for whatever is of a server that has a rule which fits nothing there."""
    return Refusal(
        Status.UNAVAILABLE,
        "tool-rules-unmatched",
        "A rule of this host's operator names a tool, prompt or resource that the server does not have: all it has "
        "is off.",
        remedy="The operator has to mend the rule; `agtp upstreams ls` names it.",
        details=details,
    )


_PLAIN: tuple[tuple[type[UpstreamFailure], Status, str, str, str], ...] = (
    (
        Timeout,
        Status.TIMEOUT,
        "tool-timeout",
        "The tool did not answer in time; whether it had an effect is unknown.",
        "Ask for less, or have the operator raise the server's timeout.",
    ),
    (
        Cancelled,
        Status.CONFLICT,
        "tool-cancelled",
        "The call was cancelled before the tool answered.",
        "",
    ),
    (
        Busy,
        Status.RATE_LIMITED,
        "mcp-server-busy",
        "The MCP server has as many calls waiting as it may have.",
        "Try again later, or have the operator raise max_concurrency or max_queue.",
    ),
    (
        Unreadable,
        Status.SERVER_ERROR,
        "mcp-answer-refused",
        "The tool answered with something that is no valid MCP result.",
        "The operator's log has the details.",
    ),
    (
        Refused,
        Status.UNAVAILABLE,
        "mcp-upstream-refused",
        "The MCP server's HTTP endpoint refused the call.",
        "The operator's log has the details.",
    ),
    (
        NegotiationFailed,
        Status.UNAVAILABLE,
        "mcp-server-down",
        "The MCP server speaks no protocol version that this host speaks.",
        "",
    ),
)


def _rpc(failure: ErrorAnswer, named: dict[str, object]) -> Refusal:
    if failure.code in MISSING_CAPABILITY:
        return Refusal(
            Status.UNPROCESSABLE,
            "capability-missing",
            "The MCP server has to ask something that the caller cannot answer.",
            remedy="Name what can be answered in _meta; result.error says what is missing.",
            details={**named, "result": {"error": failure.error}},
        )
    callers = failure.code in (INVALID_PARAMS, METHOD_NOT_FOUND)
    return Refusal(
        Status.UNPROCESSABLE if callers else Status.SERVER_ERROR,
        "tool-arguments-refused" if callers else "tool-failed",
        "The MCP server refused the call." if callers else "The MCP server answered with an error.",
        remedy="result.error is what the server said.",
        details={**named, "result": {"error": failure.error}},
    )


def _lost(server: str, failure: Lost, named: dict[str, object]) -> Refusal:
    ended = {"exit_code": failure.exit_code, "signal": failure.signal}
    how = "stopped reading and was ended" if isinstance(failure, NotReading) else "went away"
    return Refusal(
        Status.UNAVAILABLE,
        "mcp-server-lost",
        f"The MCP server {server} {how} during the call; whether the tool had an effect is unknown.",
        remedy="Find out what the tool did before calling it again.",
        details={**named, **{name: value for name, value in ended.items() if value is not None}},
        headers=(("Retry-After", "1"),),
    )
