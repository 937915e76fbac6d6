"""``agtp agent new``: issuing an agent with the keys that lie with a host."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING

import click

from agtphost.cli.configured import require_config
from agtphost.cli.failures import WrongInput
from agtphost.cli.key import load_signing_key
from agtphost.cli.options import EXISTING, Connection, json_option
from agtphost.cli.output import print_json, print_summary
from agtphost.identity.certificates import Authority, CertificateError
from agtphost.identity.extensions import ARCHETYPES
from agtphost.identity.provisioning import AgentDescription, ProvisioningError, issue_agent
from agtphost.vocabulary.identifiers import is_agent_name

if TYPE_CHECKING:
    from agtphost.config import Config


@click.command("new")
@click.argument("name", metavar="NAME")
@click.option("--description", default="", help="What it does, for people.")
@click.option("--owner", default=None, metavar="TEXT", help="The responsible person or organization.")
@click.option("--owner-id", default=None, metavar="ID", help="The same for machines.")
@click.option(
    "--archetype", type=click.Choice(sorted(ARCHETYPES)), default="assistant", show_default=True, help="Kind."
)
@click.option("--zone", default=None, metavar="ZONE", help="Governance zone, such as zone:sales.")
@click.option("--scope", "scopes", multiple=True, metavar="TOKEN", help="What it may do; may be repeated.")
@click.option("--hosted", is_flag=True, help="An agent that this host answers for, not a caller.")
@click.option("--config", type=EXISTING, metavar="FILE", help="The host.toml.")
@json_option
def new_command(
    name: str,
    description: str,
    owner: str | None,
    owner_id: str | None,
    archetype: str,
    zone: str | None,
    scopes: tuple[str, ...],
    hosted: bool,
    config: Path | None,
    as_json: bool,
) -> None:
    """
    Issue an agent with this host's keys.

    Its Genesis and Identity Document are signed with the registrar's key; a
    caller gets a key and a client certificate besides. The host admits it once
    it is restarted.

    \b
    Examples:
      agtp agent new buyer --scope booking:* --scope mcp:tools:execute --owner "Example Ltd"
      agtp tools ls --as buyer
    """
    settings = require_config(Connection(config=config), "issuing an agent")
    registrar = load_signing_key(settings.host.state_dir / "registrar.key")
    parent = settings.identity.agents if hosted else settings.identity.known_agents
    if parent is None:
        raise WrongInput("[identity] agents names no directory of hosted agents")
    if not is_agent_name(name):
        raise WrongInput("the agent cannot be issued: a name is 1 to 64 letters, digits, '-' or '_'")
    if (parent / name).exists():
        raise WrongInput(f"{parent / name} exists", "An agent is never issued again: choose another name.")
    given = {"owner_id": owner_id or owner, "principal": owner, "governance_zone": zone}
    described = AgentDescription(
        name=name,
        description=description,
        archetype=archetype,
        scopes=scopes,
        **{key: value for key, value in given.items() if value is not None},  # type: ignore[arg-type]
    )
    try:
        issued = issue_agent(
            parent / name,
            described,
            registrar,
            issuer=f"registrar.{settings.host.server_id}",
            authority=None if hosted else _authority(settings),
        )
    except (ProvisioningError, OSError) as error:
        with contextlib.suppress(OSError):  # Only an empty directory goes.
            (parent / name).rmdir()
        raise WrongInput(f"the agent cannot be issued: {error}") from None
    fields: dict[str, object] = {
        "name": name,
        "agent_id": issued.agent_id,
        "directory": str(issued.directory),
        "certificate": str(issued.certificate) if issued.certificate.is_file() else None,
    }
    if as_json:
        print_json(fields)
        return
    print_summary(fields)
    if not hosted and fields["certificate"] is None:
        click.echo("the authority's key is not here: `agtp cert issue agent` makes the certificate", err=True)
    click.echo("restart the host to admit it", err=True)


def _authority(config: Config) -> Authority | None:
    certificate = config.tls.client_ca
    key = certificate.with_suffix(".key")
    if not (certificate.is_file() and key.is_file()):
        return None
    try:
        return Authority.load(certificate, key)
    except CertificateError as error:
        raise WrongInput(str(error)) from None
