"""Run cases, and collect their results."""

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
    """The outcome of a case."""

    PASSED = "passed"
    FAILED = "failed"
    NOT_RUN = "not run"


@dataclass(frozen=True, kw_only=True)
class CaseResult:
    """The result of a case, run or not."""

    case: Case
    outcome: Outcome
    message: str = ""
    """What the target did instead, or what the case needs."""

    cause: str = ""
    """Cause of a failure, which other cases may share."""

    seconds: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Plan:
    """
    The selection of cases, and the options of a run.

    :param only: patterns of ids or requirement ids, with ``*`` and ``?``; empty for all cases.
    :param strict: whether a case that was not run counts as failed, unless it is one of another carrier.
    :param fail_fast: whether the first failure ends the run.
    """

    only: Sequence[str] = ()
    strict: bool = False
    fail_fast: bool = False

    def selects(self, case: Case) -> bool:
        """Return whether the patterns select a case."""
        names = (case.id, case.area, *case.requirements)
        return not self.only or any(fnmatchcase(name, pattern) for pattern in self.only for name in names)


def run(target: Target, cases: Iterable[Case], plan: Plan, report: Callable[[CaseResult], None]) -> list[CaseResult]:
    """
    Run the selected cases in order.

    :param report: called with each result.
    """
    results = []
    for case in cases:
        if not plan.selects(case):
            continue
        started = time.monotonic()
        outcome, message, cause = _outcome(case, target, plan)
        seconds = time.monotonic() - started
        result = CaseResult(case=case, outcome=outcome, message=message, cause=cause, seconds=seconds)
        results.append(result)
        report(result)
        if plan.fail_fast and outcome is Outcome.FAILED:
            break
    return results


def _outcome(case: Case, target: Target, plan: Plan) -> tuple[Outcome, str, str]:
    """Run a case; return its outcome, the message, and the cause of a failure."""
    target.last = None
    try:
        unmet = [need for need in case.needs if not target.has(need)]
        if unmet:
            is_other = any(need.is_of_carrier for need in unmet)
            return _unmet(", ".join(map(_describe_need, unmet)), is_failure=plan.strict and not is_other)
        case.check(target)
    except Inapplicable as error:
        return _unmet(str(error), is_failure=plan.strict)
    except Failure as error:
        return Outcome.FAILED, str(error), error.cause
    except Unreachable as error:
        return Outcome.FAILED, str(error), str(error)
    except (TypeError, ValueError, LookupError, AttributeError, AssertionError, OSError, RecursionError) as error:
        # Answers may have any shape; one that a case cannot read ends this case, but not the run.
        answer = target.last
        refusal = "" if answer is None else answer.refusal
        if refusal:
            return Outcome.FAILED, f"the target refuses with {refusal}, but the case needs an answer", refusal
        what = f"the answer {answer}" if answer is not None else "the answer"
        message = f"{what} has a shape that the case cannot read: {type(error).__name__}: {error}"
        return Outcome.FAILED, message, message
    return Outcome.PASSED, "", ""


def _unmet(needs: str, *, is_failure: bool) -> tuple[Outcome, str, str]:
    message = f"needs {needs}"
    return (Outcome.FAILED, message, message) if is_failure else (Outcome.NOT_RUN, message, "")


def _describe_need(need: Need) -> str:
    return f"{need.what} ({need.option})" if need.option else need.what


def counts(results: Iterable[CaseResult]) -> dict[Outcome, int]:
    """Return the number of cases by outcome."""
    found = dict.fromkeys(Outcome, 0)
    for result in results:
        found[result.outcome] += 1
    return found


def causes(results: Iterable[CaseResult]) -> list[tuple[str, list[Case]]]:
    """Return the causes of failures with their cases, most cases first."""
    found: dict[str, list[Case]] = {}
    for result in results:
        if result.outcome is Outcome.FAILED:
            found.setdefault(result.cause, []).append(result.case)
    return sorted(found.items(), key=lambda item: -len(item[1]))
