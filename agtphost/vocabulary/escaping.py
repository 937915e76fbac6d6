"""
Text of others, made safe to show: HAIDIP security considerations (HAIDIP-047).

A terminal obeys control characters, and a reader is fooled by characters that
reorder or hide what stands around them. Agents' output is untrusted, so all of
these are written as escapes before they reach a screen.
"""

from __future__ import annotations

import unicodedata

UNSAFE_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Controls, invisible formatting and bidi marks, surrogates, private use, unassigned, line separators."""


def _escape(character: str) -> str:
    code = ord(character)
    if code <= 0xFF:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def is_safe(character: str, keep: str = "") -> bool:
    """Whether a character shows what it is; one in ``keep`` counts as such."""
    if " " <= character <= "~" or character in keep:
        return True
    return unicodedata.category(character) not in UNSAFE_CATEGORIES


def escape(text: str, *, keep: str = "") -> str:
    r"""
    ``text`` with everything that is obeyed rather than shown as ``\x..``, ``\u....`` or ``\U........``.

    :param keep: control characters to leave as they are, such as ``"\n\t"``.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(character if is_safe(character, keep) else _escape(character) for character in text)
