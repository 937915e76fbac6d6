"""
Text of others, made safe to print: HAIDIP security considerations (HAIDIP-047).

A terminal obeys control characters, and a reader is fooled by characters that
reorder or hide what stands around them. Agents' output is untrusted, so all of
these are written as escapes before they reach a screen.
"""

from __future__ import annotations

import json
import unicodedata
from typing import Any

_UNSAFE_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Controls, invisible formatting and bidi marks, surrogates, private use, unassigned, line separators."""


def _escape(character: str) -> str:
    code = ord(character)
    if code <= 0xFF:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def _safe(character: str, keep: str) -> bool:
    if " " <= character <= "~" or character in keep:
        return True
    return unicodedata.category(character) not in _UNSAFE_CATEGORIES


def escape(text: str, *, keep: str = "") -> str:
    r"""
    ``text`` with everything a terminal might act on as ``\x..``, ``\u....`` or ``\U........``.

    :param keep: control characters to leave as they are, such as ``"\n\t"``.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(character if _safe(character, keep) else _escape(character) for character in text)


def escape_octets(octets: bytes, *, keep: str = "\n\t") -> str:
    """The same for octets: UTF-8 where they are, every other octet as an escape."""
    return escape(octets.decode("utf-8", "backslashreplace"), keep=keep)


def render_json(value: Any, *, indent: int | None = 2) -> str:
    """A JSON value for people: readable Unicode, control and bidi characters as JSON's own escapes."""
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    return "".join(
        character if character == "\n" or _safe(character, "") else _json_escape(character) for character in text
    )


def _json_escape(character: str) -> str:
    return json.dumps(character)[1:-1]
