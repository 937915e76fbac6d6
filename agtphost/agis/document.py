"""One document: its service, its endpoints and its vocabulary, whichever of the two shapes it was written in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from agtphost.agis.reading import Place, Tree
from agtphost.agis.words import words

MAX_ENDPOINTS = 5_000
"""Of one document."""

VERSION = "1.0"
"""Of the specification."""


def capitals(method: str) -> str:
    """A method in capitals; one whose inner capitals part words stays, so that they can be seen."""
    return method if words().run_together(method) else method.upper()


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """One method on one path."""

    method: str
    path: str
    members: Mapping[str, Any]
    """As they stand in the document."""

    at: Place = ()
    """Where it stands."""

    keyed: bool = False
    """Whether ``METHOD /path`` is the name that it stands under."""

    @property
    def name(self) -> str:
        """``BOOK /reservation``: how people and findings call it."""
        return f"{self.method} {self.path}"

    @property
    def semantic(self) -> Mapping[str, Any]:
        """Its semantic block; empty where there is none."""
        block = self.members.get("semantic")
        return block if isinstance(block, (dict, Mapping)) else {}

    @property
    def verb(self) -> str:
        """The method as it is compared: upper-case (AGIS v01 section 4.1 (e))."""
        return self.method.upper()

    def place(self, *names: str | int) -> Place:
        """Of something in it; the method and the path of one that is keyed are its name."""
        return self.at if self.keyed and names[:1] in (("method",), ("path",)) else (*self.at, *names)


@dataclass(frozen=True, kw_only=True)
class Document:
    """A document whose structure is sound: pass 1 has seen it."""

    tree: Tree
    endpoints: tuple[Endpoint, ...] = field(default=())

    @property
    def members(self) -> Mapping[str, Any]:
        """Those of the top level."""
        members: Mapping[str, Any] = self.tree.root
        return members

    @property
    def vocabulary(self) -> Mapping[str, Any]:
        """The vocabulary block; empty where there is none."""
        block = self.members.get("vocabulary")
        return block if isinstance(block, Mapping) else {}

    @property
    def data_classes(self) -> list[Mapping[str, Any]]:
        """What the data manifest declares."""
        manifest = self.members.get("data_manifest")
        listed = manifest.get("available_data", []) if isinstance(manifest, Mapping) else []
        return [each for each in listed if isinstance(each, Mapping)] if isinstance(listed, list) else []


def endpoints(root: Mapping[str, Any]) -> Iterator[Endpoint]:
    """
    The endpoints of a document of either shape.

    A list of ``{method, path, ...}``, or a mapping from ``METHOD /path``.
    """
    given = root.get("endpoints")
    if isinstance(given, Mapping):
        for name, members in given.items():
            method, _, path = name.partition(" ")
            yield Endpoint(method=method, path=path.strip(), members=members, at=("endpoints", name), keyed=True)
    elif isinstance(given, list):
        for index, members in enumerate(given):
            yield Endpoint(method=members["method"], path=members["path"], members=members, at=("endpoints", index))
