"""
Pins: which content of a catalog file its operator approved (AGTP-API section 16.5).

The pin of ``methods.json`` is ``methods.json.pin`` next to it. With a pin, a host only starts with exactly the pinned
content, so that no download, update or tampering changes the catalog without the operator's say.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from agtphost.vocabulary.catalog import CatalogError, is_method_name
from agtphost.vocabulary.catalog_files import parse_catalog, read_document
from agtphost.vocabulary.catalog_versions import is_version

SUFFIX = ".pin"

_DIGEST = re.compile(r"[0-9a-f]{64}", re.ASCII)
_MEMBERS = frozenset({"version", "sha256", "removed"})


def is_digest(text: object) -> bool:
    """Return whether ``text`` is a SHA-256 as 64 lower-case hexadecimal digits."""
    return isinstance(text, str) and _DIGEST.fullmatch(text) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """The approved content of one catalog file."""

    version: str
    sha256: str
    """Of the file's octets, lower-case hexadecimal."""

    removed: tuple[str, ...] = ()
    """
    Methods that approved upgrades took away, in alphabetical order: the error for an endpoint that still has one says
    so.
    """

    @classmethod
    def for_catalog(cls, octets: bytes, removed: Iterable[str] = ()) -> Pin:
        """
        Make the pin for a catalog's octets.

        :raises CatalogError: if they are not a catalog.
        """
        catalog = parse_catalog(octets)
        gone = tuple(sorted(set(removed) - catalog.methods))
        return cls(version=catalog.version, sha256=sha256(octets).hexdigest(), removed=gone)

    @classmethod
    def load_for(cls, file: Path) -> Pin | None:
        """
        Read the pin of a catalog file; None where it has none.

        :raises CatalogError: for a pin that cannot be read or is malformed.
        """
        path = place(file)
        if not path.exists():
            return None
        document = read_document(path)
        faults = tuple(_faults(document))
        if faults:
            raise CatalogError(faults)
        return cls(version=document["version"], sha256=document["sha256"], removed=tuple(document.get("removed", ())))

    def holds(self, octets: bytes) -> bool:
        """Return whether octets are the approved ones."""
        return sha256(octets).hexdigest() == self.sha256

    def octets(self) -> bytes:
        """Return the pin file's content."""
        members = {"version": self.version, "sha256": self.sha256, "removed": list(self.removed)}
        return json.dumps(members, indent=1).encode() + b"\n"


def place(file: Path) -> Path:
    """Return the path of a catalog file's pin."""
    return file.with_name(file.name + SUFFIX)


def _faults(document: Mapping[str, Any]) -> Iterable[str]:
    for member in sorted(document.keys() - _MEMBERS):
        yield f"{member[:64]} is not a member of a pin"
    if not is_version(document.get("version")):
        yield "version is not a version of the form MAJOR.MINOR.PATCH"
    if not is_digest(document.get("sha256")):
        yield "sha256 is not 64 lower-case hexadecimal digits"
    removed = document.get("removed", [])
    if not isinstance(removed, list) or not all(isinstance(name, str) and is_method_name(name) for name in removed):
        yield "removed is not a list of method names"
