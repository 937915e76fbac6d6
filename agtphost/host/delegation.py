"""Build DELEGATE as ``[delegation]`` configures it: tasks here, on other hosts, and after the answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Unpack

from twisted.application.service import Service
from twisted.internet.defer import Deferred

from agtphost.audit.state import StateTable
from agtphost.client import ClientError, Reply
from agtphost.client.caller import CallOptions
from agtphost.client.client import Client
from agtphost.client.errors import CannotConnect, InvalidCall, TLSRefused
from agtphost.config import Config
from agtphost.config.delegation import DelegationHost, DelegationSection
from agtphost.config.presence import own_address
from agtphost.contract.binding import Binding
from agtphost.dispatch.gates.governance import Governance, GovernanceGate
from agtphost.dispatch.used_tokens import UsedTokens
from agtphost.handlers.authorization import Authorization
from agtphost.handlers.built_in import Target
from agtphost.handlers.log_context import client_span
from agtphost.handlers.peer_hosts import HostAnswer, HostLost, HostUnreachable
from agtphost.handlers.tracing import end_span_after, fields_of
from agtphost.host.evidence import Evidence
from agtphost.host.host_loader import LoadedHost
from agtphost.iagtp import IAgentDirectory, IGate, ILedger
from agtphost.identity.keys import VerifyingKey
from agtphost.identity.peer import Assurance
from agtphost.methods.continuation import Continuations
from agtphost.methods.delegation.asynchronous_tasks import (
    AT_WORK,
    AT_WORK_OF_ONE,
    PATH,
    TASK,
    AsynchronousTasks,
    TaskReading,
)
from agtphost.methods.delegation.decision import (
    Forwarded,
    RemoteHost,
)
from agtphost.methods.delegation.delegate import Delegation
from agtphost.methods.delegation.tokens import CHAIN
from agtphost.stores import StoreError
from agtphost.upstream.queue import CallQueue
from agtphost.vocabulary.quotas import ITEM_KINDS

SECONDS_TO_ANSWER = 5.0
"""Seconds that DELEGATE may take beyond the longest task: it still has to report that the task was late."""

CONNECT_SECONDS = 10.0
KEYS_SECONDS = 600.0
"""Seconds after which a peer's keys are fetched again."""


class HostLink:
    """
    A client of one ``[[delegation.peers]]`` host, with this host's own client certificate.

    The tokens prove who delegates; the certificate only shows which host presents them.
    """

    def __init__(self, reactor: Any, settings: DelegationHost) -> None:
        self._reactor = reactor
        self._settings = settings
        self._client: Client | None = None
        self._fetched_keys: Mapping[str, VerifyingKey] = {}
        self._fetched_at = 0.0

    @property
    def server_id(self) -> str:
        return self._settings.server_id

    @property
    def zone(self) -> str | None:
        return self._settings.zone

    @property
    def keys(self) -> Sequence[VerifyingKey]:
        key = self._settings.signing_key
        return () if key is None else (key,)

    @property
    def uri(self) -> str:
        """Return the peer's URI."""
        return self._settings.uri

    async def delegate(self, forwarded: Forwarded, seconds: float) -> HostAnswer:
        return await self.ask(
            "DELEGATE",
            "/",
            forwarded.parameters,
            seconds + SECONDS_TO_ANSWER,
            headers=[("Agent-ID", forwarded.delegator), *forwarded.fields],
            scopes=forwarded.scope,
            task_id=forwarded.task_id,
            session_id=forwarded.session_id,
            context={CHAIN: list(forwarded.chain)} if forwarded.chain else None,
        )

    async def ask(
        self, method: str, path: str, parameters: Mapping[str, Any], seconds: float, **options: Unpack[CallOptions]
    ) -> HostAnswer:
        """
        Send one request once, and check the record of its answer.

        :param options: ``headers`` may include ``Agent-ID`` of the caller.
        :raises HostUnreachable: the request was never sent.
        :raises HostLost: the request was sent, and no answer came.
        """
        client = self.connect()
        keys = await self._signing_keys(client)
        span = client_span(method, {"rpc.system.name": "agtp", "agtp.upstream": f"agtp.{self.server_id}"})
        options["headers"] = [*options.get("headers", ()), *fields_of(span)]
        options["idempotent"] = False
        try:
            reply = await end_span_after(
                span, client.call(self._settings.uri, method, path, parameters, timeout=seconds, **options)
            )
        except (CannotConnect, TLSRefused, InvalidCall) as error:
            raise HostUnreachable(str(error)) from None
        except ClientError as error:
            raise HostLost(str(error)) from None
        return HostAnswer(
            status=reply.status,
            document=reply.document,
            audit_id=reply.audit_id or "",
            doubt=self._doubt(reply, keys),
        )

    async def _signing_keys(self, client: Client) -> Mapping[str, VerifyingKey]:
        """
        Return the peer's signing keys: as configured, or from its manifest, which its TLS certificate vouches for.
        """
        key = self._settings.signing_key
        if key is not None:
            return {key.kid: key}
        now = self._reactor.seconds()
        if not self._fetched_keys or now - self._fetched_at > KEYS_SECONDS:
            try:
                self._fetched_keys = await client.fetch_signing_keys(self._settings.uri)
            except ClientError as error:
                raise HostUnreachable(f"its manifest with its signing keys could not be fetched: {error}") from None
            self._fetched_at = now
        return self._fetched_keys

    def _doubt(self, reply: Reply, keys: Mapping[str, VerifyingKey]) -> str:
        failures = reply.verify(keys).failures
        if failures:
            self._fetched_keys = {}
            return failures[0].detail.rstrip(".")
        if reply.server_id != self._settings.server_id:
            return "the record was made by another host"
        return ""

    def connect(self) -> Client:
        if self._client is None:
            settings = self._settings
            self._client = Client(
                self._reactor,
                trust=settings.ca,
                cert=settings.cert,
                key=settings.key,
                connect_timeout=CONNECT_SECONDS,
                bootstrap=None,
            )
        return self._client

    async def close(self) -> None:
        """Close the connections to the peer."""
        if self._client is not None:
            await self._client.close()


class DelegationService(Service):
    """
    A service that marks tasks of an earlier process as lost, and stops running ones in order.

    :param seconds: how long running tasks may take to end at shutdown.
    """

    name = "delegation"

    def __init__(self, tasks: AsynchronousTasks, peers: Sequence[HostLink], seconds: float) -> None:
        self._tasks = tasks
        self._peers = peers
        self._seconds = seconds

    def startService(self) -> None:
        super().startService()  # type: ignore[no-untyped-call]
        self._tasks.start()

    def stopService(self) -> Deferred[None]:
        super().stopService()  # type: ignore[no-untyped-call]
        return Deferred.fromCoroutine(self._stop())

    async def _stop(self) -> None:
        await self._tasks.stop(self._seconds)
        for peer in self._peers:
            await peer.close()


@dataclass(frozen=True, kw_only=True)
class DelegatedWork:
    """Delegated tasks and the hosts that take them, as ``[delegation]`` says at the start."""

    rules: DelegationSection
    links: Sequence[HostLink]
    by_agent: Mapping[str, RemoteHost]
    used: UsedTokens
    tasks: AsynchronousTasks
    service: Service

    @classmethod
    def for_host(
        cls,
        config: Config,
        directory: IAgentDirectory,
        held: StateTable,
        reactor: Any,
        ledger: ILedger,
        now: Callable[[], float],
    ) -> DelegatedWork:
        """
        Build the delegated work of one host.

        :raises agtphost.stores.StoreError: a peer's settings cannot be used.
        """
        given = config.delegation
        links = [HostLink(reactor, entry) for entry in given.peers]
        by_agent: dict[str, RemoteHost] = {}
        for link, entry in zip(links, given.peers, strict=True):
            try:
                link.connect()
            except ClientError as error:
                raise StoreError(f"[[delegation.peers]] {entry.uri}: {error}") from None
            by_agent.update(dict.fromkeys(entry.agents, link))
        # The queue holds as many tasks as may exist, so an accepted task is never rejected.
        turns = CallQueue(reactor, AT_WORK, waiting=ITEM_KINDS[TASK].in_all, share=AT_WORK_OF_ONE)
        tasks = AsynchronousTasks(held, directory, ledger, reactor, turns, now)
        return cls(
            rules=given,
            links=links,
            by_agent=by_agent,
            used=UsedTokens(held),
            tasks=tasks,
            service=DelegationService(tasks, links, config.limits.drain_timeout),
        )


@dataclass(frozen=True, kw_only=True)
class DelegationParts:
    """The bindings, INSPECT targets and gates of delegation."""

    bindings: tuple[Binding, ...]
    targets: Mapping[str, Target]
    """Targets of INSPECT."""

    gates: tuple[IGate, ...]
    """The gate that checks requests against governance tokens; empty where no platform is trusted."""


def build_delegation(
    loaded: LoadedHost,
    work: DelegatedWork,
    evidence: Evidence,
    reactor: Any,
    *,
    authorization: Authorization,
    continuations: Continuations,
    latest: Callable[[], float],
) -> DelegationParts:
    """
    Build DELEGATE, and the methods that report on delegated tasks.

    :param latest: returns the time for checking tokens.
    """
    given, server_id = work.rules, loaded.config.host.server_id
    handler = Delegation(
        loaded.directory,
        evidence.states.state_of,
        work.used,
        server_id=server_id,
        address=own_address(loaded.config),
        key=loaded.key,
        clock=reactor,
        rules=given,
        hosts=work.by_agent,
        tasks=work.tasks,
        now=latest,
    )
    reading = TaskReading(evidence.held, authorization, continuations)
    governance = Governance(given.governance, work.used, server_id, latest)
    return DelegationParts(
        bindings=(
            delegate_binding(handler, given.max_deadline + SECONDS_TO_ANSWER, loaded.catalog.statement("DELEGATE")),
            task_binding(reading),
        ),
        targets={TASK: reading.read},
        gates=(GovernanceGate(governance, evidence.ledger),) if given.governance else (),
    )


def delegate_binding(handler: Delegation, timeout: float, description: str = "DELEGATE") -> Binding:
    """
    Return the binding of DELEGATE on ``/``.

    Its token proves who delegates, and each call of its task needs its own rights. So the assurance of a header is
    enough here: another host connects with its own certificate and names the agent whose token it presents.
    """
    return Binding.native("DELEGATE", "/", handler, description, Assurance.HEADER, changes=True, timeout=timeout)


def task_binding(reading: TaskReading) -> Binding:
    """Return the binding of ``QUERY /delegations``; the handler decides who may read which tasks."""
    statement = "Asynchronous tasks that the calling agent delegated, and their results."
    return Binding.native("QUERY", PATH, reading, statement, Assurance.NONE)
