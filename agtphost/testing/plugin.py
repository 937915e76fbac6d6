"""
The pytest plugin: it has one fixture, and imports nothing before the fixture is used.

Its entry point is ``agtphost`` in the group ``pytest11``; ``-p no:agtphost`` disables it.
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
    Provide a function that makes hosts in memory, with the parameters of :class:`agtphost.testing.MemoryHost`.

    Each host is closed at the end of the test.
    """
    from agtphost.testing.host import MemoryHost

    made: list[MemoryHost] = []

    def make(*arguments: Any, **options: Any) -> MemoryHost:
        made.append(MemoryHost(*arguments, **options))
        return made[-1]

    yield make
    for host in reversed(made):
        host.close()
