"""Read and check a new configuration in a thread, completely, before anything is built from it."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from importlib import invalidate_caches
from pathlib import Path

from agtphost.config import Config, load
from agtphost.config.file_access import access_warnings
from agtphost.config.reloadable_keys import merge_reloadable
from agtphost.errors import ConfigurationError, Problem
from agtphost.handlers.modules import ModuleSet
from agtphost.host import agents
from agtphost.host.bindings import ExtraEndpoints
from agtphost.host.host_loader import (
    HostIdentity,
    LoadedHost,
    ProblemsByPart,
    combine,
    log_agent_notes,
    provision,
    tls_of,
)
from agtphost.host.reload_plan import (
    HANDLERS,
    SIGNING_KEY,
    ChangedKeys,
    Inventory,
    ReloadOutcome,
    changed_files,
    digest_of,
    inventory,
    plan_reload,
    stamp_endpoint_files,
)
from agtphost.host.surfaces import reload_tls
from agtphost.http.tls import ListenerTls
from agtphost.identity.agents import Agent, distinct
from agtphost.identity.directory import AgentDirectory
from agtphost.identity.keys import KeyFormatError, SigningKey
from agtphost.protocols import ServerTLS

ATTEMPTS = 3
"""How often everything is read again because files changed during the reading."""


@dataclass(frozen=True, kw_only=True)
class RunningConfiguration:
    """The configuration and files in force."""

    loaded: LoadedHost
    files: Inventory
    """Each file as it was when it was last applied."""

    modules: ModuleSet | None = None
    """The operator's modules if they were imported by the host; None if Python imported them."""

    @property
    def files_in_use(self) -> Inventory:
        """The files as they were when each was last applied, with the modules that calls have imported since."""
        if self.modules is None:
            return self.files
        return {**self.files, HANDLERS: {**self.files.get(HANDLERS, {}), **self.modules.stamps}}


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A configuration that was read and checked, as far as it can be checked before it is applied."""

    loaded: LoadedHost
    """The loaded configuration, with the key and TLS of the running host, which outlive a reload."""

    tls: ServerTLS
    """What the files of ``[tls]`` hold now."""

    https: Mapping[str, ListenerTls]
    """Certificates of the HTTP listeners as their files are now."""

    modules: ModuleSet | None
    files: Inventory
    digest: str
    outcome: ReloadOutcome
    """What a reload applies and what needs a restart."""

    issued: tuple[Path, ...] = ()
    """The folders of hosted agents that were issued for it."""


def read_candidate(running: RunningConfiguration, environ: Mapping[str, str]) -> Candidate:
    """
    Read the whole configuration; callable in any thread.

    :param environ: where secrets are looked up.
    :raises ConfigurationError: with every problem found.
    """
    issued: list[Path] = []
    try:
        for _ in range(ATTEMPTS):
            candidate = _read(running, environ, issued)
            if candidate is not None:
                return replace(candidate, issued=tuple(issued))
    except BaseException:
        withdraw_issued(issued)
        raise
    withdraw_issued(issued)
    raise ConfigurationError([describe_unstable(running.loaded.config.file)])


def describe_unstable(file: Path) -> Problem:
    """Return the problem of files that are being changed; with that of ``host.toml``."""
    return Problem(
        message="the files of the configuration were changed while they were read",
        file=str(file),
        hint="ask for the reload once all of them are written",
    )


def withdraw_issued(folders: Iterable[Path]) -> None:
    """Remove the agents that were issued for a configuration that is not taken, or they would be part of the next."""
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)


def _read(running: RunningConfiguration, environ: Mapping[str, str], issued: list[Path]) -> Candidate | None:
    """Return the candidate, or None if files changed while they were read."""
    old, parts = running.loaded, ProblemsByPart()
    config, tables, waiting = merge_reloadable(load(old.config.file, environ), old.config)
    parts.warnings += access_warnings(config)
    if config.host.development:
        provision(config, parts["identity"], issued)
    invalidate_caches()
    modules = _modules_for(running, config)
    before = _stable_files(inventory(config, old.tls))
    found, clashes = distinct(agents.load(config, parts["identity"]))
    parts["identity"].extend(clashes)
    log_agent_notes(agent for agent in found if old.directory.by_id(agent.agent_id) is None)
    fresh: list[ServerTLS] = []

    def identity() -> HostIdentity:
        tls = tls_of(config, parts["tls"])
        fresh.extend([] if tls is None else [tls])
        return old.key, tls

    with nullcontext() if modules is None else modules.register_during_import():
        loaded = combine(
            config,
            old.catalogs,
            environ,
            parts,
            directory=merge_agents(old.directory, found, parts["identity"]),
            identity=identity,
            given=None if modules is None else ExtraEndpoints(find=modules.resolve),
            provided=old.plugins,
            volatile=old.volatile,
        )
    if loaded is None:
        problems = [problem for part in parts.values() for problem in part]
        stale = not config.reloads_modules and changed_files(running.files, inventory(config, old.tls), HANDLERS)
        raise ConfigurationError([_with_module_hint(problem) for problem in problems] if stale else problems)
    https = reload_tls(config)
    files = {
        **inventory(config, fresh[0], () if modules is None else modules.files),
        **stamp_endpoint_files(loaded.endpoints),
    }
    if _stable_files(inventory(config, old.tls)) != before:
        return None
    if is_key_in_force(config, old.key):
        # `agtp key rotate` replaced the file, and the host has followed.
        files = {**files, SIGNING_KEY: running.files.get(SIGNING_KEY, {})}
    known = {agent.agent_id for agent in old.directory.list_known()}
    outcome = plan_reload(
        running.files_in_use,
        files,
        old.directory,
        [agent.name for agent in found if agent.agent_id not in known],
        [agent.agent_id for agent in found],
        ChangedKeys(applied=tuple(tables), waiting=tuple(waiting)),
        modules=config.reloads_modules,
    )
    untaken = old.untaken if old.untaken is not None and set(old.untaken.keys) & set(waiting) else None
    taken = replace(loaded, tls=old.tls, untaken=untaken, emptied=old.emptied.intersection(waiting))
    _ = taken.graph  # built in this thread, where no request waits
    return Candidate(
        loaded=taken,
        tls=fresh[0],
        https=https,
        modules=modules,
        files=files,
        digest=digest_of(config, files),
        outcome=outcome,
    )


def is_key_in_force(config: Config, key: SigningKey | None) -> bool:
    """Return whether the file of the signing key has the key that this host signs with."""
    try:
        return key is not None and SigningKey.load(config.audit.key).public.kid == key.public.kid
    except (KeyFormatError, OSError):
        return False


def _with_module_hint(problem: Problem) -> Problem:
    """Add a hint to a problem that may come from a module whose file changed after its import."""
    if "the module " not in problem.message:
        return problem
    return replace(problem, hint="modules have changed since they were imported: set [endpoints] reload = true")


def _stable_files(files: Inventory) -> Inventory:
    """Return the inventory without the kind that reading itself extends."""
    return {kind: found for kind, found in files.items() if kind != HANDLERS}


def _modules_for(running: RunningConfiguration, config: Config) -> ModuleSet | None:
    """Return the operator's modules, imported again if a file changed or the search path is different."""
    given = config.endpoints
    if not config.reloads_modules:
        return running.modules
    there = inventory(config, running.loaded.tls, () if running.modules is None else running.modules.files)
    moved = given.python_path != running.loaded.config.endpoints.python_path
    before, now = running.files_in_use.get(HANDLERS, {}), there.get(HANDLERS, {})
    changed = [path for path in before.keys() | now.keys() if before.get(path) != now.get(path)]
    return ModuleSet(given.python_path, changed) if moved or changed else running.modules


def merge_agents(running: AgentDirectory, found: Sequence[Agent], problems: list[Problem]) -> AgentDirectory:
    """
    Return a directory of the agents found and the agents known: only its lifecycle ends an agent, not a missing file.

    :param problems: collects problems.
    """
    ids = {agent.agent_id for agent in found}
    gone = [agent for agent in running.list_known() if agent.agent_id not in ids]
    labels = {agent.name: agent for agent in gone if agent.hosted}
    for agent in found:
        other = labels.get(agent.name) if agent.hosted else None
        if other is not None:
            problems.append(
                Problem(
                    message=f"name: the running host has another agent named {agent.name} ({other.agent_id})",
                    file=agent.file,
                    hint="issue it under another label",
                )
            )
    try:
        return AgentDirectory([*found, *gone])
    except ValueError:
        return AgentDirectory(found)
