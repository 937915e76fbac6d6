"""Bind the standard methods that are switched on by ``[methods] standard``, each to ``METHOD /``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from zope.interface import implementer

from agtphost.config.faults import ConfigFault
from agtphost.config.methods import MethodsSection
from agtphost.contract.binding import LIGHT, Binding
from agtphost.contract.endpoint import Endpoint
from agtphost.contract.method_parameters import parameter_faults
from agtphost.contract.schemas import SchemaError, compile_schema
from agtphost.errors import Problem, Refusal
from agtphost.handlers.built_in import BuiltInContext, IBuiltInHandler
from agtphost.identity.peer import Assurance
from agtphost.identity.required_assurance import default_assurance
from agtphost.methods.standard import check, find, transaction_family
from agtphost.methods.standard.collections import family as collections
from agtphost.methods.standard.orchestration import family as orchestration
from agtphost.methods.standard.pure import handlers as pure
from agtphost.methods.standard.pure.providers import wrap_provider
from agtphost.methods.standard.services import Handlers, MethodServices
from agtphost.methods.standard.table import STANDARD, StandardMethod
from agtphost.vocabulary.reasons import Reason
from agtphost.vocabulary.status import Status
from agtphost.vocabulary.steps import Executor

FAMILIES: Final[Sequence[Handlers]] = (
    check.handlers,
    collections.handlers,
    find.handlers,
    orchestration.handlers,
    pure.handlers,
    transaction_family.handlers,
)
"""The functions that make the built-in handlers, one per family of methods."""

ALWAYS_BOUND: Final = frozenset({"QUOTE", "RESUME"})
"""Standard methods that every host binds to ``/`` anyway; no setting removes them."""


@implementer(IBuiltInHandler)
class ProviderMissing:
    """A handler of a method that needs an operator's implementation, while none is bound."""

    kind = "built_in"

    def handle(self, context: BuiltInContext) -> Any:
        raise Refusal(Reason.PROVIDER_MISSING, details={"method": context.method})


def standard_methods(
    section: MethodsSection,
    parts: Callable[[], MethodServices],
    endpoints: Iterable[Binding],
    floor: Assurance,
    families: Sequence[Handlers] = FAMILIES,
) -> tuple[Binding, ...]:
    """
    Return the bindings of the methods that are switched on.

    :param parts: returns the services of the handlers; called if there is any such method.
    :param endpoints: the operator's; one on ``METHOD /`` replaces the built-in.
    :param floor: the least assurance of a caller that changes state; that of a reader follows from it.
    :param families: make the built-in handlers.
    """
    taken = {binding.method for binding in endpoints if binding.path == "/"}
    wanted = [row for row in STANDARD.values() if row.name in section.names - taken - ALWAYS_BOUND]
    if not wanted:
        return ()
    made: dict[str, IBuiltInHandler] = {}
    given = parts()
    for family in families:
        made |= family(given)
    return tuple(_bind(row, made.get(row.name), given, floor) for row in wanted)


def _bind(row: StandardMethod, handler: IBuiltInHandler | None, parts: MethodServices, floor: Assurance) -> Binding:
    narrowed: Mapping[str, Mapping[str, Any]] = getattr(handler, "parameters", None) or {}
    binding = Binding.native(
        row.name,
        "/",
        ProviderMissing() if handler is None else handler,
        parts.catalog.statement(row.name),
        default_assurance(floor, changes=row.writes),
        changes=row.writes,
        timeout=getattr(handler, "timeout", None),
        weight=getattr(handler, "weight", LIGHT),
    )
    semantic = {"outcome": row.outcome, **({"impact": row.impact} if row.impact else {})}
    schema = row.input_schema(narrowed)
    return replace(
        _with_scope(binding, row),
        input_schema=schema,
        in_turn=True,
        most_octets=getattr(handler, "most_octets", None),
        details={"semantic": semantic},
        # RUN without a procedure runs nothing (core v08 section 7.4.2), so lists leave it out.
        absent=handler is None or any(parameter_faults(row.name, schema.schema)),
        operators=getattr(handler, "operators", False),
        people=getattr(handler, "people", False),
    )


def collection_faults(section: MethodsSection) -> list[ConfigFault]:
    """Return a fault for each collection whose schema cannot be used."""
    found = []
    for number, each in enumerate(section.collection):
        try:
            if each.schema_ is not None:
                compile_schema(dict(each.schema_), role="output")
        except SchemaError as error:
            location = ("methods", "collection", number, "schema")
            found.append(
                ConfigFault(location=location, message=f"is not a JSON Schema that this host supports: {error}")
            )
    return found


def table_problems(section: MethodsSection, endpoints: Iterable[Endpoint]) -> Iterator[Problem]:
    """
    Yield a problem for each endpoint that replaces a standard method but lacks a parameter that its callers must send.
    """
    for endpoint in endpoints:
        if endpoint.path != "/" or endpoint.method not in section.names - ALWAYS_BOUND:
            continue
        taken = endpoint.input_schema.schema.get("properties", {})
        for name in STANDARD[endpoint.method].required:
            if name not in taken:
                yield Problem(
                    message=f"{endpoint.name}: input_schema lacks {name!r}, which every {endpoint.method} request has",
                    file=str(endpoint.file),
                    line=endpoint.line,
                    hint="declare it, or leave the method out of [methods] standard",
                )


def apply_tables(
    section: MethodsSection, endpoints: Iterable[Binding], offload: Executor, now: Callable[[], float]
) -> list[Binding]:
    """
    Return the operator's endpoints; those that replace a standard method follow the rules of its table.

    :param offload: calls a function off the reactor.
    """
    return [
        replace(
            wrap_provider(_with_scope(binding, STANDARD[binding.method]), offload, now),
            table=STANDARD[binding.method].table_schema(),
        )
        if binding.path == "/" and binding.method in section.names and binding.method not in ALWAYS_BOUND
        else binding
        for binding in endpoints
    ]


def _with_scope(binding: Binding, row: StandardMethod) -> Binding:
    """Return the binding with the scope that the draft requires of the method's callers."""
    if not row.scope:
        return binding
    scopes = dict.fromkeys((*binding.required_scopes, row.scope))
    return replace(binding, required_scopes=tuple(scopes), scope_status=Status.SCOPE_VIOLATION)
