"""Times at which a workflow continues without a call: its start, its repetitions, or the end of its pause."""

from __future__ import annotations

from collections.abc import Mapping
from math import floor
from typing import Any, Final

from agtphost.handlers import parameters
from agtphost.methods.standard.orchestration import workflow_items
from agtphost.vocabulary.reasons import Reason

SHORTEST: Final = 60
"""Seconds between two runs."""

LONGEST: Final = 366 * 86_400
MOST_RUNS: Final = 10_000


def read(given: Mapping[str, Any], now: float) -> dict[str, Any] | None:
    """
    Read ``start_at``, ``every`` and ``runs`` of a CHAIN.

    :return: None where it begins immediately, and runs once.
    :raises agtphost.errors.Refusal: 422 naming the parameter.
    """
    start = parameters.moment(given, "start_at")
    every, runs = given.get("every"), given.get("runs")
    if start is not None and not now < start <= now + LONGEST:
        raise parameters.invalid("start_at", "start_at has passed, or is more than a year ahead.", "Send a later time.")
    if every is not None and (
        isinstance(every, bool) or not isinstance(every, (int, float)) or not SHORTEST <= every <= LONGEST
    ):
        raise parameters.invalid("every", f"every is not a number of seconds from {SHORTEST} on.", "Send seconds.")
    if runs is not None and (isinstance(runs, bool) or not isinstance(runs, int) or not 1 <= runs <= MOST_RUNS):
        raise parameters.invalid("runs", f"runs is not a number from 1 to {MOST_RUNS}.", "Send the number of runs.")
    if runs is not None and every is None:
        raise parameters.invalid("runs", "runs is sent without every.", "Send every, or leave runs out.")
    if start is None and every is None:
        return None
    first = now if start is None else start
    return {
        "next": first,
        "next_at": workflow_items.stamp(first),
        "every": every,
        "left": runs or (MOST_RUNS if every else 1),
    }


def once(at: float) -> dict[str, Any]:
    """
    Return the schedule of a single run.

    :param at: seconds since the epoch.
    """
    return {"next": at, "next_at": workflow_items.stamp(at), "every": None, "left": 1}


def next_due(value: Mapping[str, Any]) -> float | None:
    """Return when a scheduled or paused workflow continues without a call; None where it does not."""
    if value["state"] == workflow_items.PAUSED:
        until: float | None = value.get("pause", {}).get("until")
        return until
    return float(value["schedule"]["next"])


def begin_run(value: Mapping[str, Any], now: float) -> dict[str, Any]:
    """Return a workflow whose scheduled time has come, with its new state."""
    changed = dict(value)
    if value["state"] == workflow_items.PAUSED:
        before = changed.pop("pause")["before"]
        changed["state"] = before
        return changed
    changed["state"] = workflow_items.RUNNING
    changed["run"] = value.get("run", 0) + 1
    for gone in ("steps", "why", "ended_at"):
        changed.pop(gone, None)
    seconds = value["definition"].get("timeout")
    if seconds is not None:
        changed["until"] = now + seconds
    return changed


def is_repeated(value: Mapping[str, Any]) -> bool:
    """Return whether another run follows this one."""
    planned = value.get("schedule")
    return planned is not None and bool(planned["every"]) and planned["left"] > 1


def _is_revoked(value: Mapping[str, Any]) -> bool:
    """Return whether the last run failed because its caller, and not an agent in the path of a step, is revoked."""
    why, authority = value.get("why") or {}, value.get("authority") or {}
    addressed = str(why.get("path", "")).startswith("/agents/") or authority.get("at")
    return bool(why.get("reason") == Reason.AGENT_RETIRED and not addressed)


def schedule_next(value: Mapping[str, Any], now: float, pause: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """
    Return a workflow after a run: ended, or scheduled for the next one. Missed runs are left out.

    There is no next run if the caller has been revoked, because that is permanent.

    :param pause: the PAUSE that its owner sent while the run was on its last step.
    """
    changed = dict(value)
    if not is_repeated(value) or _is_revoked(value):
        return changed
    planned = value["schedule"]
    # The time that it had was that run's.
    changed.pop("until", None)
    following = planned["next"] + planned["every"]
    if following <= now:
        following += planned["every"] * (floor((now - following) / planned["every"]) + 1)
    changed["schedule"] = {
        **planned,
        "next": following,
        "next_at": workflow_items.stamp(following),
        "left": planned["left"] - 1,
    }
    changed["last"] = changed["state"]
    changed["state"] = workflow_items.SCHEDULED
    if pause is not None:
        changed.update(state=workflow_items.PAUSED, pause={**pause, "before": workflow_items.SCHEDULED})
    return changed
