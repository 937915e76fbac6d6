"""
The blocking client, for scripts and the command line: standard library sockets, no reactor.

Has the options, rules and errors of :class:`agtphost.client.Client`. Safe to
share between threads: over TLS each call has a connection to itself while it
runs, over QUIC all calls to a host have one connection.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Iterator, Mapping
from os import PathLike
from types import TracebackType
from typing import Any, TypeVar, Unpack

from agtphost.client import purchase as purchasing
from agtphost.client import tls
from agtphost.client.async_calls import caller
from agtphost.client.blocking_connection import connect
from agtphost.client.bootstrap import BootstrapPolicy, HTTPAnswer
from agtphost.client.call_flow import Calls, patient, run_to_end
from agtphost.client.caller import CallOptions, ClientOptions
from agtphost.client.carriers import OVERTAKEN, CarrierTable, may_fall_back
from agtphost.client.connections import CallConnection, Stream
from agtphost.client.deadline import Clock, Deadline
from agtphost.client.errors import ClientError
from agtphost.client.host import RecordVerifier, describe_host
from agtphost.client.manifests import ServerManifest
from agtphost.client.purchase import Counterparty
from agtphost.client.quic.loading import load_quic
from agtphost.client.reply import Reply
from agtphost.client.requests import Destination
from agtphost.client.resolution import Resolution, TrustPolicy
from agtphost.client.target import Target
from agtphost.client.target import find_for_client as found_target
from agtphost.client.tcp_rival import Overtaken, TcpRival
from agtphost.client.tools import Tool, ToolResult, execute, result_of, tools_of
from agtphost.identity.key_ring import KeyRing
from agtphost.identity.keys import VerifyingKey
from agtphost.vocabulary.uris import AgtpUri

T = TypeVar("T")


def _replies(work: Coroutine[Reply, None, Reply]) -> Iterator[Reply]:
    """Carry out a call: what it hands out, and its result."""
    with contextlib.closing(work):
        try:
            while True:
                yield work.send(None)
        except StopIteration as ended:
            final: Reply = ended.value
        yield final


class _BlockingCalls(Calls[CallConnection]):
    """The procedures of the client, in which every wait blocks the thread."""

    def __init__(self, clock: Clock, sleep: Callable[[float], None], **options: Unpack[ClientOptions]) -> None:
        super().__init__(clock, **options)
        self._blocks = sleep
        self._load_context()
        self._guard = self._changed = threading.Condition()
        self._failures: dict[Destination, list[ClientError]] = {}
        """For the calls that wait for the one connection to a host: why it could not be opened."""

        self._lock = threading.Lock()

    def begin(
        self,
        uri: str | AgtpUri,
        method: str,
        path: str,
        input: Mapping[str, Any] | None,
        stream: Stream | None,
        timeout: float | None,
        patience: float | None,
        **options: Unpack[CallOptions],
    ) -> Iterator[Reply]:
        """Return a call that is known to be well-formed, to be carried out by iterating over its replies."""
        options = patient(options, stream, patience)
        call = self._caller.prepare(uri, method, path, input, streaming=stream is not None, **options)
        return _replies(self._call_until_decided(call, stream, timeout, patience))

    def close(self) -> None:
        for link in self._drain():
            link.close()

    async def _run_limited(self, work: Coroutine[Any, Any, T], deadline: Deadline) -> T:
        return await work  # Each blocking operation asks the deadline how long it may block.

    async def _wait_freed(self, key: Destination, deadline: Deadline) -> None:
        failure = self._failures.setdefault(key, [])
        self._changed.wait(deadline.seconds_left)
        if failure:
            raise failure[0]

    def _wake(self, key: Destination) -> None:
        self._changed.notify_all()

    def _wake_all(self, key: Destination, error: ClientError | None = None) -> None:
        waited = self._failures.pop(key, None)
        if waited is not None and error is not None:
            waited.append(error)
        self._changed.notify_all()

    async def _sleep(self, seconds: float) -> None:
        self._blocks(seconds)

    @contextlib.asynccontextmanager
    async def _reading(self, key: Destination) -> AsyncIterator[None]:
        with self._lock:
            yield

    async def _fetch(self, domain: str, policy: BootstrapPolicy) -> HTTPAnswer | str:
        from agtphost.client import blocking_https  # It imports a client of HTTP, which few calls need.

        return blocking_https.bootstrap(domain, self._caller.settings, policy)

    def _load_context(self) -> None:
        if self._uses_quic:
            self._quic = load_quic(self._caller.settings)
        if self._uses_quic is not True:
            self._context = tls.stdlib_context(self._caller.settings)

    async def _connect(self, key: Destination, deadline: Deadline) -> CallConnection:
        presented = self._presented.stamp
        if self._carriers is not None:
            link = self._connect_by_either(self._carriers, key, deadline)
        else:
            link = self._connect_by_quic(key, deadline) if self._uses_quic else self._connect_by_tls(key, deadline)
        link.presented = presented
        return link

    def _connect_by_tls(
        self, key: Destination, deadline: Deadline, opened: socket.socket | None = None
    ) -> CallConnection:
        return connect(key, self._context, self._limits, deadline, opened)

    def _connect_by_quic(self, key: Destination, deadline: Deadline, rival: TcpRival | None = None) -> CallConnection:
        from agtphost.client.quic import blocking

        return blocking.connect(
            key, self._quic, self._limits, deadline, self._now, rival=rival, tls_port=self._tls_port
        )

    def _connect_by_either(self, carriers: CarrierTable, key: Destination, deadline: Deadline) -> CallConnection:
        place, cause, connected = carriers.quic_of(key, self._now()), "", False
        opened: socket.socket | None = None
        try:
            if place is not None:
                with contextlib.closing(TcpRival(key, self._now)) as rival:
                    try:
                        return self._connect_by_quic(place, deadline, rival)
                    except Overtaken:
                        opened, cause = rival.take(), OVERTAKEN
                    except ClientError as error:
                        if not may_fall_back(error):
                            carriers.forget(key)
                            raise
                        cause = error.explanation
            link = self._connect_by_tls(key, deadline, opened)
            connected = True
            return link
        finally:
            carriers.end_attempt(key, self._now(), connected=connected, cause=cause)


class Client:
    """
    Calls AGTP hosts; a context manager that keeps connections open between calls.

    :param clock: seconds, never going back.
    :param sleep: lets them pass.
    :param options: see :class:`~agtphost.client.caller.ClientOptions`.
    :raises agtphost.client.errors.InvalidCall: for files and identifiers that cannot be used.
    """

    def __init__(
        self,
        *,
        clock: Clock = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        **options: Unpack[ClientOptions],
    ) -> None:
        self._calls = _BlockingCalls(clock, sleep, **options)

    @classmethod
    def of(
        cls,
        where: str | PathLike[str] | None = None,
        *,
        as_: str | None = None,
        uri: str | None = None,
        anonymous: bool = False,
        signing_key: str | PathLike[str] | None = None,
        verify: bool = True,
        **options: Unpack[ClientOptions],
    ) -> Host:
        """
        Find a host as the ``agtp`` command does, with the authority, keys and certificates that go with it.

        :param where: a ``host.toml`` or the directory of one, the name of a profile in
            ``~/.config/agtphost/config.toml``, or ``agtp://HOST``; None: the ``host.toml`` that lies where the program
            runs.
        :param as_: whom to call as: the name of an agent among those that lie with the host; None: ``demo``, where
            there is one.
        :param uri: the host's address, where the configuration does not say.
        :param anonymous: shows no certificate.
        :param signing_key: the file of a public key of the host's, which alone counts then; None: the keys that lie
            with the host, or those of its manifest.
        :param verify: whether the record of each answer is checked, which is an error where it fails.
        :param options: of the client; they win over what was found.
        :raises agtphost.client.errors.InvalidCall: saying what is missing, and how it is made.
        """
        target, found = found_target(where, as_, uri, anonymous, signing_key, options)
        return Host(cls(**found), target, verify=verify)

    @property
    def agent_id(self) -> str | None:
        """The agent that calls are made as; None for anonymous ones."""
        return self._calls.agent_id

    def __repr__(self) -> str:
        return f"<Client {caller(self.agent_id)}>"

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections that no call is using; the others close when their calls end."""
        self._calls.close()

    def call(
        self,
        uri: str | AgtpUri,
        method: str,
        path: str = "/",
        input: Mapping[str, Any] | None = None,
        *,
        stream: Stream | None = None,
        timeout: float | None = None,
        wait_for_approval: float | None = None,
        **options: Unpack[CallOptions],
    ) -> Reply:
        """Make one call: see :meth:`agtphost.client.Client.call`."""
        for reply in self._calls.begin(uri, method, path, input, stream, timeout, wait_for_approval, **options):
            if not reply.interim:
                return reply
            if stream is not None:
                stream(reply)
        raise AssertionError("a call ends with a final reply or an error")

    def stream(
        self,
        uri: str | AgtpUri,
        method: str,
        path: str = "/",
        input: Mapping[str, Any] | None = None,
        *,
        timeout: float | None = None,
        wait_for_approval: float | None = None,
        **options: Unpack[CallOptions],
    ) -> Iterator[Reply]:
        """Make a call and iterate over its interim replies and, last, the final one."""
        return self._calls.begin(uri, method, path, input, lambda _: None, timeout, wait_for_approval, **options)

    def resolve(self, uri: str | AgtpUri, format: str | None = None) -> Reply:
        """Return what a URI addresses: see :meth:`agtphost.client.Client.resolve`."""
        return run_to_end(self._calls.resolve(uri, format))

    def resolution(
        self,
        uri: str | AgtpUri,
        format: str | None = None,
        *,
        policy: TrustPolicy = TrustPolicy(),  # noqa: B008
    ) -> Resolution:
        """Return what a URI addresses, with every check: see :meth:`agtphost.client.Client.resolution`."""
        return run_to_end(self._calls.resolution(uri, format, policy=policy))

    def fetch_signing_keys(self, uri: str | AgtpUri) -> KeyRing:
        """Return the keys that a server signs with: see :meth:`agtphost.client.Client.fetch_signing_keys`."""
        return run_to_end(self._calls.fetch_signing_keys(uri))

    def manifest(
        self,
        uri: str | AgtpUri,
        *,
        keys: Mapping[str, VerifyingKey] | None = None,
        timeout: float | None = None,
    ) -> ServerManifest:
        """Return the manifest of a server: see :meth:`agtphost.client.Client.manifest`."""
        return run_to_end(self._calls.manifest(uri, keys=keys, timeout=timeout))

    def negotiate_catalog(self, uri: str | AgtpUri, preferred: str, known: Collection[str] | None = None) -> str:
        """Agree on a version of the method catalog: see :meth:`agtphost.client.Client.negotiate_catalog`."""
        return run_to_end(self._calls.negotiate_catalog(uri, preferred, known))


class Host:
    """
    A host, called as one agent; a context manager that closes its connections.

    Made by :meth:`Client.of`. Methods, options and errors are those of the client, without the URI.

    :param client: makes the calls.
    :param verify: whether the record of each answer is checked.
    """

    def __init__(self, client: Client, target: Target, *, verify: bool = True) -> None:
        self.client = client
        """The client below, for other URIs."""

        self.uri = target.uri
        self._verifier = RecordVerifier(client._calls, target) if verify else None

    @property
    def agent_id(self) -> str | None:
        """The agent that calls are made as; None for anonymous ones."""
        return self.client.agent_id

    def __repr__(self) -> str:
        return describe_host(self.uri, self.agent_id)

    def __enter__(self) -> Host:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections that no call is using; the others close when their calls end."""
        self.client.close()

    def call(
        self,
        method: str,
        path: str = "/",
        input: Mapping[str, Any] | None = None,
        *,
        stream: Stream | None = None,
        timeout: float | None = None,
        wait_for_approval: float | None = None,
        **options: Unpack[CallOptions],
    ) -> Reply:
        """
        Make one call: see :meth:`agtphost.client.Client.call`.

        :raises agtphost.client.errors.UnverifiedRecord: if the record of the answer is not genuine.
        """
        reply = self.client.call(
            self.uri,
            method,
            path,
            input,
            stream=stream,
            timeout=timeout,
            wait_for_approval=wait_for_approval,
            **options,
        )
        return self._verify(reply)

    def stream(
        self,
        method: str,
        path: str = "/",
        input: Mapping[str, Any] | None = None,
        *,
        timeout: float | None = None,
        wait_for_approval: float | None = None,
        **options: Unpack[CallOptions],
    ) -> Iterator[Reply]:
        """Make a call and iterate over its interim replies and, last, the final one, which is verified."""
        replies = self.client.stream(
            self.uri, method, path, input, timeout=timeout, wait_for_approval=wait_for_approval, **options
        )
        return map(self._verify, replies)

    def tools(self) -> list[Tool]:
        """
        Return the tools of the host's MCP servers that may be called now.

        :raises agtphost.client.errors.CallRefused: if the host does not list them.
        """
        return tools_of(self.call("DISCOVER", "/tools"))

    def tool(self, name: str, /, **arguments: Any) -> ToolResult:
        """
        Call a tool: ``host.tool("files.read_file", path="a.txt")``.

        :raises agtphost.client.errors.CallRefused: if the host refuses; ``raise_for_status`` of the result tells of the
            tool's own errors.
        """
        return self.call_tool(name, arguments)

    def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        stream: Stream | None = None,
        timeout: float | None = None,
        wait_for_approval: float | None = None,
        **options: Unpack[CallOptions],
    ) -> ToolResult:
        """Call a tool with the options of a call; interim replies have what the tool tells on the way."""
        input = execute(name, arguments or {})
        reply = self.call(
            "EXECUTE", "/", input, stream=stream, timeout=timeout, wait_for_approval=wait_for_approval, **options
        )
        return result_of(name, reply)

    def manifest(self) -> ServerManifest:
        """Return the host's manifest: see :meth:`agtphost.client.Client.manifest`."""
        return self.client.manifest(self.uri)

    def _verify(self, reply: Reply) -> Reply:
        return reply if self._verifier is None else run_to_end(self._verifier.verify(reply))


class Buyer:
    """
    Buys from merchants that it verified: see :class:`agtphost.client.Buyer`.

    :param client: makes the calls, as its own agent.
    :param registrars: keys that merchants' documents have to be signed with; without any, a signature may be missing.
    """

    def __init__(self, client: Client, registrars: Collection[VerifyingKey] = ()) -> None:
        self._buyer = purchasing.Buyer(client._calls, registrars)

    def verify(self, uri: str | AgtpUri, merchant_id: str | None = None) -> Counterparty:
        """Verify a merchant: see :meth:`agtphost.client.Buyer.verify`."""
        return run_to_end(self._buyer.verify(uri, merchant_id))

    def purchase(
        self,
        uri: str | AgtpUri,
        path: str,
        input: Mapping[str, Any],
        *,
        counterparty: Counterparty | None = None,
        intent_assertion: str | None = None,
        cart_digest: str | None = None,
        **options: Unpack[CallOptions],
    ) -> Reply:
        """Buy at a verified merchant: see :meth:`agtphost.client.Buyer.purchase`."""
        return run_to_end(
            self._buyer.purchase(
                uri,
                path,
                input,
                counterparty=counterparty,
                intent_assertion=intent_assertion,
                cart_digest=cart_digest,
                **options,
            )
        )


__all__ = ["Buyer", "Client", "ClientError", "Host", "Reply"]
