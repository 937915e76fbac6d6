"""
Find places in the code where the text of a foreign exception goes into a text of ours.

A foreign exception is one whose class is not defined in the package: of the system, of the standard library or of a
dependency. Its text is in the words of somebody else, without the setting and without what to do about it.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

from tests.sources import nodes, parsed, statements_in

Below = Callable[[ast.AST], Iterator[ast.AST]]

RAW = frozenset({"strerror", "reason", "msg", "problem", "verify_message", "args", "message"})
"""Attributes of foreign exceptions that are texts."""

PRINTERS = frozenset({"str", "repr", "escape"})
"""Functions that return the text of an exception as it is."""


def classes_of(folder: Path) -> frozenset[str]:
    """Return the names of all classes that a package defines."""
    texts = (file.read_text(encoding="utf-8") for file in folder.rglob("*.py"))
    return frozenset(node.name for text in texts for node in nodes(text) if isinstance(node, ast.ClassDef))


def places_in(source: str, own: Collection[str]) -> Counter[str]:
    """
    Count the places of a module by the function that they are in.

    :param own: names of classes that are not foreign.
    """
    found: Counter[str] = Counter()
    # Handlers are among statements, this call is anywhere.
    below = ast.iter_child_nodes if "getErrorMessage" in source else statements_in
    _walk(parsed(source), "", own, found, below)
    return +found


def _walk(node: ast.AST, where: str, own: Collection[str], found: Counter[str], below: Below) -> None:
    for child in below(node):
        inner = where
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            inner = f"{where}.{child.name}".lstrip(".")
        elif isinstance(child, ast.ExceptHandler) and child.name and _is_foreign(child.type, own):
            found[inner] += sum(1 for _ in _raw_texts(child, child.name))
        elif isinstance(child, ast.Call) and isinstance(child.func, ast.Attribute):
            found[inner] += child.func.attr == "getErrorMessage"
        _walk(child, inner, own, found, below)


def _is_foreign(kind: ast.expr | None, own: Collection[str]) -> bool:
    """Return whether a handler takes an exception that another program defines."""
    parts = kind.elts if isinstance(kind, ast.Tuple) else [kind]
    return any(
        not (isinstance(part, ast.Name) and part.id in own)
        and not (isinstance(part, ast.Attribute) and part.attr in own and part.attr not in {"Error", "SSLError"})
        for part in parts
    )


def _raw_texts(handler: ast.ExceptHandler, name: str) -> Iterator[ast.AST]:
    """Yield where the text of the exception that a handler bound is taken as it is."""
    for node in ast.walk(handler):
        if isinstance(node, ast.FormattedValue) and _is_name(node.value, name):
            yield node
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in PRINTERS:
            if node.args and _is_name(node.args[0], name):
                yield node
        elif isinstance(node, ast.Attribute) and node.attr in RAW and _is_name(node.value, name):
            yield node


def _is_name(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name
