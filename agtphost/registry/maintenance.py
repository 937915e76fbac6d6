"""
Periodic maintenance of registered cards: refetching, probing, marking as lost, and forgetting.

A card that changed at its URL takes effect immediately if only descriptions changed. If its endpoint, authentication,
operations or name changed, it waits for an approval, like a changed tool: an attacker who took over a URL does not
inherit the earlier approval.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from twisted.internet.defer import CancelledError, Deferred, DeferredList, TimeoutError
from twisted.internet.task import deferLater
from twisted.logger import Logger
from twisted.web.http_headers import Headers

from agtphost.audit.drafts import HOST_CHAIN, Change, LedgerUnavailable, StaleChange, StreamEvent
from agtphost.errors import Refusal
from agtphost.registry import card_reader
from agtphost.registry.card import AgentCard
from agtphost.registry.card_fetcher import CardFetcher, NotModified
from agtphost.registry.endpoints import EndpointChecker
from agtphost.registry.entry import CardEntry
from agtphost.registry.leases import Leases
from agtphost.registry.providers import Provider, Providers
from agtphost.registry.registered import RegisteredCards
from agtphost.registry.registration import Judge
from agtphost.upstream.failures import UpstreamLost
from agtphost.upstream.https import read

AT_ONCE = 8
"""Fetches and probes that run at the same time."""

IN_A_TURN = 2_000
"""Cards that are examined in one turn of the reactor."""

PROBE_TIMEOUT = 10.0
DAY = 86_400.0

Submit = Callable[[Sequence[Change], Sequence[StreamEvent]], Awaitable[None]]
"""Makes changes durable that belong to no call."""

log = Logger()


@dataclass(frozen=True, kw_only=True)
class MaintenanceSettings:
    """The settings of a configuration."""

    is_in_force: Callable[[], bool]
    """
    Returns whether it is the configuration in force.

    Calls of one before keep its services running. They maintain no cards then: a changed or removed section may have
    other providers, and forget nothing any more.
    """

    fetch: CardFetcher
    judge: Judge
    endpoints: EndpointChecker
    providers: Providers
    refetch_seconds: float
    forget_days: float
    has_scopes: Callable[[str, str], bool]
    """
    Whether the Agent-ID that registered a card (empty: an operator did) has the scopes for a URL.

    Fetches and probes send the operator's credentials, so they are made only for owners who could make the call.
    """


@dataclass(kw_only=True)
class CardMaintenance:
    """
    Maintenance of registered cards.

    :param registered: the cards.
    :param leases: their leases.
    :param terms: the settings of the configuration in force, which replaces them when it comes into force.
    :param submit: makes changes durable.
    :param reactor: clock of the intervals between fetches and probes.
    :param now: returns seconds since the Unix epoch.
    """

    registered: RegisteredCards
    leases: Leases
    terms: MaintenanceSettings
    submit: Submit
    reactor: Any
    now: Callable[[], float]
    _last_run: dict[tuple[str, str], float] = field(default_factory=dict)
    _failing: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.leases.on_change = self._on_lease_change
        self.registered.watch(self._on_change)

    def _on_change(self, card_id: str, entry: CardEntry | None) -> None:
        if entry is None:
            for kind in ("fetch", "probe"):
                self._last_run.pop((kind, card_id), None)
            self._failing.discard(card_id)

    async def look(self) -> None:
        """Forget, fetch and probe the cards whose time has come, as long as the settings are in force."""
        terms = self.terms
        if not terms.is_in_force():
            return
        await self._forget(terms)
        tasks = [Deferred.fromCoroutine(task) for task in await self._tasks(terms)]
        for task in tasks:
            task.addErrback(lambda failure: log.failure("the maintenance of a registered card failed", failure=failure))
        if tasks:
            await DeferredList(tasks)

    async def _entries(self) -> AsyncIterator[CardEntry]:
        """Yield all entries; the reactor gets a turn in between."""
        for number, card_id in enumerate(self.registered.ids(), 1):
            entry = self.registered.get(card_id)
            if entry is not None:
                yield entry
            if not number % IN_A_TURN:
                await deferLater(self.reactor, 0)

    async def _tasks(self, terms: MaintenanceSettings) -> list[Any]:
        moment = self.reactor.seconds()
        found: list[Any] = []
        probing = terms.providers.probing
        async for entry in self._entries():
            if len(found) >= AT_ONCE:
                break
            if entry.source.startswith("http") and self._is_due("fetch", entry.id, terms.refetch_seconds, moment):
                found.append(self._fetch(entry, terms))
            provider = terms.providers.find(entry.endpoint) if probing else None
            every = None if provider is None else provider.settings.probe_seconds
            if provider is None or every is None or not terms.has_scopes(entry.owner, entry.endpoint):
                continue
            if self._is_due("probe", entry.id, every, moment):
                found.append(self._probe(entry, provider))
        return found

    def _is_due(self, kind: str, card_id: str, seconds: float, moment: float) -> bool:
        """Return whether a task of a card is due, and if so note the time."""
        # A registered or loaded card counts as just fetched. A probe is due immediately, to learn whether its agent is
        # there.
        last = self._last_run.setdefault((kind, card_id), moment if kind == "fetch" else -seconds)
        if moment < last + seconds:
            return False
        self._last_run[kind, card_id] = moment
        return True

    # Leases

    def _on_lease_change(self, card_id: str, since: float | None) -> None:
        """Make durable that a card was lost or seen again, so that a restart does not delay its removal."""
        value, version = self.registered.item(card_id)
        if not value or value.get("lost_since") == since:
            return
        value["lost_since"] = since
        if since is None:
            del value["lost_since"]
        kind = "card-lost" if since is not None else "card-found"
        self._write(self.registered.put(card_id, value, version, None), kind, card_id)

    async def _forget(self, terms: MaintenanceSettings) -> None:
        before = self.now() - terms.forget_days * DAY
        async for entry in self._entries():
            if entry.lost_since is not None and entry.lost_since <= before:
                log.info("the card {id} is removed: its agent was silent for too long", id=entry.id)
                await self._store(self.registered.removal(entry.id), "card-forgotten", entry.id)

    def _write(self, changes: Sequence[Change], kind: str, card_id: str, **more: Any) -> None:
        writing = Deferred.fromCoroutine(self._store(changes, kind, card_id, **more))
        writing.addErrback(lambda failure: log.failure("the new state of a card could not be stored", failure=failure))

    async def _store(self, changes: Sequence[Change], kind: str, card_id: str, **more: Any) -> None:
        event = StreamEvent(chain=HOST_CHAIN, event_type=kind, fields={"card_id": card_id, **more})
        try:
            await self.submit(changes, (event,))
        except StaleChange:
            # The card was changed at the same moment, by a call that takes precedence.
            return
        except LedgerUnavailable as error:
            log.warn("the new state of the card {id} could not be stored: {why}", id=card_id, why=str(error))

    # Fetching

    async def _fetch(self, entry: CardEntry, terms: MaintenanceSettings) -> None:
        value, _ = self.registered.item(entry.id)
        if not terms.has_scopes(entry.owner, entry.source):
            self._mark_failed(entry, "the agent that registered it does not have the scopes of the URL's provider")
            return
        try:
            fetched = await terms.fetch(entry.source, str(value.get("etag", "")))
            card = card_reader.read(fetched.octets, terms.endpoints)
        except NotModified:
            self._mark_fetched(entry.id)
            return
        except Refusal as error:
            self._mark_failed(entry, error.explanation)
            return
        except card_reader.CardFaults as error:
            self._mark_failed(entry, f"the document at its URL is not a valid card: {error}")
            return
        if card.id != entry.id:
            self._mark_failed(entry, f"the card at its URL has another id: {card.id[:64]}")
            return
        self._mark_fetched(entry.id)
        await self._apply_fetched(entry.id, card, fetched.etag, terms)

    async def _apply_fetched(self, card_id: str, card: AgentCard, etag: str, terms: MaintenanceSettings) -> None:
        value, version = self.registered.item(card_id)
        if not value:
            return
        text, pending = card.octets.decode(), value.get("pending")
        if value["card"] == text:
            if pending is not None or value.get("etag", "") != etag:
                value.pop("pending", None)
                value["etag"] = etag
                await self._store(self.registered.put(card_id, value, version, None), "card-as-approved", card_id)
            return
        known = card_reader.read(str(value["card"]).encode(), EndpointChecker.allow_all())
        digest, signature = sha256(card.octets).hexdigest(), terms.judge(card)
        if known.substance == card.substance:
            former = dict(value)
            value.pop("pending", None)
            value.update(card=text, number=value["number"] + 1, updated=self.now(), etag=etag, signature=signature)
            changes = self.registered.put(card_id, value, version, former)
            await self._store(changes, "card-updated", card_id, sha256=digest)
        elif pending is None or pending["digest"] != digest:
            value["pending"] = {
                "card": text,
                "digest": digest,
                "at": self.now(),
                "etag": etag,
                "signature": signature,
                "differs": differing(known, card),
            }
            log.warn(
                "the card {id} changed at its URL in {members}: it waits for an approval (APPROVE /cards/{id})",
                id=card_id,
                members=", ".join(value["pending"]["differs"]),
            )
            changes = self.registered.put(card_id, value, version, None)
            await self._store(changes, "card-quarantined", card_id, sha256=digest)

    def _mark_fetched(self, card_id: str) -> None:
        self._failing.discard(card_id)
        self.leases.renew(card_id)

    def _mark_failed(self, entry: CardEntry, why: str) -> None:
        """Log that a card could not be fetched, once until it can be fetched again."""
        if entry.id not in self._failing:
            self._failing.add(entry.id)
            log.warn("the card {id} cannot be fetched from {url}: {why}", id=entry.id, url=entry.source, why=why)

    # Probing

    async def _probe(self, entry: CardEntry, provider: Provider) -> None:
        """Renew the lease if the endpoint answers: every answer but a server error counts."""
        asking = Deferred.fromCoroutine(_head(provider, entry.endpoint))
        asking.addTimeout(PROBE_TIMEOUT, self.reactor)
        try:
            code = await asking
        except (UpstreamLost, TimeoutError, CancelledError):
            return
        if code < 500:
            self.leases.renew(entry.id)


async def _head(provider: Provider, url: str) -> int:
    fields = Headers({name: [value] for name, value in provider.fields.items()})
    response = await provider.client.request("HEAD", url, fields)
    reading_ = read(response, 0, measured=False)
    reading_.addErrback(lambda failure: None)
    reading_.cancel()
    return int(response.code)


def differing(known: AgentCard, card: AgentCard) -> list[str]:
    """Return the members that need an approval and differ between two versions of a card."""
    names = ("name", "endpoint", "authentication", "operations")
    return [name for name, one, other in zip(names, known.substance, card.substance, strict=True) if one != other]
