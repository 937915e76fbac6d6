"""What arrives on a connection, handed to the one call that is out; no I/O: both clients with an event loop use it."""

from __future__ import annotations

from collections.abc import Callable

from agtphost.client.connections import Stream
from agtphost.client.conversation import Conversation
from agtphost.client.errors import ClientError, ConnectionLost
from agtphost.client.reply import Reply
from agtphost.client.requests import PreparedCall
from agtphost.wire.codec import Limits

LONG_ANSWER = ConnectionLost(
    "The answer to a cancelled call is too long to be read.", "Nothing waits for it.", answered=True
)

Done = Callable[[Reply | Exception], object]
"""Takes the final reply of a call, or why there is none."""


class Delivery:
    """
    Passes the replies of one connection to the calls that wait for them.

    :param drop: ends the connection immediately, where it cannot be used any more.
    """

    def __init__(self, limits: Limits, drop: Callable[[], object]) -> None:
        self._conversation = Conversation(limits)
        self._drop = drop
        self._done: Done | None = None
        self._stream: Stream | None = None
        self._most: int | None = None
        """The octets of an unwanted answer that are still read."""

    @property
    def reusable(self) -> bool:
        """Whether another call may be made."""
        return self._conversation.reusable

    @property
    def has_answer(self) -> bool:
        """Whether any octet of an answer to the last call arrived."""
        return self._conversation.answered

    def ask(self, call: PreparedCall, stream: Stream | None, done: Done) -> bytes:
        """Return the octets of a call; only while :attr:`reusable`."""
        octets = self._conversation.ask(call)
        self._stream, self._done, self._most = stream, done, None
        return octets

    def discard(self, most: int, done: Done) -> None:
        """
        Give up the call, but read its answer, so that the connection can serve another one.

        :param most: octets; a longer answer ends the connection.
        :param done: called when the answer is over, or with the reason why there is none.
        """
        self._stream, self._done, self._most = None, done, most

    def forget(self) -> None:
        """Give up the call: its answer would be mistaken for another's, so the connection ends."""
        self._done = None
        self._drop()

    def receive(self, data: bytes) -> None:
        """Octets that arrived; ``b""`` says that the server ended the connection."""
        if self._most is not None:
            self._most -= len(data)
            if self._most < 0:
                self.fail(LONG_ANSWER)
                return
        try:
            replies = self._conversation.receive(data)
        except ClientError as error:
            self.fail(error)
            return
        for reply in replies:
            self._deliver(reply)
        if data and self._done is None and not self._conversation.reusable:
            self._drop()

    def fail(self, error: Exception) -> None:
        """Note that the connection is of no use any more, and why."""
        done, self._done = self._done, None
        if done is not None:
            done(error)
        self._drop()

    def _deliver(self, reply: Reply) -> None:
        if not reply.interim:
            done, self._done = self._done, None
            if done is not None:
                done(reply)
        elif self._stream is not None and self._done is not None:
            try:
                self._stream(reply)
            except Exception as error:
                self.fail(error)
