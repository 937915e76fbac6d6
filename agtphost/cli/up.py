"""The command ``agtp up``: create and start a trial host."""

from __future__ import annotations

import re
import shlex
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from agtphost.cli import shipped
from agtphost.cli.deployment import USUAL_GATEWAY, Deployment, gateway_toml, write_development, write_token
from agtphost.cli.failures import WrongInput, configuration_error, local_file
from agtphost.cli.host_config import load_config
from agtphost.cli.mcp_import import WantedServers, server_options
from agtphost.cli.mcp_servers import ServerEntry
from agtphost.cli.options import json_option
from agtphost.cli.output import print_json, visible
from agtphost.cli.ports import ADDRESS, free_port, usual_port
from agtphost.client.local_identities import CALLER
from agtphost.errors import ConfigurationError
from agtphost.stores.settings import locate_store

if TYPE_CHECKING:
    from agtphost.config import Config

LOG = "host.log"
_PORT = re.compile(r"(?<=^port = )\d+$", re.MULTILINE)


@click.command()
@click.argument("directory", type=click.Path(path_type=Path), required=False, metavar="[DIR]")
@server_options
@click.option("--port", type=click.IntRange(1, 65_535), help="The port; default: 4480 or the next free one.")
@click.option("--gateway", is_flag=True, help="Add an HTTP gateway on port 8080 or the next free one.")
@json_option
def command(directory: Path | None, wanted: WantedServers, port: int | None, gateway: bool, as_json: bool) -> None:
    """
    Create a trial host, and start it in the foreground.

    Without --mcp and --import it is the sample: an MCP server, endpoints in Python and a recipe. When it is ready it
    prints commands to try, and the entry for an MCP client's configuration. Ctrl-C stops it. Without DIR everything is
    in a temporary directory, which is removed at the end; DIR is kept, and the next `agtp up DIR` starts the same host.

    It is a development host on 127.0.0.1, which creates its own keys. Use `agtp init` for a permanent host.

    \b
    Examples:
      agtp up
      agtp up work --mcp files='npx -y @modelcontextprotocol/server-filesystem .'
      agtp up work --mcp tracker=https://mcp.example.com/mcp
      agtp up work --import .vscode/mcp.json
      agtp up work --gateway
    """
    started = time.monotonic()
    servers = wanted.read(Path.cwd())
    for note in servers.notes:
        click.echo(f"note: {visible(note)}", err=True)
    place = Path(tempfile.mkdtemp(prefix="agtp-")) if directory is None else directory.absolute()
    try:
        host = _prepare(place, servers.servers, port, gateway=gateway)
        shown = str(place) if directory is None else str(directory)
        if not as_json:
            _tell_place(shown, directory is None, host)
        from agtphost.cli.foreground import serve

        def ready() -> None:
            seconds = time.monotonic() - started
            _tell_ready(host, shown, seconds, as_json)

        serve(host.file, place / LOG, ready)
    finally:
        if directory is None:
            shutil.rmtree(place, ignore_errors=True)


@dataclass(frozen=True, kw_only=True)
class PreparedHost:
    """A host that is ready to be started."""

    config: Config
    new: bool
    sample: bool

    @property
    def file(self) -> Path:
        """The path of its ``host.toml``."""
        return self.config.file

    @property
    def uri(self) -> str:
        """The address at which the host will listen."""
        return f"agtp://{ADDRESS}:{self.config.listen.port}"


# Making it


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
    return PreparedHost(config=config, new=new, sample=(directory / "handlers" / "library.py").is_file())


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


# Output


def _tell_place(shown: str, temporary: bool, host: PreparedHost) -> None:
    kept = "removed at the end; `agtp up DIR` keeps one" if temporary else "new" if host.new else "unchanged"
    click.echo(f"directory  {shown}  ({kept}; {LOG} is in it)")
    if host.config.listen.port != usual_port():
        click.echo(f"port       {host.config.listen.port}  (a free one)")
    if (base := host.config.gateway.base) is not None:
        click.echo(f"gateway    {base}")
    for server in host.config.mcp.server:
        click.echo(f"starting   MCP server {server.name}: {server.url or shlex.join(server.command or ())}")
    if host.sample and (missing := shipped.remedy(shipped.missing_parts())):
        click.echo(f"note       {missing}")
    sys.stdout.flush()


def _tell_ready(host: PreparedHost, shown: str, seconds: float, as_json: bool) -> None:
    from agtphost.bridge import client_config

    tries = [(f"{line} --config {shlex.quote(shown)}", why) for line, why in _commands_to_try(host)]
    entry = client_config.entry(client_config.bridge_command(host.file, CALLER))
    if as_json:
        print_json(
            {
                "uri": host.uri,
                "directory": str(host.file.parent),
                "config": str(host.file),
                "agent": CALLER,
                **({} if host.config.gateway.base is None else {"gateway": host.config.gateway.base}),
                "try": [line for line, _ in tries],
                "entry": {client_config.NAME: entry},
            }
        )
        sys.stdout.flush()
        return
    click.echo(f"ready      {host.uri}  ({seconds:.1f} s)  Ctrl-C stops it\n\nTry, in a second terminal:")
    for line, why in tries:
        click.echo(f"\n  # {why}\n  {line}")
    click.echo("\nFor an MCP client, as the agent demo (agtp client connect writes it, with a separate agent):\n")
    click.echo(f"  {client_config.line({client_config.NAME: entry})}")
    sys.stdout.flush()


def _commands_to_try(host: PreparedHost) -> list[tuple[str, str]]:
    """Return commands to try, without the host, and what each shows."""
    agtp = _this_command()
    names = [server.name for server in host.config.mcp.server]
    trail = (f"{agtp} audit verify", "verify that the records of all answers are signed and in order")
    called = "call as the agent demo, and verify the signed record of the call"
    if host.sample and "files" in names:
        call = f"{agtp} tools call files.read_file path=welcome.txt"
        refused = (f"{call} --no-cert", "the same call without a certificate: a refusal that says what to do")
        return [(call, called), refused, trail]
    if names:
        tools = (f"{agtp} tools ls", "list the tools that the agent demo may call")
        return [tools, (f"{agtp} upstreams ls --as registrar", "show the state of the MCP servers"), trail]
    if host.sample:
        call = f"{agtp} call - QUERY /library"
        return [
            (f"{call}/9780141439518 --verify", called),
            (f"{call}/0000000000 --verify", "call for an unknown book: the endpoint's declared error is recorded, too"),
            trail,
        ]
    methods = (f"{agtp} call - DISCOVER /methods --verify", called)
    return [methods, (f"{agtp} agent ls", "list the agents of the host and their scopes"), trail]


def _this_command() -> str:
    """Return how to call ``agtp`` in another terminal."""
    own = Path(sys.argv[0]).absolute()
    found = shutil.which("agtp")
    return "agtp" if found is not None and own.exists() and Path(found).samefile(own) else shlex.quote(str(own))
