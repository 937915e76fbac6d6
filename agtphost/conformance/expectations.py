"""Assertions about answers; each raises :class:`~agtphost.conformance.verdict.Failure` if it does not hold."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

from agtphost.conformance.link import RawAnswer
from agtphost.conformance.verdict import expect

HEX64 = re.compile(r"[0-9a-f]{64}", re.ASCII)
MOMENT = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?(Z|[+-][0-9]{2}:[0-9]{2})", re.ASCII
)

SUCCESS = (200, 201, 202, 204, 263)


def require_status(answer: RawAnswer, *allowed: int) -> RawAnswer:
    """Require that the status is one of ``allowed``."""
    listed = " or ".join(map(str, allowed))
    expect(answer.status in allowed, f"expected {listed}, got {answer}", answer.refusal)
    return answer


def forbid_status(answer: RawAnswer, *refused: int) -> RawAnswer:
    """Require that the status is none of ``refused``."""
    expect(answer.status not in refused, f"must not be {' or '.join(map(str, refused))}: got {answer}", answer.refusal)
    return answer


def require_success(answer: RawAnswer) -> RawAnswer:
    """Require that the status is a success."""
    return require_status(answer, *SUCCESS)


def require_reason(answer: RawAnswer, *tokens: str) -> RawAnswer:
    """Require that the body names one of ``tokens`` as its reason."""
    expect(answer.tokens & set(tokens), f"the body names {sorted(answer.tokens)}, not {' or '.join(tokens)}")
    return answer


def require_refusal(answer: RawAnswer, status: int, *tokens: str) -> RawAnswer:
    """Require a status, and one of ``tokens`` as the reason."""
    return require_reason(require_status(answer, status), *tokens)


def require_members(value: Any, names: Collection[str], what: str) -> Mapping[str, Any]:
    """Require that ``value`` is an object with the members ``names``."""
    expect(isinstance(value, Mapping), f"{what} is not an object")
    missing = [name for name in names if name not in value]
    expect(not missing, f"{what} lacks {', '.join(missing)}")
    found: Mapping[str, Any] = value
    return found


def require_list(value: Any, what: str) -> list[Any]:
    """Require that ``value`` is an array."""
    expect(isinstance(value, list), f"{what} is not an array")
    found: list[Any] = value
    return found


def require_header(answer: RawAnswer, name: str) -> str:
    """Return the value of a required header field."""
    found = answer.header(name)
    expect(found is not None, f"{answer} has no {name}", f"no {name}")
    return found or ""


def require_absent(answer: RawAnswer, *names: str) -> RawAnswer:
    """Require that none of the fields is present."""
    present = [name for name in names if answer.header(name) is not None]
    expect(not present, f"{answer} carries {', '.join(present)}")
    return answer


def require_mention(answer: RawAnswer, text: str) -> RawAnswer:
    """Require that the body contains ``text``."""
    expect(text.encode() in answer.body, f"the body of {answer} does not name {text!r}")
    return answer


def is_hex64(value: object) -> bool:
    """Return whether a value is 64 lower-case hexadecimal digits."""
    return isinstance(value, str) and HEX64.fullmatch(value) is not None


def is_moment(value: object) -> bool:
    """Return whether a value is an RFC 3339 date and time."""
    return isinstance(value, str) and MOMENT.fullmatch(value) is not None
