"""The C library's allocator: how it is set up, and when it gives free memory back."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager

LARGE_BLOCK = 131_072
"""
Octets: a block of memory of this size is the system's own again as soon as it is free.

With 524,288, sixteen connections with bodies of 489 kB left 64 MiB in pieces.
"""

ARENAS = 2
"""
Where threads get small blocks from.

With one for each thread, as glibc has it, what one thread leaves in pieces the next one cannot use.
"""

_M_MMAP_THRESHOLD, _M_ARENA_MAX = -3, -8


def settle_allocator() -> None:
    """
    Make glibc take large blocks from the system and give them back; other allocators are left as they are.

    By default glibc takes the size of a freed block as a hint to keep such blocks, and after some large answers that
    were read slowly, or not at all, it held three times as much as was in use.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, LARGE_BLOCK)
        mallopt(_M_ARENA_MAX, ARENAS)


@contextmanager
def pause_collector() -> Iterator[None]:
    """
    Keep the garbage collector from running while many objects are made that stay.

    It looks through all of them again and again: a start with 100,000 state items took a second more.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def release_memory() -> None:
    """Give pages that are free back to the system, with glibc: after 10 MB of small blocks, in about a millisecond."""
    if _trim is not None:
        _trim(0)


_trim: Callable[[int], int] | None = getattr(ctypes.CDLL(None), "malloc_trim", None)
