"""REPORT: a document of what the caller may read, in the inbox of its recipient (methods v01 section 7.5)."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from zope.interface import implementer

from agtphost.audit.drafts import StoredRecord
from agtphost.errors import Refusal
from agtphost.handlers import parameters
from agtphost.handlers.authorization import owner_of
from agtphost.handlers.built_in import Answer, BuiltInContext, IBuiltInHandler
from agtphost.iagtp import Search
from agtphost.methods.inspection.call_targets import brief
from agtphost.methods.standard.messages.delivery import deliver, prepare_changes
from agtphost.methods.standard.messages.row_documents import MEDIA_TYPES, ReportDocument, render
from agtphost.methods.standard.record_scan import RecordScan
from agtphost.methods.standard.services import MethodServices
from agtphost.vocabulary import times
from agtphost.vocabulary.reasons import Reason

TOPIC = "report"
FORMATS = ("json", "markdown", "html", "pdf")
ROWS = 1_000
MOST = 65_536
"""Octets of a document."""

RECORDS = "records"
ROWS_GIVEN = "rows"

Span = tuple[float | None, float | None]
"""From when on, and until when: seconds since the epoch."""


@implementer(IBuiltInHandler)
class Reporting:
    """The handler of REPORT."""

    kind = "built_in"

    def __init__(self, parts: MethodServices) -> None:
        self._parts = parts

    async def handle(self, context: BuiltInContext) -> Answer:
        """
        Answer the REPORT call.

        :raises Refusal: 404 for who or what is not there, 422, 503 for ``pdf`` that nothing makes.
        """
        caller, given, now = owner_of(context), context.input, self._parts.now()
        kind = parameters.identifier(given, "report_type")
        form = parameters.choice(given, "format", FORMATS, "markdown")
        recipient = parameters.identifier(given, "recipient")
        inboxes = self._parts.notification.inboxes(recipient)
        source, rows = await self._rows(context, given.get("scope"))
        document = ReportDocument(
            title=f"Report: {kind}",
            members={
                "report_type": kind,
                "scope": source,
                "generated_at": times.stamp(now),
                "generated_by": caller.agent_id,
                "rows": str(len(rows)),
            },
            rows=rows,
        )
        text = await self._text(context, document, form)
        if len(text.encode("utf-8")) > MOST:
            raise parameters.invalid("scope", f"The document has more than {MOST} octets.", "Ask for less.")
        document_id = f"doc-{secrets.token_hex(16)}"
        body = {
            "document_id": document_id,
            "report_type": kind,
            "format": form,
            "media_type": MEDIA_TYPES[form],
            "document": text,
        }
        found = deliver(
            self._parts,
            inboxes,
            sender=caller.agent_id,
            topic=TOPIC,
            content=body,
            urgency="informational",
            task_id=context.task_id,
        )
        if not found.changes:
            raise Refusal(Reason.INBOX_FULL, headers=(("Retry-After", "60"),))
        shown = {
            "document_id": document_id,
            "report_type": kind,
            "format": form,
            "rows": len(rows),
            "delivered": len(found.reached),
            "undelivered": found.full,
        }
        return Answer(
            result={**shown, "notification_ids": found.notification_ids},
            changes=await prepare_changes(self._parts, found.changes),
            extra={"report": {name: shown[name] for name in ("document_id", "report_type", "format", "rows")}},
        )

    # What it is about

    async def _rows(self, context: BuiltInContext, scope: Any) -> tuple[str, list[Mapping[str, Any]]]:
        """Return the report's subject in a few words, and its rows: only what the caller could read itself."""
        if isinstance(scope, str):
            scope = {"collection": scope} if scope != RECORDS else {RECORDS: {}}
        if not isinstance(scope, dict) or len(scope.keys() & {"collection", RECORDS, ROWS_GIVEN}) != 1:
            raise _bad_scope()
        if ROWS_GIVEN in scope:
            return "rows of the call", _given_rows(scope)
        span = _span(scope)
        if "collection" in scope:
            name = scope["collection"]
            if not isinstance(name, str) or scope.keys() - {"collection", "from", "to"}:
                raise _bad_scope()
            collection = self._parts.collections.require_reading(context, name, "scope")
            return f"collection {name}", await self._parts.offload(_of_items, collection.items_after(context), span)
        asked = scope[RECORDS]
        if not isinstance(asked, dict) or asked.keys() - {"method"} or scope.keys() - {RECORDS, "from", "to"}:
            raise _bad_scope()
        caller = owner_of(context)
        self._parts.access.require_reader(context)
        self._parts.access.require_subject(context, (caller.agent_id,))
        search = Search(caller=caller.agent_id, method=parameters.text(asked, "method"))
        return "the caller's own records", await self._of_records(RecordScan(self._parts.records, search, ROWS), span)

    async def _of_records(self, back: RecordScan, span: Span) -> list[Mapping[str, Any]]:
        """
        Return the rows of the caller's records within a time range.

        :raises Refusal: 422 where there are too many, or they lie too far back.
        """
        rows: list[Mapping[str, Any]] = []
        while page := await back.further():
            found = await self._parts.offload(_briefly, page)
            rows += [row for row in found if _is_within(str(row.get("issued_at", "")), span)]
            if len(rows) > ROWS:
                raise _too_many()
            if _is_before(str(found[-1].get("issued_at", "")), span):
                return rows
        if back.is_exhausted:
            raise parameters.invalid(
                "scope", "The time range has more records than a report can read.", "Send a later from."
            )
        return rows

    async def _text(self, context: BuiltInContext, document: ReportDocument, form: str) -> str:
        if form != "pdf":
            text: str = await self._parts.offload(render, document, form)
            return text
        through = self._parts.config.methods.pdf
        if not through:
            raise Refusal(
                Reason.PROVIDER_MISSING,
                "This host cannot make PDF.",
                remedy="Ask for json, markdown or html; the operator can name an endpoint for PDF: [methods] pdf.",
                details={"format": form},
            )
        method, _, path = through.partition(" ")
        page = await self._parts.offload(render, document, "html")
        made = (await context.invoke(method, path, {"html": page})).get("document")
        if not isinstance(made, str):
            raise Refusal(
                Reason.PROVIDER_MISSING,
                "The endpoint that makes PDF did not return a document.",
                remedy="Ask for json, markdown or html, or have the operator check the endpoint of [methods] pdf.",
                details={"format": form},
            )
        return made


def _bad_scope() -> Refusal:
    return parameters.invalid(
        "scope",
        "scope names nothing that this host can report about.",
        'Send {"collection": NAME} or {"records": {}}, and from and to as times where not everything is wanted; or '
        '{"rows": [...]} with what an earlier step gave.',
    )


def _given_rows(scope: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """
    Return the rows that the caller sent, such as the findings of an earlier step.

    :raises Refusal: 422 where they are not a list of objects, or too many.
    """
    rows = scope[ROWS_GIVEN]
    if scope.keys() != {ROWS_GIVEN} or not isinstance(rows, list):
        raise _bad_scope()
    if len(rows) > ROWS:
        raise _too_many()
    if not all(isinstance(row, dict) for row in rows):
        raise _bad_scope()
    return rows


def _span(scope: Mapping[str, Any]) -> Span:
    try:
        return parameters.moment(scope, "from"), parameters.moment(scope, "to")
    except Refusal:
        raise _bad_scope() from None


def _is_before(stamp: str, span: Span) -> bool:
    """Return whether a record is older than a time range, so that all further ones are, too."""
    begins, _ = span
    return begins is not None and bool(stamp) and datetime.fromisoformat(stamp).timestamp() < begins


def _is_within(stamp: str, span: Span) -> bool:
    at = datetime.fromisoformat(stamp).timestamp() if stamp else 0.0
    begins, ends = span
    return (begins is None or at >= begins) and (ends is None or at < ends)


def _of_items(items: Iterable[Any], span: Span) -> list[Mapping[str, Any]]:
    """Return the rows of a collection: each item's identifier and the members of its data."""
    rows: list[Mapping[str, Any]] = []
    for item in items:
        value = item.value
        if not _is_within(value["updated_at"], span):
            continue
        data = value["data"]
        rows.append({"id": value["id"], **(data if isinstance(data, dict) else {"data": data})})
        if len(rows) > ROWS:
            raise _too_many()
    return rows


def _too_many() -> Refusal:
    return parameters.invalid("scope", f"There are more than {ROWS} rows.", "Ask for less.")


def _briefly(records: Sequence[StoredRecord]) -> list[Mapping[str, Any]]:
    return [brief(record) for record in records]
