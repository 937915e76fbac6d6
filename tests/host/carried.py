"""What a feature of a host in memory carries to its next configuration."""

from __future__ import annotations

from typing import TypeVar

from agtphost.testing import MemoryHost

T = TypeVar("T")


def carried(host: MemoryHost, section: str, kind: type[T]) -> T:
    """
    What the feature of a section has made.

    :param kind: its class.
    """
    made = host.core.features.contributions[section,].carried
    assert isinstance(made, kind)
    return made
