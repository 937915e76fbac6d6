"""The registered functions: which inputs are small, what results may be, and what a worker imports."""

from __future__ import annotations

import subprocess
import sys
import time
from typing import Any

import pytest

from agtphost.compute import functions
from agtphost.compute.functions import FUNCTIONS, Computation
from agtphost.errors import Refusal
from agtphost.vocabulary import jsontext
from tests.measuring import measured
from tests.methods.standard import costly
from tests.rows import each_row


@each_row("name", FUNCTIONS)
def test_every_registered_function_exists(name: str) -> None:
    """A name leads to a function, and so does what prepares it."""
    assert callable(functions.resolve(FUNCTIONS[name].path))
    assert not FUNCTIONS[name].prepare or callable(functions.resolve(FUNCTIONS[name].prepare))


def test_a_worker_imports_no_reactor() -> None:
    """A worker has what functions need, and neither Twisted nor a store."""
    code = (
        "import sys; import agtphost.compute.worker; from agtphost.compute import functions as f;"
        "[f.resolve(each.path) for each in f.FUNCTIONS.values()];"
        "print([name for name in ('twisted', 'sqlite3', 'ssl', 'asyncio') if name in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def computation(name: str, **given: Any) -> Computation:
    return Computation(function=name, given=given)


SMALL = {
    "a few rows": computation("filter", data=[{"n": 1}] * 10, criteria={"n": 1}),
    "plain JMESPath": computation("filter", data=[{"n": 1}] * 10, criteria="n > `5` && n != `7`"),
    "a sum of two": computation("calculate", expression={"op": "add", "args": [1, 2]}, inputs={}),
    "one date": computation("normalize-date", type="date", data="1.2.2026"),
}
LARGE = {
    "many rows": computation("filter", data=[{"n": 1}] * 100, criteria={"n": 1}),
    "a long text": computation("transform", source="x" * 10_000, target_format="json"),
    "a table with long names": computation("transform", source=costly.table(2, 200, 900, 200), target_format="json"),
    "JMESPath with a projection": computation("filter", data=[{"n": 1}], criteria="n[*].abs(@)"),
    "JMESPath with a literal list": computation("filter", data=[{"n": 1}], criteria="not_null(`[1, 2]`)"),
    "a formula over a list": Computation(function="calculate", given=costly.nested_sums(4, 14)),
    "a registered formula over a list": computation(
        "calculate-registered",
        call={"expression": "f", "inputs": {}},
        formulas={"f": {"op": "sum", "over": "l", "of": {"var": "item"}}},
    ),
    "a unit": computation("normalize-unit", type="unit", data="1 m"),
    "names of a schema": computation("map", call=costly.COSTLY["MAP"]["two hundred fields"](), strategy="exact"),
    "items that are read later": Computation(function="held-items", read=lambda: iter(())),  # type: ignore[arg-type,return-value]
    "many names": computation("validate", target={f"{n}{'n' * 100}": n for n in range(15)}, schema={}),
}


@each_row("name", SMALL)
def test_a_small_computation_stays_in_the_process(name: str) -> None:
    assert functions.is_small(SMALL[name])


@each_row("name", LARGE)
def test_a_large_computation_goes_to_a_worker(name: str) -> None:
    assert not functions.is_small(LARGE[name])


@measured
def test_the_size_of_an_input_is_counted_no_further_than_needed() -> None:
    """Deciding that an input of 50,000 values is large takes no look at all of them."""
    nested: Any = [[n] * 100 for n in range(500)]
    began = time.thread_time()
    for _ in range(1_000):
        assert functions.size_of(nested, 100) > 100
    assert time.thread_time() - began < 0.1


def test_a_result_is_bounded_before_it_is_written() -> None:
    """A result that refers to one text very often is refused, and its JSON is never made."""
    table = {"source": costly.COSTLY["TRANSFORM"]["a table of long names"]()["source"], "target_format": "json"}
    with pytest.raises(Refusal) as refused:
        functions.call("transform", table)
    assert refused.value.reason == "computation-too-costly" and "octets" in refused.value.explanation
    kind, said = functions.perform("transform", jsontext.encode(table))
    assert kind == functions.REFUSAL and len(said) < 1_000


def test_a_refusal_survives_the_way_back() -> None:
    """Reason, status, explanation, remedy and details are the same."""
    with pytest.raises(Refusal) as refused:
        functions.call("filter", {"data": [], "criteria": {"n": {"lte": []}}})
    one = refused.value
    other = functions.refusal_from_json(functions.refusal_to_json(one))
    assert (other.reason, other.status, other.explanation, other.remedy, other.details) == (
        *(one.reason, one.status, one.explanation, one.remedy),
        one.details,
    )
