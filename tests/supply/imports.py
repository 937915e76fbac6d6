"""Which packages a module imports, and when: as it is loaded, when it is used, or for type checkers alone."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Literal

from tests.sources import parsed, statements_in, uncollected

When = Literal["loaded", "used", "typing"]


@dataclass(frozen=True)
class Import:
    """Of a package that is neither the standard library's nor ours."""

    package: str
    when: When


@cache
def imports(source: str) -> tuple[Import, ...]:
    """Every one in a module's text."""

    # No other import is in an expression, and most nodes are.
    below = ast.iter_child_nodes if "import_module" in source else statements_in
    for_types = "TYPE_CHECKING" in source

    def walk(node: ast.AST, when: When) -> Iterator[Import]:
        for child in below(node):
            if for_types and isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
                for part in child.body:
                    yield from walk(ast.Module([part], []), "typing")
                for part in child.orelse:
                    yield from walk(ast.Module([part], []), when)
            elif isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
                yield from walk(child, "used" if when == "loaded" else when)
            elif isinstance(child, (ast.Import, ast.ImportFrom)):
                names = [alias.name for alias in child.names] if isinstance(child, ast.Import) else [child.module or ""]
                for name in names:
                    top = name.partition(".")[0]
                    if top not in sys.stdlib_module_names and top != "agtphost":
                        yield Import(top, when)
            else:
                if (name := _by_name(child)) is not None:
                    yield Import(name, when)
                yield from walk(child, when)

    with uncollected():
        return tuple(walk(parsed(source), "loaded"))


def _by_name(node: ast.AST) -> str | None:
    """What ``importlib.import_module("...")`` imports."""
    if not (isinstance(node, ast.Call) and node.args):
        return None
    called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    if not called.endswith("import_module"):
        return None
    name = node.args[0]
    top = name.value.partition(".")[0] if isinstance(name, ast.Constant) and isinstance(name.value, str) else ""
    return top if top and top not in sys.stdlib_module_names and top != "agtphost" else None
