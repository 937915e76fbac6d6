"""
RUN: methods v01 sections 8.8 and 10.3.

A procedure is a recipe that ``[methods.procedures]`` gives a name. Nothing else is ever run: the names are the only
values that ``procedure_id`` has, input is an object and never a text, and every call has a record that says what was
run, by whom and with what (:mod:`agtphost.dispatch.sealer`). What its steps do they do as the caller, at every gate.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from twisted.internet.defer import Deferred, TimeoutError
from twisted.internet.interfaces import IReactorTime
from zope.interface import implementer

from agtphost.contract.binding import Binding
from agtphost.contract.recipes.book import RecipeBook
from agtphost.contract.recipes.recipe import Recipe
from agtphost.dispatch import authority
from agtphost.errors import Refusal
from agtphost.handlers import parameters
from agtphost.handlers.authorization import owner_of
from agtphost.handlers.built_in import Answer, BuiltInContext, IBuiltInHandler
from agtphost.handlers.composition import Composition
from agtphost.handlers.context import EndpointError
from agtphost.methods.standard.orchestration import plan
from agtphost.vocabulary import jsontext
from agtphost.vocabulary.reasons import Reason
from agtphost.vocabulary.status import Status
from agtphost.vocabulary.steps import Executor

SCOPE: Final = "activation:run"
LONGEST_INPUT: Final = 65_536
"""Octets of the input of a procedure."""


@implementer(IBuiltInHandler)
class Procedures:
    """
    The handler of RUN.

    :param named: recipes by procedure_id, as ``[methods.procedures]`` has them.
    :param offload: calls a function off the reactor.
    """

    kind = "built_in"
    timeout = 120.0

    def __init__(self, named: Mapping[str, str], book: RecipeBook, clock: IReactorTime, offload: Executor) -> None:
        found = ((name, book.find(reference)) for name, reference in named.items())
        self._procedures: dict[str, Recipe] = {name: recipe for name, recipe in found if recipe is not None}
        self._book = book
        self._clock = clock
        self._offload = offload

    @property
    def parameters(self) -> Mapping[str, Mapping[str, Any]]:
        """The only values that ``procedure_id`` has here: the registry of core v08 section 7.4.2."""
        if not self._procedures:
            return {}
        names = sorted(self._procedures)
        return {"procedure_id": {"type": "string", "enum": names}}

    async def handle(self, context: BuiltInContext) -> Answer:
        """
        Run a procedure.

        :raises Refusal: 404 for none that is registered, 408 where it takes too
            long, 422 for an input that it does not take, or a step that failed.
        """
        caller, given = owner_of(context), context.input
        name = parameters.identifier(given, "procedure_id")
        recipe = self._procedures.get(name)
        if recipe is None:
            raise Refusal(Reason.PROCEDURE_UNKNOWN)
        value = given.get("input", {})
        if not isinstance(value, Mapping):
            raise parameters.invalid(
                "input", "input must be an object.", "Send the input of the procedure as an object."
            )
        if len(jsontext.encode(value)) > LONGEST_INPUT:
            raise parameters.invalid("input", f"input is longer than {LONGEST_INPUT} octets.", "Send less.")
        seconds = plan.seconds(given, "timeout", plan.LONGEST_TIMEOUT)
        self._require_needs(context, recipe)
        if recipe.endpoint is not None and not recipe.endpoint.input_schema.is_valid(value):
            faults = recipe.endpoint.input_schema.faults(value)
            raise Refusal(Reason.INVALID_INPUT, details={"parameter": "input", "faults": faults})
        made = Composition(recipe, self._clock, self._offload)
        context.invocation.announce(made.steps, alone=True)
        result = await self._run(made, replace(context, input=value), seconds)
        return Answer(result={"procedure_id": name, "recipe": recipe.identifier, "result": result, "by": caller.name})

    def _require_needs(self, context: BuiltInContext, recipe: Recipe) -> None:
        """Require, before the first step, the rights that all steps of a procedure need."""
        needs = self._book.needs(recipe)
        exchange = context.invocation.exchange
        whole = Binding(
            method="RUN",
            path="/",
            handler=self,
            tier="A",
            required_scopes=(SCOPE, *needs.required_scopes),
            scope_status=Status.SCOPE_VIOLATION,
            min_assurance=needs.min_assurance,
        )
        authority.require_scopes(exchange, whole)
        authority.require_assurance(exchange, whole)

    async def _run(self, made: Composition, context: BuiltInContext, seconds: float | None) -> Any:
        running: Deferred[Any] = made.handle(context)
        if seconds is not None:
            running.addTimeout(seconds, self._clock)
        try:
            return await running
        except EndpointError as error:
            details = {"procedure_failed": error.name, **error.details}
            raise Refusal(Reason.PROCEDURE_FAILED, details=details) from None
        except TimeoutError:
            explanation = f"The procedure did not end within {seconds:g} seconds."
            raise Refusal(Reason.TIMEOUT, explanation) from None
