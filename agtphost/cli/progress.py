"""How far a long command is: one line on standard error, on a terminal, and gone once the command is over."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

import click

from agtphost.cli.failures import JSON_MODE

T = TypeVar("T")

EVERY = 0.1
"""Seconds between two updates."""

_CLEAR = "\r\x1b[K"


def wanted() -> bool:
    """Whether anybody watches: a terminal, and nobody who reads JSON."""
    context = click.get_current_context(silent=True)
    as_json = context is not None and bool(context.meta.get(JSON_MODE))
    return sys.stderr.isatty() and not as_json


def counted(
    items: Iterable[T], what: str, total: int | None = None, *, clock: Callable[[], float] = time.monotonic
) -> Iterator[T]:
    """
    The same items, told as they go by.

    :param what: what they are: ``records verified``.
    :param total: how many there are, where that is known.
    """
    if not wanted():
        yield from items
        return
    told, number = clock(), 0
    try:
        for item in items:
            yield item
            number += 1
            if clock() - told >= EVERY:
                told = clock()
                share = f" of {total:,} ({number * 100 // max(total, 1)} %)" if total else ""
                sys.stderr.write(f"{_CLEAR}{number:,}{share} {what}")
                sys.stderr.flush()
    finally:
        sys.stderr.write(_CLEAR)
        sys.stderr.flush()
