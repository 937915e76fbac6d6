"""An input without what its names say is secret: as approvers are shown it, and as it stands in a record."""

from __future__ import annotations

from typing import Any

from agtphost.config.approvals import HIDDEN


def visible(value: Any, place: str, hidden: list[str]) -> Any:
    """
    The value without members whose names say that they are secret.

    :param place: where it stands, for the names.
    :param hidden: takes where each of them is.
    """
    if isinstance(value, dict):
        found = {}
        for name, inner in value.items():
            where = f"{place}.{name}" if place else name
            if any(word in name.lower() for word in HIDDEN):
                hidden.append(where)
            else:
                found[name] = visible(inner, where, hidden)
        return found
    if isinstance(value, list):
        return [visible(inner, f"{place}[{at}]", hidden) for at, inner in enumerate(value)]
    return value
