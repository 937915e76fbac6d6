"""Files with method catalogs, and with what belongs to a catalog."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agtphost.vocabulary import jsontext, regular_files
from agtphost.vocabulary.catalog import Catalog, CatalogError
from agtphost.vocabulary.foreign_errors import explain

MAX_OCTETS = 4 << 20
"""Of a catalog file: fifty times the size of ours."""


def load_catalog(path: Path | None) -> Catalog:
    """
    Read a catalog.

    :param path: None reads the one that ships with the host.
    :raises CatalogError: for a file that cannot be read, is not JSON, or is not a catalog.
    """
    return Catalog.load() if path is None else parse_catalog(read_octets(path))


def parse_catalog(octets: bytes) -> Catalog:
    """
    Read a catalog from its JSON text.

    :raises CatalogError: for text that is not JSON, or not a catalog.
    """
    return Catalog(_decode_document(octets))


def read_octets(path: Path) -> bytes:
    """
    Return the content of a catalog file, or of one that belongs to a catalog.

    :raises CatalogError: if it cannot be read, or is too large.
    """
    try:
        octets = regular_files.read_octets(path, MAX_OCTETS + 1)
    except OSError as error:
        raise CatalogError((f"it cannot be read: {explain(error)}",)) from error
    if len(octets) > MAX_OCTETS:
        raise CatalogError((f"it is larger than {MAX_OCTETS} octets",))
    return octets


def read_document(path: Path) -> Mapping[str, Any]:
    """
    Return the JSON object in a file.

    :raises CatalogError: if there is none.
    """
    return _decode_document(read_octets(path))


def _decode_document(octets: bytes) -> Mapping[str, Any]:
    try:
        document = jsontext.decode(octets)
    except jsontext.JSONTextError as error:
        raise CatalogError((f"it is not JSON: {error}",)) from None
    if not isinstance(document, dict):
        raise CatalogError(("it is not a JSON object",))
    return document
