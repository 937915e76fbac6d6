"""
The file format of a backup.

A backup is a tar archive. Its first entry names the format, and its last is a signed list of all others, so that a
truncated or changed file is detected.
"""

from __future__ import annotations

import hashlib
import io
import os
import tarfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any

from agtphost.identity import jws
from agtphost.identity.keys import Signer, VerifyingKey
from agtphost.vocabulary import jsontext
from agtphost.vocabulary.foreign_errors import explain
from agtphost.vocabulary.regular_files import PacedWriter

FORMAT = "agtphost-backup/1"
MARK, LIST = "agtphost-backup", "manifest.jws"
TYPE = "agtphost-backup+jws"

LONGEST_LIST = 64 * 1024 * 1024
PART = 1024 * 1024


class ArchiveError(Exception):
    """A file is not a complete backup; the message says why."""


class BackupWriter:
    """
    A writer of one backup.

    :param file: path of a new file; only its owner can read it, because it may hold keys.
    """

    def __init__(self, file: Path) -> None:
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        self._stream = PacedWriter(descriptor)
        self._tar = tarfile.TarFile(fileobj=self._stream, mode="w", format=tarfile.PAX_FORMAT)
        self.entries: dict[str, dict[str, Any]] = {}
        self._add_octets(MARK, f"{FORMAT}\n".encode())

    def add(self, name: str, file: Path) -> None:
        """Add one file with its present contents."""
        with file.open("rb") as stream:
            size = os.fstat(stream.fileno()).st_size
            read = _Digesting(stream)
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = size, os.fstat(stream.fileno()).st_mode & 0o777
            self._tar.addfile(entry, read)
        self.entries[name] = {"sha256": read.digest.hexdigest(), "size": size, "mode": entry.mode}

    def add_octets(self, name: str, octets: bytes, mode: int) -> None:
        """Add one file whose contents were read already."""
        self._add_octets(name, octets, mode)
        self.entries[name] = {"sha256": hashlib.sha256(octets).hexdigest(), "size": len(octets), "mode": mode}

    def _add_octets(self, name: str, octets: bytes, mode: int = 0o600) -> None:
        entry = tarfile.TarInfo(name)
        entry.size, entry.mode = len(octets), mode
        self._tar.addfile(entry, io.BytesIO(octets))

    def finish(self, manifest: Mapping[str, Any], signer: Signer | None) -> None:
        """Write the signed list of all entries, and flush the file to disk."""
        payload = jsontext.encode({"format": FORMAT, **manifest, "files": self.entries})
        self._add_octets(LIST, jws.compact(jws.protected_header(signer, TYPE), payload, signer).encode())
        self._tar.close()
        self._stream.flush_to_disk()
        self.close()

    def close(self) -> None:
        """Close the file, finished or not."""
        self._stream.close()


class _Digesting(io.RawIOBase):
    """A stream that computes the digest of what was read from it."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self.digest = hashlib.sha256()

    def read(self, size: int = -1) -> bytes:
        octets: bytes = self._stream.read(size)
        self.digest.update(octets)
        return octets


@contextmanager
def open_backup(file: Path) -> Iterator[BackupReader]:
    """
    Open a backup for reading.

    :raises ArchiveError: the file is not a backup, is truncated, or has a later format.
    """
    with file.open("rb") as stream:
        try:
            yield BackupReader(tarfile.TarFile(fileobj=stream, mode="r"))
        except (tarfile.TarError, EOFError) as error:
            raise ArchiveError(f"the file is not a backup, or is truncated: {explain(error)}") from error


class BackupReader:
    """A backup that is read; its list is read and checked immediately."""

    def __init__(self, tar: tarfile.TarFile) -> None:
        self._tar = tar
        first = tar.next()
        if first is None or first.name != MARK:
            raise ArchiveError("the file is not a backup of agtphost")
        known = self._octets(first, 256).decode("utf-8", "replace").strip()
        if known != FORMAT:
            raise ArchiveError(f"the file has the format {known[:64]!r}, and this program reads {FORMAT}")
        self._members = {member.name: member for member in tar.getmembers()}
        listed = self._members.get(LIST)
        if listed is None:
            raise ArchiveError("the file is truncated: the list at its end is missing")
        self.signed = self._octets(listed, LONGEST_LIST).decode("utf-8", "replace")
        try:
            self.manifest = jws.parse_unverified(self.signed)
        except jws.JWSError as error:
            raise ArchiveError(f"the list at its end cannot be read: {error}") from None
        self._compare()

    def _compare(self) -> None:
        files = self.manifest.get("files")
        if self.manifest.get("format") != FORMAT or not isinstance(files, dict):
            raise ArchiveError("the list at its end has another format")
        there = set(self._members) - {MARK, LIST}
        if there != set(files):
            raise ArchiveError(f"its files differ from its list: {', '.join(sorted(there ^ set(files))[:5])}")
        for name in (*files, *(self.manifest.get("directories") or ())):
            path = PurePosixPath(name)
            if path.is_absolute() or ".." in path.parts or (name in files and not self._members[name].isreg()):
                raise ArchiveError(f"it has an entry that a backup may not have: {name!r}")

    def _octets(self, member: tarfile.TarInfo, most: int) -> bytes:
        if not member.isreg() or member.size > most:
            raise ArchiveError(f"its entry {member.name} does not belong to a backup")
        stream = self._tar.extractfile(member)
        assert stream is not None
        return stream.read()

    def extract(self, folder: Path) -> None:
        """
        Write every file below a directory, with its mode.

        :raises ArchiveError: a file does not match the list.
        """
        for name in self.manifest.get("directories") or ():
            (folder / name).mkdir(mode=0o700, parents=True, exist_ok=True)
        for name, entry in self.manifest["files"].items():
            target = folder / name
            target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            stream = self._tar.extractfile(self._members[name])
            assert stream is not None
            digest = hashlib.sha256()
            mode = int(entry["mode"]) & 0o777
            with os.fdopen(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as written:
                while part := stream.read(PART):
                    digest.update(part)
                    written.write(part)
                written.flush()
                os.fsync(written.fileno())
                os.fchmod(written.fileno(), mode)
            if digest.hexdigest() != entry["sha256"]:
                raise ArchiveError(f"{name} does not match its SHA-256 in the list")

    def verify(self, keys: Mapping[str, VerifyingKey], *, unsigned: bool) -> None:
        """
        Verify the signature of the list.

        :raises ArchiveError: none of the keys signed it.
        """
        try:
            jws.verify(self.signed, keys, allow_unsigned=unsigned, typ=TYPE)
        except jws.JWSError as error:
            raise ArchiveError(f"the signature of its list does not verify: {error}") from None
