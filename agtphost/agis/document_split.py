"""Splitting of documents with too many endpoints into several that each conform."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from agtphost.agis.document_reader import MAX_OCTETS

Render = Callable[[Mapping[str, Any]], str]


class TooLarge(ValueError):
    """A single endpoint exceeds the limit of a document; the message names it."""


def split_document(document: Mapping[str, Any], render: Render, most: int = MAX_OCTETS) -> list[bytes]:
    """
    Return the texts of a document, or of several with its endpoints in order.

    Each has the members of the whole document, and the declared verbs of its own endpoints.

    :param document: a document in its canonical form.
    :param render: returns the text of a document.
    :param most: most octets of each text.
    :raises TooLarge: one endpoint alone has more.
    """
    endpoints = document["endpoints"]
    entries = list(endpoints.items() if isinstance(endpoints, Mapping) else endpoints)
    # YAML takes fewer octets than indented JSON, so most endpoints are rendered only once.
    octets = len(json.dumps(document, indent=2, ensure_ascii=False).encode("utf-8"))
    each = max(1, len(entries) * most // octets if octets > 2 * most else len(entries))
    found: list[bytes] = []
    for start in range(0, max(1, len(entries)), each):
        found.extend(_fitting(document, entries[start : start + each], render, most))
    return found


def _fitting(document: Mapping[str, Any], entries: Sequence[Any], render: Render, most: int) -> Iterator[bytes]:
    text = render(_part(document, entries)).encode("utf-8")
    if len(text) <= most:
        yield text
    elif len(entries) == 1:
        raise TooLarge(f"{_name_of_entry(entries[0])} has {len(text)} octets; the limit of a document is {most}")
    else:
        half = len(entries) // 2
        yield from _fitting(document, entries[:half], render, most)
        yield from _fitting(document, entries[half:], render, most)


def _part(document: Mapping[str, Any], entries: Sequence[Any]) -> Mapping[str, Any]:
    whole = document["endpoints"]
    if len(entries) == len(whole):
        return document
    listed = dict(entries) if isinstance(whole, Mapping) else list(entries)
    methods = {_name_of_entry(entry).partition(" ")[0] for entry in entries}
    block = dict(document["vocabulary"])
    if isinstance(block.get("declared_verbs"), list):
        block["declared_verbs"] = [verb for verb in block["declared_verbs"] if verb in methods]
    return {**document, "vocabulary": block, "endpoints": listed}


def _name_of_entry(entry: Any) -> str:
    """Return the name of an entry of a document: its key, or its method and path."""
    return str(entry[0]) if isinstance(entry, tuple) else f"{entry['method']} {entry['path']}"
