"""Why a call to an MCP server has no result."""

from __future__ import annotations

from typing import Any


class McpFailure(Exception):
    """A call that has no result; the message is one sentence for a person."""


class RpcError(McpFailure):
    """
    The server answered with a JSON-RPC error.

    :param error: the ``error`` member as received, nothing dropped.
    """

    def __init__(self, error: dict[str, Any]) -> None:
        self.error = error
        self.code: object = error.get("code")
        super().__init__(f"the server answered with error {self.code}: {str(error.get('message'))[:200]}")


class UnreadableAnswer(McpFailure):
    """The server answered this very call, but not with JSON that this host reads."""


class AnswerTooLong(UnreadableAnswer):
    """
    The server answered this very call with more than this host takes.

    :param limit: the octets that it takes.
    """

    def __init__(self, limit: int) -> None:
        super().__init__(f"the server's answer is longer than {limit} octets")
        self.limit = limit


class CallTimeout(McpFailure):
    """The deadline of the call passed."""


class CallCancelled(McpFailure):
    """The caller gave the call up."""


class Overloaded(McpFailure):
    """A bounded queue is full; the call was never sent."""


class ServerDown(McpFailure):
    """
    The server is not up, so the call was never sent.

    :param state: its state's name.
    :param retry_after: seconds until the next attempt, at least 1.
    :param reason: why it is down, as one sentence.
    """

    def __init__(self, state: str, retry_after: int, reason: str) -> None:
        super().__init__(f"the server is {state}: {reason}" if reason else f"the server is {state}")
        self.state = state
        self.retry_after = retry_after
        self.reason = reason


class LinkLost(McpFailure):
    """
    The connection to the server ended; whether calls in flight had an effect is unknown.

    :param reason: one sentence.
    :param exit_code: the process's exit code; None where it has none.
    :param signal: the signal that ended it; None where none did.
    """

    def __init__(self, reason: str, *, exit_code: int | None = None, signal: int | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.exit_code = exit_code
        self.signal = signal

    def again(self) -> LinkLost:
        """
        The same for one more call: an exception that several calls raise would gather all their
        tracebacks.
        """
        return type(self)(self.reason, exit_code=self.exit_code, signal=self.signal)


class NotReading(LinkLost):
    """The server stopped reading what it is asked, and was ended for that."""


class RequestRefused(McpFailure):
    """
    An HTTP server refused one request below the JSON-RPC layer.

    :param status: the HTTP status.
    """

    def __init__(self, status: int, explanation: str) -> None:
        super().__init__(explanation)
        self.status = status


class NegotiationFailed(McpFailure):
    """The server and this host share no protocol version, or it answered the negotiation with nonsense."""


class RulesUnmatched(McpFailure):
    """The operator's rules fit nothing that the server lists, and so everything of it is off; nothing was sent."""

    def __init__(self) -> None:
        super().__init__("a rule for it fits nothing that it lists, and so all of it is off")
