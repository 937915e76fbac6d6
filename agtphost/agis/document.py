"""An AGIS document: its service, endpoints and vocabulary, in either of the two shapes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from agtphost.agis.document_reader import Place, Tree
from agtphost.agis.words import words

MAX_ENDPOINTS = 5_000
"""Most endpoints of one document."""

VERSION = "1.0"
"""Version of the specification."""


def capitals(method: str) -> str:
    """Return a method in capitals; a method in camel case stays unchanged, so that the fault is visible."""
    return method if words().run_together(method) else method.upper()


@dataclass(frozen=True, kw_only=True)
class AgisEndpoint:
    """A method on a path."""

    method: str
    path: str
    members: Mapping[str, Any]
    """Members as in the document."""

    at: Place = ()
    """Path of the endpoint in the document."""

    keyed: bool = False
    """Whether its key in the document is ``METHOD /path``."""

    @property
    def name(self) -> str:
        """Return the name that people and findings use: ``BOOK /reservation``."""
        return f"{self.method} {self.path}"

    @property
    def semantic(self) -> Mapping[str, Any]:
        """Return its semantic block; empty if it has none."""
        block = self.members.get("semantic")
        return block if isinstance(block, (dict, Mapping)) else {}

    @property
    def verb(self) -> str:
        """Return the method for comparisons, in upper case (AGIS v01 section 4.1 (e))."""
        return self.method.upper()

    def place(self, *names: str | int) -> Place:
        """Return the path of a member; method and path of a keyed endpoint are its key."""
        return self.at if self.keyed and names[:1] in (("method",), ("path",)) else (*self.at, *names)


@dataclass(frozen=True, kw_only=True)
class AgisDocument:
    """A document whose structure passed the first pass."""

    tree: Tree
    endpoints: tuple[AgisEndpoint, ...] = field(default=())

    @property
    def members(self) -> Mapping[str, Any]:
        """Return the members of the top level."""
        members: Mapping[str, Any] = self.tree.root
        return members

    @property
    def vocabulary(self) -> Mapping[str, Any]:
        """Return the vocabulary block; empty if there is none."""
        block = self.members.get("vocabulary")
        return block if isinstance(block, Mapping) else {}

    @property
    def data_classes(self) -> list[Mapping[str, Any]]:
        """Return the classes that the data manifest declares."""
        manifest = self.members.get("data_manifest")
        listed = manifest.get("available_data", []) if isinstance(manifest, Mapping) else []
        return [each for each in listed if isinstance(each, Mapping)] if isinstance(listed, list) else []


def endpoints(root: Mapping[str, Any]) -> Iterator[AgisEndpoint]:
    """
    Yield the endpoints of a document of either shape: a list of ``{method, path, ...}``, or a mapping by ``METHOD
    /path``.
    """
    given = root.get("endpoints")
    if isinstance(given, Mapping):
        for name, members in given.items():
            method, _, path = name.partition(" ")
            yield AgisEndpoint(method=method, path=path.strip(), members=members, at=("endpoints", name), keyed=True)
    elif isinstance(given, list):
        for index, members in enumerate(given):
            yield AgisEndpoint(method=members["method"], path=members["path"], members=members, at=("endpoints", index))
