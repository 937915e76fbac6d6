"""
EVALUATE: a target against a scorecard, with a score and a reason for each criterion (methods v01 section 4.11).

Scores that a criterion declares are computed here; how well a text covers ``keywords`` is for a provider to say.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agtphost.handlers import parameters
from agtphost.methods.standard.pure import criteria as conditions
from agtphost.methods.standard.pure import material

MAX_CRITERIA = 100
RUBRIC = (("excellent", 0.85), ("good", 0.7), ("fair", 0.5), ("poor", 0.0))
_WAYS = ("best", "values", "keywords", "meets", "scale")

EXAMPLE = 'Send [{"name": "price", "best": 1000, "worst": 5000}, {"name": "references", "scale": 10}].'


@dataclass(frozen=True, kw_only=True)
class Score:
    """The score of one criterion."""

    value: float
    """From 0 to 1."""

    why: str


def evaluate(job: Mapping[str, Any]) -> dict[str, Any]:
    """
    Return the result of EVALUATE; or, for a provider that was not asked yet, what it is asked.

    :param job: ``call``: ``target``, an object or a text; ``criteria``, each with a name, the ``member`` of the
        target that it is about (its name, where that is missing) and one way to score it: ``best`` and ``worst``
        (numbers), ``scale`` (the largest number), ``values`` (scores from 0 to 1 by value), ``meets`` (criteria as of
        FILTER, for the whole target), or ``keywords``, which a provider scores; ``weights`` by name; ``rubric``:
        labels with the least composite that earns them. ``found``: the provider's result, with ``scores`` that each
        have a ``score`` and possibly a ``rationale``.
    :return: ``asked``: the target, and the criteria with keywords; or ``result``; or the ``fault`` of the provider.
    :raises agtphost.errors.Refusal: 422 for parameters of another form.
    """
    call = job["call"]
    target = material.require(call, "target")
    if isinstance(target, str):
        target = {"text": material.text(call, "target")}
    if not isinstance(target, Mapping):
        raise parameters.invalid("target", "target is neither an object nor a text.", "Send one of them.")
    listed = _criteria(call)
    weights = _weights(call, [name for name, _ in listed])
    rubric = _rubric(call)
    found = {name: _score(target, name, criterion) for name, criterion in listed}
    judged = [(name, criterion) for name, criterion in listed if found[name] is None]
    if judged and "found" not in job:
        asked = [
            {"name": name, "member": each.get("member", name), "keywords": each["keywords"]} for name, each in judged
        ]
        return {"asked": {"target": target, "criteria": asked}}
    offered = job["found"].get("scores") if judged else []
    if not isinstance(offered, list) or len(offered) != len(judged) or not all(map(_is_score, offered)):
        return {"fault": "its result does not have one of scores from 0 to 1 for each criterion"}
    for (name, _), each in zip(judged, offered, strict=True):
        found[name] = Score(value=float(each["score"]), why=str(each.get("rationale") or "A provider says so.")[:1_000])
    scores: list[dict[str, Any]] = []
    composite = 0.0
    for name, score in found.items():
        assert score is not None
        composite += weights[name] * score.value
        scores.append(
            {
                "criterion": name,
                "score": round(score.value, 4),
                "weight": round(weights[name], 4),
                "label": _label(score.value, rubric),
                "rationale": score.why,
            }
        )
    composite = round(composite, 4)
    result = {
        "scores": scores,
        "composite": composite,
        "label": _label(composite, rubric),
        "rationale": _narrative(scores, composite, _label(composite, rubric)),
    }
    return {"result": result}


def _is_score(offered: Any) -> bool:
    score = material.number(offered.get("score")) if isinstance(offered, Mapping) else None
    return score is not None and 0 <= score <= 1


def _criteria(call: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    said = material.require(call, "criteria")
    members: list[tuple[str, Mapping[str, Any]]]
    if isinstance(said, Mapping):
        members = [(str(name), each if isinstance(each, Mapping) else {"scale": each}) for name, each in said.items()]
    elif isinstance(said, list):
        members = [
            (each, {})
            if isinstance(each, str)
            else (each.get("name", ""), each)
            if isinstance(each, Mapping)
            else ("", {})
            for each in said
        ]
    else:
        members = []
    names = [name for name, _ in members]
    if not 0 < len(members) <= MAX_CRITERIA or not all(
        isinstance(name, str) and 0 < len(name) <= 128 for name in names
    ):
        raise _criteria_error(f"criteria is not a list of 1 to {MAX_CRITERIA} criteria with names.")
    if len({*names}) != len(names):
        raise _criteria_error("criteria has a name twice.")
    return members


def _criteria_error(what: str) -> Exception:
    return parameters.invalid("criteria", what, EXAMPLE)


def _weights(call: Mapping[str, Any], names: Sequence[str]) -> dict[str, float]:
    """Shares of the composite, which come to 1."""
    said = call.get("weights")
    if said is None:
        return {name: 1 / len(names) for name in names}
    if isinstance(said, list):
        said = dict(zip(names, said, strict=False)) if len(said) == len(names) else None
    if not isinstance(said, Mapping) or not {*said} <= {*names}:
        raise parameters.invalid("weights", "weights names an unknown criterion.", "Give a number for each criterion.")
    numbers = {name: material.number(said.get(name, 0 if said else 1)) for name in names}
    total = sum(value or 0.0 for value in numbers.values())
    if any(value is None or value < 0 for value in numbers.values()) or not total:
        raise parameters.invalid("weights", "A weight is negative or no number, or all are 0.", "Send 3, 2, 1.")
    return {name: (value or 0.0) / total for name, value in numbers.items()}


def _rubric(call: Mapping[str, Any]) -> list[tuple[str, float]]:
    """Labels with the least score that earns them, the best first."""
    said = call.get("rubric")
    if said is None:
        return list(RUBRIC)
    if isinstance(said, Mapping):
        pairs = [(name, material.number(least)) for name, least in said.items()]
    elif isinstance(said, list) and all(isinstance(each, Mapping) for each in said):
        pairs = [(each.get("label"), material.number(each.get("min"))) for each in said]
    else:
        pairs = []
    found = [(name, least) for name, least in pairs if isinstance(name, str) and name and least is not None]
    if not found or len(found) != len(pairs) or len(found) > MAX_CRITERIA:
        raise parameters.invalid("rubric", "rubric is not an object of minimum scores by label.", 'Send {"good": 0.7}.')
    return sorted(found, key=lambda each: -each[1])


def _label(score: float, rubric: Sequence[tuple[str, float]]) -> str:
    return next((label for label, least in rubric if score >= least), rubric[-1][0])


def _score(target: Mapping[str, Any], name: str, criterion: Mapping[str, Any]) -> Score | None:
    """Return the score of a criterion; None for a provider to score."""
    ways = [way for way in _WAYS if way in criterion]
    if len(ways) > 1 or not criterion.keys() <= {"name", "member", "worst", "description", *_WAYS}:
        raise _criteria_error(f"The criterion {name[:64]!r} has more than one way to be scored, or members of none.")
    if ways == ["meets"]:
        holds = conditions.compile_criteria(criterion["meets"], "criteria")(target)
        return Score(value=float(holds), why=f"The target {'meets' if holds else 'does not meet'} what is asked.")
    member = criterion.get("member", name)
    if not material.is_place(member):
        raise _criteria_error(f"The criterion {name[:64]!r} is about no member.")
    if ways == ["keywords"]:
        keywords = criterion["keywords"]
        if not isinstance(keywords, list) or not 0 < len(keywords) <= MAX_CRITERIA or not all(map(_is_text, keywords)):
            raise _criteria_error(f"The criterion {name[:64]!r} has no list of keywords.")
        return None
    value = material.at(target, member)
    if value is material.MISSING or value is None:
        return Score(value=0.0, why=f"The target does not say {member[:64]!r}.")
    match ways:
        case ["best"]:
            return _score_range(name, value, criterion)
        case ["values"]:
            return _score_values(name, value, criterion["values"])
        case _:
            return _score_scale(name, value, criterion.get("scale", 1))


def _score_range(name: str, value: Any, criterion: Mapping[str, Any]) -> Score:
    best, worst = material.number(criterion["best"]), material.number(criterion.get("worst"))
    if best is None or worst is None or best == worst:
        raise _criteria_error(f"The criterion {name[:64]!r} has no best and worst that are different numbers.")
    found = material.number(value)
    if found is None:
        return Score(value=0.0, why="The target says no number.")
    score = max(0.0, min(1.0, (found - worst) / (best - worst)))
    return Score(value=score, why=f"{found:g} lies {score:.0%} of the way from {worst:g}, the worst, to {best:g}.")


def _score_values(name: str, value: Any, values: Any) -> Score:
    if not isinstance(values, Mapping) or not 0 < len(values) <= MAX_CRITERIA:
        raise _criteria_error(f"The criterion {name[:64]!r} has no scores by value.")
    numbers = {said: material.number(score) for said, score in values.items()}
    if any(score is None or not 0 <= score <= 1 for score in numbers.values()):
        raise _criteria_error(f"The criterion {name[:64]!r} has scores that are not from 0 to 1.")
    said = str(value).lower() if isinstance(value, bool) else str(value)
    score = numbers.get(said)
    if score is None:
        return Score(value=0.0, why=f"{said[:64]!r} is none of {', '.join(map(repr, values))[:200]}.")
    return Score(value=score, why=f"{said[:64]!r} counts {score:g}.")


def _score_scale(name: str, value: Any, scale: Any) -> Score:
    most = material.number(scale)
    if most is None or most <= 0:
        raise _criteria_error(f"The criterion {name[:64]!r} has a scale that is not a number above 0.")
    if isinstance(value, bool):
        return Score(value=float(value), why=f"The target says {str(value).lower()}.")
    found = material.number(value)
    if found is None:
        return Score(value=0.0, why="The target says no number.")
    return Score(value=max(0.0, min(1.0, found / most)), why=f"{found:g} of {most:g}.")


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and 0 < len(value) <= 128


def _narrative(scores: Sequence[Mapping[str, Any]], composite: float, label: str) -> str:
    order = sorted(scores, key=lambda each: -each["score"] * each["weight"])
    best = order[0]
    worst = max(order[1:], key=lambda each: (1 - each["score"]) * each["weight"], default=best)
    text = f"The target scores {composite:.2f} of 1, which is {label}."
    text += f" Most points come from {best['criterion']} ({best['score']:.2f}): {best['rationale']}"
    if worst["score"] < 1 and worst is not best:
        text += f" Most points are lost at {worst['criterion']} ({worst['score']:.2f}): {worst['rationale']}"
    return text
