"""The functions that a worker process may run, and the form of what goes in and comes out."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from agtphost.errors import Refusal
from agtphost.vocabulary import jsontext
from agtphost.vocabulary.jsonslices import least_octets, slices
from agtphost.vocabulary.reasons import Reason

MAX_RESULT = 2_097_152
"""Octets of the JSON of one result. An input has half of that at most, and some results repeat it with additions."""

SMALL = 100
"""Values of an input that may be worked on in the reactor's thread; each 50 characters count as one more."""

CHARACTERS = 50

REMEDY = "Send less, or send it in parts."


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """
    A pure function that is registered: it takes JSON-compatible data and returns such data, or raises ``Refusal``.

    It has no state and reads none: no files, no configuration, no clock.
    """

    path: str
    """Where it is: ``module:name``. The module is imported by the process that runs it."""

    small: int = SMALL
    """Values of the largest input that is worked on in the reactor's thread; 0 where even a small one takes long."""

    cheap: Callable[[Any], bool] = lambda given: True
    """Whether the cost of a small input grows with its size alone."""

    prepare: str = ""
    """A function without parameters, ``module:name``, that a worker calls once before it forks: it fills caches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Computation:
    """Work that a handler returns in place of an answer; the dispatcher runs it."""

    function: str
    """The name of a registered function."""

    given: Any = None
    """What the function is called with: JSON-compatible data."""

    read: Callable[[], Generator[None, None, Any]] | None = None
    """
    Makes :attr:`given` in steps when the turn of the computation has come; it is never small then.

    It may return ``Encoded`` JSON: items that are stored as JSON need not be decoded and written again.
    """

    finish: Callable[[Any], Any] | None = None
    """
    Makes the answer of the function's result, in the reactor's thread; None where the result is the answer.

    It may return another computation. So long work goes to the workers in parts, and other callers take turns with it.
    """


PLAIN_EXPRESSION = re.compile(r"(?:[^\[\](){}*&]|&&)*")
"""JMESPath that takes one step for each of its parts: without projections, functions and lists."""

_PURE = "agtphost.methods.standard.pure"


def _is_plain_filter(given: Any) -> bool:
    """Return whether criteria are an object, or JMESPath of names and comparisons."""
    criteria = given.get("criteria")
    return not isinstance(criteria, str) or PLAIN_EXPRESSION.fullmatch(criteria) is not None


def _is_short_text(given: Any) -> bool:
    """Return whether a source is data, or a text in which names repeated for each row come to little."""
    source = given.get("source")
    return not isinstance(source, str) or len(source) <= 500


def _has_schema(given: Any) -> bool:
    """Return whether a target is checked against a schema that came with it, and not against a set of rules."""
    return isinstance(given.get("schema"), Mapping)


def _has_no_loop(given: Any) -> bool:
    """Return whether a formula goes over no list: one inside another multiplies the steps."""
    waiting = [given.get("expression"), *given.get("formulas", {}).values()]
    while waiting:
        each = waiting.pop()
        if isinstance(each, Mapping):
            if "over" in each:
                return False
            waiting.extend(each.values())
        elif isinstance(each, list):
            waiting.extend(each)
    return True


FUNCTIONS: Final[Mapping[str, Function]] = {
    "analyze": Function(path=f"{_PURE}.statistics:analyze"),
    "calculate": Function(path=f"{_PURE}.calculate:calculate", cheap=_has_no_loop),
    "calculate-registered": Function(path=f"{_PURE}.calculate:calculate_registered", cheap=_has_no_loop),
    "classify": Function(path=f"{_PURE}.classify:check", small=40),
    "evaluate": Function(path=f"{_PURE}.scorecards:evaluate", small=40),
    "held-items": Function(
        path=f"{_PURE}.collection_methods:compute", small=0, prepare=f"{_PURE}.collection_methods:prepare"
    ),
    "match-items": Function(path=f"{_PURE}.item_criteria:match", small=0, prepare=f"{_PURE}.item_criteria:prepare"),
    "extract": Function(path=f"{_PURE}.extraction:check", small=40),
    "filter": Function(path=f"{_PURE}.filter_records:filter_records", cheap=_is_plain_filter),
    "generate": Function(path=f"{_PURE}.templates:generate"),
    "map": Function(path=f"{_PURE}.map_fields:map_fields", small=20),
    "merge": Function(path=f"{_PURE}.merge:merge"),
    "normalize-date": Function(path=f"{_PURE}.normalize:normalize"),
    # Phone numbers, amounts and units need packages whose tables take up to a second to read.
    "normalize-currency": Function(
        path=f"{_PURE}.normalize:normalize", small=0, prepare=f"{_PURE}.normalize:prepare_currency"
    ),
    "normalize-phone": Function(
        path=f"{_PURE}.normalize:normalize", small=0, prepare=f"{_PURE}.normalize:prepare_phone"
    ),
    "normalize-unit": Function(path=f"{_PURE}.normalize:normalize", small=0, prepare=f"{_PURE}.normalize:prepare_unit"),
    "rank": Function(path=f"{_PURE}.rank:rank"),
    "transform": Function(path=f"{_PURE}.transform:transform", cheap=_is_short_text),
    "validate": Function(path=f"{_PURE}.validate:validate", small=40, cheap=_has_schema),
}
"""By name. A worker runs these and no others."""


def size_of(value: Any, most: int) -> int:
    """Count the values of an input, and one more for each :data:`CHARACTERS` of text; no further than ``most``."""
    found = 0
    waiting = [value]
    while waiting and found <= most:
        each = waiting.pop()
        found += 1 + (len(each) // CHARACTERS if isinstance(each, str) else 0)
        if isinstance(each, Mapping):
            found += len(each)
            if found <= most:
                waiting.extend(each.values())
                found += sum(len(name) for name in each) // CHARACTERS
        elif isinstance(each, list):
            found += len(each)
            if found <= most:
                waiting.extend(each)
    return found


def is_small(computation: Computation) -> bool:
    """
    Return whether a computation takes about a millisecond at the most, so that it runs in the reactor's thread.

    The one place that decides this: a fork, two pipes and the encoding take longer than such a computation.
    """
    function = FUNCTIONS[computation.function]
    most = function.small
    if most == 0 or computation.read is not None:
        return False
    return size_of(computation.given, most) <= most and function.cheap(computation.given)


@cache
def resolve(path: str) -> Callable[..., Any]:
    """Import what ``module:name`` names."""
    module, _, name = path.partition(":")
    found: Callable[..., Any] = getattr(importlib.import_module(module), name)
    return found


def call(name: str, given: Any) -> Any:
    """
    Run a registered function in this process.

    :raises Refusal: its own, and 422 for a result of more than :data:`MAX_RESULT` octets.
    """
    result = resolve(FUNCTIONS[name].path)(given)
    if least_octets(result, MAX_RESULT) > MAX_RESULT:
        raise too_long()
    return result


RESULT, REFUSAL, TOO_MUCH_TIME, TOO_MUCH_MEMORY, FAILED, STOPPED, READY = (b"=", b"!", b"t", b"m", b"e", b"k", b".")
"""What a worker says of a computation, in one octet: the kinds of its answers."""


def perform(name: str, octets: bytes) -> tuple[bytes, bytes]:
    """
    Run a registered function on encoded data.

    :param octets: JSON.
    :return: :data:`RESULT` and its JSON, or :data:`REFUSAL` and the JSON of :func:`refusal_to_json`.
    """
    try:
        return RESULT, encode_result(call(name, jsontext.decode_kept(octets)))
    except Refusal as refusal:
        return REFUSAL, jsontext.encode(refusal_to_json(refusal))
    except RecursionError:
        return REFUSAL, jsontext.encode(refusal_to_json(too_costly("The input is nested too deeply for this method.")))


def encode_result(result: Any) -> bytes:
    """
    Return the JSON of a result.

    :raises Refusal: 422 for more than :data:`MAX_RESULT` octets; the rest of it is not written.
    """
    parts: list[bytes] = []
    octets = 0
    for part in slices(result):
        octets += len(part)
        if octets > MAX_RESULT:
            raise too_long()
        parts.append(part)
    return b"".join(parts)


def too_costly(explanation: str) -> Refusal:
    """Return the refusal of a computation that goes beyond a limit."""
    return Refusal(Reason.COMPUTATION_TOO_COSTLY, explanation, remedy=REMEDY)


def too_long() -> Refusal:
    """Return the refusal of a result of more than :data:`MAX_RESULT` octets."""
    return too_costly(f"The result has more than {MAX_RESULT} octets.")


def refusal_to_json(refusal: Refusal) -> dict[str, Any]:
    """Return a refusal as data."""
    return {
        "reason": str(refusal.reason),
        "status": int(refusal.status),
        "explanation": refusal.explanation,
        "remedy": refusal.remedy,
        "details": dict(refusal.details),
    }


def refusal_from_json(data: Mapping[str, Any]) -> Refusal:
    """Return the refusal that :func:`refusal_to_json` wrote."""
    reason = Reason(data["reason"])  # type: ignore[call-arg]
    status = next(each for each in reason.statuses if int(each) == data["status"])
    return Refusal(reason, data["explanation"], status=status, remedy=data["remedy"], details=data["details"])
