"""Read, write and remove the host's entry in an MCP client's configuration file, each time with a backup."""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from agtphost.bridge import client_config
from agtphost.cli.failures import WrongInput, local_file
from agtphost.identity import files
from agtphost.vocabulary import jsonc

BRIDGE = "mcp-bridge"
LARGEST = 16_777_216
"""Most bytes of a configuration file."""


@dataclass(frozen=True, kw_only=True)
class ClientFile:
    """A client's configuration file as it was read."""

    client: str
    path: Path
    octets: bytes | None
    """None if the file does not exist."""

    @classmethod
    def read(cls, client: str, path: Path) -> ClientFile:
        """
        Read a client's file.

        :raises WrongInput: the file cannot be read, or is too large.
        """
        with local_file(path):
            try:
                with path.open("rb") as stream:
                    octets = stream.read(LARGEST + 1)
            except FileNotFoundError:
                return cls(client=client, path=path, octets=None)
        if len(octets) > LARGEST:
            raise WrongInput(f"{path} has more than {LARGEST} bytes")
        return cls(client=client, path=path, octets=octets)

    @property
    def text(self) -> str:
        """
        Return the text of the file, or an empty text for a missing file.

        :raises WrongInput: the file is not UTF-8.
        """
        try:
            return (self.octets or b"").decode("utf-8")
        except UnicodeDecodeError as error:
            line = (self.octets or b"").count(b"\n", 0, error.start) + 1
            raise self._unreadable(f"line {line}: the file is not UTF-8") from None

    def _unreadable(self, why: object) -> WrongInput:
        return WrongInput(
            f"{self.path} cannot be changed as a configuration of {self.client}: {why}",
            "The file was not changed. Correct it, or name another with --file.",
        )

    def entries(self) -> Mapping[str, Any]:
        """
        Return all servers in the file.

        :raises WrongInput: the file does not parse.
        """
        if not self.text.strip("\ufeff \t\r\n"):
            return {}
        try:
            document = jsonc.parse(self.text).value
        except jsonc.JSONCError as error:
            raise self._unreadable(error) from None
        found = document.get(client_config.MEMBER[self.client], {}) if isinstance(document, dict) else None
        if not isinstance(found, dict):
            raise self._unreadable(f"{client_config.MEMBER[self.client]} is not an object")
        return found

    def with_entry(self, name: str, entry: Mapping[str, Any] | None) -> str:
        """
        Return the text of the file with that entry, or without it if ``entry`` is None.

        :raises WrongInput: the file does not parse.
        """
        table = client_config.MEMBER[self.client]
        try:
            if entry is None:
                return jsonc.remove(self.text, table, name)
            return jsonc.put(self.text, table, name, entry)
        except jsonc.JSONCError as error:
            raise self._unreadable(error) from None

    def asking(self, text: str, asked: Mapping[str, Any]) -> str:
        """
        Return the text with one more input that the client asks its user for.

        :raises WrongInput: the text does not parse, or its inputs are not a list.
        """
        try:
            return jsonc.include(text, "inputs", asked, "id")
        except jsonc.JSONCError as error:
            raise self._unreadable(error) from None

    def difference(self, text: str) -> str:
        """Return a change of the text as a unified difference, for people."""
        name = str(self.path)
        lines = difflib.unified_diff(self.text.splitlines(), text.splitlines(), name, name, n=2, lineterm="")
        return "\n".join(lines)

    def write(self, text: str) -> Path | None:
        """
        Write the text to the file in one step, and keep the previous contents as a backup.

        :return: the backup, or None if there was no file.
        :raises WrongInput: the file changed since it was read, or cannot be written.
        """
        # If the path is a symbolic link, replace its target and keep the link.
        target = self.path.resolve()
        with local_file(target, doing="written"):
            target.parent.mkdir(parents=True, exist_ok=True)
            if ClientFile.read(self.client, self.path).octets != self.octets:
                raise WrongInput(f"{self.path} was changed by another program", "Run the command again.")
            if self.octets is None:
                files.write_once(target, text.encode(), files.PUBLIC)
                return None
            mode = target.stat().st_mode & 0o777
            stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
            backup = target.with_name(f"{target.name}.{stamp}.bak")
            files.write_once(backup, self.octets, mode)
            files.replace(target, text.encode(), mode)
            return backup


def is_bridge(entry: Any) -> bool:
    """Return whether an entry starts the bridge of a host."""
    arguments = entry.get("args") if isinstance(entry, dict) else None
    return (
        isinstance(arguments, list)
        and BRIDGE in arguments[:1]
        and os.path.basename(str(entry.get("command"))) == "agtp"
    )


def option_of(entry: Mapping[str, Any], option: str) -> str | None:
    """Return the value of a bridge option in an entry, or None."""
    arguments = entry["args"]
    place = arguments.index(option) + 1 if option in arguments else len(arguments)
    return str(arguments[place]) if place < len(arguments) else None
