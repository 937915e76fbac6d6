"""
Keep the in-memory state of a host that outlives a reload: everything that calls leave in memory.

Everything else that answers requests is built for each configuration, on top of this; see
:mod:`agtphost.host.generations`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from twisted.internet.threads import deferToThreadPool

from agtphost.cluster.shared_numbers import SharedNumbers
from agtphost.compute.pool import Pool, pool_of
from agtphost.dispatch.approvals import Approvals
from agtphost.dispatch.decision_records import DecisionRecords
from agtphost.dispatch.gates.limits import AllowanceTable
from agtphost.dispatch.running_calls import RunningCalls
from agtphost.dispatch.sessions import SessionRegistry, Suspensions
from agtphost.handlers.listening_requests import ListeningRequests
from agtphost.handlers.turn_executor import TurnExecutor
from agtphost.host.delegation import DelegatedWork
from agtphost.host.evidence import Evidence
from agtphost.host.host_loader import LoadedHost
from agtphost.host.newest_key import find_token_keys
from agtphost.host.notice_queue import NoticeQueue
from agtphost.host.oauth import CredentialsInForce
from agtphost.host.publication import HISTORY
from agtphost.host.publication_history import PublicationHistory
from agtphost.host.running_host import RunningHost
from agtphost.host.transports import OfferedTransports
from agtphost.identity.key_history import every_public
from agtphost.identity.live_directory import LiveDirectory
from agtphost.methods.continuation import Continuations, continuation_key
from agtphost.methods.inspection.traffic import Traffic
from agtphost.methods.reload import ReloadRequests
from agtphost.methods.standard.collections.index import Stocks
from agtphost.methods.standard.orchestration.monitors import Monitors
from agtphost.methods.standard.orchestration.workflows import Workflows
from agtphost.negotiation.process_state import NegotiationState as Negotiations
from agtphost.search.configured_engines import SearchEngines
from agtphost.vocabulary import times


@dataclass(frozen=True, kw_only=True)
class ProcessState:
    """The objects that are built once and passed from each configuration to the next."""

    directory: LiveDirectory
    computing: TurnExecutor
    compute: Pool
    """The worker processes."""

    continuations: Continuations
    approvals: Approvals
    listening: ListeningRequests
    """Ends the requests that wait for news when the host stops."""

    sessions: SessionRegistry
    suspensions: Suspensions
    running: RunningCalls
    allowances: AllowanceTable
    """Counts of requests per agent, for rate limits."""

    negotiations: Negotiations
    history: PublicationHistory
    """What was published, with its time."""

    transports: OfferedTransports
    """The carriers that the manifest states."""

    propagation: NoticeQueue
    delegated: DelegatedWork
    traffic: Traffic
    """The answers of the last hour."""

    principals: CredentialsInForce
    reloads: ReloadRequests
    searching: SearchEngines
    """The search engines and their vectors."""

    workflows: Workflows
    """Running chains and schedules."""

    monitors: Monitors
    """Subscriptions to changes."""

    stocks: Stocks
    """The items of all collections, in order."""

    host: RunningHost
    """The host under the configuration in force."""

    @classmethod
    def for_host(
        cls, loaded: LoadedHost, reactor: Any, evidence: Evidence, seconds: Callable[[], float]
    ) -> ProcessState:
        """
        Build the lasting state of one host.

        :raises agtphost.errors.ConfigurationError: the history of publications cannot be read.
        :raises agtphost.stores.StoreError: the settings of a host that tasks are delegated to cannot be used.
        """
        config, held, states = loaded.config, evidence.held, evidence.states
        sessions, running = SessionRegistry(held=held), RunningCalls(states.state_of, reactor)
        states.watch(running.note_state)
        states.watch(sessions.note_state)
        evidence.ledger.when_stopped(sessions.endings)
        traffic = Traffic(seconds)
        monitors = Monitors(held, evidence.ledger, reactor, seconds)
        states.watch(monitors.lifecycle)
        evidence.ledger.watch(traffic.saw)
        directory = LiveDirectory(loaded.directory)
        offload, computing = partial(deferToThreadPool, reactor, reactor.getThreadPool()), TurnExecutor(reactor)
        approvals = Approvals(held, config.approvals, seconds, computing)
        approvals.decisions = DecisionRecords(evidence.records.record, partial(every_public, loaded.key))
        delegated = DelegatedWork.for_host(config, directory, held, reactor, evidence.ledger, seconds)
        listening = ListeningRequests(reactor)
        listening.at_stop(approvals.end_waits)
        return cls(
            directory=directory,
            computing=computing,
            compute=pool_of(reactor),
            continuations=Continuations(
                None if loaded.key is None else continuation_key(loaded.key, config.host.server_id),
                seconds,
                partial(find_token_keys, held, loaded.key, config.host.server_id, seconds),
            ),
            approvals=approvals,
            listening=listening,
            sessions=sessions,
            suspensions=Suspensions(held, seconds),
            running=running,
            allowances=AllowanceTable(),
            negotiations=Negotiations(),
            history=PublicationHistory(
                None if loaded.volatile else config.host.state_dir / HISTORY,
                times.stamp,
                None if evidence.lease is None else SharedNumbers(evidence.lease, evidence.ledger.call_in_writer),
            ),
            transports=OfferedTransports(),
            propagation=NoticeQueue(reactor, config, held, evidence.records, evidence.ledger),
            delegated=delegated,
            traffic=traffic,
            principals=CredentialsInForce(reactor),
            reloads=ReloadRequests(),
            searching=SearchEngines(reactor, offload),
            workflows=Workflows(held, evidence.ledger, reactor, seconds, offload),
            monitors=monitors,
            stocks=Stocks(held),
            host=RunningHost(running, traffic, states, computing, delegated.links),
        )
