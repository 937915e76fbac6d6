"""
Show a call as a timeline of its steps: what the record, the records that it names, and this process know of it.

A step has a time where a record has one, and a duration where two records give it or this process measured it; a step
without has none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

from twisted.web.template import Tag, tags

from agtphost.page import elements
from agtphost.page.call_list import REFUSED, draw_caller
from agtphost.page.person_client import PageReply
from agtphost.page.value_text import show_value
from agtphost.vocabulary.display_names import outcome_word
from agtphost.vocabulary.identifiers import is_audit_id
from agtphost.vocabulary.status import phrase_of

MOST_INVOKED: Final = 50
"""Steps for calls that a call made."""


class CallSources(NamedTuple):
    """The replies that a timeline is made of."""

    today: PageReply | None
    """What the gates decide about the same call now; None where that cannot be asked."""

    task: PageReply | None
    """Records of the same task."""

    held: PageReply | None
    """The record by which the call was held for an approval."""

    decided: PageReply | None
    """The record of the decision."""

    duration: PageReply
    """What this process measured."""


class Step(NamedTuple):
    """A line of the timeline."""

    content: Sequence[Any]
    when: str = ""
    """A time in RFC 3339; empty where no record has it."""

    took: str = ""
    refused: bool = False


def linked_approval(payload: Mapping[str, Any]) -> tuple[str, str]:
    """Return the Audit-IDs of the records that held a call and decided about it; empty where it names none."""
    extra = payload.get("extra")
    approval = extra.get("approval") if isinstance(extra, dict) else None
    named = approval if isinstance(approval, dict) else {}
    proposed, decided = (str(named.get(name) or "") for name in ("proposed", "decided"))
    return proposed if is_audit_id(proposed) else "", decided if is_audit_id(decided) else ""


def draw_steps(payload: Mapping[str, Any], sources: CallSources) -> Tag:
    """Return the timeline of a call; of an event, when it was recorded."""
    if payload.get("event_type"):
        recorded = Step((f"Recorded: {payload['event_type']}",), str(payload.get("issued_at") or ""))
        return elements.section("Steps", tags.ol(_draw(recorded), class_="steps"))
    seconds = sources.duration.result.get("seconds")
    measured = seconds if isinstance(seconds, (int, float)) else None
    steps = [
        _receipt_step(payload, None if sources.today is None else sources.today.result.get("agent_name"), measured),
        *_approval_steps(payload, sources),
        _gate_step(payload, sources.today),
        *_invocation_steps(payload, sources.task),
        _answer_step(payload, measured),
    ]
    notes = [
        tags.p(
            "The duration of this call is not known: no record has it, and this process did not measure it.",
            class_="empty",
        )
    ]
    if measured is not None:
        notes = [tags.p("The duration of the call was measured by this process; no record has it.", class_="empty")]
    return elements.section("Steps", tags.ol(*map(_draw, steps), class_="steps"), *notes)


def _draw(step: Step) -> Tag:
    when: list[Any] = [tags.time(step.when, datetime=step.when), " "] if step.when else []
    took: list[Any] = [" ", tags.span(step.took, class_="took")] if step.took else []
    return tags.li(*when, *step.content, *took, **({"class": "refused"} if step.refused else {}))


def _receipt_step(payload: Mapping[str, Any], label: object, seconds: float | None) -> Step:
    caller = draw_caller(payload, label)
    begun = ""
    moment = read_moment(payload.get("issued_at"))
    if seconds is not None and moment is not None:
        begun = (moment - timedelta(seconds=seconds)).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return Step(("Received from ", caller), begun)


def _approval_steps(payload: Mapping[str, Any], sources: CallSources) -> list[Step]:
    held, decided = linked_approval(payload)
    steps = []
    times = [_issue_time(reply) for reply in (sources.held, sources.decided)]
    if held:
        steps.append(Step((elements.call_link(held, "Held for an approval"),), times[0]))
    if decided:
        steps.append(Step((elements.call_link(decided, "Decided"),), times[1], describe_delay(times[0], times[1])))
    return steps


def _gate_step(payload: Mapping[str, Any], today: PageReply | None) -> Step:
    reason, word = payload.get("reason"), outcome_word(payload)
    outcome = ["Gates: ", tags.strong(word), f" as {show_value(reason, 200)}"] if word else ["Gates: passed"]
    refused = word == REFUSED
    if not payload.get("status"):
        return Step(("No gate is asked about an event.",))
    if today is None:
        return Step((tags.span(*outcome),), refused=refused)
    if not today.ok:
        explained = elements.isolate(show_value(today.explanation, 500))
        return Step((tags.span(*outcome), "; what they decide now is not shown: ", explained), refused=refused)
    passed, refusal = today.result.get("passed") or (), today.result.get("refusal")
    now = f"; now {len(passed)} pass" + (" and one refuses" if isinstance(refusal, dict) else "")
    details = tags.details(tags.summary(*outcome, now), *_draw_decision(today, passed, refusal))
    return Step((details,), refused=refused)


def _draw_decision(reply: PageReply, passed: Sequence[Any], refusal: Any) -> list[Tag]:
    """Return what the host's own gates decide about the same call now."""
    rows: list[tuple[Any, ...]] = [(gate, elements.state("passed"), "") for gate in passed]
    if isinstance(refusal, dict):
        why = f"{refusal.get('status')} {refusal.get('reason')}: {refusal.get('explanation')}"
        rule = refusal.get("rule")
        why += f" ({describe_rule(rule)})" if isinstance(rule, dict) else ""
        rows.append((refusal.get("gate"), elements.state("refused"), why))
    rows += [
        (gate, elements.state("not asked"), "it keeps count, or reads input that is not recorded")
        for gate in reply.result.get("not_asked") or ()
    ]
    return [
        tags.p("What the host's own gates decide about the same call now; the record has their earlier decision."),
        elements.table("Gates", ("Gate", "Verdict", "Why"), rows),
        elements.facts(
            (
                ("Scopes of the caller", reply.result.get("scopes") or "-"),
                ("Scopes that are needed", reply.result.get("required_scopes") or "-"),
            )
        ),
    ]


def describe_rule(rule: Mapping[str, Any]) -> str:
    """Return the place and key of a configuration rule."""
    return f"{rule.get('at')} {rule.get('key')}{' (by default)' if rule.get('default') else ''}"


def _invocation_steps(payload: Mapping[str, Any], task: PageReply | None) -> list[Step]:
    """Return a step for each call that this one made; those of the same task have their times."""
    invoked = payload.get("invoked")
    known = {str(entry.get("audit_id")): entry for entry in (() if task is None else task.entries("records"))}
    steps = []
    for each in invoked[:MOST_INVOKED] if isinstance(invoked, list) else ():
        audit_id = each.get("audit_id") if isinstance(each, dict) else each
        if not isinstance(audit_id, str) or not is_audit_id(audit_id):
            continue
        entry = known.get(audit_id, {})
        called = [" ", elements.isolate(show_value(entry["called"], 200))] if entry.get("called") else []
        steps.append(Step((elements.call_link(audit_id, "Called"), *called), str(entry.get("issued_at") or "")))
    return steps


def _answer_step(payload: Mapping[str, Any], seconds: float | None) -> Step:
    status, when = payload.get("status"), str(payload.get("issued_at") or "")
    if not isinstance(status, int):
        return Step(("Recorded",), when)
    took = "" if seconds is None else f"{seconds * 1000:.1f} ms in all"
    word = outcome_word(payload)
    reason = f", {word}: {show_value(payload.get('reason'), 200)}" if word else ""
    return Step((f"Answered and recorded: {status} {phrase_of(status)}{reason}",), when, took, word == REFUSED)


def _issue_time(reply: PageReply | None) -> str:
    payload = None if reply is None else reply.result.get("payload")
    return str(payload.get("issued_at") or "") if isinstance(payload, dict) else ""


def describe_delay(first: str, second: str) -> str:
    """Return how long after one time another was; empty where one of them is not known."""
    begin, end = read_moment(first), read_moment(second)
    if begin is None or end is None:
        return ""
    seconds = (end - begin).total_seconds()
    return f"after {seconds:.3f} s" if seconds < 60 else f"after {timedelta(seconds=round(seconds))}"


def read_moment(stamp: object) -> datetime | None:
    """Return a time with its zone; None for any other value."""
    try:
        moment = datetime.fromisoformat(str(stamp))
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else None
