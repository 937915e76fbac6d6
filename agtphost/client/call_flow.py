"""
What all clients do, from a call to its reply.

The procedures are coroutines over a few things that each client does in its
own way: connecting, waiting, and keeping time. The Twisted and the asyncio client suspend
in them; the blocking client's never suspend, but to hand out an interim reply,
so that it runs the same coroutines without a reactor.
"""

from __future__ import annotations

import inspect
from abc import abstractmethod
from collections.abc import Awaitable, Collection, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager, closing
from time import time
from typing import Any, TypeVar, Unpack

from agtphost.client.approvals import WAIT, pause_after
from agtphost.client.bootstrap import BootstrapPolicy, HTTPAnswer
from agtphost.client.caller import Caller, CallOptions, ClientOptions, no_manifest, server_of
from agtphost.client.carriers import CarrierTable, needs_offers
from agtphost.client.catalogs import agree, check_versions
from agtphost.client.confirmation import consequence
from agtphost.client.connections import ConnectionSource, L, Stream
from agtphost.client.deadline import Clock, Deadline
from agtphost.client.errors import ClientError, ConnectionLost, NotConfirmed, ProtocolBroken, VerificationFailed
from agtphost.client.location import Ask, locating, question
from agtphost.client.manifests import ServerManifest, read_manifest
from agtphost.client.reply import Reply
from agtphost.client.requests import Destination, PreparedCall
from agtphost.client.resolution import Resolution, TrustPolicy, verifying
from agtphost.client.service_documents import Definition, definitions_of
from agtphost.client.verification import signing_keys_of
from agtphost.identity.key_ring import KeyRing
from agtphost.identity.keys import VerifyingKey
from agtphost.vocabulary.reasons import Reason
from agtphost.vocabulary.uris import AgtpUri

CALL_SECONDS = 60.0
"""From the call to its final reply, connecting and waiting for a free connection included."""

T = TypeVar("T")


def run_to_end(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that never suspends, and return its result."""
    with closing(work):
        try:
            work.send(None)
        except StopIteration as ended:
            result: T = ended.value
            return result
        raise AssertionError("a procedure that may not be suspended was")


def patient(options: CallOptions, stream: Stream | None, patience: float | None) -> CallOptions:
    """Return the options of a call, with the seconds that a streaming host waits for a person."""
    if stream is None or patience is None or options.get("body") is not None:
        return options
    return {**options, "context": {**(options.get("context") or {}), WAIT: max(patience, 0)}}


class Calls(ConnectionSource[L]):
    """
    The procedures of a client.

    :param now: seconds, never going back.
    """

    def __init__(self, now: Clock, **options: Unpack[ClientOptions]) -> None:
        self._caller = Caller(**options)
        self._timeout = options.get("timeout", CALL_SECONDS)
        super().__init__(now, self._caller.settings, options)

    # What each client does in its own way

    @abstractmethod
    def _sleep(self, seconds: float) -> Awaitable[None]:
        """Let time pass."""

    @abstractmethod
    def _reading(self, key: Destination) -> AbstractAsyncContextManager[object]:
        """Return a lock for the one call that reads a server's manifest; the others wait for it."""

    @abstractmethod
    def _fetch(self, domain: str, policy: BootstrapPolicy) -> Awaitable[HTTPAnswer | str]:
        """Return a domain's bootstrap document, or why there is none."""

    # Calls

    @property
    def agent_id(self) -> str | None:
        """The agent that calls are made as; None for anonymous ones."""
        return self._caller.identity.agent_id

    async def call(
        self,
        uri: str | AgtpUri,
        method: str,
        path: str = "/",
        input: Mapping[str, Any] | None = None,
        *,
        stream: Stream | None = None,
        timeout: float | None = None,  # noqa: ASYNC109
        wait_for_approval: float | None = None,
        **options: Unpack[CallOptions],
    ) -> Reply:
        """
        Make one call. Cancelling it drops its connection, or over QUIC resets its stream.

        :param input: the method's parameters.
        :param stream: takes each interim reply as it arrives, and asks the server for them.
        :param timeout: seconds, instead of the client's.
        :param wait_for_approval: where a person has to approve the call (:attr:`.Reply.approval`), seconds to wait for
            that besides: the very same call is made again, as often as the host asks for, until it is decided.
            None hands out the host's first answer; of a stream that is the one after the decision, within ``timeout``.
        :param options: see :class:`~agtphost.client.caller.CallOptions`.
        :return: the final reply, with any status.
        :raises agtphost.client.errors.ClientError: if the call gets none.
        """
        options = patient(options, stream, wait_for_approval)
        call = self._caller.prepare(uri, method, path, input, streaming=stream is not None, **options)
        return await self._call_until_decided(call, stream, timeout, wait_for_approval)

    async def resolve(self, uri: str | AgtpUri, format: str | None = None) -> Reply:
        """
        Return what a URI addresses: an Identity Document, a manifest, a namespace (core v08 section 6.1).

        A redirect is followed once. Nothing but the Agent-ID is checked: :meth:`resolution` checks everything. Of a
        manifest in parts this is the first; :meth:`manifest` and :meth:`resolution` read all of them.

        :param format: ``manifest``, ``json``, ``yaml``, ``html``, ``certificate`` or ``status``.
        :raises VerificationFailed: if the document is of another agent than the URI names.
        """
        return (await locating(self._answer, question(uri, format), self._caller.resolvers)).reply

    async def resolution(
        self,
        uri: str | AgtpUri,
        format: str | None = None,
        *,
        policy: TrustPolicy = TrustPolicy(),  # noqa: B008
    ) -> Resolution:
        """
        Return what a URI addresses, with every check: the level 2 check of core v08 section 10.2 for agents.

        A check that fails is in the answer, and no exception.

        :param policy: whose signatures count, and how old a Namespace Document may be.
        :raises VerificationFailed: if the answer is of another agent than the URI names.
        """
        asked = question(uri, format)
        return await verifying(
            self._answer, asked, self._caller.resolvers, policy, self._caller.bootstraps.locate, time
        )

    async def fetch_signing_keys(self, uri: str | AgtpUri) -> KeyRing:
        """
        Return the keys that a server says it signs records with, by ``kid``, from its manifest.

        Trust in them is trust in the server's TLS certificate.

        :raises VerificationFailed: if it publishes none.
        """
        return signing_keys_of(read_manifest(await self._discover(uri)))

    async def manifest(
        self,
        uri: str | AgtpUri,
        *,
        keys: Mapping[str, VerifyingKey] | None = None,
        timeout: float | None = None,  # noqa: ASYNC109
    ) -> ServerManifest:
        """
        Return the manifest of a server, from memory as long as it may be kept.

        From the first time on, calls to this server compare its
        ``AGTP-API-Version``, and read the manifest again before the next call
        once it changed (core v08 section 7.6).

        :param keys: that may have signed it, by ``kid``; None: those given before. An absent or invalid
            signature is warned of (:class:`.manifests.ManifestWarning`), and the manifest returned all the same.
        :raises VerificationFailed: if the server does not show one.
        """
        call = self._caller.manifest_call(uri)
        kept = self._caller.manifests.fresh(call.destination, keys, self._now())
        return kept if kept is not None else await self._read_manifest(call, keys, timeout)

    async def negotiate_catalog(self, uri: str | AgtpUri, preferred: str, known: Collection[str] | None = None) -> str:
        """
        Agree with a server on a version of the method catalog (AGTP-API section 4.6).

        Where the server has several, later calls of this client to it state the version.

        :param preferred: the client's own version; taken wherever the server has it.
        :param known: every version the client can work with; None: those of the preferred one's MAJOR version.
        :return: the preferred version, else the highest in common.
        :raises agtphost.client.errors.CatalogMismatch: if there is none.
        :raises VerificationFailed: if the server does not show its manifest, or that does not say.
        """
        check_versions(preferred, known)
        return self._caller.remember_agreement(server_of(uri), agree(await self._discover(uri), preferred, known))

    # Manifests and domains

    async def _discover(self, uri: str | AgtpUri) -> Reply:
        reply = await self.call(server_of(uri), "DISCOVER", anonymous=True)
        if not reply.ok:
            raise no_manifest(reply)
        return reply

    async def _read_manifest(
        self, call: PreparedCall, keys: Mapping[str, VerifyingKey] | None, seconds: float | None
    ) -> ServerManifest:
        reply = await self._perform(call, None, seconds)
        if not reply.ok:
            raise no_manifest(reply)
        reader = self._caller.manifests.reader(call.destination, keys)
        token = reader.add(reply)
        while token:
            further = await self._perform(self._caller.manifest_call(call.destination, token), None, seconds)
            if not further.ok:
                raise no_manifest(further)
            token = reader.add(further)
        if self._carriers is not None:
            self._carriers.note_manifest(call.destination, reply, reader.keys, self._now())
        return self._caller.manifests.adopt(call.destination, reader, self._now())

    async def _answer(self, ask: Ask) -> Reply:
        """Answer what a resolution asks: at the endpoint that the URI's domain gives, asked first if it never was."""
        bootstraps = self._caller.bootstraps
        domain = bootstraps.domain_to_ask(ask.uri, self._now())
        if domain is not None and bootstraps.policy is not None:
            bootstraps.note(domain, await self._fetch(domain, bootstraps.policy), self._now())
        if ask.part:
            return await self._perform(self._caller.manifest_call(ask.uri, ask.part), None, None)
        return await self.call(ask.uri, ask.method, anonymous=ask.anonymous)

    # The steps of a call

    async def _call_until_decided(
        self, call: PreparedCall, stream: Stream | None, seconds: float | None, patience: float | None
    ) -> Reply:
        """Make a call, and make it again while a person has not decided about it and patience is left."""
        if self._caller.asks_about(call):
            await self._agreed_to(call, seconds)
        if patience is None:
            return await self._perform(call, stream, seconds)
        waiting = Deadline(self._now, patience)
        asked = ""
        while True:
            # With a stream, it is the host that waits, as long as it is asked to.
            more = max(waiting.seconds_left, 0.0) if stream is not None else 0.0
            reply = await self._perform(call, stream, (self._timeout if seconds is None else seconds) + more)
            pending, left = reply.approval, waiting.seconds_left
            if pending is None or left <= 0 or asked not in ("", pending.approval_id):
                # Another approval than the awaited one: that one has ended without being approved.
                return reply
            asked = pending.approval_id
            await self._sleep(min(pause_after(reply.retry_after), left))

    async def _agreed_to(self, call: PreparedCall, seconds: float | None) -> None:
        """
        Have a person agree to a call that needs it (AGIS v01 section 6).

        :raises NotConfirmed: if the person does not agree.
        """
        found: tuple[Definition, ...] | None = None
        unusable = ""
        try:
            found = await self._definitions_for(call, seconds)
        except VerificationFailed as error:
            unusable = f"nothing that the server says of it can be used: {error.explanation}"
        asked = consequence(call.request.method, call.request.path, found, call.confidence, unusable)
        if asked is None or self._caller.confirm is None:
            return
        answer = self._caller.confirm(asked)
        if not (await answer if inspect.isawaitable(answer) else answer):
            raise NotConfirmed(
                f"The call {asked.method} {asked.path} was not confirmed: {asked.why}", "Nothing was sent."
            )

    async def _definitions_for(self, call: PreparedCall, seconds: float | None) -> tuple[Definition, ...]:
        """Return the endpoints that the server of a call lists for its caller, from memory while that counts."""
        server, anonymous = call.destination, call.caller_id is None
        known = self._caller.definitions.get((server, anonymous))
        if known is not None and self._now() < known[0]:
            return known[1]
        reply = await self._perform(self._caller.definitions_call(server, anonymous=anonymous), None, seconds)
        if not reply.ok:
            raise no_manifest(reply)
        return self._caller.keep_definitions(server, definitions_of(reply), self._now(), anonymous=anonymous)

    async def _perform(self, call: PreparedCall, stream: Stream | None, seconds: float | None) -> Reply:
        if self._caller.manifests.stale(call):
            # Once, for all calls that wait for it.
            async with self._reading(call.destination):
                if self._caller.manifests.stale(call):
                    await self._read_manifest(self._caller.manifest_call(call.destination), None, seconds)
        deadline = Deadline(self._now, self._timeout if seconds is None else seconds)
        return await self._run_limited(self._attempts(call, stream, deadline), deadline)

    async def _attempts(self, call: PreparedCall, stream: Stream | None, deadline: Deadline) -> Reply:
        policy, attempt = self._caller.policy, 1
        failed_at: float | None = None
        while True:
            try:
                reply = await self._reconnecting(call, stream, deadline)
            except ClientError as error:
                failed_at = self._now() if failed_at is None else failed_at
                failing = self._now() - failed_at
                wait = policy.wait_after_loss(error, call.repeatable, attempt, failing, streaming=stream is not None)
                if wait is None or wait >= deadline.seconds_left:
                    raise
            else:
                self._caller.note(call, reply)
                failing = 0.0 if failed_at is None else self._now() - failed_at
                wait = policy.wait_after(reply, call.repeatable, attempt, failing)
                if wait is None or wait >= deadline.seconds_left:
                    return reply
                failed_at = self._now() if failed_at is None else failed_at
            deadline.remaining("waiting to call again")
            await self._sleep(wait)
            attempt += 1

    async def _reconnecting(self, call: PreparedCall, stream: Stream | None, deadline: Deadline) -> Reply:
        """Make a call over a pooled connection, and once more over a new one if that was dead."""
        if self._carriers is not None and needs_offers(call):
            await self._learn_offers(self._carriers, call, deadline)
        attempt = 1
        while True:
            link = await self._borrow(call.destination, deadline)
            reused = link.has_served
            try:
                return await link.perform(call, stream, deadline)
            except ConnectionLost as error:
                # The other carrier is another way: a new connection by QUIC that dies says nothing of it.
                has_other = self._carriers is not None and link.carrier == "quic"
                if not self._caller.policy.may_repeat(
                    error, call.repeatable, reused=reused or has_other, attempt=attempt
                ):
                    raise
                if self._carriers is not None and has_other and not (reused or error.unprocessed):
                    self._carriers.suspect(call.destination, error.explanation)
                with self._guard:
                    dropped = self._pool.drop(call.destination)
                for old in dropped:
                    old.abort()
            finally:
                self._return(call.destination, link)
            attempt += 1

    def _lacks_offers(self, carriers: CarrierTable, call: PreparedCall) -> bool:
        """Return whether it is unknown what the host of a call offers, and the caller may learn it."""
        host, now = call.destination, self._now()
        return not (carriers.is_known(host, now) or carriers.is_refused(host, call.caller_id, now))

    async def _learn_offers(self, carriers: CarrierTable, call: PreparedCall, deadline: Deadline) -> None:
        """
        Read the manifest of a host whose carriers are not known, once for all calls that wait for it.

        :param call: waits for it. Its caller is named only where the host answers no others.
        """
        host = call.destination
        if not self._lacks_offers(carriers, call):
            return
        async with self._reading(host):
            if not self._lacks_offers(carriers, call):
                return
            try:
                reply = await self._reconnecting(self._caller.manifest_call(host), None, deadline)
                if reply.reason == Reason.ANONYMOUS_DISCOVERY_DISABLED and call.caller_id is not None:
                    asked = self._caller.manifest_call(host, anonymous=False)
                    reply = await self._reconnecting(asked, None, deadline)
            except (ConnectionLost, ProtocolBroken):
                # The call itself shows what is wrong.
                carriers.note_absence(host, self._now())
            else:
                carriers.note_manifest(host, reply, self._caller.manifests.keys_of(host), self._now())
            if carriers.quic_of(host, self._now()) is not None:
                # Else the connection of the reading would serve the calls.
                with self._guard:
                    dropped = self._pool.drop(host)
                for link in dropped:
                    link.close()
