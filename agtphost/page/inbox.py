"""Show the inbox: everything that waits for a person."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from twisted.web.template import Tag, tags

from agtphost.page import definition_diff, elements, overview
from agtphost.page.layout import PageView
from agtphost.page.page_visit import PageVisit
from agtphost.page.person_client import PageReply, gather_replies
from agtphost.page.value_text import ago, brief
from agtphost.vocabulary.quantities import lasting

Card: TypeAlias = Callable[[PageVisit, Mapping[str, Any]], Tag]

DECISIONS = (("accepted", "Approve"), ("rejected", "Reject"), ("deferred", "Defer"))
CARDS_PER_KIND = 50
"""Cards of each kind; further ones follow when these are decided."""

MOST_DEFINITIONS = 20
"""Definitions that are fetched for one view."""

UNSUPPORTED_STATUSES = (404, 405)
"""Statuses of a host that does not support a kind."""


async def draw(visit: PageVisit) -> PageView:
    """Show cards, the most urgent first."""
    if visit.sees_only_addressed:
        kind = next(each for each in KINDS if each[1] == "escalations")
        cards = _cards(*kind, await overview.ask_escalations(visit, CARDS_PER_KIND), visit)
        return PageView(title="Inbox", body=[] if cards is None else [cards])
    upstreams, *lists = await gather_replies(
        visit.ask.inspect("upstreams"), *overview.ask_waiting(visit, CARDS_PER_KIND)
    )
    waiting = overview.changed_definitions(upstreams)
    definitions = await gather_replies(
        *(
            visit.ask.inspect("upstream-definition", upstream=name, name=what or None)
            for name, what in waiting[:MOST_DEFINITIONS]
        )
    )
    body = [
        *(
            [_cards(*kind, reply, visit) for kind, reply in zip(KINDS, lists, strict=True)]
            if visit.sees_decisions
            else [elements.section("Calls, escalations and proposals that wait", tags.p(overview.DECIDERS_ONLY))]
        ),
        _changed_definitions(visit, upstreams, len(waiting), definitions),
    ]
    return PageView(title="Inbox", body=[each for each in body if each is not None])


def _cards(title: str, name: str, card: Card, reply: PageReply, visit: PageVisit) -> Tag | None:
    if reply.status in UNSUPPORTED_STATUSES:
        return None
    if not reply.ok:
        return elements.refusal_section(title, reply)
    entries = reply.entries(name)
    if not entries:
        return elements.section(title, tags.p("Nothing waits.", class_="empty"))
    more = int(reply.result.get("count") or len(entries)) - len(entries)
    further = [tags.p(f"{more} more wait.")] if more > 0 else []
    return elements.section(title, *(card(visit, entry) for entry in entries[:CARDS_PER_KIND]), *further)


def _form(visit: PageVisit, buttons: Sequence[tuple[str, str]], known: str, title: str) -> list[Tag]:
    if not visit.may("decide"):
        return []
    reason = elements.reason(f"reason-{known}")
    label = f"Decide about {title}"
    return [elements.action("decide", visit.csrf, "/inbox", {"target_id": known}, reason, buttons=buttons, label=label)]


def _approval(visit: PageVisit, entry: Mapping[str, Any]) -> Tag:
    known = str(entry.get("approval_id", ""))
    what = entry.get("tool") or f"{entry.get('method', '')} {entry.get('path', '')}"
    title = f"{entry.get('label') or brief(entry.get('caller'))} asks for {what}"
    pairs = [
        ("Agent", elements.brief_agent(entry.get("caller"))),
        ("Identity proof", entry.get("assurance")),
        ("On behalf of", entry.get("acting_principal")),
        ("Delegated by", entry.get("delegation")),
        ("Call", f"{entry.get('method', '')} {entry.get('path', '')}"),
        ("Description", entry.get("description")),
        ("Impact", entry.get("impact")),
        ("Definition", entry.get("definition_digest")),
        ("Digest of the whole call", entry.get("digest")),
        ("Waits for", ago(entry.get("requested_at"))),
        ("Expires", entry.get("expires_at")),
        ("Not shown, as [approvals] show says", entry.get("hidden")),
    ]
    content: list[Any] = [elements.facts((name, value) for name, value in pairs if value not in (None, "", [], {}))]
    for name, member in (("Input", "input"), ("Besides", "beside"), ("Header fields", "fields")):
        if member in entry:
            content += [tags.h4(name), elements.code(entry[member])]
    return elements.card(title, known, *content, *_form(visit, DECISIONS[:2], known, title))


def _escalation(visit: PageVisit, entry: Mapping[str, Any]) -> Tag:
    known = str(entry.get("escalation_id", ""))
    title = f"Escalation {brief(known, 16)}"
    decision = entry.get("decision")
    put_off = decision if isinstance(decision, dict) else {}
    pairs = (
        ("Agent", elements.brief_agent(entry.get("escalated_by"))),
        ("Addressed to", entry.get("routed_to")),
        ("Task", entry.get("task_id")),
        ("Reason", entry.get("reason")),
        ("Priority", elements.state(entry.get("priority"))),
        ("Waits for", ago(entry.get("created_at"))),
        ("Deadline", entry.get("deadline") or "-"),
        *_deferral(put_off.get("at"), put_off.get("by"), put_off.get("reason")),
    )
    content = (elements.facts(pairs), elements.code(entry.get("context")))
    return elements.card(title, known, *content, *_form(visit, DECISIONS, known, title), *_answer(visit, known, title))


def _answer(visit: PageVisit, known: str, title: str) -> list[Tag]:
    """Return the form of a REPLY, which informs the agent and decides nothing."""
    if not visit.may("reply"):
        return []
    text = elements.field(
        "content",
        "Answer",
        elements.to_id(f"answer-{known}"),
        maxlength=str(elements.LONGEST_REASON),
        autocomplete="off",
    )
    buttons = (("reply", "Send the answer"),)
    label = f"Answer {title}"
    return [elements.action("reply", visit.csrf, "/inbox", {"in_reply_to": known}, text, buttons=buttons, label=label)]


def _proposal(visit: PageVisit, entry: Mapping[str, Any]) -> Tag:
    known = str(entry.get("proposal_id", ""))
    title = f"Proposal {brief(known, 16)}"
    pairs = (
        ("Agent", elements.brief_agent(entry.get("originating_agent_id"))),
        ("Call", f"{entry.get('method', '')} {entry.get('path', '')}"),
        ("Made of", entry.get("recipe_lineage")),
        ("Decided within", lasting(float(entry.get("estimated_seconds") or 0))),
        *_deferral(entry.get("deferred_at"), entry.get("deferred_by"), entry.get("deferred_reason")),
    )
    form: list[Tag] = []
    if visit.may("operate"):
        form = [
            elements.action(
                "decide-proposal",
                visit.csrf,
                "/inbox",
                {"proposal_id": known},
                elements.reason(f"reason-{known}"),
                buttons=DECISIONS,
                label=f"Decide about {title}",
            )
        ]
    return elements.card(title, known, elements.facts(pairs), elements.code(entry.get("definition")), *form)


def _deferral(at: object, by: object, why: object) -> list[tuple[str, Any]]:
    """Return the earlier deferral of a decision; empty if there was none."""
    if not at:
        return []
    return [("Put off", f"{ago(at)} ago by {brief(by, 16)}"), ("Because", why or "-")]


KINDS: Sequence[tuple[str, str, Card]] = (
    ("Calls that wait for an approval", "approvals", _approval),
    ("Escalations", "escalations", _escalation),
    ("Proposals", "proposals", _proposal),
)
"""
Title, member of the answer, and function that draws a card; in the order of :func:`agtphost.page.overview.ask_waiting`.
"""


def _changed_definitions(visit: PageVisit, upstreams: PageReply, count: int, definitions: list[PageReply]) -> Tag:
    title = "Changed tools and cards"
    if not upstreams.ok:
        return elements.refusal_section(title, upstreams)
    shown = [definition(visit, reply, "/inbox") for reply in definitions]
    if count > len(shown):
        shown.append(tags.p(f"{count - len(shown)} more changed."))
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
                buttons=(("approve", "Approve the present one"),),
                label=f"Approve {title}",
            )
        ]
    texts = [each.get("definition") if isinstance(each, dict) else None for each in (given.get("approved"), present)]
    differing = None
    if isinstance(texts[0], str) and isinstance(texts[1], str):
        differing = definition_diff.differences(texts[0], texts[1])
    said = [] if differing is None else [tags.h4("Differences"), differing]
    both = tags.div(_side("Approved", given.get("approved")), _side("Now", present), class_="sides")
    return elements.card(f"{title} is off: it changed", f"{protocol}-{upstream}-{name}", *said, both, *form)


def _side(title: str, given: Any) -> Tag:
    given = given if isinstance(given, dict) else {}
    text = given.get("definition")
    shown = elements.definition(text) if isinstance(text, str) else tags.p("Only its digest is known.")
    return tags.div(tags.h4(title), tags.p("SHA-256 ", tags.code(str(given.get("sha256") or "none"))), shown)
