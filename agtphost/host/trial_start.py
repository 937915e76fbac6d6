"""
Find out whether a host would start with a configuration, while the process waits to serve with another one.

``agtp check`` does so in a separate process (:mod:`agtphost.host.rehearsal`). Here the reactor runs, and the process
goes on: so nothing is written, nothing is scheduled, and a port is bound for a moment only.
"""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from twisted.internet.task import Clock
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from agtphost.audit.checkpoint import Checkpoint
from agtphost.audit.interfaces import IWitness
from agtphost.audit.tree import TreeKeeper
from agtphost.audit.witness import OperatorWitness, WitnessFile
from agtphost.contract.endpoint_table import AmbiguousEndpoints
from agtphost.errors import ConfigurationError, Problem
from agtphost.host.assembly import assemble
from agtphost.host.evidence import place_problems, store_traces
from agtphost.host.host_loader import LoadedHost
from agtphost.host.ordered_services import LedgerService
from agtphost.host.rehearsal import IPrecondition
from agtphost.host.unmatched import RemarkLog
from agtphost.iagtp import IChainStore
from agtphost.identity.key_history import every_public
from agtphost.stores import MemoryStore, StoreError
from agtphost.stores.settings import locate_store
from agtphost.vocabulary.foreign_errors import explain, original_of

log = Logger()


class IdleReactor(Clock):
    """
    A reactor whose timers never fire: what is built on it schedules nothing in the real one.

    :param reactor: does everything else.
    """

    def __init__(self, reactor: Any) -> None:
        super().__init__()
        self._reactor = reactor

    def seconds(self) -> float:
        """Return the time of the real reactor."""
        return float(self._reactor.seconds())

    def callWhenRunning(self, *work: Any, **options: Any) -> None:
        """Drop the call."""

    def callFromThread(self, *work: Any, **options: Any) -> None:
        """Drop the call."""

    def addSystemEventTrigger(self, *work: Any, **options: Any) -> None:
        """Drop the trigger."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reactor, name)


@implementer(IWitness)
class UnshownWitness:
    """
    A witness that is asked, and shown nothing.

    :param witness: remembers the checkpoint that it saw last.
    """

    def __init__(self, witness: IWitness) -> None:
        self.name, self.always, self.remedy = witness.name, witness.always, witness.remedy
        self.last = witness.last

    def saw(self, issued: Checkpoint) -> None:
        """Drop the checkpoint."""


class UnwrittenRemarks(RemarkLog):
    """A log of warnings that writes none: the start itself does."""

    def write(self, remarks: Iterable[str]) -> None:
        """Drop the warnings."""


def find_start_problems(loaded: LoadedHost, reactor: Any, environ: Mapping[str, str], *, serves: bool) -> list[Problem]:
    """
    Return what would keep a host from starting with a configuration; nothing of it stays.

    What the store holds is left to the start, as no file changes it, and reading a large one takes seconds.

    :param serves: whether the host is about to serve: then its witnesses are asked, and its ports are tried. The host
        that has them may be on this machine, as long as this one is on standby.
    :raises agtphost.stores.StoreError: the store keeps the host from starting with any configuration.
    """
    config = loaded.config
    problems = place_problems(config, {("audit", "witness"): config.audit.witness})
    tried = replace(loaded, volatile=True)
    if not serves:
        return [*problems, *_assemble(tried, IdleReactor(reactor), environ, MemoryStore(), serves=False)]
    with tempfile.TemporaryDirectory(prefix="agtphost-trial-") as folder:
        location = locate_store(config.store)
        store = location.rehearse(create=False, folder=Path(folder), server_id=config.host.server_id)
        try:
            problems += _assemble(tried, IdleReactor(reactor), environ, store, serves=True)
            return [*problems, *_try_witnesses(loaded, store)]
        finally:
            store.close()


def _assemble(
    loaded: LoadedHost, reactor: Any, environ: Mapping[str, str], store: IChainStore, *, serves: bool
) -> Collection[Problem]:
    try:
        assembled = assemble(loaded, reactor, environ, store, remarks=UnwrittenRemarks())
    except Exception as error:
        return list_problems(error, loaded)
    try:
        return list(_try_services(assembled.services)) if serves else ()
    finally:
        core = assembled.generations.core
        assembled.generations.discard(core)
        core.services.evidence.close_reader()


def list_problems(error: Exception, loaded: LoadedHost) -> Sequence[Problem]:
    """Return the problems of an error that keeps a host from starting with a configuration; log one that is a bug."""
    if isinstance(error, ConfigurationError):
        return error.problems
    if not isinstance(error, (AmbiguousEndpoints, OSError, StoreError, ValueError)):
        log.failure("a host could not be started", failure=Failure(error))  # type: ignore[no-untyped-call]
    return [Problem(message=explain(error), file=str(loaded.config.file), original=original_of(error))]


def _try_services(services: Iterable[object]) -> Iterator[Problem]:
    for service in services:
        if isinstance(service, IPrecondition) and not isinstance(service, LedgerService):
            yield from service.start_problems()


def _try_witnesses(loaded: LoadedHost, store: IChainStore) -> Iterator[Problem]:
    """
    Yield a problem for each witness that contradicts the store; none of them is shown anything.

    :raises agtphost.stores.StoreError: the store contradicts itself.
    """
    config, keys = loaded.config, every_public(loaded.key)
    traces = () if config.host.development else store_traces(config)
    tree = TreeKeeper(store, config.host.server_id, loaded.key, traces=traces, keys=keys)
    tree.load()
    file = WitnessFile(config.audit.witness, keys)
    for witness in (file, *(OperatorWitness(each) for each in loaded.plugins.witnesses)):
        try:
            tree.check_witness(UnshownWitness(witness))
        except (OSError, StoreError) as error:
            yield Problem(message=explain(error), file=str(config.file), original=original_of(error))
