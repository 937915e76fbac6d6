"""
JMESPath of callers, bounded: recipes are the operator's own, and these are anybody's.

JMESPath has no loops, and yet ``[@,@][] | [@,@][]`` doubles what it finds with each part, ``join`` and ``to_string``
write texts that grow as fast, and ``[*]`` after ``[*]`` reads everything once more. So an expression here has no part
that makes more of a value than there was, and the steps of a whole call are counted.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from agtphost import extras
from agtphost.compute.functions import PLAIN_EXPRESSION
from agtphost.contract.recipes.expression import MAX_CHARACTERS, Expression, ExpressionError
from agtphost.errors import Refusal
from agtphost.handlers import parameters
from agtphost.methods.standard.pure.comparisons import Comparisons
from agtphost.vocabulary.foreign_errors import explain
from agtphost.vocabulary.reasons import Reason

MAX_STEPS = 1_000_000
"""Parts of expressions that are worked out in one call."""

MAX_FLAT = 100_000
"""Members of a list that ``[]`` makes; a literal inside a projection would multiply both."""

_MULTIPLYING = frozenset({"multi_select_list", "multi_select_dict", "key_val_pair"})
_GROWING = frozenset({"join", "to_string", "merge", "to_array"})


_BARE_NUMBER = re.compile(
    r"""'(?:\\.|[^'\\])*' | `(?:\\.|[^`\\])*` | "(?:\\.|[^"\\])*"
    | (?P<sign>[<>]=? | [=!]=) (?P<space>\s*) (?P<number>-?[0-9]+(?:\.[0-9]+)?) (?![\w.])""",
    re.ASCII | re.VERBOSE,
)
"""Texts and literals, which stay, and numbers behind a comparison."""


def _read_expression(text: str, name: str) -> str:
    """
    Return an expression as JMESPath has it: the draft's ``amount > 50000`` means the literal ```50000```.

    :raises Refusal: 422 for what is none.
    """
    try:
        Expression(text)
    except ExpressionError as error:
        written = _BARE_NUMBER.sub(_quote_number, text) if len(text) <= MAX_CHARACTERS else text
        try:
            Expression(written)
        except ExpressionError:
            hint = 'JMESPath is described at jmespath.org; as an object it is {"amount": {"gt": 5}}.'
            raise parameters.invalid(name, f"{error}.", hint) from None
        return written
    return text


def _quote_number(found: re.Match[str]) -> str:
    if found["number"] is None:
        return found[0]
    return f"{found['sign']}{found['space']}`{found['number']}`"


class Query:
    """
    An expression with the remaining steps of its call.

    :param text: JMESPath.
    :param name: the parameter that it is in, for refusals.
    :param comparisons: counts comparisons of a number with a text.
    :raises Refusal: 422 for text that is not JMESPath, or could grow; 503 where JMESPath is not installed.
    """

    def __init__(self, text: str, name: str, steps: int = MAX_STEPS, comparisons: Comparisons | None = None) -> None:
        if not extras.is_installed("jmespath"):
            raise Refusal(
                Reason.PROVIDER_MISSING,
                "JMESPath needs the package jmespath, which is not installed.",
                remedy=f"The operator has to install it: {extras.remedy('jmespath')}",
            )
        self._name = name
        self.left = steps
        """Parts that may still be worked out."""

        text = _read_expression(text, name)
        import jmespath

        tree = jmespath.compile(text.strip()).parsed
        for node in _nodes(tree):
            if node["type"] in _MULTIPLYING or (node["type"] == "function_expression" and node["value"] in _GROWING):
                raise parameters.invalid(
                    name,
                    "The result of the expression is larger than its input, which is not allowed.",
                    f"Leave out [a, b] and {{a: b}}, and the functions {', '.join(sorted(_GROWING))}.",
                )
        self.parts = sum(1 for _ in _nodes(tree))
        self.is_plain = PLAIN_EXPRESSION.fullmatch(text) is not None
        self._tree = tree
        self._interpreter = _interpreter(self._count, comparisons or Comparisons())

    def _count(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise parameters.invalid(
                self._name, f"The expression takes more than {MAX_STEPS} steps.", "Send less, or a simpler expression."
            )

    def value(self, record: Any) -> Any:
        """
        Evaluate the expression on a value.

        :raises Refusal: 422 where values do not suit the functions that are called, or the steps are used up.
        """
        from jmespath.exceptions import JMESPathError

        try:
            return self._interpreter.visit(self._tree, record)
        except (JMESPathError, TypeError, ValueError, ArithmeticError, RecursionError) as error:
            said = _reason(error)
            raise parameters.invalid(
                self._name, f"The expression cannot be evaluated: {said}.", "Correct it, or the data."
            ) from None

    def holds(self, record: Any) -> bool:
        """Return whether the result is true: not null, false or empty (as JMESPath defines it)."""
        found = self.value(record)
        return found is not None and found is not False and found not in ("", [], {})


def condition(text: str, name: str, steps: int = MAX_STEPS, comparisons: Comparisons | None = None) -> Query:
    """
    Read a condition on one record: ``price < `200```, or the filter of a list, ``[?price < `200`]``.

    :param comparisons: counts comparisons of a number with a text.
    :raises Refusal: see :class:`Query`.
    """
    text = text.strip()
    if text.startswith("[?") and text.endswith("]"):
        text = text[2:-1]
    return Query(text, name, steps, comparisons)


def predicate(text: str, name: str, comparisons: Comparisons | None = None) -> Callable[[Any], bool]:
    """Return whether a record follows the condition that :func:`condition` reads."""
    return condition(text, name, comparisons=comparisons).holds


def import_parser() -> None:
    """Import what reads expressions, if it is installed."""
    if extras.is_installed("jmespath"):
        importlib.import_module("jmespath.visitor")


class _TooLong(ValueError):
    """An expression makes a list that is too long; the message says so."""


def _reason(error: Exception) -> str:
    """Return why an expression cannot be evaluated."""
    from jmespath.exceptions import JMESPathError

    if isinstance(error, JMESPathError):
        return explain(error)
    return str(error) if isinstance(error, _TooLong) else "a value does not suit the functions that are called"


def _nodes(tree: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        waiting.extend(child for child in node["children"] if isinstance(child, Mapping))


def _place_of(node: Mapping[str, Any]) -> str:
    """Return the member that a part of an expression names; the kind of the part where it names none."""
    if node["type"] == "subexpression":
        return ".".join(map(_place_of, node["children"]))
    return str(node["value"] if node["type"] == "field" else node["type"])


def _has_order(value: Any) -> bool:
    return isinstance(value, (str, int, float)) and not isinstance(value, bool)


def _interpreter(count: Callable[[], None], comparisons: Comparisons) -> Any:
    from jmespath.visitor import TreeInterpreter

    class Counting(TreeInterpreter):  # type: ignore[misc]
        def visit(self, node: Any, *args: Any, **kwargs: Any) -> Any:
            count()
            return super().visit(node, *args, **kwargs)

        def visit_comparator(self, node: Any, value: Any) -> Any:
            left, right = (self.visit(child, value) for child in node["children"])
            ordering = node["value"] not in self._EQUALITY_OPS
            note = comparisons.note_order if ordering else comparisons.note_equality
            first, second = node["children"]
            if second["type"] != "literal" and first["type"] == "literal":
                mixed = note(_place_of(second), right, left)
            else:
                mixed = note(_place_of(first), left, right)
            # A number with a text has no order: null, as the specification of JMESPath says of other types.
            if ordering and (mixed or not (_has_order(left) and _has_order(right))):
                return None
            return self.COMPARATOR_FUNC[node["value"]](left, right)

        def visit_flatten(self, node: Any, value: Any) -> Any:
            base = self.visit(node["children"][0], value)
            if not isinstance(base, list):
                return None
            if sum(len(each) if isinstance(each, list) else 1 for each in base) > MAX_FLAT:
                raise _TooLong(f"a list that it makes has more than {MAX_FLAT} members")
            merged: list[Any] = []
            for each in base:
                if isinstance(each, list):
                    merged.extend(each)
                else:
                    merged.append(each)
            return merged

    return Counting()
