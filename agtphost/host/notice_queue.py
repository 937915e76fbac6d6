"""
Notify subscribed registries and relying parties of lifecycle events and revoked certificates.

See core v08 section 7.2.16 and companion section 9.3.

Theory of operation. Each notice is a state item for one subscriber and agent, committed with the event itself, so
neither a crash nor an unavailable subscriber loses any. It is sent immediately, retried with growing pauses, and
removed once the subscriber has accepted it. A later change of the same agent replaces a waiting notice: what is sent is
the present end of the agent's stream, signed, newest first.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from typing import Any

from twisted.application.service import Service
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall
from twisted.logger import Logger

from agtphost.audit import retention
from agtphost.audit.drafts import HOST_CHAIN, Change, Draft, LedgerUnavailable, StaleChange, StoredRecord
from agtphost.audit.lifecycle import LifecycleStatus
from agtphost.audit.state import StateItem, StateTable
from agtphost.client import ClientError
from agtphost.client.client import Client
from agtphost.config import Config
from agtphost.host.domains import FollowUp
from agtphost.iagtp import ILedger, IRecordStore
from agtphost.identity import envelope
from agtphost.identity.agents import Agent
from agtphost.upstream.failures import UpstreamFailure
from agtphost.upstream.web_upstream import WebClient

NOTICE = "lifecycle-notice"
"""The kind of state item that holds a notice."""

REVOKED = "certificate_revoked"
"""The event of a revoked certificate (companion section 9.3)."""

BROADCAST = "infrastructure:broadcast"
"""The recipient of certificate notices; hosts of this kind deliver them to their operator."""

EVENTS_SENT = 3
"""Events of the stream that are sent: the newest and its predecessors."""

EVENTS_SEARCHED = 200
"""Events of the host's own chain that are searched for the one of a certificate."""

ATTEMPT_TIMEOUT = 20.0
"""Seconds for one attempt."""

RETRY_SECONDS = 1.0
LONGEST_RETRY_SECONDS = 300.0

log = Logger()


class Undelivered(Exception):
    """A subscriber did not take a notice; the message says why."""


class NoticeQueue(Service):
    """
    A service that queues notices and sends them.

    :param ledger: records that a notice was accepted.
    """

    name = "propagation"

    def __init__(
        self,
        reactor: Any,
        config: Config,
        held: StateTable,
        records: IRecordStore,
        ledger: ILedger,
    ) -> None:
        given = config.lifecycle
        self._reactor = reactor
        self._server_id = config.host.server_id
        self._targets = given.notify
        self._held = held
        self._records = records
        self._ledger = ledger
        self._ca = given.notify_ca
        self._options = {"trust": given.notify_ca, "cert": given.notify_cert, "key": given.notify_key}
        self._http: WebClient | None = None
        self._client: Client | None = None
        self._timers: dict[str, IDelayedCall] = {}
        self._sending: dict[str, Deferred[None]] = {}
        self._pauses: dict[str, float] = {}

    def notices(self, agent_id: str, status: str) -> tuple[Change, ...]:
        """Return the items to commit with a transition: one for each subscriber."""
        return tuple(
            Change(kind=NOTICE, key=_key(to, agent_id), value={"to": to, "agent_id": agent_id, "status": status})
            for to in self._targets
        )

    def certificate_notices(self, link: str, content: Mapping[str, str]) -> tuple[Change, ...]:
        """
        Return the items to commit with a certificate's revocation: one for each subscriber.

        :param link: the certificate's issuer and serial number.
        :param content: of the notice.
        """
        return tuple(
            Change(kind=NOTICE, key=_key(to, link), value={"to": to, "link": link, "certificate": dict(content)})
            for to in self._targets
        )

    def startService(self) -> None:
        """Send the waiting notices, and later ones when they come."""
        super().startService()  # type: ignore[no-untyped-call]
        self._held.watch(NOTICE, self._note_change)

    def stopService(self) -> Deferred[None]:
        """Stop sending notices. Those that wait are sent after the next start."""
        super().stopService()  # type: ignore[no-untyped-call]
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        for sending in tuple(self._sending.values()):
            sending.cancel()
        return Deferred.fromCoroutine(self._close())

    async def _close(self) -> None:
        if self._client is not None:
            await self._client.close()
        if self._http is not None:
            await self._http.close()

    def _note_change(self, key: str, item: StateItem | None) -> None:
        if item is None:
            self._pauses.pop(key, None)
        elif self.running and key not in self._sending:
            self._schedule(key, 0.0)

    def _schedule(self, key: str, seconds: float) -> None:
        timer = self._timers.pop(key, None)
        if timer is not None and timer.active():
            timer.cancel()
        self._timers[key] = self._reactor.callLater(seconds, self._attempt, key)

    def _attempt(self, key: str) -> None:
        self._timers.pop(key, None)
        item = self._held.get(NOTICE, key)
        if item is None or not self.running:
            return
        sending = self._sending[key] = Deferred.fromCoroutine(self._deliver(item))
        sending.addBoth(self._finish_attempt, key)

    def _finish_attempt(self, failure: Any, key: str) -> None:
        self._sending.pop(key, None)
        if not self.running:
            return
        if failure is None:
            self._pauses.pop(key, None)
            if self._held.get(NOTICE, key) is not None:  # It changed while it was sent.
                self._schedule(key, 0.0)
            return
        pause = self._pauses.get(key, RETRY_SECONDS)
        self._pauses[key] = min(pause * 2, LONGEST_RETRY_SECONDS)
        log.warn("a lifecycle notice waits: {why}", why=failure.getErrorMessage())
        self._schedule(key, pause * random.uniform(0.75, 1.25))

    async def _deliver(self, item: StateItem) -> None:
        if item.value["to"] in self._targets:
            await self._send(item.value["to"], await self._notice(item.value))
        taken = Change(kind=NOTICE, key=item.key, value=None, expected=item.version)
        try:
            await self._ledger.submit(Draft(chain=HOST_CHAIN, payload={}, changes=(taken,)))
        except StaleChange:
            return
        except LedgerUnavailable as error:
            raise Undelivered(
                f"the subscriber accepted the notice, but the store cannot record that: {error}"
            ) from None

    async def _notice(self, value: Mapping[str, Any]) -> dict[str, Any]:
        """Return the notice; its receiver needs to trust only the signed events in it."""
        if "certificate" in value:
            return await self._certificate_notice(value)
        events = await self._records.lifecycle(value["agent_id"], EVENTS_SENT)
        return {
            "type": "agtp-lifecycle-notice",
            "server_id": self._server_id,
            "agent_id": value["agent_id"],
            "status": value["status"],
            "events": _encode_signed(events),
        }

    async def _certificate_notice(self, value: Mapping[str, Any]) -> dict[str, Any]:
        events = await self._records.lifecycle(HOST_CHAIN, EVENTS_SEARCHED)
        told = [event for event in events if _is_about(event, value["link"])]
        return {
            "type": "agtp-certificate-notice",
            "server_id": self._server_id,
            **value["certificate"],
            "events": _encode_signed(told[:1]),
        }

    async def _send(self, to: str, notice: Mapping[str, Any]) -> None:
        try:
            if to.startswith("agtp:"):
                await self._send_by_agtp(to, notice)
            else:
                await self._send_by_https(to, notice)
        except (UpstreamFailure, ClientError) as error:
            raise Undelivered(f"{to}: {error}") from None

    async def _send_by_https(self, to: str, notice: Mapping[str, Any]) -> None:
        if self._http is None:
            ca = None if self._ca is None else str(self._ca)
            self._http = WebClient(self._reactor, ca=ca, headers={}, connections=1)
        await self._http.exchange("POST", to, seconds=ATTEMPT_TIMEOUT, body=notice)

    async def _send_by_agtp(self, to: str, notice: Mapping[str, Any]) -> None:
        """
        Send a notice to another host's operator (core v08 section 7.2.13); sent twice, it is still one notification.
        """
        if self._client is None:
            options: Any = self._options
            self._client = Client(self._reactor, **options, connections=1, timeout=ATTEMPT_TIMEOUT)
        of_certificate = notice.get("event_type") == REVOKED
        given = {
            "recipient": BROADCAST if of_certificate else "operator",
            "topic": "certificate-revocation" if of_certificate else "agent-lifecycle",
            "content": notice,
            "urgency": "critical",
            "delivery_guarantee": "exactly_once",
        }
        reply = await self._client.call(to, "NOTIFY", "/", given)
        if not reply.ok:
            document = reply.document if isinstance(reply.document, Mapping) else {}
            raise Undelivered(f"{to} answered {reply.status} {document.get('reason', '')}")


def _key(to: str, about: str) -> str:
    return f"{sha256(to.encode()).hexdigest()[:16]}:{about}"


def _encode_signed(events: Sequence[StoredRecord]) -> list[dict[str, str]]:
    return [
        {"audit_id": event.audit_id, "format": event.format, "signed": envelope.to_text(event.format, event.signed)}
        for event in events
    ]


def _is_about(event: StoredRecord, link: str) -> bool:
    payload = envelope.parse_unverified(event.format, event.signed)
    return payload.get("event_type") == REVOKED and payload.get("link") == link


def follow_up(propagation: NoticeQueue, now: Callable[[], float]) -> FollowUp:
    """Return a function that gives the changes to commit with a lifecycle transition: notices, and retained data."""

    def changes(agent: Agent, status: LifecycleStatus, fields: Mapping[str, object]) -> tuple[Change, ...]:
        return (
            *propagation.notices(agent.agent_id, status.value),
            *retention.retention_changes(agent, status, fields, now()),
        )

    return changes
