"""Show the inbox: what waits for a person in a compact list, and what was decided or has expired."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import Any

from twisted.web.template import Tag, tags

from agtphost.page import definition_diff, elements, inbox_evidence, overview
from agtphost.page.inbox_questions import KINDS, MESSAGES, Kind, Question, answer_form, decision_form, group_form
from agtphost.page.layout import PageView
from agtphost.page.page_visit import PageVisit
from agtphost.page.person_client import PageReply, gather_replies

CARDS_PER_KIND = 50
"""Questions of each kind; further ones follow when these are decided."""

MOST_DEFINITIONS = 20
"""Definitions that are fetched for one view."""

OPEN = 3
"""Questions of each kind that are unfolded; where there are more, none is."""

UNSUPPORTED_STATUSES = (404, 405)
"""Statuses of a host that does not support a kind."""

SHOWN = (
    ("", "Waiting, and decided last"),
    ("waiting", "Waiting"),
    ("decided", "Decided"),
    ("expired", "Expired"),
)
"""What the filter selects, and its labels."""

LATELY = 20
"""Decided questions below those that wait."""


async def draw(visit: PageVisit) -> PageView:
    """Show what waits, the most urgent first, and what was decided, the newest first; the query selects."""
    show = visit.query_choice("show", dict(SHOWN))
    waits, closed = show in ("", "waiting"), show != "waiting"
    if visit.sees_only_addressed:
        kinds = [kind for kind in KINDS if kind.name == "escalations"]
        asked = [overview.ask_escalations(visit, CARDS_PER_KIND)] if waits else []
    else:
        kinds = list(KINDS) if visit.sees_decisions else []
        asked = list(overview.ask_waiting(visit, CARDS_PER_KIND)) if waits else []
    ended = [_ask_closed(visit, kind) for kind in kinds] if closed else []
    told = [visit.ask.ask("QUERY", "/notifications", {"limit": CARDS_PER_KIND})] if kinds and waits else []
    replies = await gather_replies(*asked, *told, *ended)
    waiting, decided = replies[: len(asked) + len(told)], replies[len(asked) + len(told) :]
    form = elements.search("/inbox", elements.choice("show", "Show", "filter-show", SHOWN, show), text="Show")
    body: list[Any] = [form]
    if not kinds:
        body.append(elements.section("Calls, escalations and proposals that wait", tags.p(overview.DECIDERS_ONLY)))
    shown = zip([*kinds[: len(asked)], MESSAGES], waiting, strict=False)
    body += [part for kind, reply in shown if (part := _waiting(kind, reply, visit))]
    if not visit.sees_only_addressed and waits:
        body.append(await _changed_definitions(visit))
    if closed and kinds:
        body.append(_draw_closed(kinds, decided, show))
    if not visit.sees_only_addressed:
        body.append(await inbox_evidence.draw(visit))
    return PageView(title="Inbox", body=body)


def _ask_closed(visit: PageVisit, kind: Kind) -> Awaitable[PageReply]:
    """Ask for the questions of a kind that do not wait any more."""
    if kind.name == "approvals":
        return visit.ask.ask("QUERY", "/approvals", {"state": "closed", "limit": elements.ROWS})
    if kind.name == "escalations":
        return visit.ask.ask("QUERY", "/escalations", {"status": "decided", "limit": elements.ROWS})
    return visit.ask.ask("QUERY", "/proposals", {"status": "decided"})


# What waits


def _waiting(kind: Kind, reply: PageReply, visit: PageVisit) -> Tag | None:
    if reply.status in UNSUPPORTED_STATUSES:
        return None
    if not reply.ok:
        return elements.refusal_section(kind.title, reply)
    entries = reply.entries(kind.name)
    if not entries:
        return elements.section(kind.title, tags.p("Nothing waits.", class_="empty"))
    groups: dict[str, list[Question]] = {}
    for entry in entries[:CARDS_PER_KIND]:
        question = kind.describe(entry)
        groups.setdefault(question.equal, []).append(question)
    # A few are read at a glance; of many, the list is.
    unfolded = OPEN if len(groups) <= OPEN else 0
    cards = [_group(kind, questions, visit, unfolded=at < unfolded) for at, questions in enumerate(groups.values())]
    more = int(reply.result.get("count") or len(entries)) - len(entries)
    further = [tags.p(f"{more} more wait.")] if more > 0 else []
    return elements.section(kind.title, *cards, *further)


def _group(kind: Kind, questions: Sequence[Question], visit: PageVisit, *, unfolded: bool) -> Tag:
    """Return the card of equal questions, with a form for all and one for each."""
    first = questions[0]
    forms = decision_form(visit, kind, first) if len(questions) == 1 else group_form(visit, kind, questions)
    content: list[Any] = [*first.content, *forms]
    if kind.answered and len(questions) == 1:
        content += answer_form(visit, first)
    title, note = first.title, first.since
    if len(questions) > 1:
        title = f"{len(questions)} equal questions: {first.title}"
        each = [
            tags.div(
                tags.p(f"{one.known}: {one.since}"),
                *decision_form(visit, kind, one),
                *(answer_form(visit, one) if kind.answered else ()),
                id=f"item-{elements.to_id(one.known)}",
            )
            for one in questions
        ]
        content.append(tags.details(tags.summary("Decide about each"), *each))
    key = first.known if len(questions) == 1 else f"group-{first.known}"
    return elements.foldable_card(title, note, key, *content, unfolded=unfolded)


# What was decided


def _draw_closed(kinds: Sequence[Kind], replies: Sequence[PageReply], show: str) -> Tag:
    """Return the table of questions that were decided or have expired, the newest first."""
    title = "Expired" if show == "expired" else "Decided" if show == "decided" else "Decided and expired"
    found = [
        kind.describe(entry)
        for kind, reply in zip(kinds, replies, strict=True)
        for entry in (reply.entries(kind.name) if reply.ok else ())
    ]
    wanted = [each for each in found if _is_shown(each, show)]
    wanted.sort(key=lambda each: each.decided_at, reverse=True)
    most = elements.ROWS if show else LATELY
    rows = [
        (
            each.title,
            elements.state(each.outcome),
            each.decided_by or "-",
            each.decided_at or "-",
            each.reason or "-",
            elements.call_link(each.audit_id) if each.audit_id else "-",
        )
        for each in wanted[:most]
    ]
    heads = ("Question", "Outcome", "By", "At", "Reason", "Record")
    content: list[Any] = [elements.table("Questions, as long as the host keeps them", heads, rows, "There are none.")]
    if len(wanted) > most:
        content.append(tags.p(tags.a(f"All {len(wanted)}", href="/inbox?show=decided")))
    content += [
        elements.refusal_section(kind.title, reply)
        for kind, reply in zip(kinds, replies, strict=True)
        if not reply.ok and reply.status not in UNSUPPORTED_STATUSES
    ]
    return elements.section(title, *content)


def _is_shown(question: Question, show: str) -> bool:
    expired = question.outcome == "expired" or (question.outcome == "rejected" and not question.decided_by)
    return not show or (show == "expired") == expired


# Definitions


async def _changed_definitions(visit: PageVisit) -> Tag:
    title = "Changed tools and cards"
    (upstreams,) = await gather_replies(visit.ask.inspect("upstreams"))
    if not upstreams.ok:
        return elements.refusal_section(title, upstreams)
    waiting = overview.changed_definitions(upstreams)
    replies = await gather_replies(
        *(
            visit.ask.inspect("upstream-definition", upstream=name, name=what or None)
            for name, what in waiting[:MOST_DEFINITIONS]
        )
    )
    shown = [definition(visit, reply, "/inbox") for reply in replies]
    if len(waiting) > len(shown):
        shown.append(tags.p(f"{len(waiting) - len(shown)} more changed."))
    return elements.section(title, *(shown or [tags.p("Nothing changed.", class_="empty")]))


def definition(visit: PageVisit, reply: PageReply, back: str) -> Tag:
    """
    Return the approved and the present definition of an upstream side by side, and the form that approves the latter.
    """
    if not reply.ok:
        return elements.refusal_section("A definition", reply)
    given = reply.result.get("upstream_definition")
    given = given if isinstance(given, dict) else {}
    protocol, upstream, name = (str(given.get(each, "")) for each in ("protocol", "upstream", "name"))
    title = f"{protocol} {upstream} {name}".strip()
    present = given.get("present")
    digest = str(present.get("sha256", "")) if isinstance(present, dict) else ""
    form: list[Tag] = []
    if visit.may("approve") and digest:
        form = [
            elements.action(
                "approve-definition",
                visit.csrf,
                back,
                {"protocol": protocol.lower(), "upstream": upstream, "name": name, "sha256": digest},
                buttons=(("approve", "Approve the new definition"),),
                label=f"Approve {title}",
            )
        ]
    texts = [each.get("definition") if isinstance(each, dict) else None for each in (given.get("approved"), present)]
    differing = None
    if isinstance(texts[0], str) and isinstance(texts[1], str):
        differing = definition_diff.differences(texts[0], texts[1])
    said = [] if differing is None else [tags.h4("Differences"), differing]
    both = tags.div(_side("Approved", given.get("approved")), _side("Now", present), class_="sides")
    return elements.card(f"{title} is disabled because it changed", f"{protocol}-{upstream}-{name}", *said, both, *form)


def _side(title: str, given: Any) -> Tag:
    given = given if isinstance(given, dict) else {}
    text = given.get("definition")
    shown = elements.definition(text) if isinstance(text, str) else tags.p("Only its digest is known.")
    return tags.div(tags.h4(title), tags.p("SHA-256 ", tags.code(str(given.get("sha256") or "none"))), shown)
