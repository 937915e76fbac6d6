"""
What the standard methods cost at the most, by a search over their inputs.

The search of an ordinary run is short; ``--programmes`` makes it long. The seed is printed, and AGTP_SEED repeats
it. An input that it finds costlier than those of :mod:`tests.methods.standard.costly` is entered there.
"""

from __future__ import annotations

import gc
import random
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from agtphost.compute import functions
from agtphost.compute.functions import FUNCTIONS, Computation
from agtphost.compute.pool import LocalPool
from agtphost.errors import Refusal
from agtphost.host import process_state
from agtphost.methods.standard.table import STANDARD
from tests.measuring import measured
from tests.methods.standard import costly
from tests.methods.standard.full import Full
from tests.methods.standard.input_search import Given, Worst, search
from tests.methods.standard.largest import LARGE
from tests.programmes import length, seed_of_chance
from tests.rows import each_row

SEED = seed_of_chance()
SECONDS, LEAST = length((0.02, 0), (20.0, 200))
"""Of one method: processor time, and inputs besides the known ones."""

INLINE = 0.02
"""Seconds of a computation in the reactor's thread, on a machine that does other work; usually a tenth of it."""

BESIDE = 3.0
"""Seconds of a call whose work is no computation: in slices, and in the one thread of its kind."""


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Full]:
    """Everything in one process, so that its time is all there is."""
    patched = pytest.MonkeyPatch()
    patched.setattr(process_state, "pool_of", lambda reactor: LocalPool())
    made = Full(tmp_path_factory.mktemp("recipes"))
    assert made.core
    made.settle()
    yield made
    patched.undo()
    made.close()


def seeds(host: Full, method: str) -> list[Given]:
    """The known costly inputs, and the largest ones; those of the full run are for ``--programmes``."""
    known = [make() for make in costly.COSTLY.get(method, {}).values()]
    large = [each.given(host) for each in LARGE.values() if each.method == method and each.path == "/"]
    return [*known, *length(large[:1], large)]


ENDED = {("EVALUATE", "conditions"), ("VALIDATE", "rules")}
"""Known inputs that would take longer than a worker lets them."""


def shortened(host: Full, method: str) -> list[Given]:
    """Those of an ordinary run: no half a minute for what a worker ends after seconds."""
    kept = [make() for name, make in costly.COSTLY.get(method, {}).items() if (method, name) not in ENDED]
    found = kept[:1] + seeds(host, method)[-1:]
    return [cut(each) for each in found] if method in costly.COMPUTED else found


ITEMS, CHARACTERS = 20, 5_000
"""Of each list, object and text of a shortened computation."""


def cut(value: Any) -> Any:
    """
    Return an input of the same form with the beginning of its long lists, objects and texts.

    A computation has no bound in this test but that of its worker, so that it need not take seconds.
    """
    match value:
        case dict():
            return {name: cut(inner) for name, inner in [*value.items()][:ITEMS]}
        case list():
            return [cut(inner) for inner in value[:ITEMS]]
        case str() if len(value) > CHARACTERS:
            return value[:CHARACTERS].rpartition("\n")[0] or value[:CHARACTERS]
    return value


@pytest.mark.release
@measured
@pytest.mark.programme
@each_row("method", [name for name in STANDARD if name not in ("QUOTE", "RESUME")])
def test_the_costliest_input_of_each_method_is_bounded(host: Full, method: str) -> None:
    """What a search finds is no more than a worker ends, or a thread is let work; nothing is a surprise."""
    print(f"seed {SEED}", end=" ")
    surprises: list[Any] = []

    def cost(method: str, given: Given) -> float:
        began = time.process_time()
        answer, _ = host.longest(method, "/", given, caller=host.writer)
        taken = time.process_time() - began
        if answer.status == 500:
            surprises.append((answer.document, str(given)[:500]))
        return taken

    begin = length(shortened, seeds)(host, method)
    found = search(random.Random(SEED), method, begin, cost, seconds=SECONDS, least=LEAST)
    print(f"{method}: {found.seconds:.2f} s, of {found.tried}: {str(found.given)[:200]}")
    assert not surprises, surprises[0]
    if method not in costly.COMPUTED:
        assert found.seconds < BESIDE


WITH_PROVIDERS = ("classify", "evaluate", "extract", "map")
"""Functions that are given the call and, later, what a provider found for it."""


def inline(name: str, given: Given) -> float:
    """Seconds of a computation in the reactor's thread; 0 where it would go to a worker."""
    if name in WITH_PROVIDERS:
        given = {"call": given, "strategy": "exact"}
    if not functions.is_small(Computation(function=name, given=given)):
        return 0.0
    best = 9.0
    for _ in range(2):
        began = time.thread_time()
        with suppress(Refusal):
            functions.call(name, given)
        best = min(best, time.thread_time() - began)
    return best


SMALL: dict[str, list[Given]] = {
    "analyze": [{"target": [{"a": n, "b": n * n % 7} for n in range(12)], "explain": True}],
    "calculate": [{"expression": {"op": "power", "args": [{"op": "sqrt", "args": [2]}, 99]}, "inputs": {"l": [1, 2]}}],
    "classify": [{"items": ["word1 word2"] * 4, "taxonomy": ["word1", "label two"], "multi_label": True}],
    "evaluate": [{"target": {"a": 1}, "criteria": [{"name": "a", "best": 1, "worst": 2}]}],
    "extract": [{"source": "n: 1", "schema": {"properties": {"n": {"anyOf": [{"pattern": "^(a|b)*$"}, {}]}}}}],
    "filter": [
        {"data": [{"n": 1}] * 9, "criteria": "n > `5` || n == `6`"},
        {"data": "a: [1, 2]", "criteria": {"n": 1}},
    ],
    "generate": [{"output_type": "text", "source": {"template": "{a}" * 9, "values": {"a": "x" * 99}}}],
    "map": [{"source_schema": ["axyz1", "ab"], "target_schema": ["ayxz2", "ac"]}],
    "merge": [{"sources": [{"a": 1, "b": 2}, {"a": 2}], "strategy": "union"}],
    "normalize-date": [{"type": "date", "data": ["1.1.2026"] * 9}],
    "rank": [{"items": ["word one", "word two"] * 3, "criterion": {"text": "word"}}],
    "transform": [
        {"source": "a,b\n1,2\n", "target_format": "yaml"},
        {"source": [{"a": 1}] * 9, "target_format": "csv"},
    ],
    "validate": [{"target": [1, "a"], "schema": {"items": {"anyOf": [{"type": "string"}, {"pattern": "^(a|b)*$"}]}}}],
}
"""Inputs that are worked on in the reactor's thread."""


@measured
@each_row("name", SMALL)
def test_what_stays_in_the_reactors_thread_is_brief(name: str) -> None:
    """The costliest small input that a search finds takes a fifth of a turn, and no more than a few milliseconds."""
    method = name.partition("-")[0].upper()
    gc.collect()
    found: Worst = search(
        random.Random(SEED),
        method,
        SMALL[name],
        lambda _, given: inline(name, given),
        seconds=length(0.05, 20.0),
        least=length(60, 5_000),
    )
    print(f"seed {SEED} {name}: {found.seconds * 1000:.2f} ms: {str(found.given)[:300]}")
    assert 0 < found.seconds < INLINE, found.given


def test_small_inputs_are_looked_for_of_every_function_that_has_them() -> None:
    """``calculate-registered`` is ``calculate`` with another formula."""
    assert {name for name, each in FUNCTIONS.items() if each.small} == {*SMALL, "calculate-registered"}
