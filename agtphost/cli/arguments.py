"""Parse ``key=value`` and ``key:=json`` words, and read bodies from files."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from agtphost.cli.failures import WrongInput
from agtphost.cli.local_files import read_octets
from agtphost.vocabulary import jsontext
from agtphost.vocabulary.reasons import Reason

_JSON_VALUE = re.compile(r"[-0-9\[{]|(?:true|false|null)\Z")
"""The beginning of a JSON value that is not a text."""

_NAME = re.compile(r"\w+")
_KIND = re.compile(r"\b(?:number|integer|boolean|true|false|list|array|object)\b")
"""A word for a JSON value that is not a text, in the explanation of a refusal."""

_WRONG_VALUE = (Reason.INVALID_INPUT, Reason.INVALID_PARAMETER)
"""Refusal reasons that mean that a parameter which the endpoint has was given another value than it takes."""


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


def fit_to_schema(arguments: Mapping[str, Any], schema: Mapping[str, Any], texts: Collection[str]) -> dict[str, Any]:
    """
    Return arguments with texts of the command line read as the type that the schema of a tool asks for.

    A text that does not have the form of that type stays a text, and the host's refusal says what is wrong with it.

    :param schema: JSON Schema of the arguments.
    :param texts: names of the arguments that were given as ``key=value``.
    """
    properties = schema.get("properties")
    declared = properties if isinstance(properties, dict) else {}
    return {
        name: _fit(value, declared.get(name)) if name in texts and isinstance(value, str) else value
        for name, value in arguments.items()
    }


def _fit(text: str, schema: Any) -> Any:
    kinds = schema.get("type") if isinstance(schema, dict) else None
    wanted = [kinds] if isinstance(kinds, str) else kinds if isinstance(kinds, list) else []
    if not wanted or "string" in wanted:
        return text
    try:
        value = jsontext.decode(text.encode("utf-8", "surrogateescape"))
    except jsontext.JSONTextError:
        return text
    return value if any(_is_of(value, kind) for kind in wanted) else text


def _is_of(value: Any, kind: Any) -> bool:
    """Return whether a JSON value has a type of JSON Schema."""
    if isinstance(value, bool) or value is None:
        return bool(kind == ("null" if value is None else "boolean"))
    if isinstance(value, (int, float)):
        return bool(kind == "number" or (kind == "integer" and float(value).is_integer()))
    return bool(kind == ("array" if isinstance(value, list) else "object"))


def may_be_typed(words: Iterable[str]) -> frozenset[str]:
    """Return the names of ``key=value`` words whose text could be a JSON value other than a text."""
    split = (word.partition("=") for word in words)
    return frozenset(name for name, _, text in split if not name.endswith(":") and _JSON_VALUE.match(text))


def suggest_typed_values(words: Iterable[str], refused: Mapping[str, Any]) -> str:
    """
    Return a sentence with the words ``key:=json`` for parameters that a host refused; empty if their type is right.

    :param words: of the command line; only texts that could be another JSON value are suggested.
    :param refused: body of the refusal, with the parameters in ``explanation`` or as pointers in ``faults``.
    """
    if refused.get("reason") not in _WRONG_VALUE:
        return ""
    faults = refused.get("faults")
    found = [each for each in faults if isinstance(each, dict)] if isinstance(faults, list) else []
    mistyped = [str(each.get("path", "")) for each in found if "type" in str(each.get("message", ""))]
    said = str(refused.get("explanation", ""))
    named = {*(_NAME.findall(said) if _KIND.search(said) else ()), *(each.partition("/")[2] for each in mistyped)}
    suited = (word for word in words if may_be_typed((word,)) & named and _is_json(word.partition("=")[2]))
    typed = shlex.join(word.replace("=", ":=", 1) for word in suited)
    return f"Text after = is sent as text. To send a number or another JSON value, write: {typed}" if typed else ""


def _is_json(text: str) -> bool:
    """Return whether a text is a JSON value: a time, such as 2026-12-01T05:00:00, begins like a number and is none."""
    try:
        jsontext.decode(text.encode("utf-8", "surrogateescape"))
    except jsontext.JSONTextError:
        return False
    return True


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
