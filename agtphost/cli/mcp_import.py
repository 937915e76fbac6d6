"""
Import MCP servers from a client's configuration: ``mcpServers`` of Claude and Cursor, ``servers`` of VS Code.

Values of variables and headers may be secrets, so each is written to a file that only the owner can read, and
``host.toml`` names the file. Values that a client would ask a person for are taken from the environment.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

from agtphost.cli.client.entries import is_bridge
from agtphost.cli.failures import WrongInput
from agtphost.cli.local_files import read_octets
from agtphost.cli.mcp_servers import SECRETS, ServerEntry, named_servers
from agtphost.cli.options import add_options
from agtphost.config.upstreams import header_name, web_url
from agtphost.vocabulary import jsonc
from agtphost.vocabulary.foreign_errors import explain

_PLACEHOLDER = re.compile(r"\$\{([^${}]{1,200})\}")
_VARIABLE = re.compile(r"(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(?::-(.*))?", re.ASCII)
ENVIRONMENT_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_PROJECT_FOLDERS = (".vscode", ".cursor")
_HTTP = ("http", "streamable-http", "streamableHttp")


@dataclass(frozen=True, kw_only=True)
class ImportedServers:
    """The servers of a file that a host can run."""

    servers: tuple[ServerEntry, ...]
    notes: tuple[str, ...]
    """Sentences on what was left out or changed, and why."""


@dataclass(frozen=True, kw_only=True)
class WantedServers:
    """The options of a command line about MCP servers."""

    entries: tuple[str, ...]
    imports: tuple[Path, ...]

    def read(self, cwd: Path | None) -> ImportedServers:
        """
        Return all servers that the options name.

        :param cwd: where commands of ``--mcp`` run; None: in the directory of ``host.toml``.
        :raises WrongInput: an option or file cannot be read, or two servers have the same name.
        """
        servers = list(named_servers(self.entries, cwd))
        notes: list[str] = []
        for file in self.imports:
            found = read_clients_file(file, os.environ)
            servers += found.servers
            notes += found.notes
        names = [server.name for server in servers]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise WrongInput(f"two servers are named {twice}", "Rename one of them, or import the files one at a time.")
        return ImportedServers(servers=tuple(servers), notes=tuple(notes))


_OPTIONS = (
    click.option("--mcp", "entries", multiple=True, metavar="NAME=COMMAND", help="Host this MCP server; or NAME=URL."),
    click.option(
        "--import",
        "imports",
        multiple=True,
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="Host the MCP servers of this mcp.json of Claude, VS Code or Cursor.",
    ),
)
server_options = add_options(WantedServers, "wanted", _OPTIONS)
"""Adds ``--mcp`` and ``--import``; the function gets them as ``wanted``."""


class _LeftOut(Exception):
    """A server cannot be imported; the message is the reason."""


def read_clients_file(file: Path, environ: Mapping[str, str]) -> ImportedServers:
    """
    Read a client's configuration.

    :param environ: variables for its placeholders.
    :raises WrongInput: the file is not a configuration, or has no server that a host can run.
    """
    try:
        document = jsonc.parse(read_octets(file).decode("utf-8")).value
    except (jsonc.JSONCError, UnicodeDecodeError) as error:
        raise WrongInput(f"{file} is not a configuration of an MCP client: {explain(error)}") from error
    table = _servers_of(document)
    if table is None:
        raise WrongInput(
            f"{file} has neither mcpServers nor servers", "Give the file in which a client lists its servers."
        )
    reading = _EntryReader(environ, _workspace(file), _read_inputs(document))
    servers: dict[str, ServerEntry] = {}
    notes = []
    for given, entry in table.items():
        name = _name(given, servers)
        try:
            servers[name] = reading.server(name, entry)
        except _LeftOut as why:
            notes.append(f"{given} is left out: {why}")
            continue
        notes += [f"{given} is named {name} here"] * (name != given)
    if not servers:
        raise WrongInput(f"{file} has no server that this host can run", "; ".join(notes))
    return ImportedServers(servers=tuple(servers.values()), notes=tuple(notes))


def _servers_of(document: Any) -> dict[str, Any] | None:
    if not isinstance(document, dict):
        return None
    inner = document.get("mcp")
    for holder, member in ((document, "mcpServers"), (document, "servers"), (inner, "servers")):
        if isinstance(holder, dict) and isinstance(found := holder.get(member), dict):
            return found
    return None


def _read_inputs(document: Any) -> dict[str, str]:
    """Return the inputs that VS Code would ask a person for: description by id."""
    listed = document.get("inputs")
    found = [each for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []
    return {str(each.get("id")): str(each.get("description", "")) for each in found}


def _workspace(file: Path) -> Path:
    """Return the project directory of the file, or else the working directory."""
    folder = file.absolute().parent
    if folder.name in _PROJECT_FOLDERS:
        return folder.parent
    return folder if file.name == ".mcp.json" else Path.cwd()


def _name(given: str, taken: Mapping[str, object]) -> str:
    """Return a free name that a host accepts for its server."""
    plain = re.sub(r"[^a-z0-9_-]+", "-", given.lower(), flags=re.ASCII).strip("-_")[:28] or "server"
    return next(name for name in _numbered_names(plain) if name not in taken)


def _numbered_names(plain: str) -> Iterator[str]:
    yield plain
    for number in range(2, 1000):
        yield f"{plain}-{number}"


@dataclass(frozen=True)
class _EntryReader:
    """A reader for one file."""

    environ: Mapping[str, str]
    workspace: Path
    asked: Mapping[str, str]

    def server(self, name: str, entry: Any) -> ServerEntry:
        """
        Convert one entry.

        :raises _LeftOut: the host cannot run it.
        """
        if not isinstance(entry, dict):
            raise _LeftOut("the entry is not an object")
        if entry.get("disabled") is True:
            raise _LeftOut("the entry is disabled")
        if is_bridge(entry):
            raise _LeftOut("it is the bridge to an AGTP host")
        kept = SecretValues(name)
        if "url" in entry:
            return self._remote(name, entry, kept)
        command, arguments = entry.get("command"), entry.get("args", [])
        if not isinstance(command, str) or not command or not _texts(arguments):
            raise _LeftOut("it has neither a url nor a command with its args")
        if entry.get("envFile"):
            raise _LeftOut("it uses envFile; move these variables to env")
        folder = self.workspace / Path(self.fill(str(entry.get("cwd", "")))).expanduser()
        words = [self.fill(word) for word in (command, *arguments)]
        if "/" in words[0]:
            words[0] = str(folder / Path(words[0]).expanduser())
        if shutil.which(words[0], path=self.environ.get("PATH")) is None:
            raise _LeftOut(f"its program {words[0]} was not found")
        table = entry.get("env") or {}
        if not isinstance(table, dict) or not all(ENVIRONMENT_NAME.fullmatch(key) for key in table):
            raise _LeftOut("env is not an object of variables")
        env = {key: kept.value(key, self.fill(_text(value))) for key, value in table.items()}
        filled_in = words != [command, *arguments]
        return ServerEntry(name=name, command=tuple(words), cwd=folder, env=env, secrets=kept.values, private=filled_in)

    def _remote(self, name: str, entry: Mapping[str, Any], kept: SecretValues) -> ServerEntry:
        kind = entry.get("type", "http")
        if kind not in _HTTP:
            raise _LeftOut(f"its type is {kind}, and the host speaks Streamable HTTP")
        table = entry.get("headers") or {}
        if not isinstance(table, dict):
            raise _LeftOut("headers is not an object")
        try:
            url = web_url(self.fill(_text(entry["url"])))
            headers = {header_name(key): kept.value(key, self.fill(_text(value))) for key, value in table.items()}
        except ValueError as error:
            raise _LeftOut(f"its url or a header {explain(error)}") from error
        return ServerEntry(name=name, url=url, headers=headers, secrets=kept.values)

    def fill(self, text: str) -> str:
        """
        Return a text with its placeholders replaced.

        :raises _LeftOut: a placeholder has no value; the message says what to set.
        """
        return _PLACEHOLDER.sub(lambda found: self._value(found[1]), text)

    def _value(self, what: str) -> str:
        known = {
            "workspaceFolder": str(self.workspace),
            "workspaceFolderBasename": self.workspace.name,
            "userHome": self.environ.get("HOME", str(Path.home())),
            "pathSeparator": os.sep,
            "/": os.sep,
        }
        if what in known:
            return known[what]
        if what.startswith("input:"):
            name = re.sub(r"[^A-Z0-9]+", "_", what.removeprefix("input:").upper(), flags=re.ASCII)
            described = self.asked.get(what.removeprefix("input:"), "")
            asked = f" ({described})" if described else ""
            return self._require_variable(name, f"set {name} in the environment{asked}, and run the command again")
        variable = _VARIABLE.fullmatch(what)
        if variable is None:
            raise _LeftOut(f"${{{what}}} is not a placeholder that can be replaced here")
        if variable[2] is not None:
            return self.environ.get(variable[1]) or variable[2]
        return self._require_variable(variable[1], f"set {variable[1]} in the environment, and run the command again")

    def _require_variable(self, name: str, otherwise: str) -> str:
        value = self.environ.get(name)
        if not value:
            raise _LeftOut(otherwise)
        return value


@dataclass
class SecretValues:
    """Values of one server that are stored in separate files."""

    server: str
    values: dict[str, str] = field(default_factory=dict)

    def value(self, key: str, value: str) -> str:
        """Store a value, and return its replacement in ``host.toml``."""
        if not value:
            return value
        file = f"{SECRETS}/{self.server}.{key}"
        self.values[file] = value
        return f"file:{file}"


def _texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


def _text(value: Any) -> str:
    """Return a value as text; numbers and booleans are accepted, because people write them by hand."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (str, int, float)):
        return str(value)
    raise _LeftOut("a value is neither text nor number")
