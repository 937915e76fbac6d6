"""The command ``agtp init``: create a directory from which a host can start."""

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
from agtphost.cli.failures import WrongInput, configuration_error, local_file
from agtphost.cli.mcp_import import WantedServers, server_options
from agtphost.cli.options import json_option
from agtphost.cli.output import print_json, print_note
from agtphost.cli.ports import free_port, usual_port
from agtphost.errors import ConfigurationError
from agtphost.stores import StoreError
from agtphost.vocabulary.foreign_errors import explain
from agtphost.vocabulary.uris import DEFAULT_PORT


@click.command()
@click.argument("directory", type=click.Path(path_type=Path), metavar="DIR")
@server_options
@click.option("--sample", is_flag=True, help="Start with the sample: endpoints, a recipe, an MCP server.")
@click.option("--gateway", is_flag=True, help="Add an HTTP gateway on 127.0.0.1:8080, with a token.")
@click.option("--production", is_flag=True, help="Create the keys and certificates of a production host.")
@click.option(
    "--again",
    is_flag=True,
    help="With --production: start over with an empty store, keep the old one as a copy, and create missing keys.",
)
@click.option("--server-id", metavar="NAME", help="The host's stable name; in production its host name.")
@click.option("--operator", metavar="NAME", help="Who runs the host; published in the manifest.")
@click.option("--contact", metavar="ADDRESS", help="Address of the operator; published in the manifest.")
@click.option("--address", default="127.0.0.1", show_default=True, metavar="IP", help="IP address to listen on.")
@click.option(
    "--port",
    type=click.IntRange(1, 65_535),
    metavar="PORT",
    help="Port to listen on; default: 4480, or without --production the next free one.",
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
    Create a deployment directory: host.toml, endpoints, an agent.

    The directory is ready to be committed: .gitignore excludes keys and state, an example endpoint has a test
    (python -m pytest), host.toml has further sections as comments, and systemd/ has a unit for this directory.

    A development host creates its own keys at its first start. --production creates them now: an authority, the
    server's certificate, the signing key, the registrar that issues agents, and one hosted agent.

    The manifest names the operator and a contact: those of --operator and --contact, or else the answers on a terminal,
    or else values made from the host's name.

    Existing files are not overwritten. If the store of a production host is lost, --production --again sets the host up
    again: it keeps host.toml, keys and agents, and starts with an empty store. The remains of the old store are renamed
    and kept.

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
        _set_up_again(directory.absolute(), production=production, server_id=server_id, as_json=as_json)
        return
    if production and server_id is None:
        raise WrongInput("--production needs --server-id", "Give the host name that clients will use.")
    servers = wanted.read(None)
    for note in servers.notes:
        print_note(f"note: {note}")
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
        operator=_ask_or_default("Operator (who runs this host)", operator, server_id or "localhost", as_json),
        contact=_ask_or_default("Contact", contact, f"postmaster@{server_id or 'localhost'}", as_json),
    )
    if deployment.host_toml.exists():
        raise WrongInput(f"{deployment.host_toml} exists", "Choose another directory, or edit that file.")
    try:
        with local_file(doing="written"):
            written = write_production(deployment) if production else write_development(deployment)
    except ConfigurationError as error:
        raise configuration_error(error) from None
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
    """Refuse options of trial hosts for production."""
    if sample:
        raise WrongInput("--sample is for development", "Leave out --production or --sample.")
    if gateway:
        raise WrongInput("--gateway is for development", "Write the section [gateway] as `agtp docs gateway` explains.")


def _ask_or_default(question: str, given: str | None, otherwise: str, as_json: bool) -> str:
    """Return the value of an option, or else an answer from the terminal, or else the default."""
    if given is not None:
        return given
    if as_json or not (sys.stdin.isatty() and sys.stdout.isatty()):
        return otherwise
    answer: str = click.prompt(question, default=otherwise)
    return answer


def _set_up_again(directory: Path, *, production: bool, server_id: str | None, as_json: bool) -> None:
    """Set up a production host again with an empty store."""
    from agtphost.config import examine

    file = directory / "host.toml"
    if not production:
        raise WrongInput("--again needs --production", "A development host creates missing files at its start.")
    try:
        config = examine(file).config
        if server_id not in (None, config.host.server_id):
            raise WrongInput(
                f"--server-id {server_id} differs from the server_id {config.host.server_id} in {file}", "Leave it out."
            )
        deployment = Deployment(
            directory=directory, server_id=config.host.server_id, address="", port=config.listen.port, servers=()
        )
        aside, keys = set_up_again(deployment)
    except ConfigurationError as error:
        raise configuration_error(error) from None
    except StoreError as error:
        raise WrongInput(str(error)) from None
    except OSError as error:
        raise WrongInput(f"{error.filename} cannot be written: {explain(error)}") from error
    if as_json:
        listed = {"aside": [str(path) for path in aside], "there": [str(path) for path in keys]}
        print_json({"host_toml": str(file), **listed})
        return
    for path in aside:
        click.echo(f"renamed to {path}")
    click.echo(f"{config.host.server_id} starts with an empty store; check the host with `agtp check {file}`")


GATEWAY_NOTES = f"""
Over HTTP, while it runs:
  curl -i -X DISCOVER http://127.0.0.1:{USUAL_GATEWAY}/methods -H "Authorization: Bearer $(cat {TOKEN_FILE})\""""

PRODUCTION_NOTES = """
The authority's key (state/ca.key) and the registrar's (state/registrar.key) issue agents.
The host does not need them to run: store them elsewhere afterwards.
For a server certificate of your own authority, replace state/server.pem and
state/server.key; state/ca.pem stays the authority of client certificates.

To admit a caller:
  agtp agent new NAME --scope mcp:tools:execute --owner OWNER"""
