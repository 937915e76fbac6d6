"""
Decide which changed files a reload applies and which need a restart.

Each kind of file is either applied by a running host, or read only at its start. A change of the latter kind waits for
a restart, and the log and the answer say so.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from agtphost.config import Config
from agtphost.config.surfaces import surfaces
from agtphost.contract.endpoint import Endpoint
from agtphost.errors import Problem
from agtphost.handlers.modules import PROCESS, OperatorFiles
from agtphost.identity.directory import AgentDirectory
from agtphost.identity.provisioning import HOSTED
from agtphost.protocols import ServerTLS
from agtphost.vocabulary.regular_files import Stamp, read_octets, stamps

CONFIGURATION = "configuration"
"""The kind of ``host.toml`` itself."""

TLS_FILES = "TLS files"
"""The kind of the files of ``[tls]``."""

ENDPOINT_FILES = "endpoints' files"

RELOADABLE = (
    *(CONFIGURATION, "recipes", "endpoints", "handlers", "documents", "agents", "agents' files"),
    *(TLS_FILES, "HTTPS files", "organizations' keys", "operators' keys", "issuers' keys", ENDPOINT_FILES),
)
"""Kinds that a reload applies; handlers only with ``[endpoints] reload``."""

SIGNING_KEY = "signing key"
NEEDS_RESTART = ("catalog", SIGNING_KEY)
"""Kinds that need a restart. A signing key is rotated without one by its ``.next`` file."""

HANDLERS = "handlers"

Inventory = Mapping[str, Mapping[Path, Stamp]]


def inventory(config: Config, tls: ServerTLS | None, modules: Iterable[Path] = ()) -> Inventory:
    """
    Return every file by its kind, with a stamp of its content; callable in any thread.

    :param tls: None before it was read.
    :param modules: the operator's imported modules, in addition to those in ``sys.modules``.
    """
    return {kind: stamps(sorted(set(paths))) for kind, paths in _files(config, tls, modules).items()}


def stamp_modules(config: Config) -> Mapping[Path, Stamp]:
    """Return a stamp of each of the operator's modules that this process has imported."""
    return stamps(sorted(set(_handlers(config.endpoints.python_path))))


def stamp_endpoint_files(endpoints: Iterable[Endpoint]) -> Inventory:
    """Return the files with secrets and authorities that endpoints of external services name, with their stamps."""
    found = set()
    for endpoint in endpoints:
        if (service := endpoint.handler.service) is not None:
            secrets = [text.removeprefix("file:") for text in service.headers.values() if text.startswith("file:")]
            found |= {Path(endpoint.file).parent / name for name in (*secrets, service.ca) if name}
    return {ENDPOINT_FILES: stamps(sorted(found))}


def _files(config: Config, tls: ServerTLS | None, modules: Iterable[Path]) -> dict[str, Iterable[Path]]:
    catalog = config.catalog
    https = [path for each in surfaces(config) for path in (each.section.certificate, each.section.key)]
    return {
        CONFIGURATION: [config.file],
        "catalog": [*_as_list(catalog.path), *catalog.versions, *catalog.profiles],
        "recipes": _as_list(config.recipes.file),
        "endpoints": _glob(config.endpoints.directory, "*.toml"),
        HANDLERS: [*_handlers(config.endpoints.python_path), *modules],
        "documents": [path for path in _glob(config.query.documents, "**/*") if os.path.isfile(path)],
        SIGNING_KEY: [config.audit.key] if config.audit.signing else [],
        "agents' files": [
            *_glob(config.identity.agents, "**/*.json"),
            *_glob(config.host.state_dir / HOSTED, "**/*.json"),
            *_glob(config.identity.known_agents, "**/*.json"),
        ],
        TLS_FILES: [] if tls is None else list(tls.files.files),
        "HTTPS files": [path for path in https if path is not None],
        "organizations' keys": [each.key for each in config.methods.signing_key],
        "operators' keys": [each.key for each in config.operator if isinstance(each.key, Path)],
        "issuers' keys": _issuers(config),
    }


def _issuers(config: Config) -> Iterator[Path]:
    """Yield the files with keys of those who issue agents and tokens."""
    entries = (
        *(config.identity.trusted_issuers, *config.identity.registrars.values()),
        *(authority.issuers for authority in config.tls.client_authority),
    )
    for entry in (entry for group in entries for entry in group):
        if entry.startswith("file:"):
            yield config.folder / entry.removeprefix("file:")
    yield from (issuer.jwks for issuer in config.policies.oauth.issuer if issuer.jwks is not None)


def _as_list(path: Path | None) -> list[Path]:
    return [] if path is None else [path]


def _glob(folder: Path | None, pattern: str) -> list[Path]:
    # A folder that cannot be looked at has no files here; where it is read, that is reported.
    with suppress(OSError):
        return sorted(folder.glob(pattern)) if folder is not None and os.path.isdir(folder) else []
    return []


def _handlers(folders: Iterable[Path]) -> Iterator[Path]:
    """Yield the operator's modules that this process has imported."""
    own, known = OperatorFiles(folders), dict[str, bool]()
    for name in list(sys.modules):
        # Two thirds of all modules: to look at their files takes longer than the rest of the inventory.
        if name.partition(".")[0] in PROCESS:
            continue
        file = getattr(sys.modules.get(name), "__file__", None)
        if not isinstance(file, str):
            continue
        folder = os.path.dirname(file)
        if folder not in known:
            known[folder] = own.contain(folder)
        if known[folder]:
            yield Path(file)


def digest_of(config: Config, files: Inventory) -> str:
    """
    Return the SHA-256, hex, of all files of a configuration, over lines ``HASH  PATH`` as ``sha256sum`` writes them.

    Paths below the configuration's directory are relative to it; the lines are sorted by path.
    """
    lines = []
    for path in {path for kind in files.values() for path, stamp in kind.items() if stamp is not None}:
        try:
            content = sha256(read_octets(path)).hexdigest()
        except OSError:
            continue
        shown = path.relative_to(config.folder) if path.is_relative_to(config.folder) else path
        lines.append((shown.as_posix(), content))
    return sha256("".join(f"{content}  {shown}\n" for shown, content in sorted(lines)).encode()).hexdigest()


@dataclass(frozen=True, kw_only=True)
class ReloadOutcome:
    """The result of one reload."""

    applied: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()
    unchanged: tuple[str, ...] = ()
    """Kinds of files that did not change."""

    failed: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()
    """Why the reload was refused; empty if it was not."""

    warnings: tuple[str, ...] = ()
    """Warnings about the configuration that the one before did not have."""

    digest: str = ""
    """The digest of the files that were read; empty if reading failed."""

    generation: int = 0
    """The number of the configuration in force in this process; the one of its start is 1."""

    audit_id: str = ""
    """The Audit-ID of the record; empty if nothing was applied or refused."""

    @property
    def is_refused(self) -> bool:
        """Return whether the reload was refused because of problems."""
        return bool(self.problems)

    def to_json(self) -> dict[str, Any]:
        """Return the outcome as JSON members for the client."""
        problems = [{name: value for name, value in asdict(problem).items() if value} for problem in self.problems]
        return {
            "taken": list(self.applied),
            "waiting": list(self.waiting),
            "unchanged": list(self.unchanged),
            "problems": problems,
            "warnings": list(self.warnings),
            "digest": self.digest,
            "generation": self.generation,
            "audit_id": self.audit_id,
        }

    @property
    def summary(self) -> str:
        """Return the outcome as one line for the log."""
        return (
            f"taken: {', '.join(self.applied) or 'nothing'}; "
            f"waiting for a restart: {', '.join(self.waiting) or 'nothing'}; "
            f"failed: {', '.join(self.failed) or 'nothing'}"
        )


def changed_files(before: Inventory, now: Inventory, kind: str) -> list[str]:
    """Return the names of the files of a kind that were changed, added or removed."""
    old, new = before.get(kind, {}), now.get(kind, {})
    return sorted({path.name for path in old.keys() | new.keys() if old.get(path) != new.get(path)})


@dataclass(frozen=True, kw_only=True)
class ChangedKeys:
    """The tables and keys that differ between two configurations."""

    applied: tuple[str, ...]
    """Tables that a reload applies."""

    waiting: tuple[str, ...]
    """Tables and keys that need a restart."""


def plan_reload(
    before: Inventory,
    now: Inventory,
    known: AgentDirectory,
    newcomers: Iterable[str],
    found: Iterable[str],
    keys: ChangedKeys,
    *,
    modules: bool,
) -> ReloadOutcome:
    """
    Return what a reload applies and what needs a restart.

    :param before: the files as they were when each was last applied.
    :param known: the agents that the host knows.
    :param newcomers: labels of those that it does not know yet.
    :param found: Agent-IDs of those in the files.
    :param modules: whether the handlers' modules are imported again.
    """
    taken: list[str] = []
    left: list[str] = []
    for kind in RELOADABLE:
        names = sorted(newcomers) if kind == "agents" else changed_files(before, now, kind)
        if kind == CONFIGURATION:
            # A changed comment in the file changes no table.
            names = list(keys.applied)
        if names:
            (left if kind == HANDLERS and not modules else taken).append(_name_kind(kind, names))
    left += [_name_kind(kind, names) for kind in NEEDS_RESTART if (names := changed_files(before, now, kind))]
    left += keys.waiting
    there = set(found)
    gone = [agent.name for agent in known.list_known() if agent.agent_id not in there]
    if gone:
        left.append(_name_kind("agents whose files are gone", sorted(gone)))
    named = tuple(each.partition(" (")[0] for each in (*taken, *left))
    unchanged = tuple(
        kind for kind in (*RELOADABLE, *NEEDS_RESTART) if kind not in named and (kind == CONFIGURATION or now.get(kind))
    )
    return ReloadOutcome(applied=tuple(taken), waiting=tuple(left), unchanged=unchanged)


def _name_kind(kind: str, names: list[str]) -> str:
    shown = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
    return f"{kind} ({shown})"
