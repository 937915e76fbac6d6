"""
Check whether a host would start, by starting a copy of it up to the last step.

``agtp check`` and a start run the same code. What the first start of a development host creates is created in a
temporary directory; the store is read and not written; the port is bound only for a moment.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from pydantic import BaseModel
from twisted.logger import ILogObserver, LogLevel, formatEvent, globalLogPublisher
from zope.interface import implementer

from agtphost.config import Config, examine, problems_in
from agtphost.config.file_access import access_warnings
from agtphost.config.launch_script import missing_scripts
from agtphost.config.quic_warnings import quic_warnings
from agtphost.config.replacement import replace_value
from agtphost.config.surfaces import surfaces
from agtphost.contract.endpoint_table import AmbiguousEndpoints
from agtphost.errors import ConfigurationError, Problem, report_unreadable
from agtphost.host import expiry_watch, host_loader
from agtphost.host.assembly import assemble
from agtphost.host.evidence import is_first_start, place_problems
from agtphost.host.host_loader import TABLES_OF_PART, LoadedHost, ProblemsByPart
from agtphost.host.newest_key import OtherKey, check_standby_key
from agtphost.host.ordered_services import LedgerService
from agtphost.iagtp import IChainStore
from agtphost.protocols.listener import SYSTEMD, systemd_faults
from agtphost.stores import MemoryStore, StoreError
from agtphost.stores.location import StoreLocation
from agtphost.stores.settings import locate_store
from agtphost.vocabulary import database_url, tomltext
from agtphost.vocabulary.quantities import size
from agtphost.vocabulary.tomltext import Location, TomlError


@runtime_checkable
class IPrecondition(Protocol):
    """A service of the host whose start can be refused."""

    def start_problems(self) -> Iterator[Problem]:
        """Yield every reason why ``startService`` would raise, without lasting changes."""


@dataclass(frozen=True, kw_only=True)
class Rehearsal:
    """The result of a rehearsal."""

    config: Config
    problems: Sequence[Problem]
    """The problems that keep the host from starting, or are in a file that it reads."""

    remarks: Sequence[str]
    """The warnings that a start would log."""


@report_unreadable()
def rehearse(path: Path, environ: Mapping[str, str], reactor: Any) -> Rehearsal:
    """
    Find everything that keeps a host from starting, in its configuration and elsewhere.

    :param reactor: one that does not run.
    :raises ConfigurationError: the file cannot be read at all.
    """
    reading = examine(path, environ)
    config, found = reading.config, list(reading.problems)
    remarks: list[str] = []

    @implementer(ILogObserver)
    def note(event: Any) -> None:
        level = event.get("log_level")
        # A warning with ``is_problem`` is about a fault that the check of the configuration reports.
        if level is not None and level >= LogLevel.warn and not event.get("is_problem"):
            # The foreign text that a message translates is for the log of a start.
            form = (event.get("log_format") or "").replace("; original: {original}", "")
            remarks.append(formatEvent({**event, "log_format": form}))

    remarks += map(str, problems_in(config.file, missing_scripts(config.mcp.server)))
    globalLogPublisher.addObserver(note)
    try:
        with tempfile.TemporaryDirectory(prefix="agtp-check-") as made:
            aside = _RehearsalCopy(config, Path(made).resolve())
            told_of = {(each.file, each.line) for each in found}
            said = {(each.file, each.line, each.message) for each in found}
            beyond = aside.restore_problem_names(
                _check_beyond(config, aside, environ, reading.sections, reactor, remarks)
            )
            # Values of faulty keys are left out, so that the checks below report them as missing, or once more.
            found += [
                each
                for each in beyond
                if (each.file, each.line, each.message) not in said
                and ((each.file, each.line) not in told_of or " is missing" not in each.message)
            ]
            told = [
                *map(aside.restore_names, remarks),
                *expiry_watch.expiry_warnings(config, time.time()),
                *quic_warnings(config),
                *access_warnings(config),
            ]
    finally:
        globalLogPublisher.removeObserver(note)
    return Rehearsal(config=config, problems=list(dict.fromkeys(found)), remarks=list(dict.fromkeys(told)))


def _check_beyond(
    config: Config,
    aside: _RehearsalCopy,
    environ: Mapping[str, str],
    faulty: frozenset[str],
    reactor: Any,
    remarks: list[str],
) -> Iterator[Problem]:
    """Yield the problems of what the configuration names, as far as it depends on sound tables."""
    if "host" in faulty:
        remarks.append(
            f"{', '.join(TABLES_OF_PART)}, store and port were not checked: they depend on [host], which has faults"
        )
        yield from syntax_problems(config.folder, config.endpoints.directory)
        return
    if (unwritable := _state_problem(config.host.state_dir)) is not None:
        yield unwritable
        return
    places: dict[Location, Path] = {} if "audit" in faulty else {("audit", "witness"): config.audit.witness}
    file = None if "store" in faulty else locate_store(config.store).file
    if file is not None:
        places["store", "url"] = file
    misplaced = place_problems(config, places)
    yield from misplaced
    aside.fill()
    parts = ProblemsByPart()
    found = host_loader.check_host(aside.config, environ, parts)
    for part, problems in parts.items():
        rests = sorted(TABLES_OF_PART[part] & faulty)
        if not rests:
            yield from problems
        elif problems:
            remarks.append(f"{part} was not checked: it depends on [{'], ['.join(rests)}], which has faults")
    taken = locate_store(config.store).lock(config.host.state_dir).holder()
    for awaited in aside.systemd_sockets:
        yield from systemd_faults(awaited)
        remarks.append(f"the socket of {awaited} was not checked: systemd passes it only to the host")
    remarks += _store_warnings(config)
    if taken is not None:
        remarks.append(f"a host{taken} uses this state: its store and its port were not checked")
    if config.store.plugin is not None:
        remarks.append(f"the content of the plugin store {config.store.plugin} was not checked: only a start opens it")
    if misplaced or faulty & {"store", "audit", "listen"}:
        return
    if found is not None:
        remarks += _key_remarks(found, config)
        running = taken is not None
        if faulty:
            yield from _check_partly(found, config, aside, environ, reactor, faulty, remarks, running=running)
        else:
            yield from _check_assembly(found, config, aside, environ, reactor, running=running)
    elif taken is None:
        yield from _check_store(config, aside)


def _key_remarks(found: LoadedHost, config: Config) -> Iterator[str]:
    """
    Yield a remark if the host has another key than the one that signed the newest record of a store in a database.

    As a standby it would not take over. A store that cannot be read is reported by the other checks.
    """
    if config.store.plugin is not None or not database_url.is_postgresql(config.store.url):
        return
    try:
        with closing(locate_store(config.store).open_reader()) as reader:
            check_standby_key(reader, found.key, config.audit.key, config.host.state_dir)
    except OtherKey as error:
        yield f"this host would not take over as a standby: {error}"
    except StoreError:
        pass


def _store_warnings(config: Config) -> Iterator[str]:
    """Yield warnings of an unsafe way to the store, and of a nearly full disk, on which a host serves no requests."""
    floor, store = config.store.free_space_floor, locate_store(config.store)
    yield from store.warnings()
    place = store.disk
    if place is None:
        return
    free = store.free_space()
    if free is not None and free < 2 * floor:
        now = "requests are answered 503" if free < floor else "below that requests are answered 503"
        yield (
            f"the disk of {place} has {size(free)} free, and [store] free_space_floor is {size(floor)}: {now}. "
            "Make room there, or lower the floor"
        )


def syntax_problems(folder: Path, endpoints: Path | None = None) -> Iterator[Problem]:
    """
    Yield a problem for each file next to a configuration that is not TOML, if nothing more can be checked.

    :param folder: of the ``host.toml``.
    :param endpoints: their directory; by default the one that `agtp init` creates.
    """
    for file in (folder / "recipes.toml", *sorted((endpoints or folder / "endpoints").glob("*.toml"))):
        if file.is_file():
            try:
                tomltext.read(file)
            except TomlError as error:
                yield Problem(message=f"it {error}", file=str(file), line=error.line, hint=error.hint)


_KERNEL_FILES = (Path("/proc"), Path("/sys"))
"""Where the superuser may write, and nothing can be created."""


def _state_problem(state: Path) -> Problem | None:
    """Return a problem if the host can neither write the state directory nor create it."""
    nearest = next(path for path in (state, *state.parents) if path.exists())
    if any(nearest.is_relative_to(kernel) for kernel in _KERNEL_FILES):
        return Problem(
            message=f"[host] state_dir {state} cannot be created: {nearest} holds no files of programs",
            file=str(nearest),
            hint='name another directory, such as state_dir = "state"',
        )
    if os.access(nearest, os.W_OK | os.X_OK):
        return None
    return Problem(
        message=f"[host] state_dir {state} cannot be {'written' if nearest == state else 'created'}: permission denied",
        file=str(nearest),
        hint="run the host as the user who owns it",
    )


def _check_partly(
    found: LoadedHost,
    config: Config,
    aside: _RehearsalCopy,
    environ: Mapping[str, str],
    reactor: Any,
    faulty: frozenset[str],
    remarks: list[str],
    *,
    running: bool,
) -> Iterator[Problem]:
    """
    Yield the problems of assembling a host of which some tables have faults.

    A fault of the assembly that names no file may follow from theirs, as an exception does that no start raises.
    """
    try:
        problems = list(_check_assembly(found, config, aside, environ, reactor, running=running))
    except Exception:
        rests = "], [".join(sorted(faulty))
        remarks.append(f"what depends on [{rests}], which has faults, was not checked")
        return
    yield from (each for each in problems if each.file or not any(f"[{name}" in each.message for name in faulty))


def _check_assembly(
    found: LoadedHost, config: Config, aside: _RehearsalCopy, environ: Mapping[str, str], reactor: Any, *, running: bool
) -> Iterator[Problem]:
    try:
        store = _open_rehearsal_store(config, aside, running=running)
        services = assemble(found, reactor, environ, store).services
    except (StoreError, AmbiguousEndpoints) as error:
        yield Problem(message=str(error))
    except ConfigurationError as error:
        yield from error.problems
    else:
        for service in () if running else services:
            # A plugin's store was not opened, and the empty one in its place would contradict every witness.
            if isinstance(service, IPrecondition) and not (config.store.plugin and isinstance(service, LedgerService)):
                yield from service.start_problems()
        store.close()


def _open_rehearsal_store(config: Config, aside: _RehearsalCopy, *, running: bool) -> IChainStore:
    if config.store.plugin is not None:
        return MemoryStore()
    return locate_store(config.store).rehearse(
        create=is_first_start(config) or running, folder=aside.folder, server_id=config.host.server_id
    )


def _check_store(config: Config, aside: _RehearsalCopy) -> Iterator[Problem]:
    """Yield a problem if the store cannot be opened; used when other problems prevent the assembly."""
    try:
        _open_rehearsal_store(config, aside, running=False).close()
    except StoreError as error:
        yield Problem(message=str(error))


class _RehearsalCopy:
    """
    A copy of the state directory, made of links to its files, so that nothing is written to the real one.

    :param folder: an empty directory.
    """

    def __init__(self, config: Config, folder: Path) -> None:
        self.folder = folder
        self._real = config
        self._state = folder / "state"
        self.config: Config = _move_paths(config, config.host.state_dir, self._state)
        self.systemd_sockets: list[str] = []
        """Sockets that only the host gets from systemd."""

        if (config.listen.endpoint or "").startswith(SYSTEMD):
            self.systemd_sockets.append(config.listen.endpoint or "")
            listen = self.config.listen.model_copy(update={"endpoint": None, "port": 0})
            self.config = self.config.model_copy(update={"listen": listen})
        for surface in surfaces(config):
            bare = surface.listen.removeprefix("ssl:")
            if bare.startswith(SYSTEMD):
                self.systemd_sockets += [bare] if bare not in self.systemd_sockets else []
                # A separate loopback address with any free port, so that surfaces with one socket still share one.
                kind = "ssl" if surface.listener.secure else "tcp"
                here = f"{kind}:0:interface=127.0.0.{self.systemd_sockets.index(bare) + 2}"
                self.config = replace_value(self.config, (*surface.location, "listen"), here)
        witness = config.audit.witness
        if not witness.is_relative_to(config.host.state_dir):
            audit = self.config.audit.model_copy(update={"witness": folder / "witness" / witness.name})
            self.config = self.config.model_copy(update={"audit": audit})

    def fill(self) -> None:
        """Create the links. Missing state is not created here: a first start does that."""
        state, store = self._real.host.state_dir, locate_store(self._real.store)
        if state.is_dir():
            self._link(state, self._state, store)
        witness = self._real.audit.witness
        apart = self.config.audit.witness
        if not witness.is_relative_to(state):
            apart.parent.mkdir(mode=0o700)
            if witness.exists():
                apart.symlink_to(witness)

    def _link(self, source: Path, target: Path, store: StoreLocation) -> None:
        target.mkdir(mode=0o700)
        for entry in source.iterdir():
            if entry.is_dir() and not entry.is_symlink():
                self._link(entry, target / entry.name, store)
            elif not store.owns(entry) and entry.name != "host.lock":
                (target / entry.name).symlink_to(entry)

    def restore_names(self, text: str) -> str:
        """Return a sentence with the names of the real files."""
        text = text.replace(str(self._state), str(self._real.host.state_dir))
        # The copy of a store that a start would upgrade.
        if (store := locate_store(self._real.store).file) is not None:
            text = text.replace(str(self.folder / store.name), str(store))
        return text.replace(str(self.folder / "witness"), str(self._real.audit.witness.parent))

    def restore_problem_names(self, problems: Iterable[Problem]) -> list[Problem]:
        """Return problems with the names of the real files."""
        return [
            replace(
                each,
                message=self.restore_names(each.message),
                file=self.restore_names(each.file),
                hint=self.restore_names(each.hint),
            )
            for each in problems
        ]


def _move_paths(value: Any, old: Path, new: Path) -> Any:
    """Return a configuration with the paths below one directory moved below another."""
    if isinstance(value, Path):
        return new / value.relative_to(old) if value.is_relative_to(old) else value
    if isinstance(value, BaseModel):
        moved = {name: _move_paths(getattr(value, name), old, new) for name in type(value).model_fields}
        return value.model_copy(update={name: each for name, each in moved.items() if each is not getattr(value, name)})
    if isinstance(value, tuple):
        moved_items = tuple(_move_paths(each, old, new) for each in value)
        return value if all(a is b for a, b in zip(value, moved_items, strict=True)) else moved_items
    return value
