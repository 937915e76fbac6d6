"""Offer and write the line of ``host.toml`` that opens an MCP server to clients with a token."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from agtphost.cli.failures import WrongInput, local_file
from agtphost.cli.output import visible
from agtphost.identity import files
from agtphost.identity.peer import Assurance
from agtphost.identity.required_assurance import OPEN_TO_TOKENS
from agtphost.vocabulary import tomltext
from agtphost.vocabulary.tomltext import TomlError

if TYPE_CHECKING:
    from agtphost.config import Config

KEY = "min_assurance"


def closed_servers(config: Config, server: str | None) -> list[str]:
    """
    Return the MCP servers that have no tool for clients with a token.

    :param server: check only this one; None: all of the host.
    """
    from agtphost.config.tool_requirements import opens_tool_to

    asked = [each for each in config.mcp.server if server in (None, each.name)]
    return [each.name for each in asked if not opens_tool_to(config, each, Assurance.GATEWAY)]


def list_unscoped(config: Config, server: str | None) -> list[str]:
    """
    Return a sentence for each MCP server of which clients of the front reach no tool for want of a scope.

    :param server: check only this one; None: all of the host.
    """
    from agtphost.host.agents import load
    from agtphost.host.client_reach import FRONT, find_obstacles
    from agtphost.identity.directory import AgentDirectory

    return [
        f"No tool of {each.server} is shown to {', '.join(each.clients)}: {each.scopes}."
        for each in find_obstacles(config, AgentDirectory(load(config, [])))
        if each.scopes and each.surface == FRONT and server in (None, each.server)
    ]


def opened_text(text: str, server: str) -> str | None:
    """
    Return the text of a ``host.toml`` with a line that opens a server to clients with a token.

    :param text: the present text of the file.
    :return: the new text, or None if the entry has another ``min_assurance`` or a form without room for a line.
    """
    try:
        before = tomltext.read(text)
        entries = before.tree["mcp"]["server"]
        number = next(at for at, entry in enumerate(entries) if entry.get("name") == server)
        line = before.line(("mcp", "server", number, "name"))
        entries[number] = {**entries[number], KEY: entries[number].get(KEY, "gateway")}
        lines = text.splitlines(keepends=True)
        ending = "\r\n" if lines[line - 1].endswith("\r\n") else "\n"
        lines[line - 1] = lines[line - 1].rstrip("\r\n") + ending
        changed = "".join([*lines[:line], f"{OPEN_TO_TOKENS}{ending}", *lines[line:]])
        # The key must be the only difference; a line with any other effect is not written.
        return changed if tomltext.read(changed).tree == before.tree else None
    except (TomlError, KeyError, TypeError, StopIteration):
        return None


def _decided_line(octets: bytes, server: str) -> int:
    """Return the line of a server's own ``min_assurance`` in a ``host.toml``; 0 if it has none."""
    try:
        document = tomltext.read(octets.decode("utf-8"))
        for at, entry in enumerate(document.tree["mcp"]["server"]):
            if entry.get("name") == server and KEY in entry:
                return document.line(("mcp", "server", at, KEY))
    except (UnicodeDecodeError, TomlError, KeyError, TypeError, AttributeError):
        return 0
    return 0


def write_opened(file: Path, server: str) -> Path:
    """
    Open a server to clients with a token; write a backup to the same directory.

    :return: the backup.
    :raises WrongInput: the line cannot be added.
    """
    with local_file(file):
        octets = file.read_bytes()
    try:
        text = opened_text(octets.decode("utf-8"), server)
    except UnicodeDecodeError:
        text = None
    if text is None:
        line = _decided_line(octets, server)
        raise WrongInput(
            f"cannot add a line for {server} to {file}",
            f"Line {line} has another {KEY}, which the operator chose: write {OPEN_TO_TOKENS} there by hand."
            if line
            else f"Write {OPEN_TO_TOKENS} into its [[mcp.server]] by hand.",
        )
    target = file.resolve()
    backup = target.with_name(f"{target.name}.{datetime.now(UTC).strftime('%Y%m%dT%H%M%S.%fZ')}.bak")
    with local_file(target, doing="written"):
        mode = target.stat().st_mode & 0o777
        files.write_once(backup, octets, mode)
        files.replace(target, text.encode(), mode)
    return backup


def offer(config: Config, server: str | None, *, write: bool) -> None:
    """
    Print which servers have no tool for clients with a token, and offer to open the connected one.

    :param server: the connected server; None: all of the host.
    :param write: open it without asking.
    """
    closed = closed_servers(config, server)
    if not closed:
        return
    listed = ", ".join(closed)
    click.echo(f"No tool of {listed} is shown to a client with a token: they require a client certificate.")
    where = f"in [[mcp.server]] {listed} of {visible(str(config.file))}"
    if server is None:
        click.echo(f"{OPEN_TO_TOKENS} {where} opens it; --server NAME --open writes that.")
        return
    asked = sys.stdin.isatty() and sys.stdout.isatty()
    if not write and not (asked and click.confirm(f"Write {OPEN_TO_TOKENS} {where}?")):
        click.echo(f"{OPEN_TO_TOKENS} {where} opens it; --open writes that.")
        return
    backup = write_opened(config.file, server)
    click.echo(f"wrote {visible(str(config.file))}: {OPEN_TO_TOKENS}\nbackup {visible(str(backup))}")
    click.echo("Run `agtp reload` if the host runs.")
