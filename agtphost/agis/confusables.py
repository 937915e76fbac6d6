"""
Letters that look like ASCII letters, mapped to them: full-width, Cyrillic, Greek and mathematical ones.

People and language models read a Cyrillic ``о`` in a statement as an ``o``. A check of the text as it is written would
miss what its readers see.
"""

from __future__ import annotations

import functools
import re
import tomllib
import unicodedata
from importlib import resources

from agtphost.vocabulary.escaping import BLANK

_LETTER = re.compile(
    r"(?:LATIN|TAG LATIN|LISU|REGIONAL INDICATOR SYMBOL)(?: SMALL| CAPITAL)? LETTER(?: SMALL CAPITAL)?"
    r"(?: REVERSED| TURNED| SCRIPT| DOTLESS| LONG| OPEN)? ([A-Z])(?: .*)?",
    re.ASCII,
)
"""Names of characters that are a Latin letter with something added, such as ``LATIN SMALL LETTER O WITH STROKE``."""

_SQUARED = re.compile(r"NEGATIVE (?:SQUARED|CIRCLED) LATIN CAPITAL LETTER ([A-Z])", re.ASCII)


@functools.cache
def _table() -> dict[str, str]:
    """Return the ASCII letter of each letter of ``confusables.toml``."""
    lists = tomllib.loads(resources.files(__package__).joinpath("confusables.toml").read_text("utf-8"))
    return {char: letter for letter, chars in lists.items() for char in chars}


def skeleton(text: str) -> str:
    """
    Return a text as a reader sees it: look-alikes as ASCII letters, without invisible characters.

    :return: an ASCII text unchanged, except that runs of blanks become one space.
    """
    if not text.isascii():
        decomposed = unicodedata.normalize("NFKD", text)
        text = decomposed.translate({ord(char): _ascii(char) for char in {*decomposed} if not char.isascii()})
    return " ".join(text.split())


def _ascii(char: str) -> str:
    """Return the letter that a character looks like; the character itself if it looks like none."""
    found = _table().get(char)
    if found is not None:
        return found
    name = unicodedata.name(char, "")
    named = _LETTER.fullmatch(name) or _SQUARED.fullmatch(name)
    if named is not None:
        return named[1] if "CAPITAL LETTER" in name and "SMALL CAPITAL" not in name else named[1].lower()
    hidden = char in BLANK or unicodedata.category(char) in {"Cf", "Mn", "Me", "Cc"}
    if hidden:
        return ""
    return " " if unicodedata.category(char).startswith("Z") else char
