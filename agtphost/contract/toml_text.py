"""Writing TOML: tables as headers, everything inside a list on one line."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

_BARE = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)
_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r"}


def write_toml(table: Mapping[str, Any]) -> str:
    """
    A document with the members of ``table``.

    :param table: text, booleans, finite numbers, lists and mappings of these.
    :raises TypeError: for what TOML cannot hold, such as None.
    """
    return "\n".join(_table(table, ())).strip("\n") + "\n"


def key_text(name: str) -> str:
    """A key, quoted where it has to be."""
    return name if _BARE.fullmatch(name) else string_text(name)


def string_text(text: str) -> str:
    """A string on one line."""
    return f'"{"".join(map(_character, text))}"'


def _character(char: str) -> str:
    if char in _ESCAPES:
        return _ESCAPES[char]
    if char < " " or char == "\x7f":
        return f"\\u{ord(char):04X}"
    return char


def _table(table: Mapping[str, Any], at: Sequence[str]) -> Iterator[str]:
    for name, value in table.items():
        if not isinstance(value, Mapping):
            yield f"{key_text(name)} = {_value(value)}"
    for name, value in table.items():
        if isinstance(value, Mapping):
            header = [*at, key_text(name)]
            if not value or any(not isinstance(inner, Mapping) for inner in value.values()):
                yield f"\n[{'.'.join(header)}]"
            yield from _table(value, header)


def _value(value: Any) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case float():
            return repr(value)
        case str():
            return string_text(value)
        case list() | tuple():
            return f"[{', '.join(map(_value, value))}]"
        case Mapping():
            return f"{{ {', '.join(f'{key_text(name)} = {_value(inner)}' for name, inner in value.items())} }}"
    raise TypeError(f"TOML has no {type(value).__name__}")
