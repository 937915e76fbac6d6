"""Why a call to an upstream over HTTP has no result."""

from __future__ import annotations


class PeerFailure(Exception):
    """A call that has no result; the message is one sentence for the operator."""


class PeerTimeout(PeerFailure):
    """The deadline of the call passed."""


class PeerCancelled(PeerFailure):
    """The caller gave the call up."""


class PeerBusy(PeerFailure):
    """As many calls wait as may; this one was never sent."""


class PeerDown(PeerFailure):
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


class PeerLost(PeerFailure):
    """
    The connection failed.

    :param reason: one sentence.
    :param sent: whether the request may have reached the upstream, so that its effect is unknown.
    """

    def __init__(self, reason: str, *, sent: bool = True) -> None:
        super().__init__(reason)
        self.sent = sent


class PeerUnreadable(PeerFailure):
    """It answered with something that its protocol does not allow, or that is too long."""


class PeerTooLong(PeerUnreadable):
    """It answered with more than this host takes."""


class PeerRefused(PeerFailure):
    """
    It answered with an HTTP status outside 2xx.

    :param status: that status.
    :param body: the answer's octets, bounded.
    """

    def __init__(self, status: int, body: bytes = b"") -> None:
        super().__init__(f"it answered with HTTP {status}")
        self.status = status
        self.body = body


class NotPrepared(PeerFailure):
    """It says something about itself that cannot be believed, such as a card that is not the approved one."""
