"""The reasons why a call to an upstream has no result, for every protocol."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class UpstreamFailure(Exception):
    """The failure of a call that has no result; the message is one sentence for the operator."""


class UpstreamTimeout(UpstreamFailure):
    """The failure of a call whose deadline passed."""


class CallCancelled(UpstreamFailure):
    """The failure of a call that its caller cancelled."""


class UnsendableCall(UpstreamFailure):
    """The failure of a call that cannot be put into the upstream's protocol, and was never sent."""


class UpstreamBusy(UpstreamFailure):
    """The failure of a call that was never sent because too many calls wait."""


class UpstreamDown(UpstreamFailure):
    """
    The failure of a call that was never sent because the upstream is not up.

    :param state: the name of its state.
    :param retry_after: seconds until the next attempt, at least 1.
    :param reason: why it is down, as one sentence.
    """

    def __init__(self, state: str, retry_after: int, reason: str) -> None:
        super().__init__(f"it is {state}: {reason}" if reason else f"it is {state}")
        self.state = state
        self.retry_after = retry_after


class UpstreamLost(UpstreamFailure):
    """
    The failure of a call whose connection failed, or whose process ended.

    :param reason: one sentence.
    :param sent: whether the request may have reached the upstream, so that its effect is unknown.
    :param exit_code: the process's exit code; None where it has none.
    :param signal: the signal that ended it; None where none did.
    """

    def __init__(
        self, reason: str, *, sent: bool = True, exit_code: int | None = None, signal: int | None = None
    ) -> None:
        super().__init__(reason)
        self.sent = sent
        self.exit_code = exit_code
        self.signal = signal

    def copy(self) -> UpstreamLost:
        """
        Return the failure for one more call, since one exception raised by several calls would collect all their
        tracebacks.
        """
        return type(self)(str(self), sent=self.sent, exit_code=self.exit_code, signal=self.signal)


class NotReading(UpstreamLost):
    """The failure of a call whose upstream stopped reading its input, and was ended for that."""


class UnreadableAnswer(UpstreamFailure):
    """The failure of a call whose answer violates the upstream's protocol."""


class AnswerTooLong(UnreadableAnswer):
    """
    The failure of a call whose answer is longer than this host accepts.

    :param limit: the accepted octets.
    """

    def __init__(self, limit: int) -> None:
        super().__init__(f"the answer is longer than {limit} octets")
        self.limit = limit


class UpstreamRefused(UpstreamFailure):
    """
    The failure of a call that was answered with an HTTP status outside 2xx, or refused otherwise below its protocol.

    :param status: the HTTP status; 0 where there is none.
    :param explanation: one sentence; empty: that of the status.
    :param body: the answer's octets, bounded.
    """

    def __init__(self, status: int, explanation: str = "", body: bytes = b"") -> None:
        super().__init__(explanation or f"it answered with HTTP {status}")
        self.status = status
        self.body = body


class NotApproved(UpstreamFailure):
    """The failure of an upstream whose definition is not acceptable, such as a card that is not the approved one."""


class RulesUnmatched(UpstreamFailure):
    """
    The failure of an MCP server that is off because a rule of the operator matches nothing it lists; nothing was sent.
    """

    def __init__(self) -> None:
        super().__init__("a rule for it matches nothing that it lists, and so all of it is off")


class ErrorAnswer(UpstreamFailure):
    """
    The failure of a call that was answered with an error of the upstream's protocol.

    :param error: the error as received, complete.
    """

    def __init__(self, error: Mapping[str, Any]) -> None:
        self.error = error
        self.code: object = error.get("code")
        super().__init__(f"it answered with error {self.code}: {str(error.get('message'))[:200]}")
