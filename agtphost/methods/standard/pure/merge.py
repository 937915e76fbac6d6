"""MERGE: several documents or datasets as one, with a list of conflicts (methods v01 section 6.1)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from agtphost.errors import Refusal
from agtphost.handlers import parameters
from agtphost.methods.standard.pure import material
from agtphost.methods.standard.pure.criteria import same
from agtphost.vocabulary.reasons import Reason

STRATEGIES = ("union", "intersection", "latest", "manual")
MAX_SOURCES = 50
MAX_CONFLICTS = 200
"""The most conflicts that are listed; there may be more."""

MAX_DEPTH = 16
_MOMENTS = ("updated_at", "last_updated", "updated", "modified_at", "last_modified", "modified", "timestamp", "date")


@dataclass(kw_only=True)
class Policy:
    """The rules by which conflicts are resolved."""

    strategy: str
    first: bool = True
    """Whether the first source's value wins; else the last one's."""

    key: str = ""
    moment: str = ""
    chosen: Mapping[str, Any] = field(default_factory=dict)
    """By place: ``{"source": 1}`` or ``{"value": ...}``."""

    conflicts: list[dict[str, Any]] = field(default_factory=list)
    left_out: int = 0
    open: int = 0
    """Conflicts that nothing resolves."""


def merge(call: Mapping[str, Any]) -> dict[str, Any]:
    """
    Return the result of MERGE.

    :param call: ``sources``: objects, or lists of records, which are matched by a key; ``strategy``: ``union`` (all
        that any has), ``intersection`` (what all have), ``latest`` (the newest source's values) or ``manual`` (a
        conflict that ``conflict_resolution`` does not settle is 409); ``conflict_resolution``: ``first``, ``last`` or
        an object of ``prefer``, ``key``, ``timestamp`` and ``fields``.
    :raises Refusal: 422 for anything else; 409 for unresolved conflicts.
    """
    sources = material.rows(call, "sources", least=2, most=MAX_SOURCES)
    policy = _policy(call, len(sources))
    if all(isinstance(source, Mapping) for source in sources):
        result: Any = _document(sources, policy, "", 1)
    elif all(isinstance(source, list) for source in sources):
        if sum(map(len, sources)) > material.MAX_ROWS:
            raise parameters.invalid("sources", f"There are more than {material.MAX_ROWS} records.", "Send less.")
        result = _dataset(sources, policy)
    else:
        raise parameters.invalid(
            "sources", "sources is neither a list of objects nor a list of lists.", "Send two of the same kind."
        )
    if policy.open:
        raise Refusal(
            Reason.MERGE_CONFLICT,
            f"{policy.open} conflicts need a decision, because strategy is manual.",
            details={"parameter": "sources", "conflicts": policy.conflicts},
        )
    report = {"conflicts": policy.conflicts, **({"left_out": policy.left_out} if policy.left_out else {})}
    return {"merged": result, "strategy": policy.strategy, **report}


def _policy(call: Mapping[str, Any], sources: int) -> Policy:
    strategy = parameters.choice(call, "strategy", STRATEGIES, "union")
    said = call.get("conflict_resolution")
    if said is None:
        said = {}
    elif isinstance(said, str):
        said = {"prefer": said}
    if not isinstance(said, Mapping) or not said.keys() <= {"prefer", "key", "timestamp", "fields"}:
        raise _resolution_error(
            "conflict_resolution is neither a word nor an object of prefer, key, timestamp and fields."
        )
    prefer = said.get("prefer", "first")
    if prefer not in ("first", "last"):
        raise _resolution_error("conflict_resolution prefers neither first nor last.")
    for name in ("key", "timestamp"):
        if name in said and not material.is_place(said[name]):
            raise _resolution_error(f"conflict_resolution names no member as {name}.")
    chosen = said.get("fields", {})
    if not isinstance(chosen, Mapping) or not all(_is_choice(each, sources) for each in chosen.values()):
        raise _resolution_error('fields is not an object of {"source": number} or {"value": ...}.')
    return Policy(
        strategy=strategy,
        first=prefer == "first",
        key=said.get("key", ""),
        moment=said.get("timestamp", ""),
        chosen=chosen,
    )


def _is_choice(value: Any, sources: int) -> bool:
    if not isinstance(value, Mapping) or len(value) != 1:
        return False
    number = value.get("source")
    return "value" in value or (type(number) is int and 0 <= number < sources)


def _resolution_error(what: str) -> Refusal:
    return parameters.invalid("conflict_resolution", what, 'Send "last", or {"key": "customer_id", "prefer": "last"}.')


def _document(versions: Sequence[Any], policy: Policy, place: str, depth: int, names: Sequence[int] = ()) -> Any:
    """
    Merge several objects into one.

    :param names: the numbers of the sources that the versions are from, where these are not all of them.
    """
    numbers = list(names) or [*range(len(versions))]
    if policy.strategy == "latest" and depth == 1:
        moments = [_moment(version, policy) for version in versions]
        order = sorted(range(len(versions)), key=lambda n: -moments[n])
        versions, numbers = [versions[n] for n in order], [numbers[n] for n in order]
    members = dict.fromkeys(name for version in versions for name in version)
    if policy.strategy == "intersection":
        members = {name: None for name in members if all(name in version for version in versions)}
    result: dict[str, Any] = {}
    for name in members:
        there = [(number, version[name]) for number, version in zip(numbers, versions, strict=True) if name in version]
        result[name] = _value(there, policy, f"{place}.{name}" if place else name, depth)
    return result


def _value(there: Sequence[tuple[int, Any]], policy: Policy, place: str, depth: int) -> Any:
    first = there[0][1]
    if all(same(first, value) for _, value in there[1:]):
        return first
    chosen = policy.chosen.get(place)
    if chosen is None and depth < MAX_DEPTH and all(isinstance(value, Mapping) for _, value in there):
        numbers = [number for number, _ in there]
        return _document([value for _, value in there], policy, place, depth + 1, numbers)
    conflict: dict[str, Any] = {"place": place, "values": [{"source": n, "value": value} for n, value in there]}
    resolved, result = True, first
    if chosen is not None:
        offered = dict(there)
        if "source" in chosen and chosen["source"] not in offered:
            raise _resolution_error(f"The source chosen for {place[:64]!r} has no such member.")
        result = offered[chosen["source"]] if "source" in chosen else chosen["value"]
        conflict["resolved_by"] = "fields"
    elif policy.strategy == "manual":
        resolved = False
    elif policy.strategy == "latest":
        conflict["resolved_by"] = "latest"
    else:
        result = first if policy.first else there[-1][1]
        conflict["resolved_by"] = "first" if policy.first else "last"
    if resolved:
        conflict["result"] = result
    else:
        policy.open += 1
    if len(policy.conflicts) < MAX_CONFLICTS:
        policy.conflicts.append(conflict)
    else:
        policy.left_out += 1
    return result


def _moment(version: Any, policy: Policy) -> float:
    """Return when a version was last changed, according to the version itself."""
    names = (policy.moment,) if policy.moment else _MOMENTS
    for name in names:
        said = material.at(version, name)
        number = material.number(said)
        if number is not None:
            return number
        if isinstance(said, str) and len(said) <= 40:
            try:
                found = datetime.fromisoformat(said)
            except ValueError:
                continue
            return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
    raise _resolution_error(f"latest needs a time in each version: none has {', '.join(names)}."[:300])


def _dataset(sources: Sequence[Sequence[Any]], policy: Policy) -> list[Any]:
    """Merge records with the same key; without a key, merge equal records."""
    key = policy.key or next((name for name in ("id", "key") if _all_have(sources, name)), "")
    if policy.key and not _all_have(sources, policy.key):
        raise _resolution_error(f"Some records have no {policy.key[:64]!r}, which is the key.")
    groups: dict[str, list[tuple[int, Any]]] = {}
    for number, records in enumerate(sources):
        for record in records:
            name = json.dumps(material.at(record, key) if key else record, sort_keys=True)
            groups.setdefault(name, []).append((number, record))
    result = []
    for versions in groups.values():
        numbers = [number for number, _ in versions]
        if policy.strategy == "intersection" and len({*numbers}) < len(sources):
            continue
        if not key or len(versions) == 1:
            result.append(versions[0][1])
            continue
        named = str(material.at(versions[0][1], key))[:64]
        inner = Policy(
            strategy="union" if policy.strategy == "intersection" else policy.strategy,
            first=policy.first,
            moment=policy.moment,
            chosen=policy.chosen,
        )
        result.append(_document([record for _, record in versions], inner, "", 1, numbers))
        room = MAX_CONFLICTS - len(policy.conflicts)
        policy.conflicts += [{"key": named, **conflict} for conflict in inner.conflicts[:room]]
        policy.left_out += inner.left_out + max(0, len(inner.conflicts) - room)
        policy.open += inner.open
    return result


def _all_have(sources: Sequence[Sequence[Any]], name: str) -> bool:
    return all(
        isinstance(record, Mapping) and material.at(record, name) is not material.MISSING
        for records in sources
        for record in records
    )
