"""
Definitions that many endpoints of one import share, written to one file.

With copies in each file, the 5,000 endpoints of twenty public documents have 61 MB of TOML, mostly repetition.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from agtphost.contract.definitions import SUFFIX, write_definitions
from agtphost.contract.openapi.importer import Imported, ImportedEndpoint

LEAST = 64 << 10
"""Octets of repeated definitions from which they are shared; files of a small document stay self-contained."""

SCHEMAS = ("input_schema", "output_schema")


def share_definitions(imported: Imported, name: str) -> tuple[Imported, str]:
    """
    Move repeated definitions out of the endpoints.

    :param name: name of the file of definitions, see :func:`file_name`.
    :return: the endpoints, which refer to that file; and its text, empty if too little repeats.
    """
    named: dict[str, Counter[str]] = {}
    for definition, body in _definitions(imported):
        text = json.dumps(body)
        named.setdefault(definition, Counter())[text] += len(text)
    # If a name has several bodies, for example because one was left open, the largest total is shared.
    chosen = {definition: texts.most_common(1)[0][0] for definition, texts in named.items()}
    spared = sum((named[definition][text] - len(text)) for definition, text in chosen.items())
    if spared < LEAST:
        return imported, ""
    endpoints = tuple(_take_out(endpoint, chosen, name) for endpoint in imported.endpoints)
    used = {definition: json.loads(text) for definition, text in chosen.items()}
    return replace(imported, endpoints=endpoints), write_definitions(used)


def file_name(imported: Imported, prefix: str) -> str:
    """
    Return the name of the file of definitions.

    :param prefix: prefix of the paths; without one, the file is named after the document.
    """
    slug = re.sub(r"[^a-z0-9]+", "-", (prefix or imported.title).lower()).strip("-")[:60]
    return f"{slug or 'shared'}{SUFFIX}"


def _definitions(imported: Imported) -> Iterator[tuple[str, Any]]:
    for endpoint in imported.endpoints:
        for member in SCHEMAS:
            yield from endpoint.table[member].get("$defs", {}).items()


def _take_out(endpoint: ImportedEndpoint, chosen: Mapping[str, str], name: str) -> ImportedEndpoint:
    changed = {}
    for member in SCHEMAS:
        schema = endpoint.table[member]
        own = {key: body for key, body in schema.get("$defs", {}).items() if json.dumps(body) != chosen[key]}
        if len(own) < len(schema.get("$defs", {})):
            changed[member] = {key: value for key, value in schema.items() if key != "$defs"}
            if own:
                changed[member]["$defs"] = own
    if not changed:
        return endpoint
    table = {key: changed.get(key, value) for key, value in endpoint.table.items()}
    # The member is placed before the tables, where readers see it.
    return replace(endpoint, table={"method": table["method"], "path": table["path"], "definitions": name, **table})
