"""
Formulas as trees over decimal numbers: what CALCULATE works out (methods v01 section 4.10).

::

    {"op": "multiply", "args": [{"var": "price"}, {"op": "add", "args": [1, {"var": "tax"}]}]}

A leaf is a number, ``{"const": "0.1"}`` for one with its exact digits, or ``{"var": "place"}``. ``{"op": "sum", "over":
"lines", "of": formula}`` works the formula out for each member of a list, whose members come before the other inputs.
Nothing is ever read as a program: a text is the name of a formula that the operator registered, or refused.

Numbers have at most fifty digits and exponents of a few hundred, and the steps of a call are counted, so the cost of a
formula is bounded by its size.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from decimal import (
    ROUND_CEILING,
    ROUND_FLOOR,
    ROUND_HALF_UP,
    Context,
    Decimal,
    DecimalException,
    DivisionByZero,
    InvalidOperation,
    Overflow,
    localcontext,
)
from typing import Any

from agtphost.vocabulary import json_paths

DIGITS = 50
LARGEST = 300
"""The largest exponent of ten; a result beyond it is an overflow."""

MAX_PRECISION = 30
MAX_NODES = 256
MAX_DEPTH = 24
MAX_STEPS = 200_000
"""Parts that are worked out in one call, those of lists once for each member."""

MAX_MEMBERS = 10_000
"""Of a list that an operation goes over."""

MAX_POWER = 1_000
"""The largest exponent of ``power``."""

MAX_INPUT = 64
"""Characters of a number that is sent as text."""

_DECIMAL = re.compile(r"[-+]?[0-9]{1,50}(?:\.[0-9]{1,50})?", re.ASCII)
_ID = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,63}", re.ASCII)

Value = Decimal | bool


def context() -> Context:
    """Return the decimal context that formulas are calculated with."""
    return Context(
        prec=DIGITS,
        rounding=ROUND_HALF_UP,
        Emax=LARGEST,
        Emin=-LARGEST,
        traps=[InvalidOperation, DivisionByZero, Overflow],
    )


class FormulaError(ValueError):
    """A formula that cannot be worked out; the message says why. ``parameter`` is whose fault it is."""

    def __init__(self, message: str, parameter: str = "expression") -> None:
        super().__init__(message)
        self.parameter = parameter


def _number(value: Value) -> Decimal:
    if isinstance(value, bool):
        raise FormulaError("true and false are not numbers")
    return value


def _flag(value: Value) -> bool:
    if not isinstance(value, bool):
        raise FormulaError("a condition is neither true nor false")
    return value


def _power(base: Decimal, exponent: Decimal) -> Decimal:
    if abs(exponent) > MAX_POWER:
        raise FormulaError(f"an exponent is larger than {MAX_POWER}")
    return base**exponent


def _divide(values: Sequence[Decimal]) -> Decimal:
    if values[1] == 0:
        raise FormulaError("something is divided by zero")
    return values[0] / values[1]


def _rest(values: Sequence[Decimal]) -> Decimal:
    if values[1] == 0:
        raise FormulaError("something is divided by zero")
    return values[0] % values[1]


def _product(values: Sequence[Decimal]) -> Decimal:
    result = Decimal(1)
    for value in values:
        result *= value
    return result


def round_to(value: Decimal, digits: int, how: str = ROUND_HALF_UP) -> Decimal:
    """Round a number to so many decimal places."""
    try:
        return value.quantize(Decimal(1).scaleb(-digits), rounding=how)
    except InvalidOperation:
        raise FormulaError(f"the number has more than {DIGITS} digits with {digits} decimal places") from None


def _places(values: Sequence[Decimal]) -> int:
    if len(values) == 1:
        return 0
    if values[1] != int(values[1]) or not 0 <= values[1] <= MAX_PRECISION:
        raise FormulaError(f"decimal places are 0 to {MAX_PRECISION}")
    return int(values[1])


_MANY = 1 << 10
_NUMERIC: Mapping[str, tuple[int, int, Callable[[Sequence[Decimal]], Value]]] = {
    "add": (1, _MANY, lambda v: sum(v, Decimal(0))),
    "subtract": (2, 2, lambda v: v[0] - v[1]),
    "multiply": (1, _MANY, _product),
    "divide": (2, 2, _divide),
    "modulo": (2, 2, _rest),
    "power": (2, 2, lambda v: _power(v[0], v[1])),
    "percent": (2, 2, lambda v: v[0] * v[1] / 100),
    "negate": (1, 1, lambda v: -v[0]),
    "abs": (1, 1, lambda v: abs(v[0])),
    "sqrt": (1, 1, lambda v: v[0].sqrt()),
    "min": (1, _MANY, min),
    "max": (1, _MANY, max),
    "sum": (1, _MANY, lambda v: sum(v, Decimal(0))),
    "average": (1, _MANY, lambda v: sum(v, Decimal(0)) / len(v)),
    "count": (1, _MANY, lambda v: Decimal(len(v))),
    "round": (1, 2, lambda v: round_to(v[0], _places(v))),
    "floor": (1, 1, lambda v: round_to(v[0], 0, ROUND_FLOOR)),
    "ceiling": (1, 1, lambda v: round_to(v[0], 0, ROUND_CEILING)),
    "lt": (2, 2, lambda v: v[0] < v[1]),
    "lte": (2, 2, lambda v: v[0] <= v[1]),
    "gt": (2, 2, lambda v: v[0] > v[1]),
    "gte": (2, 2, lambda v: v[0] >= v[1]),
    "eq": (2, 2, lambda v: v[0] == v[1]),
    "ne": (2, 2, lambda v: v[0] != v[1]),
}
_LISTS = frozenset({"sum", "average", "min", "max", "count", "multiply"})
"""Operations that may go over a list."""

OPERATIONS = (*_NUMERIC, "and", "or", "not", "if")


def is_id(value: Any) -> bool:
    """Return whether a text could be the name of a registered formula."""
    return isinstance(value, str) and _ID.fullmatch(value) is not None


def check_formula(formula: Any) -> None:
    """
    Check a formula, without any inputs.

    :raises FormulaError: naming what is wrong with it.
    """
    _Check().tree(formula, 1)


class _Check:
    def __init__(self) -> None:
        self._count = 0

    def tree(self, node: Any, depth: int) -> None:
        self._count += 1
        if self._count > MAX_NODES:
            raise FormulaError(f"the formula has more than {MAX_NODES} parts")
        if depth > MAX_DEPTH:
            raise FormulaError(f"the formula is more than {MAX_DEPTH} deep")
        if isinstance(node, bool):
            return
        if isinstance(node, (int, float)):
            decimal(node)
        elif not isinstance(node, Mapping):
            raise FormulaError('a part is neither a number nor an object: a variable is {"var": "price"}')
        elif node.keys() == {"const"}:
            decimal(node["const"])
        elif node.keys() == {"var"}:
            if not json_paths.is_place(node["var"]):
                raise FormulaError("a variable has no name")
        else:
            self._operation(node, depth)

    def _operation(self, node: Mapping[str, Any], depth: int) -> None:
        name = node.get("op")
        if name not in OPERATIONS:
            raise FormulaError(f"{str(name)[:32]!r} is not an operation; choose one of {', '.join(OPERATIONS)}")
        if "over" in node:
            if node.keys() != {"op", "over", "of"} or name not in _LISTS or not json_paths.is_place(node["over"]):
                raise FormulaError(f"over and of stand together, with {', '.join(sorted(_LISTS))} alone")
            self.tree(node["of"], depth + 1)
            return
        args = node.get("args")
        if node.keys() != {"op", "args"} or not isinstance(args, list):
            raise FormulaError(f"{name} has members besides op and args, or no list of args")
        least, most = (3, 3) if name == "if" else (1, 1) if name == "not" else _NUMERIC.get(name, (1, _MANY))[:2]
        if not least <= len(args) <= most:
            wanted = str(least) if least == most else f"at least {least}" if most == _MANY else f"{least} to {most}"
            raise FormulaError(f"{name} has {len(args)} args, and not {wanted}")
        for arg in args:
            self.tree(arg, depth + 1)


def decimal(value: Any, parameter: str = "expression") -> Decimal:
    """
    Return a number as it was written: ``0.1`` is a tenth.

    :raises FormulaError: it is none, or has too many digits.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise FormulaError("a value is not a number", parameter)
    text = value if isinstance(value, str) else format(Decimal(repr(value)), "f")
    if isinstance(value, str) and (len(text) > MAX_INPUT or _DECIMAL.fullmatch(text) is None):
        raise FormulaError(f"{text[:32]!r} is not a decimal number of up to {MAX_INPUT} characters", parameter)
    if len(text) > 2 * MAX_INPUT:
        raise FormulaError("a number has too many digits", parameter)
    return Decimal(text)


class _Work:
    """The state of one calculation: the steps that are left."""

    def __init__(self) -> None:
        self._left = MAX_STEPS

    def value(self, node: Any, scopes: Sequence[Mapping[str, Any]]) -> Value:
        self._left -= 1
        if self._left < 0:
            raise FormulaError(f"the formula takes more than {MAX_STEPS} steps with these inputs")
        if isinstance(node, bool):
            return node
        if not isinstance(node, Mapping):
            return decimal(node)
        if "const" in node:
            return decimal(node["const"])
        if "var" in node:
            return self._variable(node["var"], scopes)
        return self._operation(node, scopes)

    @staticmethod
    def _find(place: str, scopes: Sequence[Mapping[str, Any]]) -> Any:
        for scope in scopes:
            found = json_paths.at(scope, place)
            if found is not json_paths.MISSING:
                return found
        raise FormulaError(f"inputs has no {place[:64]!r}", "inputs")

    def _variable(self, place: str, scopes: Sequence[Mapping[str, Any]]) -> Value:
        found = self._find(place, scopes)
        if isinstance(found, bool):
            return found
        try:
            return decimal(found, "inputs")
        except FormulaError as error:
            raise FormulaError(f"{place[:64]!r}: {error}", "inputs") from None

    def _operation(self, node: Mapping[str, Any], scopes: Sequence[Mapping[str, Any]]) -> Value:
        name = node["op"]
        if "over" in node:
            members = self._find(node["over"], scopes)
            if not isinstance(members, list) or not 0 < len(members) <= MAX_MEMBERS:
                raise FormulaError(f"{node['over'][:64]!r} is not a list with members", "inputs")
            inner = [({"item": member} if not isinstance(member, Mapping) else member) for member in members]
            values = [_number(self.value(node["of"], (member, *scopes))) for member in inner]
            return _NUMERIC[name][2](values)
        args = node["args"]
        if name == "if":
            return self.value(args[1] if _flag(self.value(args[0], scopes)) else args[2], scopes)
        if name == "not":
            return not _flag(self.value(args[0], scopes))
        if name == "and":
            return all(_flag(self.value(arg, scopes)) for arg in args)
        if name == "or":
            return any(_flag(self.value(arg, scopes)) for arg in args)
        return _NUMERIC[name][2]([_number(self.value(arg, scopes)) for arg in args])


def worked_out(formula: Any, inputs: Mapping[str, Any]) -> Value:
    """
    Return the value of a formula that was checked.

    :raises FormulaError: for inputs that are missing or no numbers, a division by zero, what is too large.
    """
    with localcontext(context()):
        try:
            return _Work().value(formula, (inputs,))
        except DecimalException as error:
            said = "a number becomes too large" if isinstance(error, Overflow) else "an operation has no result"
            raise FormulaError(said, "inputs") from None
