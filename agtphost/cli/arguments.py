"""Parse ``key=value`` and ``key:=json`` words, and read bodies from files."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from agtphost.cli.failures import WrongInput
from agtphost.cli.local_files import read_octets
from agtphost.vocabulary import jsontext


def pairs(words: Iterable[str]) -> dict[str, Any]:
    """
    Read ``key=value`` (text) and ``key:=json`` (any JSON value) words.

    :raises agtphost.cli.failures.CommandError: a word has neither form, or a key is given twice.
    """
    found: dict[str, Any] = {}
    for word in words:
        key, separator, value = word.partition("=")
        if not separator or not key or key == ":":
            raise WrongInput(
                f"{word[:80]!r} is not a parameter",
                "Write key=value for text, key:=json for other values.",
            )
        parsed: Any = value
        if key.endswith(":"):
            key = key[:-1]
            parsed = _json(value.encode("utf-8", "surrogateescape"), f"the value of {key}")
        if key in found:
            raise WrongInput(f"the parameter {key} is given twice")
        found[key] = parsed
    return found


def _json(octets: bytes, what: str) -> Any:
    try:
        return jsontext.decode(octets)
    except jsontext.JSONTextError as error:
        raise WrongInput(f"{what} is not JSON: {error}", "Text values need no quotes: key=value.") from None


def data_octets(data: str) -> bytes:
    """Return the bytes that ``--data`` gives: the text itself, or the contents of ``@FILE``."""
    return read_octets(data[1:]) if data.startswith("@") else data.encode("utf-8", "surrogateescape")


def parameters(words: Iterable[str], file: str | None) -> dict[str, Any]:
    """
    Return the input object from ``--param-file`` and the words; words take precedence.

    :raises agtphost.cli.failures.CommandError: the file does not hold a JSON object.
    """
    given: dict[str, Any] = {}
    if file is not None:
        value = _json(read_octets(file), file)
        if not isinstance(value, dict):
            raise WrongInput(f"{file} does not hold a JSON object")
        given = value
    return {**given, **pairs(words)}


def header_fields(fields: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """Parse ``NAME:VALUE`` words as header fields."""
    found = []
    for field in fields:
        name, separator, value = field.partition(":")
        if not separator or not name:
            raise WrongInput(f"{field[:80]!r} is not a header field", "Write NAME:VALUE.")
        found.append((name, value.strip(" \t")))
    return tuple(found)
