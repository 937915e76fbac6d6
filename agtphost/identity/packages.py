"""
Packaged agents: core v08 sections 6.1 and 6.3.

A package is a ZIP file ``NAME.agent`` or ``NAME.nomo`` next to ``NAME.genesis.json``. The Genesis names its SHA-256 as
``package_ref``, so the registrar's signature over the Genesis covers every octet of the package; its ``manifest.json``
is the agent's Identity Document, without ``agent_id``, which follows from the Genesis. Nothing is read from a package
before its hash is right, and nothing but the manifest is ever read from it.
"""

from __future__ import annotations

import hashlib
import hmac
import io
import re
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agtphost.identity import documents
from agtphost.identity.documents import DocumentError
from agtphost.identity.genesis import Genesis
from agtphost.vocabulary.foreign_errors import explain

FORMATS = {".agent": "agent", ".nomo": "nomo"}
"""File suffix to ``package_format``."""

MANIFEST = "manifest.json"
MAX_OCTETS = 64 * 1024 * 1024
"""Of a package; it is hashed whole."""

FAILURE = "package-integrity-failure"
"""The error code of core v08 section 6.1."""

_REFERENCE = re.compile(r"sha256:([0-9a-f]{64})", re.ASCII)


class PackageError(ValueError):
    """A package that is not what the Genesis says, or holds no manifest; nothing of it is used."""


@dataclass(eq=False, kw_only=True)
class Package:
    """
    A package whose hash held when it was loaded.

    :meth:`verify` checks the hash again; it reads the file, so it must run off the reactor.
    """

    path: Path
    integrity_hash: str
    """SHA-256 of the file, hex, as the Genesis names it."""

    _seen: tuple[int, ...] = field(default=(), repr=False)
    """The state of the file, by the file system, when its hash was right."""

    @property
    def format(self) -> str:
        """Return the ``package_format``: ``agent`` or ``nomo``."""
        return FORMATS[self.path.suffix]

    def read(self) -> bytes:
        """
        Read the package's octets, and verify them.

        :raises PackageError: if it cannot be read, or is another than the Genesis names.
        """
        try:
            seen = self._state()
            if self.path.stat().st_size > MAX_OCTETS:
                raise PackageError(f"it has more than {MAX_OCTETS} octets")
            octets = self.path.read_bytes()
        except OSError as error:
            raise PackageError(f"it cannot be read: {explain(error)}") from error
        if not hmac.compare_digest(hashlib.sha256(octets).hexdigest(), self.integrity_hash):
            self._seen = ()
            raise PackageError("its SHA-256 is not the one that the Genesis names")
        self._seen = seen
        return octets

    def verify(self) -> None:
        """
        Make sure that the file still is the package that was loaded; unchanged ones are not hashed again.

        :raises PackageError: if it is not.
        """
        try:
            unchanged = bool(self._seen) and self._state() == self._seen
        except OSError as error:
            raise PackageError(f"it cannot be read: {explain(error)}") from error
        if not unchanged:
            self.read()

    def _state(self) -> tuple[int, ...]:
        # A process that may write the file cannot set its change time back.
        found = self.path.stat()
        return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def find(genesis_file: Path, label: str) -> Path | None:
    """Return the package next to a Genesis; None where the agent has none."""
    for suffix in FORMATS:
        path = genesis_file.with_name(label + suffix)
        if path.exists():
            return path
    return None


def open_package(path: Path, genesis: Genesis) -> tuple[Package, dict[str, Any]]:
    """
    Verify a package and take the agent's Identity Document from it.

    :return: the package, and the document as it is to be admitted.
    :raises PackageError: if anything is wrong with it.
    """
    reference = _REFERENCE.fullmatch(str(genesis.members.get("package_ref", "")))
    if reference is None:
        raise PackageError('the Genesis does not name its hash: package_ref is not "sha256:" and 64 digits')
    package = Package(path=path, integrity_hash=reference[1])
    manifest = manifest_of(package.read())
    if "agent_id" in manifest and manifest["agent_id"] != genesis.agent_id:
        raise PackageError("its manifest names another agent")
    return package, {
        **manifest,
        "agent_id": genesis.agent_id,
        "package_format": package.format,
        "package_integrity_hash": f"sha256:{package.integrity_hash}",
    }


def manifest_of(octets: bytes) -> Mapping[str, Any]:
    """
    Return the manifest in a package, without checking the package's hash.

    :raises PackageError: it has none that can be read.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(octets)) as archive:
            if archive.namelist().count(MANIFEST) != 1:
                raise PackageError(f"it has not exactly one {MANIFEST}")
            with archive.open(MANIFEST) as member:
                # Never more than a document may have, because the archive may state a wrong size.
                text = member.read(documents.MAX_OCTETS + 1)
        return documents.decode(text)
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, EOFError, OSError) as error:
        raise PackageError(f"it is not a readable ZIP file: {explain(error)}") from error
    except DocumentError as error:
        raise PackageError(f"its {MANIFEST} is not a document: {error}") from None
