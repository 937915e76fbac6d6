"""
A witness that is another host: it is sent each checkpoint with a proof, and answers with its cosignature.

Theory of operation. The ledger's thread hands over each checkpoint and goes on; from then on all is in the reactor's.
Only the newest checkpoint waits, and it goes out at most once in a while, since each call makes a record at the other
side: two hosts that witness each other would otherwise keep each other busy forever. The proof begins at the size that
the witness stated. A witness that does not answer is asked again after ever longer pauses. Where this host has changed
its signing key, the statements that lead from the first key to the one that signed are sent along, and the witness's
statements come with its cosignature: neither side has to configure a new key by hand.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall
from twisted.logger import Logger
from zope.interface import implementer

from agtphost.audit import checkpoint, cosignature
from agtphost.audit.checkpoint import Checkpoint, CheckpointError
from agtphost.audit.interfaces import IRemoteWitness
from agtphost.audit.merkle import proof_to_texts
from agtphost.identity.key_ring import follow_statements
from agtphost.identity.keys import KeyFormatError, VerifyingKey
from agtphost.stores.rows import StoreError
from agtphost.vocabulary.reasons import Reason

RETRY_SECONDS = 1.0
"""From the first failure to the next attempt; doubled after each that fails."""

RETRY_SECONDS_MOST = 300.0

ATTEMPTS = 3
"""Submissions of one checkpoint in a row, each from the size that the witness named."""

log = Logger()

Answer = tuple[int, Mapping[str, Any]]
"""Status, and the result or the body of the refusal."""


class WitnessUnreachable(Exception):
    """The witness gave no answer; the message says why."""


class WitnessTransport(Protocol):
    """Asks one witness; every method raises :class:`WitnessUnreachable` without an answer."""

    def last(self, origin: str) -> Answer:
        """Return what the witness saw last. This call blocks: for the time before the reactor runs."""

    def submit(self, origin: str, attestation: Mapping[str, Any]) -> Awaitable[Answer]:
        """Send a checkpoint with its proof."""

    def keys(self) -> Awaitable[Iterable[VerifyingKey]]:
        """Return the keys that the witness may sign with."""

    @property
    def known_keys(self) -> Sequence[VerifyingKey]:
        """Return the keys that the witness may sign with, as far as they were configured or fetched."""


class WitnessReactor(Protocol):
    """The part of the reactor that a remote witness needs."""

    def seconds(self) -> float:
        """Return the reactor's time in seconds."""

    def callLater(self, delay: float, callable: Callable[..., object], *args: object) -> IDelayedCall:
        """Run later, in the reactor's thread."""

    def callFromThread(self, callable: Callable[..., object], *args: object) -> None:
        """Run soon, in the reactor's thread."""


@implementer(IRemoteWitness)
class RemoteWitness:
    """
    A witness at another host, to which checkpoints are submitted.

    """

    def __init__(
        self,
        uri: str,
        *,
        origin: str,
        keys: Iterable[VerifyingKey],
        reactor: WitnessReactor,
        transport: WitnessTransport,
        prove: Callable[[int, int], Awaitable[Sequence[bytes]]],
        cosigned: Callable[[int, str], object],
        links: Callable[[Checkpoint], Sequence[Mapping[str, str]]] = lambda issued: (),
        required: bool = False,
        seconds: float = 10.0,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self.name = uri
        self.always = False  # It may be new to this host, or have forgotten it.
        self.remedy = f"have the operator of {uri} keep what it saw as evidence, and take it out of [audit] witnesses"
        self.state = "idle"
        """``idle``, ``waiting``, ``down`` or ``contradicted``: the state that logs and operators see."""

        self._origin = checkpoint.key_name(origin)
        self._keys = tuple(keys)
        self._reactor = reactor
        self._transport = transport
        self._prove = prove
        self._cosigned = cosigned
        self._links = links
        self._required = required
        self._seconds = seconds
        self._chance = chance
        self._since = reactor.seconds()
        self._seen: int | None = None
        self._pending: Checkpoint | None = None
        self._running: Deferred[None] | None = None
        self._timer: IDelayedCall | None = None
        self._next = 0.0
        self._delay = RETRY_SECONDS
        self._stopped = False

    @property
    def age(self) -> float:
        """Seconds for which a checkpoint waits for it; 0 where none does."""
        caught_up = self._pending is None and self._running is None
        return 0.0 if caught_up else max(self._reactor.seconds() - self._since, 0.0)

    @property
    def known_keys(self) -> Sequence[VerifyingKey]:
        """The keys that it may cosign with, as far as they are known now."""
        return self._transport.known_keys

    # At start, before anything is served

    def last(self) -> Checkpoint | None:
        try:
            status, document = self._transport.last(self._origin)
            if status == 404 and document.get("reason") == "checkpoint-unseen":
                self._seen = 0
                return None
            if status != 200:
                raise WitnessUnreachable(f"it answered {status} {document.get('reason', '')}")
        except WitnessUnreachable as error:
            if self._required:
                raise StoreError(
                    f"the witness {self.name} is required, and cannot be asked: {error}. Start it, correct "
                    "[audit] witnesses, or set witness_required = false there"
                ) from None
            log.warn("the witness {name} could not be asked what it saw last: {why}", name=self.name, why=str(error))
            return None
        try:
            seen = checkpoint.verify(str(document.get("checkpoint", "")), self._keys)
            if seen.origin != self._origin:
                raise CheckpointError(f"it is of the log {seen.origin}")
        except CheckpointError as error:
            # Either the witness is wrong, or this host has lost its key together with its records.
            raise StoreError(
                f"what the witness {self.name} has seen of this host does not verify: {error}; "
                f"to go on knowingly, {self.remedy}"
            ) from None
        self._seen = seen.size
        return seen

    # From the ledger's thread

    def saw(self, issued: Checkpoint) -> None:
        self._reactor.callFromThread(self.offer, issued)

    # In the reactor

    def offer(self, issued: Checkpoint) -> None:
        """Have a checkpoint sent, soon, unless a newer one waits."""
        if self._stopped or (self._pending is not None and self._pending.size >= issued.size):
            return
        if self._pending is None and self._running is None:
            self._since = self._reactor.seconds()
        self._pending = issued
        if self._running is None and self._timer is None:
            self._later(max(0.0, self._next - self._reactor.seconds()))

    def stop(self) -> None:
        """Send nothing more."""
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._running is not None:
            self._running.cancel()

    def _later(self, delay: float) -> None:
        self.state = "waiting" if self._delay == RETRY_SECONDS else self.state
        self._timer = self._reactor.callLater(delay, self._start)

    def _start(self) -> None:
        self._timer = None
        issued = self._pending
        if issued is None or self._stopped:
            return
        self._next = self._reactor.seconds() + self._seconds
        running = Deferred.fromCoroutine(self._deliver(issued))
        if not running.called:
            self._running = running
        running.addErrback(self._note_unexpected)
        running.addBoth(self._finish_submission)

    def _note_unexpected(self, failure: Any) -> None:
        """Note an unexpected error, which must not end the witnessing."""
        if not self._stopped:
            self._note_failure("down", repr(failure.value))

    def _finish_submission(self, result: object) -> None:
        self._running = None
        if self._pending is not None and self._timer is None and not self._stopped:
            self._later(max(0.0, self._next - self._reactor.seconds()))

    async def _deliver(self, issued: Checkpoint) -> None:
        try:
            line = await self._exchange(issued)
        except _Contradiction as error:
            log.critical(
                "the witness {name} says that this host's log was rolled back or forked: {why}",
                name=self.name,
                why=str(error),
            )
            self._note_failure("contradicted", "", most=True)
            return
        except (WitnessUnreachable, CheckpointError) as error:
            self._note_failure("down", str(error))
            return
        if self.state == "down":
            log.info("the witness {name} answers again", name=self.name)
        self.state = "idle"
        self._delay = RETRY_SECONDS
        self._since = self._reactor.seconds()
        self._seen = issued.size
        if self._pending is not None and self._pending.size <= issued.size:
            self._pending = None
        self._cosigned(issued.size, line)

    async def _exchange(self, issued: Checkpoint) -> str:
        """Submit a checkpoint, and return the verified line of the witness."""
        links = [dict(statement) for statement in self._links(issued)]
        for _ in range(ATTEMPTS):
            first = min(self._seen or 0, issued.size)
            proof = await self._prove(first, issued.size) if 0 < first < issued.size else ()
            attestation: dict[str, Any] = {
                "checkpoint": issued.note,
                "first": first,
                "proof": proof_to_texts(proof),
                **({"links": links} if links else {}),
            }
            status, document = await self._transport.submit(self._origin, attestation)
            if status == 200:
                line = str(document.get("cosignature", ""))
                return cosignature.verify(issued.note, line, await self._witness_keys(document)).line
            reason, size = document.get("reason"), document.get("size")
            if reason == Reason.CHECKPOINT_INCONSISTENT:
                raise _Contradiction(str(document.get("explanation", ""))[:300])
            if (
                reason != Reason.CHECKPOINT_PROOF_OUTDATED
                or isinstance(size, bool)
                or not isinstance(size, int)
                or size < 0
            ):
                raise WitnessUnreachable(f"it answered {status} {str(reason)[:60]}")
            self._seen = size
        raise WitnessUnreachable("it names another size each time")

    async def _witness_keys(self, document: Mapping[str, Any]) -> Iterable[VerifyingKey]:
        """Return the keys that the witness may sign with now: the known ones, or those that followed them."""
        try:
            return follow_statements(await self._transport.keys(), document.get("links", [])).in_use
        except KeyFormatError as error:
            raise CheckpointError(f"the witness's keys do not follow each other: {error}") from None

    def _note_failure(self, state: str, why: str, *, most: bool = False) -> None:
        if self.state != state and why:
            log.warn("the witness {name} cosigns no checkpoint: {why}", name=self.name, why=why)
        self.state = state
        pause = RETRY_SECONDS_MOST if most else self._delay
        self._delay = min(self._delay * 2, RETRY_SECONDS_MOST)
        self._next = max(self._next, self._reactor.seconds() + pause * (0.5 + self._chance() / 2))


class _Contradiction(Exception):
    """The witness holds evidence against this host's log."""
