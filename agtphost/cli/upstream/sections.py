"""Upstreams as sections of ``host.toml``: make one from a command line, and find one by its name."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from agtphost.cli.failures import WrongInput
from agtphost.cli.mcp_import import ENVIRONMENT_NAME, SecretValues
from agtphost.cli.mcp_servers import ServerEntry
from agtphost.config.upstreams import header_name
from agtphost.vocabulary import tomltext
from agtphost.vocabulary.tomltext import string_text

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}", re.ASCII)

LISTS: Mapping[str, tuple[str, str]] = {"mcp": ("mcp", "server"), "a2a": ("a2a", "agent"), "acp": ("acp", "agent")}
"""The list of tables in ``host.toml`` by protocol."""


def split_name(given: str) -> tuple[str, str]:
    """Return protocol and name of ``PROTOCOL.NAME``; without a protocol, of an MCP server."""
    protocol, dot, name = given.partition(".")
    if not dot:
        return "mcp", given
    if protocol not in LISTS:
        raise WrongInput(f"{protocol!r} is not a protocol of upstreams", f"Choose one of: {', '.join(LISTS)}.")
    return protocol, name


def server_of(
    name: str, words: Sequence[str], folder: Path, *, env: Sequence[str], headers: Sequence[str], cwd: Path | None
) -> ServerEntry:
    """
    Return the MCP server of a command line.

    :param folder: of the host.toml.
    """
    if _NAME.fullmatch(name) is None:
        # Files of secrets have this name, so it is checked before anything is written.
        raise WrongInput(
            f"{name!r} is not a name of an upstream",
            "Give 1 to 32 lower-case letters, digits, '-' or '_' that begin with a letter or digit.",
        )
    secret = SecretValues(name)
    remote = len(words) == 1 and words[0].startswith(("https://", "http://"))
    if remote and (env or cwd is not None):
        raise WrongInput("--env and --cwd are for a command, and a URL was given", "Use --header.")
    if not remote and headers:
        raise WrongInput("--header is for a URL, and a command was given", "Use --env.")
    if remote:
        fields = {_header(key): secret.value(key, value) for key, value in _pairs("--header", headers)}
        return ServerEntry(name=name, url=words[0], headers=fields, secrets=secret.values)
    variables = {_variable(key): secret.value(key, value) for key, value in _pairs("--env", env)}
    here = Path.cwd() if folder != Path.cwd() else None
    program = str(here / Path(words[0]).expanduser()) if here is not None and "/" in words[0] else words[0]
    # Where the command is typed is where its relative paths are meant to begin.
    directory = here if cwd is None else cwd.absolute()
    return ServerEntry(name=name, command=(program, *words[1:]), cwd=directory, env=variables, secrets=secret.values)


def _header(key: str) -> str:
    try:
        return header_name(key)
    except ValueError as error:
        raise WrongInput(f"--header {key!r} {error}", "Give the name of a field such as Authorization.") from None


def _variable(key: str) -> str:
    if ENVIRONMENT_NAME.fullmatch(key) is None:
        raise WrongInput(f"--env {key!r} is not the name of a variable", "Give letters, digits and '_', such as TOKEN.")
    return key


def web_section(
    protocol: str, name: str, words: Sequence[str], headers: Sequence[str], env: Sequence[str], cwd: Path | None
) -> str:
    """Return the section of an A2A or ACP agent."""
    if len(words) != 1 or not words[0].startswith(("https://", "http://")):
        raise WrongInput(f"an upstream of {protocol} needs one URL", f"agtp upstream add {protocol}.{name} https://...")
    if env or headers or cwd is not None:
        raise WrongInput(
            f"--env, --header and --cwd are for MCP servers, not for {protocol}", "Edit host.toml for further keys."
        )
    header = ".".join(LISTS[protocol])
    return f"[[{header}]]\nname = {string_text(name)}\nurl = {string_text(words[0])}\n"


def _pairs(option: str, given: Sequence[str]) -> Iterator[tuple[str, str]]:
    for each in given:
        key, separator, value = each.partition("=")
        if not separator or not key:
            raise WrongInput(f"{option} {key!r} has no value", f"Give it as {option} {key or 'KEY'}=VALUE.")
        yield key, value


def names_in(text: str, protocol: str) -> list[str]:
    """Return the names of the upstreams of a protocol, in the order of the file."""
    found: Any = tomltext.read(text).tree
    for key in LISTS[protocol]:
        found = found.get(key) if isinstance(found, dict) else None
    return (
        [str(each.get("name")) if isinstance(each, dict) else "" for each in found] if isinstance(found, list) else []
    )


def secret_files(text: str, protocol: str, index: int) -> Iterator[str]:
    """Yield the files that variables and header fields of an upstream are read from."""
    entry: Any = tomltext.read(text).tree
    for key in (*LISTS[protocol], index):
        entry = entry[key]
    for table in (entry.get("env"), entry.get("headers")):
        for value in table.values() if isinstance(table, dict) else ():
            if isinstance(value, str) and value.startswith("file:"):
                yield value.removeprefix("file:")


def index_of(text: str, protocol: str, name: str) -> int | None:
    """Return the place of an upstream in its list, or None if the text has none of that name."""
    names = names_in(text, protocol)
    return names.index(name) if name in names else None
