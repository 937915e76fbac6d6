"""
Definitions that the schemas of many endpoints share: a JSON file that the endpoints' member ``definitions`` names.

The file is a JSON Schema that contains only definitions, ``{"$defs": {...}}``. A schema of an endpoint refers to them
by ``#/$defs/NAME``, like its own. Its own definition of a name takes precedence; the others are copied from the file,
with everything that they refer to. So every reader of the endpoint gets one complete schema.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from agtphost.contract.openapi.document_text import DocumentTextError, read_json
from agtphost.vocabulary.foreign_errors import split
from agtphost.vocabulary.regular_files import read_octets

SUFFIX = ".definitions.json"
"""The suffix of such files' names."""

MAX_OCTETS = 64 << 20
"""Largest size of a file; the definitions of Kubernetes have one MiB."""

PLACE = "#/$defs/"

HINT = "keep it in the folder of the endpoint's file, where `agtp openapi import` wrote both"


class DefinitionsError(ValueError):
    """
    A file of definitions cannot be used; the message says why, without the file's name.

    :param hint: how to correct it.
    """

    def __init__(self, message: str, hint: str = HINT) -> None:
        super().__init__(message)
        self.hint = hint


class DefinitionFile:
    """
    The definitions of one file.

    :param file: path of the file.
    :param bodies: definitions by name.
    """

    def __init__(self, file: Path, bodies: Mapping[str, Any]) -> None:
        self.file = file
        self._bodies = bodies
        self._referred: dict[str, tuple[str, ...]] = {}

    @classmethod
    def read(cls, file: Path) -> DefinitionFile:
        """
        Read a file.

        :raises DefinitionsError: the file does not hold definitions.
        """
        try:
            octets = read_octets(file, MAX_OCTETS + 1)
        except OSError as error:
            raise DefinitionsError(f"cannot be read: {split(error)[0]}") from error
        if len(octets) > MAX_OCTETS:
            raise DefinitionsError(f"has more than {MAX_OCTETS} octets")
        try:
            document = read_json(octets)
        except DocumentTextError as error:
            raise DefinitionsError(f"is not JSON: {error}", "correct it, or import the document again") from None
        bodies = document.get("$defs") if isinstance(document, dict) else None
        if not isinstance(bodies, dict):
            raise DefinitionsError("has no $defs", 'write {"$defs": {"NAME": {...}}}')
        return cls(file, bodies)

    def complete(self, schema: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the schema with the definitions that it refers to and does not have."""
        own = schema.get("$defs", {})
        if not isinstance(own, Mapping):
            return schema
        found: dict[str, Any] = dict(own)
        waiting = list(referred_names(schema))
        while waiting:
            name = waiting.pop()
            if name in found or name not in self._bodies:
                continue
            found[name] = self._bodies[name]
            if name not in self._referred:
                self._referred[name] = tuple(dict.fromkeys(referred_names(self._bodies[name])))
            waiting.extend(self._referred[name])
        return schema if len(found) == len(own) else {**schema, "$defs": {name: found[name] for name in sorted(found)}}

    def has_given(self, schema: Mapping[str, Any], names: Sequence[str]) -> bool:
        """
        Return whether a schema got a definition from this file.

        :param names: the definition's name, or nothing.
        """
        own = schema.get("$defs", {})
        return any(name in self._bodies and not (isinstance(own, Mapping) and name in own) for name in names)

    def line(self, name: str) -> int:
        """Return the line of a definition, counted from 1; 0 if it is not found."""
        try:
            text = read_octets(self.file).decode("utf-8")
        except (OSError, UnicodeError):
            return 0
        at = text.find(f"{json.dumps(name, ensure_ascii=False)}:")
        return 0 if at < 0 else text.count("\n", 0, at) + 1


def referred_names(schema: Any) -> Iterator[str]:
    """Yield the names of the definitions that a schema refers to; names may repeat."""
    waiting = [schema]
    while waiting:
        item = waiting.pop()
        if isinstance(item, Mapping):
            reference = item.get("$ref")
            if isinstance(reference, str) and reference.startswith(PLACE):
                token = unquote(reference[len(PLACE) :]).partition("/")[0]
                yield token.replace("~1", "/").replace("~0", "~")
            waiting.extend(item.values())
        elif isinstance(item, list):
            waiting.extend(item)


def write_definitions(bodies: Mapping[str, Any]) -> str:
    """Return the text of a file, with one definition a line."""
    lines = (
        f"{json.dumps(name, ensure_ascii=False)}: {json.dumps(body, ensure_ascii=False, separators=(',', ':'))}"
        for name, body in sorted(bodies.items())
    )
    return '{"$defs": {\n' + ",\n".join(lines) + "\n}}\n"
