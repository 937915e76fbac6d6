"""
The build of ``agtp-conformance``: the runner of ``agtphost`` and the modules that it imports, under its own name.

An sdist has them already. Otherwise they are taken from the tree that this directory is in.
"""

from __future__ import annotations

import ast
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SOURCE, TARGET = "agtphost", "agtp_conformance"


def modules(tree: Path, command: Path) -> dict[str, Path]:
    """
    Return the modules of the distribution by name: what a command imports, directly or not, and the packages around it.

    :param tree: the directory with the package ``agtphost``.
    """
    found: dict[str, Path] = {}
    waiting = [*_find_imports(tree, command)]
    while waiting:
        name = waiting.pop()
        if name not in found and name != SOURCE:
            found[name] = path = _path(tree, name)
            waiting += _find_imports(tree, path)
    return found


def _find_imports(tree: Path, path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == SOURCE:
            for name in (str(node.module), *(f"{node.module}.{each.name}" for each in node.names)):
                parts = name.split(".")
                if _path(tree, name).is_file():
                    yield from (".".join(parts[:end]) for end in range(1, len(parts) + 1))


def _path(tree: Path, name: str) -> Path:
    place = tree.joinpath(*name.split("."))
    return place / "__init__.py" if place.is_dir() else place.with_suffix(".py")


def files(tree: Path, command: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the files of the distribution, each with its path."""
    yield f"{TARGET}/__init__.py", _rename(command)
    for path in modules(tree, command).values():
        place = f"{TARGET}/{path.relative_to(tree / SOURCE)}"
        # The text of a package of the host names modules that are not here.
        yield (
            place,
            b"" if path.parent.name in ("contract", "vocabulary") and path.stem == "__init__" else _rename(path),
        )
        for name in re.findall(r'"(\w+\.(?:json|toml))"', path.read_text()):
            yield f"{TARGET}/{path.relative_to(tree / SOURCE).parent}/{name}", path.with_name(name).read_bytes()


def _rename(path: Path) -> bytes:
    return re.sub(rf"\b{SOURCE}\b", TARGET, path.read_text()).encode()


class Modules(BuildHookInterface):
    """Adds the modules to a wheel or an sdist that is built in the tree."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write the modules, and name them to the builder."""
        self._room = Path(tempfile.mkdtemp())
        root = Path(self.root)
        if (root / TARGET).is_dir():
            return
        for place, octets in files(root.parents[1], root / f"{TARGET}.py"):
            path = self._room / place
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(octets)
            build_data["force_include"][str(path)] = place

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove the written modules."""
        shutil.rmtree(self._room)
