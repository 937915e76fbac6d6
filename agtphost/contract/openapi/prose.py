"""Conversion of descriptions to plain text: their HTML is for web pages."""

from __future__ import annotations

import html
import re
from typing import Any

_BLOCK = "p|br|hr|div|ul|ol|li|dl|dt|dd|table|thead|tbody|tr|td|th|h[1-6]|pre|blockquote|section|details|summary"
_INLINE = "a|b|i|u|s|em|strong|code|span|sub|sup|small|font|img|kbd|tt|mark|center|abbr|cite|del|ins|samp|var"
# Only known elements are removed: <name> and <resource-id> are placeholders.
_BLOCKS = re.compile(rf"</?(?:{_BLOCK})(?:\s[^<>]*)?/?>|<!--[^<>]*-->", re.IGNORECASE)
_INLINES = re.compile(rf"</?(?:{_INLINE})(?:\s[^<>]*)?/?>", re.IGNORECASE)


def strip_html(text: Any) -> Any:
    """Return a text without HTML elements and with character references resolved; return other values unchanged."""
    if not isinstance(text, str) or ("<" not in text and "&" not in text):
        return text
    plain = _INLINES.sub("", _BLOCKS.sub(" ", text))
    if plain != text:
        plain = "\n".join(re.sub(r"[ \t]+", " ", line).strip() for line in plain.split("\n"))
    return html.unescape(plain).strip()
