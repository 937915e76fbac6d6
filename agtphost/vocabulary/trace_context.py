"""
W3C Trace Context: which trace a call belongs to, as its caller says (https://www.w3.org/TR/trace-context/).

Both fields are foreign: what does not follow the grammar to the letter counts as absent, and is never passed on.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

TRACEPARENT = "traceparent"
TRACESTATE = "tracestate"

LENGTH = 55
"""Characters of a ``traceparent``; later versions of the standard may have more, and count as absent then."""

LONGEST_STATE = 512
"""Octets of a ``tracestate`` that are passed on; of a longer one, nothing is; the standard asks for so many."""

MOST_MEMBERS = 32

_PARENT = re.compile(
    r"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})",
    re.ASCII,
)
_KEY = re.compile(r"[a-z][a-z0-9_*/-]{0,255}|[a-z0-9][a-z0-9_*/-]{0,240}@[a-z][a-z0-9_*/-]{0,13}", re.ASCII)
_VALUE = re.compile(r"[\x20-\x2b\x2d-\x3c\x3e-\x7e]{0,255}[\x21-\x2b\x2d-\x3c\x3e-\x7e]", re.ASCII)


@dataclass(frozen=True, slots=True)
class TraceContext:
    """A place in a trace."""

    trace_id: str
    """32 hexadecimal digits."""

    parent_id: str
    """16 hexadecimal digits: the span that calls."""

    flags: int
    """One octet; the lowest bit says that the trace is recorded."""

    state: str = ""
    """``tracestate``; empty where there is none."""


def read(traceparent: str | None, tracestate: str | None = None) -> TraceContext | None:
    """
    Return the place in a trace that a caller names.

    :param traceparent: the field's value; several of them are one that is malformed.
    :param tracestate: the field's value, that of several joined by commas.
    :return: None where there is none, or it is malformed.
    """
    if traceparent is None or len(traceparent) != LENGTH:
        return None
    found = _PARENT.fullmatch(traceparent)
    if found is None:
        return None
    trace_id, parent_id, flags = found.groups()
    state = tracestate if tracestate and is_state(tracestate) else ""
    return TraceContext(trace_id, parent_id, int(flags, 16), state)


def is_state(value: str) -> bool:
    """Return whether a ``tracestate`` follows its grammar, and is short enough to be passed on."""
    if len(value) > LONGEST_STATE:
        return False
    keys: set[str] = set()
    members = [member.strip(" \t") for member in value.split(",")]
    for member in members:
        if not member:
            continue
        key, _, text = member.partition("=")
        if key in keys or _KEY.fullmatch(key) is None or _VALUE.fullmatch(text) is None:
            return False
        keys.add(key)
    return 0 < len(keys) <= MOST_MEMBERS
