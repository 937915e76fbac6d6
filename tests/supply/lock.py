"""Lock files: exact versions with hashes, and nothing that names a place."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "requirements"

_PIN = re.compile(r"([a-z0-9]+(?:-[a-z0-9]+)*)==([A-Za-z0-9.!+_]+)(?: ; ([^\\]+?))?")
_HASH = re.compile(r"sha256:([0-9a-f]{64})")


@dataclass(frozen=True, kw_only=True)
class Pin:
    """One package."""

    name: str
    version: str
    marker: str
    hashes: tuple[str, ...]
    """SHA-256 of each of its files, hex."""


def read(text: str) -> list[Pin]:
    """
    Every pin.

    :raises ValueError: a line is not an exact version with hashes: a range, a URL, a path, an option for pip.
    """
    pins = []
    for line in re.sub(r"\s*\\\n\s*", " ", text).split("\n"):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        said, *hashes = line.split(" --hash=")
        found = _PIN.fullmatch(said.strip())
        given = [_HASH.fullmatch(each) for each in hashes]
        if found is None or not given or not all(given):
            raise ValueError(f"not an exact version with hashes: {line[:80]!r}")
        name, version, marker = found.groups()
        digests = tuple(match.group(1) for match in given if match is not None)
        pins.append(Pin(name=name, version=version, marker=marker or "", hashes=digests))
    return pins


def locked(name: str) -> list[Pin]:
    """The pins of ``requirements/NAME.lock``."""
    return read((FOLDER / f"{name}.lock").read_text())
