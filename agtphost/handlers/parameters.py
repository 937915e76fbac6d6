"""Reading a method's parameters: a missing or malformed one is 422 and names itself (spec reading 57)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from agtphost.errors import Refusal
from agtphost.identity.genesis import is_timestamp
from agtphost.vocabulary import jsontext, times
from agtphost.vocabulary.identifiers import is_agent_id, is_opaque_id
from agtphost.vocabulary.reasons import Reason

LONGEST_TARGET = 257
"""Characters of ``COLLECTION/ID``, of which either may have up to 128."""

MAX_TEXT = 2_000
"""Characters of a free-text parameter that ends up in a signed record."""


def invalid(
    name: str, explanation: str, remedy: str, *, missing: bool = False, reason: Reason | None = None
) -> Refusal:
    """Return the refusal of one parameter."""
    return Refusal(
        reason or (Reason.MISSING_PARAMETER if missing else Reason.INVALID_PARAMETER),
        explanation,
        remedy=remedy,
        details={"parameter": name},
    )


def text(parameters: Mapping[str, Any], name: str) -> str | None:
    """Return a text parameter of at most :data:`MAX_TEXT` characters; None where it is absent."""
    value = parameters.get(name)
    if value is None:
        return None
    if isinstance(value, str) and len(value) > MAX_TEXT:
        raise invalid(name, f"{name} has {len(value)} characters.", f"Send at most {MAX_TEXT}.")
    if not isinstance(value, str) or not value:
        raise invalid(name, f"{name} is not a text of 1 to {MAX_TEXT} characters.", f"Send {name} as text.")
    return value


def require_text(parameters: Mapping[str, Any], name: str) -> str:
    """Return a text parameter that the method requires."""
    value = text(parameters, name)
    if value is None:
        raise invalid(name, f"The parameter {name} is missing.", f"Send {name}.", missing=True)
    return value


def matching(parameters: Mapping[str, Any], name: str, grammar: Callable[[str], bool], form: str) -> str:
    """Return a required parameter that follows ``grammar``; ``form`` says in words what that is."""
    value = require_text(parameters, name)
    if not grammar(value):
        raise invalid(name, f"{name} is not {form}.", f"Send {form}.")
    return value


def agent_id(parameters: Mapping[str, Any], name: str = "agent_id") -> str:
    """Return a required canonical Agent-ID."""
    return matching(parameters, name, is_agent_id, "64 lower-case hexadecimal digits")


def count(parameters: Mapping[str, Any], name: str, default: int, most: int) -> int:
    """Return a positive whole number; ``default`` where absent. The drafts allow to cut larger ones to ``most``."""
    value = parameters.get(name)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise invalid(name, f"{name} is not a positive whole number.", f"Send {name} as a number from 1.")
    return min(value, most)


def start(parameters: Mapping[str, Any], name: str, most: int) -> int:
    """Return where a part of a list begins: a whole number from 0; 0 where it is absent."""
    value = parameters.get(name, 0)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= most:
        raise invalid(name, f"{name} is not a whole number from 0 to {most}.", f"Send {name} as a number from 0.")
    return value


def identifier(parameters: Mapping[str, Any], name: str) -> str:
    """Return a required identifier: 1 to 128 visible ASCII characters."""
    return matching(parameters, name, is_opaque_id, "1 to 128 visible ASCII characters")


def _is_target(text: str) -> bool:
    name, slash, rest = text.partition("/")
    return is_opaque_id(text) or (bool(slash) and is_opaque_id(name) and is_opaque_id(rest))


def target(parameters: Mapping[str, Any], name: str) -> str:
    """
    Return a required identifier of anything there is here: an item's has its collection's before it, and is longer.
    """
    return matching(parameters, name, _is_target, f"1 to {LONGEST_TARGET} visible ASCII characters")


def choice(parameters: Mapping[str, Any], name: str, allowed: Sequence[str], default: str = "") -> str:
    """Return a parameter that is one of a few words; required if it has no default."""
    value = parameters.get(name)
    if value is None and default:
        return default
    if value is None:
        raise invalid(name, f"The parameter {name} is missing.", f"Use {', '.join(allowed)}.", missing=True)
    if value not in allowed:
        raise invalid(name, f"{name} is not one of the known words.", f"Use {', '.join(allowed)}.")
    return str(value)


def moment(parameters: Mapping[str, Any], name: str) -> float | None:
    """Return an optional RFC 3339 time, in seconds since the epoch; it must be a valid date in UTC too."""
    value = parameters.get(name)
    if value is None:
        return None
    found = datetime.fromisoformat(value).timestamp() if is_timestamp(value) else None
    if found is None or not times.EARLIEST <= found <= times.LATEST:
        raise invalid(name, f"{name} is not an RFC 3339 time with its offset.", "Send 2027-01-31T00:00:00Z.")
    return found


def read_json(parameters: Mapping[str, Any], name: str, most: int) -> Any:
    """Return any JSON that the host keeps, of at most ``most`` octets; None where absent."""
    value = parameters.get(name)
    if value is not None and len(jsontext.encode(value)) > most:
        raise invalid(name, f"{name} is longer than {most} octets.", f"Send less in {name}.")
    return value


def fraction(parameters: Mapping[str, Any], name: str) -> float:
    """Return a number from 0 to 1; 0 where it is absent."""
    value = parameters.get(name)
    if value is None:
        return 0.0
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1:
        raise invalid(name, f"{name} is not a number from 0.0 to 1.0.", f"Send {name} as a number such as 0.5.")
    return float(value)
