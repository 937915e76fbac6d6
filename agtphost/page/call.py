"""Show one call: what happened, why, its proof, and related calls."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from typing import Any

from twisted.web.template import Tag, tags

from agtphost.page import call_list, elements
from agtphost.page.call_steps import CallSources, describe_rule, draw_steps, linked_approval
from agtphost.page.layout import PageView
from agtphost.page.page_visit import PageVisit
from agtphost.page.person_client import PageReply, gather_replies
from agtphost.page.value_text import in_path
from agtphost.vocabulary.display_names import operator_name
from agtphost.vocabulary.identifiers import ZERO_AUDIT_ID, is_audit_id
from agtphost.vocabulary.replay import build_decision_query
from agtphost.vocabulary.status import phrase_of

HASHES = ("request_hash", "result_hash", "approval_digest")
"""Members with hashes of what was sent and answered, which the record does not repeat."""


OPERATOR_KEY = "the operator's key"
"""How an operator is known; :file:`shown.js` has the same text."""

RECORDS_SEARCHED = 1_000
"""How many records after this one are searched for those of its task, in addition to earlier ones."""


async def draw(visit: PageVisit) -> PageView:
    """Show one record, found by its Audit-ID."""
    audit_id = visit.rest
    if not is_audit_id(audit_id):
        return PageView(title="One call", status=404, body=[tags.p("This is not an Audit-ID.")])
    reply, proven, duration = await gather_replies(
        visit.ask.inspect("audit", audit_id=audit_id),
        visit.ask.inspect("inclusion", audit_id=audit_id),
        visit.ask.inspect("latency", audit_id=audit_id),
    )
    if not reply.ok:
        return PageView(title="One call", status=reply.status, body=[elements.refusal_section("Not shown", reply)])
    payload = reply.result.get("payload")
    payload = payload if isinstance(payload, dict) else {}
    sources = await _ask_further(visit, payload, proven, duration)
    today = sources.today
    return PageView(
        title=f"Call {audit_id[:12]}...",
        body=[
            _what_happened(audit_id, payload, {} if today is None or not today.ok else today.result),
            draw_steps(payload, sources),
            _evidence(audit_id, payload, reply, proven),
            _related_calls(payload, sources.task),
            elements.section(
                "What was signed", elements.mark_signed("payload", elements.code(payload), class_="whole")
            ),
            _commands(audit_id, payload),
        ],
    )


async def _ask_further(
    visit: PageVisit, payload: Mapping[str, Any], proven: PageReply, duration: PageReply
) -> CallSources:
    """Ask for what the record leads to: its task, its approval, and what the gates decide now."""
    question, task = build_decision_query(payload), payload.get("task_id")
    place = proven.result.get("index")
    near = place + RECORDS_SEARCHED if isinstance(place, int) else None
    asking: dict[str, Awaitable[PageReply]] = {}
    if task:
        asking["task"] = visit.ask.inspect("records", task_id=str(task), limit=50, before=near)
    if question is not None:
        asking["today"] = visit.ask.inspect("decision", **question)
    for name, linked in zip(("held", "decided"), linked_approval(payload), strict=True):
        if linked:
            asking[name] = visit.ask.inspect("audit", audit_id=linked)
    found = dict(zip(asking, await gather_replies(*asking.values()), strict=True))
    return CallSources(
        today=found.get("today"),
        task=found.get("task"),
        held=found.get("held"),
        decided=found.get("decided"),
        duration=duration,
    )


def _what_happened(audit_id: str, payload: Mapping[str, Any], today: Mapping[str, Any]) -> Tag:
    extra = payload.get("extra")
    extra = extra if isinstance(extra, dict) else {}
    status, operator, mark = payload.get("status"), payload.get("operator"), elements.mark_signed
    name = operator_name(payload)
    phrase = phrase_of(status) if isinstance(status, int) else ""
    told: list[tuple[str, Any]] = [
        ("Audit-ID", mark("audit_id", audit_id)),
        ("When", mark("issued_at", payload.get("issued_at"))),
        ("Call", mark("called", call_list.describe_call(payload))),
        ("Caller", mark("caller_id", call_list.draw_caller(payload, today.get("agent_name")))),
        *([("Operator", mark("operator", f"{name}, {operator.get('key')}"))] if isinstance(operator, dict) else []),
        ("Identity proof", mark("identity_assurance", _describe_proof(payload))),
        ("On behalf of", mark("acting_principal_id", payload.get("acting_principal_id") or "-")),
        ("Answered by", mark("agent_id", elements.brief_agent(payload.get("agent_id"), "host"))),
        ("Status", tags.span(mark("status", status if isinstance(status, int) else "-"), f" {phrase}".rstrip())),
        ("Reason", mark("reason", payload.get("reason") or "-")),
        *(([("Missing scopes", extra["scopes"])]) if extra.get("scopes") else []),
        *([("Decided by", describe_rule(today["rule"]))] if isinstance(today.get("rule"), dict) else []),
        ("Session-ID", mark("session_id", payload.get("session_id") or "-")),
        ("Task-ID", mark("task_id", payload.get("task_id") or "-")),
        *((name.replace("_", " ").capitalize(), mark(name, payload[name])) for name in HASHES if payload.get(name)),
    ]
    front = extra.get("http")
    if isinstance(front, dict):
        told.append(("Received over HTTP", f"at {front.get('surface')}, as {front.get('client')}"))
    return elements.section("Summary", elements.facts(told))


def _describe_proof(payload: Mapping[str, Any]) -> object:
    """Return how the caller of a record was known; ``none`` in a record says only that no agent was."""
    assurance = payload.get("identity_assurance") or "-"
    return OPERATOR_KEY if assurance == "none" and isinstance(payload.get("operator"), dict) else assurance


def _evidence(audit_id: str, payload: Mapping[str, Any], reply: PageReply, proven: PageReply) -> Tag:
    before = payload.get("previous_audit_id")
    place = f"{proven.result.get('index')} of {proven.result.get('size')}" if proven.ok else proven.explanation
    told: list[tuple[str, Any]] = [
        ("Number in its chain", reply.result.get("seq")),
        (
            "Previous record",
            elements.mark_signed("previous_audit_id", elements.call_link(before))
            if before and before != ZERO_AUDIT_ID
            else "the first of its chain",
        ),
        ("Place in the log", place),
    ]
    download = tags.a("Download the proof", href=f"/evidence/proof?audit_id={in_path(audit_id)}", download="proof.json")
    return elements.section(
        "Evidence",
        elements.facts(told),
        tags.div(**{"data-verify": audit_id}),
        tags.p(download, " for ", tags.code("agtp audit prove --file proof.json"), "."),
    )


def _related_calls(payload: Mapping[str, Any], task: PageReply | None) -> Tag:
    content: list[Any] = []
    delegation = payload.get("delegation")
    if isinstance(delegation, dict):
        chain = delegation.get("chain")
        if isinstance(chain, list):
            content.append(tags.h3("Delegation, from the first to the caller"))
            content.append(tags.ol(*(tags.li(elements.brief_agent(each)) for each in chain)))
    prior = payload.get("prior_actions")
    named = [each for each in prior if isinstance(each, dict)] if isinstance(prior, list) else []
    rows = [(elements.call_link(each.get("audit_id")), elements.brief_agent(each.get("agent_id"))) for each in named]
    if rows:
        content.append(elements.table("Calls that led here", ("Record", "Agent"), rows))
    invoked = payload.get("invoked")
    if isinstance(invoked, list) and invoked:
        content.append(tags.h3("Calls that it made"))
        content.append(tags.ul(*(tags.li(_invoked_call(each)) for each in invoked[: elements.ROWS])))
    if task is not None and task.ok:
        content.append(call_list.records("Calls of the same task", task))
    return elements.section(
        "Related records", *(content or [tags.p("No other record is related to this call.", class_="empty")])
    )


def _invoked_call(each: Any) -> Any:
    known = each.get("audit_id") if isinstance(each, dict) else each
    return elements.call_link(known) if isinstance(known, str) and is_audit_id(known) else elements.code(each)


def _commands(audit_id: str, payload: Mapping[str, Any]) -> Tag:
    extra = payload.get("extra")
    extra = extra if isinstance(extra, dict) else {}
    lines = [f"agtp explain {audit_id}", f"agtp audit prove {audit_id}"]
    method, path = payload.get("method"), payload.get("path")
    if extra.get("mcp_tool"):
        lines.append(f"agtp tools call {extra.get('mcp_server')}.{extra['mcp_tool']}")
    elif isinstance(method, str) and method and isinstance(path, str):
        lines.append(f"agtp call - {method} {path}")
    return elements.section("As commands", elements.code("\n".join(lines)))
