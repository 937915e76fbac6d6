"""How often a tool that was meant is among the first few: public tools, and queries in words that are not theirs."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

from agtphost.search.index import SearchEntry

DATA = Path(__file__).resolve().parent / "data"


def _rows(name: str) -> list[list[str]]:
    lines = (DATA / name).read_text(encoding="utf-8").splitlines()
    return [line.split("\t") for line in lines[1:]]


@cache
def tools() -> tuple[SearchEntry, ...]:
    """106 tools of six servers from the npm registry, as each tells its own."""
    return tuple(SearchEntry(name, description) for _, name, description in _rows("tools.tsv"))


@cache
def queries() -> tuple[tuple[str, frozenset[str]], ...]:
    """What somebody wants, and the tools of which any would do."""
    return tuple((query, frozenset(meant.split())) for query, meant in _rows("queries.tsv"))


def recall(names: Callable[[str], list[str]], first: int) -> float:
    """
    The share of the queries for which one of the tools that are meant is among the first.

    :param names: what a search finds, best first.
    """
    return sum(not meant.isdisjoint(names(query)[:first]) for query, meant in queries()) / len(queries())
