"""Render values as text for people, with invisible characters made visible."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from datetime import datetime
from typing import Any
from urllib.parse import quote

from agtphost.vocabulary.escaping import escape
from agtphost.vocabulary.quantities import lasting, size

LONGEST = 20_000
"""Characters of one value that are shown."""


def show_value(value: object, longest: int = LONGEST) -> str:
    """
    Render any value: text with control and bidi characters escaped; other values as JSON.

    Twisted's templates escape HTML markup.
    """
    if value is None:
        return "-"
    if value is True or value is False:
        return "yes" if value else "no"
    if isinstance(value, (Mapping, list, tuple)):
        value = as_json(value)
    text = str(value)
    if len(text) > longest:
        text = f"{text[:longest]} ... ({len(text) - longest} more characters)"
    return escape(text, keep="\n\t")


def as_json(value: Any) -> str:
    """Return a value as indented JSON, for ``<pre>``."""
    return json.dumps(value, ensure_ascii=False, indent=2, sort_keys=False, default=str)


def brief(identifier: object, length: int = 12) -> str:
    """Return the beginning of a long identifier."""
    text = show_value(identifier, 256)
    return text if len(text) <= length + 3 else f"{text[:length]}..."


def in_path(value: object) -> str:
    """Return a value encoded as one segment of a path."""
    text = str(value)
    # Most values are identifiers, which need no encoding.
    return text if text.isascii() and text.isalnum() else quote(text, safe="")


def ago(stamp: object, now: float | None = None) -> str:
    """Return how long ago a moment was: ``12 s``, ``3 min``, ``5 h``, ``2 d``."""
    moment = _seconds(stamp)
    if moment is None:
        return show_value(stamp)
    return lasting((time.time() if now is None else now) - moment)


def _seconds(stamp: object) -> float | None:
    """Return the seconds since the epoch of a moment in RFC 3339 or as a number; None for any other value."""
    if isinstance(stamp, (int, float)) and not isinstance(stamp, bool):
        return float(stamp)
    try:
        return datetime.fromisoformat(str(stamp)).timestamp()
    except ValueError:
        return None


def days_left(days: object) -> str:
    """Return the days of a certificate for people: whole ones, ``less than 1``, ``ended``; ``-`` without one."""
    if not isinstance(days, (int, float)):
        return "-"
    if days <= 0:
        return "ended"
    return f"{int(days):,}" if days >= 1 else "less than 1"


def octets(count: object) -> str:
    """Return a size with one unit."""
    if not isinstance(count, (int, float)):
        return show_value(count)
    return size(float(count))
