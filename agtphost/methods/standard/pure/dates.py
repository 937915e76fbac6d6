"""Dates as people write them, in ISO 8601."""

from __future__ import annotations

import re
from datetime import date, datetime
from email.utils import parsedate_to_datetime

_NAMES = (
    "jan january januar janvier enero|feb february februar février febrero|mar march märz mars marzo"
    "|apr april avril abril|may mai mayo|jun june juni juin junio|jul july juli juillet julio"
    "|aug august août agosto|sep sept september septembre septiembre|oct october oktober okt octobre octubre"
    "|nov november novembre noviembre|dec december dezember dez décembre diciembre"
)
MONTHS = {name: number for number, names in enumerate(_NAMES.split("|"), 1) for name in names.split()}
"""Months by what they are called in English, German, French and Spanish."""

MAX_TEXT = 64

_ISO = re.compile(r"[0-9]{4}-?[0-9]{2}-?[0-9]{2}(?:[T ][0-9:.,]{4,16}(?:Z|[-+][0-9:]{2,6})?)?", re.ASCII)
_YEAR_FIRST = re.compile(r"([0-9]{4})[./]([0-9]{1,2})[./]([0-9]{1,2})", re.ASCII)
_FIGURES = re.compile(r"([0-9]{1,2})([./-])([0-9]{1,2})\2([0-9]{4}|[0-9]{2})", re.ASCII)
_DAY_MONTH = re.compile(r"([0-9]{1,2})(?:st|nd|rd|th|\.)?(?: of| de)? ([^\W\d_]{3,10})\.?,?(?: de)? ([0-9]{4})")
_MONTH_DAY = re.compile(r"([^\W\d_]{3,10})\.? ([0-9]{1,2})(?:st|nd|rd|th)?,? ([0-9]{4})")


class DateError(ValueError):
    """A text that is not a date, or is ambiguous; the message says which."""


def month_first(locale: str) -> bool | None:
    """Return whether dates in figures begin with the month in a locale; None for an empty one."""
    if not locale:
        return None
    parts = locale.replace("_", "-").split("-")
    region = next((part.upper() for part in parts[1:] if len(part) == 2), "")
    return region in ("US", "PH", "FM", "MH", "PW", "GU") or (parts[0].lower() == "en" and not region)


def canonical(text: str, locale: str = "") -> str:
    """
    Convert a date, or a date and time, to ISO 8601.

    :param locale: a BCP 47 tag; it decides which of ``03/04/2026`` is the month.
    :raises DateError: see there.
    """
    text = " ".join(text.split())
    if not 0 < len(text) <= MAX_TEXT:
        raise DateError("it is not a date")
    try:
        return _read(text, locale)
    except DateError:
        raise
    except (ValueError, OverflowError):
        raise DateError("that day does not exist") from None


def _read(text: str, locale: str) -> str:
    if _ISO.fullmatch(text):
        found = datetime.fromisoformat(text)
        return found.date().isoformat() if len(text) <= len("2026-01-31") else found.isoformat()
    if match := _YEAR_FIRST.fullmatch(text):
        return date(int(match[1]), int(match[2]), int(match[3])).isoformat()
    if match := _FIGURES.fullmatch(text):
        return _figures(match, locale)
    for pattern, order in ((_DAY_MONTH, (3, 2, 1)), (_MONTH_DAY, (3, 1, 2))):
        match = pattern.fullmatch(text)
        month = MONTHS.get(match[order[1]].lower()) if match else None
        if match and month:
            return date(int(match[order[0]]), month, int(match[order[2]])).isoformat()
    if text[:3].isalpha() and "," in text[:5]:
        return parsedate_to_datetime(text).isoformat()
    raise DateError("it is not a date")


def _figures(match: re.Match[str], locale: str) -> str:
    one, other, year = int(match[1]), int(match[3]), int(match[4])
    if len(match[4]) == 2:
        year += 2000 if year < 70 else 1900
    first = month_first(locale)
    if match[2] == "." or other > 12 >= one or one > 12 >= other:
        first = other > 12 if match[2] != "." else False
    if first is None and one != other:
        raise DateError("it may be two dates: send locale to say which")
    month, day = (one, other) if first else (other, one)
    return date(year, month, day).isoformat()
