"""Replace single values of a configuration that was read already."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def replace_value(value: Any, location: Sequence[Any], new: Any) -> Any:
    """Return a configuration with one value replaced; it is not checked again."""
    name, *rest = location
    inner = new if not rest else replace_value(getattr(value, name), rest, new)
    return value.model_copy(update={name: inner})
