"""``agtp init``: a directory that a host can be started from."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import click

from agtphost.cli.deployment import (
    TOKEN_FILE,
    USUAL_GATEWAY,
    Deployment,
    set_up_again,
    write_development,
    write_production,
)
from agtphost.cli.failures import WrongInput, local_file, misconfigured
from agtphost.cli.mcp_import import WantedServers, server_options
from agtphost.cli.options import json_option
from agtphost.cli.output import print_json, visible
from agtphost.cli.ports import free_port, usual_port
from agtphost.errors import ConfigurationError
from agtphost.stores import StoreError
from agtphost.vocabulary.uris import DEFAULT_PORT


@click.command()
@click.argument("directory", type=click.Path(path_type=Path), metavar="DIR")
@server_options
@click.option("--sample", is_flag=True, help="Begin with the sample: endpoints, a recipe, an MCP server.")
@click.option("--gateway", is_flag=True, help="With an HTTP gateway on 127.0.0.1:8080, and a key for it.")
@click.option("--production", is_flag=True, help="Make the keys and certificates of a production host.")
@click.option(
    "--again",
    is_flag=True,
    help="With --production: go on without the records of before, which are put aside; make keys that are missing.",
)
@click.option("--server-id", metavar="NAME", help="The host's stable name; in production its host name.")
@click.option("--operator", metavar="NAME", help="Who runs the host: published in its manifest.")
@click.option("--contact", metavar="ADDRESS", help="Where the operator is reached: published in the manifest.")
@click.option("--address", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option(
    "--port",
    type=click.IntRange(1, 65_535),
    help="The port; default: 4480, and without --production a free one beside it where another host has that.",
)
@json_option
def command(
    directory: Path,
    wanted: WantedServers,
    sample: bool,
    gateway: bool,
    production: bool,
    again: bool,
    server_id: str | None,
    operator: str | None,
    contact: str | None,
    address: str,
    port: int | None,
    as_json: bool,
) -> None:
    """
    Write a ready deployment directory: host.toml, endpoints, an agent.

    It is worth committing: .gitignore leaves out keys and state, an example endpoint has its test (python -m pytest),
    host.toml has further sections commented out, and systemd/ has a unit for this directory.

    A development host makes its own keys at its first start. With --production
    they are made now: an authority, the server's certificate, the signing key,
    the registrar that issues agents, and one agent to answer for.

    The manifest names who runs the host and where to write to: --operator and
    --contact say so, a terminal is asked, and else the host's name stands in.

    Nothing that exists is overwritten. A production host whose store is lost, or
    not to be had back, is set up again by --production --again: it keeps its
    host.toml, keys and agents, and begins with an empty store; what is left of
    the one before is put aside under another name.

    \b
    Examples:
      agtp init work
      agtp init work --sample
      agtp init work --sample --gateway
      agtp init work --import ~/.cursor/mcp.json
      agtp init work --mcp files='npx -y @modelcontextprotocol/server-filesystem /data'
      agtp init /etc/agtphost --production --server-id agents.example.com --address 0.0.0.0
      agtp init /etc/agtphost --production --again
    """
    if again:
        _again(directory.absolute(), production=production, server_id=server_id, as_json=as_json)
        return
    if production and server_id is None:
        raise WrongInput("--production needs --server-id", "Name the host as its clients will reach it.")
    servers = wanted.read(None)
    for note in servers.notes:
        click.echo(f"note: {visible(note)}", err=True)
    if production:
        _refuse_for_development(sample=sample, gateway=gateway)
    deployment = Deployment(
        directory=directory.absolute(),
        sample=sample,
        gateway=USUAL_GATEWAY if gateway else 0,
        server_id=server_id or "localhost",
        address=address,
        port=port or (DEFAULT_PORT if production else free_port(usual_port())),
        servers=servers.servers,
        operator=_told("Operator (who runs this host)", operator, server_id or "localhost", as_json),
        contact=_told("Contact", contact, f"postmaster@{server_id or 'localhost'}", as_json),
    )
    if deployment.host_toml.exists():
        raise WrongInput(f"{deployment.host_toml} exists", "Choose another directory, or edit that file.")
    try:
        with local_file(doing="written"):
            written = write_production(deployment) if production else write_development(deployment)
    except ConfigurationError as error:
        raise misconfigured(error) from None
    if as_json:
        print_json({"host_toml": str(deployment.host_toml), "written": [str(path) for path in written]})
        return
    for path in written:
        click.echo(f"wrote {path}")
    click.echo(f"\nNext:\n  cd {shlex.quote(str(directory))}\n  twistd -n agtp --config host.toml")
    for note, wanted_ in ((GATEWAY_NOTES, gateway), (PRODUCTION_NOTES, production)):
        if wanted_:
            click.echo(note)


def _refuse_for_development(*, sample: bool, gateway: bool) -> None:
    """Refuse what makes a host to try, and none of production."""
    if sample:
        raise WrongInput("--sample is for development", "Leave --production out.")
    if gateway:
        raise WrongInput("--gateway is for development", "Write [gateway] yourself: `agtp docs gateway` tells how.")


def _told(question: str, given: str | None, otherwise: str, as_json: bool) -> str:
    """What an option says, or whoever sits at the terminal, or what follows from the host's name."""
    if given is not None:
        return given
    if as_json or not (sys.stdin.isatty() and sys.stdout.isatty()):
        return otherwise
    answer: str = click.prompt(question, default=otherwise)
    return answer


def _again(directory: Path, *, production: bool, server_id: str | None, as_json: bool) -> None:
    """Set a production host up once more."""
    from agtphost.config import examine

    file = directory / "host.toml"
    if not production:
        raise WrongInput("--again needs --production", "A development host makes what is missing by itself.")
    try:
        config = examine(file).config
        if server_id not in (None, config.host.server_id):
            raise WrongInput(f"{file} is of {config.host.server_id}, and not of {server_id}")
        deployment = Deployment(
            directory=directory, server_id=config.host.server_id, address="", port=config.listen.port, servers=()
        )
        aside, keys = set_up_again(deployment)
    except ConfigurationError as error:
        raise misconfigured(error) from None
    except StoreError as error:
        raise WrongInput(str(error)) from None
    except OSError as error:
        raise WrongInput(f"{error.filename} cannot be written: {error.strerror}") from None
    if as_json:
        listed = {"aside": [str(path) for path in aside], "there": [str(path) for path in keys]}
        print_json({"host_toml": str(file), **listed})
        return
    for path in aside:
        click.echo(f"put aside {path}")
    click.echo(f"{config.host.server_id} begins with an empty store; `agtp check {file}` tells what else is wrong")


GATEWAY_NOTES = f"""
Over HTTP, once it runs:
  curl -i -X DISCOVER http://127.0.0.1:{USUAL_GATEWAY}/methods -H "Authorization: Bearer $(cat {TOKEN_FILE})\""""

PRODUCTION_NOTES = """
The authority's key (state/ca.key) and the registrar's (state/registrar.key) are
needed to issue agents, not to run the host: keep them elsewhere once that is done.
For a server certificate of your own authority, replace state/server.pem and
state/server.key; state/ca.pem stays the authority of client certificates.

To admit a caller:
  agtp agent new NAME --scope mcp:tools:execute --owner OWNER"""
