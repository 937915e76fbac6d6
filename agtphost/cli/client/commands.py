"""The ``agtp client`` group: the host's entry in the configuration of Claude, VS Code and Cursor."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agtphost.bridge import client_config
from agtphost.cli.agent.admission import admit, require_no_standby
from agtphost.cli.client import agents, fronts
from agtphost.cli.client.entries import ClientFile, is_bridge, option_of
from agtphost.cli.failures import CommandError, WrongInput
from agtphost.cli.groups import VerbGroup
from agtphost.cli.host_config import require_config
from agtphost.cli.options import EXISTING, HOST_TOML, Connection, add_options, json_option
from agtphost.cli.output import print_entries, print_json, print_note, visible

if TYPE_CHECKING:
    from agtphost.config import Config

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,31}", re.ASCII)


@click.group(cls=VerbGroup)
def command() -> None:
    """Add this host to the configuration of an MCP client, and remove it again."""


@dataclass(frozen=True, kw_only=True)
class Place:
    """The options that select a file and an entry in it."""

    server: str | None
    entry: str | None
    project: Path | None
    file: Path | None

    @property
    def name(self) -> str:
        """Return the name of the entry."""
        name = self.entry or self.server or client_config.NAME
        if _NAME.fullmatch(name) is None:
            raise WrongInput(f"{name!r} is not a valid name", "Use 1 to 32 letters, digits, '-' and '_'.")
        return name

    def read(self, client: str, *, started: bool = True) -> ClientFile:
        """Read the client's file; ``started`` selects the file of servers that the client starts."""
        path = self.file or client_config.file_of(client, self.project, os.environ, started=started)
        return ClientFile.read(client, path.absolute())


_PLACE = (
    click.option("--server", metavar="NAME", help="Only this MCP server of the host; it names the entry."),
    click.option("--name", "entry", metavar="NAME", help="Name of the entry; default: agtp."),
    click.option("--project", type=EXISTING, metavar="DIR", help="Use the file of this project, not of all."),
    click.option("--file", type=EXISTING, metavar="FILE", help="Use this file instead of the client's default."),
)
_place_options = add_options(Place, "place", _PLACE)
_client = click.argument("client", type=click.Choice(client_config.CLIENTS), metavar="claude|vscode|cursor")
_dry = click.option("--dry-run", "dry", is_flag=True, help="Show the changes without making them.")
_config = click.option("--config", type=HOST_TOML, metavar="FILE", help="The host.toml of the host, or its directory.")


@command.command()
@_client
@click.option("--as", "identity", metavar="AGENT", help="Connect as this agent; issue it if it does not exist.")
@click.option("--front", is_flag=True, help="Connect to the host's [mcp.front] without the bridge.")
@click.option("--token", is_flag=True, help="With --front: use a token despite an identity provider.")
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
    Add the host to a client's own configuration file.

    The entry starts `agtp mcp-bridge` as an agent that is issued for it with a new key and only the scopes of what is
    connected: those of all MCP servers and endpoints, or with --server those of that server. With --server the host
    must run, and grants the agent nothing else. A running host admits the agent immediately. The rest of the file,
    comments included, stays unchanged, and a backup is written next to it. A file that does not parse is kept.

    claude is the desktop application; with --project, the .mcp.json that Claude Code reads.

    With --front the entry has the address of the host's MCP front and a placeholder for a token, which is not written
    to the file. If an identity provider is configured, the entry is only the address, and the client logs in there.
    Tools that require a client certificate are not shown to such clients; with --server NAME the command offers to
    open the server to them.

    \b
    Examples:
      agtp client connect claude --server files --dry-run
      agtp client connect cursor --front --server files --open
    """
    if (token and not front) or (opened and not (front and place.server)):
        raise WrongInput("--token needs --front, and --open needs --front and --server", "See the examples of --help.")
    settings = require_config(Connection(config=config), "a client")
    if front:
        if identity is not None:
            raise WrongInput("--as excludes --front", "There the token names the agent: see [[http.client]].")
        wanted = fronts.FrontEntry(name=place.name, server=place.server, token=token, opened=opened, dry=dry)
        fronts.connect(place.read(client, started=False), settings, wanted, as_json)
        return
    file = _read_for_bridge(place, client, settings, dry=dry)
    name, entries = place.name, file.entries()
    present = entries.get(name)
    if present is not None and not (is_bridge(present) and _same_host(present, settings.file)):
        raise WrongInput(f"{file.path} has another server named {name}", "Choose another name: --name NAME.")
    purpose = agents.Purpose(client=client, file=str(file.path), entry=name)
    scopes = agents.scopes_for(settings, place.server, dry=dry)
    if identity is None:
        label, new = agents.agent_for(settings, purpose, scopes, dry=dry)
    else:
        label, new = identity, agents.find_caller(settings, identity) is None
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
    former = _retire_agent(present, settings, purpose) if present is not None and present != entry else ""
    answer |= {"backup": None if backup is None else str(backup), "host_runs": running}
    answer["narrowed"] = answer["narrowed"] and running
    if as_json:
        print_json(answer)
    else:
        _print_outcome(answer, former, place.server)


def _read_for_bridge(place: Place, client: str, settings: Config, *, dry: bool) -> ClientFile:
    """
    Return the file of a client that gets an entry with the bridge.

    :raises WrongInput: it cannot be read, or the host here cannot admit the agent of the entry.
    """
    if not dry:
        require_no_standby(settings)
    return place.read(client)


def _print_outcome(answer: Mapping[str, Any], former: str, server: str | None) -> None:
    """Print what was done."""
    click.echo(f"{'wrote' if answer['changed'] else 'unchanged:'} {visible(answer['file'])}: {answer['name']}")
    if answer["backup"] is not None:
        click.echo(f"backup {visible(answer['backup'])}")
    click.echo(f"agent {answer['agent']}{' (new)' if answer['agent_is_new'] else ''}: {', '.join(answer['scopes'])}")
    if former:
        click.echo(former)
    if answer["host_runs"]:
        click.echo(f"The host accepts its calls{f' to {server} only' if answer['narrowed'] else ''}.")
    else:
        click.echo("Start the host; then it admits the agent.")
        if server is not None:
            click.echo(f"Then repeat this command, because only a running host can limit the agent to {server}.")


def _same_host(entry: Mapping[str, Any], file: Path) -> bool:
    return option_of(entry, "--config") == str(file)


def _scopes(settings: Any, label: str) -> list[str]:
    agent = agents.find_caller(settings, label)
    return [] if agent is None else agent.scopes


def _show(answer: Mapping[str, Any], difference: str, as_json: bool) -> None:
    if as_json:
        print_json({**answer, "dry_run": True, "difference": difference})
        return
    click.echo(visible(difference) if difference else f"{answer['file']} would not change")
    if "agent" in answer:
        made = "would be issued" if answer["agent_is_new"] else "exists"
        click.echo(f"agent {answer['agent']} {made}: {', '.join(answer['scopes'])}")


def _retire_agent(entry: Mapping[str, Any], settings: Any, purpose: agents.Purpose) -> str:
    """Revoke the agent of an entry that was replaced or removed."""
    label = option_of(entry, "--as")
    return "" if label is None else agents.retire(settings, label, purpose)


@command.command()
@_client
@click.option("--front", is_flag=True, help="Remove the entry of a front.")
@_place_options
@click.option("--keep-agent", is_flag=True, help="Do not revoke the agent that was made for the entry.")
@_dry
@json_option
def disconnect(client: str, front: bool, place: Place, keep_agent: bool, dry: bool, as_json: bool) -> None:
    """
    Remove the host from a client's configuration file.

    The agent that was made for the entry is revoked. Only the entry is removed, and only if it starts the bridge of a
    host, or with --front is an address. Without such an entry, nothing happens.

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
        raise WrongInput(f"{name} in {file.path} is not an AGTP host", "List these with `agtp client ls`.")
    text = file.with_entry(name, None)
    if dry:
        _show(answer, file.difference(text), as_json)
        return
    backup = file.write(text)
    ended = (
        ""
        if keep_agent or front
        else _retire_recorded_agent(entry, agents.Purpose(client=client, file=str(file.path), entry=name))
    )
    if as_json:
        agent = None if front else option_of(entry, "--as")
        print_json({**answer, "backup": str(backup), "agent": agent, "told": ended})
        return
    click.echo(f"removed {name} from {visible(str(file.path))}\nbackup {visible(str(backup))}")
    if ended:
        click.echo(visible(ended))


def _retire_recorded_agent(entry: Mapping[str, Any], purpose: agents.Purpose) -> str:
    config = option_of(entry, "--config")
    if config is None or not Path(config).is_file():
        return ""
    try:
        return _retire_agent(entry, require_config(Connection(config=Path(config)), "an agent"), purpose)
    except CommandError as error:
        return f"its agent was not revoked: {error.message}"


@command.command()
@click.option("--project", type=EXISTING, default=".", metavar="DIR", help="Also list the files of this project.")
@json_option
def ls(project: Path, as_json: bool) -> None:
    """
    List the clients that are connected to a host.

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
                print_note(f"note: {error.message}")
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
