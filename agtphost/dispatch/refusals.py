"""
Which refusals, and which reads by unknown callers, get their own record, and which are summed up.

Occasional refusals have a record each. Beyond so many
a minute, refusals of one origin are counted in a summary
(:mod:`agtphost.audit.summaries`), which is signed into the host's chain once
its time is over. An answer that is summed up still carries a signed
Attribution-Record; it is marked ``durable: false`` and names the summary, as
the field ``Audit-Summary`` does.

The origin is the agent that proves itself by its certificate; of all others
it is the address that they come from. An unproven claim never decides for whom a refusal is counted.

Unknown callers are also answered, mostly when they ask what the host offers. Their reads are counted in the same way,
so that reading cannot fill the disk either.

Known callers read lists again and again. Where a list is what it was less than a minute ago, the read is counted.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, NamedTuple

from agtphost.audit.interfaces import ILedger
from agtphost.audit.summaries import AnsweredRead, Origin, RefusedCall, Summaries
from agtphost.dispatch.exchange import Exchange
from agtphost.dispatch.gates.limits import AllowanceTable, address_origin
from agtphost.dispatch.interfaces import IGate
from agtphost.dispatch.outcome import Outcome
from agtphost.dispatch.violations import LONGEST, claims_of, violation_of
from agtphost.errors import Refusal
from agtphost.identity.peer import Assurance
from agtphost.identity.required_assurance import BELIEVED
from agtphost.vocabulary import jsontext
from agtphost.vocabulary.status import Status

PAUSE = 0.05
"""Seconds until an answer that is summed up goes out: a connection gets at most 20 of them a second."""

WINDOW = 60.0


@dataclass(frozen=True, kw_only=True)
class RefusalLimits:
    """Refusals, and reads of strangers, per minute that have a record each: ``[audit]``."""

    agent: int
    """Of an agent with its certificate."""

    address: int
    """Of everybody else at one address (one /64 of IPv6); also what an agent gets for being too fast."""

    strangers: int
    """Of all without a certificate together."""

    reads: int
    """Reads of strangers at one address."""

    strangers_reads: int
    """Reads of all strangers together."""

    lists: bool = True
    """Whether repeated reads of unchanged lists by one known caller are summed up."""


class ListRead(NamedTuple):
    """An answered read of a list that changed nothing."""

    key: Hashable
    """Caller and request: only reads with an equal key are counted together."""

    caller: Hashable
    answer: str
    """Digest of the answer, without the Task-ID that some answers repeat."""

    recorded: bool
    """Whether it needs a record, because a session begins with it."""


class RefusalRecords:
    """
    Decides for each refusal.

    :param summaries: where refusals are counted that get no record.
    :param rate: counts requests that were refused before the gate that counts; None: they are not counted.
    :param now: seconds from any start, never going back.
    :param counted: the counts so far; None: there are none yet.
    """

    def __init__(
        self,
        limits: RefusalLimits,
        summaries: Summaries,
        ledger: ILedger,
        rate: IGate | None = None,
        now: Callable[[], float] = time.monotonic,
        counted: AllowanceTable | None = None,
    ) -> None:
        self._lists = limits.lists
        of = (counted or AllowanceTable()).allowances_of
        self._summaries = summaries
        self._ledger = ledger
        self._rate = rate
        self._now = now
        self._many = of("refused agent", limits.agent, WINDOW)
        self._few = of("refused address", limits.address, WINDOW)
        self._strangers = of("refused strangers", limits.strangers, WINDOW)
        self._reads = of("reads", limits.reads, WINDOW)
        self._strangers_reads = of("reads of strangers", limits.strangers_reads, WINDOW)

    def count_refused(self, exchange: Exchange, refusal: Refusal) -> Refusal:
        """
        Count a request whose refusal came before the gate that counts.

        :return: the refusal; the one for being too fast, where the caller or its address is.
        """
        if self._rate is None or exchange.counted or exchange.peer.depth:
            return refusal
        try:
            self._rate.check(exchange)
        except Refusal as over:
            return over
        return refusal

    def summed_up(self, exchange: Exchange, outcome: Outcome, *, performed: bool) -> str:
        """
        Count a refusal, or a read by an unknown caller, in a summary, if it gets no separate record.

        :param performed: whether a handler ran.
        :return: the id of the summary; empty where the outcome is to be recorded.
        """
        if not outcome.reason:
            return self._read(exchange, outcome) if is_read(exchange, outcome) else ""
        if exchange.peer.depth or _has_effects(exchange, outcome):
            return ""
        origin = origin_of(exchange)
        if outcome.extra and origin.kind != "address":
            return ""
        if performed and _may_have_acted(exchange, origin):
            return ""
        if self._ledger.healthy:
            if self._take_allowance(origin, outcome):
                return ""
        elif not (self._ledger.low and exchange.binding is not None and exchange.binding.vital):
            return ""  # 503, as everything is.
        refused = RefusedCall(
            status=int(outcome.status),
            reason=outcome.reason,
            address=exchange.peer.address,
            claimed=_further_claims(exchange, origin),
            cause=outcome.cause,
            violation=violation_of(exchange, outcome),
        )
        return self._summaries.add(origin, refused)

    def find_list(self, exchange: Exchange, outcome: Outcome) -> ListRead | None:
        """Return the read of a list that may be summed up; None for every other outcome."""
        binding = exchange.binding
        if binding is None or not (binding.listing and self._lists) or outcome.status != Status.OK:
            return None
        has_own_record = (
            outcome.reason
            or outcome.continuation
            or outcome.extra
            or exchange.peer.depth
            or binding.state_changing
            or exchange.lineage is not None
            or exchange.idempotency_key is not None
            or exchange.approval is not None
            or exchange.peer.follow is not None
            or _has_effects(exchange, outcome)
        )
        if has_own_record:
            return None
        return _describe_list(exchange, outcome)

    def sum_up_list(self, exchange: Exchange, read: ListRead) -> str:
        """
        Count a read of a list whose caller has just had the same answer.

        :return: the id of the summary; empty where the read is to be recorded.
        """
        if read.recorded or not self._ledger.healthy:
            return ""
        return self._summaries.add_list(read.key, read.answer, exchange.session_id or "")

    def note_counted(self, audit_id: str, summary_id: str) -> None:
        """Remember which summary counts the read of a list that was answered with this Audit-ID."""
        self._summaries.note_counted(audit_id, summary_id)

    def note_list(self, read: ListRead, record: Mapping[str, Any], audit_id: str) -> None:
        """Remember that a read of a list has a durable record."""
        self._summaries.note_list(read.key, read.caller, read.answer, record, audit_id)

    def _read(self, exchange: Exchange, outcome: Outcome) -> str:
        """Count an answer that :func:`is_read`."""
        if not self._ledger.healthy:
            return ""
        origin, now = origin_of(exchange), self._now()
        if not self._reads.take(origin, now) and not self._strangers_reads.take(None, now):
            return ""
        binding = exchange.binding
        read = AnsweredRead(
            status=int(outcome.status),
            method=exchange.method,
            path="" if binding is None else binding.path[:LONGEST],
            address=exchange.peer.address,
            claimed=_further_claims(exchange, origin),
        )
        return self._summaries.add(origin, read)

    def _take_allowance(self, origin: Origin, outcome: Outcome) -> bool:
        """Use up an allowance for a record; return whether one was left."""
        now = self._now()
        if origin.kind != "address":
            table = self._few if outcome.status == Status.RATE_LIMITED else self._many
            return not table.take(origin, now)
        return not self._few.take(origin, now) and not self._strangers.take(None, now)


def _describe_list(exchange: Exchange, outcome: Outcome) -> ListRead | None:
    """Return caller, request and answer of a read of a list; None where the caller did not prove who it is."""
    origin, caller, peer = origin_of(exchange), exchange.caller, exchange.peer
    if origin.kind == "address":
        if caller is None or exchange.assurance < BELIEVED:
            return None
        origin = Origin("agent", caller.agent_id)
    certificate = "" if peer.certificate is None else peer.certificate.sha256
    door = () if peer.http is None else tuple(sorted(peer.http.items()))
    known = (origin, exchange.assurance, certificate, exchange.acting_principal, door)
    request = exchange.request
    asked = sha256(request.line + request.body).digest()
    agent = "" if exchange.agent is None else exchange.agent.agent_id
    return ListRead((known, asked, agent), known, _digest_answer(exchange, outcome), exchange.opens is not None)


def _digest_answer(exchange: Exchange, outcome: Outcome) -> str:
    """Return the digest of an answer, without the Task-ID that is the second member of an envelope."""
    body = outcome.body
    if exchange.task_id is not None:
        repeated = jsontext.encode({"status": int(outcome.status), "task_id": exchange.task_id})[:-1]
        if body.startswith(repeated):
            return sha256(body[len(repeated) :]).hexdigest()
    return outcome.digest or sha256(body).hexdigest()


def origin_of(exchange: Exchange) -> Origin:
    """Return the origin for which a refusal is counted."""
    peer, caller = exchange.peer, exchange.accountable
    certificate = peer.certificate
    if certificate is not None:
        if caller is not None and exchange.assurance is Assurance.CERTIFICATE:
            return Origin("agent", caller.agent_id)
        if certificate.agent_id is None and not certificate.malformed:
            # Issuers and operators, whom this host's own authority certifies.
            return Origin("certificate", certificate.sha256)
    return Origin("address", address_origin(peer.address))


def is_read(exchange: Exchange, outcome: Outcome) -> bool:
    """Return whether an unproven caller only read: the call succeeded and changed nothing."""
    binding = exchange.binding
    return (
        exchange.peer.certificate is None
        and exchange.assurance in (Assurance.NONE, Assurance.HEADER)
        and binding is not None
        and not binding.state_changing
        and not outcome.reason
        and not outcome.continuation
        and not outcome.extra
        and not exchange.peer.depth
        and not _has_effects(exchange, outcome)
    )


def _has_effects(exchange: Exchange, outcome: Outcome) -> bool:
    """Return whether the record changes state, or belongs to a call that did."""
    return bool(
        outcome.changes
        or outcome.events
        or outcome.event is not None
        or exchange.reservation is not None
        or exchange.purchase is not None
        or (exchange.approval is not None and exchange.approval.reserved)
        or exchange.invoked
    )


def _may_have_acted(exchange: Exchange, origin: Origin) -> bool:
    """Return whether a handler that refused may have had effects; built-in ones have none for unproven callers."""
    binding = exchange.binding
    if binding is None or not binding.state_changing:
        return False
    return binding.handler.kind != "built_in" or (origin.kind != "address" and not binding.vital)


def _further_claims(exchange: Exchange, origin: Origin) -> dict[str, str]:
    """Return the claims of a request about its caller that the origin does not have already."""
    claimed = claims_of(exchange)
    if claimed.get("agent_id") == origin.name:
        del claimed["agent_id"]
    if origin.kind != "address":
        claimed.pop("certificate", None)
        claimed.pop("certificate_agent_id", None)
    return claimed
