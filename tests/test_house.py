"""What ``python -m tests.house`` counts, each figure with a text that it must count and one that it must not."""

from __future__ import annotations

import ast

from tests.house import (
    SCHEDULING,
    STARTS_PROCESSES,
    Module,
    arrows,
    is_bag,
    measure_code,
    measure_tests,
    mutual_pairs,
    parameter_count,
)
from tests.rows import each_row

COLLABORATORS = "\n".join(f"    part{number}: Ledger" for number in range(8))
WORDS = "\n".join(f"    word{number}: str | None" for number in range(8))


def module(name: str, text: str) -> Module:
    """A module of a dotted name."""
    return Module(name, text, ast.parse(text))


@each_row(
    ("text", "expected"),
    [
        (f"@dataclass(frozen=True)\nclass Parts:\n{COLLABORATORS}", True),
        (f"@dataclass\nclass Table:\n{COLLABORATORS}", False),
        (f"@dataclass(frozen=True)\nclass Text:\n{WORDS}", False),
        ("@dataclass(frozen=True)\nclass Few:\n    one: Ledger", False),
    ],
)
def test_bag_is_a_frozen_class_of_objects(text: str, expected: bool) -> None:
    """A value of words, a table that changes and a class of few fields carry no collaborators."""
    (node,) = ast.parse(text).body
    assert isinstance(node, ast.ClassDef)
    assert is_bag(node) is expected


def test_mutual_pairs_are_found_in_both_directions_only() -> None:
    """Two packages that import each other are a pair, whichever comes first; one arrow is none."""
    modules = [
        module("agtphost.audit.one", "from agtphost.stores.rows import Row\nimport agtphost.wire.codec"),
        module("agtphost.stores.rows", "from agtphost.audit.chain import Chain"),
        module("agtphost.wire.codec", "from agtphost import errors"),
    ]
    assert mutual_pairs(arrows(modules)) == [("audit", "stores")]


@each_row(
    ("text", "expected"),
    [("def f(self, a, b, *, c): ...", 3), ("def f(cls, a, /, *rest, b=1, **more): ...", 2), ("async def f(): ...", 0)],
)
def test_parameter_count_leaves_out_the_receiver(text: str, expected: int) -> None:
    """``self`` and ``cls`` are no parameters that a caller names."""
    (node,) = ast.parse(text).body
    assert isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    assert parameter_count(node) == expected


@each_row(
    ("text", "expected"),
    [
        ("self._offload(work)", False),
        ("yield offload(work)", True),
        ("reactor.callLater(0, go)", True),
        ("reactor.callLater(0.5, go)", False),
        ("first steps", False),
    ],
)
def test_scheduling_code_is_found_by_its_names(text: str, expected: bool) -> None:
    """A name that only contains one of the words is not found."""
    assert (SCHEDULING.search(text) is not None) is expected


def test_code_and_tests_are_measured() -> None:
    """Lines, packages of the host, built-in handlers, namesakes, tests beside processes, and host classes add up."""
    handler = "@implementer(IBuiltInHandler)\nclass Same:\n    pass\n"
    code = measure_code(
        [
            module("agtphost.host.core", "from agtphost.wire import codec\n" + handler),
            *(module(f"agtphost.wire.m{number}", handler) for number in range(3)),
        ]
    )
    assert code["modules"] == 4
    assert code["lines of code"] == 13
    assert code["lines of host"] == 4
    assert code["packages that host imports"] == 1
    assert code["classes of built-in handlers"] == 4
    assert code["class names used more than three times"] == 1
    tests = measure_tests(
        [
            module("tests.one", "import subprocess\ndef test_a(): ...\ndef helper(): ..."),
            module("tests.two", "class Open(MemoryHost): ...\nclass Wide(Open): ...\nasync def test_b(): ..."),
        ]
    )
    assert tests["functions of tests"] == 2
    assert tests["of these in modules that start processes"] == 1
    assert tests["host classes of tests"] == 2
    assert STARTS_PROCESSES.search("from tests.memory import OpenHost") is None
