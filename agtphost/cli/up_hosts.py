"""``agtp up --hosts N``: trial hosts that share a store in a PostgreSQL below their directory."""

from __future__ import annotations

import re
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from agtphost import extras
from agtphost.cli import up_hosts_output as output
from agtphost.cli.failures import WrongInput, local_file
from agtphost.cli.host_config import load_config
from agtphost.cli.trial_cluster import HostNotStarted, TrialCluster
from agtphost.cli.trial_database import TrialDatabase, TrialDatabaseError, find_programs
from agtphost.cli.trial_host import TrialHost
from agtphost.cli.up_output import PreparedHost
from agtphost.stores.rows import StoreError
from agtphost.stores.settings import locate_store
from agtphost.stores.state_lock import StateLock
from agtphost.vocabulary import database_url
from agtphost.vocabulary.tomltext import string_text

if TYPE_CHECKING:
    from agtphost.config import Config

NAMES = "abcde"
"""The hosts' names: ``[cluster] name``."""

TAKEOVER_AFTER = 3

FOLDER = "postgres"
"""Directory of the database, relative to that of the hosts."""

LONGEST_SOCKETS = 80
"""Characters of a directory for UNIX sockets; the system allows some 100 for the path of one."""

_PLAIN_PATH = re.compile(r"[A-Za-z0-9/._+-]+")
"""Paths that need no quoting, neither for PostgreSQL nor in a URL."""

_URL = re.compile(r'(?<=^url = )"postgresql://.*"$', re.MULTILINE)

SECTIONS = """
# The PostgreSQL that `agtp up --hosts` starts: it runs as long as that command.
[store]
url = {url}

# AGTPHOST_CLUSTER_NAME and AGTPHOST_STATE_DIR are what distinguishes the other hosts.
[cluster]
name = "{name}"
takeover_after = {seconds}
"""


class StopSignals:
    """Counts the signals that end the command, from Ctrl-C, SIGTERM and the end of the terminal."""

    def __init__(self) -> None:
        self.count = 0
        self._before: dict[int, Any] = {}

    def __enter__(self) -> StopSignals:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.count += 1


def require_postgresql(count: int) -> Path:
    """
    Return the directory of PostgreSQL's programs.

    :raises WrongInput: they, or the library for Python, are not installed.
    """
    found = find_programs()
    packages = {
        "the programs initdb and postgres": "" if found else "apt-get install postgresql",
        "the package psycopg": "" if extras.is_installed("psycopg") else extras.remedy("psycopg"),
    }
    missing = {what: remedy for what, remedy in packages.items() if remedy}
    if found is None or missing:
        what, verb = " and ".join(missing), "are" if found is None else "is"
        raise WrongInput(
            f"--hosts {count} needs a PostgreSQL on this machine: {what} {verb} not installed",
            f"Install: {'; '.join(missing.values())}",
        )
    return found


def has_database(place: Path) -> bool:
    """Return whether the hosts of a directory have their store in a database below it."""
    return (place / FOLDER / "data").is_dir()


def require_usable(place: Path) -> None:
    """
    Check that a directory is new, or has hosts of this command.

    :raises WrongInput: its host has another store, or needs a port for each host.
    """
    file = place / "host.toml"
    if not file.exists():
        return
    config = load_config(file)
    store = locate_store(config.store)
    if not has_database(place) and (store.file is None or store.may_exist()):
        raise WrongInput(
            f"the host of {place} has its records in {store.name}; several hosts need their own PostgreSQL",
            "Choose another directory.",
        )
    if config.metrics is not None:
        raise WrongInput(
            f"{file}: the hosts cannot share the port of [metrics]", "Remove the section, or leave --hosts out."
        )


@contextmanager
def trial_database(place: Path, programs: Path) -> Iterator[TrialDatabase]:
    """
    Yield a database below the directory of the hosts, not yet started; stop it at the end.

    :raises WrongInput: it cannot be there, or is in use.
    """
    new = not place.exists()
    folder = place / FOLDER
    with local_file(doing="made"):
        place.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
    lock = StateLock(folder, None)
    if (pid := lock.holder()) is not None:
        raise WrongInput(
            f"the hosts of {place} run already{pid.rstrip(',')}", f"Try agtp store status --config {place}"
        )
    is_short = len(str(folder)) <= LONGEST_SOCKETS and _PLAIN_PATH.fullmatch(str(folder))
    sockets = folder if is_short else Path(tempfile.mkdtemp(prefix="agtp-", dir="/tmp"))
    database: TrialDatabase | None = None
    try:
        database = TrialDatabase(folder, programs, sockets)
        lock.acquire()
        yield database
    except (TrialDatabaseError, StoreError) as error:
        raise WrongInput(str(error)) from None
    finally:
        if database is not None:
            database.stop()
        lock.release()
        if not is_short:
            shutil.rmtree(sockets, ignore_errors=True)
        if not has_database(place):
            shutil.rmtree(folder, ignore_errors=True)
            if new:
                with suppress(OSError):
                    place.rmdir()


def open_store(config: Config, database: TrialDatabase) -> Config:
    """
    Start the database, make the store if there is none, and return the configuration with it.

    :raises TrialDatabaseError: the database does not start.
    :raises StoreError: the store cannot be made.
    """
    database.create()
    database.start()
    config = _write_url(config, database.address())
    store = locate_store(config.store)
    with suppress(StoreError):
        if store.describe().get("server_id"):
            return config
    store.create(config.host.server_id)
    return config


def _write_url(config: Config, url: str) -> Config:
    """Write the URL of the store into ``host.toml``, where it is another."""
    if config.store.url == url:
        return config
    before = config.file.read_text(encoding="utf-8")
    if database_url.is_postgresql(config.store.url):
        text = _URL.sub(lambda _: string_text(url), before, count=1)
    else:
        sections = SECTIONS.format(url=string_text(url), name=NAMES[0], seconds=TAKEOVER_AFTER)
        text = f"{before.rstrip()}\n{sections}"
    with local_file(doing="written"):
        config.file.write_text(text, encoding="utf-8")
    try:
        return load_config(config.file)
    except Exception:
        config.file.write_text(before, encoding="utf-8")
        raise


def run_hosts(
    place: Path,
    shown: str,
    count: int,
    programs: Path,
    prepare: Callable[[str], PreparedHost],
    started: float,
    *,
    as_json: bool,
) -> None:
    """
    Run hosts with one store until a signal ends the command, and stop them and the database.

    :param shown: the directory as the user named it.
    :param programs: what :func:`require_postgresql` returned.
    :param prepare: makes or finds ``host.toml``; takes the files of the log in words.
    :param started: when the command began, by the steady clock.
    :raises WrongInput: the database or a host does not start.
    """
    report = output.print_cluster if as_json else output.tell_cluster
    notify = output.print_change if as_json else output.tell_change
    with StopSignals() as signals, trial_database(place, programs) as database:
        prepared = prepare(f"{', '.join(f'host-{name}.log' for name in NAMES[:count])} are")
        config = open_store(prepared.config, database)
        hosts = make_hosts(config, count, database)
        prepared = replace(prepared, config=config)
        cluster = TrialCluster(hosts, database, notify, lambda: signals.count > 0)
        try:
            if cluster.start():
                report(prepared, shown, hosts, database, time.monotonic() - started)
                cluster.run()
        except HostNotStarted as error:
            raise WrongInput(f"{error}; the end of {error.host.log}:\n{error.host.log_tail()}") from None
        finally:
            already = max(signals.count, 1)
            cluster.stop(lambda: signals.count > already)


def make_hosts(config: Config, count: int, database: TrialDatabase) -> list[TrialHost]:
    """Return the hosts, not yet started; the first one has the state directory that the configuration names."""
    state, place = config.host.state_dir, config.file.parent
    return [
        TrialHost(
            name,
            config.file,
            state if name == NAMES[0] else state.with_name(f"{state.name}-{name}"),
            place / f"host-{name}.log",
            database.sockets / f"notices-{name}",
        )
        for name in NAMES[:count]
    ]
