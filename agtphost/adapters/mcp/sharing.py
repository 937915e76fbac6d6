"""
Which process, or HTTP session, a call goes to: ``isolation``, and the revision of MCP that its caller speaks.

With ``auto``, the default, callers share one, which speaks the newest revision that the server does. A caller who can
be asked (sampling, elicitation, roots) has one of its own besides where that takes the handshake era: at a server that
speaks nothing newer, for then alone is it known whom the server asks; and at one that speaks both, where the caller
itself speaks an older revision, for servers ask in the manner of the revision that they are spoken to in.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Generic, TypeVar

from twisted.logger import LogLevel

from agtphost.adapters.mcp.elicitation import KINDS
from agtphost.adapters.mcp.instances import Instances, Key
from agtphost.adapters.mcp.requests import SendsRequests
from agtphost.adapters.mcp.versions import HANDSHAKE, META, STATELESS
from agtphost.config.upstreams import MCPServerSection
from agtphost.upstream.failures import UpstreamFailure

T = TypeVar("T", bound=SendsRequests)

_ASKABLE = frozenset(KINDS.values())


def can_be_asked(meta: Mapping[str, Any]) -> bool:
    """Whether a caller says in ``_meta`` that it can answer some of what servers ask."""
    declared = meta.get(META + "clientCapabilities")
    return type(declared) is dict and not _ASKABLE.isdisjoint(declared)


def shakes_hands(meta: Mapping[str, Any]) -> bool:
    """Whether a caller says in ``_meta`` that it speaks a revision of the handshake era."""
    return meta.get(META + "protocolVersion") in HANDSHAKE


def own_settings(server: SendsRequests, key: Key) -> tuple[MCPServerSection, bool]:
    """The settings of a caller's own process, and whether the server is spoken to in it as one of the handshake era."""
    # What it speaks is known by now: every caller's own process need not be asked again.
    agreed = server.settings.protocol if server.terms is None else server.terms.version
    older = key[2] and agreed == STATELESS
    changes = {"start": "lazy", "protocol": "auto" if older else agreed}
    return server.settings.model_copy(update=changes), older


class Sharing(Generic[T]):
    """
    Finds what serves a caller at one server.

    :param server: the one that is shared.
    :param instances: callers' own.
    """

    def __init__(self, server: T, instances: Instances[T]) -> None:
        self._server = server
        self._instances = instances
        self._refuses_handshake = False

    def known(self, agent_id: str, session_id: str | None) -> T:
        """
        What serves a caller: the shared server, or the caller's own where it has one or ``isolation`` demands it.

        :raises Busy: there are as many instances as may be.
        """
        server = self._server
        own = self._instances.get(self._key(agent_id, session_id, handshake=True))
        if own is not None or not server.isolated:
            return own or server
        return self._instances.of(self._key(agent_id, session_id, handshake=False))

    async def serving(self, agent_id: str, session_id: str | None, meta: Mapping[str, Any], seconds: float) -> T:
        """
        What serves one request; see :meth:`known`.

        :param meta: the request's ``_meta``.
        :param seconds: how long it may take to start what is needed.
        :raises UpstreamFailure: it does not start.
        """
        server = self._server
        settings = server.settings
        if settings.isolation == "shared" or not can_be_asked(meta):
            return self.known(agent_id, session_id)
        if server.terms is None:
            await server.risen(seconds)
        stateless = server.terms is not None and server.terms.stateless
        if stateless and (settings.protocol != "auto" or self._refuses_handshake or not shakes_hands(meta)):
            return server if not server.isolated else self._instances.of(self._key(agent_id, session_id, False))
        if server.isolated and not stateless:
            return self._instances.of(self._key(agent_id, session_id, False))
        key = self._key(agent_id, session_id, handshake=True)
        own = self._instances.of(key)
        if stateless and own.terms is None:
            try:
                await own.risen(seconds)
            except UpstreamFailure:
                if not own.not_spoken:
                    raise
                # A server of 2026-07-28 alone; that it does not speak older revisions is no fault of it.
                self._refuses_handshake = True
                self._instances.end(key)
                return self.known(agent_id, session_id)
        return own

    def set_level(self, agent_id: str, session_id: str | None, level: str) -> None:
        """Tell the caller's own process, where there is one and it logs, from which level on."""
        instance = self.known(agent_id, session_id)
        terms = instance.terms
        if instance is self._server or terms is None or terms.stateless or "logging" not in terms.capabilities:
            return
        setting = instance.post("logging/setLevel", {"level": level}, instance.settings.timeout)
        setting.addErrback(lambda failure: instance.say(f"the level is not set: {failure.value}", LogLevel.info))

    def _key(self, agent_id: str, session_id: str | None, handshake: bool) -> Key:
        return agent_id, "" if self._server.settings.isolation == "per-agent" else session_id or "", handshake
