"""
A bounded parser of large JSON or YAML documents from outside.

It differs from :mod:`agtphost.vocabulary.jsontext` only in its larger bounds: an API's description may have a million
values. Of YAML it accepts only what JSON can express: no tags, no dates, no ``yes`` for true; aliases are expanded.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, NoReturn

import yaml

from agtphost.vocabulary import jsontext
from agtphost.vocabulary.foreign_errors import explain, explain_json, explain_yaml

MAX_DEPTH = 200
"""Depth of nested arrays and objects."""

MAX_VALUES = 4_000_000
"""Values of one document; the largest published ones have a quarter of this."""

_PLAIN = (str, bool, int, float, type(None))

_SURROGATE = re.compile(rb"\\u[dD]")
"""An escaped half of a surrogate pair; UTF-8 has no other way to write one."""


class DocumentTextError(ValueError):
    """The text cannot be parsed; the message says where and why."""


class _SyntaxError(DocumentTextError):
    """The text is not JSON."""


def read_document(octets: bytes) -> Any:
    """
    Parse a JSON or YAML document.

    :param octets: UTF-8, with or without a byte order mark.
    :return: dicts with text keys, lists, strings, numbers, booleans and None; no container is shared by two places.
    :raises DocumentTextError: the document is invalid; the message names the fault.
    """
    return _read(octets, json_only=False)


def read_json(octets: bytes) -> Any:
    """Parse a JSON document; see :func:`read_document`."""
    return _read(octets, json_only=True)


def _read(octets: bytes, *, json_only: bool) -> Any:
    try:
        text = octets.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DocumentTextError(f"it is not UTF-8 (octet {error.start})") from None
    try:
        if json_only:
            tree, is_yaml = _json(text), False
        elif text.lstrip()[:1] in ("{", "["):
            tree, is_yaml = _json_or_flow(text)
        else:
            tree, is_yaml = _yaml(text), True
    except RecursionError:
        raise DocumentTextError(f"it is nested more than {MAX_DEPTH} deep") from None
    return _normalize(tree) if is_yaml or not _is_bounded(octets, tree) else tree


def _is_bounded(octets: bytes, tree: Any) -> bool:
    """
    Return whether JSON is certainly within all bounds, so that :func:`_normalize` has nothing to refuse or to change.

    This takes an eighth of its time: JSON has no aliases, no dates and no names that are not text, and :func:`_json`
    refuses numbers that are not finite.

    :param octets: JSON in UTF-8.
    :param tree: its value.
    """
    values = octets.count(b",") + octets.count(b"{") + octets.count(b"[")
    return values < MAX_VALUES and not _SURROGATE.search(octets) and not jsontext.is_deep(tree, MAX_DEPTH)


def _refuse(message: str) -> NoReturn:
    raise DocumentTextError(message)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        _refuse(f"the name {twice[:64]!r} occurs twice in one object")
    return members


def _finite(text: str) -> float:
    value = float(text)
    return value if math.isfinite(value) else _refuse("it has a number that JSON cannot express")


def _json(text: str) -> Any:
    try:
        return json.loads(
            text,
            object_pairs_hook=_unique,
            parse_float=_finite,
            parse_constant=lambda word: _refuse(f"{word} is not JSON"),
        )
    except json.JSONDecodeError as error:
        raise _SyntaxError(explain_json(error)) from error
    except DocumentTextError:
        raise
    except ValueError as error:
        raise DocumentTextError(explain(error)[:160]) from error


def _json_or_flow(text: str) -> tuple[Any, bool]:
    """Parse JSON, or YAML's flow style, which begins alike; also return whether it is YAML."""
    try:
        return _json(text), False
    except _SyntaxError as error:
        try:
            return _yaml(text), True
        except DocumentTextError:
            raise error from None


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """The safe loader without YAML 1.1's conversions of plain words."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value in seen:
                    line = key.start_mark.line + 1
                    _refuse(f"the name {key.value[:64]!r} occurs twice in one object (line {line})")
                seen.add(key.value)
        found: dict[Any, Any] = super().construct_mapping(node, deep)
        return found


_WORDS = {"tag:yaml.org,2002:timestamp", "tag:yaml.org,2002:merge", "tag:yaml.org,2002:value"}
_Loader.yaml_implicit_resolvers = {
    first: [
        (tag, expression)
        for tag, expression in entries
        if tag not in _WORDS and (tag != "tag:yaml.org,2002:bool" or first in "tTfF")
    ]
    for first, entries in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def _yaml(text: str) -> Any:
    try:
        # The class is derived from the safe loader, in C or Python.
        return yaml.load(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f" (line {mark.line + 1}, column {mark.column + 1})" if mark is not None else ""
        raise DocumentTextError(f"{explain_yaml(error.problem)}{where}") from error
    except yaml.YAMLError as error:
        raise DocumentTextError(explain_yaml(str(error))) from error
    except DocumentTextError:
        raise
    except (ValueError, TypeError) as error:
        raise DocumentTextError(f"it has a value that cannot be read: {explain(error)}"[:160]) from error


def _normalize(tree: Any) -> Any:
    """Return the tree with texts as keys and every alias expanded; refuse odd values and excessive size."""
    if not isinstance(tree, (dict, list)):
        _plain(tree)
        return tree
    _count(tree)
    seen: set[int] = {id(tree)}
    level = [tree]
    while level:
        below: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                _name(item)
            for key, value in list(item.items() if isinstance(item, dict) else enumerate(item)):
                if not isinstance(value, (dict, list)):
                    _plain(value)
                    continue
                if id(value) in seen:
                    # The contents of the copy are visited in the next level, and copied there if needed.
                    value = item[key] = value.copy()
                seen.add(id(value))
                below.append(value)
        level = below
    return tree


def _count(tree: Any) -> None:
    """
    Refuse a document that would be too large with its aliases expanded, by counting each item with its multiplicity.
    """
    values = 0
    level = {id(tree): (tree, 1)}
    for _ in range(MAX_DEPTH):
        below: dict[int, tuple[Any, int]] = {}
        for item, times in level.values():
            values += len(item) * times
            if values > MAX_VALUES:
                _refuse(f"it has more than {MAX_VALUES} values")
            for value in item.values() if isinstance(item, dict) else item:
                if isinstance(value, (dict, list)):
                    below[id(value)] = value, times + below.get(id(value), (value, 0))[1]
        if not below:
            return
        level = below
    _refuse(f"it is nested more than {MAX_DEPTH} deep")


def _name(table: dict[Any, Any]) -> None:
    """Convert every key to text: unquoted status codes are numbers in YAML."""
    odd = False
    for key in table:
        if isinstance(key, str):
            _plain(key)
        else:
            odd = True
    if not odd:
        return
    members = list(table.items())
    table.clear()
    for key, value in members:
        name = key if isinstance(key, str) else str(key).lower() if isinstance(key, (bool, type(None))) else str(key)
        if name in table:
            _refuse(f"the name {name[:64]!r} occurs twice in one object")
        table[name] = value


def _plain(value: Any) -> None:
    """Refuse a value that JSON cannot express."""
    if not isinstance(value, _PLAIN):
        _refuse(f"it has a value of a type that JSON lacks: {type(value).__name__}")
    if isinstance(value, float) and not math.isfinite(value):
        _refuse("it has a number that JSON cannot express")
    if isinstance(value, str) and not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            _refuse("it has a text with half of a surrogate pair")
