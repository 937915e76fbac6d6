"""Text of others, made safe to print: HAIDIP security considerations (HAIDIP-047)."""

from __future__ import annotations

import json
from typing import Any

from agtphost.vocabulary.escaping import escape, escape_characters

__all__ = ["escape", "escape_octets", "render_json"]


def escape_octets(octets: bytes, *, keep: str = "\n\t") -> str:
    """Escape octets as :func:`escape` does text; octets that are not UTF-8 become escapes."""
    return escape(octets.decode("utf-8", "backslashreplace"), keep=keep)


def render_json(value: Any, *, indent: int | None = 2) -> str:
    """Render a JSON value for people: readable Unicode, control and bidi characters as JSON's own escapes."""
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    return "".join(escape_characters(text, "\n", _json_escape))


def _json_escape(character: str) -> str:
    return json.dumps(character)[1:-1]
