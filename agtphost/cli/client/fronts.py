"""The host's own MCP front in a client's file: an address, and the place of a token."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from agtphost.bridge import client_config
from agtphost.cli.client.entries import ClientFile
from agtphost.cli.failures import WrongInput
from agtphost.cli.output import print_json, visible

if TYPE_CHECKING:
    from agtphost.config import Config

ASKS = "the MCP front"
"""Who asks for the token, for people."""


def address_of(config: Config, server: str | None) -> str:
    """
    Where clients reach the front of a host.

    :param server: that MCP server alone, by its own names; None: all.
    :raises WrongInput: the host has no front, or no such server.
    """
    given = config.mcp.front
    if given.listen is None:
        raise WrongInput("the configuration has no [mcp.front]", 'Add [mcp.front] with listen = "ssl:8443".')
    known = [each.name for each in config.mcp.server]
    if server is not None and server not in known:
        listed = f"It has: {', '.join(known)}." if known else "It has none."
        raise WrongInput(f"the host has no MCP server {server!r}", listed)
    return given.reached(config.host.server_id) + (given.path if server is None else f"{given.path}/{server}")


def connect(file: ClientFile, name: str, config: Config, server: str | None, dry: bool, as_json: bool) -> None:
    """
    Write the entry.

    :param name: what the client calls the host.
    :param dry: only show it.
    """
    client, url, token = file.client, address_of(config, server), not config.mcp.front.anonymous
    present = file.entries().get(name)
    entry = client_config.url_entry(client, url, token)
    same = isinstance(present, dict) and present.get("url") == url
    if present is not None and not (same or client_config.has_token(client, present)):
        raise WrongInput(f"{file.path} has another server named {name}", "Choose another name: --name NAME.")
    text = file.with_entry(name, entry)
    for asked in client_config.inputs_of(client, ASKS) if token else ():
        text = file.asking(text, asked)
    changed = text != file.text
    holders = [each.name for each in config.http.client]
    answer: dict[str, Any] = {"client": client, "file": str(file.path), "name": name, "entry": entry}
    answer |= {"changed": changed, "clients": holders}
    if dry:
        if as_json:
            print_json({**answer, "dry_run": True, "difference": file.difference(text)})
        else:
            click.echo(visible(file.difference(text)) if changed else f"{file.path} would stay as it is")
        return
    backup = file.write(text) if changed else None
    if as_json:
        print_json({**answer, "backup": None if backup is None else str(backup)})
        return
    click.echo(f"{'wrote' if changed else 'unchanged:'} {visible(str(file.path))}: {name}")
    if backup is not None:
        click.echo(f"backup {visible(str(backup))}")
    if token:
        click.echo(_told(client, holders))


def _told(client: str, holders: list[str]) -> str:
    """Where the token comes from."""
    variable = client_config.TOKEN_VARIABLE
    place = "VS Code asks for" if client == "vscode" else f"Put into the environment, as {variable},"
    if not holders:
        return f"{place} the token of an [[http.client]]; the host has none yet: add one, and the agent that it is."
    return f"{place} the token of an [[http.client]]; the host has {', '.join(holders)}."
