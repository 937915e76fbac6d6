"""What ``agtp up`` prints: where the trial host is, and what to try once it is ready."""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agtphost.cli import shipped
from agtphost.cli.output import print_json
from agtphost.cli.ports import ADDRESS, usual_port
from agtphost.client.local_identities import CALLER

if TYPE_CHECKING:
    from agtphost.config import Config

LOG = "host.log"


@dataclass(frozen=True, kw_only=True)
class PreparedHost:
    """A host that is ready to be started."""

    config: Config
    new: bool
    sample: bool
    port_given: bool = False
    """Whether the user chose the port."""

    @property
    def file(self) -> Path:
        """The path of its ``host.toml``."""
        return self.config.file

    @property
    def uri(self) -> str:
        """The address at which the host will listen."""
        return f"agtp://{ADDRESS}:{self.config.listen.port}"


def tell_place(shown: str, temporary: bool, host: PreparedHost, logs: str = f"{LOG} is") -> None:
    """
    Print what the host is made of, before it starts.

    :param shown: the directory as the user named it.
    :param logs: the files of the log, with the verb.
    """
    kept = "removed at the end; `agtp up DIR` keeps one" if temporary else "new" if host.new else "unchanged"
    click.echo(f"directory  {shown}  ({kept}; {logs} in it)")
    if host.config.listen.port != usual_port():
        click.echo(f"port       {host.config.listen.port}  ({'as given' if host.port_given else 'a free one'})")
    if (base := host.config.gateway.base) is not None:
        click.echo(f"gateway    {base}")
    for server in host.config.mcp.server:
        click.echo(f"starting   MCP server {server.name}: {server.url or shlex.join(server.command or ())}")
    if host.sample and (missing := shipped.remedy(shipped.missing_parts())):
        click.echo(f"note       {missing}")
    sys.stdout.flush()


def tell_ready(host: PreparedHost, shown: str, seconds: float, as_json: bool) -> None:
    """Print where the host serves, and what to try."""
    if as_json:
        print_json(ready_fields(host, shown))
        sys.stdout.flush()
        return
    click.echo(f"ready      {host.uri}  ({seconds:.1f} s)  Ctrl-C stops it")
    tell_tries(host, commands_to_try(host, shown))


def ready_fields(host: PreparedHost, shown: str) -> dict[str, Any]:
    """Return what programs need of a host that is ready."""
    return {
        "uri": host.uri,
        "directory": str(host.file.parent),
        "config": str(host.file),
        "agent": CALLER,
        **({} if host.config.gateway.base is None else {"gateway": host.config.gateway.base}),
        "try": [line for line, _ in commands_to_try(host, shown)],
        "entry": _client_entry(host),
    }


def tell_tries(host: PreparedHost, tries: Sequence[tuple[str, str]]) -> None:
    """
    Print commands to try, and the entry for an MCP client.

    :param tries: each command, and what it shows.
    """
    from agtphost.bridge import client_config

    click.echo("\nTry, in a second terminal:")
    for line, why in tries:
        click.echo(f"\n  # {why}\n  {line}")
    click.echo("\nFor an MCP client, as the agent demo (agtp client connect writes it, with a separate agent):\n")
    click.echo(f"  {client_config.line(_client_entry(host))}")
    sys.stdout.flush()


def _client_entry(host: PreparedHost) -> dict[str, Any]:
    """Return the entry for an MCP client, by its name."""
    from agtphost.bridge import client_config

    return {client_config.NAME: client_config.entry(client_config.bridge_command(host.file, CALLER))}


def commands_to_try(host: PreparedHost, shown: str) -> list[tuple[str, str]]:
    """Return commands to try, and what each shows."""
    return [(f"{line} --config {shlex.quote(shown)}", why) for line, why in _commands_to_try(host)]


def _commands_to_try(host: PreparedHost) -> list[tuple[str, str]]:
    """Return commands to try, without the host, and what each shows."""
    agtp = this_command()
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


def this_command() -> str:
    """Return how to call ``agtp`` in another terminal."""
    own = Path(sys.argv[0]).absolute()
    found = shutil.which("agtp")
    return "agtp" if found is not None and own.exists() and Path(found).samefile(own) else shlex.quote(str(own))
