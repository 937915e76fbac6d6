"""
The expressions of recipes: JMESPath (jmespath.org), compiled when a recipe is read.

The convention, all of it:

- A text that begins with ``=`` is an expression; every other value is itself.
  Tables and lists are looked into at any depth. A constant text that begins
  with ``=`` is written as a JMESPath literal: ``"='=text'"``.
- An expression sees ``input``, the caller's input as the gates let it pass,
  and the captures of earlier steps by their names, and nothing else.
- What finds nothing is null, and a member of a table whose expression is null
  is left out.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from agtphost import extras

MARK = "="
"""What an expression begins with where constants may stand too."""

INPUT = "input"
"""The name of the caller's input."""

MAX_CHARACTERS = 512
"""Of one expression: more belongs into a registered function."""

MAX_NODES = 128
"""Parts of one expression; its work grows with the data, and with nothing else."""

MAX_DEPTH = 16
"""Tables and lists inside each other in one mapping."""

Say = Callable[[tuple[str | int, ...], str, str], None]
"""Takes a location within the value, a sentence, and a hint."""


class ExpressionError(ValueError):
    """An expression that cannot be compiled, or not be worked out; the message says why."""


class Expression:
    """
    One compiled expression.

    :param text: JMESPath, without the mark.
    :raises ExpressionError: for what is too long, malformed, or calls a function that JMESPath does not have.
    """

    __slots__ = ("_compiled", "names", "spread", "text")

    def __init__(self, text: str) -> None:
        text = text.strip()
        if not 0 < len(text) <= MAX_CHARACTERS:
            raise ExpressionError(f"an expression has 1 to {MAX_CHARACTERS} characters")
        if not extras.is_installed("jmespath"):
            raise ExpressionError(extras.missing("jmespath"))
        import jmespath
        from jmespath.exceptions import JMESPathError

        try:
            self._compiled = jmespath.compile(text)
        except (JMESPathError, RecursionError) as error:
            first = str(error).partition("\n")[0] or "it is nested too deeply"
            raise ExpressionError(f"{text!r} is not JMESPath: {first[:200]}") from None
        self.text = text
        tree = self._compiled.parsed
        _check(tree, text)
        self.names = frozenset(_roots(tree))
        """The names that it looks up in the scope."""

        self.spread = sum(1 for node in _nodes(tree) if node["type"] in _SPREADING or _gathers(node))
        """Parts that give more than they were given: one inside another, they would grow without bound."""

    def __repr__(self) -> str:
        return f"Expression({self.text!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Expression) and other.text == self.text

    def __hash__(self) -> int:
        return hash((Expression, self.text))

    def evaluate(self, scope: Mapping[str, Any]) -> Any:
        """
        What the expression finds; None where that is nothing.

        :raises ExpressionError: where the values found do not suit the functions called.
        """
        from jmespath.exceptions import JMESPathError

        try:
            return self._compiled.search(scope)
        except JMESPathError as error:
            raise ExpressionError(f"{self.text!r} cannot be worked out: {str(error)[:200]}") from None
        except (TypeError, ValueError, ArithmeticError, RecursionError) as error:
            raise ExpressionError(f"{self.text!r} cannot be worked out: {type(error).__name__}") from None

    def holds(self, scope: Mapping[str, Any]) -> bool:
        """Whether it finds something true: not null, false, or empty (JMESPath's own reading)."""
        found = self.evaluate(scope)
        return found is not None and found is not False and found not in ("", [], {})


def _check(tree: Mapping[str, Any], text: str) -> None:
    from jmespath.functions import Functions

    arguments = Functions.FUNCTION_TABLE
    for count, node in enumerate(_nodes(tree), 1):
        if count > MAX_NODES:
            raise ExpressionError(f"{text[:64]!r} has more than {MAX_NODES} parts")
        if node["type"] == "function_expression":
            name, given = node["value"], len(node["children"])
            known = arguments.get(name)
            if known is None:
                close = difflib.get_close_matches(name, arguments, 1)
                hint = f"; did you mean {close[0]}?" if close else ""
                raise ExpressionError(f"{text[:64]!r} calls {name}, which JMESPath does not have{hint}")
            wanted = known["signature"]
            variadic = bool(wanted) and wanted[-1].get("variadic", False)
            if given < len(wanted) or (given > len(wanted) and not variadic):
                raise ExpressionError(f"{text[:64]!r} calls {name} with {given} arguments, not {len(wanted)}")


def _gathers(node: Mapping[str, Any]) -> bool:
    """Whether a part is one of the functions that gather; the value of a literal may be any JSON."""
    return node["type"] == "function_expression" and node["value"] in _GATHERING


_SPREADING = frozenset({"multi_select_list", "multi_select_dict"})
_GATHERING = frozenset({"join", "map", "merge"})
"""Functions that do the same; as the name of a member, one counts as well."""


def _nodes(tree: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        waiting.extend(child for child in node["children"] if isinstance(child, Mapping))


_CHAINS = frozenset(
    {"subexpression", "pipe", "index_expression", "projection", "value_projection", "filter_projection"}
)
"""Nodes whose first child is worked out in the scope, and the others in what that found."""


def _roots(node: Mapping[str, Any]) -> Iterator[str]:
    """The fields that are looked up in the scope itself."""
    kind = node["type"]
    if kind == "field":
        yield node["value"]
    elif kind in _CHAINS:
        yield from _roots(node["children"][0])
        if node["children"][0]["type"] in ("identity", "current"):
            for child in node["children"][1:2]:
                yield from _roots(child)
    elif kind != "expref":
        for child in node["children"]:
            if isinstance(child, Mapping):
                yield from _roots(child)


class ValueMapping:
    """
    A value with expressions in it, as the module's convention has it.

    :param value: what TOML gave.
    :param say: called for every expression that is wrong.
    """

    __slots__ = ("_fill", "names", "value")

    def __init__(self, value: Any, say: Say) -> None:
        names: set[str] = set()
        self.value = value
        """As it was written."""
        self._fill = _filling(value, (), say, names)
        self.names = frozenset(names)
        """The names that its expressions look up in the scope."""

    def __repr__(self) -> str:
        return f"ValueMapping({self.value!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ValueMapping) and other.value == self.value

    def __hash__(self) -> int:
        return hash((ValueMapping, repr(self.value)))

    def fill(self, scope: Mapping[str, Any]) -> Any:
        """
        The value with every expression worked out.

        :raises ExpressionError: see :meth:`Expression.evaluate`.
        """
        return self._fill(scope)


_Filling = Callable[[Mapping[str, Any]], Any]


def _filling(value: Any, at: tuple[str | int, ...], say: Say, names: set[str]) -> _Filling:
    """A function that fills ``value``; what has no expression in it is made once."""
    if len(at) > MAX_DEPTH:
        say(at, f"it is nested more than {MAX_DEPTH} deep", "")
        return _constant(None)
    if isinstance(value, str) and value.startswith(MARK):
        try:
            expression = Expression(value[len(MARK) :])
        except ExpressionError as error:
            say(at, str(error), "JMESPath is described at jmespath.org; constants do not begin with =")
            return _constant(None)
        names.update(expression.names)
        return expression.evaluate
    if isinstance(value, Mapping):
        members = {str(name): _filling(inner, (*at, str(name)), say, names) for name, inner in value.items()}
        marked = frozenset(name for name, inner in value.items() if _is_expression(inner))
        return _table(members, marked)
    if isinstance(value, list):
        items = [_filling(inner, (*at, index), say, names) for index, inner in enumerate(value)]
        return lambda scope: [item(scope) for item in items]
    if value is not None and not isinstance(value, (str, int, float, bool)):
        say(at, f"{str(value)[:64]!r} is a {type(value).__name__}, which JSON does not have", "write it as text")
    return _constant(value)


def _is_expression(value: Any) -> bool:
    return isinstance(value, str) and value.startswith(MARK)


def _constant(value: Any) -> _Filling:
    return lambda scope: value


def _table(members: Mapping[str, _Filling], marked: Collection[str]) -> _Filling:
    def fill(scope: Mapping[str, Any]) -> dict[str, Any]:
        filled = {name: member(scope) for name, member in members.items()}
        return {name: value for name, value in filled.items() if value is not None or name not in marked}

    return fill
