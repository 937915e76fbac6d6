"""Everything that can be read and checked before anything is started: all problems at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from twisted.logger import Logger

from agtphost.config import Config
from agtphost.contract.binding import Binding
from agtphost.contract.declaration import Rules
from agtphost.contract.endpoint import Endpoint
from agtphost.contract.policy import MethodPolicy, read_policy
from agtphost.contract.reserved import RESERVED
from agtphost.errors import ConfigurationError, Problem
from agtphost.host import agents, bindings
from agtphost.identity.agents import AgentDirectory, distinct
from agtphost.identity.keys import KeyFormatError, SigningKey, exposed
from agtphost.identity.provisioning import ProvisioningError, provision_development
from agtphost.protocols.tls import ServerTLS, TLSFiles
from agtphost.vocabulary.catalog import Catalog, CatalogError

log = Logger()


@dataclass(frozen=True, kw_only=True)
class Materials:
    """What a host is built from, checked."""

    config: Config
    catalog: Catalog
    policy: MethodPolicy
    directory: AgentDirectory
    endpoints: Sequence[Endpoint]
    bound: Sequence[Binding]
    """The endpoints with their handlers."""

    key: SigningKey | None
    tls: ServerTLS


def gather(config: Config) -> Materials:
    """
    Read and check everything; in the development profile, make what is missing first.

    :raises ConfigurationError: with every problem found.
    """
    problems: list[Problem] = []
    if config.host.development:
        _provision(config)
    catalog = _catalog(config, problems)
    admitted, clashes = distinct(agents.load(config, problems))
    problems.extend(clashes)
    directory = AgentDirectory(admitted)
    custom = _custom(config, catalog)
    endpoint_problems: list[Problem] = []
    endpoints, bound = bindings.endpoints(
        config,
        Rules(catalog=catalog, custom=custom, reserved=RESERVED, relaxed=_relaxed(config)),
        directory,
        endpoint_problems,
    )
    if config.endpoints.on_error == "skip":
        for problem in endpoint_problems:
            log.error("an endpoint is left out: {problem}", problem=str(problem))
    else:
        problems.extend(endpoint_problems)
    policy = _policy(config, catalog, custom, endpoints, problems)
    key = _key(config, problems)
    tls = _tls(config, problems)
    if problems or tls is None:
        raise ConfigurationError(problems)
    return Materials(
        config=config,
        catalog=catalog,
        policy=policy,
        directory=directory,
        endpoints=endpoints,
        bound=bound,
        key=key,
        tls=tls,
    )


def _relaxed(config: Config) -> bool:
    """Whether endpoints accept callers known by header alone unless they say otherwise (design decision 4)."""
    relaxed = config.host.development and config.listen.loopback
    if relaxed:
        log.warn("profile development on loopback: endpoints accept callers known by Agent-ID alone by default")
    return relaxed


def _provision(config: Config) -> None:
    """The first start of the development profile (interface section 1)."""
    try:
        provision_development(
            config.host.state_dir, server_id=config.host.server_id, hosted=agents.descriptions(config)
        )
    except (ProvisioningError, OSError) as error:
        raise ConfigurationError([Problem(message=str(error), file=str(config.host.state_dir))]) from None


def _catalog(config: Config, problems: list[Problem]) -> Catalog:
    path = config.catalog.path
    try:
        return Catalog.load(path)
    except CatalogError as error:
        problems.extend(Problem(message=fault, file=str(path)) for fault in error.faults)
    except OSError as error:
        problems.append(Problem(message=f"it cannot be read: {error.strerror}", file=str(path)))
    return Catalog.load(None)


def _custom(config: Config, catalog: Catalog) -> Sequence[str]:
    """Methods beyond the catalog that the operator declares (AGTP-API section 3.3)."""
    return [method for method in config.policies.methods.custom if not catalog.knows(method)]


def _policy(
    config: Config,
    catalog: Catalog,
    custom: Sequence[str],
    endpoints: Sequence[Endpoint],
    problems: list[Problem],
) -> MethodPolicy:
    given = config.policies.methods
    reading = read_policy(
        catalog,
        allow=given.allow,
        disallow=given.disallow,
        legacy=given.legacy,
        aliases=given.aliases,
        redirects=given.redirects,
        custom=custom,
        registered={endpoint.method for endpoint in endpoints},
    )
    problems.extend(reading.errors)
    for warning in reading.warnings:
        log.warn("policies.methods: {warning}", warning=str(warning))
    return reading.policy


def _key(config: Config, problems: list[Problem]) -> SigningKey | None:
    if not config.audit.signing:
        return None
    path = config.audit.key
    try:
        if exposed(path):
            problems.append(
                Problem(message="others can read the signing key", file=str(path), hint=f"chmod 600 {path}")
            )
        return SigningKey.load(path)
    except FileNotFoundError:
        problems.append(
            Problem(message="the signing key is missing", file=str(path), hint="run `agtp init --production`")
        )
    except (KeyFormatError, OSError) as error:
        problems.append(Problem(message=str(error)))
    return None


def _tls(config: Config, problems: list[Problem]) -> ServerTLS | None:
    asks = config.tls.client_auth != "none"
    try:
        return ServerTLS.load(
            TLSFiles(
                certificate=config.tls.certificate,
                key=config.tls.key,
                client_auth=config.tls.client_auth,
                client_ca=config.tls.client_ca if asks else None,
            )
        )
    except ConfigurationError as error:
        problems.extend(error.problems)
    return None
