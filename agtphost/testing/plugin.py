"""
The pytest plugin: it has one fixture, and nothing is imported before that is used.

Entry point group ``pytest11``, name ``agtphost``; ``-p no:agtphost`` leaves it out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from agtphost.testing.host import MemoryHost


@pytest.fixture
def agtp_host() -> Iterator[Callable[..., MemoryHost]]:
    """
    Makes hosts in memory: called with the parameters of :class:`agtphost.testing.MemoryHost`.

    Each is closed when the test is over.
    """
    from agtphost.testing.host import MemoryHost

    made: list[MemoryHost] = []

    def make(*arguments: Any, **options: Any) -> MemoryHost:
        made.append(MemoryHost(*arguments, **options))
        return made[-1]

    yield make
    for host in reversed(made):
        host.close()
