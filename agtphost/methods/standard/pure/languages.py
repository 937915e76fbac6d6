"""BCP 47: whether a text is a language tag, by the grammar of RFC 5646."""

from __future__ import annotations

import re

_TAG = re.compile(
    r"""
    (?: [a-z]{2,3} (?: -[a-z]{3} ){0,3} | [a-z]{4} | [a-z]{5,8} )      # language
    (?: -[a-z]{4} )?                                                  # script
    (?: -(?: [a-z]{2} | [0-9]{3} ) )?                                 # region
    (?: -(?: [a-z0-9]{5,8} | [0-9][a-z0-9]{3} ) ){0,8}                # variants
    (?: -[0-9a-wy-z] (?: -[a-z0-9]{2,8} ){1,8} ){0,8}                 # extensions
    (?: -x (?: -[a-z0-9]{1,8} ){1,8} )?                               # private use
  | x (?: -[a-z0-9]{1,8} ){1,8}
    """,
    re.ASCII | re.IGNORECASE | re.VERBOSE,
)
MAX_TAG = 64


def is_tag(text: object) -> bool:
    """Return whether a text is a well-formed language tag: ``de``, ``pt-BR``, ``zh-Hant-TW``."""
    return isinstance(text, str) and len(text) <= MAX_TAG and _TAG.fullmatch(text) is not None


def region_of(tag: str) -> str:
    """Return the region of a tag, in capitals; empty where it has none."""
    parts = tag.replace("_", "-").split("-")[1:]
    return next((part.upper() for part in parts if len(part) == 2 and part.isalpha()), "")
