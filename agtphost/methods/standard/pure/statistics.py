"""ANALYZE: what numbers say of themselves, by plain statistics (methods v01 section 3.6)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from math import fsum, sqrt
from statistics import median
from typing import Any

from agtphost.handlers import parameters
from agtphost.methods.standard.pure import formats, material

TYPES = ("anomaly", "trend", "distribution", "correlation")
DISTRIBUTION = "distribution"
MAX_MEMBERS = 10
"""Members of the records that are looked at."""

MAX_FINDINGS = 500
SENSITIVITY = 0.5
LEAST_VALUES = 3
"""The fewest values of a member that are analyzed."""

NORMAL = 0.6745
"""The MAD of a normal distribution, in its standard deviations (Iglewicz and Hoaglin)."""

MEAN_DEVIATION = 1.2533
"""Its standard deviation, in its mean deviations: where more than half of the values are one and the same."""

FURTHEST = 1e9
"""Of a score."""

FLAT = 0.1
"""The least share of the variance that a line explains, where there is a trend."""

CORRELATED = 0.5
"""The least coefficient that is a finding, either way."""

_MOMENTS = ("time", "timestamp", "date", "datetime", "created_at", "updated_at", "at")

Finding = dict[str, Any]
Series = Sequence[tuple[int, float]]
"""Values of a member with the indexes of their records."""


def analyze(call: Mapping[str, Any]) -> dict[str, Any]:
    """
    Return the result of ANALYZE.

    :param call: ``target``: a list of numbers, or of records whose numbers are looked at; ``analysis_type``, all of
        them where it is missing; ``time_range``, two times with ``/`` between; ``sensitivity``; ``explain``.
    :raises agtphost.errors.Refusal: 422 for anything else.
    """
    kinds = [parameters.choice(call, "analysis_type", TYPES)] if call.get("analysis_type") is not None else list(TYPES)
    sensitivity = material.share(call, "sensitivity", SENSITIVITY)
    explain = material.flag(call, "explain")
    records = [_data_of(record) for record in formats.records(call, "target", least=1)]
    kept = _in_time_range(records, call)
    # One number has a distribution; what compares numbers with each other needs more of them.
    least = 1 if DISTRIBUTION in kinds else LEAST_VALUES
    series = _series(records, kept, least)
    if not series:
        few = "No number" if least == 1 else f"Less than {LEAST_VALUES} numbers"
        raise parameters.invalid(
            "target", f"{few} can be analysed.", "Send numbers, records with numbers, or collection:NAME."
        )
    times = _times(records, kept)
    findings: list[Finding] = []
    for kind in kinds:
        if kind == "correlation":
            findings += _correlations(series)
            continue
        for member, values in series.items():
            if kind != DISTRIBUTION and len(values) < LEAST_VALUES:
                continue
            match kind:
                case "anomaly":
                    findings += _anomalies(member, values, sensitivity)
                case "trend":
                    findings += _trend(member, values, times)
                case _:
                    findings.append(_distribution(member, values))
    if not explain:
        findings = [{name: said for name, said in each.items() if name != "explanation"} for each in findings]
    result: dict[str, Any] = {
        "findings": findings[:MAX_FINDINGS],
        "analysis_type": kinds[0] if len(kinds) == 1 else kinds,
        "examined": {"rows": len(kept), "members": [member for member in series if member]},
    }
    if len(findings) > MAX_FINDINGS:
        result["left_out"] = len(findings) - MAX_FINDINGS
    return result


_ITEM = frozenset({"collection", "id", "version", "owner", "created_at", "updated_at", "data"})
"""The members of an item as SEARCH, SCAN and PULL answer with it."""


def _data_of(record: Any) -> Any:
    """Return the data of a collection's item; other records as they are."""
    return record["data"] if isinstance(record, Mapping) and record.keys() == _ITEM else record


def _moment(value: Any) -> float | None:
    if not isinstance(value, str) or not 8 <= len(value) <= 40:
        return None
    try:
        found = datetime.fromisoformat(value)
    except ValueError:
        return None
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()


def _time_member(records: Sequence[Any]) -> str:
    first = records[0]
    if not isinstance(first, Mapping):
        return ""
    named = [name for name in _MOMENTS if name in first]
    return next((name for name in (*named, *first) if _moment(first[name]) is not None), "")


def _in_time_range(records: Sequence[Any], call: Mapping[str, Any]) -> list[int]:
    """Return the indexes of records in the time range; all of them where there is none."""
    wanted = parameters.text(call, "time_range")
    if wanted is None:
        return [*range(len(records))]
    begin, slash, end = wanted.partition("/")
    first, last = _moment(begin), _moment(end)
    if not slash or first is None or last is None:
        raise parameters.invalid(
            "time_range", "time_range is not two times of ISO 8601 with / between.", "Send 2026-01-01/2026-03-31."
        )
    if len(end) == len("2026-03-31"):
        last += 86_400 - 1e-3
    member = _time_member(records)
    if not member:
        raise parameters.invalid("time_range", "The records of target have no time.", "Leave time_range out.")
    moments = ((index, _moment(record.get(member))) for index, record in enumerate(records) if _is_record(record))
    return [index for index, moment in moments if moment is not None and first <= moment <= last]


def _is_record(value: Any) -> bool:
    return isinstance(value, Mapping)


def _series(records: Sequence[Any], kept: Sequence[int], least: int) -> dict[str, list[tuple[int, float]]]:
    there = [records[index] for index in kept]
    if there and not isinstance(there[0], Mapping):
        plain = [(index, value) for index in kept if (value := material.number(records[index])) is not None]
        return {"": plain} if len(plain) >= least else {}
    found: dict[str, list[tuple[int, float]]] = {}
    for member in material.numeric_places(there, MAX_MEMBERS):
        pairs = ((index, records[index].get(member)) for index in kept if _is_record(records[index]))
        values = [(index, value) for index, said in pairs if (value := material.number(said)) is not None]
        if len(values) >= least:
            found[member] = values
    return found


def _times(records: Sequence[Any], kept: Sequence[int]) -> dict[int, float]:
    member = _time_member(records)
    if not member:
        return {}
    pairs = ((index, _moment(records[index].get(member))) for index in kept if _is_record(records[index]))
    return {index: moment for index, moment in pairs if moment is not None}


def _finding(kind: str, member: str, confidence: float, explanation: str, **more: Any) -> Finding:
    named = {"member": member} if member else {}
    return {"type": kind, **named, **more, "confidence": round(confidence, 4), "explanation": explanation}


def _anomalies(member: str, values: Series, sensitivity: float) -> Iterator[Finding]:
    """Values far from the median, in units of the median deviation from it."""
    plain = [value for _, value in values]
    middle = median(plain)
    deviation = median(abs(value - middle) for value in plain)
    scale, kind = deviation / NORMAL, "the median deviation (MAD)"
    if not scale:
        scale, kind = MEAN_DEVIATION * fsum(abs(value - middle) for value in plain) / len(plain), "the mean deviation"
    if not scale:
        return
    threshold = 6.0 - 5.0 * sensitivity
    scored = [(min(abs(value - middle) / scale, FURTHEST), index, value) for index, value in values]
    for score, index, value in sorted((each for each in scored if each[0] > threshold), key=lambda each: -each[0]):
        yield _finding(
            "anomaly",
            member,
            score / (score + threshold),
            f"{_format_value(value)} is {score:.1f} times {kind} away from the median {_format_value(middle)};"
            f" more than {threshold:.1f} counts.",
            index=index,
            value=value,
            score=round(score, 2),
            expected={"median": middle, "from": middle - threshold * scale, "to": middle + threshold * scale},
        )


def _trend(member: str, values: Series, times: Mapping[int, float]) -> Iterator[Finding]:
    """Fit a line through the values, over the days of their times, or over their order if they have none."""
    days = len(times) >= LEAST_VALUES and all(index in times for index, _ in values)
    across = [times[index] / 86_400 if days else float(number) for number, (index, _) in enumerate(values)]
    plain = [value for _, value in values]
    spread, covariance, _ = _moments(across, plain)
    if not spread:
        return
    slope = covariance / spread
    explained = _correlation(across, plain) ** 2
    direction = "flat" if explained < FLAT or not slope else "rising" if slope > 0 else "falling"
    unit = "day" if days else "row"
    yield _finding(
        "trend",
        member,
        explained if direction != "flat" else 1.0 - explained,
        f"A line rises by {_format_value(slope)} a {unit} and explains {explained:.0%} of how the values differ.",
        direction=direction,
        slope=slope,
        unit=unit,
        r_squared=round(explained, 4),
    )


def _distribution(member: str, values: Series) -> Finding:
    plain = sorted(value for _, value in values)
    count = len(plain)
    mean = fsum(plain) / count
    spread = fsum((value - mean) ** 2 for value in plain)
    # One value has no spread that says anything of others.
    deviation = {"standard_deviation": sqrt(spread / (count - 1))} if count > 1 else {}
    places = {"p5": 0.05, "q1": 0.25, "median": 0.5, "q3": 0.75, "p95": 0.95}
    common = Counter(plain).most_common(1)[0]
    return _finding(
        "distribution",
        member,
        1.0 - 1.0 / sqrt(count),
        f"{count} values; the confidence is that of their mean, and grows with the root of their number.",
        count=count,
        min=plain[0],
        max=plain[-1],
        mean=mean,
        **deviation,
        quantiles={name: _quantile(plain, share) for name, share in places.items()},
        most_common={"value": common[0], "count": common[1]},
    )


def _correlations(series: Mapping[str, Series]) -> Iterator[Finding]:
    """Pairs of members that rise or fall together, by Pearson."""
    members = [(member, dict(values)) for member, values in series.items()]
    for number, (one, first) in enumerate(members):
        for other, second in members[number + 1 :]:
            both = first.keys() & second.keys()
            if len(both) < LEAST_VALUES:
                continue
            order = sorted(both)
            found = _correlation([first[index] for index in order], [second[index] for index in order])
            if abs(found) >= CORRELATED:
                together = "rise and fall together" if found > 0 else "go opposite ways"
                yield _finding(
                    "correlation",
                    "",
                    abs(found) * (1 - 1 / sqrt(len(order))),
                    f"{one} and {other} {together} in {len(order)} records (Pearson {found:.2f}).",
                    members=[one, other],
                    coefficient=round(found, 4),
                )


def _moments(one: Sequence[float], other: Sequence[float]) -> tuple[float, float, float]:
    """Sums of squares and of products around the means."""
    count = len(one)
    first, second = fsum(one) / count, fsum(other) / count
    left, right = [value - first for value in one], [value - second for value in other]
    return _product(left, left), _product(left, right), _product(right, right)


def _product(one: Sequence[float], other: Sequence[float]) -> float:
    return fsum(map(_times_of, one, other))


_times_of: Callable[[float, float], float] = float.__mul__


def _correlation(one: Sequence[float], other: Sequence[float]) -> float:
    first, both, second = _moments(one, other)
    whole = sqrt(first) * sqrt(second)
    return max(-1.0, min(1.0, both / whole)) if whole else 0.0


def _quantile(ordered: Sequence[float], share: float) -> float:
    """Return a quantile by linear interpolation between neighbouring values."""
    place = share * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def _format_value(value: float) -> str:
    return f"{value:.6g}"
