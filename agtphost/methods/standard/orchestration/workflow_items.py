"""
State items of a workflow: one for the whole, and one for each step that was begun.

A step's item changes in the transaction that makes the record of its call durable, and the same transaction marks the
next step as begun. So after a crash every step is one of these: ended, with its result; begun, with unknown progress;
not begun. At the end the outcome of each step moves into the workflow's own item, and the steps' items are removed.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping
from typing import Any, Final

from agtphost.audit.drafts import Change
from agtphost.audit.state import StateItem, StateTable
from agtphost.vocabulary import jsontext, times

WORKFLOW: Final = "workflow"
STEP: Final = "workflow-step"

SCHEDULED, RUNNING, PAUSED = "scheduled", "running", "paused"
FINISHED, FAILED, INTERRUPTED, CANCELLED = "finished", "failed", "interrupted", "cancelled"
STATES: Final = (SCHEDULED, RUNNING, PAUSED, INTERRUPTED, FINISHED, FAILED, CANCELLED)
ENDED: Final = frozenset({FINISHED, FAILED, CANCELLED})

BEGUN, DONE, FAULTY, LEFT_OUT = "begun", "done", "failed", "left-out"
"""Of a step."""

KEPT: Final = 86_400
"""Seconds for which an ended workflow is still known."""

LONGEST_RESULT: Final = 32_768
"""Octets of what one step gave, as it is kept for later steps and shown."""

DEEPEST_RESULT: Final = jsontext.MAX_DEPTH - 8
"""Arrays and objects of it inside each other: lists of workflows and notices go around it, and callers read 64."""

LONGEST_OUTCOME: Final = 131_072
"""Octets of the outcomes of all steps, as an ended workflow has them; results beyond are left out."""

Shown = dict[str, Any]


def new_id() -> str:
    """Return a new identifier of a workflow."""
    return f"wf-{secrets.token_hex(16)}"


def key_of(workflow_id: str, number: int) -> str:
    """Return the key of a step's item."""
    return f"{workflow_id}/{number:02}"


def put_workflow(value: Mapping[str, Any], owner: str, now: float, expected: int | None = None) -> Change:
    """Return the change that stores a workflow."""
    until = int((now + KEPT) * 1000) if value["state"] in ENDED else None
    return Change(
        kind=WORKFLOW,
        key=value["workflow_id"],
        value=value,
        owner=owner,
        expires_at=until,
        expected=expected,
    )


def begin_step(workflow_id: str, owner: str, number: int, attempt: int = 1) -> Change:
    """Return the change that marks a step as begun."""
    value = {"step": number, "state": BEGUN, "attempt": attempt}
    return Change(kind=STEP, key=key_of(workflow_id, number), value=value, owner=owner)


def end_step(workflow_id: str, owner: str, outcome: Mapping[str, Any], *, linked: bool = False) -> Change:
    """
    Return the change that stores the outcome of a step.

    :param linked: whether the record that it changes with is that of the step's call, whose Audit-ID it gets.
    """
    return Change(
        kind=STEP,
        key=key_of(workflow_id, outcome["step"]),
        value=outcome,
        owner=owner,
        linked="audit_id" if linked else "",
    )


def steps_of(held: StateTable, workflow_id: str, count: int) -> dict[int, StateItem]:
    """Return the steps that have begun, by number."""
    found = ((number, held.get(STEP, key_of(workflow_id, number))) for number in range(1, count + 1))
    return {number: item for number, item in found if item is not None}


def remove_steps(held: StateTable, workflow_id: str, owner: str, count: int) -> Iterable[Change]:
    """Yield the changes that remove the steps of a workflow."""
    for number in steps_of(held, workflow_id, count):
        yield Change(kind=STEP, key=key_of(workflow_id, number), value=None, owner=owner)


def cancel_workflow(held: StateTable, item: StateItem, said: Mapping[str, Any], now: float) -> tuple[Change, ...]:
    """
    Return the changes that cancel an active workflow: no further step of it begins.

    Of one that runs the outcomes are added once the step that has begun is over, by its run.
    """
    value = {**item.value, "state": CANCELLED, "cancelled": dict(said), "ended_at": stamp(now)}
    value.pop("pause", None)
    if item.brief["state"] == RUNNING:
        value.pop("steps", None)
        return (put_workflow(value, item.owner, now, expected=item.version),)
    count = len(value["definition"]["steps"])
    kept = steps_of(held, item.key, count)
    value["steps"] = bound_outcomes(kept[number].value for number in sorted(kept)) or value.get("steps", [])
    return (
        put_workflow(value, item.owner, now, expected=item.version),
        *remove_steps(held, item.key, item.owner, count),
    )


def is_left(item: StateItem) -> bool:
    """Return whether a workflow must be carried on: it runs, or was cancelled while it ran."""
    state = item.brief["state"]
    return state == RUNNING or (state == CANCELLED and "steps" not in item.value)


def bound_outcomes(outcomes: Iterable[Mapping[str, Any]]) -> list[Shown]:
    """Return the outcomes of all steps, with results up to the stored limits."""
    shown: list[Shown] = []
    left = LONGEST_OUTCOME
    for outcome in outcomes:
        each = dict(outcome)
        if "result" in each:
            octets = len(jsontext.encode(each["result"]))
            if octets > left or jsontext.is_deep(each["result"], DEEPEST_RESULT):
                del each["result"]
                each["omitted"] = True
            else:
                left -= octets
        shown.append(each)
    return shown


def workflow_to_json(value: Mapping[str, Any], outcomes: Iterable[Mapping[str, Any]] = ()) -> Shown:
    """Return a workflow as its owner sees it."""
    names = ("workflow_id", "kind", "task_id", "on_failure", "created_at", "until", "schedule", "run", "pause", "why")
    shown: Shown = {name: value[name] for name in names if value.get(name) is not None}
    if "until" in shown:
        shown["until"] = stamp(shown["until"])
    if "pause" in shown:
        shown["pause"] = {name: each for name, each in shown["pause"].items() if name not in ("nonce_hash", "until")}
    if "schedule" in shown:
        shown["schedule"] = {name: each for name, each in shown["schedule"].items() if name != "next"}
    shown["status"] = value["state"]
    shown["steps"] = value.get("steps") or [dict(each) for each in outcomes]
    if "cancelled" in value:
        shown["cancelled"] = value["cancelled"]
    if "ended_at" in value:
        shown["ended_at"] = value["ended_at"]
    return shown


def stamp(now: float) -> str:
    """Return a time as RFC 3339 text."""
    return times.stamp(now)
