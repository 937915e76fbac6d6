"""
The expressions of recipes: JMESPath (jmespath.org), compiled when a recipe is read.

The complete convention:

- A text that begins with ``=`` is an expression; every other value is constant. Tables and lists are searched for
  expressions at every depth. A constant text that begins with ``=`` is written as a JMESPath literal: ``"='=text'"``.
- An expression sees only ``input``, the caller's input after the gates, and the captures of earlier steps by their
  names.
- An expression that finds nothing is null, and a member of a table whose expression is null is left out.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from agtphost import extras
from agtphost.vocabulary.foreign_errors import explain, original_of

MARK = "="
"""The beginning of an expression, where constants are allowed too."""

INPUT = "input"
"""The name of the caller's input."""

MAX_CHARACTERS = 512
"""Characters of one expression; longer logic belongs into a registered function."""

MAX_NODES = 128
"""Parts of one expression; its work then grows only with the data."""

MAX_DEPTH = 16
"""Depth of nested tables and lists in one mapping."""

Say = Callable[[tuple[str | int, ...], str, str, str], None]
"""Takes a location within the value, a sentence, a hint, and the text of JMESPath that the sentence translates."""


class ExpressionError(ValueError):
    """An expression cannot be compiled or evaluated; the message says why."""


class Expression:
    """
    A compiled expression.

    :param text: JMESPath, without the mark.
    :raises ExpressionError: it is too long or malformed, or calls a function that JMESPath lacks.
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
        except RecursionError:
            raise ExpressionError(f"{text[:64]!r} is not JMESPath: it is nested too deeply") from None
        except JMESPathError as error:
            raise ExpressionError(f"{text!r} is not JMESPath: {explain(error)}") from error
        self.text = text
        tree = self._compiled.parsed
        _check(tree, text)
        self.names = frozenset(_roots(tree))
        """The names that it looks up in the scope."""

        self.spread = sum(1 for node in _nodes(tree) if node["type"] in _SPREADING or _gathers(node))
        """Number of parts that return more than they receive; nested, they would grow without bound."""

    def __repr__(self) -> str:
        return f"Expression({self.text!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Expression) and other.text == self.text

    def __hash__(self) -> int:
        return hash((Expression, self.text))

    def evaluate(self, scope: Mapping[str, Any]) -> Any:
        """
        Return the result of the expression; None if it finds nothing.

        :raises ExpressionError: a function was called with values that it does not accept.
        """
        from jmespath.exceptions import JMESPathError

        try:
            return self._compiled.search(scope)
        except JMESPathError as error:
            raise ExpressionError(f"{self.text!r} cannot be evaluated: {explain(error)}") from error
        except (TypeError, ValueError, ArithmeticError, RecursionError) as error:
            why = "a value does not suit the functions that are called"
            raise ExpressionError(f"{self.text!r} cannot be evaluated: {why}") from error

    def holds(self, scope: Mapping[str, Any]) -> bool:
        """Return whether the result is true: not null, false, or empty, as in JMESPath."""
        found = self.evaluate(scope)
        return found is not None and found is not False and found not in ("", [], {})


def _check(tree: Mapping[str, Any], text: str) -> None:
    from jmespath.functions import Functions

    arguments = Functions.FUNCTION_TABLE
    for count, node in enumerate(_nodes(tree), 1):
        if count > MAX_NODES:
            raise ExpressionError(f"{text[:64]!r} has more than {MAX_NODES} parts")
        if node["type"] == "slice" and node["children"][2] == 0:
            raise ExpressionError(f"{text[:64]!r} has a slice with steps of 0; write 1, or leave it out")
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
    """Return whether a part is one of the functions that gather; the value of a literal may be any JSON."""
    return node["type"] == "function_expression" and node["value"] in _GATHERING


_SPREADING = frozenset({"multi_select_list", "multi_select_dict"})
_GATHERING = frozenset({"join", "map", "merge"})
"""Functions that multiply their input; a member with such a name counts as well."""


def _nodes(tree: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        waiting.extend(child for child in node["children"] if isinstance(child, Mapping))


_CHAINS = frozenset(
    {"subexpression", "pipe", "index_expression", "projection", "value_projection", "filter_projection"}
)
"""Nodes whose first child is evaluated in the scope, and the others in its result."""


def _roots(node: Mapping[str, Any]) -> Iterator[str]:
    """Yield the fields that are looked up in the scope itself."""
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
    A value that contains expressions, by the module's convention.

    :param value: a value from TOML.
    :param say: called for every faulty expression.
    """

    __slots__ = ("_fill", "names", "value")

    def __init__(self, value: Any, say: Say) -> None:
        names: set[str] = set()
        self.value = value
        """The value as it was written."""
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
        Return the value with every expression evaluated.

        :raises ExpressionError: see :meth:`Expression.evaluate`.
        """
        return self._fill(scope)


_Filling = Callable[[Mapping[str, Any]], Any]


def _filling(value: Any, at: tuple[str | int, ...], say: Say, names: set[str]) -> _Filling:
    """Return a function that fills ``value``; constant parts are built once."""
    if len(at) > MAX_DEPTH:
        say(at, f"it is nested more than {MAX_DEPTH} deep", "", "")
        return _constant(None)
    if isinstance(value, str) and value.startswith(MARK):
        try:
            expression = Expression(value[len(MARK) :])
        except ExpressionError as error:
            hint = "JMESPath is described at jmespath.org; constants do not begin with ="
            say(at, str(error), hint, original_of(error))
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
        say(at, f"{str(value)[:64]!r} is a {type(value).__name__}, which JSON lacks", "write it as text", "")
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
