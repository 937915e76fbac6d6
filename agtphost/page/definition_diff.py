"""Compare two definitions of a tool line by line."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import unified_diff

from twisted.web.template import Tag, tags

from agtphost.page.value_text import as_json, show_value
from agtphost.vocabulary import jsontext

MOST_LINES = 400
"""Lines of a definition that are compared."""

LONGEST_LINE = 2_000


def differences(approved: str, present: str) -> Tag | None:
    """
    Return the lines that differ, with a few around them; None if the definitions say the same.

    :param approved: JSON text; so is ``present``.
    """
    before, after = _lines(approved), _lines(present)
    if before == after:
        return None
    shown = list(_mark_lines(before[:MOST_LINES], after[:MOST_LINES]))
    if max(len(before), len(after)) > MOST_LINES:
        shown.append(tags.span(f"Only the first {MOST_LINES} lines are compared.\n"))
    return tags.pre(tags.code(*shown), tabindex="0", class_="diff", **{"aria-label": "Differences"})


def _mark_lines(before: list[str], after: list[str]) -> Iterator[Tag]:
    for number, line in enumerate(unified_diff(before, after, lineterm="", n=2)):
        if number < 2:
            continue
        text = f"{show_value(line, LONGEST_LINE)}\n"
        if line.startswith("@@"):
            yield tags.span("...\n")
        elif line.startswith("-"):
            yield Tag("del")(text)
        elif line.startswith("+"):
            yield Tag("ins")(text)
        else:
            yield tags.span(text)


def _lines(text: str) -> list[str]:
    try:
        return as_json(jsontext.decode(text.encode())).splitlines()
    except (jsontext.JSONTextError, UnicodeEncodeError):
        return text.splitlines()
