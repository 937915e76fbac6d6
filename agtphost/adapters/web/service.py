"""One upstream over HTTP, kept known: prepared at start, and looked at again from time to time."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from twisted.internet.defer import Deferred
from twisted.logger import LogLevel

from agtphost.config.peers import WebUpstreamSection
from agtphost.upstream.log import UpstreamLog
from agtphost.upstream.service import Snapshot, UpstreamService


@dataclass(frozen=True, kw_only=True)
class WebSnapshot(Snapshot):
    """One upstream at one moment."""

    protocol: str

    def told(self) -> dict[str, object]:
        """What DESCRIBE says of the moment."""
        return {**super().told(), "failures": self.calls.errors}

    def full(self) -> dict[str, object]:
        """Everything, for operators."""
        return {**super().full(), "protocol": self.protocol.upper()}


class WebUpstream(UpstreamService):
    """
    The service of one upstream.

    :param protocol: ``a2a`` or ``acp``.
    :param prepare: learns what the upstream is; fails with :class:`UpstreamFailure`.
    :param close: lets go of connections when the host stops.
    """

    late = "it did not say what it is"

    def __init__(
        self,
        reactor: Any,
        settings: WebUpstreamSection,
        protocol: str,
        prepare: Callable[[], Awaitable[None]],
        close: Callable[[], Awaitable[None]],
        *,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        log = UpstreamLog(reactor, f"{protocol}.{settings.name}", settings.secrets(), kind="upstream")
        super().__init__(reactor, settings, protocol, log, jitter=jitter)
        self._protocol = protocol
        self._prepare = prepare
        self._close = close

    def snapshot(self) -> WebSnapshot:
        """What an operator may see."""
        return WebSnapshot(protocol=self._protocol, **self.moment())

    async def _establish(self) -> None:
        await self._prepare()

    def _rose(self, *, first: bool) -> None:
        if first:
            self._log.event("up", LogLevel.info)
        self._in(self.settings.refresh, self._look)

    def _ended(self) -> Deferred[None]:
        async def closed() -> None:
            await self._close()

        return Deferred.fromCoroutine(closed())
