"""The listening service, and the line that says the host is ready."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

from twisted.application.service import Service
from twisted.internet.interfaces import IAddress
from twisted.logger import Logger

from agtphost.config import Config
from agtphost.iagtp import IDispatcher
from agtphost.protocols import AGTPServerFactory, ConnectionLimits, ListeningService, ServerTLS, server_endpoint
from agtphost.wire import Limits

log = Logger()

Summary = Callable[[], Mapping[str, object]]
"""What the ready line counts, asked for when it is written."""


def listening_service(reactor: Any, config: Config, tls: ServerTLS, dispatcher: IDispatcher) -> ListeningService:
    """
    Where this host is reached.

    :raises agtphost.errors.ConfigurationError: for an endpoint description that is none.
    """
    given = config.limits
    wire_limits = Limits(**{field.name: getattr(given, field.name) for field in fields(Limits)})
    limits = ConnectionLimits(
        **{field.name: getattr(given, field.name) for field in fields(ConnectionLimits)}
    )
    factory = AGTPServerFactory(
        dispatcher, limits, reactor, wire_limits, strict_request_line=config.wire.strict_request_line
    )
    endpoint = server_endpoint(
        reactor,
        address=config.listen.address,
        port=config.listen.port,
        description=config.listen.endpoint or "",
    )
    return ListeningService(endpoint, tls, factory, reactor, given.drain_timeout)


class Announcement(Service):
    """
    Says that the port accepts: interface section 1.

    :param summary: what the host has.
    """

    name = "announcement"

    def __init__(self, listening: ListeningService, summary: Summary) -> None:
        self._listening = listening
        self._summary = summary

    def startService(self) -> None:
        """Wait for the port."""
        super().startService()  # type: ignore[no-untyped-call]
        self._listening.when_listening().addCallbacks(self._announce, self._failed)

    def _announce(self, address: IAddress) -> None:
        host = getattr(address, "host", "")
        port = getattr(address, "port", 0)
        shown = f"[{host}]" if ":" in host else host
        log.info(
            "agtphost ready: agtp://{host}:{port} (server {server_id}, {agents} agents, "
            "{endpoints} endpoints, {tools} tools)",
            host=shown,
            port=port,
            **self._summary(),
        )

    def _failed(self, failure: Any) -> None:
        log.critical("the host cannot listen: {why}", why=failure.getErrorMessage())
