"""
A filter as one text: ``agent:demo status:4xx "some text"``.

Terms are separated by spaces. A term is a field's name, a colon and a value, or a text to look for. A value or a text
with spaces, or a text with a colon, is put in quotation marks; in these, ``\\"`` is a quotation mark and ``\\\\`` a
backslash.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator

from agtphost.audit.filters.errors import FilterError, quote

LONGEST = 2_000
"""Characters of a filter."""

TEXT = "text"
"""The field of a term that names none."""

_TERM = re.compile(
    r'(?:(?P<field>[^\s":]*):)?(?:"(?P<quoted>(?:[^"\\]|\\.)*)"|(?P<plain>[^\s"]*))(?P<end>\s+|$)', re.DOTALL
)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_SIMPLE = re.compile(r'[^\s":\\]+')

_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn"})
"""Categories of characters that do not show: controls, bidirectional marks, surrogates, unassigned ones."""


def require_visible(field: str, text: str, longest: int = LONGEST) -> None:
    """
    Refuse a text that is too long, or has characters that do not show.

    :raises FilterError: it is, or has.
    """
    if len(text) > longest:
        raise FilterError(field, f"{field} has {len(text)} characters.", f"Write at most {longest}.")
    for character in text:
        if unicodedata.category(character) in _HIDDEN and not (field == "filter" and character in "\t\n\r"):
            raise FilterError(
                field, f"{field} has the character U+{ord(character):04X}, which does not show.", "Remove it."
            )


def split_terms(text: str) -> Iterator[tuple[str, str]]:
    """
    Yield the terms of a filter: fields and values, :data:`TEXT` for a term that names no field.

    :raises FilterError: the text is not a filter.
    """
    require_visible("filter", text)
    at = len(text) - len(text.lstrip())
    while at < len(text):
        found = _TERM.match(text, at)
        if found is None or found.end() == at:
            remedy = 'Write "..." around a text; in it, write \\" for a quotation mark.'
            raise FilterError("filter", f"The filter has a quotation mark out of place at {quote(text[at:])}.", remedy)
        field, quoted, plain = found["field"], found["quoted"], found["plain"]
        value = plain if quoted is None else _ESCAPE.sub(r"\1", quoted)
        if field is None:
            yield TEXT, value
        else:
            yield field, value
        at = found.end()


def join_terms(terms: Iterable[tuple[str, str]]) -> str:
    """Return the filter that has these terms."""
    return " ".join(_term(field, value) for field, value in terms)


def _term(field: str, value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    if field == TEXT:
        return value if _SIMPLE.fullmatch(value) else f'"{escaped}"'
    return f"{field}:{value}" if value and not re.search(r'[\s"\\]', value) else f'{field}:"{escaped}"'
