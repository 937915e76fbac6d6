"""
Read files that ``host.toml`` names as they were when a configuration was tried, which may be long ago.

What is built from a configuration reads some files itself: keys of operators, identity providers and cards,
authorities of servers. A host on standby builds all that when it is tried, and again when it takes over. It may be the
only host that is left then, so it must not depend on these files a second time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from types import MappingProxyType

from agtphost.vocabulary.regular_files import read_octets

RememberedFiles = Mapping[Path, bytes]
"""The content of files."""

NONE: RememberedFiles = MappingProxyType({})

_remembering: ContextVar[dict[Path, bytes] | None] = ContextVar("remembering", default=None)
_remembered: ContextVar[RememberedFiles] = ContextVar("remembered", default=NONE)


def read_named(path: Path) -> bytes:
    """
    Return the content of a file that a configuration names; see :func:`use_remembered`.

    :raises OSError: it cannot be read, or is a pipe, a socket or a device.
    """
    known = _remembered.get().get(path)
    if known is not None:
        return known
    octets = read_octets(path)
    if (remembering := _remembering.get()) is not None:
        remembering[path] = octets
    return octets


@contextmanager
def remember_files() -> Iterator[RememberedFiles]:
    """Return a context that remembers what :func:`read_named` reads in it."""
    read: dict[Path, bytes] = {}
    token = _remembering.set(read)
    try:
        yield read
    finally:
        _remembering.reset(token)


@contextmanager
def use_remembered(files: RememberedFiles) -> Iterator[None]:
    """Return a context in which :func:`read_named` returns the content of remembered files."""
    token = _remembered.set(files)
    try:
        yield
    finally:
        _remembered.reset(token)
