"""``agtp upstream add`` and ``remove``: edit host.toml, let the host apply it, and show who may call what now."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from agtphost.cli.config_edit import ConfigEdit, apply_changes, plan_edit
from agtphost.cli.failures import NoConnection, WrongInput, local_file
from agtphost.cli.host_config import find_config
from agtphost.cli.mcp_import import read_clients_file
from agtphost.cli.mcp_servers import ServerEntry
from agtphost.cli.options import Connection, host_options
from agtphost.cli.output import print_json, print_note, visible
from agtphost.cli.reload import show_outcome
from agtphost.cli.upstream.access import UpstreamAccess, access_of
from agtphost.cli.upstream.sections import LISTS, index_of, names_in, secret_files, server_of, split_name, web_section
from agtphost.identity import files
from agtphost.vocabulary import tomltext
from agtphost.vocabulary.tomledit import append_element, remove_element

if TYPE_CHECKING:
    from agtphost.cli.mcp_import import ImportedServers


@click.command("add", context_settings={"allow_interspersed_args": False})
@click.argument("name", metavar="[PROTOCOL.]NAME", required=False)
@click.argument("words", metavar="URL | COMMAND...", nargs=-1)
@click.option("--env", "env", multiple=True, metavar="KEY=VALUE", help="A secret variable of the command.")
@click.option("--header", "headers", multiple=True, metavar="NAME=VALUE", help="A secret field to send to the URL.")
@click.option("--cwd", type=click.Path(path_type=Path), metavar="DIR", help="Where the command runs.")
@click.option(
    "--import", "imported", type=click.Path(path_type=Path), metavar="FILE", help="Add the servers of this mcp.json."
)
@click.option("--dry-run", is_flag=True, help="Show the change of host.toml, and write nothing.")
@host_options
def add_command(
    name: str | None,
    words: tuple[str, ...],
    env: tuple[str, ...],
    headers: tuple[str, ...],
    cwd: Path | None,
    imported: Path | None,
    dry_run: bool,
    where: Connection,
    as_json: bool,
) -> None:
    """
    Add an upstream to host.toml.

    It is an MCP server, or with a2a. or acp. before NAME an agent of that protocol. All options come before NAME. The
    change is checked and written with every comment kept, and a running host applies it immediately. If the host
    refuses, the file is as before. Then the command shows the state of the new upstream, and which agents may call how
    many of its tools.

    Values of --env and --header are written to files that only their owner can read, and host.toml names these files.

    \b
    Examples:
      agtp upstream add files npx -y @modelcontextprotocol/server-filesystem /data
      agtp upstream add --env TOKEN=abc tracker uvx tracker-mcp
      agtp upstream add --header Authorization='Bearer abc' search https://mcp.example.com/mcp
      agtp upstream add a2a.helper https://helper.example.com
      agtp upstream add --import ~/.cursor/mcp.json --dry-run
      agtp upstream add --json files uvx files-mcp
    """
    # As options end at NAME, click leaves a -- that follows among the words.
    words = words[1:] if words[:1] == ("--",) else words
    servers: Sequence[ServerEntry] = ()
    protocol = "mcp"
    if imported is not None:
        if name is not None or env or headers or cwd is not None:
            raise WrongInput("--import excludes a name and options of one server", "Give the file or one server.")
        servers = _print_notes(read_clients_file(imported, os.environ))
        sections = [(server.name, server.toml()) for server in servers]
    elif name is None or not words:
        raise click.UsageError("give NAME and URL, or NAME and COMMAND; or --import FILE")
    elif words[0].startswith("-"):
        raise WrongInput(
            f"{words[0][:64]!r} after NAME is not a command", "Write options before NAME, and the command after it."
        )
    else:
        protocol, name = split_name(name)
        if protocol == "mcp":
            servers = [server_of(name, words, _folder(where), env=env, headers=headers, cwd=cwd)]
            sections = [(name, servers[0].toml())]
        else:
            sections = [(name, web_section(protocol, name, words, headers, env, cwd))]
    _add(protocol, sections, servers, where, dry_run=dry_run, as_json=as_json)


def _add(
    protocol: str,
    sections: Sequence[tuple[str, str]],
    servers: Sequence[ServerEntry],
    where: Connection,
    *,
    dry_run: bool,
    as_json: bool,
) -> None:
    path = LISTS[protocol]

    def change(text: str) -> str:
        for name, section in sections:
            if (index := index_of(text, protocol, name)) is not None:
                line = tomltext.read(text).line((*path, index))
                raise WrongInput(
                    f"{protocol}.{name} is in line {line} of the configuration already",
                    f"Choose another name, or run `agtp upstream remove {protocol}.{name}` first.",
                )
            text = append_element(text, path, section)
        return text

    with _secrets_written(servers, _folder(where)) as keep:
        edit = plan_edit(where, change)
        added = [f"{protocol}.{name}" for name, _ in sections]
        _finish(edit, where, added, dry_run=dry_run, as_json=as_json, keep=keep)


@contextmanager
def _secrets_written(servers: Sequence[ServerEntry], folder: Path) -> Iterator[Callable[[], None]]:
    """
    Write the files of secrets while a change that names them is checked and applied.

    Unless the function that this yields is called, the files are afterwards as they were before: a refused change must
    not replace the secret of another server.
    """
    names = [folder / name for server in servers for name in server.secrets]
    before = {name: name.read_bytes() if name.is_file() else None for name in names}
    kept: list[bool] = []
    try:
        with local_file(doing="written"):
            for server in servers:
                server.keep_secrets(folder)
        yield lambda: kept.append(True)
    finally:
        for name, content in () if kept else before.items():
            if content is None:
                name.unlink(missing_ok=True)
            else:
                files.replace(name, content, files.PRIVATE)


@click.command("remove")
@click.argument("upstream", metavar="[PROTOCOL.]NAME")
@click.option("--dry-run", is_flag=True, help="Show the change of host.toml, and write nothing.")
@host_options
def remove_command(upstream: str, dry_run: bool, where: Connection, as_json: bool) -> None:
    """
    Remove an upstream from host.toml.

    Its section goes with the comment directly above it; all else is kept. A running host applies the change
    immediately: running calls end, and later ones are refused. If something else in the configuration needs the
    upstream, nothing is changed, and the places are listed.

    \b
    Examples:
      agtp upstream remove files
      agtp upstream remove a2a.helper --dry-run
      agtp upstream remove files --json
    """
    protocol, name = split_name(upstream)

    def change(text: str) -> str:
        index = index_of(text, protocol, name)
        if index is None:
            known = [f"{each}.{found}" for each in LISTS for found in names_in(text, each)]
            listed = f"There are: {', '.join(known)}." if known else "It has no upstreams."
            raise WrongInput(f"the configuration has no upstream {protocol}.{name}", listed)
        secrets.extend(secret_files(text, protocol, index))
        return remove_element(text, LISTS[protocol], index)

    secrets: list[str] = []
    edit = plan_edit(where, change)
    _finish(edit, where, [], dry_run=dry_run, as_json=as_json)
    if secrets and not dry_run:
        listed = ", ".join(secrets)
        print_note(f"its secrets are still there; delete them if nothing else uses them: {listed}")


def _finish(
    edit: ConfigEdit,
    where: Connection,
    added: Sequence[str],
    *,
    dry_run: bool,
    as_json: bool,
    keep: Callable[[], None] = lambda: None,
) -> None:
    """
    Apply the change unless it is only to be shown, and print the result.

    :param keep: called once the changed file stays, whether or not the host could be asked about it.
    """
    if dry_run:
        if as_json:
            print_json({"file": str(edit.file), "diff": edit.diff, "applied": False})
        else:
            click.echo(visible(edit.diff), nl=False)
        return
    try:
        outcome = apply_changes([edit.change], where)
    except NoConnection:
        keep()
        raise
    keep()
    found = access_of(where, added) if outcome is not None else []
    if as_json:
        print_json(
            {
                "file": str(edit.file),
                "diff": edit.diff,
                "applied": outcome is not None,
                "reload": outcome,
                "upstreams": [each.to_json() for each in found],
            }
        )
        return
    click.echo(visible(edit.diff), nl=False)
    if outcome is None:
        print_note("the host does not run; its next start applies the change")
        return
    show_outcome(outcome)
    for each in found:
        _print_access(each)


def _print_access(access: UpstreamAccess) -> None:
    for line in access.lines():
        click.echo(visible(line))


def _print_notes(found: ImportedServers) -> Sequence[ServerEntry]:
    for note in found.notes:
        print_note(f"note: {note}")
    return found.servers


def _folder(where: Connection) -> Path:
    named = find_config(where)
    return Path.cwd() if named is None else named.absolute().parent
