"""One call and its stream, without I/O."""

from __future__ import annotations

from agtphost.client.conversation import Conversation
from agtphost.client.errors import ClientError
from agtphost.client.reply import Reply
from agtphost.client.requests import PreparedCall
from agtphost.wire.codec import Limits


class QuicCall:
    """
    A call of a connection, which waits for a stream at first.

    :param limits: sizes of an answer.
    """

    def __init__(self, call: PreparedCall, limits: Limits) -> None:
        self._conversation = Conversation(limits)
        self._replies: list[Reply] = []
        self._failure: ClientError | None = None
        self.request = self._conversation.ask(call)
        """The octets to send."""

        self.stream: int | None = None
        """The number of its stream; None: the server allows none yet."""

        self.consumed = 0
        """Octets of the answer that were read."""

        self.is_out = True
        """Whether a final reply is still awaited."""

    @property
    def is_answered(self) -> bool:
        """Whether any octet of the answer arrived."""
        return self._conversation.answered

    @property
    def has_replies(self) -> bool:
        """Whether replies wait to be taken."""
        return bool(self._replies)

    @property
    def has_surplus(self) -> bool:
        """Whether octets arrived behind the answer."""
        return not self.is_out and self._failure is None and not self._conversation.reusable

    def receive(self, octets: bytes, *, ends: bool) -> None:
        """
        Take octets of the answer.

        :param ends: whether they are the last of the stream.
        :raises agtphost.client.errors.ClientError: if they cannot be an answer.
        """
        if octets:
            self.consumed += len(octets)
            self._add(self._conversation.receive(octets))
        if ends and self.is_out:
            self._add(self._conversation.receive(b""))

    def _add(self, replies: list[Reply]) -> None:
        self._replies.extend(replies)
        if replies and not replies[-1].interim:
            self.is_out = False

    def fail(self, error: ClientError) -> None:
        """Note why no further reply will arrive."""
        if self.is_out:
            self.is_out, self._failure = False, error

    def take(self) -> list[Reply]:
        """
        Return the replies that have arrived; the last is final if :attr:`.Reply.interim` is false.

        :raises agtphost.client.errors.ClientError: if no further reply will arrive.
        """
        replies, self._replies = self._replies, []
        if not replies and self._failure is not None:
            raise self._failure
        return replies
