"""
Profiles: methods of one industry, valid where a deployment declares them (core v08 section 7.4.3).

A profile is a small JSON document::

    {
      "name": "agtp-profile-healthcare",
      "version": "1.0.0",
      "methods": {
        "PRESCRIBE": {"description": "Order a medicine for a patient.", "categories": ["transaction"]}
      }
    }
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from agtphost.vocabulary.catalog import CATEGORIES, LEGACY, CatalogEntry, CatalogError, is_method_name
from agtphost.vocabulary.catalog_files import read_document
from agtphost.vocabulary.catalog_versions import is_version

MAX_METHODS = 1_000
"""More are a catalog."""

_NAME = re.compile(r"agtp-profile-[a-z0-9]+(?:-[a-z0-9]+)*", re.ASCII)
_MEMBERS = ("name", "version", "methods", "description")
_METHOD_MEMBERS = ("description", "categories")


def is_profile_name(text: str) -> bool:
    """``agtp-profile-`` and lower-case words joined by hyphens; at most 64 characters."""
    return len(text) <= 64 and _NAME.fullmatch(text) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """A named set of methods."""

    name: str
    version: str
    methods: Mapping[str, CatalogEntry]

    @classmethod
    def load(cls, path: Path) -> Profile:
        """
        Read a profile.

        :raises CatalogError: for a file that cannot be read, is not JSON, or is not a profile.
        """
        return cls.parse(read_document(path))

    @classmethod
    def parse(cls, document: Mapping[str, Any]) -> Profile:
        """
        Check a profile.

        :raises CatalogError: listing everything wrong with it.
        """
        faults = tuple(_faults(document))
        if faults:
            raise CatalogError(faults)
        entries = {
            name: CatalogEntry(name=name, categories=tuple(entry["categories"]), description=entry["description"])
            for name, entry in document["methods"].items()
        }
        return cls(name=document["name"], version=document["version"], methods=MappingProxyType(entries))


def _faults(document: Mapping[str, Any]) -> Iterator[str]:
    for member in sorted(document.keys() - set(_MEMBERS)):
        yield f"{member[:64]} is not a member of a profile"
    name = document.get("name")
    if not isinstance(name, str) or not is_profile_name(name):
        yield "name is not of the form agtp-profile-NAME"
    if not is_version(document.get("version")):
        yield "version is not a version of the form MAJOR.MINOR.PATCH"
    if not isinstance(document.get("description", ""), str):
        yield "description is not text"
    methods = document.get("methods")
    if not isinstance(methods, dict) or not methods:
        yield "methods is missing, empty, or not an object"
        return
    if len(methods) > MAX_METHODS:
        yield f"methods has more than {MAX_METHODS} entries"
        return
    for method, entry in methods.items():
        yield from _method_faults(f"methods.{method[:64]}", method, entry)


def _method_faults(where: str, method: str, entry: object) -> Iterator[str]:
    if not is_method_name(method):
        yield f"{where} is not a method name (3 to 32 letters A-Z)"
    elif method in LEGACY:
        yield f"{where} is an HTTP verb"
    if not isinstance(entry, dict):
        yield f"{where} is not an object"
        return
    for member in sorted(entry.keys() - set(_METHOD_MEMBERS)):
        yield f"{where}.{member[:64]} is unknown"
    description = entry.get("description")
    if not isinstance(description, str) or not description.strip():
        yield f"{where}.description is missing or empty"
    categories = entry.get("categories")
    if not isinstance(categories, list) or not categories or not {*map(str, categories)} <= {*CATEGORIES}:
        yield f"{where}.categories is not a list of one or more of the nine categories"
