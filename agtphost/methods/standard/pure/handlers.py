"""The built-ins of the pure methods: the functions of this package, run where nobody waits for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from zope.interface import implementer

from agtphost.audit.state import StateItem
from agtphost.contract.schemas import TooCostly
from agtphost.dispatch import generated_code
from agtphost.errors import Refusal
from agtphost.handlers import parameters
from agtphost.handlers.built_in import Answer, BuiltInContext, IBuiltInHandler
from agtphost.methods.standard.collections.store import Collections
from agtphost.methods.standard.parts import Parts
from agtphost.methods.standard.pure import (
    calculating,
    classifying,
    filtering,
    mapping,
    material,
    merging,
    normalizing,
    ranking,
    scorecards,
    statistics,
    templates,
    transforming,
    validating,
)
from agtphost.methods.standard.pure.extraction import extracted
from agtphost.methods.standard.pure.merging import MAX_SOURCES
from agtphost.search.engine import BM25, SearchEngine
from agtphost.search.index import Index, Wanted
from agtphost.vocabulary.steps import Aside

Work = Callable[[Mapping[str, Any]], dict[str, Any]]

AT_ONCE = 200
"""Values, and fifties of characters, of an input that is worked on at once, as a thread would take longer to begin."""

CHARACTERS = 50

COLLECTION = "collection:"
"""Before the name of a collection, in place of data."""

MEANT = 100
"""Texts of one call that are searched for by meaning; where there are more, words decide."""

EMBEDDED = 500
"""Items of one call that are given vectors."""


def small(value: Any, most: int = AT_ONCE) -> bool:
    """Whether an input has no more values than that."""
    left = most
    waiting = [value]
    while waiting:
        each = waiting.pop()
        left -= 1 + (len(each) // CHARACTERS if isinstance(each, str) else 0)
        if left < 0:
            return False
        if isinstance(each, Mapping):
            left -= len(each)
            waiting.extend(each.values())
        elif isinstance(each, list):
            left -= len(each)
            if left >= 0:
                waiting.extend(each)
    return left >= 0


@implementer(IBuiltInHandler)
class Pure:
    """
    Answers by a function of the parameters.

    :param work: makes the result.
    :param aside: runs it off the reactor.
    :param long: whether it takes its time on the smallest input, too.
    :param named: a parameter that may name collections in place of data: ``collection:orders``.
    :param collections: which there are.
    """

    kind = "built_in"

    def __init__(
        self,
        work: Work,
        aside: Aside,
        *,
        long: bool = False,
        named: str = "",
        collections: Collections | None = None,
    ) -> None:
        self._work = work
        self._aside = aside
        self._long = long
        self._named = named
        self._collections = collections

    def handle(self, context: BuiltInContext) -> Any:
        if self._named and self._collections is not None:
            value: Any = context.input.get(self._named)
            if is_reference(value):
                return self._aside(self._read, context.input, self._items(context, value))
            if isinstance(value, list) and any(map(is_reference, value[:MAX_SOURCES])):
                held = [self._items(context, each) if is_reference(each) else each for each in value[:MAX_SOURCES]]
                return self._aside(self._read, context.input, held + value[MAX_SOURCES:])
        if not self._long and small(context.input):
            return self._work(context.input)
        return self._aside(self._work, context.input)

    def _items(self, context: BuiltInContext, reference: str) -> list[StateItem]:
        """
        What the caller may see of a collection.

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
        return list(found.since(context))

    def _read(self, call: Mapping[str, Any], held: list[Any]) -> dict[str, Any]:
        """The work on items, whose data is read here and not on the reactor."""

        def data(each: Any) -> Any:
            if isinstance(each, StateItem):
                return each.value["data"]
            return list(map(data, each)) if isinstance(each, list) and each and _is_held(each[0]) else each

        return self._work({**call, self._named: list(map(data, held))})


def is_reference(value: Any) -> bool:
    """Whether it names a collection."""
    return isinstance(value, str) and value.startswith(COLLECTION)


def _is_held(value: Any) -> bool:
    return isinstance(value, StateItem)


@implementer(IBuiltInHandler)
class Rank:
    """Answers RANK: by numbers, and by how well the items answer a text."""

    kind = "built_in"

    def __init__(self, engine: SearchEngine, aside: Aside) -> None:
        self._engine = engine
        self._aside = aside

    async def handle(self, context: BuiltInContext) -> Any:
        call = context.input
        text = await self._aside(ranking.text_of, call)
        if not text:
            return await self._aside(ranking.ranked, call)
        items = material.rows(call, "items")
        index = Index(await self._aside(ranking.entries, items))
        wanted = Wanted(text=text, limit=max(len(items), 1))
        if len(items) <= EMBEDDED:
            found = await self._engine.search(index, wanted)
        else:
            found = await self._aside(index.search, wanted)
        scores: list[tuple[int, float | None]] = list(found.hits)
        known = {number for number, _ in scores}
        scores += [(number, 0.0) for number in range(len(items)) if number not in known]
        return {**ranking.listed(call, items, scores), "engine": found.engine}


@implementer(IBuiltInHandler)
class Classify:
    """Answers CLASSIFY."""

    kind = "built_in"

    def __init__(self, engine: SearchEngine, aside: Aside) -> None:
        self._engine = engine
        self._aside = aside

    async def handle(self, context: BuiltInContext) -> Any:
        call = context.input
        await self._aside(classifying.bounded, call)
        items = material.rows(call, "items")
        if self._engine.name == BM25 or len(items) > MEANT:
            return await self._aside(classifying.by_words, call)
        labels = classifying.labels_of(call)
        read = ranking.entries(items)
        texts = [entry.said[: parameters.MAX_TEXT] or "-" for entry in read]
        engine, found = await _searched(self._engine, Index(classifying.index_of(labels)), texts, len(labels))
        return await self._aside(classifying.classified, call, read, labels, found, engine)


@implementer(IBuiltInHandler)
class Map:
    """Answers MAP."""

    kind = "built_in"

    def __init__(self, engine: SearchEngine, aside: Aside) -> None:
        self._engine = engine
        self._aside = aside

    async def handle(self, context: BuiltInContext) -> Any:
        call = context.input
        if self._engine.name == BM25 or call.get("strategy", "semantic") != "semantic":
            return await self._aside(mapping.mapped, call)
        sources, targets = mapping.fields_of(call, "source_schema"), mapping.fields_of(call, "target_schema")
        if len(targets) > MEANT:
            return await self._aside(mapping.mapped, call)
        texts = [f"{target.said} {target.description}".strip() for target in targets]
        index = Index(mapping.entries(sources))
        engine, found = await _searched(self._engine, index, texts, len(sources))
        return await self._aside(mapping.mapped, call, dict(enumerate(found)), engine)


async def _searched(
    engine: SearchEngine, index: Index, texts: Sequence[str], limit: int
) -> tuple[str, list[dict[int, float]]]:
    """What ranked, and for each text the numbers of entries with their scores."""
    found, name = [], engine.name
    for text in texts:
        answer = await engine.search(index, Wanted(text=text, limit=limit))
        name = BM25 if answer.engine == BM25 else name
        found.append(dict(answer.hits))
    return name, found


@implementer(IBuiltInHandler)
class Normalize:
    """Answers NORMALIZE; addresses are an endpoint's of the operator, on ``NORMALIZE /address``."""

    kind = "built_in"
    ADDRESSES = "/address"

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    def handle(self, context: BuiltInContext) -> Any:
        call = context.input
        if call.get("type") == "address" and self._parts.find(context.method, self.ADDRESSES) is not None:
            normalizing.locale_of(call)
            given = {name: value for name, value in call.items() if name != "type"}
            return context.invoke(context.method, self.ADDRESSES, given)
        if call.get("type") == "date" and small(call):
            return normalizing.normalized(call)
        return self._parts.aside(normalizing.normalized, call)


@implementer(IBuiltInHandler)
class Validate:
    """
    Answers VALIDATE; a proposed call is looked at with the rights of whoever asks, and not made.

    A text that is found sound is no longer marked as code that nobody has looked at.
    """

    kind = "built_in"

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._validator = validating.Validator(parts.catalog)

    async def handle(self, context: BuiltInContext) -> Any:
        call = context.input
        if validating.kind_of(call) == "call":
            result = self._proposed(context, call["target"]).result(strict=material.flag(call, "strict"))
        elif small(call) and not isinstance(call.get("schema"), (str, type(None))):
            result = self._validator.validated(call)
        else:
            result = await self._parts.aside(self._validator.validated, call)
        if not result["valid"] or result["checked_as"] in ("json", "call"):
            return Answer(result=result)
        target, held = call["target"], self._parts.held
        if small(target):
            return Answer(result=result, changes=generated_code.cleared(held, target))
        return Answer(result=result, changes=await self._parts.aside(generated_code.cleared, held, target))

    def _proposed(self, context: BuiltInContext, target: Any) -> validating.Findings:
        """Whether the caller could make a call: whether it may, and whether the parameters are right."""
        if not isinstance(target, Mapping) or not target.keys() <= {"method", "path", "parameters"}:
            raise parameters.invalid(
                "target",
                "target is no proposed call.",
                'Send {"method": "BOOK", "path": "/room", "parameters": {...}}.',
            )
        method = parameters.required(target, "method")
        path = parameters.text(target, "path") or "/"
        given = target.get("parameters", {})
        if not isinstance(given, Mapping):
            raise parameters.invalid("target", "parameters of target is no object.", "Send {} where there are none.")
        try:
            match = self._parts.find(method, path) if path.isascii() and path.startswith("/") else None
        except ValueError:
            match = None
        if match is None or not context.admits(match.binding):
            return validating.not_callable(method[:64], path[:128])
        binding = match.binding
        found = validating.Findings(checked="call")
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
            found.errors.append({"path": "", "message": "nobody provides it yet", "rule": "provider-missing"})
        if (binding.details or {}).get("deprecated"):
            found.warnings.append({"path": "", "message": "the endpoint is deprecated", "rule": "deprecated"})
        semantic = (binding.details or {}).get("semantic", {})
        if isinstance(semantic, Mapping) and semantic.get("impact") == "irreversible":
            found.warnings.append({"path": "", "message": "what it does cannot be undone", "rule": "irreversible"})
        return found


def handlers(parts: Parts) -> Mapping[str, IBuiltInHandler]:
    """The built-ins of this package, by method."""
    aside, kept = parts.aside, parts.collections
    engine = parts.search.apart()
    calculator = calculating.Calculator(parts.config.methods.formulas)
    return {
        "ANALYZE": Pure(statistics.analyzed, aside, named="target", collections=kept),
        "EXTRACT": Pure(extracted, aside, long=True),
        "FILTER": Pure(filtering.filtered, aside, named="data", collections=kept),
        "VALIDATE": Validate(parts),
        "TRANSFORM": Pure(transforming.transformed, aside),
        "NORMALIZE": Normalize(parts),
        "RANK": Rank(engine, aside),
        "CLASSIFY": Classify(engine, aside),
        "CALCULATE": Pure(calculator.calculated, aside),
        "EVALUATE": Pure(scorecards.evaluated, aside),
        "GENERATE": Pure(templates.generated, aside),
        "MERGE": Pure(merging.merged, aside, named="sources", collections=kept),
        "MAP": Map(engine, aside),
    }
