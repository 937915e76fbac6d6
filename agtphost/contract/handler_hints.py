"""
What a handler's type hints and docstring add to its endpoint's TOML.

The TOML takes precedence. If a function was declared with :func:`agtphost.endpoint`, members that the TOML leaves out
come from the function. A contradiction between the two is reported, because the first call would fail.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from agtphost.vocabulary.tomltext import Location

DERIVED = ("description", "input_schema", "output_schema", "errors")
"""Members that a declaration may leave out if its function provides them."""

Say = Callable[[Location, str, str], None]


class HintsError(Exception):
    """The function cannot be found, or its hints cannot be expressed as JSON Schemas; the message says why."""

    def __init__(self, message: str, hint: str, place: tuple[str, int] | None = None, *, absent: bool = False) -> None:
        super().__init__(message)
        self.hint = hint
        self.place = place
        """The file and the line to correct, if they are not the declaration's."""

        self.absent = absent
        """Whether the function does not exist, so that another name may be meant."""


@dataclass(frozen=True, kw_only=True)
class Hints:
    """The members that one function provides."""

    description: str
    intent: str
    input_schema: Mapping[str, Any] | None
    """None: it takes the call as a whole, not members by name."""

    output_schema: Mapping[str, Any] | None
    """None: it does not declare what it returns."""

    errors: tuple[str, ...] = ()
    for_tools: Mapping[str, Any] = field(default_factory=dict)
    """``mcp_tool_name`` and ``parameter_hints`` of the semantic block, if the function has them."""

    where: str = field(default="", compare=False)
    """File and line of the function, for messages."""


HintsOf = Callable[[str], Hints | None]
"""Returns hints by dotted path; None for a function without a declaration. Raises :class:`HintsError`."""


def complete_declaration(
    table: Mapping[str, Any], hints_of: HintsOf | None, say: Say
) -> tuple[Mapping[str, Any] | None, HintsError | None]:
    """
    Complete a declaration with the members that its function provides.

    :param say: called for every contradiction.
    :return: The completed table; None if members are missing that only the function could provide, and the function
        cannot be read. Second, the reason why the function cannot be read; the caller reports it if it needs the
        handler, or if the table is None.
    """
    handler, semantic = table.get("handler"), table.get("semantic")
    dotted = handler.get("function") if isinstance(handler, Mapping) else None
    if hints_of is None or not isinstance(dotted, str):
        return table, None
    absent = [name for name in DERIVED if name not in table]
    try:
        hints = hints_of(dotted)
    except HintsError as error:
        return None if absent else table, error
    if hints is None:
        return table, None
    said = {
        "description": hints.description,
        "input_schema": hints.input_schema,
        "output_schema": hints.output_schema,
        "errors": list(hints.errors),
    }
    found = {**table, **{name: said[name] for name in absent if said[name] not in (None, "")}}
    if isinstance(semantic, Mapping):
        intent = {"intent": hints.intent} if hints.intent else {}
        found["semantic"] = {**intent, **hints.for_tools, **semantic}
    for location, message in contradictions(table, hints):
        say(location, message, f"correct one of the two; the function is at {hints.where}")
    return found, None


def contradictions(table: Mapping[str, Any], hints: Hints) -> Iterator[tuple[Location, str]]:
    """Yield where a declaration and its function's parameters, result and errors contradict each other."""
    for name, ours in (("input_schema", hints.input_schema), ("output_schema", hints.output_schema)):
        said = table.get(name)
        if isinstance(said, Mapping) and ours is not None:
            yield from _compare_schemas(name, said, ours)
    errors = table.get("errors")
    if isinstance(errors, list):
        for error in hints.errors:
            if error not in errors:
                yield ("errors",), f"errors does not declare {error}, which the function says it raises"


def _compare_schemas(name: str, declared: Mapping[str, Any], ours: Mapping[str, Any]) -> Iterator[tuple[Location, str]]:
    given, taken = declared.get("properties"), ours.get("properties")
    if not isinstance(given, Mapping) or not isinstance(taken, Mapping):
        return
    required, needed = declared.get("required") or (), ours.get("required") or ()
    taking = name == "input_schema"
    for member in given:
        if member not in taken and taking:
            yield (name, "properties", member), f"{name} has {member!r}, which the function does not take"
    for member in needed:
        if taking and member not in required:
            yield (name,), f"{name} does not require {member!r}, without which the function cannot be called"
    for member in required if not taking else ():
        if member not in taken:
            yield (name,), f"{name} requires {member!r}, which the function does not return"
    for member, inner in given.items():
        types, hinted = _types(inner), _types(taken.get(member))
        if types and hinted and not (types <= hinted or ("number" in hinted and types <= {"integer", *hinted})):
            text = (
                f"{name} declares {member!r} as {_join_types(types)}, but the function's hint is {_join_types(hinted)}"
            )
            yield (name, "properties", member), text


def _types(schema: object) -> set[str]:
    kind = schema.get("type") if isinstance(schema, Mapping) else None
    return {kind} if isinstance(kind, str) else {str(each) for each in kind} if isinstance(kind, list) else set()


def _join_types(types: set[str]) -> str:
    return " or ".join(sorted(types))
