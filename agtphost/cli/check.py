"""``agtp check``: everything that would keep a host from starting, at once."""

from __future__ import annotations

import os
from pathlib import Path

import click

from agtphost.cli.configured import NO_HOST, find_config
from agtphost.cli.failures import WrongInput, misconfigured
from agtphost.cli.options import EXISTING, Connection, json_option
from agtphost.cli.output import print_json, visible
from agtphost.errors import ConfigurationError


@click.command()
@click.argument("file", type=EXISTING, required=False, metavar="[HOST.TOML]")
@json_option
def command(file: Path | None, as_json: bool) -> None:
    """
    Validate a host.toml and everything it names: all problems, with file, line and hint.

    The host is started but for its last step: store, checkpoint, agents, endpoints and port are looked at as a start
    looks at them, and nothing is changed. Of a host that runs, the store and the port are left alone.

    Exit status 0 if the host would start, 2 if not. What a start would warn of is told too.

    \b
    Examples:
      agtp check host.toml
      agtp check --json
    """
    path = find_config(Connection(config=file))
    if path is None:
        raise WrongInput("no host.toml is named", NO_HOST)
    # Everything that a host is made of is imported here, and by no other command.
    from twisted.internet import reactor

    from agtphost.host.rehearsal import rehearse

    try:
        found = rehearse(path, os.environ, reactor)
    except ConfigurationError as error:
        raise misconfigured(error) from None
    if not as_json:
        for remark in found.remarks:
            click.echo(f"note: {visible(remark)}", err=True)
    if found.problems:
        raise misconfigured(ConfigurationError(found.problems))
    config = found.config
    if as_json:
        print_json({"file": str(config.file), "problems": [], "notes": list(found.remarks)})
    else:
        servers = len(config.mcp.server)
        click.echo(f"{config.file}: sound ({config.host.profile}, MCP servers: {servers})")
