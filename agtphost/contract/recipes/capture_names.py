"""The names that a recipe's steps capture and its expressions use, for the cure of one that is missing."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from typing import Any

from agtphost.contract.recipes.expression import INPUT, MARK, Expression, ExpressionError
from agtphost.vocabulary.tomltext import Location

NAME = re.compile(r"[a-z][a-z0-9_]{0,63}", re.ASCII)


def find_cure(table: Mapping[str, Any], known: Sequence[str], name: str, at: Location) -> tuple[Location, str]:
    """
    Return where to write what for a name that no earlier step captures.

    :param table: the recipe.
    :param known: the names that may be used there.
    :param at: the expression that uses the name.
    """
    close = difflib.get_close_matches(name, known, 1)
    if close:
        return at, f"write {close[0]} instead of {name[:64]}"
    written, used = f'write capture = "{name[:64]}"', find_names(table)
    earlier = [step for step in find_steps(table) if at[:1] != ("step",) or step[0][:2] < at[:2]]
    for place, step in reversed(earlier):
        if "capture" in step and step["capture"] not in used:
            return (*place, "capture"), f"{written}, because no expression uses {str(step['capture'])[:64]!r}"
    for place, step in reversed(earlier):
        if "capture" not in step:
            return place, written
    return at, f"write one of these names instead of {name[:64]}: {', '.join(known)}"


def find_uncaptured(table: Mapping[str, Any]) -> list[str]:
    """Return the names that a recipe's expressions use and no step captures."""
    captured = {
        step["capture"]
        for _, step in find_steps(table)
        if isinstance(step.get("capture"), str) and NAME.fullmatch(step["capture"])
    }
    return [name for name in find_names(table) if name != INPUT and name not in captured]


def find_steps(table: Mapping[str, Any]) -> list[tuple[Location, Mapping[str, Any]]]:
    """Return the tables of a recipe's steps with their places, as far as they are tables."""
    found: list[tuple[Location, Mapping[str, Any]]] = []
    steps = table.get("step")
    for index, step in enumerate(steps if isinstance(steps, list) else ()):
        inner = step.get("parallel") if isinstance(step, Mapping) else None
        if isinstance(inner, list):
            at: Location = ("step", index, "parallel")
            found += [((*at, number), each) for number, each in enumerate(inner) if isinstance(each, Mapping)]
        elif isinstance(step, Mapping):
            found.append((("step", index), step))
    return found


def find_names(value: Any, *, expression: bool = False) -> list[str]:
    """
    Return the names that the expressions in a value look up, in the order of the text.

    :param expression: whether a text is an expression without its mark.
    """
    if isinstance(value, str):
        if not expression and not value.startswith(MARK):
            return []
        try:
            return sorted(Expression(value.removeprefix(MARK)).names)
        except ExpressionError:
            return []
    if isinstance(value, Mapping):
        inner = [find_names(each, expression=name == "when") for name, each in value.items()]
    else:
        inner = [find_names(each) for each in value] if isinstance(value, list) else []
    return list(dict.fromkeys(name for names in inner for name in names))
