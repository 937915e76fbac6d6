"""
Add elements to lists of tables in a TOML text, and remove them, with every other character unchanged.

The result is parsed and compared with what it should be. A text in which the list has a form that cannot be edited line
by line, such as an inline table, is refused and never damaged.
"""

from __future__ import annotations

import copy
from typing import Any

from agtphost.vocabulary import tomltext
from agtphost.vocabulary.tomltext import Document, Location, TomlError


class TomlEditError(ValueError):
    """
    The text cannot be edited.

    :param message: why, without a subject.
    :param line: where, counted from 1; 0 where no line is to blame.
    """

    def __init__(self, message: str, line: int = 0) -> None:
        super().__init__(message)
        self.line = line


def append_element(text: str, path: tuple[str, ...], section: str) -> str:
    """
    Append an element to a list of tables, at the end of the text.

    :param path: keys of the list, such as ``("mcp", "server")``.
    :param section: the element as TOML, with its header ``[[mcp.server]]``.
    :raises TomlEditError: the list is there in another form.
    :raises agtphost.vocabulary.tomltext.TomlError: the text is not TOML.
    """
    before = tomltext.read(text)
    wanted = copy.deepcopy(before.tree)
    _list_in(wanted, path).append(_list_in(tomltext.read(section).tree, path)[0])
    space = "" if not text.strip() else "\n" if text.endswith("\n") else "\n\n"
    edited = f"{text}{space}{section}"
    _compare(edited, wanted, _line_of_list(before, path))
    return edited


def remove_element(text: str, path: tuple[str, ...], index: int) -> str:
    """
    Remove an element of a list of tables, with its own tables and the comment directly above its header.

    Comments that follow its last key stay, because they may be about what comes next.

    :param path: keys of the list.
    :param index: of the element.
    :raises TomlEditError: the element is not a section of consecutive lines.
    :raises agtphost.vocabulary.tomltext.TomlError: the text is not TOML.
    """
    before = tomltext.read(text)
    wanted = copy.deepcopy(before.tree)
    del _list_in(wanted, path)[index]
    if not _list_in(wanted, path):
        _remove_list(wanted, path)
    element: Location = (*path, index)
    lines = text.splitlines(keepends=True)
    begin = before.line(element) - 1
    others = (line - 1 for at, line in before.lines.items() if at[: len(element)] != element and line - 1 > begin)
    end = min(others, default=len(lines))
    while end > begin + 1 and _is_trivia(lines[end - 1]):
        end -= 1
    while begin > 0 and lines[begin - 1].lstrip().startswith("#"):
        begin -= 1
    kept = lines[:begin] + lines[end:]
    # Of the empty lines on both sides, those below go, so that removing undoes appending.
    while kept[:begin] and begin < len(kept) and not kept[begin].strip() and not kept[begin - 1].strip():
        del kept[begin]
    if begin == len(kept):
        while kept and not kept[-1].strip():
            del kept[-1]
    edited = "".join(kept)
    _compare(edited, wanted, before.line(element))
    return edited


def _is_trivia(line: str) -> bool:
    return not line.strip() or line.lstrip().startswith("#")


def _list_in(tree: dict[str, Any], path: tuple[str, ...]) -> list[Any]:
    """Return the list of tables, which is made if it is missing."""
    at: Any = tree
    for key in path[:-1]:
        at = at.setdefault(key, {}) if isinstance(at, dict) else None
    found = at.setdefault(path[-1], []) if isinstance(at, dict) else None
    if not isinstance(found, list):
        raise TomlEditError(f"has {'.'.join(path)} in a form that is not a list of tables")
    return found


def _remove_list(tree: dict[str, Any], path: tuple[str, ...]) -> None:
    """Remove the empty list, and tables around it that have nothing else."""
    for length in range(len(path), 0, -1):
        at = tree
        for key in path[: length - 1]:
            at = at[key]
        if at[path[length - 1]]:
            return
        del at[path[length - 1]]


def _line_of_list(document: Document, path: tuple[str, ...]) -> int:
    return document.line(path, 0)


def _compare(edited: str, wanted: dict[str, Any], line: int) -> None:
    """Require that the edited text says what it should."""
    try:
        found = tomltext.read(edited).tree
    except TomlError:
        found = None
    if found != wanted:
        raise TomlEditError("has this list in a form that only a person can edit", line)
