"""Why a call to an upstream has no result, whatever protocol it speaks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class UpstreamFailure(Exception):
    """A call that has no result; the message is one sentence for the operator."""


class Timeout(UpstreamFailure):
    """The deadline of the call passed."""


class Cancelled(UpstreamFailure):
    """The caller gave the call up."""


class Unsendable(UpstreamFailure):
    """It cannot be put into the upstream's protocol; this one was never sent."""


class Busy(UpstreamFailure):
    """As many calls wait as may; this one was never sent."""


class Down(UpstreamFailure):
    """
    The upstream is not up, so the call was never sent.

    :param state: its state's name.
    :param retry_after: seconds until the next attempt, at least 1.
    :param reason: why it is down, as one sentence.
    """

    def __init__(self, state: str, retry_after: int, reason: str) -> None:
        super().__init__(f"it is {state}: {reason}" if reason else f"it is {state}")
        self.state = state
        self.retry_after = retry_after


class Lost(UpstreamFailure):
    """
    The connection failed, or the process ended.

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

    def again(self) -> Lost:
        """
        The same for one more call: an exception that several calls raise would gather all their
        tracebacks.
        """
        return type(self)(str(self), sent=self.sent, exit_code=self.exit_code, signal=self.signal)


class NotReading(Lost):
    """It stopped reading what it is asked, and was ended for that."""


class Unreadable(UpstreamFailure):
    """It answered this very call with something that its protocol does not allow."""


class TooLong(Unreadable):
    """
    It answered this very call with more than this host takes.

    :param limit: the octets that it takes.
    """

    def __init__(self, limit: int) -> None:
        super().__init__(f"the answer is longer than {limit} octets")
        self.limit = limit


class Refused(UpstreamFailure):
    """
    It answered with an HTTP status outside 2xx, or refused the call below its protocol in another way.

    :param status: the HTTP status; 0 where there is none.
    :param explanation: one sentence; empty: that of the status.
    :param body: the answer's octets, bounded.
    """

    def __init__(self, status: int, explanation: str = "", body: bytes = b"") -> None:
        super().__init__(explanation or f"it answered with HTTP {status}")
        self.status = status
        self.body = body


class NotApproved(UpstreamFailure):
    """It says something about itself that cannot be believed, such as a card that is not the approved one."""


class RulesUnmatched(UpstreamFailure):
    """The operator's rules fit nothing that an MCP server lists, and so everything of it is off; nothing was sent."""

    def __init__(self) -> None:
        super().__init__("a rule for it fits nothing that it lists, and so all of it is off")


class ErrorAnswer(UpstreamFailure):
    """
    It answered with an error of its protocol.

    :param error: as received, nothing dropped.
    """

    def __init__(self, error: Mapping[str, Any]) -> None:
        self.error = error
        self.code: object = error.get("code")
        super().__init__(f"it answered with error {self.code}: {str(error.get('message'))[:200]}")
