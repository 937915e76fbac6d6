"""MCP servers given on a command line or in a client's configuration, and their sections of ``host.toml``."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from agtphost.cli.failures import WrongInput
from agtphost.identity import files
from agtphost.vocabulary.foreign_errors import explain
from agtphost.vocabulary.tomltext import string_text

SECRETS = "secrets"
"""Directory next to ``host.toml`` for secret values, with one file each."""


@dataclass(frozen=True, kw_only=True)
class ServerEntry:
    """An MCP server to host: a command or a URL."""

    name: str
    command: tuple[str, ...] = ()
    url: str = ""
    cwd: Path | None = None
    """Where the command runs; None: in the directory of ``host.toml``."""

    env: Mapping[str, str] = field(default_factory=dict)
    """Variables as in ``host.toml``: secret values are in files or in the environment."""

    headers: Mapping[str, str] = field(default_factory=dict)
    """Headers to send to the URL, as in ``host.toml``."""

    secrets: Mapping[str, str] = field(default_factory=dict)
    """Contents of the files of secrets, by their paths relative to ``host.toml``."""

    private: bool = False
    """Whether the command line has secret values."""

    def keep_secrets(self, directory: Path) -> None:
        """
        Write the files of secrets, readable only for the owner.

        :raises OSError: a file cannot be written.
        """
        if self.secrets:
            files.make_directory(directory / SECRETS)
        for name, value in self.secrets.items():
            files.replace(directory / name, f"{value}\n".encode(), files.PRIVATE)

    def toml(self) -> str:
        """Return the section ``[[mcp.server]]``."""
        lines = ["[[mcp.server]]", f"name = {string_text(self.name)}"]
        if self.url:
            lines.append(f"url = {string_text(self.url)}")
        else:
            lines.append(f"command = [{', '.join(string_text(word) for word in self.command)}]")
        if self.cwd is not None:
            lines.append(f"cwd = {string_text(str(self.cwd))}")
        for table, values in (("env", self.env), ("headers", self.headers)):
            if values:
                listed = ", ".join(f"{string_text(key)} = {string_text(value)}" for key, value in values.items())
                lines.append(f"{table} = {{ {listed} }}")
        return "\n".join(lines) + "\n"


def named_servers(entries: Iterable[str], cwd: Path | None = None) -> tuple[ServerEntry, ...]:
    """
    Parse ``--mcp NAME=COMMAND`` and ``--mcp NAME=URL``; a command is split into words as a shell does.

    :param cwd: where commands run, and the base of relative program paths.
    :raises WrongInput: an option cannot be parsed.
    """
    found: dict[str, ServerEntry] = {}
    for entry in entries:
        name, separator, target = entry.partition("=")
        if not separator or not name or not target.strip():
            raise WrongInput(f"--mcp {entry!r} is not NAME=COMMAND", "Give one such as files='npx -y SERVER /data'.")
        if name in found:
            raise WrongInput(f"--mcp names {name!r} twice")
        if target.startswith(("https://", "http://")):
            found[name] = ServerEntry(name=name, url=target)
            continue
        try:
            command = tuple(shlex.split(target))
        except ValueError as error:
            raise WrongInput(f"the command of --mcp {name} cannot be read: {explain(error)}") from error
        found[name] = ServerEntry(name=name, command=_resolve_command(command, cwd), cwd=cwd)
    return tuple(found.values())


def _resolve_command(command: tuple[str, ...], cwd: Path | None) -> tuple[str, ...]:
    if cwd is None or not command or "/" not in command[0]:
        return command
    return (str(cwd / Path(command[0]).expanduser()), *command[1:])
