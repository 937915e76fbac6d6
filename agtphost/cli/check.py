"""``agtp check``: everything that would keep a host from starting, at once."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from agtphost.cli.configured import NO_HOST, find_config, load_config
from agtphost.cli.failures import WrongInput, misconfigured
from agtphost.cli.options import EXISTING, Connection, json_option
from agtphost.cli.output import print_json
from agtphost.errors import ConfigurationError, Problem

if TYPE_CHECKING:
    from agtphost.config import Config
    from agtphost.contract.declaration import Rules
    from agtphost.contract.endpoint import Endpoint


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
    problems = [*agent_problems(config), *contract_problems(config), *override_problems(config)]
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
    from agtphost.identity.provisioning import AgentDescription, ProvisioningError, descriptions_in
    from agtphost.identity.trust import TrustedIssuers, trusted_issuers

    identity = config.identity
    issuers = trusted_issuers(
        identity.trusted_issuers,
        identity.registrars,
        config.folder,
        anchored=[anchor.value for anchor in identity.anchor if anchor.type == "key" and anchor.value],
        awaited=any(anchor.type == "oidc" for anchor in identity.anchor),
    )
    for directory, hosted in ((config.identity.agents, True), (config.identity.known_agents, False)):
        if directory is None or not directory.is_dir():
            continue
        _, problems = load_agents(
            directory,
            hosted=hosted,
            production=not config.host.development,
            trusted_issuers=TrustedIssuers() if config.host.development else issuers,
        )
        yield from problems
        if config.host.development and hosted:
            for path in descriptions_in(directory):
                try:
                    AgentDescription.read(path.read_bytes(), path.name.removesuffix(".agent.json"))
                except ProvisioningError as error:
                    yield Problem(message=str(error), file=str(path))


def unresolved(config: Config, endpoints: Sequence[Endpoint]) -> Iterator[Problem]:
    """Endpoints whose functions cannot be imported, as the host will import them, or whose secrets are missing."""
    from agtphost.config.service_secrets import headers_of
    from agtphost.handlers.function import UnresolvableFunction, resolve

    _make_importable(config)
    for endpoint in endpoints:
        handler = endpoint.handler
        try:
            if handler.service is not None:
                headers_of(handler.service, os.environ, Path(endpoint.file).parent)
            elif handler.function:
                resolve(handler.function)
        except (UnresolvableFunction, ValueError) as error:
            yield Problem(message=f"{endpoint.name}: {error}", file=endpoint.file, line=endpoint.line)


def override_problems(config: Config) -> Iterator[Problem]:
    """Functions of ``[policies.builtins]`` that cannot be imported, as the host will import them."""
    from agtphost.handlers.function import UnresolvableFunction, resolve

    if config.policies.builtins:
        _make_importable(config)
    for path, dotted in config.policies.builtins.items():
        try:
            resolve(dotted)
        except UnresolvableFunction as error:
            yield Problem(message=f"[policies.builtins] {path}: {error}", file=str(config.file))


def _make_importable(config: Config) -> None:
    """Functions are looked for in the operator's directories first."""
    for path in config.endpoints.python_path:
        if str(path) not in sys.path:
            sys.path.insert(0, str(path))


def unsettled(config: Config, endpoints: Sequence[Endpoint], rules: Rules) -> Sequence[Problem]:
    """What is wrong with the recipes, and with the endpoints made of them."""
    from agtphost.contract import recipe_settling

    problems: list[Problem] = []
    recipes = recipe_settling.read(config.recipes.file, rules, problems)
    recipe_settling.settle(recipes, endpoints, rules.reserved, problems)
    return problems


def contract_problems(config: Config) -> Iterator[Problem]:
    """What is wrong with the catalog, the method policy and the operator's endpoints."""
    from agtphost.contract.declaration import Rules
    from agtphost.contract.loading import lasting, load_endpoints
    from agtphost.contract.policy import read_policy
    from agtphost.contract.reserved import RESERVED
    from agtphost.vocabulary.catalog_set import read_catalogs

    methods = config.policies.methods
    catalogs, faults = read_catalogs(
        config.catalog.path, config.catalog.versions, config.catalog.profiles, methods.profiles
    )
    for fault in faults:
        file = config.file if fault.file is None else fault.file
        yield Problem(message=f"the method catalog is wrong: {fault.message}", file=str(file), hint=fault.hint)
    if faults:
        return
    catalog = catalogs.primary
    custom = [*methods.custom, *sorted(catalogs.profile_methods)]
    registered = set(catalogs.superseded)
    if config.endpoints.directory is not None:
        rules = Rules(
            catalog=catalog,
            custom=catalogs.superseded.union(custom),
            removed=catalogs.removed,
            reserved=RESERVED,
        )
        directory = config.endpoints.directory

        def find(by: Rules) -> list[Problem]:
            endpoints, problems = load_endpoints(directory, by)
            registered.update(endpoint.method for endpoint in endpoints)
            return [*problems, *unresolved(config, endpoints), *unsettled(config, endpoints, by)]

        found = find(rules)
        if config.endpoints.on_error == "refuse":
            yield from lasting(found, rules, find)
    reading = read_policy(
        catalog,
        allow=methods.allow,
        disallow=methods.disallow,
        legacy=methods.legacy,
        aliases=methods.aliases,
        redirects=methods.redirects,
        custom=custom,
        registered=registered,
    )
    for problem in reading.errors:
        yield replace(problem, file=str(config.file))
