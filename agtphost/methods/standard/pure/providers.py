"""
What holds around providers of EXTRACT, TRANSLATE, PREDICT, CLASSIFY, GENERATE and RECOMMEND (methods v01 sections 4.1,
4.5, 4.7, 4.9, 4.12, 4.13).

A provider is an endpoint of the operator's on ``METHOD /``: a function, a recipe, an MCP tool or an HTTPS service. The
host cannot know whether a translation is right; it does know that a language tag is one, that an answer with
less confidence than the caller asked is refused, that a constraint is a limit and not a wish, and that generated code
is reviewed before it runs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from decimal import Decimal
from functools import partial
from typing import Any, cast

from zope.interface import implementer

from agtphost.compute.functions import Computation
from agtphost.contract.binding import COMPUTE, Binding
from agtphost.contract.schemas import CompiledSchema
from agtphost.dispatch import generated_code
from agtphost.errors import Refusal
from agtphost.handlers import parameters
from agtphost.handlers.built_in import Answer, BuiltInContext, IBuiltInHandler, Overstepped, ask_handler
from agtphost.handlers.context import EndpointError, EndpointResponse
from agtphost.handlers.interface import IHandler
from agtphost.methods.standard.pure import criteria, languages, material, templates
from agtphost.vocabulary import money
from agtphost.vocabulary.jsonslices import HEAVY, weight
from agtphost.vocabulary.reasons import Reason
from agtphost.vocabulary.steps import Executor


class ProviderRule:
    """The checks around one method's provider."""

    function = ""
    """
    The registered function that checks a call, and afterwards the result with it, in a worker where that takes long.
    It returns ``result`` and ``withheld``, or the ``fault`` of the provider. Empty: the rule checks both itself.
    """

    def check_call(self, call: Mapping[str, Any]) -> None:
        """
        Check the parameters before the provider is called.

        :raises Refusal: 422.
        """

    def check_result(self, context: BuiltInContext, result: dict[str, Any]) -> Answer:
        """Return the answer from the provider's result."""
        raise NotImplementedError


class Extracting(ProviderRule):
    """The rule of EXTRACT: the data follows the caller's schema, and each field has a confidence."""

    function = "extract"


class Classifying(ProviderRule):
    """The rule of CLASSIFY: labels are members of the taxonomy, and several only with ``multi_label``."""

    function = "classify"


class Translating(ProviderRule):
    """Languages are BCP 47 tags, and the answer names them."""

    def check_call(self, call: Mapping[str, Any]) -> None:
        for name in ("target_language", "source_language"):
            if name in call and not languages.is_tag(call[name]):
                raise parameters.invalid(name, f"{name} is not a BCP 47 language tag.", "Send one such as de or pt-BR.")

    def check_result(self, context: BuiltInContext, result: dict[str, Any]) -> Answer:
        call = context.input
        names = ("source_language", "target_language")
        return Answer(result={**{name: call[name] for name in names if name in call}, **result})


class Predicting(ProviderRule):
    """The rule of PREDICT: a result below ``confidence_floor`` is refused."""

    def check_result(self, context: BuiltInContext, result: dict[str, Any]) -> Answer:
        floor = material.share(context.input, "confidence_floor", 0.0)
        if not floor:
            return Answer(result=result)
        listed = result.get("predictions")
        if isinstance(listed, list):
            kept = [each for each in listed if isinstance(each, Mapping) and _confidence(each) >= floor]
            if kept:
                return Answer(result={**result, "predictions": kept}, beside={"withheld": len(listed) - len(kept)})
            raise _unsure(floor)
        if _confidence(result) < floor:
            raise _unsure(floor)
        return Answer(result=result)


def _confidence(result: Mapping[str, Any]) -> float:
    """Return the confidence from 0 to 1; -1 where the result has no valid one."""
    found = material.number(result.get("confidence"))
    return -1.0 if found is None or not 0 <= found <= 1 else found


def _unsure(floor: float) -> Refusal:
    return Refusal(
        Reason.CONFIDENCE_TOO_LOW,
        f"No prediction has a confidence of at least {floor:g}.",
        details={"parameter": "confidence_floor", "confidence_floor": floor},
    )


class Generating(ProviderRule):
    """The rule of GENERATE: the answer has the requested type, and code is marked until it has been checked."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now

    def check_call(self, call: Mapping[str, Any]) -> None:
        parameters.choice(call, "output_type", templates.OUTPUTS)

    def check_result(self, context: BuiltInContext, result: dict[str, Any]) -> Answer:
        wanted = context.input["output_type"]
        if result.get("output_type", wanted) != wanted:
            raise Overstepped(f"its result is {str(result['output_type'])[:32]!r} where {wanted} was asked for")
        result = {**result, "output_type": wanted}
        if wanted != "code":
            return Answer(result=result)
        # Any text may be code, under any name that the provider gives it.
        marks = (generated_code.mark_change(text, context.owner, self._now()) for text in _texts(result))
        return Answer(result=result, changes=tuple({mark.key: mark for mark in marks}.values()))


MAX_MARKED = 50
"""Texts of one result that are marked; one that has more is refused."""


def _texts(result: Mapping[str, Any]) -> list[str]:
    found: list[str] = []
    waiting: list[Any] = [value for name, value in result.items() if name != "output_type"]
    while waiting:
        each = waiting.pop()
        if isinstance(each, str) and each.strip():
            found.append(each)
        elif isinstance(each, Mapping):
            waiting.extend(each.values())
        elif isinstance(each, list):
            waiting.extend(each)
    if len(found) > MAX_MARKED:
        raise Overstepped(f"its result has more than {MAX_MARKED} texts, any of which may be code")
    return found


class Recommending(ProviderRule):
    """The rule of RECOMMEND: results outside the constraints are removed, and ``limit`` is kept."""

    def check_call(self, call: Mapping[str, Any]) -> None:
        constraint(call.get("constraints"))

    def check_result(self, context: BuiltInContext, result: dict[str, Any]) -> Answer:
        listed = result.get("recommendations")
        if not isinstance(listed, list):
            raise Overstepped("its result has no list of recommendations")
        within = constraint(context.input.get("constraints"))
        kept = [each for each in listed if within(each)]
        limit = parameters.count(context.input, "limit", len(kept) or 1, material.MAX_ROWS)
        return Answer(
            result={**result, "recommendations": kept[:limit]},
            beside={"withheld": len(listed) - len(kept)} if len(listed) > len(kept) else {},
        )


def constraint(constraints: Any) -> Callable[[Any], bool]:
    """
    Return the function that says whether a recommendation is within the constraints.

    ``budget`` bounds ``price`` or ``cost``; ``category`` is one or a list; ``availability`` true wants what is
    available; ``exclusions`` lists ids and names; everything else is criteria as of FILTER. What does not say what is
    constrained is outside.

    :raises Refusal: 422 for constraints that cannot be enforced.
    """
    if constraints is None or constraints == {}:
        return lambda found: True
    if not isinstance(constraints, Mapping):
        raise parameters.invalid(
            "constraints", "constraints is not an object.", 'Send {"budget": 50, "category": "audio"}.'
        )
    checks: list[Callable[[Any], bool]] = []
    rest: dict[str, Any] = {}
    for name, value in constraints.items():
        if name == "budget":
            checks.append(_budget(value))
        elif name == "exclusions":
            checks.append(_exclusions(value))
        elif name in ("availability", "available") and isinstance(value, bool):
            checks.append(_available(value))
        else:
            rest[name] = value
    if rest:
        checks.append(criteria.compile_criteria(rest, "constraints"))
    return lambda found: all(check(_Item(found)) for check in checks)


class _Item(dict[str, Any]):
    """A recommendation with the members of its ``item`` before its own."""

    def __init__(self, found: Any) -> None:
        own = found if isinstance(found, Mapping) else {"name": found}
        item = own.get("item")
        inner = item if isinstance(item, Mapping) else {"name": item} if isinstance(item, str) else {}
        super().__init__({**own, **inner})


def _budget(value: Any) -> Callable[[Any], bool]:
    currency = ""
    try:
        if isinstance(value, Mapping) or (isinstance(value, str) and " " in value):
            amount = money.parse(value)
            most, currency = amount.value, amount.currency
        else:
            most = money.amount(value)
    except money.MoneyError as error:
        raise parameters.invalid("constraints", f"budget {error}.", 'Send 50, or "50.00 EUR".') from None

    def is_within(item: Mapping[str, Any]) -> bool:
        said = item.get("price", item.get("cost"))
        try:
            if isinstance(said, Mapping) or (isinstance(said, str) and " " in said):
                found = money.parse(said)
                return found.value <= most and currency in ("", found.currency)
            return money.amount(said) <= Decimal(most) and (not currency or item.get("currency", currency) == currency)
        except money.MoneyError:
            return False

    return is_within


def _exclusions(value: Any) -> Callable[[Any], bool]:
    listed = [value] if isinstance(value, str) else value
    if not isinstance(listed, list) or len(listed) > 1_000 or not all(isinstance(each, (str, int)) for each in listed):
        raise parameters.invalid("constraints", "exclusions is not a list of ids and names.", "Send a list of texts.")
    known = {str(each).casefold() for each in listed}
    names = ("id", "name", "title", "sku", "category")
    return lambda item: not any(str(item.get(name, "")).casefold() in known for name in names if name in item)


def _available(wanted: bool) -> Callable[[Any], bool]:
    names = ("available", "in_stock", "availability")
    return lambda item: next((item[name] for name in names if name in item), None) is wanted


def rules(now: Callable[[], float]) -> Mapping[str, ProviderRule]:
    """Return the rules for what a provider answers, by method."""
    return {
        "EXTRACT": Extracting(),
        "TRANSLATE": Translating(),
        "PREDICT": Predicting(),
        "CLASSIFY": Classifying(),
        "GENERATE": Generating(now),
        "RECOMMEND": Recommending(),
    }


@implementer(IBuiltInHandler)
class Provided:
    """
    The handler of a provider's binding: the operator's, within its rule.

    :param output: the operator's schema of the result.
    :param offload: calls a function off the reactor.
    """

    def __init__(self, rule: ProviderRule, inner: IHandler, output: CompiledSchema | None, offload: Executor) -> None:
        self.kind = inner.kind
        self._offload = offload
        self._rule = rule
        self._inner = inner
        self._output = output

    def handle(self, context: BuiltInContext) -> Any:
        if not self._rule.function:
            self._rule.check_call(context.input)
            return self._answer(context)
        given = {"call": context.input}
        return Computation(function=self._rule.function, given=given, finish=lambda checked: self._answer(context))

    async def _answer(self, context: BuiltInContext) -> Any:
        answer = await ask_handler(self._inner, context)
        if isinstance(answer, EndpointError):
            return answer
        response = answer if isinstance(answer, EndpointResponse) else EndpointResponse(result=answer)
        if response.body is not None or not isinstance(response.result, Mapping):
            raise Overstepped("its result is not an object, so the rules of the method cannot be applied")
        if self._rule.function:
            given = {"call": context.input, "found": response.result}
            return Computation(function=self._rule.function, given=given, finish=partial(_checked_answer, response))
        if weight(response.result) > HEAVY or weight(context.input) > HEAVY:
            found: Answer = await self._offload(self._apply_rule, context, response)
            return found
        return self._apply_rule(context, response)

    def _apply_rule(self, context: BuiltInContext, response: EndpointResponse) -> Answer:
        ruled = self._rule.check_result(context, dict(cast(Mapping[str, Any], response.result)))
        result = ruled.result
        if self._output is not None and not self._output.is_valid(result) and self._output.is_valid(response.result):
            # Added members are removed if the schema does not allow them; removed ones stay removed.
            added = result.keys() - response.result.keys()
            result = {name: value for name, value in result.items() if name not in added}
        return replace(
            ruled, result=result, status=response.status, content_type=response.content_type, headers=response.headers
        )


def _checked_answer(response: EndpointResponse, checked: Mapping[str, Any]) -> Answer:
    """
    Return the answer from what the function of a rule returned.

    :raises Overstepped: the provider's result is not one.
    """
    if "fault" in checked:
        raise Overstepped(checked["fault"])
    return Answer(
        result=checked["result"],
        beside={"withheld": checked["withheld"]} if checked["withheld"] else {},
        status=response.status,
        content_type=response.content_type,
        headers=response.headers,
    )


def wrap_provider(binding: Binding, offload: Executor, now: Callable[[], float] = time.time) -> Binding:
    """
    Return an operator's binding as it is served: the handler of a provider method gets wrapped.

    :param offload: calls a function off the reactor.
    """
    rule = rules(now).get(binding.method)
    if rule is None:
        return binding
    handler = Provided(rule, cast(IHandler, binding.handler), binding.output_schema, offload)
    return replace(binding, handler=handler, weight=COMPUTE if rule.function else binding.weight)
