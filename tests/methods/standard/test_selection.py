"""SEARCH and SCAN of many items: what workers are given, chunk by chunk, and what is worked out in the host itself."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from agtphost.compute import functions
from agtphost.compute.functions import Computation
from agtphost.compute.pool import Encode, LocalPool
from agtphost.errors import Refusal
from agtphost.methods.standard.collections import selection
from agtphost.methods.standard.collections.selection import MOST, Selection
from agtphost.methods.standard.pure import criteria, queries
from agtphost.methods.standard.pure.comparisons import Comparisons
from agtphost.methods.standard.pure.item_criteria import Condition
from agtphost.testing import MemoryHost
from agtphost.vocabulary import jsontext
from agtphost.vocabulary.steps import run_to_end
from tests.rows import each_row

ITEMS = 1_500
LONG = 1_200
"""Characters of some items: those are stored as text."""

SETTINGS = {
    "methods": {"standard": ["IMPORT", "SEARCH", "SCAN"], "collection": [{"name": "goods", "read": [], "write": []}]}
}


class Filled:
    """A host with a collection of many items, whose workers are counted."""

    def __init__(self) -> None:
        self.host = MemoryHost(SETTINGS)
        self.caller = self.host.agent("caller")
        for first in range(0, ITEMS, 500):
            rows = [
                {"id": f"i{n:05}", "n": n, "word": str(n % 7), "t": "y" * (LONG if n % 50 == 0 else 200)}
                for n in range(first, first + 500)
            ]
            self.ask("IMPORT", source=rows, target="goods")
        pool = self.host.core.services.lasting.compute
        assert isinstance(pool, LocalPool)
        self.pool = pool

    def ask(self, method: str, **given: Any) -> dict[str, Any]:
        answer = self.host.call(method, "/", given, caller=self.caller)
        assert answer.status == 200, answer.document
        return dict(answer.result)

    def pages(self, **given: Any) -> list[dict[str, Any]]:
        """Every page of a SCAN."""
        found = [self.ask("SCAN", collection="goods", **given)]
        while found[-1]["cursor"] is not None:
            found.append(self.ask("SCAN", collection="goods", cursor=found[-1]["cursor"], **given))
        return found


@pytest.fixture(scope="module")
def shared() -> Filled:
    return Filled()


@pytest.fixture
def filled(shared: Filled) -> Filled:
    shared.pool.done = 0
    return shared


CONDITIONS = {"any": [{"n": -1 - n} for n in range(40)]}
CRITERIA: Mapping[str, Any] = {
    "an expression": "n > `700` || word == '3'",
    "a function": "abs(n) > `1400`",
    "a comparison that never holds": "word < `5` || n < `40`",
    "conditions": {"n": {"gte": 200}, "any": [{"word": "2"}, {"t": {"matches": "^y{300}"}}, {"word": 3}]},
}


@each_row("name", CRITERIA)
def test_workers_find_what_a_thread_finds(filled: Filled, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """The same rows in the same order, the same total, pages and warnings, whoever looks through the items."""
    wanted = CRITERIA[name]
    asked: list[Callable[[], Any]] = [
        lambda: filled.ask("SEARCH", query=wanted, scope="goods", limit=20, offset=30),
        lambda: filled.ask("SEARCH", query=wanted, scope="goods", limit=20, offset=5, sort=["word", "-n"]),
    ]
    if not isinstance(wanted, str):
        asked.append(lambda: [page["items"] for page in filled.pages(filter=wanted, page_size=37)])
    workers = [json.dumps(ask()) for ask in asked]
    assert filled.pool.done > 0
    monkeypatch.setattr(selection, "is_small", lambda sources, condition: True)
    monkeypatch.setattr("agtphost.methods.standard.collections.search.is_small", lambda sources, condition: True)
    done = filled.pool.done
    assert [json.dumps(ask()) for ask in asked] == workers
    assert filled.pool.done == done


EVALUATED: Mapping[str, tuple[str, Mapping[str, Any], Any, str]] = {
    "SEARCH by an expression": ("SEARCH", {"query": "n < `0`", "scope": "goods"}, queries.Query, "value"),
    "SEARCH by conditions": ("SEARCH", {"query": CONDITIONS, "scope": "goods"}, criteria, "at"),
    "SCAN by conditions": ("SCAN", {"filter": CONDITIONS, "collection": "goods"}, criteria, "at"),
}


@each_row("name", EVALUATED)
def test_the_host_evaluates_nothing_over_many_items(filled: Filled, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Threads share the interpreter: expressions and conditions are evaluated by the function of workers alone."""
    method, given, place, called = EVALUATED[name]
    inside, evaluated = [False], {True: 0, False: 0}
    perform, evaluate = functions.perform, getattr(place, called)

    def performed(name: str, octets: bytes) -> tuple[bytes, bytes]:
        inside[0] = True
        try:
            return perform(name, octets)
        finally:
            inside[0] = False

    def counted(*arguments: Any) -> Any:
        evaluated[inside[0]] += 1
        return evaluate(*arguments)

    monkeypatch.setattr(functions, "perform", performed)
    monkeypatch.setattr(place, called, counted)
    filled.ask(method, **given)
    assert evaluated[False] == 0
    assert evaluated[True] >= ITEMS


def test_few_items_and_calls_without_criteria_cost_no_process(filled: Filled) -> None:
    """A page, everything, and what is known to be cheap are found in the host."""
    filled.ask("SEARCH", query="*", scope="goods", sort="-n")
    filled.ask("SCAN", collection="goods")
    filled.ask("SCAN", collection="relations", filter=CONDITIONS)
    filled.ask("SEARCH", query="method == 'SCAN'", scope="records")
    assert filled.pool.done == 0


def test_what_stays_in_the_host_is_bounded_in_parts() -> None:
    """Parts times rows, with the length of rows; an expression whose steps depend on the data never stays."""
    few, many = [[{"data": {}}] * 5], [[{"data": {}}] * 3_000]
    for wanted, small, large in (
        ("n == `1`", True, True),
        (" || ".join(f"n == `{n}`" for n in range(30)), True, False),
        ("l[*].n", False, False),
        ({"n": 5}, True, True),
        ({"any": [{"n": n} for n in range(40)]}, True, False),
        ({"n": {"in": [*range(900)]}}, True, False),
    ):
        condition = Condition(wanted, "query", Comparisons())
        assert selection.is_small(few, condition) is small, wanted
        assert selection.is_small(many, condition) is (large and condition.parts * 3_000 <= selection.SMALL), wanted


def test_chunks_are_bounded_and_one_at_a_time(filled: Filled, monkeypatch: pytest.MonkeyPatch) -> None:
    """No message to a worker is much longer than the bound, and the next one is written when the last is answered."""
    lengths: list[int] = []
    under_way = [0]
    run = filled.pool.run

    def counted(key: str, function: str, encode: Encode, length: int) -> Any:
        async def encoded() -> bytes:
            octets = await encode()
            lengths.append(len(octets))
            return octets

        assert key == filled.caller.agent_id
        assert under_way[0] == 0
        under_way[0] += 1
        answer = run(key, function, encoded, length)

        def over(result: Any) -> Any:
            under_way[0] -= 1
            return result

        return answer.addBoth(over)

    monkeypatch.setattr(filled.pool, "run", counted)
    filled.ask("SEARCH", query="n < `0` || word == 'x'", scope="goods")
    assert len(lengths) > 2
    assert max(lengths) <= MOST + LONG + 1_000
    assert lengths[0] <= selection.FIRST + LONG + 1_000


def chosen(wanted: Any, rows: list[dict[str, Any]], steps: int = queries.MAX_STEPS, **options: Any) -> Selection:
    """What is found in rows, by the function of workers."""
    comparisons = Comparisons()
    found = Selection(Condition(wanted, "query", comparisons, steps), comparisons, [rows], lambda each: each, **options)
    answer: Any = found.proceed()
    while isinstance(answer, Computation):
        assert answer.read is not None and answer.finish is not None
        kind, octets = functions.perform(answer.function, run_to_end(answer.read()).octets)
        if kind == functions.REFUSAL:
            raise functions.refusal_from_json(jsontext.decode_kept(octets))
        answer = answer.finish(jsontext.decode_kept(octets))
    assert answer is found
    return found


ROWS = [{"id": str(n), "data": {"n": n, "t": "y" * 1_000}} for n in range(200)]


def test_the_steps_of_a_call_are_counted_over_its_chunks() -> None:
    """An expression does not begin anew with each chunk."""
    assert chosen("n < `0`", ROWS, steps=200 * 3).total == 0
    with pytest.raises(Refusal, match="steps"):
        chosen("n < `0`", ROWS, steps=200 * 3 - 1)


def test_no_more_is_read_than_a_page_needs() -> None:
    """The rest of the rows is not written when a page is full."""
    found = chosen("n >= `0`", ROWS, most=11)
    assert found.total == 11 and [row["id"] for row, _ in found.found] == [str(n) for n in range(11)]
    assert int(found.last["id"]) < 100 and not found.is_over


def test_a_search_that_takes_too_long_is_refused_and_a_page_ends(
    filled: Filled, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The processor time of all chunks counts: SEARCH is refused, and SCAN goes on with the next page."""
    monkeypatch.setattr(selection, "SECONDS", 0.0)
    wanted = {"any": [{"n": {"gt": 1_490}}, *[{"n": -1 - n} for n in range(10)]]}
    answer = filled.host.call("SEARCH", "/", {"query": wanted, "scope": "goods"}, caller=filled.caller)
    assert (answer.status, answer.reason) == (422, "computation-too-costly")
    assert filled.pool.done == 1
    pages = filled.pages(filter=wanted)
    assert len(pages) > 2
    assert [item["data"]["n"] for page in pages for item in page["items"]] == [*range(1491, 1500)]


def test_conditions_are_counted_with_the_values_of_lists() -> None:
    """What :func:`selection.is_small` multiplies."""
    assert criteria.compile_with_parts({"n": {"in": [1, 2, 3]}, "m": 5}, "query")[1] == 5
