"""MCP servers that a command line or a client's configuration names, and how ``host.toml`` says them."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from agtphost.cli.failures import WrongInput
from agtphost.identity import files
from agtphost.vocabulary.tomltext import string_text

SECRETS = "secrets"
"""Beside ``host.toml``: values that are not for everybody, a file each."""


@dataclass(frozen=True, kw_only=True)
class Server:
    """An MCP server to host: a command or a URL."""

    name: str
    command: tuple[str, ...] = ()
    url: str = ""
    cwd: Path | None = None
    """Where the command runs; None: beside ``host.toml``."""

    env: Mapping[str, str] = field(default_factory=dict)
    """As ``host.toml`` has them: the values of secrets are in files of their own, or in the environment."""

    headers: Mapping[str, str] = field(default_factory=dict)
    """The same for what is sent to the URL."""

    secrets: Mapping[str, str] = field(default_factory=dict)
    """What the files have that it names, by their paths beside ``host.toml``."""

    private: bool = False
    """Whether its command has values that are not for everybody."""

    def keep_secrets(self, directory: Path) -> None:
        """
        Write those files, for the owner alone.

        :raises OSError: one cannot be written.
        """
        if self.secrets:
            files.make_directory(directory / SECRETS)
        for name, value in self.secrets.items():
            files.replace(directory / name, f"{value}\n".encode(), files.PRIVATE)

    def toml(self) -> str:
        """Its ``[[mcp.server]]``."""
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


def named_servers(entries: Iterable[str], cwd: Path | None = None) -> tuple[Server, ...]:
    """
    What ``--mcp NAME=COMMAND`` and ``--mcp NAME=URL`` say; the command is split into words as a shell does it.

    :param cwd: where commands run, and what a program with a slash in its name is relative to.
    :raises WrongInput: one cannot be read.
    """
    found: dict[str, Server] = {}
    for entry in entries:
        name, separator, target = entry.partition("=")
        if not separator or not name or not target.strip():
            raise WrongInput(f"--mcp {entry!r} is not NAME=COMMAND", "Such as --mcp files='npx -y SERVER /data'.")
        if name in found:
            raise WrongInput(f"--mcp names {name!r} twice")
        if target.startswith(("https://", "http://")):
            found[name] = Server(name=name, url=target)
            continue
        try:
            command = tuple(shlex.split(target))
        except ValueError as error:
            raise WrongInput(f"the command of --mcp {name} cannot be read: {error}") from None
        found[name] = Server(name=name, command=_at(command, cwd), cwd=cwd)
    return tuple(found.values())


def _at(command: tuple[str, ...], cwd: Path | None) -> tuple[str, ...]:
    if cwd is None or not command or "/" not in command[0]:
        return command
    return (str(cwd / Path(command[0]).expanduser()), *command[1:])
