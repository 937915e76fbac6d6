"""
The file of a backup: a tar archive whose first entry says what it is and whose last is a signed list of all others.

What is cut off has no list, and what was changed is not what the list says.
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

FORMAT = "agtphost-backup/1"
MARK, LIST = "agtphost-backup", "manifest.jws"
TYPE = "agtphost-backup+jws"

LONGEST_LIST = 64 * 1024 * 1024
PART = 1024 * 1024


class ArchiveError(Exception):
    """A file is no whole backup; the message says why."""


class Writer:
    """
    Writes a backup.

    :param file: it must not exist; made for its owner alone, because it may hold keys.
    """

    def __init__(self, file: Path) -> None:
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        self._stream = os.fdopen(descriptor, "wb")
        self._tar = tarfile.TarFile(fileobj=self._stream, mode="w", format=tarfile.PAX_FORMAT)
        self.entries: dict[str, dict[str, Any]] = {}
        self._add_octets(MARK, f"{FORMAT}\n".encode())

    def add(self, name: str, file: Path) -> None:
        """One file, as it is now."""
        with file.open("rb") as stream:
            size = os.fstat(stream.fileno()).st_size
            read = _Digesting(stream)
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = size, os.fstat(stream.fileno()).st_mode & 0o777
            self._tar.addfile(entry, read)
        self.entries[name] = {"sha256": read.digest.hexdigest(), "size": size, "mode": entry.mode}

    def add_octets(self, name: str, octets: bytes, mode: int) -> None:
        """One file that was read already."""
        self._add_octets(name, octets, mode)
        self.entries[name] = {"sha256": hashlib.sha256(octets).hexdigest(), "size": len(octets), "mode": mode}

    def _add_octets(self, name: str, octets: bytes, mode: int = 0o600) -> None:
        entry = tarfile.TarInfo(name)
        entry.size, entry.mode = len(octets), mode
        self._tar.addfile(entry, io.BytesIO(octets))

    def finish(self, told: Mapping[str, Any], signer: Signer | None) -> None:
        """The list of everything, signed; then all of it on disk."""
        payload = jsontext.encode({"format": FORMAT, **told, "files": self.entries})
        self._add_octets(LIST, jws.compact(jws.protected_header(signer, TYPE), payload, signer).encode())
        self._tar.close()
        self._stream.flush()
        os.fsync(self._stream.fileno())
        self.close()

    def close(self) -> None:
        """Let go, finished or not."""
        self._stream.close()


class _Digesting(io.RawIOBase):
    """Reads, and knows the digest of what it read."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self.digest = hashlib.sha256()

    def read(self, size: int = -1) -> bytes:
        octets: bytes = self._stream.read(size)
        self.digest.update(octets)
        return octets


@contextmanager
def opened(file: Path) -> Iterator[Reader]:
    """
    Read a backup.

    :raises ArchiveError: it is none, or cut off, or of a later format.
    """
    with file.open("rb") as stream:
        try:
            yield Reader(tarfile.TarFile(fileobj=stream, mode="r"))
        except (tarfile.TarError, EOFError) as error:
            raise ArchiveError(f"it is no backup, or cut off: {error}") from None


class Reader:
    """One backup; its list is read at once."""

    def __init__(self, tar: tarfile.TarFile) -> None:
        self._tar = tar
        first = tar.next()
        if first is None or first.name != MARK:
            raise ArchiveError("it is no backup of agtphost")
        known = self._octets(first, 256).decode("utf-8", "replace").strip()
        if known != FORMAT:
            raise ArchiveError(f"it is of the format {known[:64]!r}, and this program reads {FORMAT}")
        self._members = {member.name: member for member in tar.getmembers()}
        listed = self._members.get(LIST)
        if listed is None:
            raise ArchiveError("it is cut off: the list at its end is missing")
        self.signed = self._octets(listed, LONGEST_LIST).decode("utf-8", "replace")
        try:
            self.told = jws.parse_unverified(self.signed)
        except jws.JWSError as error:
            raise ArchiveError(f"the list at its end cannot be read: {error}") from None
        self._compare()

    def _compare(self) -> None:
        files = self.told.get("files")
        if self.told.get("format") != FORMAT or not isinstance(files, dict):
            raise ArchiveError("the list at its end is of another format")
        there = set(self._members) - {MARK, LIST}
        if there != set(files):
            raise ArchiveError(f"it has not the files of its list: {', '.join(sorted(there ^ set(files))[:5])}")
        for name in (*files, *(self.told.get("directories") or ())):
            path = PurePosixPath(name)
            if path.is_absolute() or ".." in path.parts or (name in files and not self._members[name].isreg()):
                raise ArchiveError(f"it has an entry that no host has: {name!r}")

    def _octets(self, member: tarfile.TarInfo, most: int) -> bytes:
        if not member.isreg() or member.size > most:
            raise ArchiveError(f"its entry {member.name} is none of a backup")
        stream = self._tar.extractfile(member)
        assert stream is not None
        return stream.read()

    def extract(self, folder: Path) -> None:
        """
        Every file below a directory, with its mode.

        :raises ArchiveError: one of them is not what the list says.
        """
        for name in self.told.get("directories") or ():
            (folder / name).mkdir(mode=0o700, parents=True, exist_ok=True)
        for name, entry in self.told["files"].items():
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
                raise ArchiveError(f"{name} is not what was backed up: its SHA-256 is another one")

    def verify(self, keys: Mapping[str, VerifyingKey], *, unsigned: bool) -> None:
        """
        Who signed the list.

        :raises ArchiveError: nobody known.
        """
        try:
            jws.verify(self.signed, keys, allow_unsigned=unsigned, typ=TYPE)
        except jws.JWSError as error:
            raise ArchiveError(f"its list is not to be believed: {error}") from None
