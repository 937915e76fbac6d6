"""Send the requests of a form, and say what became of them."""

from __future__ import annotations

from typing import Any

from twisted.web.template import Tag, tags

from agtphost.page import elements, note_pages
from agtphost.page.form_fields import Fields, FormRequest
from agtphost.page.layout import PageView
from agtphost.page.person_client import PageReply, PersonClient
from agtphost.vocabulary.reasons import Reason


async def perform(act: FormRequest, ask: PersonClient, fields: Fields) -> PageView | str:
    """
    Send what a form asks for.

    :return: the message for the view that the form leads back to, or a view in its place.
    """
    obstacle = "" if act.check is None else await act.check(ask)
    if obstacle:
        return note_pages.malformed_page(obstacle)
    # One after the other: a group of decisions is not a burst of writes.
    replies = [(each, await _send(each, ask)) for each in (act, *act.further)]
    reply = replies[0][1]
    if act.show is not None:
        return await act.show(reply, ask)
    if len(replies) > 1:
        if all(each.ok for _, each in replies):
            return f"{len(replies)} decisions are on record."
        return _group_page(replies)
    if reply.reason == Reason.ALREADY_DECIDED:
        return note_pages.already_decided_page(reply, fields.get("reason", "").strip())
    if not reply.ok:
        return note_pages.refused_page(reply)
    return f"{act.done} Audit-ID {reply.audit_id}"


async def _send(act: FormRequest, ask: PersonClient) -> PageReply:
    return await ask.ask(act.method, act.path, act.given, act.rights_of)


def _group_page(replies: list[tuple[FormRequest, PageReply]]) -> PageView:
    """Show what became of each decision of a group of which some were refused."""
    rows = [(_item(act), *_outcome(act, reply)) for act, reply in replies]
    refused = sum(not reply.ok for _, reply in replies)
    said = f"{len(replies) - refused} of {len(replies)} decisions are on record; {refused} were refused."
    return PageView(
        title="Decided in part",
        status=409,
        body=[
            tags.p(said, role="alert", class_="refused"),
            elements.table("Decisions", ("Question", "Outcome", "Why", "Record"), rows),
            tags.p(tags.a("Inbox", href="/inbox")),
        ],
    )


def _item(act: FormRequest) -> str:
    return str(act.given.get("target_id") or act.path.rpartition("/")[2])


def _outcome(act: FormRequest, reply: PageReply) -> tuple[Any, Any, Tag | str]:
    record = elements.call_link(reply.audit_id) if reply.audit_id else "-"
    if reply.ok:
        return elements.state("decided"), "-", record
    return elements.state("refused"), reply.explanation or reply.reason, record
