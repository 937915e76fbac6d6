"""Describe questions that wait for a person: approvals, escalations, proposals; each with its facts and its forms."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from twisted.web.template import Tag

from agtphost.page import elements
from agtphost.page.page_visit import PageVisit
from agtphost.page.value_text import ago, brief, show_value
from agtphost.vocabulary import jsontext
from agtphost.vocabulary.quantities import lasting

Facts: TypeAlias = Sequence[tuple[str, Any]]

DECISIONS = (("accepted", "Approve"), ("rejected", "Reject"), ("deferred", "Defer"))


@dataclass(frozen=True, kw_only=True)
class Question:
    """A question that waits for a person, or that was decided."""

    known: str
    """Its identifier."""

    title: str
    """Who asks for what."""

    since: str
    """For how long it has waited, and until when it can be decided: a phrase."""

    equal: str
    """The same for questions that one decision can answer: caller, call, arguments, reason."""

    content: Sequence[Any]
    """Facts and texts about it."""

    outcome: str = ""
    """What it came to; empty while it waits."""

    decided_by: str = ""
    decided_at: str = ""
    reason: str = ""
    """Why it was decided as it was."""

    audit_id: str = ""
    """The record of the decision, where it is known."""


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A kind of question."""

    title: str
    name: str
    """The member of the answer that lists them."""

    describe: Callable[[Mapping[str, Any]], Question]
    action: str
    """The form that decides one."""

    field: str
    """The field of the form that names the question."""

    group: str
    """Its kind in a form that decides several."""

    buttons: Sequence[tuple[str, str]]
    right: str
    """What a person must be allowed to do to decide it."""

    answered: bool = False
    """Whether a REPLY can answer it, which decides nothing."""


def _approval(entry: Mapping[str, Any]) -> Question:
    what = entry.get("tool") or f"{entry.get('method', '')} {entry.get('path', '')}"
    pairs = [
        ("Agent", elements.brief_agent(entry.get("caller"), label=entry.get("label"))),
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
        ("Hidden by [approvals] show", entry.get("hidden")),
    ]
    content: list[Any] = [elements.facts(_drop_empty(pairs))]
    for name, member in (("Input", "input"), ("Further values", "beside"), ("Header fields", "fields")):
        if member in entry:
            content += [elements.subheading(name), elements.code(entry[member])]
    state = str(entry.get("state") or "pending")
    return Question(
        known=str(entry.get("approval_id", "")),
        title=show_value(f"{entry.get('label') or brief(entry.get('caller'))} asks for {what}", 200),
        since=f"waits for {ago(entry.get('requested_at'))}, until {entry.get('expires_at')}",
        equal=_equal(entry, "caller", "method", "path", "tool", "input", "beside", "definition_digest"),
        content=content,
        outcome="" if state == "pending" else state,
        decided_by=_decider(entry.get("operator"), entry.get("decided_by")),
        decided_at=str(entry.get("decided_at") or entry.get("expires_at") or ""),
        reason=str(entry.get("reason") or ""),
        audit_id=str(entry.get("decided_audit_id") or entry.get("proposed_audit_id") or ""),
    )


def _escalation(entry: Mapping[str, Any]) -> Question:
    known, decision = str(entry.get("escalation_id", "")), entry.get("decision")
    decided = decision if isinstance(decision, dict) else {}
    status = str(entry.get("status") or "pending")
    waits = status == "pending"
    decider = _decider(decided.get("operator"), decided.get("by_name") or decided.get("by"))
    pairs = (
        ("Escalation", known),
        ("Agent", elements.brief_agent(entry.get("escalated_by"), label=entry.get("agent_label"))),
        ("Addressed to", entry.get("routed_to")),
        ("Task", entry.get("task_id")),
        ("Reason", entry.get("reason")),
        ("Priority", elements.state(entry.get("priority"))),
        ("Waits for", ago(entry.get("created_at"))),
        ("Deadline", entry.get("deadline") or "-"),
        *(_deferral(decided.get("at"), decider, decided.get("reason")) if waits else ()),
    )
    return Question(
        known=known,
        title=show_value(_escalation_title(entry), 200),
        since=f"task {brief(entry.get('task_id') or 'none', 40)}, waits for {ago(entry.get('created_at'))}",
        equal=_equal(entry, "escalated_by", "routed_to", "reason", "priority", "context", "decision"),
        content=(elements.facts(pairs), elements.code(entry.get("context"))),
        outcome="" if waits else status,
        decided_by=decider,
        decided_at=str(decided.get("at") or ""),
        reason=str(decided.get("reason") or ""),
    )


def _escalation_title(entry: Mapping[str, Any]) -> str:
    """Return what an agent asks: its reason, and its question where the context has one."""
    context = entry.get("context")
    question = context.get("question") if isinstance(context, dict) else None
    reason = str(entry.get("reason") or "escalation").replace("_", " ")
    return f"{reason.capitalize()}: {question}" if isinstance(question, str) and question else reason.capitalize()


def _proposal(entry: Mapping[str, Any]) -> Question:
    known = str(entry.get("proposal_id", ""))
    pairs = (
        ("Agent", elements.brief_agent(entry.get("originating_agent_id"))),
        ("Call", f"{entry.get('method', '')} {entry.get('path', '')}"),
        ("Made of", entry.get("recipe_lineage")),
        ("Decided within", lasting(float(entry.get("estimated_seconds") or 0))),
        *_deferral(
            entry.get("deferred_at"),
            _decider(entry.get("deferred_operator"), entry.get("deferred_by")),
            entry.get("deferred_reason"),
        ),
    )
    return Question(
        known=known,
        title=show_value(f"Proposal {brief(known, 16)}: {entry.get('method', '')} {entry.get('path', '')}", 200),
        since=f"{lasting(float(entry.get('estimated_seconds') or 0))} left to decide",
        equal=_equal(entry, "originating_agent_id", "method", "path", "definition", "recipe_lineage", "deferred_at"),
        content=(elements.facts(pairs), elements.code(entry.get("definition"))),
        outcome=str(entry.get("decision") or ""),
        decided_by=_decider(entry.get("operator"), entry.get("decided_by")),
        decided_at=str(entry.get("decided_at") or ""),
        reason=str(entry.get("reason") or ""),
    )


def _message(entry: Mapping[str, Any]) -> Question:
    known, content = str(entry.get("notification_id", "")), entry.get("content")
    topic = str(entry.get("topic") or "Message")
    sent = f"sent {ago(entry.get('sent_at'))} ago"
    pairs = [
        ("Message", known),
        ("Agent", elements.brief_agent(entry.get("sender"))),
        ("Addressed to", entry.get("recipient")),
        ("Task", entry.get("task_id")),
        ("Urgency", elements.state(entry.get("urgency"))),
        ("Expires", entry.get("expiry")),
    ]
    return Question(
        known=known,
        title=show_value(f"{topic}: {content}" if isinstance(content, str) else topic, 200),
        since=f"task {brief(entry['task_id'], 40)}, {sent}" if entry.get("task_id") else sent,
        equal=_equal(entry, "sender", "recipient", "topic", "content", "urgency"),
        content=(elements.facts(_drop_empty(pairs)), elements.code(content)),
    )


def _drop_empty(pairs: Facts) -> Facts:
    return [(name, value) for name, value in pairs if value not in (None, "", [], {})]


def _equal(entry: Mapping[str, Any], *members: str) -> str:
    """Return a text that is the same for entries with the same members."""
    return jsontext.encode([entry.get(name) for name in members]).hex()


def _decider(operator: object, by: object) -> str:
    """Return who decided: an operator's name, or the beginning of what the record has."""
    name = operator.get("name") if isinstance(operator, Mapping) else None
    return str(name) if name else brief(by, 24) if by else ""


def _deferral(at: object, who: str, why: object) -> list[tuple[str, Any]]:
    """Return the earlier deferral of a decision; empty if there was none."""
    if not at:
        return []
    return [("Deferred", f"{ago(at)} ago by {who}"), ("Reason", why or "-")]


KINDS: Sequence[Kind] = (
    Kind(
        title="Calls that wait for an approval",
        name="approvals",
        describe=_approval,
        action="decide",
        field="target_id",
        group="questions",
        buttons=DECISIONS[:2],
        right="decide",
    ),
    Kind(
        title="Escalations",
        name="escalations",
        describe=_escalation,
        action="decide",
        field="target_id",
        group="questions",
        buttons=DECISIONS,
        right="decide",
        answered=True,
    ),
    Kind(
        title="Proposals",
        name="proposals",
        describe=_proposal,
        action="decide-proposal",
        field="proposal_id",
        group="proposals",
        buttons=DECISIONS,
        right="operate",
    ),
)
"""The kinds, in the order of :func:`agtphost.page.overview.ask_waiting`."""

MESSAGES = Kind(
    title="Messages",
    name="notifications",
    describe=_message,
    action="decide",
    field="target_id",
    group="questions",
    buttons=(("accepted", "Acknowledge"),),
    right="decide",
    answered=True,
)
"""What NOTIFY sends to the person, to its groups or to the operator: it waits until it is acknowledged."""


def decision_form(visit: PageVisit, kind: Kind, question: Question) -> list[Tag]:
    """Return the form that decides one question; empty for a person who may not."""
    if not visit.may(kind.right):
        return []
    reason = elements.reason(f"reason-{question.known}")
    label = f"Decide about {question.title}"
    hidden = {kind.field: question.known}
    return [elements.action(kind.action, visit.csrf, "/inbox", hidden, reason, buttons=kind.buttons, label=label)]


def group_form(visit: PageVisit, kind: Kind, questions: Sequence[Question]) -> list[Tag]:
    """Return the form that decides all questions of a group; empty for a person who may not."""
    if not visit.may(kind.right):
        return []
    first = questions[0]
    hidden = {"kind": kind.group, "targets": " ".join(each.known for each in questions)}
    buttons = [(value, f"{text} all {len(questions)}") for value, text in kind.buttons]
    reason = elements.reason(f"reason-all-{first.known}")
    label = f"Decide about all {len(questions)} of: {first.title}"
    return [elements.action("decide-all", visit.csrf, "/inbox", hidden, reason, buttons=buttons, label=label)]


def answer_form(visit: PageVisit, question: Question) -> list[Tag]:
    """Return the form of a REPLY, which informs the agent and decides nothing."""
    if not visit.may("reply"):
        return []
    text = elements.field(
        "content",
        "Answer",
        elements.to_id(f"answer-{question.known}"),
        maxlength=str(elements.LONGEST_REASON),
        autocomplete="off",
    )
    hidden, label = {"in_reply_to": question.known}, f"Answer {question.title}"
    buttons = (("reply", "Send the answer"),)
    return [elements.action("reply", visit.csrf, "/inbox", hidden, text, buttons=buttons, label=label)]
