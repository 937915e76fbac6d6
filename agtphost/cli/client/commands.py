"""``agtp client``: the host in the configuration of Claude, VS Code and Cursor."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from agtphost.bridge import client_config
from agtphost.cli.agent.admitting import admit
from agtphost.cli.client import agents, fronts
from agtphost.cli.client.entries import ClientFile, is_bridge, option_of
from agtphost.cli.configured import require_config
from agtphost.cli.failures import CommandError, WrongInput
from agtphost.cli.options import EXISTING, HOST_TOML, Connection, collected, json_option
from agtphost.cli.output import print_entries, print_json, visible

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,31}", re.ASCII)


@click.group()
def command() -> None:
    """Write this host into the configuration of an MCP client, and out of it again."""


@dataclass(frozen=True, kw_only=True)
class Place:
    """Which entry of which file."""

    server: str | None
    entry: str | None
    project: Path | None
    file: Path | None

    @property
    def name(self) -> str:
        """What the client calls the host."""
        name = self.entry or self.server or client_config.NAME
        if _NAME.fullmatch(name) is None:
            raise WrongInput(f"{name!r} is no name: 1 to 32 letters, digits, '-' and '_'")
        return name

    def read(self, client: str, *, started: bool = True) -> ClientFile:
        """The client's file; ``started``: where those servers are that it starts."""
        path = self.file or client_config.file_of(client, self.project, os.environ, started=started)
        return ClientFile.read(client, path.absolute())


_PLACE = (
    click.option("--server", metavar="NAME", help="This MCP server of the host alone; the entry has its name."),
    click.option("--name", "entry", metavar="NAME", help="What the client calls it; default: agtp."),
    click.option("--project", type=EXISTING, metavar="DIR", help="In the file of this project, not for all of them."),
    click.option("--file", type=EXISTING, metavar="FILE", help="This file, wherever the client has it."),
)
_place_options = collected(Place, "place", _PLACE)
_client = click.argument("client", type=click.Choice(client_config.CLIENTS), metavar="claude|vscode|cursor")
_dry = click.option("--dry-run", "dry", is_flag=True, help="Show what would be changed, and change nothing.")
_config = click.option("--config", type=HOST_TOML, metavar="FILE", help="The host: its host.toml, or directory.")


@command.command()
@_client
@click.option("--as", "identity", metavar="AGENT", help="Be this agent; made if there is none of the name.")
@click.option("--front", is_flag=True, help="By [mcp.front] of the host, with a token; needs no bridge.")
@click.option("--token", is_flag=True, help="With --front: the place of a token, though an identity provider is set.")
@click.option("--open", "opened", is_flag=True, help="With --front and --server: open the server to tokens.")
@_place_options
@_dry
@_config
@json_option
def connect(
    client: str,
    identity: str | None,
    front: bool,
    token: bool,
    opened: bool,
    place: Place,
    dry: bool,
    config: Path | None,
    as_json: bool,
) -> None:
    """
    Write the host into a client's own configuration file.

    The entry starts `agtp mcp-bridge` as an agent that is made for it, with a key of its own and the scopes of what is
    connected alone: those of all MCP servers and endpoints; with --server those of that one, and the host, which has to
    run then, grants it nothing else. A running host admits it at once. What the
    file has besides stays as it is, comments too, and the file of before is kept beside it. A file that does not parse
    is left alone.

    claude is the desktop application; with --project, the .mcp.json that Claude Code reads.

    With --front the entry has the address of the host's own MCP front and the place of a token, which stays out of the
    file. Where an identity provider is configured it is the address alone: the client logs in there. Tools that take a
    client certificate are not shown to such clients: --server NAME offers the line that opens a server to them.

    \b
    Examples:
      agtp client connect claude --server files --dry-run
      agtp client connect cursor --front --server files --open
    """
    if (token and not front) or (opened and not (front and place.server)):
        raise WrongInput("--token is for --front, and --open for --front with --server", "`--help` shows examples.")
    settings = require_config(Connection(config=config), "a client")
    if front:
        if identity is not None:
            raise WrongInput("--as is for the bridge", "At the front the token says who calls: see [[http.client]].")
        wanted = fronts.FrontEntry(name=place.name, server=place.server, token=token, opened=opened, dry=dry)
        fronts.connect(place.read(client, started=False), settings, wanted, as_json)
        return
    file = place.read(client)
    name, entries = place.name, file.entries()
    present = entries.get(name)
    if present is not None and not (is_bridge(present) and _same_host(present, settings.file)):
        raise WrongInput(f"{file.path} has another server named {name}", "Choose another name: --name NAME.")
    purpose = agents.Purpose(client=client, file=str(file.path), entry=name)
    scopes = agents.scopes_for(settings, place.server, dry=dry)
    if identity is None:
        label, new = agents.agent_for(settings, purpose, scopes, dry=dry)
    else:
        label, new = identity, agents.found(settings, identity) is None
        if new and not dry:
            agents.issue(settings, label, purpose, scopes)
    options = () if place.server is None else ("--server", place.server)
    entry = client_config.entry(client_config.bridge_command(settings.file, label, *options))
    text = file.with_entry(name, entry)
    answer: dict[str, Any] = {
        "client": client,
        "file": str(file.path),
        "name": name,
        "entry": entry,
        "agent": label,
        "agent_is_new": new,
        "scopes": list(scopes) if new or identity is None else _scopes(settings, label),
        "narrowed": place.server is not None and (new or identity is None),
        "changed": present != entry,
    }
    if dry:
        _show(answer, file.difference(text), as_json)
        return
    if (running := admit(settings, label)) and place.server is not None and answer["narrowed"]:
        agents.narrow(settings, label, place.server)
    backup = file.write(text) if present != entry else None
    former = _retired(present, settings, purpose) if present is not None and present != entry else ""
    answer |= {"backup": None if backup is None else str(backup), "host_runs": running}
    answer["narrowed"] = answer["narrowed"] and running
    if as_json:
        print_json(answer)
    else:
        _tell(answer, former, place.server)


def _tell(answer: Mapping[str, Any], former: str, server: str | None) -> None:
    """What was done."""
    click.echo(f"{'wrote' if answer['changed'] else 'unchanged:'} {visible(answer['file'])}: {answer['name']}")
    if answer["backup"] is not None:
        click.echo(f"backup {visible(answer['backup'])}")
    click.echo(f"agent {answer['agent']}{' (new)' if answer['agent_is_new'] else ''}: {', '.join(answer['scopes'])}")
    if former:
        click.echo(former)
    if answer["host_runs"]:
        click.echo(f"The host takes calls of it{f', to {server} alone' if answer['narrowed'] else ''}.")
    else:
        click.echo("Start the host; it admits the agent then.")
        if server is not None:
            click.echo(f"Then say this again: the host has to run to grant the agent {server} alone.")


def _same_host(entry: Mapping[str, Any], file: Path) -> bool:
    return option_of(entry, "--config") == str(file)


def _scopes(settings: Any, label: str) -> list[str]:
    agent = agents.found(settings, label)
    return [] if agent is None else agent.scopes


def _show(answer: Mapping[str, Any], difference: str, as_json: bool) -> None:
    if as_json:
        print_json({**answer, "dry_run": True, "difference": difference})
        return
    click.echo(visible(difference) if difference else f"{answer['file']} would stay as it is")
    if "agent" in answer:
        made = "would be made" if answer["agent_is_new"] else "is there"
        click.echo(f"agent {answer['agent']} {made}: {', '.join(answer['scopes'])}")


def _retired(entry: Mapping[str, Any], settings: Any, purpose: agents.Purpose) -> str:
    """End the agent of an entry that is no more."""
    label = option_of(entry, "--as")
    return "" if label is None else agents.retire(settings, label, purpose)


@command.command()
@_client
@click.option("--front", is_flag=True, help="The entry of a front, where the client has those.")
@_place_options
@click.option("--keep-agent", is_flag=True, help="Do not revoke the agent that was made for the entry.")
@_dry
@json_option
def disconnect(client: str, front: bool, place: Place, keep_agent: bool, dry: bool, as_json: bool) -> None:
    """
    Remove the host from a client's configuration file.

    The agent that was made for the entry is revoked. Nothing but the entry is removed, and only if it starts the bridge
    of a host, or with --front is an address. Where there is none, nothing happens.

    \b
    Examples:
      agtp client disconnect vscode
      agtp client disconnect claude --server files --dry-run
      agtp client disconnect cursor --front
    """
    file = place.read(client, started=not front)
    name = place.name
    entry = file.entries().get(name)
    answer: dict[str, Any] = {"client": client, "file": str(file.path), "name": name, "changed": entry is not None}
    if entry is None:
        print_json(answer) if as_json else click.echo(f"{visible(str(file.path))} has no server named {name}")
        return
    addressed = isinstance(entry, dict) and isinstance(entry.get("url"), str)
    if not (addressed if front else is_bridge(entry)):
        raise WrongInput(f"{name} in {file.path} is no host of AGTP", "`agtp client ls` lists those that are.")
    text = file.with_entry(name, None)
    if dry:
        _show(answer, file.difference(text), as_json)
        return
    backup = file.write(text)
    ended = "" if keep_agent or front else _ended(entry, agents.Purpose(client=client, file=str(file.path), entry=name))
    if as_json:
        agent = None if front else option_of(entry, "--as")
        print_json({**answer, "backup": str(backup), "agent": agent, "told": ended})
        return
    click.echo(f"removed {name} from {visible(str(file.path))}\nbackup {visible(str(backup))}")
    if ended:
        click.echo(visible(ended))


def _ended(entry: Mapping[str, Any], purpose: agents.Purpose) -> str:
    config = option_of(entry, "--config")
    if config is None or not Path(config).is_file():
        return ""
    try:
        return _retired(entry, require_config(Connection(config=Path(config)), "an agent"), purpose)
    except CommandError as error:
        return f"its agent is still there: {error.message}"


@command.command()
@click.option("--project", type=EXISTING, default=".", metavar="DIR", help="Whose own files are looked at as well.")
@json_option
def ls(project: Path, as_json: bool) -> None:
    """
    List the clients that a host is written into.

    \b
    Example:
      agtp client ls --project .
    """
    listed = []
    for client in client_config.CLIENTS:
        places = [client_config.file_of(client, where, os.environ).absolute() for where in (None, project)]
        if client == "claude":
            places.append(client_config.file_of(client, None, os.environ, started=False).absolute())
        for path in places:
            try:
                entries = ClientFile.read(client, path).entries()
            except CommandError as error:
                click.echo(f"note: {visible(error.message)}", err=True)
                continue
            listed += [
                {
                    "client": client,
                    "name": name,
                    "agent": option_of(entry, "--as") if is_bridge(entry) else "",
                    "host": (option_of(entry, "--config") or entry["args"][1]) if is_bridge(entry) else entry["url"],
                    "file": str(path),
                }
                for name, entry in entries.items()
                if is_bridge(entry) or client_config.has_token(client, entry)
            ]
    print_entries(listed, ("client", "name", "agent", "host", "file"), as_json)
