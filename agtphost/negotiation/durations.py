"""Requested durations: ISO 8601 (``PT24H``) and the drafts' own short form (``24h``, ``7d``); spec reading 54."""

from __future__ import annotations

import re

_ISO = re.compile(
    r"P(?:(?P<w>[0-9]{1,4})W|(?=[0-9T])(?:(?P<d>[0-9]{1,5})D)?"
    r"(?:T(?=[0-9])(?:(?P<h>[0-9]{1,6})H)?(?:(?P<m>[0-9]{1,7})M)?(?:(?P<s>[0-9]{1,9})S)?)?)",
    re.ASCII,
)
_SHORT = re.compile(r"(?P<n>[0-9]{1,9})(?P<u>[smhdw])", re.ASCII)
_UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}


def seconds(text: str) -> int | None:
    """
    Return the seconds of a duration; None if the text is invalid or zero.

    Months and years are refused, because their length varies.
    """
    short = _SHORT.fullmatch(text)
    if short is not None:
        return int(short["n"]) * _UNITS[short["u"]] or None
    iso = _ISO.fullmatch(text)
    if iso is None:
        return None
    return sum(int(iso[unit] or 0) * length for unit, length in _UNITS.items()) or None


def iso(length: int) -> str:
    """Return a duration of whole seconds in ISO 8601: ``P1DT2H``."""
    parts = []
    for unit in "dhms":
        count, length = divmod(length, _UNITS[unit])
        parts.append(f"{count}{unit.upper()}" if count else "")
    time = "".join(parts[1:])
    return f"P{parts[0]}{'T' + time if time else ''}" if any(parts) else "PT0S"
