"""INSPECT: records, chain heads and lifecycle streams, read back as they were signed (core v08 section 7.2.4)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from twisted.logger import Logger
from zope.interface import implementer

from agtphost.audit.drafts import HOST_CHAIN, StoredRecord
from agtphost.errors import DamagedEvidence, Refusal, not_found
from agtphost.handlers import parameters
from agtphost.handlers.authorization import Authorization
from agtphost.handlers.built_in import Answer, BuiltInContext, IBuiltInHandler, Target
from agtphost.iagtp import IRecordStore
from agtphost.identity import envelope
from agtphost.identity.peer import Assurance
from agtphost.methods.continuation import Continuations
from agtphost.methods.inspection.access import ReadACL, RecordAccess
from agtphost.methods.inspection.proofs import Proofs
from agtphost.methods.inspection.several import SEVERAL, read_several
from agtphost.vocabulary.identifiers import is_audit_id
from agtphost.vocabulary.reasons import Reason

log = Logger()

MOST_ENTRIES = 500
"""Entries of one answer; a longer stream is read in pages."""

MOST_UNPROVEN = 50
"""The same for callers without a certificate: a hundred octets of theirs ask for 150 kB."""

HOST = "host"
"""What ``chain`` says to name the host's own chain, which has no Agent-ID."""

OWN_TARGETS = ("audit", "chain_head", "chain", "lifecycle", "checkpoint", "inclusion", "consistency")
"""The targets that are about records; all others are added by other parts of the host."""

FEW = 50
"""Records of one answer that are read without another thread."""

FURTHEST = 10_000
"""Events of one stream that parts of it reach back to."""


@implementer(IBuiltInHandler)
class Inspection:
    """
    The handler of INSPECT.

    :param records: the store's reading side.
    :param acl: the read mode.
    :param authorization: tells whom ``operator_only`` admits.
    :param cosigned: the newest checkpoint that a witness cosigned.
    :param continuations: makes the tokens of streams that are longer than an answer.
    :param more: further targets, each of which decides who may ask.
    :param write_first: writes what is not in the host's own chain yet, before an operator reads that.
    :param find_summary: returns the id of the summary that counts the call of an Audit-ID; empty for none.
    """

    kind = "built_in"

    def __init__(
        self,
        records: IRecordStore,
        acl: ReadACL,
        authorization: Authorization,
        cosigned: Callable[[], str] = str,
        continuations: Continuations | None = None,
        *,
        more: Mapping[str, Target] | None = None,
        write_first: Callable[[], Awaitable[None]] | None = None,
        find_summary: Callable[[str], str] = lambda audit_id: "",
    ) -> None:
        self._continuations = continuations or Continuations()
        self._records = records
        self._access = RecordAccess(acl, authorization)
        self._authorization = authorization
        proofs = Proofs(records, cosigned)
        own: tuple[Target, ...] = (
            *(self._audit, self._chain_head, self._chain, self._lifecycle),
            *(proofs.checkpoint, proofs.inclusion, proofs.consistency),
        )
        self._targets = dict(zip(OWN_TARGETS, own, strict=True))
        self._more_targets: Mapping[str, Target] = {} if more is None else more
        self._first = write_first
        self._find_summary = find_summary

    async def handle(self, context: BuiltInContext) -> Answer:
        if context.input.get("target") == SEVERAL:
            return Answer(result=await read_several(context, self._read))
        return await self._read(context)

    async def _read(self, context: BuiltInContext) -> Answer:
        target = parameters.require_text(context.input, "target")
        read = self._more_targets.get(target)
        if read is None:
            read = self._targets.get(target)
            if read is None:
                known = ", ".join((*self._targets, *self._more_targets, SEVERAL))
                raise parameters.invalid("target", "target has an unknown value.", f"Use one of {known}.")
            self._access.require_reader(context)
        try:
            found = await read(context)
        except DamagedEvidence as error:
            log.critical("INSPECT {target}: the store is damaged: {why}", target=target, why=str(error))
            raise Refusal(Reason.RECORD_DAMAGED) from None
        return found if isinstance(found, Answer) else Answer(result=found)

    # Targets

    async def _audit(self, context: BuiltInContext) -> Mapping[str, Any] | Answer:
        audit_id = parameters.matching(context.input, "audit_id", is_audit_id, "64 lower-case hexadecimal digits")
        record = await self._records.record(audit_id)
        payload = {} if record is None else envelope.parse_unverified(record.format, record.signed)
        # Core v08 section 7.2.4 demands 403 of who may not read a record: so it is 403 where there is none, too.
        self._access.require_subject(context, {str(payload.get("agent_id", "")), str(payload.get("caller_id", ""))})
        if record is None:
            raise self._no_record(audit_id)
        shown = {"audit_id": audit_id, **entry(record, payload)}
        if record.format == envelope.JWS and context.invocation is not None and context.invocation.two_tokens:
            # Deployed clients, known by their request line, read the record at the top of the body.
            return Answer(result=shown, beside={envelope.JWS: shown[envelope.JWS]})
        return shown

    def _no_record(self, audit_id: str) -> Refusal:
        """Return the refusal for an Audit-ID without a record, with what happened to a call that was counted."""
        if summary_id := self._find_summary(audit_id):
            return not_found(
                Reason.RECORD_NOT_FOUND,
                f"That call read an unchanged list again and has no record; summary {summary_id} counts it.",
                remedy=f"`agtp audit get {summary_id}` shows the summary, which names the record of the first read.",
            )
        return not_found(
            Reason.RECORD_NOT_FOUND,
            "No record has that Audit-ID.",
            remedy="Check the identifier. For an answer with Audit-Summary, give that id.",
        )

    async def _chain_head(self, context: BuiltInContext) -> Mapping[str, Any]:
        chain = await self._named_chain(context)
        record = await self._records.head(chain)
        if record is None:
            raise not_found(Reason.RECORD_NOT_FOUND, "That chain has no record.")
        return {"agent_id": chain, "audit_id": record.audit_id, "seq": record.seq}

    async def _chain(self, context: BuiltInContext) -> Answer:
        """Return a page of a chain, newest first, in place of many requests for single records."""
        chain = await self._named_chain(context)
        limit = _page(context)
        before = self._continuations.position(context) or parameters.count(context.input, "before", 0, 2**53) or None
        records = await self._records.walk(chain, before, limit)
        return Answer(
            result={"agent_id": chain, "records": await self._entries(records), "count": len(records)},
            # The first record of a chain has the number 1.
            headers=self._more(context, records[-1].seq, len(records) == limit and records[-1].seq > 1)
            if records
            else (),
        )

    def _more(self, context: BuiltInContext, position: Any, more: bool) -> tuple[tuple[str, str], ...]:
        return self._continuations.header(context, position) if more else ()

    async def _lifecycle(self, context: BuiltInContext) -> Answer:
        agent_id = parameters.agent_id(context.input)
        self._access.require_subject(context, {agent_id})
        limit = _page(context)
        before = self._continuations.position(context)
        rest = await self._events(agent_id, before, limit + 1)
        events = rest[:limit]
        return Answer(
            result={"agent_id": agent_id, "events": await self._entries(events), "event_count": len(events)},
            headers=self._more(context, events[-1].seq, len(rest) > limit) if events else (),
        )

    async def _events(self, agent_id: str, before: int | None, count: int) -> Sequence[StoredRecord]:
        """Return the newest events of a stream, optionally only those before a number."""
        reach = count
        while True:
            newest = await self._records.lifecycle(agent_id, reach)
            rest = newest if before is None else [event for event in newest if event.seq < before]
            if len(rest) >= count or len(newest) < reach or reach >= FURTHEST:
                return rest
            reach *= 2

    async def _entries(self, records: Sequence[StoredRecord]) -> list[dict[str, Any]]:
        if len(records) <= FEW:
            return entries(records)
        shown: list[dict[str, Any]] = await self._records.offload(lambda: entries(records))
        return shown

    async def _named_chain(self, context: BuiltInContext) -> str:
        if context.input.get("chain") == HOST:
            self._access.require_subject(context, set())
            if self._first is not None and self._authorization.views(context):
                await self._first()
            return HOST_CHAIN
        agent_id = parameters.agent_id(context.input)
        self._access.require_subject(context, {agent_id})
        return agent_id


def _page(context: BuiltInContext) -> int:
    """Return the page size of the caller. People are also identified by certificates that name no agent."""
    certified = context.peer is not None and context.peer.certificate is not None
    most = MOST_ENTRIES if certified or context.assurance is Assurance.CERTIFICATE else MOST_UNPROVEN
    return parameters.count(context.input, "limit", min(100, most), most)


def entry(record: StoredRecord, payload: Mapping[str, Any]) -> dict[str, Any]:
    """Return one record as INSPECT shows it: the signed octets, and their decoded payload."""
    return {
        "format": record.format,
        record.format: envelope.to_text(record.format, record.signed),
        "payload": dict(payload),
        "kind": record.kind,
        "seq": record.seq,
    }


def entries(records: Sequence[StoredRecord]) -> list[dict[str, Any]]:
    """Return what INSPECT shows of several records, in their order."""
    shown = []
    for record in records:
        payload = envelope.parse_unverified(record.format, record.signed)
        shown.append({"audit_id": record.audit_id, **entry(record, payload)})
    return shown
