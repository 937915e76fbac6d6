"""Entries for the host's MCP front in a client's file: an address, and a placeholder for a token."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from agtphost.bridge import client_config
from agtphost.cli.client import token_access
from agtphost.cli.client.entries import ClientFile
from agtphost.cli.failures import WrongInput
from agtphost.cli.output import print_json, visible

if TYPE_CHECKING:
    from agtphost.config import Config

ASKS = "the MCP front"
"""Name of the program that asks for the token, for people."""


def address_of(config: Config, server: str | None) -> str:
    """
    Return the address at which clients reach the front of a host.

    :param server: only this MCP server, with its own tool names; None: all servers.
    :raises WrongInput: the host has no front, or no such server.
    """
    given = config.mcp.front
    if given.listen is None:
        raise WrongInput("the configuration has no [mcp.front]", 'Add [mcp.front] with listen = "ssl:8443".')
    known = [each.name for each in config.mcp.server]
    if server is not None and server not in known:
        listed = f"Choose one of: {', '.join(known)}." if known else "It has no MCP servers."
        raise WrongInput(f"the host has no MCP server {server!r}", listed)
    return given.public_base(config.host.server_id) + (given.path if server is None else f"{given.path}/{server}")


def takes_token(config: Config) -> bool:
    """
    Return whether an entry needs a placeholder for a token.

    A client that can log in at an identity provider learns of it from the front; then its entry is only the address.
    """
    front = config.mcp.front
    return not front.anonymous and not (front.agent and config.policies.oauth.issuer)


@dataclass(frozen=True, kw_only=True)
class FrontEntry:
    """The entry to write for one client."""

    name: str
    """Name of the entry in the client's file."""

    server: str | None
    token: bool
    """Whether the entry always has a placeholder for a token, even if the host accepts another login."""

    opened: bool
    """Whether to open the server to clients with a token."""

    dry: bool


def connect(file: ClientFile, config: Config, wanted: FrontEntry, as_json: bool) -> None:
    """Write the entry of the front into a client's file."""
    client, url, token = file.client, address_of(config, wanted.server), wanted.token or takes_token(config)
    name = wanted.name
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
    answer |= {"changed": changed, "clients": holders, "closed": token_access.closed_servers(config, wanted.server)}
    unscoped = token_access.list_unscoped(config, wanted.server)
    answer["unscoped"] = unscoped
    if wanted.dry:
        if as_json:
            print_json({**answer, "dry_run": True, "difference": file.difference(text)})
        else:
            click.echo(visible(file.difference(text)) if changed else f"{file.path} would not change")
        return
    backup = file.write(text) if changed else None
    if as_json:
        if wanted.opened and wanted.server is not None and answer["closed"]:
            token_access.write_opened(config.file, wanted.server)
            answer["closed"] = []
        print_json({**answer, "backup": None if backup is None else str(backup)})
        return
    click.echo(f"{'wrote' if changed else 'unchanged:'} {visible(str(file.path))}: {name}")
    if backup is not None:
        click.echo(f"backup {visible(str(backup))}")
    if token:
        click.echo(_token_source(client, holders))
    elif not config.mcp.front.anonymous:
        issuers = ", ".join(each.expected_issuer for each in config.policies.oauth.issuer)
        click.echo(visible(f"The client logs in at {issuers}; --token writes a placeholder for a token instead."))
    if not config.mcp.front.anonymous:
        token_access.offer(config, wanted.server, write=wanted.opened)
    for sentence in unscoped:
        click.echo(visible(sentence))


def _token_source(client: str, holders: list[str]) -> str:
    """Return a sentence on where the token comes from."""
    variable = client_config.TOKEN_VARIABLE
    place = "VS Code asks for" if client == "vscode" else f"Put into the environment, as {variable},"
    if not holders:
        return f"{place} the token of an [[http.client]]; the host has none yet: add one with its agent."
    return f"{place} the token of an [[http.client]]; the host has {', '.join(holders)}."
