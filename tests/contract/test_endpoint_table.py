"""The endpoint table: which binding a method and path select, and what that costs."""

from __future__ import annotations

import time
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from zope.interface import implementer
from zope.interface.verify import verifyObject

from agtphost.contract.binding import Binding
from agtphost.contract.endpoint_table import AmbiguousEndpoints, EndpointTable, conflicts
from agtphost.handlers.context import EndpointContext
from agtphost.iagtp import IHandler
from agtphost.vocabulary.paths import PathError, parse_template
from tests.measuring import measured
from tests.rows import each_row


@implementer(IHandler)
class Silent:
    """A handler that nothing calls here."""

    kind = "registered_function"

    def handle(self, context: EndpointContext) -> dict[str, object]:
        return {}


def bound(name: str) -> Binding:
    method, path = name.split(" ")
    return Binding(method=method, path=path, handler=Silent(), tier="B")


def table(*names: str) -> EndpointTable:
    return EndpointTable([bound(name) for name in names])


def test_the_stand_in_is_a_handler() -> None:
    """A fake must match what it fakes."""
    assert verifyObject(IHandler, Silent())


@each_row(
    ("method", "path", "found", "values"),
    [
        ("QUERY", "/", "/", {}),
        ("QUERY", "/orders/latest", "/orders/latest", {}),
        ("QUERY", "/orders/7", "/orders/{id}", {"id": "7"}),
        ("CANCEL", "/orders/latest", "/orders/{id}", {"id": "latest"}),
        ("QUERY", "/a/1/c", "/a/{x}/c", {"x": "1"}),
        ("QUERY", "/a/1/d", "/a/{x}/{y}", {"x": "1", "y": "d"}),
        ("QUERY", "/a/b/d", "/{q}/b/d", {"q": "a"}),
        ("QUERY", "/orders/a%2Fb%2525", "/orders/{id}", {"id": "a/b%25"}),
        ("QUERY", "/caf%C3%A9", "/{only}", {"only": "café"}),
    ],
)
def test_matching(method: str, path: str, found: str, values: dict[str, str]) -> None:
    """API-035, API-036, T-RL: literal, then fewest parameters; values decoded once, routing never."""
    endpoints = table(
        *("QUERY /", "QUERY /orders/{id}", "QUERY /orders/latest", "CANCEL /orders/{id}"),
        *("QUERY /a/{x}/{y}", "QUERY /a/{x}/c", "QUERY /{q}/b/d", "QUERY /{only}"),
    )
    match = endpoints.match(method, path)
    assert match is not None
    assert (match.binding.path, dict(match.path_parameters)) == (found, values)


@each_row(
    ("method", "path"),
    [
        ("QUERY", "/none"),
        ("BOOK", "/orders/7"),
        ("QUERY", "/orders"),
        ("QUERY", "/orders/7/x"),
        ("QUERY", "/orders/"),
        ("QUERY", "/%6Frders/7"),
        ("QUERY", "/Orders/7"),
    ],
)
def test_what_does_not_match(method: str, path: str) -> None:
    """API-035: no match is no match; routing looks at the octets as sent."""
    assert table("QUERY /orders/{id}", "QUERY /orders/latest").match(method, path) is None


def test_a_match_with_more_parameters_may_be_the_only_one() -> None:
    """The most specific branch of the trie is not always the one that leads on."""
    match = table("QUERY /a/b/{x}/d", "QUERY /{p}/{q}/{r}/e").match("QUERY", "/a/b/c/e")
    assert match is not None
    assert match.path_parameters == {"p": "a", "q": "b", "r": "c"}


def test_methods_at_a_path() -> None:
    """API-059: what a 405 lists, literal and template alike; nothing for a path that is unknown."""
    endpoints = table("QUERY /room", "BOOK /room", "CANCEL /{x}", "QUERY /a/b")
    assert endpoints.methods_at("/room") == ("BOOK", "CANCEL", "QUERY")
    assert endpoints.methods_at("/attic") == ("CANCEL",)
    assert endpoints.methods_at("/a/b/c") == ()
    assert endpoints.methods_at("/") == ()


def test_bindings_at_a_path_whose_values_no_call_may_have() -> None:
    """What is bound there is bound under a control character too, which only a call decodes."""
    bound_here = table("QUERY /x/{id}", "BOOK /x/{id}", "BOOK /x/new")
    for path, found in (("/x/%C2%84", ["QUERY", "BOOK"]), ("/x/new", ["BOOK", "QUERY"]), ("/y/%00", [])):
        assert [each.method for each in bound_here.bindings_at(path)] == found
    assert [each.path for each in bound_here.bindings_at("/x/new")] == ["/x/new", "/x/{id}"]


@each_row(
    ("names", "explanation"),
    [
        (("QUERY /a", "QUERY /a"), "QUERY /a is registered twice"),
        (("QUERY /a/{x}", "QUERY /a/{x}"), "registered twice"),
        (("QUERY /a/{x}", "QUERY /a/{y}"), "QUERY /a/{y} and QUERY /a/{x} match the same requests"),
        (("QUERY /a/{x}", "QUERY /{y}/b"), "QUERY /{y}/b and QUERY /a/{x}"),
        (("QUERY /{x}/b/{y}", "QUERY /a/{x}/{y}"), "match the same requests"),
    ],
)
def test_ambiguity_is_refused(names: Sequence[str], explanation: str) -> None:
    """API-036: equal specificity that overlaps keeps the host from starting, naming both."""
    with pytest.raises(AmbiguousEndpoints) as caught:
        table(*names)
    assert explanation in str(caught.value)


@each_row(
    "names",
    [
        ("QUERY /a", "BOOK /a"),
        ("QUERY /a/{x}", "BOOK /a/{y}"),
        ("QUERY /a/{x}", "QUERY /a/b"),
        ("QUERY /a/{x}/c", "QUERY /a/{x}/{y}"),
        ("QUERY /a/{x}/c", "QUERY /b/{x}/c"),
        ("QUERY /a/{x}/c", "QUERY /{y}/b/d"),
        ("QUERY /a/{x}", "QUERY /a/{x}/{y}"),
    ],
)
def test_what_is_not_ambiguous(names: Sequence[str]) -> None:
    """The control: these differ in method, specificity, length, or a literal."""
    assert len(table(*names).bindings) == 2


def test_every_clash_is_reported_once() -> None:
    """One conflict for each later endpoint; without these, the rest is unambiguous."""
    paths = ["/{x}/b", "/a/{x}", "/c/{x}", "/{y}/b", "/d/e"]
    found = conflicts([("QUERY", parse_template(path)) for path in paths])
    assert [(conflict.first, conflict.second) for conflict in found] == [(0, 1), (0, 2), (0, 3)]


SEGMENTS = st.lists(st.sampled_from(["a", "b", "{x}", "{y}"]), min_size=1, max_size=3)


@given(st.lists(SEGMENTS, min_size=1, max_size=8))
def test_matching_agrees_with_a_plain_search(shapes: list[list[str]]) -> None:
    """The trie finds what going through all templates finds, and conflicts are exactly the ties."""
    paths = list(dict.fromkeys("/" + "/".join(_named(shape)) for shape in shapes))
    templates = [parse_template(path) for path in paths]
    clashes = {conflict.second for conflict in conflicts([("QUERY", template) for template in templates])}
    kept = [path for index, path in enumerate(paths) if index not in clashes]
    endpoints = table(*(f"QUERY {path}" for path in kept))
    for request in ("/a", "/b", "/a/a", "/a/b", "/b/a", "/a/b/a", "/b/b/b", "/c/a/c"):
        fitting = [path for path in kept if _fits(path, request)]
        best = sorted(fitting, key=lambda path: path.count("{"))
        assert len(best) < 2 or best[0].count("{") < best[1].count("{")
        match = endpoints.match("QUERY", request)
        assert (match.binding.path if match else None) == (best[0] if best else None)


def _named(shape: list[str]) -> list[str]:
    return [f"{{p{index}}}" if "{" in segment else segment for index, segment in enumerate(shape)]


def _fits(path: str, request: str) -> bool:
    pattern, segments = path[1:].split("/"), request[1:].split("/")
    return len(pattern) == len(segments) and all(
        "{" in part or part == segment for part, segment in zip(pattern, segments, strict=True)
    )


def test_a_bad_template_cannot_be_registered() -> None:
    """Whoever builds the table."""
    with pytest.raises(PathError):
        table("QUERY /a/prefix-{x}")


def _many(count: int) -> EndpointTable:
    names = []
    for number in range(count // 5):
        names += [f"QUERY /item{number}/status", f"QUERY /item{number}/{{id}}", f"BOOK /item{number}/{{id}}"]
        names += [f"QUERY /item{number}/{{id}}/part/{{n}}", f"CANCEL /shop/item{number}"]
    return table(*names)


REQUESTS = [
    ("QUERY", "/item1/status"),
    ("BOOK", "/item0/77"),
    ("QUERY", "/item1/77/part/3"),
    ("CANCEL", "/shop/item1"),
    ("QUERY", "/item1/none/at/all"),
]


def _round(endpoints: EndpointTable) -> float:
    start = time.process_time()
    for _ in range(2_000):
        for method, path in REQUESTS:
            endpoints.match(method, path)
    return time.process_time() - start


def test_routing_costs_the_same_for_ten_and_ten_thousand() -> None:
    """Speed: within 30 % in one interleaved run, the best of several rounds each."""
    few, many = _many(10), _many(10_000)
    rounds = [(_round(few), _round(many)) for _ in range(12)]
    ratio = min(large for _, large in rounds) / min(small for small, _ in rounds)
    assert ratio < 1.3


def test_a_search_through_all_endpoints_would_be_noticed() -> None:
    """The control: a table that looks at each endpoint in turn fails the same comparison."""

    def search(names: Sequence[str]) -> float:
        start = time.process_time()
        for _, request in REQUESTS:
            [path for path in names if _fits(path, request)]
        return time.process_time() - start

    few = [binding.path for binding in _many(10).bindings]
    many = [binding.path for binding in _many(10_000).bindings]
    assert search(many) / max(search(few), 1e-6) > 1.3


@measured
def test_ten_thousand_endpoints_are_checked_quickly() -> None:
    """Ambiguity is found without comparing every pair."""
    templates = [("QUERY", parse_template(f"/a{n}/{{x}}/c")) for n in range(5_000)]
    templates += [("QUERY", parse_template(f"/{{x}}/b{n}/d")) for n in range(5_000)]
    start = time.process_time()
    assert conflicts(templates) == []
    assert time.process_time() - start < 2
