"""``agtp check``: everything that would keep a host from starting, at once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from agtphost.cli.failures import WrongInput, misconfigured
from agtphost.cli.options import EXISTING, Connection, json_option
from agtphost.cli.output import print_json
from agtphost.cli.reach import NO_HOST, find_config, load_config
from agtphost.errors import ConfigurationError, Problem

if TYPE_CHECKING:
    from agtphost.config import Config


@click.command()
@click.argument("file", type=EXISTING, required=False, metavar="[HOST.TOML]")
@json_option
def command(file: Path | None, as_json: bool) -> None:
    """
    Validate a host.toml and everything it names: all problems, with file, line and hint.

    Exit status 0 if the host would start, 2 if not.

    \b
    Examples:
      agtp check host.toml
      agtp check --json
    """
    path = find_config(Connection(config=file))
    if path is None:
        raise WrongInput("no host.toml is named", NO_HOST)
    config = load_config(path)
    problems = [*agent_problems(config), *endpoint_problems(config)]
    if problems:
        raise misconfigured(ConfigurationError(problems))
    if as_json:
        print_json({"file": str(config.file), "problems": []})
    else:
        servers = len(config.mcp.server)
        click.echo(f"{config.file}: sound ({config.host.profile}, MCP servers: {servers})")


def agent_problems(config: Config) -> Iterator[Problem]:
    """What is wrong with the agents' documents."""
    from agtphost.identity.agents import load_agents
    from agtphost.identity.keys import VerifyingKey
    from agtphost.identity.provisioning import AgentDescription, ProvisioningError, descriptions_in
    from agtphost.identity.trust import issuer_keys

    issuers: frozenset[VerifyingKey] = issuer_keys(config.identity.trusted_issuers, config.folder)
    for directory, hosted in ((config.identity.agents, True), (config.identity.known_agents, False)):
        if directory is None or not directory.is_dir():
            continue
        _, problems = load_agents(
            directory,
            hosted=hosted,
            production=not config.host.development,
            trusted_issuers=frozenset() if config.host.development else issuers,
        )
        yield from problems
        if config.host.development and hosted:
            for path in descriptions_in(directory):
                try:
                    AgentDescription.read(path.read_bytes(), path.name.removesuffix(".agent.json"))
                except ProvisioningError as error:
                    yield Problem(message=str(error), file=str(path))


def endpoint_problems(config: Config) -> Iterator[Problem]:
    """What is wrong with the operator's endpoints."""
    from agtphost.contract.loading import load_endpoints

    if config.endpoints.directory is None or config.endpoints.on_error == "skip":
        return
    _, problems = load_endpoints(config.endpoints.directory)
    yield from problems
