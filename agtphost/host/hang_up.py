"""
What SIGHUP takes and what it leaves, for every kind of file that a host is made of.

A kind is either taken while the host runs, or read at its start and never
again: then a changed file waits for a restart, and an operator who is not told
so believes that it is in force.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from agtphost.config import Config
from agtphost.config.surfaces import surfaces
from agtphost.host.rotation import Stamp, stamps
from agtphost.identity.directory import AgentDirectory
from agtphost.protocols import ServerTLS

TAKEN = ("TLS files", "HTTPS files", "agents")
"""Kinds that a running host takes."""

LEFT = ("configuration", "catalog", "recipes", "endpoints", "handlers", "documents", "signing key", "agents' files")
"""Kinds that take a restart: but for the signing key, which follows its ``.next`` by itself."""

Inventory = Mapping[str, Mapping[Path, Stamp]]


def inventory(config: Config, tls: ServerTLS) -> Inventory:
    """Every file by its kind, with what tells its content from another; for any thread."""
    return {kind: stamps(sorted(set(paths))) for kind, paths in _files(config, tls).items()}


def _files(config: Config, tls: ServerTLS) -> dict[str, Iterable[Path]]:
    catalog = config.catalog
    https = [path for each in surfaces(config) for path in (each.section.certificate, each.section.key)]
    return {
        "configuration": [config.file],
        "catalog": [*_some(catalog.path), *catalog.versions, *catalog.profiles],
        "recipes": _some(config.recipes.file),
        "endpoints": _in(config.endpoints.directory, "*.toml"),
        "handlers": list(_handlers(config.endpoints.python_path)),
        "documents": [path for path in _in(config.query.documents, "**/*") if path.is_file()],
        "signing key": [config.audit.key] if config.audit.signing else [],
        "agents' files": [
            *_in(config.identity.agents, "**/*.json"),
            *_in(config.host.state_dir / "hosted", "**/*.json"),
            *_in(config.identity.known_agents, "**/*.json"),
        ],
        "TLS files": list(tls.files.files),
        "HTTPS files": [path for path in https if path is not None],
    }


def _some(path: Path | None) -> list[Path]:
    return [] if path is None else [path]


def _in(folder: Path | None, pattern: str) -> list[Path]:
    return sorted(folder.glob(pattern)) if folder is not None and folder.is_dir() else []


def _handlers(folders: Iterable[Path]) -> Iterator[Path]:
    """The operator's modules that this process has imported."""
    roots = tuple(folders)
    for module in list(sys.modules.values()):
        name = getattr(module, "__file__", None)
        if isinstance(name, str) and any(Path(name).is_relative_to(root) for root in roots):
            yield Path(name)


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What became of one SIGHUP."""

    taken: tuple[str, ...]
    left: tuple[str, ...]
    failed: tuple[str, ...] = ()

    @property
    def summary(self) -> str:
        """One line."""
        return (
            f"taken: {', '.join(self.taken) or 'nothing'}; waiting for a restart: {', '.join(self.left) or 'nothing'}; "
            f"failed: {', '.join(self.failed) or 'nothing'}"
        )


def changed(before: Inventory, now: Inventory, kind: str) -> list[str]:
    """The files of a kind that are not what they were: changed, new and gone ones."""
    old, new = before.get(kind, {}), now.get(kind, {})
    return sorted({path.name for path in old.keys() | new.keys() if old.get(path) != new.get(path)})


def judged(before: Inventory, now: Inventory, known: AgentDirectory, found: AgentDirectory) -> Outcome:
    """
    What a hang-up takes and leaves.

    :param before: the files when each was last taken.
    :param known: the agents that the host knows.
    :param found: those of the files.
    """
    ids = {agent.agent_id for agent in known.known()}
    newcomers = [agent for agent in found.known() if agent.agent_id not in ids]
    taken = [_named(kind, names) for kind in TAKEN if (names := changed(before, now, kind))]
    if newcomers:
        taken.append(_named("agents", sorted(agent.name for agent in newcomers)))
    left = []
    for kind in LEFT:
        # The files of an agent that is just admitted are taken; what else changed in an agent's files waits.
        both = before.get(kind, {}).keys() & now.get(kind, {}).keys() if newcomers and kind == LEFT[-1] else None
        names = (
            changed(before, now, kind)
            if both is None
            else sorted({path.name for path in both if before[kind][path] != now[kind][path]})
        )
        if names:
            left.append(_named(kind, names))
    gone = ids - {agent.agent_id for agent in found.known()}
    if gone:
        left.append(_named("agents whose files are gone", sorted(a.name for a in known.known() if a.agent_id in gone)))
    return Outcome(taken=tuple(taken), left=tuple(left))


def differing(running: Config, read: Config) -> list[str]:
    """The tables of two configurations that are not the same."""
    names = (name for name in type(running).model_fields if name != "file")
    return [f"[{name}]" for name in names if getattr(running, name) != getattr(read, name)]


def _named(kind: str, names: list[str]) -> str:
    shown = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
    return f"{kind} ({shown})"
