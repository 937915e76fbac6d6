"""The package's modules as trees, for tests that look through all of them: parsed once for a whole module of tests."""

from __future__ import annotations

import ast
from functools import cache


@cache
def parsed(source: str) -> ast.Module:
    """Of a text; ``tests/conftest.py`` forgets them after each module, as they are large."""
    return ast.parse(source)
