"""
Text of others, made safe to show: HAIDIP security considerations (HAIDIP-047).

A terminal obeys control characters, and a reader is fooled by characters that reorder or hide the text around them.
Agents' output is untrusted, so all of these are written as escapes before they reach a screen.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterator

UNSAFE_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Controls, invisible formatting and bidi marks, surrogates, private use, unassigned, line separators."""

BLANK = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
"""Letters, signs and marks by their categories that are drawn as nothing: fillers, and Braille without a dot."""

_MARKS = frozenset({"Mn", "Me"})
"""What is drawn over, under and through the character before it."""

MOST_MARKS = 4
"""In a row: no script has more on one character, and a tower of them covers the lines above."""


def _escape(character: str) -> str:
    code = ord(character)
    if code <= 0xFF:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def _is_safe(character: str, keep: str) -> bool:
    """Return whether a character shows what it is; one in ``keep`` counts as such."""
    if " " <= character <= "~" or character in keep:
        return True
    return character not in BLANK and unicodedata.category(character) not in UNSAFE_CATEGORIES


def escape_characters(text: str, keep: str = "", escaped: Callable[[str], str] = _escape) -> Iterator[str]:
    """
    Yield the characters of a text, with those escaped that are invisible, reorder text, or control a terminal.

    :param keep: characters to leave as they are in any case.
    """
    marks = 0
    for character in text:
        marks = marks + 1 if not character.isascii() and unicodedata.category(character) in _MARKS else 0
        yield character if marks <= MOST_MARKS and _is_safe(character, keep) else escaped(character)


def escape(text: str, *, keep: str = "") -> str:
    r"""
    ``text`` with everything that is obeyed rather than shown as ``\x..``, ``\u....`` or ``\U........``.

    :param keep: control characters to leave as they are, such as ``"\n\t"``.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(escape_characters(text, keep))
