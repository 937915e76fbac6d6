"""
Keyed requests: the quotas of agents' stored answers, and what is kept of an answer that is too long.

Theory of operation. A request with an Idempotency-Key makes the host store an answer for a day. So each agent has a
quota, of keys and of octets, and so have all together, in shares that shrink with what is free. The use of each agent
is one row, which changes in the transactions that add and drop answers: nothing is counted, and nothing is read when
the host starts. A key that was acknowledged is not forgotten for a new one: that one is refused.
"""

from __future__ import annotations

from hashlib import sha256

from agtphost.audit.drafts import Reservation, ReservationKey, ReservationState
from agtphost.stores.interfaces import IKeyedRequests
from agtphost.stores.keyed_digests import sealed_use
from agtphost.stores.rows import KeyedRow, ReservationRow
from agtphost.vocabulary.bounds import Answers, fair_share
from agtphost.vocabulary.quotas import ANSWERS

UNKEPT = b"-"
"""What the stored form of an answer begins with that was not kept."""

KEYED = "keyed"
"""Member of ``extra`` in the record of a keyed request: a digest of its reservation and of the stored answer."""

ALL = b""
"""The owner of the row that counts for all agents together."""


def reservation_name(key: ReservationKey) -> bytes:
    """Return the name under which the store has a keyed request; the key itself is never stored."""
    return sha256(f"{key.agent_id}\0{key.key}".encode("utf-8", "surrogatepass")).digest()


def owner_name(key: ReservationKey) -> bytes:
    """Return the name of the owner whose quota a keyed request counts against."""
    return sha256(key.agent_id.encode("utf-8", "surrogatepass")).digest()[:16]


def unkept(result: bytes) -> bytes:
    """Return what is stored of an answer that is not kept: its status, its hash and its length."""
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
    """Return the state of a keyed request, for a repeat of it."""
    if row.digest != digest:
        return Reservation(state=ReservationState.MISMATCH)
    if row.result is not None:
        return Reservation(state=ReservationState.DONE, result=row.result)
    return Reservation(state=ReservationState.RUNNING if in_progress else ReservationState.IN_DOUBT)


class Quotas:
    """
    The use of keyed requests by the agents of one transaction.

    :param store: read for each agent once, when it is first asked for.
    :param now: milliseconds since the Unix epoch.
    :param keep: milliseconds for which answers are kept.
    """

    def __init__(self, store: IKeyedRequests, now: int, keep: int, answers: Answers = ANSWERS) -> None:
        self._answers = answers
        self._now = now
        self._keep = keep
        self._store = store
        self._uses: dict[bytes, KeyedRow] = {}
        self._changed: dict[bytes, KeyedRow] = {}

    def changed_rows(self) -> list[KeyedRow]:
        """Return the rows that have to be written."""
        return [sealed_use(use) for use in self._changed.values()]

    def claim(self, key: ReservationKey, before: ReservationRow | None) -> Reservation | None:
        """
        Count one more key.

        :param before: the expired request of the same key that it takes the place of.
        :return: None where the quota allows it; otherwise the refusal's text.
        """
        uses = [self._use(owner_name(key)), self._use(ALL)]
        if before is not None and before.owner is not None:
            gone = len(before.result or b"")
            uses = [use._replace(keys=use.keys - 1, octets=max(use.octets - gone, 0)) for use in uses]
        use, every = uses
        keys, octets = self._limits(key, use, every)
        if use.keys >= keys or use.octets >= octets:
            unit, limit = ("keys", keys) if use.keys >= keys else ("octets", octets)
            # Where the others leave this one nothing, it may be any of their keys that makes room.
            since = use.since if use.keys else every.since
            seconds = max(1, -(-(since + self._keep - self._now) // 1000))
            return Reservation(state=ReservationState.FULL, unit=unit, limit=limit, retry_after=seconds)
        for each in uses:
            self._put(each._replace(keys=each.keys + 1))
        return None

    def stored_form(self, key: ReservationKey, result: bytes) -> bytes:
        """Return what is to be stored of an answer: all of it, or its hash where the quota is used up."""
        use, every = self._use(owner_name(key)), self._use(ALL)
        if len(result) > self._answers.longest or use.octets + len(result) > self._limits(key, use, every)[1]:
            return unkept(result)
        return result

    def count_answer(self, key: ReservationKey, stored: bytes) -> None:
        """Add a stored answer to what its agent has used."""
        for each in (self._use(owner_name(key)), self._use(ALL)):
            self._put(each._replace(octets=each.octets + len(stored)))

    def _limits(self, key: ReservationKey, use: KeyedRow, every: KeyedRow) -> tuple[int, int]:
        """
        Return how many keys and octets the caller may have at present; what it has is never taken back. The first key
        of an agent, with an answer of the greatest length, only needs free space.
        """
        answers = self._answers
        own = (answers.keys, answers.octets) if key.sure else (answers.unproven_keys, answers.unproven_octets)
        free = answers.keys_in_all - every.keys, answers.octets_in_all - every.octets
        first = min(1, max(free[0], 0)), min(answers.longest, max(free[1], 0))
        shares = (
            max(fair_share(answers.keys_in_all, every.keys), first[0]),
            max(fair_share(answers.octets_in_all, every.octets), first[1]),
        )
        return min(own[0], shares[0]), min(own[1], shares[1])

    def _use(self, owner: bytes) -> KeyedRow:
        use = self._uses.get(owner)
        if use is None:
            use = self._uses[owner] = self._store.read_usage((owner,)).get(owner) or KeyedRow(owner, 0, 0, self._now)
        return use

    def _put(self, use: KeyedRow) -> None:
        self._uses[use.owner] = self._changed[use.owner] = use
