"""The command ``agtp up``: create and start a trial host."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import click

from agtphost.cli.deployment import USUAL_GATEWAY, Deployment, gateway_toml, write_development, write_token
from agtphost.cli.failures import WrongInput, configuration_error, local_file
from agtphost.cli.host_config import load_config
from agtphost.cli.mcp_import import WantedServers, server_options
from agtphost.cli.mcp_servers import ServerEntry
from agtphost.cli.options import json_option
from agtphost.cli.output import print_note
from agtphost.cli.ports import ADDRESS, free_port, usual_port
from agtphost.cli.up_output import LOG, PreparedHost, tell_place, tell_ready
from agtphost.errors import ConfigurationError
from agtphost.stores.settings import locate_store

_PORT = re.compile(r"(?<=^port = )\d+$", re.MULTILINE)


@click.command()
@click.argument("directory", type=click.Path(path_type=Path), required=False, metavar="[DIR]")
@server_options
@click.option(
    "--port",
    type=click.IntRange(1, 65_535),
    metavar="PORT",
    help="Port of the host; default: 4480 or the next free one.",
)
@click.option("--gateway", is_flag=True, help="Add an HTTP gateway on port 8080 or the next free one.")
@click.option(
    "--hosts",
    type=click.IntRange(1, 5),
    metavar="NUMBER",
    default=1,
    show_default=True,
    help="How many hosts share a PostgreSQL store: one serves, the others stand by.",
)
@json_option
def command(
    directory: Path | None, wanted: WantedServers, port: int | None, gateway: bool, hosts: int, as_json: bool
) -> None:
    """
    Create a trial host, and start it in the foreground.

    Without --mcp and --import it is the sample: an MCP server, endpoints in Python and a recipe. When it is ready it
    prints commands to try, and the entry for an MCP client's configuration. Ctrl-C stops it. Without DIR everything is
    in a temporary directory, which is removed at the end; DIR is kept, and the next `agtp up DIR` starts the same host.

    With --hosts 2 it starts a PostgreSQL of this machine's packages below DIR and two hosts on it, of which one serves
    and the other is a standby. It prints what to type to hand over or to kill the one that serves, and a line when that
    changes. A host that has ended is started again, as a standby. Ctrl-C stops all. See `agtp docs standby`.

    It is a development host on 127.0.0.1, which creates its own keys. Use `agtp init` for a permanent host.

    \b
    Examples:
      agtp up
      agtp up work --mcp files='npx -y @modelcontextprotocol/server-filesystem .'
      agtp up work --mcp tracker=https://mcp.example.com/mcp
      agtp up work --import .vscode/mcp.json
      agtp up work --gateway
      agtp up demo --hosts 2
    """
    started = time.monotonic()
    servers = wanted.read(Path.cwd())
    for note in servers.notes:
        print_note(f"note: {note}")
    programs = _require_hosts(directory, hosts)
    place = Path(tempfile.mkdtemp(prefix="agtp-")) if directory is None else directory.absolute()
    shown = str(place) if directory is None else str(directory)

    def prepare(logs: str) -> PreparedHost:
        host = _prepare(place, servers.servers, port, gateway=gateway)
        if not as_json:
            tell_place(shown, directory is None, host, logs)
        return host

    try:
        if programs is None:
            host = prepare(f"{LOG} is")
            from agtphost.cli.foreground import serve

            serve(host.file, place / LOG, lambda: tell_ready(host, shown, time.monotonic() - started, as_json))
        else:
            from agtphost.cli.up_hosts import run_hosts

            if directory is None and os.getuid() == 0:
                # The database runs as another user then, who has to reach it.
                place.chmod(0o711)
            run_hosts(place, shown, hosts, programs, prepare, started, as_json=as_json)
    finally:
        if directory is None:
            shutil.rmtree(place, ignore_errors=True)


def _require_hosts(directory: Path | None, hosts: int) -> Path | None:
    """
    Return the directory of PostgreSQL's programs; None for a host without it.

    :raises WrongInput: they are missing, or the directory has another number of hosts.
    """
    from agtphost.cli import up_hosts

    if hosts == 1:
        if directory is not None and up_hosts.has_database(directory):
            raise WrongInput(
                f"{directory} has hosts that share a database", f"Run: agtp up {shlex.quote(str(directory))} --hosts 2"
            )
        return None
    programs = up_hosts.require_postgresql(hosts)
    if directory is not None:
        up_hosts.require_usable(directory.absolute())
    return programs


def _prepare(directory: Path, servers: Sequence[ServerEntry], port: int | None, *, gateway: bool) -> PreparedHost:
    """Create or find the directory with its ``host.toml``, with a free port in it."""
    file = directory / "host.toml"
    new = not file.exists()
    if new:
        deployment = Deployment(
            directory=directory,
            server_id="localhost",
            address=ADDRESS,
            port=port or free_port(usual_port()),
            servers=tuple(servers),
            sample=not servers,
            committed=False,
            gateway=free_port(USUAL_GATEWAY) if gateway else 0,
        )
        try:
            with local_file(doing="written"):
                write_development(deployment)
        except ConfigurationError as error:
            raise configuration_error(error) from None
    else:
        _update_existing(file, servers, port, gateway=gateway)
    config = load_config(file)
    sample = (directory / "handlers" / "library.py").is_file()
    return PreparedHost(config=config, new=new, sample=sample, port_given=bool(port))


def _update_existing(file: Path, servers: Sequence[ServerEntry], port: int | None, *, gateway: bool) -> None:
    """Adapt an existing, stopped host to the new options."""
    config = load_config(file)
    if not config.host.development:
        raise WrongInput(f"{file} is of a production host", f"Run: twistd -n agtp --config {shlex.quote(str(file))}")
    if config.host.state_dir.is_dir() and (pid := locate_store(config.store).lock(config.host.state_dir).holder()):
        raise WrongInput(
            f"the host of {file.parent} runs already{pid.rstrip(',')}", f"Try agtp tools ls --config {file.parent}"
        )
    text = file.read_text(encoding="utf-8")
    present = {server.name: server for server in config.mcp.server}
    for server in servers:
        known = present.get(server.name)
        if known is None:
            text = f"{text.rstrip()}\n\n{server.toml()}"
        elif (known.command or (), known.url or "") != (server.command, server.url):
            raise WrongInput(f"{file} has another MCP server named {server.name}", "Choose another name.")
    if gateway and config.gateway.listen is None:
        text = f"{text.rstrip()}\n{gateway_toml(free_port(USUAL_GATEWAY))}"
    wanted = port or config.listen.port
    if config.listen.endpoint is None:
        text = _PORT.sub(str(wanted if port else free_port(wanted)), text, count=1)
    before = file.read_bytes()
    if text.encode() == before:
        return
    with local_file(doing="written"):
        for server in servers:
            server.keep_secrets(file.parent)
        if gateway:
            write_token(file.parent)
        if any(server.private for server in servers):
            file.chmod(0o600)
        file.write_text(text, encoding="utf-8")
    try:
        load_config(file)
    except click.ClickException:
        file.write_bytes(before)
        raise
