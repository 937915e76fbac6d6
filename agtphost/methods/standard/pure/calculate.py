"""CALCULATE: formulas of callers, and those that the operator registered (methods v01 section 4.10)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal, localcontext
from typing import Any

from agtphost.errors import Refusal
from agtphost.handlers import parameters
from agtphost.methods.standard.pure import currencies, material
from agtphost.vocabulary.formulas import (
    MAX_PRECISION,
    FormulaError,
    check_formula,
    context,
    is_id,
    round_to,
    worked_out,
)


class Calculator:
    """
    The handler of CALCULATE.

    :param formulas: those that the operator registered, by their names.
    """

    def __init__(self, formulas: Mapping[str, Any]) -> None:
        self._formulas = formulas

    def calculate(self, call: Mapping[str, Any]) -> dict[str, Any]:
        """
        Return the result of CALCULATE.

        :param call: ``expression``, a tree or the name of a registered formula; ``inputs``; ``precision``, decimal
            places; ``currency``, which says how many there are where ``precision`` does not.
        :raises Refusal: 422 for everything that cannot be worked out.
        """
        formula, name = self._formula(material.require(call, "expression"))
        inputs = material.require(call, "inputs")
        if not isinstance(inputs, Mapping):
            raise parameters.invalid("inputs", "inputs is not an object.", 'Send inputs as {"price": "19.90"}.')
        places = parameters.start(call, "precision", MAX_PRECISION) if call.get("precision") is not None else None
        currency = _currency(call)
        if currency and places is None:
            places = currencies.PLACES[currency]
        try:
            check_formula(formula)
            found = worked_out(formula, inputs)
            with localcontext(context()):
                output = found if isinstance(found, bool) else _format_number(found, places)
        except FormulaError as error:
            raise parameters.invalid(error.parameter, f"{error}.".capitalize(), "Correct it.") from None
        result: dict[str, Any] = {"inputs": inputs, "formula": formula, "value": output}
        if name:
            result["formula_id"] = name
        if currency:
            result["currency"] = currency
        return result

    def _formula(self, expression: Any) -> tuple[Any, str]:
        if isinstance(expression, Mapping):
            return expression, ""
        if is_id(expression) and expression in self._formulas:
            return self._formulas[expression], str(expression)
        raise _no_formula(expression, list(self._formulas))


def _no_formula(expression: Any, known: Sequence[str]) -> Refusal:
    named = f"Registered are {', '.join(sorted(known)[:16])}." if known else "This host has no registered formulas."
    said = "expression must be a formula or the name of a registered one; a text is not evaluated."
    example = 'Send {"op": "add", "args": [{"var": "a"}, 1]}.'
    return parameters.invalid("expression", said, f"{example} {named}")


def _currency(call: Mapping[str, Any]) -> str:
    code = call.get("currency")
    if code is None:
        return ""
    if not isinstance(code, str) or code not in currencies.PLACES:
        raise parameters.invalid("currency", "currency is not an ISO 4217 code.", "Send one such as EUR.")
    return code


def _format_number(value: Decimal, places: int | None) -> str:
    """Return a number as text with all of its digits."""
    if places is not None:
        return format(round_to(value, places), "f")
    value = value.normalize() if value else Decimal(0)
    return format(value, "f")


def calculate(call: Mapping[str, Any]) -> dict[str, Any]:
    """Return the result of CALCULATE with a formula of the caller's; see :meth:`Calculator.calculate`."""
    return Calculator({}).calculate(call)


def calculate_registered(given: Mapping[str, Any]) -> dict[str, Any]:
    """
    Return the result of CALCULATE with a registered formula.

    :param given: ``call``; ``formulas`` by name, of which those that are not called may be null.
    """
    return Calculator(given["formulas"]).calculate(given["call"])
