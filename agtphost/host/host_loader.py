"""Read and check everything before anything is started, and report all problems together."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from twisted.logger import Logger

from agtphost.config import Config, line_of, problems_in
from agtphost.config.file_access import access_warnings
from agtphost.contract.declaration import Rules
from agtphost.contract.endpoint import Endpoint
from agtphost.contract.endpoint_loading import causes, lasting_problems
from agtphost.contract.policy import MethodPolicy, read_policy
from agtphost.contract.recipes.book import RecipeBook
from agtphost.contract.recipes.selection import NEVER
from agtphost.contract.reserved import RESERVED
from agtphost.errors import ConfigurationError, Problem
from agtphost.handlers.interface import IHandler
from agtphost.host import agents, bindings
from agtphost.host.feature_loading import HOST_FEATURES, LoadedFeature, load_features
from agtphost.host.handler_factory import Bindable
from agtphost.host.plugins import Plugins, make_plugins
from agtphost.host.reload_plan import HANDLERS, TLS_FILES, Inventory, stamp_endpoint_files, stamp_modules
from agtphost.host.start_files import UntakenChange, as_read, stamp_files
from agtphost.http.tls import ListenerTls
from agtphost.identity.agent_files import AS_ISSUED
from agtphost.identity.agents import Agent, distinct
from agtphost.identity.authorities import Mandate
from agtphost.identity.description_update import follow_descriptions
from agtphost.identity.directory import AgentDirectory
from agtphost.identity.key_history import HostKey
from agtphost.identity.keys import KeyFormatError, SigningKey, is_exposed
from agtphost.identity.provisioning import ProvisioningError, provision_development
from agtphost.identity.trust import issuer_keys
from agtphost.methods.cognitive.documents import ReadableDocument, read_documents
from agtphost.methods.discovery.agis_service import document_problems
from agtphost.methods.standard.bindings import collection_faults, table_problems
from agtphost.negotiation.graph import EndpointGraph
from agtphost.protocols.tls import ServerTLS
from agtphost.search.configured_engines import model_of
from agtphost.search.models import Model
from agtphost.vocabulary.catalog import Catalog
from agtphost.vocabulary.catalog_set import CatalogSet, read_catalogs
from agtphost.vocabulary.foreign_errors import explain, original_of

log = Logger()


@dataclass(frozen=True, kw_only=True)
class LoadedHost:
    """The checked configuration of a host, with everything it names."""

    config: Config
    catalogs: CatalogSet
    policy: MethodPolicy
    directory: AgentDirectory
    endpoints: Sequence[Endpoint]
    bound: Sequence[Bindable]
    """The endpoints with what their handlers need."""

    recipes: RecipeBook
    documents: Sequence[ReadableDocument]
    """The documents that QUERY and SUMMARIZE may read."""

    overrides: Mapping[str, IHandler]
    """The operator's handlers of built-in DISCOVER paths."""

    plugins: Plugins
    """What the operator's own packages provide."""

    features: Sequence[LoadedFeature]
    """The features that the configuration switches on."""

    model: Model | None
    """The model that searches use, if it runs on this host."""

    key: SigningKey | None
    tls: ServerTLS
    signing_keys: Mapping[str, SigningKey] = field(default_factory=dict)
    """The keys of ``[[methods.signing_key]]``, by name."""

    volatile: bool = False
    """Whether the host keeps nothing in files, and its state ends with the process: for tests."""

    warnings: tuple[str, ...] = ()
    """What its operator should know, as it was read."""

    files: Inventory = field(default_factory=dict)
    """The files of :mod:`agtphost.host.start_files`, as they were before they were read; empty for none."""

    https: Mapping[str, ListenerTls] = field(default_factory=dict)
    """TLS of HTTP listeners by their services, if it was read already, as on a standby."""

    untaken: UntakenChange | None = None
    """What of the files has changed and was not taken when this host took over; None for nothing."""

    remembered: Mapping[Path, bytes] = field(default_factory=dict, repr=False)
    """Files that only the assembly reads, as they were when it was tried."""

    left_out: frozenset[str] = frozenset()
    emptied: frozenset[str] = frozenset()
    """Labels of hosted agents that a takeover left out, as they are reserved; keys that named them and now wait."""

    @property
    def catalog(self) -> Catalog:
        """Return the catalog that validates requests unless they ask for another version."""
        return self.catalogs.primary

    @cached_property
    def graph(self) -> EndpointGraph:
        """
        Return the graph of endpoints for syntheses. It is built once: with thousands of endpoints it takes tens of
        milliseconds.
        """
        return EndpointGraph([endpoint for endpoint in self.endpoints if endpoint.method not in NEVER])


class ProblemsByPart(dict[str, list[Problem]]):
    """The problems of each part of a configuration, in the order in which the parts are read, and warnings."""

    def __init__(self) -> None:
        super().__init__()
        self.warnings: list[str] = []

    def __missing__(self, part: str) -> list[Problem]:
        return self.setdefault(part, [])


TABLES_OF_PART: Mapping[str, frozenset[str]] = {
    "catalog": frozenset({"catalog", "policies"}),
    "identity": frozenset({"identity", "host"}),
    "endpoints": frozenset({"endpoints", "recipes", "catalog", "policies", "identity", "host"}),
    "policies": frozenset({"policies", "catalog", "endpoints", "recipes"}),
    "agis": frozenset({"agis", "endpoints", "recipes", "policies"}),
    "plugins": frozenset({"gate", "adapter", "observer", "audit", "store"}),
    "features": frozenset({"feature", *HOST_FEATURES}),
    "query": frozenset({"query"}),
    "search": frozenset({"search"}),
    "methods": frozenset({"methods"}),
    "audit": frozenset({"audit", "host"}),
    "tls": frozenset({"tls", "host", "identity"}),
}
"""The tables of the configuration that each part is built from."""


def load_host(config: Config, environ: Mapping[str, str] = os.environ, issued: list[Path] | None = None) -> LoadedHost:
    """
    Read and check everything; in the development profile, create missing keys and documents first.

    :param environ: has the secrets of external services.
    :param issued: collects the folders of agents that are issued.
    :raises ConfigurationError: with every problem found.
    """
    parts = ProblemsByPart()
    loaded = check_host(config, environ, parts, issued)
    if loaded is None:
        raise ConfigurationError([problem for part in parts.values() for problem in part])
    return loaded


def check_host(
    config: Config, environ: Mapping[str, str], parts: ProblemsByPart, issued: list[Path] | None = None
) -> LoadedHost | None:
    """
    Read and check everything, and collect problems by part.

    :param parts: collects problems.
    :param issued: collects the folders of agents that are issued.
    :return: None if there are any.
    """
    parts.warnings += access_warnings(config)
    made = not config.host.development or provision(config, parts["identity"], issued)
    files = as_read(stamp_files(config, None), config)
    catalogs = catalogs_of(config, parts["catalog"])
    admitted, clashes = distinct(agents.load(config, parts["identity"]))
    parts["identity"].extend(clashes)
    log_agent_notes(admitted)

    def identity() -> HostIdentity:
        # If keys could not be created, that problem was reported; that they are missing is not reported too.
        return (_key(config, parts["audit"]), tls_of(config, parts["tls"])) if made else (None, None)

    loaded = combine(config, catalogs, environ, parts, directory=AgentDirectory(admitted), identity=identity)
    for warning in parts.warnings:
        log.warn("{warning}", warning=warning)
    if loaded is None:
        return None
    # Reading imports modules. One that was imported before is not imported again.
    imported = {**stamp_modules(config), **files[HANDLERS]}
    read = {HANDLERS: imported, TLS_FILES: loaded.tls.read, **stamp_endpoint_files(loaded.endpoints)}
    return replace(loaded, files={**files, **read})


HostIdentity = tuple[SigningKey | None, ServerTLS | None]
"""The signing key of a host and its TLS; a host cannot start without the latter."""


def combine(
    config: Config,
    catalogs: CatalogSet,
    environ: Mapping[str, str],
    parts: ProblemsByPart,
    *,
    directory: AgentDirectory,
    identity: Callable[[], HostIdentity],
    given: bindings.ExtraEndpoints | None = None,
    provided: Plugins | None = None,
    volatile: bool = False,
) -> LoadedHost | None:
    """
    Read and check what a configuration names, other than catalogs, agents and keys.

    :param parts: collects problems.
    :param identity: returns key and TLS; called last.
    :param given: endpoints from outside the endpoint files, and the resolver of their functions.
    :param provided: plugins that are made already.
    :param volatile: whether the host keeps nothing in files.
    :return: None if there are any problems.
    """
    custom = _custom_methods(config, catalogs)
    endpoint_problems: list[Problem] = []
    rules = Rules(
        catalog=catalogs.primary,
        custom=frozenset(custom) | catalogs.superseded_methods,
        removed=catalogs.removed,
        reserved=RESERVED,
        relaxed=_accepts_headers(config, parts.warnings),
        irreversible_approved=config.approvals.irreversible,
    )
    endpoints, bound, book = bindings.load_bound_endpoints(config, rules, directory, endpoint_problems, environ, given)

    def find(other: Rules) -> list[Problem]:
        found: list[Problem] = []
        bindings.load_bound_endpoints(config, other, directory, found, environ, given)
        return found

    # Removed methods are reported and never keep a host from starting (AGTP-API section 4.5).
    remaining = lasting_problems(endpoint_problems, rules, find)
    _log_omitted(problem for problem in endpoint_problems if problem not in remaining)
    endpoint_problems = remaining
    if config.endpoints.on_error == "skip":
        _log_omitted(endpoint_problems)
    else:
        parts["endpoints"].extend(causes(endpoint_problems))
    parts["agis"].extend(document_problems(config, endpoints))
    parts["endpoints"].extend(_procedure_problems(config, book))
    policy = _policy(config, catalogs, custom, endpoints, parts)
    overrides = bindings.builtin_overrides(config, parts["policies"], given)
    provided = make_plugins(config, parts["plugins"], getattr(given, "plugins", None)) if provided is None else provided
    features = load_features(config, parts["features"], getattr(given, "features", None))
    documents = _documents(config, parts["query"])
    model = model_of(config, parts["search"])
    parts["policies"].extend(problems_in(config.file, collection_faults(config.methods)))
    parts["endpoints"].extend(table_problems(config.methods, endpoints))
    keys = organization_keys(config, parts["methods"])
    key, tls = identity()
    if any(parts.values()) or tls is None:
        return None
    return LoadedHost(
        config=config,
        catalogs=catalogs,
        policy=policy,
        directory=directory,
        endpoints=endpoints,
        bound=bound,
        recipes=book,
        documents=documents,
        overrides=overrides,
        plugins=provided,
        features=features,
        model=model,
        key=key,
        tls=tls,
        signing_keys=keys,
        volatile=volatile,
        warnings=tuple(parts.warnings),
    )


def _procedure_problems(config: Config, book: RecipeBook) -> Iterator[Problem]:
    """Yield the problems of the procedures that RUN knows."""
    for name, reference in config.methods.procedures.items():
        recipe = book.find(reference)
        if recipe is None:
            yield Problem(
                message=f"[methods.procedures] {name}: the recipe {reference[:80]} does not exist",
                file=str(config.file),
                hint="define it in the file of [recipes] file, or correct the name",
            )
        elif book.needs(recipe).approval or recipe.approval:
            yield Problem(
                message=f"[methods.procedures] {name}: a person approves each call of {reference[:80]}",
                file=str(config.file),
                hint="bind the recipe to a separate RUN endpoint, which asks for the approval",
            )


def log_agent_notes(found: Iterable[Agent]) -> None:
    """Log what an operator should know of agents: unknown roles, untrusted issuers, postures by default."""
    for agent in found:
        for told, notes in ((log.info, agent.posture.sources), (log.warn, agent.notes)):
            for note in notes:
                told("agent {name}: {note} ({file})", name=agent.name, note=note, file=agent.file)


def _accepts_headers(config: Config, warnings: list[str]) -> bool:
    """Return whether endpoints accept callers known by header only unless they say otherwise (design decision 4)."""
    relaxed = config.host.development and config.listen.loopback
    if relaxed:
        warnings.append("profile development on loopback: endpoints accept callers known by Agent-ID alone by default")
    return relaxed


def provision(config: Config, problems: list[Problem], issued: list[Path] | None = None) -> bool:
    """
    Prepare the first start of the development profile (interface section 1).

    :param issued: collects the folders of agents that it issues.
    :return: whether the host's own keys and certificates exist.
    """
    try:
        state_dir, server_id, described = config.host.state_dir, config.host.server_id, agents.find_descriptions(config)
        listened = config.listen.address
        provision_development(state_dir, server_id=server_id, hosted=described, listened=listened, issued=issued)
        follow_descriptions(state_dir, server_id=server_id, hosted=described)
    except (ProvisioningError, OSError) as error:
        faulty = error.descriptions if isinstance(error, ProvisioningError) else ()
        for path, why in faulty:
            hint = "write another name" if why.startswith("name: ") else AS_ISSUED
            problems.append(Problem(message=why, file=str(path), hint=hint))
        if not faulty:
            hint = "restore the file from a backup; a missing file is created again in development"
            problems.append(
                Problem(message=explain(error), file=str(config.host.state_dir), hint=hint, original=original_of(error))
            )
        return bool(faulty)
    return True


def catalogs_of(config: Config, problems: list[Problem]) -> CatalogSet:
    """
    Return the catalogs of ``[catalog]``.

    :param problems: collects problems.
    """
    found, faults = read_catalogs(
        config.catalog.path, config.catalog.versions, config.catalog.profiles, config.policies.methods.profiles
    )
    for fault in faults:
        file = config.file if fault.file is None else fault.file
        problems.append(Problem(message=fault.message, file=str(file), hint=fault.hint))
    return found


def _custom_methods(config: Config, catalogs: CatalogSet) -> Sequence[str]:
    """Return the methods beyond the catalog: the operator's own, and those of its profiles (AGTP-API section 3.3)."""
    own = [method for method in config.policies.methods.custom if not catalogs.primary.knows(method)]
    return [*own, *sorted(catalogs.profile_methods - set(own))]


def _log_omitted(left_out: Iterable[Problem]) -> None:
    for problem in left_out:
        log.error("an endpoint is left out: {problem}", problem=str(problem))


def _policy(
    config: Config,
    catalogs: CatalogSet,
    custom: Sequence[str],
    endpoints: Sequence[Endpoint],
    parts: ProblemsByPart,
) -> MethodPolicy:
    reading = read_policy(
        catalogs.primary,
        config.policies.methods,
        custom=custom,
        registered=catalogs.superseded_methods.union(endpoint.method for endpoint in endpoints),
        wildcards_accepted=config.policies.wildcards_accepted,
    )
    parts["policies"].extend(replace(error, file=error.file or str(config.file)) for error in reading.errors)
    parts.warnings += map(str, reading.warnings)
    return reading.policy


def _documents(config: Config, problems: list[Problem]) -> Sequence[ReadableDocument]:
    folder = config.query.documents
    if folder is None:
        return ()
    if not os.path.isdir(folder):  # also False for a name that no file can have
        hint = "name a directory" if os.path.exists(folder) else "create the directory"
        message = f"[query] documents is not a directory: {str(folder)[:200]}"
        line = line_of(config.file, ("query", "documents"))
        problems.append(Problem(message=message, file=str(config.file), line=line, hint=hint))
        return ()
    return read_documents(folder, problems)


def _key(config: Config, problems: list[Problem]) -> SigningKey | None:
    if not config.audit.signing:
        return None
    path = config.audit.key
    try:
        if is_exposed(path):
            problems.append(
                Problem(message="other users can read the signing key", file=str(path), hint=f"run: chmod 600 {path}")
            )
        return HostKey.of_host(path, config.host.state_dir)
    except FileNotFoundError:
        problems.append(
            Problem(
                message="the signing key is missing",
                file=str(path),
                hint="run `agtp init --production`, which creates it",
            )
        )
    except (KeyFormatError, OSError) as error:
        problems.append(Problem(message=explain(error), original=original_of(error)))
    return None


def organization_keys(config: Config, problems: list[Problem]) -> dict[str, SigningKey]:
    """
    Read the keys of ``[[methods.signing_key]]``, by name.

    :param problems: collects problems.
    """
    found: dict[str, SigningKey] = {}
    own = _own_keys(config) if config.methods.signing_key else {}
    for number, each in enumerate(config.methods.signing_key):
        line = line_of(config.file, ("methods", "signing_key", number, "key"))
        where = f'[[methods.signing_key]] "{each.name}"'
        message, hint = "", ""
        try:
            found[each.name] = SigningKey.load(each.key)
            if is_exposed(each.key):
                message, hint = f"other users can read its key: {each.key}", f"run: chmod 600 {each.key}"
            elif (of := own.get(found[each.name].public.fingerprint)) is not None:
                message, hint = f"its key is also {of}", "make a key for it alone with `agtp key new`"
        except FileNotFoundError:
            message, hint = f"its key is missing: {each.key}", f"run `agtp key new {each.key}`"
        except (KeyFormatError, OSError) as error:
            message, hint = explain(error), "name a file with an Ed25519 key in PKCS#8 PEM, as `agtp key new` writes it"
        if message:
            problems.append(Problem(message=f"{where}: {message}", file=str(config.file), line=line, hint=hint))
    return found


def _own_keys(config: Config) -> Mapping[str, str]:
    """Return what keys of this host are for, by fingerprint: callers must not choose what such a key signs."""
    registrar = config.host.state_dir / "registrar.key"
    found: dict[str, str] = {}
    for path, of in ((config.audit.key, "the key of this host's records"), (registrar, "the registrar's")):
        with suppress(KeyFormatError, OSError):  # Where it is needed, it is reported that it cannot be read.
            found[SigningKey.load(path).public.fingerprint] = of
    return found


def read_mandates(config: Config) -> Sequence[Mandate]:
    """
    Return the zones and issuers that each client authority may certify; empty if one authority vouches for all.

    :raises ConfigurationError: a key of an issuer can no longer be read.
    """
    try:
        return [
            Mandate(
                zones=frozenset(authority.zones),
                issuers=frozenset(key.fingerprint for key in issuer_keys(authority.issuers, config.folder)),
            )
            for authority in config.tls.client_authority
        ]
    except (KeyFormatError, OSError) as error:
        raise ConfigurationError(
            [
                Problem(
                    message=f"[[tls.client_authority]] issuers: {explain(error)}",
                    original=original_of(error),
                    file=str(config.file),
                )
            ]
        ) from error


def tls_of(config: Config, problems: list[Problem]) -> ServerTLS | None:
    """
    Return the TLS of the host, or None if it has problems.

    :param problems: collects problems.
    """
    try:
        return ServerTLS.load(config.tls, read_mandates(config))
    except ConfigurationError as error:
        problems.extend(error.problems)
        return None
