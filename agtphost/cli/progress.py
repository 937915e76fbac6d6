"""Progress of a long command: one line on standard error of a terminal, removed when the command ends."""

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


def is_shown() -> bool:
    """Return whether to show progress: on a terminal, without ``--json``."""
    context = click.get_current_context(silent=True)
    as_json = context is not None and bool(context.meta.get(JSON_MODE))
    return sys.stderr.isatty() and not as_json


def show_progress(
    items: Iterable[T], what: str, total: int | None = None, *, clock: Callable[[], float] = time.monotonic
) -> Iterator[T]:
    """
    Yield the items, and show how many have passed.

    :param what: what the items are, such as ``records verified``.
    :param total: how many there are, if known.
    """
    if not is_shown():
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
