"""One hosted A2A agent: fetch and check its card, and call its operations."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from agtphost.adapters.a2a import card as cards
from agtphost.adapters.a2a.card import Card, CardKey, CardRefused
from agtphost.adapters.a2a.dialects import A2aOperation, Dialect, Params
from agtphost.config.web_upstreams import A2AAgentSection
from agtphost.handlers.tracing import end_span_after, fields_of
from agtphost.upstream.failures import UnreadableAnswer, UpstreamRefused
from agtphost.upstream.pins import Pins
from agtphost.upstream.queue import Caller
from agtphost.upstream.web_upstream import WebUpstream

CARD = ""
"""The name under which an agent's card is pinned."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallOptions:
    """The caller's choice of how an operation is called."""

    binding: str = ""
    """``JSONRPC`` or ``HTTP+JSON``, used where the agent offers both; empty: the preferred one."""

    extensions: str = ""
    """Extensions of A2A that the caller wants to be active: the header field ``A2A-Extensions``."""


PREFERRED = CallOptions()

Take = Callable[[Any], Awaitable[None]]
"""Takes one event, in the shapes of 1.0."""


class A2AAgent(WebUpstream):
    """
    The service of one A2A agent.

    :param reactor: connects and schedules.
    :param keys: the keys of ``card_keys``; if there are any, a card must be signed by one of them.
    :param pins: which card is approved; None: in memory, the one of the settings or else the first.
    """

    def __init__(
        self,
        reactor: Any,
        settings: A2AAgentSection,
        *,
        keys: Mapping[str, CardKey] | None = None,
        pins: Pins | None = None,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        pins = Pins("a2a", settings.name, pins_of(settings)) if pins is None else pins
        super().__init__(reactor, settings, "a2a", pins, jitter)
        self.settings: A2AAgentSection = settings
        self._keys = keys or {}
        self.card: Card | None = None
        self._dialect: Dialect | None = None
        self._dialects: dict[str, Dialect] = {}
        self.candidate: Card | None = None
        """The card that the agent shows now, where it is not the approved one."""

    @property
    def description(self) -> Card | None:
        """The approved card, or None."""
        return self.card

    def list_pending(self) -> Mapping[str, str]:
        """Return the digest of a card that waits for approval."""
        return {} if self.candidate is None else {CARD: self.candidate.digest}

    async def ask(
        self,
        operation: A2aOperation,
        params: Params,
        seconds: float,
        caller: Caller = None,
        spoken: CallOptions = PREFERRED,
    ) -> Any:
        """
        Call an operation.

        :param caller: whose share of the turns it takes.
        :param spoken: binding and extensions, where there is a choice.
        :return: its result, in the shapes of 1.0.
        :raises agtphost.upstream.failures.UpstreamFailure: for every other outcome;
            :class:`~agtphost.upstream.failures.ErrorAnswer` where the agent answered with an error.
        """

        span = self.request_span(operation.value[0])

        async def work(left: float) -> Any:
            dialect = self.choose_dialect(spoken.binding)
            ask = dialect.make_request(operation, params, spoken.extensions)
            try:
                reply = await self._http.exchange(
                    ask.method, ask.url, headers=(*ask.headers, *fields_of(span)), body=ask.body, seconds=left
                )
            except UpstreamRefused as refused:
                raise dialect.read_refusal(refused) from None
            return dialect.result(reply.body)

        return await end_span_after(span, self.call(seconds, work, caller))

    async def stream(
        self,
        operation: A2aOperation,
        params: Params,
        seconds: float,
        take: Take,
        caller: Caller = None,
        spoken: CallOptions = PREFERRED,
    ) -> None:
        """
        Call an operation that answers with events.

        :param take: gets each event, one after another.
        :raises agtphost.upstream.failures.UpstreamFailure: as :meth:`ask` does; events may have been taken by then.
        """

        span = self.request_span(operation.value[0])

        async def work(left: float) -> None:
            dialect = self.choose_dialect(spoken.binding)
            ask = dialect.make_request(operation, params, spoken.extensions)

            async def event(octets: bytes) -> None:
                await take(dialect.event(octets))

            try:
                reply = await self._http.exchange(
                    ask.method,
                    ask.url,
                    headers=(*ask.headers, *fields_of(span)),
                    body=ask.body,
                    seconds=left,
                    take=event,
                    errors=True,
                )
            except UpstreamRefused as refused:
                raise dialect.read_refusal(refused) from None
            if not reply.streamed:
                await take(dialect.result(reply.body))

        await end_span_after(span, self.call(seconds, work, caller))

    def choose_dialect(self, binding: str = "") -> Dialect:
        """Return the dialect of a binding where the agent offers it in 1.0, else the preferred dialect."""
        assert self._dialect is not None, "an upstream that is up has a card"
        return self._dialects.get(binding, self._dialect)

    async def _establish(self) -> None:
        """Fetch the card, and accept it if it is the approved one."""
        settings = self.settings
        url = settings.url if settings.url.endswith(".json") else f"{settings.url.rstrip('/')}{cards.PATH}"
        try:
            reply = await self._http.exchange(
                "GET", url, headers=(("Accept", "application/json"),), seconds=settings.start_timeout
            )
        except UpstreamRefused as refused:
            raise CardRefused(f"its card cannot be fetched: HTTP {refused.status}") from None
        except UnreadableAnswer as failure:
            raise CardRefused(f"its card cannot be read: {failure}") from None
        card = cards.read(reply.body, settings.url, self._keys)
        if await self.pins.check({CARD: card.pinned}):
            self.candidate = card
            by = "[[a2a.agent]] pin" if self.pins.is_fixed(CARD) else f"agtp upstreams approve a2a.{settings.name}"
            raise CardRefused(
                f"its card (SHA-256 {card.digest}) is not the approved one "
                f"(SHA-256 {self.pins.approved_digest(CARD)}); approve it by {by}"
            )
        self.candidate = None
        if self.card is None or self.card.document != card.document:
            self.card = card
            self._dialect = Dialect(card.interface)
            self._dialects = {
                each.binding: Dialect(each) for each in reversed(card.interfaces) if each.version == "1.0"
            }


def pins_of(settings: A2AAgentSection) -> dict[str, str]:
    """Return the pins of an agent's settings."""
    return {CARD: settings.pin} if settings.pin else {}
