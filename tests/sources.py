"""
The package's modules as trees, for tests that look through all of them.

To parse the package takes 1.7 s of a processor and to walk it another one, so that is done once: the modules of tests
in :data:`READERS` run one after another in one worker.
"""

from __future__ import annotations

import ast
import gc
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

READERS = frozenset(
    {
        "tests/dispatch/test_evidence.py",
        "tests/dispatch/test_status_signals.py",
        "tests/supply/test_supply.py",
        "tests/test_docstring_names.py",
        "tests/test_foreign_texts.py",
        "tests/test_layering.py",
        "tests/test_parser_bounds.py",
        "tests/test_static.py",
        "tests/vocabulary/test_quotas.py",
        "tests/vocabulary/test_reasons.py",
    }
)
"""Modules of tests that read most of the package."""


@contextmanager
def uncollected() -> Iterator[None]:
    """
    Make objects without a look for garbage among them, and leave them out of all later looks.

    A tree has none: it goes when nothing refers to it. Looking through all of them, as their number grows, takes more
    time than parsing.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if enabled:
            gc.enable()


@cache
def parsed(source: str) -> ast.Module:
    """Return the tree of a text."""
    with uncollected():
        return ast.parse(source)


@cache
def nodes(source: str) -> tuple[ast.AST, ...]:
    """Return all nodes of a text, each before its children."""
    with uncollected():
        return tuple(walk(parsed(source)))


LEAVES = frozenset({ast.Name, ast.Constant, ast.alias, ast.Pass, ast.Break, ast.Continue, ast.Global, ast.Nonlocal})
"""Nodes without nodes below them, but for how a name is used: more than half of all."""


def walk(tree: ast.AST) -> list[ast.AST]:
    """Return a node and all below it, each before its children; ``ast.walk`` takes three times as long."""
    found: list[ast.AST] = []
    left = [tree]
    while left:
        node = left.pop()
        found.append(node)
        if type(node) in LEAVES:
            continue
        for name in reversed(node._fields):
            value = getattr(node, name, None)
            if isinstance(value, list):
                left += [each for each in reversed(value) if isinstance(each, ast.AST)]
            elif isinstance(value, ast.AST) and not isinstance(value, ast.expr_context):
                left.append(value)
    return found


def statements_in(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the statements, handlers and cases right below a node; expressions, most of all nodes, have none."""
    for name in ("body", "handlers", "orelse", "finalbody", "cases"):
        yield from getattr(node, name, ())


def forget() -> None:
    """Let go of all trees: they are 300 MB."""
    parsed.cache_clear()
    nodes.cache_clear()
