"""Finds every table in memory that a running host may add to."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.sources import nodes

ROOT = Path(__file__).resolve().parents[2] / "agtphost"

ELSEWHERE = {"cli", "conformance", "client", "bridge", "config", "wire", "contract", "vocabulary", "testing"}
"""Rooms of other programmes, of start-up, of what holds nothing between two requests, and of tests."""

MAPS = {"dict", "set", "OrderedDict", "defaultdict", "deque"}
_MAYBE = re.compile(rf"cache|{{\s*}}|\b(?:{'|'.join(sorted(MAPS))})\(")


def tables(source: str, module: str) -> Iterator[str]:
    """``module:Class.attribute`` of each, and ``module:function`` of what remembers its results."""
    if _MAYBE.search(source) is None:
        return  # Half of them need not be parsed.
    for node in nodes(source):
        if isinstance(node, ast.FunctionDef):
            for decorator in node.decorator_list:
                if _called(decorator) in ("lru_cache", "cache"):
                    yield f"{module}:{node.name}"
        if isinstance(node, ast.ClassDef):
            for inner in ast.walk(node):
                target = value = None
                if isinstance(inner, ast.AnnAssign):
                    target, value = inner.target, inner.value
                elif isinstance(inner, ast.Assign) and len(inner.targets) == 1:
                    target, value = inner.targets[0], inner.value
                if not (isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name)):
                    continue
                if target.value.id == "self" and value is not None and _is_empty_map(value):
                    yield f"{module}:{node.name}.{target.attr}"


def _called(node: ast.expr) -> str:
    return ast.unparse(node.func if isinstance(node, ast.Call) else node).rpartition(".")[2]


def _is_empty_map(value: ast.expr) -> bool:
    if isinstance(value, ast.Dict):
        return not value.keys
    if not isinstance(value, ast.Call):
        return False
    return (_called(value) in MAPS and not value.args) or "lru_cache" in ast.unparse(value)


def found() -> set[str]:
    """Those of the host."""
    every: set[str] = set()
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        if parts[0] not in ELSEWHERE:
            every.update(tables(path.read_text(), ".".join(parts)))
    return every
