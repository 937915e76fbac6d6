"""A search for the inputs of a standard method that cost the most processor time."""

from __future__ import annotations

import copy
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agtphost.methods.standard.table import STANDARD
from agtphost.vocabulary import jsontext

BODY = 1_040_000
"""Octets of an input at most."""

Given = Mapping[str, Any]
Cost = Callable[[str, Given], float]
"""Seconds of processor time of a method with an input."""

TEXTS = (
    "x",
    "äöß😀",
    "2026-03-01 ",
    "12.50 EUR ",
    "word",
    "a.b@example.com ",
    "{",
    "[]",
    "a,b\n1,2\n",
    "- a: 1\n",
    '{"a": 1}\n',
    "n[*].abs(@)",
    "sort_by(@, &n)",
    "(a|b)*c",
)
NUMBERS = (0, 1, -1, 2, 9, 64, 1_000, 9_999, 0.5, 1e15, 2**53 - 1)


@dataclass(frozen=True, kw_only=True)
class Worst:
    """The most expensive input of a method that a search has found."""

    method: str
    seconds: float
    tried: int
    given: Given


def mutated(rng: random.Random, method: str, given: Given) -> Given:
    """An input that differs in one or several places: longer, deeper, of another form, or with another word."""
    found: Any = copy.deepcopy(dict(given))
    for _ in range(rng.choice((1, 1, 2, 4))):
        parameters = STANDARD[method].parameters
        name = rng.choice([*parameters])
        if name not in found:
            found[name] = _value(rng, parameters[name])
            continue
        if rng.random() < 0.1:
            found[name] = _value(rng, parameters[name])
        else:
            found[name] = _changed(rng, found[name], rng.randrange(6))
    for name in STANDARD[method].required:
        found.setdefault(name, given.get(name))
    return found


def _value(rng: random.Random, schema: Mapping[str, Any]) -> Any:
    """A value of a parameter."""
    if "enum" in schema:
        return rng.choice(schema["enum"])
    kind = schema.get("type", "string")
    match rng.choice(kind) if isinstance(kind, list) else kind:
        case "boolean":
            return rng.random() < 0.5
        case "integer" | "number":
            return rng.choice(NUMBERS)
        case "array":
            return [{"n": n} for n in range(rng.choice((1, 10, 1_000)))]
        case "object":
            return {f"m{n}": n for n in range(rng.choice((1, 10, 100)))}
    return rng.choice(TEXTS) * rng.choice((1, 10, 1_000, 10_000))


def _changed(rng: random.Random, value: Any, depth: int) -> Any:
    """A value with one change, at most so deep inside."""
    if depth and isinstance(value, dict) and value and rng.random() < 0.8:
        name = rng.choice([*value])
        return {**value, name: _changed(rng, value[name], depth - 1)}
    if depth and isinstance(value, list) and value and rng.random() < 0.7:
        at = rng.randrange(len(value))
        return [*value[:at], _changed(rng, value[at], depth - 1), *value[at + 1 :]]
    if isinstance(value, dict):
        times = rng.choice((2, 3, 10))
        return {**value, **{f"{name}{n}": inner for n in range(times) for name, inner in value.items()}}
    if isinstance(value, list):
        return rng.choice((value * 2, value * 10, value[: max(1, len(value) // 2)], [value], [value] * 3))
    if isinstance(value, str):
        return rng.choice((value * 2, value * 10, value[: max(1, len(value) // 2)], value + rng.choice(TEXTS)))
    if isinstance(value, bool):
        return not value
    return rng.choice(NUMBERS) if isinstance(value, (int, float)) else value


def search(
    rng: random.Random, method: str, seeds: Sequence[Given], cost: Cost, *, seconds: float, least: int = 0
) -> Worst:
    """
    Look for the most expensive input of a method: the costliest ones found so far are changed further.

    :param seeds: where it begins; all of them are tried.
    :param seconds: of processor time.
    :param least: inputs that are tried besides the seeds, however long it takes.
    """
    pool: list[tuple[float, Given]] = []
    tried, began = 0, time.process_time()
    waiting = list(seeds) or [{}]
    while waiting or tried < len(seeds) + least or time.process_time() - began < seconds:
        if waiting:
            given = waiting.pop()
        else:
            _, parent = pool[min(int(rng.expovariate(0.7)), len(pool) - 1)]
            given = mutated(rng, method, parent)
            try:
                if len(jsontext.encode(given)) > BODY:
                    continue
                jsontext.decode(jsontext.encode(given))
            except (ValueError, TypeError):
                continue
        tried += 1
        pool.append((cost(method, given), given))
        pool.sort(key=lambda each: -each[0])
        del pool[8:]
    taken, given = pool[0]
    return Worst(method=method, seconds=taken, tried=tried, given=given)
