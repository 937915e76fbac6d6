"""
The plan of a CHAIN: its steps, checked as a whole before the first is taken (methods v01 section 8.1).

The steps are those of recipes (:mod:`agtphost.contract.recipes.recipe`), and so are their expressions: with
``context_propagation`` a text that begins with ``=`` is JMESPath over what earlier steps gave, each under the name of
its ``capture``, or ``step1``, ``step2`` ..., and the last of them as ``previous``. Without it every text is itself.
A plan is read from what the caller sent and, after a restart, from the same again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from agtphost.contract.recipes.expression import MARK, Expression, ExpressionError, ValueMapping
from agtphost.contract.recipes.recipe import Step
from agtphost.handlers import parameters
from agtphost.methods.standard.orchestration import call_readers, taint
from agtphost.methods.standard.orchestration.call_readers import Find, Ordered, wrong
from agtphost.methods.standard.orchestration.planned_step import Planned, Ready
from agtphost.vocabulary import jsontext
from agtphost.vocabulary.paths import PathError, parse_template

MOST_STEPS: Final = 50
LONGEST: Final = 65_536
"""Octets of a definition, which is kept as long as the workflow is."""

MOST_EXPRESSIONS: Final = 4_096
"""Characters of all expressions of a request."""

LONGEST_TIMEOUT: Final = 86_400
ABORT, SKIP, RETRY, ESCALATE = "abort", "skip", "retry", "escalate"
FAILURES: Final = (ABORT, SKIP, RETRY, ESCALATE)
FURTHER: Final = 3
"""Attempts that ``retry`` adds, of steps that may be repeated."""

STEP: Final = (*call_readers.MEMBERS, "path_parameters", "capture", "when", "timeout")
PREVIOUS: Final = "previous"

_CAPTURE = re.compile(r"[a-z][a-z0-9_]{0,63}", re.ASCII)
_MOST_NODES = 2_000
"""Members and entries in all parameters of a chain."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainPlan:
    """A chain that can be begun."""

    steps: Sequence[Planned]
    on_failure: str
    propagates: bool
    timeout: float | None
    """Seconds for all steps together; None: as long as the workflow may last."""


def definition(given: Mapping[str, Any]) -> dict[str, Any]:
    """
    Return the parameters of a CHAIN to store.

    :raises agtphost.errors.Refusal: 422 where it is too much.
    """
    names = ("steps", "on_failure", "context_propagation", "timeout")
    kept = {name: given[name] for name in names if name in given}
    if len(jsontext.encode(kept)) > LONGEST:
        raise parameters.invalid("steps", f"The steps have more than {LONGEST} octets.", "Send less.")
    return kept


def read(given: Mapping[str, Any], find: Find) -> ChainPlan:
    """
    Check a chain.

    :param find: what a method on a path is bound to.
    :raises agtphost.errors.Refusal: 422 naming the parameter, and the step.
    """
    entries = call_readers.read_list(given, "steps", MOST_STEPS)
    _require_bounded(entries)
    on_failure = parameters.choice(given, "on_failure", FAILURES, ABORT)
    propagates = given.get("context_propagation", False)
    if not isinstance(propagates, bool):
        raise parameters.invalid("context_propagation", "It is neither true nor false.", "Send true or false.")
    if propagates:
        require_few(_expressions(entries), "steps")
    known: list[str] = []
    steps = []
    for number, entry in enumerate(entries, 1):
        planned = _read_step(entry, number, known, find, on_failure, propagates=propagates)
        steps.append(planned)
        known.append(planned.name)
    return ChainPlan(
        steps=taint.check_taint(steps),
        on_failure=on_failure,
        propagates=propagates,
        timeout=seconds(given, "timeout", LONGEST_TIMEOUT),
    )


def seconds(given: Mapping[str, Any], name: str, most: float) -> float | None:
    """Return an optional duration in seconds, greater than 0; None if it is missing."""
    value = given.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= most:
        raise parameters.invalid(name, f"{name} is not a number of seconds up to {most:g}.", f"Send {name} in seconds.")
    return float(value)


def _expressions(entries: Sequence[Any]) -> Iterator[str]:
    for entry in entries:
        yield from (text for text in texts(entry) if text.startswith(MARK))
        if isinstance(entry, Mapping) and isinstance(entry.get("when"), str):
            yield entry["when"]


def require_few(expressions: Iterable[str], name: str) -> None:
    """
    Limit the total length of expressions before they are compiled, which is slow.

    :raises agtphost.errors.Refusal: 422 for the parameter.
    """
    if sum(map(len, expressions)) > MOST_EXPRESSIONS:
        explanation = f"The expressions together have more than {MOST_EXPRESSIONS} characters."
        raise parameters.invalid(name, explanation, "Send fewer or shorter ones.")


def _require_bounded(entries: Sequence[Any]) -> None:
    waiting: list[Any] = list(entries)
    seen = 0
    while waiting:
        value = waiting.pop()
        seen += 1
        if seen > _MOST_NODES:
            raise parameters.invalid("steps", f"The steps have more than {_MOST_NODES} values.", "Send fewer.")
        if isinstance(value, Mapping):
            waiting.extend(value.values())
        elif isinstance(value, list):
            waiting.extend(value)


def _read_step(
    entry: Any, number: int, known: Sequence[str], find: Find, on_failure: str, *, propagates: bool
) -> Planned:
    call = call_readers.read_call(entry, "steps", number, STEP)
    capture = entry.get("capture")
    if capture is not None and (not isinstance(capture, str) or not _CAPTURE.fullmatch(capture)):
        raise wrong("steps", number, "has a capture that is not a name", "Send a name such as found.")
    name = capture or f"step{number}"
    if name in (*known, PREVIOUS):
        raise wrong("steps", number, f"takes the name {name!r}, which is taken", "Send another capture.")
    visible = (*known, PREVIOUS) if propagates and known else ()
    repeatable = bool(call.key) or call_readers.repeatable(find, call.method, call.path)
    return Planned(
        step=Step(
            number=number,
            method=call.method,
            path=call.path,
            parameters=_path_parameters(entry, call, visible),
            input=_mapping(call.parameters, number, visible) if propagates else Ready(call.parameters),  # type: ignore[arg-type]
            when=_when(entry, number, visible, propagates=propagates),
            timeout=seconds(entry, "timeout", LONGEST_TIMEOUT),
            retries=FURTHER if on_failure == RETRY and repeatable else 0,
        ),
        name=name,
        key=call.key,
        repeatable=repeatable,
    )


def _path_parameters(entry: Mapping[str, Any], call: Ordered, visible: Sequence[str]) -> Any:
    try:
        wanted = parse_template(call.path).parameters if "{" in call.path else ()
    except PathError as error:
        raise wrong("steps", call.number, f"has the path {call.path[:80]}: {error}", "Send a path.") from None
    given = entry.get("path_parameters", {})
    if not isinstance(given, Mapping) or set(given) != set(wanted):
        names = ", ".join(wanted) or "none"
        raise wrong("steps", call.number, f"lacks path_parameters of its path: {names}", "Send a value for each.")
    if not wanted:
        return None
    return _mapping(given, call.number, visible) if visible else Ready(given)


def _when(entry: Mapping[str, Any], number: int, visible: Sequence[str], *, propagates: bool) -> Expression | None:
    text = entry.get("when")
    if text is None:
        return None
    if not propagates:
        raise wrong(
            "steps", number, "has when, but no earlier result that it could test", "Send context_propagation true."
        )
    if not isinstance(text, str):
        raise wrong("steps", number, "has a when that is not text", "Send JMESPath.")
    return _expression(text.removeprefix(MARK), number, visible)


def _mapping(value: Any, number: int, visible: Sequence[str]) -> ValueMapping:
    for text in texts(value):
        if text.startswith(MARK):
            _expression(text[len(MARK) :], number, visible)

    def say(at: tuple[str | int, ...], message: str, hint: str, _: str) -> None:
        raise wrong("steps", number, f"at {'.'.join(map(str, at))[:80]}: {message}", hint)

    return ValueMapping(value, say)


def _expression(text: str, number: int, visible: Sequence[str]) -> Expression:
    try:
        expression = Expression(text)
    except ExpressionError as error:
        raise wrong("steps", number, f"has an invalid expression: {error}", "Send JMESPath.") from None
    if expression.spread > 1:
        raise wrong("steps", number, "has an expression that builds lists out of lists", "Build them in parameters.")
    unknown = sorted(expression.names.difference(visible))
    if unknown:
        named = ", ".join(visible) or "nothing: it is the first, or context_propagation is not true"
        raise wrong("steps", number, f"looks for {unknown[0][:64]!r}", f"Known there: {named}.")
    return expression


def texts(value: Any) -> Iterator[str]:
    """Yield every text in a JSON value; of objects, the members' values."""
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, str):
            yield each
        elif isinstance(each, Mapping):
            waiting.extend(each.values())
        elif isinstance(each, list):
            waiting.extend(each)
