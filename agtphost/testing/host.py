"""A whole host in memory, built by the host's own builders."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from agtphost.audit.drafts import HOST_CHAIN, StoredRecord
from agtphost.audit.host_clock import HostClock
from agtphost.audit.ledger import Ledger
from agtphost.audit.ledger_watch import LedgerWatch
from agtphost.client.requests import Identity, Scopes, prepare
from agtphost.contract.binding import Binding
from agtphost.host.core import Core, compose
from agtphost.host.evidence import keep_evidence
from agtphost.host.handler_factory import HandlerFactory
from agtphost.host.plugins import Factory
from agtphost.host.server_pool import SharedServices
from agtphost.host.services import HostServices
from agtphost.host.upstreams import Upstreams, build_upstreams
from agtphost.iagtp import IDispatcher
from agtphost.identity.directory import AgentDirectory
from agtphost.identity.keys import SigningKey
from agtphost.identity.peer import Peer, PeerCertificate
from agtphost.protocols import AGTPServerFactory
from agtphost.stores import MemoryStore
from agtphost.testing.connection import Answer, MemoryConnection
from agtphost.testing.declarations import Declarations, HandlerFunction
from agtphost.testing.identities import Identities, TestAgent, key_of
from agtphost.testing.ledger import PromptLedger
from agtphost.testing.loaded_parts import config_of, loaded_of
from agtphost.testing.reactor import InlineExecutor, InlineLoop, MemoryReactor, reactor_in_use, run_reactor_until
from agtphost.vocabulary.steps import run_to_end
from agtphost.wire import Limits

ADDRESS = "127.0.0.1"
"""Address of every caller, unless a test chooses another."""


class Unanswered(AssertionError):
    """A call waits: use :meth:`MemoryHost.begin`, then cause what it waits for, or advance the clock."""


class MemoryHost:
    """
    A host as ``twistd agtp`` runs it, but without sockets, threads, files and running upstreams.

    It is built when it is first needed. Add endpoints before that; agents can be added at any time.

    :param settings: the tables of ``host.toml`` as dictionaries, over the defaults of a production host.
    :param endpoints: a file of endpoints or a directory of such files; or tables as in TOML, in which
      ``handler`` may be a function.
    :param store: the store of another host in memory, to simulate a restart.
    :param environ: environment variables for secrets.
    :param plugins: factories of plugins by the names in ``settings`` and ``endpoints``; the plugins need not be
      installed.
    :param features: factories of features by the names of their tables ``[feature.NAME]``, which need not be installed
      either; their services run until :meth:`close`.
    :raises agtphost.errors.ConfigurationError: ``settings`` are not valid; the error lists every problem.
    """

    writing: type[Ledger] = PromptLedger
    """Class of the ledger that keeps the records; a subclass may choose another."""

    def __init__(
        self,
        settings: Mapping[str, Any] | None = None,
        *,
        endpoints: str | Path | Iterable[Mapping[str, Any]] = (),
        store: MemoryStore | None = None,
        environ: Mapping[str, str] | None = None,
        plugins: Mapping[str, Factory] | None = None,
        features: Mapping[str, Callable[[], Any]] | None = None,
    ) -> None:
        self._environ = dict(environ or {})
        self._plugins = dict(plugins or {})
        self._features = dict(features or {})
        self._started = SharedServices()
        self.config = config_of(settings or {}, self._environ)
        self.clock = MemoryReactor()
        """The clock of deadlines and timers."""

        self.ahead = 0.0
        """Seconds by which the system's clock differs from the time that passes: see :meth:`set_clock`."""

        self.store = store or MemoryStore()
        self.key: SigningKey = key_of("host")
        """Key that signs records and the manifest."""

        self.identities = Identities(self.config.host.server_id)
        self.directory = AgentDirectory([])
        self._declarations = Declarations()
        self._bindings: list[Binding] = []
        self._core: Core | None = None
        self._factory: AGTPServerFactory | None = None
        self._connections: dict[object, MemoryConnection] = {}
        if isinstance(endpoints, (str, Path)):
            self._declarations.files(Path(endpoints))
        else:
            for table in endpoints:
                self._declarations.table(table)

    # Setup

    def agent(self, name: str, **options: Any) -> TestAgent:
        """
        Add an agent that this host knows; pass it to :meth:`call` as ``caller``.

        :param options: see :meth:`agtphost.testing.identities.Identities.agent`: ``scopes``, ``hosted``,
          ``certificate``, ``tier``, ``zone``, ``description``, ``members``.
        :raises agtphost.identity.provisioning.ProvisioningError: the agent cannot be issued; the message says why.
        """
        made = self.identities.agent(name, **options)
        self.directory.admit([made.agent])
        return made

    def endpoint(
        self,
        method: str,
        path: str,
        function: HandlerFunction | Mapping[str, Any],
        takes: Mapping[str, str | Mapping[str, Any]] | None = None,
        **members: Any,
    ) -> None:
        """
        Add an endpoint that a function or a plugin handles.

        :param function: the handler function; or a ``[handler]`` table: ``{"type": "plugin", "plugin": "shelf"}``.
        :param takes: the members of its input besides those in its path, all of them required: a JSON type, such as
          ``"string"``, or a schema for each.
        :param members: members of the endpoint's declaration, as in TOML; without them it returns any object, changes
          nothing and requires no scope.
        """
        assert self._core is None, "the host is built already: add endpoints before the first call"
        self._declarations.function(method, path, function, takes or {}, members)

    def bind(self, binding: Binding) -> None:
        """Add any binding that a host can have."""
        assert self._core is None, "the host is built already: add endpoints before the first call"
        self._bindings.append(binding)

    @property
    def core(self) -> Core:
        """
        The host's own services; the host is built at the first access.

        :raises agtphost.errors.ConfigurationError: an endpoint is not valid.
        """
        if self._core is None:
            self._core = self._build()
        return self._core

    def _build(self) -> Core:
        key = self.key if self.config.audit.signing else None
        loaded = loaded_of(
            self.config, self._environ, self.directory, self._declarations, key, self._plugins, self._features
        )
        loaded = replace(loaded, bound=(*loaded.bound, *map(_FixedBinding, self._bindings)))
        evidence = keep_evidence(loaded, self.clock, self.store, self.writing, _MemoryClock(self))
        services = self.foundation(HostServices.for_host(loaded, self.clock, evidence))
        factory = HandlerFactory(self.clock, self.config.endpoints.threads, services.lasting.computing)
        factory.threads, factory.loop = InlineExecutor(self.clock), InlineLoop(self.clock)
        core = run_to_end(compose(services, self.upstreams(services), factory))
        core.announce()
        evidence.ledger.start()
        evidence.observers.startService()  # type: ignore[no-untyped-call]
        evidence.clock_watch.begin()
        # Other services of the host's own features reach other machines.
        self._started.start(
            core,
            [
                service
                for location, each in core.features.contributions.items()
                for service in each.services
                if len(location) > 1 or isinstance(service, LedgerWatch)
            ],
        )
        self._started.service.startService()  # type: ignore[no-untyped-call]
        services.lasting.workflows.start()
        services.lasting.monitors.start()
        return core

    def foundation(self, services: HostServices) -> HostServices:
        """Return the services for the host's builders; a subclass may replace some of them."""
        return services

    def upstreams(self, services: HostServices) -> Upstreams:
        """Return the configured upstreams, none of which is running; a subclass may return others."""
        return build_upstreams(services, self._environ)

    def seconds(self) -> float:
        """Return the present time in seconds since the Unix epoch, plus the seconds that the clock was advanced."""
        return time.time() + self.clock.seconds()

    @property
    def dispatcher(self) -> IDispatcher:
        """The dispatcher, for a test that has a prepared request."""
        return self.core.admission.dispatcher

    # Calls

    def connect(self, caller: TestAgent | PeerCertificate | None = None, *, address: str = ADDRESS) -> MemoryConnection:
        """
        Open a new connection.

        :param caller: an agent, a certificate that names no agent, or None for an anonymous caller.
        """
        shown = caller.certificate if isinstance(caller, TestAgent) else caller
        factory = self._listening()
        keys = {self.key.public.kid: self.key.public} if self.config.audit.signing else {}
        return MemoryConnection(factory, self.clock, Peer(address=address, certificate=shown), keys)

    def _listening(self) -> AGTPServerFactory:
        if self._factory is None:
            limits = Limits(**{each.name: getattr(self.config.limits, each.name) for each in fields(Limits)})
            self._factory = AGTPServerFactory(self.dispatcher, self.config.limits, self.clock, limits)
        return self._factory

    def begin(
        self,
        method: str,
        path: str = "/",
        input: Mapping[str, Any] | None = None,
        *,
        caller: TestAgent | PeerCertificate | None = None,
        headers: Mapping[str, str] | None = None,
        scopes: Scopes = None,
        connection: MemoryConnection | None = None,
        **options: Any,
    ) -> Deferred[Answer]:
        """
        Start a call and return a Deferred of its answer; the parameters are those of :meth:`call`.
        """
        named = caller.agent_id if isinstance(caller, TestAgent) else None
        call = prepare(
            f"agtp://{self.config.host.server_id}",
            method,
            path,
            input,
            identity=Identity(agent_id=named),
            headers=tuple((headers or {}).items()),
            scopes=scopes,
            **options,
        )
        return (connection or self._connection(caller)).ask(call)

    def call(
        self, method: str, path: str = "/", input: Mapping[str, Any] | None = None, *, wait: float = 0.0, **options: Any
    ) -> Answer:
        """
        Call, and return the answer.

        :param path: may have a query; ``/agents/NAME/...`` addresses a hosted agent.
        :param input: the method's parameters.
        :param wait: seconds of real time that a handler may take which leaves the thread (``deferToThread``) or waits
          for Twisted's reactor. The reactor runs in this time. A test that runs on the reactor itself uses
          :meth:`call_on_reactor`.
        :param caller: an agent (:meth:`agent`), a certificate that names no agent, or None for an anonymous caller.
        :param headers: further header fields.
        :param scopes: scopes that the call claims; by default all that the caller may.
        :param connection: by default the caller's own connection, which its calls share.
        :param options: ``body``, ``content_type``, ``task_id``, ``session_id``, ``idempotency_key``, ``context`` and
          ``streaming``, as in the client library.
        :raises Unanswered: the call waits for something.
        :raises AssertionError: the record of the answer does not verify.
        :raises agtphost.client.errors.InvalidCall: the client library refuses to send the call.
        """
        answer = self.begin(method, path, input, **options)
        self.clock.settle()
        if not answer.called and wait:
            run_reactor_until(self._follow_reactor(answer, wait), reactor_in_use())
        if not answer.called:
            raise Unanswered(f"{method} {path} is not answered yet; wait=SECONDS waits for threads and for the reactor")
        found: list[Answer] = []
        failed: list[Failure] = []
        answer.addCallbacks(found.append, failed.append)
        if failed:
            failed[0].raiseException()
        return found[0]

    def call_on_reactor(
        self,
        method: str,
        path: str = "/",
        input: Mapping[str, Any] | None = None,
        *,
        wait: float = 10.0,
        **options: Any,
    ) -> Deferred[Answer]:
        """
        Call from a test that runs on Twisted's reactor: ``answer = await host.call_on_reactor(...)``.

        The parameters are those of :meth:`call`. The Deferred fails with :class:`Unanswered` after ``wait`` seconds.
        """
        answer = self.begin(method, path, input, **options)
        self.clock.settle()

        def require(result: Answer | None) -> Deferred[Answer]:
            if not answer.called:
                raise Unanswered(f"{method} {path} is not answered after {wait:g} seconds")
            return answer

        return self._follow_reactor(answer, wait).addCallback(require)

    def _follow_reactor(self, answer: Deferred[Answer], seconds: float) -> Deferred[None]:
        """
        Run the due calls of the host's clock after each turn of Twisted's reactor that caused some.

        :return: fires when the answer has arrived, or after so many seconds of real time.
        """
        reactor = reactor_in_use()
        over: Deferred[None] = Deferred()

        def finish(result: Any) -> Any:
            if not over.called:
                self.clock.leave(reactor)
                if late.active():
                    late.cancel()
                over.callback(None)
            return result

        late = reactor.callLater(seconds, finish, None)
        self.clock.follow(reactor)
        answer.addBoth(finish)
        return over

    def _connection(self, caller: TestAgent | PeerCertificate | None) -> MemoryConnection:
        who = caller.agent_id if isinstance(caller, TestAgent) else caller
        known = self._connections.get(who)
        if known is None or not known.reusable:
            known = self._connections[who] = self.connect(caller)
        return known

    # Time, records, end

    def advance(self, seconds: float) -> None:
        """
        Advance the time: deadlines of calls, timers of handlers that use :attr:`clock`, idle connections, and
        everything that the host keeps for a limited time. Only certificates are judged by the real time.
        """
        self.clock.advance(seconds)
        if self._factory is not None:
            self._factory.sweep()
        self.clock.settle()

    def set_clock(self, ahead: float) -> None:
        """
        Set the system's clock, and make the host notice the change.

        :param ahead: seconds by which it differs from the time that passes.
        """
        self.ahead = ahead
        self.core.services.evidence.clock_watch.check()
        self.clock.settle()

    def records(self, chain: str = HOST_CHAIN) -> list[StoredRecord]:
        """
        Return the sealed records, oldest first.

        :param chain: a hosted agent's Agent-ID; by default the host's own chain, for answers of no hosted agent.
        """
        return list(reversed(self.store.walk(chain, None, 1_000_000)))

    def close(self) -> None:
        """Stop the host; its store can be passed to the next host."""
        if self._core is None:
            return
        for connection in self._connections.values():
            connection.close()
        self.clock.settle()
        self._started.service.stopService()  # type: ignore[no-untyped-call]
        self._core.services.evidence.observers.stopService()
        self._core.services.evidence.ledger.stop()


class _MemoryClock(HostClock):
    """The clock of a host in memory: only the test advances it, and certificates do not expire by it."""

    def __init__(self, host: MemoryHost) -> None:
        super().__init__(lambda: host.seconds() + host.ahead, lambda: host.seconds())
        self._host = host

    def latest(self) -> float:
        """Return the real time, plus the seconds that the system's clock was set ahead."""
        return time.time() + max(self._host.ahead, 0.0)


class _FixedBinding:
    """A finished binding in a place where the host expects an unbound endpoint."""

    def __init__(self, binding: Binding) -> None:
        self._binding = binding

    def bind(self, factory: HandlerFactory) -> Binding:
        return self._binding
