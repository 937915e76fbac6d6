"""Why a call to an MCP server has no result, besides what may happen with every upstream."""

from __future__ import annotations

from agtphost.upstream.failures import NotApproved, UpstreamFailure


class NegotiationFailed(NotApproved):
    """The server and this host share no protocol version, or it answered the negotiation with nonsense."""


class RulesUnmatched(UpstreamFailure):
    """The operator's rules fit nothing that the server lists, and so everything of it is off; nothing was sent."""

    def __init__(self) -> None:
        super().__init__("a rule for it fits nothing that it lists, and so all of it is off")
