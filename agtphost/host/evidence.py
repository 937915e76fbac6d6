"""Build the store, the ledger and the services that depend on what they hold."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, nullcontext, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from twisted.internet.threads import deferToThreadPool
from twisted.logger import Logger

from agtphost.audit.clock_watch import ClockWatch
from agtphost.audit.host_clock import HostClock
from agtphost.audit.ledger import Ledger
from agtphost.audit.lifecycle import LifecycleTable
from agtphost.audit.observers import Observers
from agtphost.audit.state import StateTable
from agtphost.audit.state_keeper import StateKeeper
from agtphost.audit.summaries import Summaries
from agtphost.audit.tree import TreeKeeper
from agtphost.audit.witness import OperatorWitness, WitnessFile
from agtphost.cluster.heartbeat import Heartbeat, begin_heartbeat, freshness
from agtphost.config import Config, problems_in
from agtphost.config.faults import ConfigFault
from agtphost.errors import ConfigurationError, Problem
from agtphost.host.host_loader import LoadedHost
from agtphost.host.newest_key import check_signing_key
from agtphost.host.publication import HISTORY
from agtphost.host.summary_writer import SummaryWriter
from agtphost.iagtp import IChainStore, IPluggableStore, IRecordReader, IRecordStore
from agtphost.identity.key_history import DIRECTORY, every_key, every_public
from agtphost.identity.keys import Signer, fastest_signer
from agtphost.stores import OffReactorRecords, StoreError
from agtphost.stores.ballast import PIECE, Ballast
from agtphost.stores.interfaces import ILease
from agtphost.stores.lease import holder_here
from agtphost.stores.settings import locate_store
from agtphost.vocabulary.quotas import ANSWERS
from agtphost.vocabulary.tomltext import Location

log = Logger()


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """The records and state of a host, and the services that keep them."""

    ledger: Ledger
    clock: HostClock
    """The host's time, and the system's."""

    clock_watch: ClockWatch
    records: IRecordStore
    states: LifecycleTable
    held: StateTable
    tree: TreeKeeper
    signer: Signer | None
    """The signer of records; None on a host without a key, whose records are not signed."""

    observers: Observers
    summaries: Summaries
    summarizing: SummaryWriter
    check_key: Callable[[], None]
    """Raises StoreError where the signing key is not the newest one that the store knows."""

    heartbeat: Heartbeat | None = None
    """Keeps the lease of the store; None where one host alone can use the store."""

    lease: ILease | None = None
    """The lease of the store; None where one host alone can use the store."""

    is_fresh: Callable[[], bool] | None = None
    """Returns whether the lease was confirmed recently enough for a handler to begin; None without a lease."""

    close_reader: Callable[[], None] = lambda: None
    """Closes what records are read with, for a host that is discarded; the end of the process does so otherwise."""

    close_store: Callable[[], None] = lambda: None
    """Closes the store, which gives its lease up; for a host that cannot start. The ledger does so when it stops."""

    def discard(self) -> None:
        """Close what was opened for a host that cannot start, so that another one can be assembled."""
        if self.heartbeat is not None:
            self.heartbeat.stopService()
        self.close_reader()
        self.close_store()

    def takes_calls(self) -> bool:
        """Return whether a handler may begin, as far as the store is concerned."""
        return self.ledger.healthy and (self.is_fresh is None or self.is_fresh())


def keep_evidence(
    loaded: LoadedHost,
    reactor: Any,
    store: IChainStore | None,
    writing: type[Ledger] = Ledger,
    clock: HostClock | None = None,
    lease: ILease | None = None,
) -> Evidence:
    """
    Open the store, and build the ledger that writes to it.

    :param store: a store to use instead of the configured one: a rehearsal's, or one in memory.
    :param writing: the ledger's class; tests pass one that writes without a thread.
    :param clock: the host's time; by default the system's.
    :param lease: of the configured store, already taken; None where one host alone can use the store.
    :raises agtphost.stores.StoreError: the store cannot be opened.
    """
    clock = clock or HostClock()
    now = clock.seconds
    config, key = loaded.config, loaded.key
    ballast = None if loaded.volatile else _ballast(config)
    files = () if loaded.volatile else (_witness(loaded),)
    if store is None:
        store = _open(loaded, ballast, lease)
    states, held = LifecycleTable(), StateTable(now)
    reader = store.reader()
    records = OffReactorRecords(reader, partial(deferToThreadPool, reactor, reactor.getThreadPool()))
    known = () if config.host.development else store_traces(config)
    every = (*files, *(OperatorWitness(each) for each in loaded.plugins.witnesses))
    tree = TreeKeeper(store, config.host.server_id, key, every, now, known, every_public(key))
    signer = None if key is None else fastest_signer(key)
    ledger = writing(
        store,
        signer,
        reactor,
        server_id=config.host.server_id,
        lifecycle=states,
        held=held,
        now=now,
        arrival=clock.latest,
        leaped=clock.leaped_seconds,
        events=config.audit.envelope,
        tree=tree,
        states=_state_keeper(store, loaded, files),
        free_space_floor=config.store.free_space_floor,
        ballast=ballast,
        quick_space=not config.store.plugin,
        answers=replace(
            ANSWERS,
            keys=config.limits.keyed_requests_per_agent,
            octets=config.limits.keyed_octets_per_agent,
            keys_in_all=config.limits.keyed_requests_in_all,
            octets_in_all=config.limits.keyed_octets_in_all,
        ),
    )
    observers = Observers(reactor, loaded.plugins.observers)
    if loaded.plugins.observers:
        ledger.watch(observers.saw_group)
    summaries = Summaries(now)
    return Evidence(
        ledger=ledger,
        clock=clock,
        clock_watch=ClockWatch(reactor, clock, ledger, held),
        records=records,
        states=states,
        held=held,
        tree=tree,
        signer=signer,
        observers=observers,
        summaries=summaries,
        summarizing=SummaryWriter(reactor, summaries, ledger, records, config.audit.refusal_summary_seconds),
        check_key=partial(_check_key, store, loaded),
        heartbeat=None if lease is None else begin_heartbeat(reactor, lease, ledger.call_in_writer),
        lease=lease,
        is_fresh=None if lease is None else freshness(lease),
        close_reader=partial(_close_separate, reader, store),
        close_store=store.close,
    )


def _close_separate(reader: IRecordReader, store: IChainStore) -> None:
    """Close a reader; a store that is its own reader goes on."""
    if id(reader) != id(store):
        reader.close()


def _check_key(store: IChainStore, loaded: LoadedHost) -> None:
    """
    Check that the host signs with the newest key that its store knows.

    :raises agtphost.stores.StoreError: it has another one.
    """
    config = loaded.config
    reader = store.reader()
    # A connection that stays open would keep the write-ahead log of a host that stops. A plugin's store may be its own
    # reader, and goes on.
    is_separate = id(reader) != id(store)
    with closing(reader) if is_separate else nullcontext():
        check_signing_key(reader, loaded.key, config.audit.key, config.host.state_dir)


def _state_keeper(store: IChainStore, loaded: LoadedHost, files: Sequence[WitnessFile]) -> StateKeeper:
    """Return what signs the host's state and compares it with the signed one, also with that of the witness file."""
    return StateKeeper(
        store,
        partial(every_public, loaded.key),
        lambda: [seen.note for file in files if (seen := file.last()) is not None],
    )


def _open(loaded: LoadedHost, ballast: Ballast | None, lease: ILease | None) -> IChainStore:
    """
    Open the configured store.

    :raises agtphost.stores.StoreError: it cannot be opened.
    """
    config = loaded.config
    for warning in locate_store(config.store).warnings():
        log.warn("{warning}", warning=warning)
    if ballast is not None:
        _make_room(config, ballast)
        if not (ballast.whole or config.host.development):
            log.warn(
                "no space is kept for a full disk, and no agent can be revoked on one: [store] free_space_reserve "
                "is 0; leave it out for 16 MiB"
            )
    store = open_configured(config, loaded.plugins.store, create=is_first_start(config), lease=lease)
    if loaded.plugins.store is None:
        with suppress(StoreError):
            for risk in locate_store(config.store).find_risks():
                log.warn("{risk}", risk=risk)
    return store


def open_configured(
    config: Config, plugged: IPluggableStore | None, *, create: bool, lease: ILease | None = None
) -> IChainStore:
    """
    Return the store that ``[store]`` names, open for writing.

    :param plugged: the store of a plugin; None without one.
    :param lease: of the store, already taken; None to take one for this host where there is one.
    :raises agtphost.stores.StoreError: it cannot be opened.
    """
    if plugged is None:
        place, host = locate_store(config.store), config.host
        if lease is None:
            me = holder_here(config.cluster.name, host.state_dir, config.cluster.takeover_after)
            lease = place.lease(me, host.server_id)
        return place.open_store(create=create, server_id=host.server_id, lease=lease)
    try:
        plugged.open(create)
    except StoreError:
        raise
    except Exception as error:
        raise StoreError(f"the store of the plugin {config.store.plugin} cannot be opened: {error!r}") from error
    return plugged


def _ballast(config: Config) -> Ballast | None:
    """Return the reserve file, in the database's directory: space freed there is free for the database."""
    file = locate_store(config.store).reserve
    if file is None:
        return None
    octets = config.store.free_space_reserve
    if octets is None:
        octets = 0 if config.host.development else 16 * 1024 * 1024
    return Ballast(file, octets)


def _make_room(config: Config, ballast: Ballast) -> None:
    """
    Free some of the reserve if the disk is full.

    A database cannot be opened on a full disk, and a host that does not start can revoke no agent.
    """
    with suppress(OSError):
        free = locate_store(config.store).free_space()
        if free is not None and free < PIECE:
            ballast.give_back()


def is_first_start(config: Config) -> bool:
    """Return whether this host never ran before: only then a store is created. A store missing later is an error."""
    return config.host.development or not store_traces(config)


def _witness(loaded: LoadedHost) -> WitnessFile:
    audit, state = loaded.config.audit, loaded.config.host.state_dir
    if not audit.witnesses and audit.witness.resolve().is_relative_to(state.resolve()):
        log.warn(
            "the witness file {file} lies in the state directory, and no other host witnesses the log: restoring "
            "an older state directory restores the file with it, and the host cannot detect it; put [audit] witness on "
            "another disk, or name [audit] witnesses",
            file=str(audit.witness),
        )
    keys = () if loaded.key is None else every_key(loaded.key)
    if problems := place_problems(loaded.config, {("audit", "witness"): audit.witness}):
        raise ConfigurationError(problems)
    return WitnessFile(audit.witness, keys)


def place_problems(config: Config, files: Mapping[Location, Path]) -> list[Problem]:
    """
    Return a problem for each file that could not be written, or is not a file.

    Only the host's machine is checked: a configuration may be read on another.

    :param files: by the key that names them; those in the state directory are created at the start.
    """
    faults: list[ConfigFault] = []
    for location, file in files.items():
        place = file.parent
        if location[0] == "audit" and file.exists() and not file.is_file():
            what = "a directory" if file.is_dir() else "a pipe, a socket or a device"
            message = f"names {what}, where a file is expected: {file}"
            faults.append(ConfigFault(location=location, message=message, hint="name a file"))
            continue
        if place == config.host.state_dir or os.access(place, os.W_OK | os.X_OK):
            continue
        missing = not place.exists()
        faults.append(
            ConfigFault(
                location=location,
                message=f"lies in a directory that {'does not exist' if missing else 'cannot be written'}: {place}",
                hint=f"run: mkdir -p {place}" if missing else "run the host as the user who owns the directory",
            )
        )
    return problems_in(config.file, faults)


def store_traces(config: Config) -> tuple[Path, ...]:
    """
    Return the files that show that a host has had a store, even if the store and its witness file are missing.

    An emptied database without its witness file looks like the first start of a new host. A host creates these files at
    its start, after the witness file, so they distinguish a host that lost its evidence from a new one. If all of them
    are removed, nothing on this machine shows it; a witness run by another party can.
    """
    state, witness = config.host.state_dir, config.audit.witness
    found = [state / HISTORY, *locate_store(config.store).traces()]
    for folder, pattern in ((state / DIRECTORY, "*"), (witness.parent, f"{witness.name}.*Z*")):
        found += sorted(folder.glob(pattern))[:3]
    return tuple(path for path in found if path.exists())
