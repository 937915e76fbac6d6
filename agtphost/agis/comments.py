"""
The comments of a document, carried over to its canonical form (AGIS v01 section 10 has YAML for people).

A comment on its own line stays before the same member, a comment at the end of a line stays after it. Members may have
moved, endpoints and parameters may be renamed, and shorthand contracts are now schemas. So the place of a comment is
found by the member's path, or else by the member around it.
"""

from __future__ import annotations

import bisect
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from agtphost.agis.document_reader import Place, Tree, Unreadable, read
from agtphost.vocabulary import yamltext
from agtphost.vocabulary.yamltext import Comment, Mark


def add_comments(comments: Sequence[Comment], source: Tree, text: str) -> str | None:
    """
    Return a text of YAML with the comments of the document that it was made from.

    :param comments: the comments in their order.
    :param source: the values of the original, with their marks.
    :param text: the canonical form of these values, also after corrections.
    :return: None if the comments cannot be kept.
    """
    if not comments:
        return text
    try:
        written = read(text.encode("utf-8"))
    except Unreadable:
        return None  # The canonical form is larger than documents may be.
    lines = text.split("\n")[:-1]
    before, behind, last = _place_comments(comments, source, written, yamltext.find_continued_lines(text), len(lines))
    found: list[str] = []
    for number, line in enumerate(lines, 1):
        indent = " " * (len(line) - len(line.lstrip(" ")))
        found += [f"{indent}{each}" for each in before.get(number, ())]
        found.append(f"{line}  {behind[number]}" if number in behind else line)
    whole = "\n".join([*found, *last, ""])
    octets = whole.encode("utf-8")
    # Check that no comment was added or lost.
    there = Counter(each.text for each in yamltext.comments(octets)) == Counter(each.text for each in comments)
    return whole if there and read(octets).root == written.root else None


def _place_comments(
    comments: Sequence[Comment], source: Tree, written: Tree, inside: frozenset[int], count: int
) -> tuple[dict[int, list[str]], dict[int, str], list[str]]:
    """Return the comments before and at the end of lines, by line number, and those at the end of the text."""
    places = sorted(_places(source.root, source, ()), key=lambda each: each[0])
    marks = [mark for mark, _ in places]
    before: dict[int, list[str]] = {}
    behind: dict[int, str] = {}
    last: list[str] = []
    for each in comments:
        at = bisect.bisect_left(marks, each.mark)
        if each.alone and at == len(places):
            last.append(each.text)
            continue
        place = places[at if each.alone else max(at - 1, 0)][1] if at or not each.alone else ()
        line = min(written.mark(_same(place, source.root, written.root))[0], count) if place else 1
        if each.alone or not place or line in behind or line in inside:
            before.setdefault(line, []).append(each.text)
        else:
            behind[line] = each.text
    return before, behind, last


def _places(value: Any, tree: Tree, place: Place) -> Iterator[tuple[Mark, Place]]:
    """Yield the mark and path of everything that has a name or an index."""
    marks = tree.marks.get(id(value), {})
    items = value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list) else ()
    for name, member in items:
        if name in marks:
            yield marks[name], (*place, name)
        yield from _places(member, tree, (*place, name))


def _same(place: Place, source: Any, written: Any) -> Place:
    """Return the present path of a member, which may be renamed, or of the member around it."""
    found: Place = ()
    for name in place:
        now = _name(name, source, written)
        if now is None:
            break
        found = (*found, now)
        source, written = source[name], written[now]
    return found


def _name(name: str | int, source: Any, written: Any) -> str | int | None:
    if isinstance(source, Mapping) and isinstance(written, Mapping):
        if name in written:
            return name
        names, others = [*source], [*written]
        now = others[names.index(name)] if len(names) == len(others) else None
        return now if now not in source else None
    alike = isinstance(source, list) and isinstance(written, list) and len(source) == len(written)
    return name if alike else None
