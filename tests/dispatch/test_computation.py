"""Computations of handlers: which methods have them, where they run, and what becomes of their results."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from agtphost.compute.functions import FUNCTIONS, MAX_RESULT
from agtphost.compute.pool import Encode, LocalPool
from agtphost.contract.binding import COMPUTE, Binding
from agtphost.methods.standard.pure.providers import rules
from agtphost.testing import MemoryHost
from agtphost.vocabulary import jsontext
from agtphost.vocabulary.media_types import AGTP_JSON
from tests.methods.standard import costly
from tests.methods.standard.largest import COMPUTED, Large

SETTINGS = {
    "methods": {
        "standard": "*",
        "formulas": {"gross": {"op": "multiply", "args": [{"var": "net"}, {"var": "tax"}]}},
        "collection": [{"name": "goods", "read": [], "write": []}],
    }
}


def bindings(host: MemoryHost) -> dict[str, Binding]:
    """The standard methods of a host, by name."""
    found = {}
    for method in costly.COMPUTED + ("SCAN", "SEARCH", "SIGN", "REGISTER"):
        match = host.core.services.registry.match(method, "/")
        assert match is not None
        found[method] = match.binding
    return found


def test_methods_on_data_have_the_weight_of_computations() -> None:
    """All eleven, and searches of items; of all standard methods one large call of a caller is answered at a time."""
    host = MemoryHost(SETTINGS)
    found = bindings(host)
    assert {name for name, each in found.items() if each.weight == COMPUTE} == {*costly.COMPUTED, "SCAN", "SEARCH"}
    assert all(each.in_turn for each in found.values())


def pool_of(host: MemoryHost) -> LocalPool:
    pool = host.core.services.lasting.compute
    assert isinstance(pool, LocalPool)
    return pool


def test_a_small_call_pays_for_no_process() -> None:
    """Calls as people make them are worked out in the reactor's thread."""
    host = MemoryHost(SETTINGS)
    caller = host.agent("caller")
    calls: list[tuple[str, dict[str, Any]]] = [
        ("FILTER", {"data": [{"name": "lamp", "price": 30}, {"price": 450}], "criteria": {"price": {"lt": 200}}}),
        ("FILTER", {"data": [{"name": "lamp", "price": 30}, {"price": 450}], "criteria": "price < `200`"}),
        ("CALCULATE", {"expression": "gross", "inputs": {"net": "19.99", "tax": "1.2"}}),
        ("TRANSFORM", {"source": [{"qty": 3}], "target_format": "yaml"}),
        ("VALIDATE", {"target": {"n": 1}, "schema": {"properties": {"n": {"type": "integer"}}}}),
        ("RANK", {"items": [{"n": 1}, {"n": 2}], "criterion": "n"}),
        ("ANALYZE", {"target": [1, 2, 3, 4, 50]}),
        ("MERGE", {"sources": [{"a": 1}, {"b": 2}], "strategy": "union"}),
        ("NORMALIZE", {"type": "date", "data": "31.12.2026"}),
        ("MAP", {"source_schema": ["order_no"], "target_schema": ["order_no"]}),
    ]
    for method, given in calls:
        answer = host.call(method, "/", given, caller=caller)
        assert answer.status == 200, answer.document
    assert pool_of(host).done == 0


def test_every_large_call_goes_to_the_pool() -> None:
    """The largest input of each method is worked out by a worker."""
    host = MemoryHost(SETTINGS)
    caller = host.agent("caller")
    for method in costly.COMPUTED:
        large: Large = next(each for each in COMPUTED.values() if each.method == method)
        before = pool_of(host).done
        given = large.given(host)
        if not str(given).startswith("{'target': 'collection:"):
            host.call(method, "/", given, caller=caller)
            assert pool_of(host).done == before + 1, method


def test_collections_are_read_in_their_place() -> None:
    """FILTER, ANALYZE and MERGE work on the items that the caller may read, as they are stored."""
    host = MemoryHost(SETTINGS)
    caller = host.agent("caller", scopes=("goods:write",))
    for n in range(4):
        answer = host.call(
            "REGISTER", "/", {"entity_type": "goods", "data": {"n": n, "t": "t" * 600 * n}}, caller=caller
        )
        assert answer.status == 200, answer.document
    found = host.call("FILTER", "/", {"data": "collection:goods", "criteria": {"n": {"gt": 1}}}, caller=caller).result
    assert sorted(each["n"] for each in found["data"]) == [2, 3] and found["of"] == 4
    merged = host.call(
        "MERGE", "/", {"sources": [[{"n": 9}], "collection:goods"], "strategy": "union"}, caller=caller
    ).result
    assert sorted(each["n"] for each in merged["merged"]) == [0, 1, 2, 3, 9]
    none = host.call("ANALYZE", "/", {"target": "collection:none"}, caller=caller)
    assert none.status == 404


def test_a_result_beyond_the_bound_is_refused() -> None:
    """422 says so; nothing of it is sent."""
    host = MemoryHost(SETTINGS)
    answer = host.call(
        "TRANSFORM", "/", costly.COSTLY["TRANSFORM"]["a table of long names"](), caller=host.agent("caller")
    )
    assert (answer.status, answer.reason) == (422, "computation-too-costly")
    assert str(MAX_RESULT) in answer.document["explanation"]


def test_a_literal_list_in_jmespath_is_no_surprise() -> None:
    """It was answered with 500."""
    host = MemoryHost(SETTINGS)
    answer = host.call(
        "FILTER", "/", {"data": [{"n": 1}], "criteria": "contains(`[1, 2]`, n)"}, caller=host.agent("caller")
    )
    assert answer.result["count"] == 1


def test_a_list_that_jmespath_flattens_is_bounded() -> None:
    """Each member of the data with each of a literal list would come to a billion."""
    host = MemoryHost(SETTINGS)
    literal = "[" + ",".join(["1"] * 150) + "]"
    given = {"data": [{"n": [1] * 9_000}], "criteria": f"n[*].not_null(`{literal}`)[]"}
    answer = host.call("FILTER", "/", given, caller=host.agent("caller"))
    assert answer.status == 422 and "members" in answer.document["explanation"], answer.document


def test_every_function_is_one_that_a_handler_names() -> None:
    """What no handler names is not to be registered."""
    named = {*(name.lower() for name in costly.COMPUTED if name != "NORMALIZE"), "calculate-registered", "held-items"}
    named |= {"match-items", *(rule.function for rule in rules(time.time).values() if rule.function)}
    assert {*FUNCTIONS} == named | {f"normalize-{kind}" for kind in ("date", "phone", "currency", "unit")}


def test_what_a_body_says_is_handed_over_as_it_came(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker is given the JSON of the parameters as it stands in the body; what is added to them is written anew."""
    host = MemoryHost(SETTINGS)
    caller = host.agent("caller")
    given = {"data": [{"n": n, "t": "}\\"} for n in range(400)], "criteria": {"n": {"lt": 5}}}
    texts: list[bytes] = []
    pool, run = pool_of(host), LocalPool.run

    def noting(self: LocalPool, key: str, function: str, encode: Encode, length: int) -> Any:
        async def noted() -> bytes:
            texts.append(await encode())
            return texts[-1]

        return run(self, key, function, noted, length)

    monkeypatch.setattr(LocalPool, "run", noting)
    written = json.dumps(given, indent=1)
    bodies = {
        written: written.encode(),
        f'{{ "parameters" : {written} }}\n': written.encode(),
        f'{{"parameters": {written}, "context": {{}}}}': jsontext.encode(given),
        f'{{"\\u0070arameters": {written}}}': jsontext.encode(given),
    }
    for body, expected in bodies.items():
        texts.clear()
        answer = host.call("FILTER", "/", body=body.encode(), content_type=AGTP_JSON, caller=caller)
        assert answer.status == 200 and answer.result["count"] == 5
        assert [text.strip() for text in texts] == [expected], body[:40]
    assert pool.done == len(bodies)
