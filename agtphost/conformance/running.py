"""Running cases, and what came of each."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from fnmatch import fnmatchcase

from agtphost.conformance.case import Case
from agtphost.conformance.link import Unreachable
from agtphost.conformance.target import Target
from agtphost.conformance.verdict import Failure, Inapplicable, Need


class Outcome(Enum):
    """What came of a case."""

    PASSED = "passed"
    FAILED = "failed"
    NOT_RUN = "not run"


@dataclass(frozen=True, kw_only=True)
class Result:
    """One case, run or not."""

    case: Case
    outcome: Outcome
    message: str = ""
    """What the target did instead, or what was needed."""

    cause: str = ""
    """Of a failure: what other cases may have failed of as well."""

    seconds: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Plan:
    """
    What to run, and how.

    :param only: patterns of ids or requirement ids, with ``*`` and ``?``; empty for everything.
    :param strict: whether a case that was not run counts as failed.
    :param fail_fast: whether the first failure ends the run.
    """

    only: Sequence[str] = ()
    strict: bool = False
    fail_fast: bool = False

    def selects(self, case: Case) -> bool:
        """Whether the patterns choose a case."""
        names = (case.id, case.area, *case.requirements)
        return not self.only or any(fnmatchcase(name, pattern) for pattern in self.only for name in names)


def run(target: Target, cases: Iterable[Case], plan: Plan, report: Callable[[Result], None]) -> list[Result]:
    """
    Run the selected cases, in order.

    :param report: called after each.
    """
    results = []
    for case in cases:
        if not plan.selects(case):
            continue
        started = time.monotonic()
        outcome, message, cause = _outcome(case, target, plan)
        seconds = time.monotonic() - started
        result = Result(case=case, outcome=outcome, message=message, cause=cause, seconds=seconds)
        results.append(result)
        report(result)
        if plan.fail_fast and outcome is Outcome.FAILED:
            break
    return results


def _outcome(case: Case, target: Target, plan: Plan) -> tuple[Outcome, str, str]:
    """What came of it, the message, and of a failure the cause."""
    target.last = None
    try:
        unmet = [need for need in case.needs if not target.has(need)]
        if unmet:
            return _unmet(", ".join(map(_described, unmet)), plan)
        case.check(target)
    except Inapplicable as error:
        return _unmet(str(error), plan)
    except Failure as error:
        return Outcome.FAILED, str(error), error.cause
    except Unreachable as error:
        return Outcome.FAILED, str(error), str(error)
    except (TypeError, ValueError, LookupError, AttributeError, AssertionError, OSError, RecursionError) as error:
        # What a server sends may have any shape; one that a case cannot read ends that case, not the run.
        answer = target.last
        refusal = "" if answer is None else answer.refusal
        if refusal:
            return Outcome.FAILED, f"it is answered {refusal}, where the case needs an answer", refusal
        what = f"the answer {answer}" if answer is not None else "the answer"
        message = f"{what} has a shape that the case cannot read: {type(error).__name__}: {error}"
        return Outcome.FAILED, message, message
    return Outcome.PASSED, "", ""


def _unmet(needs: str, plan: Plan) -> tuple[Outcome, str, str]:
    message = f"needs {needs}"
    return (Outcome.FAILED, message, message) if plan.strict else (Outcome.NOT_RUN, message, "")


def _described(need: Need) -> str:
    return f"{need.what} ({need.option})" if need.option else need.what


def counts(results: Iterable[Result]) -> dict[Outcome, int]:
    """How many cases came out how."""
    found = dict.fromkeys(Outcome, 0)
    for result in results:
        found[result.outcome] += 1
    return found


def causes(results: Iterable[Result]) -> list[tuple[str, list[Case]]]:
    """The causes of failures, each with the cases that failed of it; those of most cases first."""
    found: dict[str, list[Case]] = {}
    for result in results:
        if result.outcome is Outcome.FAILED:
            found.setdefault(result.cause, []).append(result.case)
    return sorted(found.items(), key=lambda item: -len(item[1]))
