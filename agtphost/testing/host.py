"""A whole host in memory, built by the host's own builders."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from agtphost.audit.drafts import HOST_CHAIN, StoredRecord
from agtphost.audit.host_clock import HostClock
from agtphost.audit.ledger import Ledger
from agtphost.client.requests import Identity, Scopes, prepare
from agtphost.contract.binding import Binding
from agtphost.host.core import Core, compose
from agtphost.host.evidence import keep_evidence
from agtphost.host.foundation import Foundation
from agtphost.host.handler_factory import HandlerFactory
from agtphost.host.plugins import Factory
from agtphost.host.upstreams import Upstreams, upstreams
from agtphost.iagtp import IDispatcher
from agtphost.identity.directory import AgentDirectory
from agtphost.identity.keys import SigningKey
from agtphost.identity.peer import Peer, PeerCertificate
from agtphost.protocols import AGTPServerFactory
from agtphost.stores import MemoryStore
from agtphost.testing.connection import Answer, MemoryConnection
from agtphost.testing.declarations import Answering, Declarations
from agtphost.testing.identities import Identities, TestAgent, key_of
from agtphost.testing.ledger import PromptLedger
from agtphost.testing.loaded import config_of, loaded_of
from agtphost.testing.reactor import InTurn, LoopInTurn, MemoryReactor, reactor_in_use, run_reactor_until
from agtphost.vocabulary.steps import run_to_end
from agtphost.wire import Limits

ADDRESS = "127.0.0.1"
"""Where every caller calls from, unless a test says otherwise."""


class Unanswered(AssertionError):
    """A call waits for something: :meth:`MemoryHost.begin` it, do what it waits for, or move the clock."""


class MemoryHost:
    """
    A host as ``twistd agtp`` runs it, but for sockets, threads, files and upstreams that are running.

    It is built when it is first needed: endpoints are given before that, agents at any time.

    :param settings: the tables of ``host.toml`` as dictionaries; a production host's where they say nothing.
    :param endpoints: a file of endpoints or a directory of such files; or tables as TOML has them, in which
        ``handler`` may be the function itself.
    :param store: of another host in memory, to play a restart.
    :param environ: where secrets are looked up.
    :param plugins: factories of plugins by the names that ``settings`` and ``endpoints`` call them by; such a package
        need not be installed.
    :raises agtphost.errors.ConfigurationError: with everything that is wrong in ``settings``.
    """

    writing: type[Ledger] = PromptLedger
    """What keeps its records; a subclass may have another."""

    def __init__(
        self,
        settings: Mapping[str, Any] | None = None,
        *,
        endpoints: str | Path | Iterable[Mapping[str, Any]] = (),
        store: MemoryStore | None = None,
        environ: Mapping[str, str] | None = None,
        plugins: Mapping[str, Factory] | None = None,
    ) -> None:
        self._environ = dict(environ or {})
        self._plugins = dict(plugins or {})
        self.config = config_of(settings or {}, self._environ)
        self.clock = MemoryReactor()
        """Deadlines and timers are counted by it."""

        self.ahead = 0.0
        """Seconds by which the system's clock differs from the time that passes: see :meth:`set_clock`."""

        self.store = store or MemoryStore()
        self.key: SigningKey = key_of("host")
        """Signs records and the manifest."""

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

    # What it is made of

    def agent(self, name: str, **options: Any) -> TestAgent:
        """
        An agent that this host knows; it may be given to :meth:`call` as ``caller``.

        :param options: see :meth:`agtphost.testing.identities.Identities.agent`: ``scopes``, ``hosted``,
            ``certificate``, ``tier``, ``zone``, ``description``, ``members``.
        :raises agtphost.identity.provisioning.ProvisioningError: naming what is wrong.
        """
        made = self.identities.agent(name, **options)
        self.directory.admit([made.agent])
        return made

    def endpoint(
        self,
        method: str,
        path: str,
        function: Answering | Mapping[str, Any],
        takes: Mapping[str, str | Mapping[str, Any]] | None = None,
        **members: Any,
    ) -> None:
        """
        Have a function answer, or a plugin.

        :param function: what answers; or a ``[handler]`` table, such as ``{"type": "plugin", "plugin": "shelf"}``.
        :param takes: the members of its input besides those in its path, all of them required: a JSON type, such as
            ``"string"``, or a schema each.
        :param members: of the endpoint's declaration, as in TOML; without them it gives any object, changes nothing
            and asks for no scope.
        """
        assert self._core is None, "the host is built: give endpoints before the first call"
        self._declarations.function(method, path, function, takes or {}, members)

    def bind(self, binding: Binding) -> None:
        """Have anything answer that the host can be made of."""
        assert self._core is None, "the host is built: give endpoints before the first call"
        self._bindings.append(binding)

    @property
    def core(self) -> Core:
        """
        The host's own parts.

        :raises agtphost.errors.ConfigurationError: an endpoint is wrong.
        """
        if self._core is None:
            self._core = self._build()
        return self._core

    def _build(self) -> Core:
        key = self.key if self.config.audit.signing else None
        loaded = loaded_of(self.config, self._environ, self.directory, self._declarations, key, self._plugins)
        loaded = replace(loaded, bound=(*loaded.bound, *map(_Bound, self._bindings)))
        factory = HandlerFactory(self.clock, self.config.endpoints.threads)
        factory.threads, factory.loop = InTurn(self.clock), LoopInTurn(self.clock)
        evidence = keep_evidence(loaded, self.clock, self.store, self.writing, _MemoryClock(self))
        on = self.foundation(Foundation.of(loaded, self.clock, evidence))
        core = run_to_end(compose(on, self.upstreams(on), factory))
        core.announce()
        evidence.ledger.start()
        evidence.observers.startService()  # type: ignore[no-untyped-call]
        evidence.clock_watch.begin()
        on.lasting.workflows.start()
        on.lasting.monitors.start()
        return core

    def foundation(self, on: Foundation) -> Foundation:
        """Stands between what the host is built on and its builders: a subclass may put something else there."""
        return on

    def upstreams(self, on: Foundation) -> Upstreams:
        """Those that are configured, none of which is running; a subclass may have others."""
        return upstreams(on, self._environ)

    def seconds(self) -> float:
        """The present time in seconds since the Unix epoch, as far as the clock was moved ahead."""
        return time.time() + self.clock.seconds()

    @property
    def dispatcher(self) -> IDispatcher:
        """What answers requests, for a test that has one ready."""
        return self.core.admission.dispatcher

    # Calling it

    def connect(self, caller: TestAgent | PeerCertificate | None = None, *, address: str = ADDRESS) -> MemoryConnection:
        """
        A new connection.

        :param caller: an agent, a certificate that names none, or nobody.
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
        Call, and be told of the answer when it comes; the parameters are those of :meth:`call`.
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
        Call, and have the answer.

        :param path: with its query, if it has one; ``/agents/NAME/...`` addresses a hosted agent.
        :param input: the method's parameters.
        :param wait: seconds of real time that a handler may take which leaves the thread (``deferToThread``) or waits
            for Twisted's reactor; the reactor runs meanwhile. A test that runs on the reactor itself takes
            :meth:`call_on_reactor`.
        :param caller: an agent (:meth:`agent`), a certificate that names none, or None for nobody.
        :param headers: further fields.
        :param scopes: what the call claims; by default all that the caller may.
        :param connection: by default the caller's own, which its calls share.
        :param options: ``body``, ``content_type``, ``task_id``, ``session_id``, ``idempotency_key``, ``context`` and
            ``streaming``, as the client library has them.
        :raises Unanswered: it waits for something.
        :raises AssertionError: the record of the answer is not to be believed.
        :raises agtphost.client.errors.InvalidCall: no client can send it.
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
        Run what becomes due in the host's clock whenever Twisted's reactor caused it.

        :return: fires once the answer is there, or after so many seconds of real time.
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

    # Time, evidence, end

    def advance(self, seconds: float) -> None:
        """
        Let time go by: deadlines of calls, timers of handlers that use :attr:`clock`, idle connections, and whatever
        the host keeps for a while. Certificates alone are judged by the time that it is.
        """
        self.clock.advance(seconds)
        if self._factory is not None:
            self._factory.sweep()
        self.clock.settle()

    def set_clock(self, ahead: float) -> None:
        """
        Set the system's clock, and have the host look at it.

        :param ahead: seconds by which it differs from the time that passes.
        """
        self.ahead = ahead
        self.core.on.evidence.clock_watch.look()
        self.clock.settle()

    def records(self, chain: str = HOST_CHAIN) -> list[StoredRecord]:
        """
        What was sealed, oldest first.

        :param chain: a hosted agent's Agent-ID; by default the host's own, for what no hosted agent answered.
        """
        return list(reversed(self.store.walk(chain, None, 1_000_000)))

    def close(self) -> None:
        """End it. Its store can be given to the next host."""
        if self._core is None:
            return
        for connection in self._connections.values():
            connection.close()
        self.clock.settle()
        self._core.on.evidence.observers.stopService()
        self._core.on.evidence.ledger.stop()


class _MemoryClock(HostClock):
    """The time of a host in memory: what passes is what a test lets pass, and certificates do not expire by it."""

    def __init__(self, host: MemoryHost) -> None:
        super().__init__(lambda: host.seconds() + host.ahead, lambda: host.seconds())
        self._host = host

    def latest(self) -> float:
        """The time that it is, moved ahead where the system's clock was."""
        return time.time() + max(self._host.ahead, 0.0)


class _Bound:
    """A binding where the host expects an endpoint yet to be bound."""

    def __init__(self, binding: Binding) -> None:
        self._binding = binding

    def bind(self, factory: HandlerFactory) -> Binding:
        return self._binding
