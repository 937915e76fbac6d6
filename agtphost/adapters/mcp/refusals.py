"""Failures of an MCP call as AGTP responses: what MCP adds to :mod:`agtphost.upstream.refusals`."""

from __future__ import annotations

from collections.abc import Mapping

from agtphost.adapters.mcp.failures import RulesUnmatched
from agtphost.errors import Refusal
from agtphost.upstream import refusals
from agtphost.upstream.failures import ErrorAnswer, UpstreamFailure
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
    if isinstance(failure, RulesUnmatched):
        return rules_unmatched({"mcp_server": server})
    if not isinstance(failure, ErrorAnswer):
        return refusals.refusal("mcp", server, failure)
    if failure.code in MISSING_CAPABILITY:
        return Refusal(
            Status.UNPROCESSABLE,
            "capability-missing",
            "The MCP server has to ask something that the caller cannot answer.",
            remedy="Name what can be answered in _meta; result.error says what is missing.",
            details={"mcp_server": server, "result": {"error": failure.error}},
        )
    if failure.code in (INVALID_PARAMS, METHOD_NOT_FOUND):
        return refusals.answered("mcp", server, failure.error, (Status.UNPROCESSABLE, "tool-arguments-refused"))
    return refusals.answered("mcp", server, failure.error, (Status.SERVER_ERROR, "tool-failed"))


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
