"""The built-ins of the pure methods: each names the function of this package that the dispatcher runs."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from zope.interface import implementer

from agtphost.audit.state import StateItem
from agtphost.compute import functions
from agtphost.compute.functions import Computation
from agtphost.contract.binding import COMPUTE
from agtphost.contract.schemas import TooCostly
from agtphost.dispatch import generated_code
from agtphost.errors import Refusal
from agtphost.handlers import parameters
from agtphost.handlers.built_in import Answer, BuiltInContext, IBuiltInHandler, Overstepped
from agtphost.methods.standard.collections.store import Collections
from agtphost.methods.standard.pure import (
    collection_methods,
    map_fields,
    material,
    normalize,
    rank,
    validate,
)
from agtphost.methods.standard.pure.merge import MAX_SOURCES
from agtphost.methods.standard.services import MethodServices
from agtphost.search.engine import BM25, SearchEngine
from agtphost.search.index import Index, SearchQuery
from agtphost.vocabulary.catalog import Catalog
from agtphost.vocabulary.reasons import Reason
from agtphost.vocabulary.sorted_blocks import Snapshot
from agtphost.vocabulary.steps import Executor

COLLECTION = "collection:"
"""Before the name of a collection, in place of data."""

EMBEDDED = 500
"""Items of one call that are given vectors."""


@implementer(IBuiltInHandler)
class Pure:
    """
    Answers by a registered function of the parameters.

    :param function: its name in :data:`agtphost.compute.functions.FUNCTIONS`.
    :param named: a parameter that may name collections in place of data: ``collection:orders``.
    :param collections: which there are.
    """

    kind = "built_in"
    weight = COMPUTE

    def __init__(self, function: str, *, named: str = "", collections: Collections | None = None) -> None:
        self._function = function
        self._named = named
        self._collections = collections

    def handle(self, context: BuiltInContext) -> Any:
        call = context.input
        held: dict[int, Snapshot[StateItem]] = {}
        if self._named and self._collections is not None:
            value: Any = call.get(self._named)
            if is_reference(value):
                held[-1] = self._items(context, value)
            elif isinstance(value, list):
                for number, each in enumerate(value[:MAX_SOURCES]):
                    if is_reference(each):
                        held[number] = self._items(context, each)
        if held:
            read = partial(collection_methods.build_call, self._function, call, self._named, held)
            return Computation(function=collection_methods.FUNCTION, read=read)
        return Computation(function=self._function, given=call)

    def _items(self, context: BuiltInContext, reference: str) -> Snapshot[StateItem]:
        """
        Return a snapshot of the items of a collection that the caller may see.

        :raises Refusal: 404 for one that it may not read; 422 for one with too many items.
        """
        assert self._collections is not None
        found = self._collections.require_reading(context, reference.removeprefix(COLLECTION), self._named)
        if len(found) > material.MAX_ROWS:
            raise parameters.invalid(
                self._named,
                f"The collection has more than {material.MAX_ROWS} items.",
                "SEARCH or SCAN it, and send the items that matter.",
            )
        return found.items_after(context)


def is_reference(value: Any) -> bool:
    """Return whether a value names a collection."""
    return isinstance(value, str) and value.startswith(COLLECTION)


@implementer(IBuiltInHandler)
class Rank:
    """The handler of RANK: by numbers, and by how well the items match a text."""

    kind = "built_in"
    weight = COMPUTE

    def __init__(self, engine: SearchEngine, offload: Executor) -> None:
        self._engine = engine
        self._offload = offload

    def handle(self, context: BuiltInContext) -> Any:
        call = context.input
        if self._engine.name != BM25 and len(material.rows(call, "items")) <= EMBEDDED and rank.text_of(call):
            return self._by_meaning(call)
        return Computation(function="rank", given=call)

    async def _by_meaning(self, call: Mapping[str, Any]) -> Any:
        items = material.rows(call, "items")
        index = Index(await self._offload(rank.entries, items))
        found = await self._engine.search(index, SearchQuery(text=rank.text_of(call), limit=max(len(items), 1)))
        return rank.listed_by(call, items, found)


@implementer(IBuiltInHandler)
class Judged:
    """
    Answers by a registered function, which may ask a provider for what a host cannot do itself.

    The function returns ``asked`` for the provider, ``result``, or the ``fault`` of what the provider ``found``.

    :param path: where the operator binds the provider.
    :param work: what needs it.
    """

    kind = "built_in"
    weight = COMPUTE

    def __init__(self, parts: MethodServices, function: str, path: str = "", work: str = "") -> None:
        self._parts = parts
        self._function = function
        self._path = path
        self._work = work

    def handle(self, context: BuiltInContext) -> Any:
        return self._compute(context, {"call": context.input}, self._path)

    def _compute(self, context: BuiltInContext, given: Mapping[str, Any], path: str) -> Computation:
        def finish(made: Mapping[str, Any]) -> Any:
            if "fault" in made:
                raise Overstepped(made["fault"])
            return made["result"] if "result" in made else self._ask(context, given, path, made["asked"])

        return Computation(function=self._function, given=given, finish=finish)

    async def _ask(self, context: BuiltInContext, given: Mapping[str, Any], path: str, asked: Mapping[str, Any]) -> Any:
        self._require_provider(context, path, self._work)
        found = await context.invoke(context.method, path, asked)
        return self._compute(context, {**given, "found": found}, path)

    def _require_provider(self, context: BuiltInContext, path: str, work: str) -> None:
        """
        Require a provider.

        :raises Refusal: 503 where none is bound.
        """
        if self._parts.find(context.method, path) is None:
            raise Refusal(
                Reason.PROVIDER_MISSING,
                f"{work} needs a provider, and none is bound.",
                remedy=f"The operator has to bind an endpoint of [endpoints] directory to {context.method} {path}: a "
                "function, a recipe, an MCP tool or an HTTPS service.",
                details={"method": context.method, "path": path},
            )


class Map(Judged):
    """
    The handler of MAP: by equal names; the other strategies need a provider on a path of their name.

    Without a strategy it is ``semantic`` where that has a provider, and else ``exact``.
    """

    def handle(self, context: BuiltInContext) -> Any:
        usual = "exact" if self._parts.find(context.method, "/semantic") is None else "semantic"
        strategy = parameters.choice(context.input, "strategy", map_fields.STRATEGIES, usual)
        if strategy != "exact":
            self._require_provider(context, f"/{strategy}", f"The strategy {strategy}")
        return self._compute(context, {"call": context.input, "strategy": strategy}, f"/{strategy}")


@implementer(IBuiltInHandler)
class Normalize:
    """The handler of NORMALIZE; addresses need an operator's endpoint on ``NORMALIZE /address``."""

    kind = "built_in"
    weight = COMPUTE
    ADDRESSES = "/address"

    def __init__(self, parts: MethodServices) -> None:
        self._parts = parts

    def handle(self, context: BuiltInContext) -> Any:
        call = context.input
        kind = call.get("type")
        if kind == "address" and self._parts.find(context.method, self.ADDRESSES) is not None:
            normalize.locale_of(call)
            given = {name: value for name, value in call.items() if name != "type"}
            return context.invoke(context.method, self.ADDRESSES, given)
        # What is none of these is refused before anything is worked out.
        packaged = isinstance(kind, str) and kind in normalize.PACKAGES
        return Computation(function=f"normalize-{kind}" if packaged else "normalize-date", given=call)


@implementer(IBuiltInHandler)
class Calculate:
    """
    The handler of CALCULATE.

    :param formulas: those that the operator registered, by their names.
    """

    kind = "built_in"
    weight = COMPUTE

    def __init__(self, formulas: Mapping[str, Any]) -> None:
        self._formulas = formulas

    def handle(self, context: BuiltInContext) -> Any:
        call = context.input
        expression = call.get("expression")
        if isinstance(expression, Mapping):
            return Computation(function="calculate", given=call)
        name = expression if isinstance(expression, str) and expression in self._formulas else ""
        formulas = {each: self._formulas[each] if each == name else None for each in self._formulas}
        return Computation(function="calculate-registered", given={"call": call, "formulas": formulas})


@implementer(IBuiltInHandler)
class Validate:
    """
    The handler of VALIDATE; a proposed call is checked with the caller's rights, and not made.

    A text that is found sound loses the mark of unchecked code.
    """

    kind = "built_in"
    weight = COMPUTE

    def __init__(self, parts: MethodServices) -> None:
        self._parts = parts

    def handle(self, context: BuiltInContext) -> Any:
        call = context.input
        kind = validate.kind_of(call)
        if kind == "call":
            return Answer(result=self._check_call(context, call["target"]).result(strict=material.flag(call, "strict")))
        given = dict(call)
        if kind in validate.WITH_CATALOG and self._parts.catalog is not Catalog.load():
            given[validate.CATALOG] = self._parts.catalog.document()
        return Computation(function="validate", given=given, finish=partial(self._marks_taken, call))

    def _marks_taken(self, call: Mapping[str, Any], result: Mapping[str, Any]) -> Any:
        """Return the answer together with the marks that go with it."""
        if not result["valid"] or result["checked_as"] == "json":
            return Answer(result=result)
        target, held = call["target"], self._parts.held
        if functions.size_of(target, functions.SMALL) <= functions.SMALL:
            return Answer(result=result, changes=generated_code.clear_changes(held, target))
        return self._many_marks_taken(result, target)

    async def _many_marks_taken(self, result: Mapping[str, Any], target: Any) -> Answer:
        return Answer(
            result=result, changes=await self._parts.offload(generated_code.clear_changes, self._parts.held, target)
        )

    def _check_call(self, context: BuiltInContext, target: Any) -> validate.Findings:
        """Return whether the caller could make a call: its permission, and the validity of its parameters."""
        if not isinstance(target, Mapping) or not target.keys() <= {"method", "path", "parameters"}:
            raise parameters.invalid(
                "target",
                "target is not a proposed call.",
                'Send {"method": "BOOK", "path": "/room", "parameters": {...}}.',
            )
        method = parameters.require_text(target, "method")
        path = parameters.text(target, "path") or "/"
        given = target.get("parameters", {})
        if not isinstance(given, Mapping):
            raise parameters.invalid("target", "parameters of target must be an object.", "Send {} if there are none.")
        try:
            match = self._parts.find(method, path) if path.isascii() and path.startswith("/") else None
        except ValueError:
            match = None
        if match is None or not context.admits(match.binding):
            return validate.not_callable(method[:64], path[:128])
        binding = match.binding
        found = validate.Findings(checked="call")
        whole = {**given, **match.path_parameters}
        try:
            for schema in (binding.table, binding.input_schema):
                if schema is not None and not schema.is_valid(whole):
                    found.errors += [
                        {"path": each["path"], "message": each["message"], "rule": each["keyword"]}
                        for each in schema.faults(whole)
                    ]
        except TooCostly as error:
            raise Refusal(error.reason) from None
        if binding.absent:
            found.errors.append({"path": "", "message": "it has no provider yet", "rule": "provider-missing"})
        if (binding.details or {}).get("deprecated"):
            found.warnings.append({"path": "", "message": "the endpoint is deprecated", "rule": "deprecated"})
        semantic = (binding.details or {}).get("semantic", {})
        if isinstance(semantic, Mapping) and semantic.get("impact") == "irreversible":
            found.warnings.append({"path": "", "message": "what it does cannot be undone", "rule": "irreversible"})
        return found


def handlers(parts: MethodServices) -> Mapping[str, IBuiltInHandler]:
    """Return the built-ins of this package, by method."""
    offload, kept = parts.offload, parts.collections
    engine = parts.search.without_store()
    return {
        "ANALYZE": Pure("analyze", named="target", collections=kept),
        "FILTER": Pure("filter", named="data", collections=kept),
        "VALIDATE": Validate(parts),
        "TRANSFORM": Pure("transform"),
        "NORMALIZE": Normalize(parts),
        "RANK": Rank(engine, offload),
        "CALCULATE": Calculate(parts.config.methods.formulas),
        "EVALUATE": Judged(parts, "evaluate", "/keywords", "A criterion with keywords"),
        "GENERATE": Pure("generate"),
        "MERGE": Pure("merge", named="sources", collections=kept),
        "MAP": Map(parts, "map"),
    }
