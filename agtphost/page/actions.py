"""What can be done on the page: a form each, which becomes one request of AGTP."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

Fields: TypeAlias = Mapping[str, str]

LONGEST = 4_096
"""Characters of one field."""


class Malformed(Exception):
    """A form that no page here has; the message is one sentence."""


@dataclass(frozen=True, kw_only=True)
class Act:
    """One request."""

    method: str
    path: str
    given: Mapping[str, Any]
    done: str
    """What its success is called."""


def _word(fields: Fields, name: str) -> str:
    value = fields.get(name, "").strip()
    if not value or len(value) > LONGEST:
        raise Malformed(f"The field {name} is missing, or too long.")
    return value


def _reason(fields: Fields) -> dict[str, str]:
    value = fields.get("reason", "").strip()
    if len(value) > LONGEST:
        raise Malformed("The reason is too long.")
    return {"reason": value} if value else {}


def _chosen(fields: Fields, *known: str) -> str:
    value = fields.get("do", "")
    if value not in known:
        raise Malformed("The form was sent by no button that it has.")
    return value


def decide(fields: Fields) -> Act:
    """CONFIRM: an approval, an escalation or a message is accepted, rejected or deferred."""
    status = _chosen(fields, "accepted", "rejected", "deferred")
    target = _word(fields, "target_id")
    given = {"target_id": target, "status": status, **_reason(fields)}
    return Act(method="CONFIRM", path="/", given=given, done=f"{target} is {status}.")


ACTIONS: Mapping[str, Callable[[Fields], Act]] = {
    "decide": decide,
}
"""By the last segment of the path that their forms are sent to."""
