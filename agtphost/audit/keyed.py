"""
Keyed requests: what an agent's stored answers may take, and what is kept of one that is too long.

Theory of operation. Whoever sends an Idempotency-Key has the host store an
answer for a day. So each agent has a quota, of keys and of octets. What it has
used is a row of its own, which changes in the transactions that add and drop
answers: nothing is counted, and nothing is read when the host starts.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256

from agtphost.audit.drafts import Reservation, ReservationKey, ReservationState
from agtphost.iagtp import IChainStore
from agtphost.stores.rows import KeyedRow, ReservationRow
from agtphost.vocabulary.holdings import ANSWERS, Answers

UNKEPT = b"-"
"""What the stored form of an answer begins with that was not kept."""


def reservation_name(key: ReservationKey) -> bytes:
    """What the store knows a keyed request by: the key itself is nobody's business."""
    return sha256(f"{key.agent_id}\0{key.key}".encode("utf-8", "surrogatepass")).digest()


def owner_name(key: ReservationKey) -> bytes:
    """For whom a keyed request counts."""
    return sha256(key.agent_id.encode("utf-8", "surrogatepass")).digest()[:16]


def unkept(result: bytes) -> bytes:
    """What stays of an answer that is not kept: its status, its hash and its length."""
    head, _, body = result.partition(b"\n")
    if head.startswith(UNKEPT):
        return result
    return b"%b%b %b %d" % (UNKEPT, head.partition(b" ")[0], sha256(body).hexdigest().encode(), len(body))


def read_unkept(result: bytes) -> tuple[int, str, int] | None:
    """Status, hash and length of an answer that was not kept; None for one that was."""
    if not result.startswith(UNKEPT):
        return None
    status, digest, octets = result[len(UNKEPT) :].decode("ascii").split(" ")
    return int(status), digest, int(octets)


def standing_of(row: ReservationRow, digest: bytes, in_progress: bool) -> Reservation:
    """What a repeat of a keyed request is told."""
    if row.digest != digest:
        return Reservation(state=ReservationState.MISMATCH)
    if row.result is not None:
        return Reservation(state=ReservationState.DONE, result=row.result)
    return Reservation(state=ReservationState.RUNNING if in_progress else ReservationState.IN_DOUBT)


class Quotas:
    """
    What the agents of one transaction have used.

    :param now: milliseconds since the Unix epoch.
    :param keep: milliseconds for which answers are kept.
    """

    def __init__(
        self, store: IChainStore, keys: Iterable[ReservationKey], now: int, keep: int, answers: Answers = ANSWERS
    ) -> None:
        self._answers = answers
        self._now = now
        self._keep = keep
        self._uses = store.keyed({owner_name(key) for key in keys})
        self._changed: dict[bytes, KeyedRow] = {}

    def changed(self) -> list[KeyedRow]:
        """What is to be written."""
        return list(self._changed.values())

    def claim(self, key: ReservationKey, before: ReservationRow | None) -> Reservation | None:
        """
        Count one more key.

        :param before: the expired request of the same key that it takes the place of.
        :return: None where there is room; else what the caller is told.
        """
        keys, octets = self._limits(key)
        use = self._use(key)
        if before is not None and before.owner is not None:
            use = use._replace(keys=use.keys - 1, octets=max(use.octets - len(before.result or b""), 0))
        if use.keys >= keys or use.octets >= octets:
            seconds = max(1, -(-(use.since + self._keep - self._now) // 1000))
            unit, limit = ("keys", keys) if use.keys >= keys else ("octets", octets)
            return Reservation(state=ReservationState.FULL, unit=unit, limit=limit, retry_after=seconds)
        self._put(use._replace(keys=use.keys + 1))
        return None

    def answer(self, key: ReservationKey, result: bytes) -> bytes:
        """Count an answer; what is stored of it."""
        use = self._use(key)
        if len(result) > self._answers.longest or use.octets + len(result) > self._limits(key)[1]:
            result = unkept(result)
        self._put(use._replace(octets=use.octets + len(result)))
        return result

    def _limits(self, key: ReservationKey) -> tuple[int, int]:
        answers = self._answers
        return (answers.keys, answers.octets) if key.sure else (answers.unproven_keys, answers.unproven_octets)

    def _use(self, key: ReservationKey) -> KeyedRow:
        owner = owner_name(key)
        return self._uses.get(owner) or KeyedRow(owner, 0, 0, self._now)

    def _put(self, use: KeyedRow) -> None:
        self._uses[use.owner] = self._changed[use.owner] = use
