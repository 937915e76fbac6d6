"""ACP on EXECUTE: core v08 sections 7.2.8 and 8.4, adapters section 1.3."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from zope.interface import implementer

from agtphost.adapters.acp.bindings import ACTIONS, PAYLOAD_TYPE, bindings_of
from agtphost.adapters.acp.server import ACPServer
from agtphost.contract.binding import Binding, Resolution
from agtphost.errors import Refusal
from agtphost.handlers.authorization import Authorization
from agtphost.iagtp import IPayloadAdapter
from agtphost.upstream.approval import Approve, approve_binding
from agtphost.upstream.cancellation import AlreadyOver
from agtphost.upstream.failures import Refused, Unreadable
from agtphost.upstream.ownership import OwnedTask, TaskOwnership
from agtphost.upstream.supervision import State
from agtphost.vocabulary.reasons import Reason

APPROVE = "acp.agents.approve"
"""For operators; listed nowhere."""


@implementer(IPayloadAdapter)
class ACPAdapter:
    """
    Carries calls to servers of the Agent Communication Protocol (IBM/BeeAI).

    :param servers: the hosted ones; their order decides nothing.
    :param authorization: tells who may approve what changed.
    :param links: which of their runs are whose.
    """

    name = "acp"
    payload_types = frozenset({PAYLOAD_TYPE})

    def __init__(
        self,
        servers: Iterable[ACPServer],
        links: TaskOwnership,
        authorization: Authorization | None = None,
    ) -> None:
        self._servers = {server.settings.name: server for server in servers}
        self._links = links
        self._bindings = {name: bindings_of(server, links) for name, server in self._servers.items()}
        authorization = authorization or Authorization()
        self._approving = {name: _approving(server, authorization) for name, server in self._servers.items()}
        self._made_of = {name: server.manifests for name, server in self._servers.items()}

    @property
    def servers(self) -> Mapping[str, ACPServer]:
        """The hosted servers by name."""
        return self._servers

    def resolve(self, action: str, payload: Any, server: str | None) -> Resolution:
        """
        Find the server that a path or payload names.

        :raises Refusal: 404 no such server; 409 several, and none is named; 422 no such action, or no object.
        """
        payload = {} if payload is None else payload
        if not isinstance(payload, dict):
            raise Refusal(
                Reason.INVALID_PAYLOAD,
                "The payload of an ACP action is an object.",
                remedy='Such as {"agent_name": "NAME", "input": [{"parts": [{"content": "..."}]}]}.',
            )
        if action == APPROVE:
            return Resolution(binding=self._approving[self._named(payload, server)], input=payload)
        if action not in ACTIONS:
            raise Refusal(
                Reason.UNKNOWN_ACTION,
                "ACP payloads carry no such action.",
                details={"supported_actions": list(ACTIONS)},
            )
        return Resolution(binding=self._of(self._named(payload, server))[action], input=payload)

    def tools(self) -> list[Binding]:
        """Every action that can be called now, by server."""
        return [
            binding
            for name, server in sorted(self._servers.items())
            if server.state in (State.UP, State.IDLE)
            for binding in self._of(name).values()
        ]

    def hosted(self) -> Sequence[Mapping[str, object]]:
        """``hosted_protocols`` entries: AGTP-API section 8.6."""
        return [
            {
                "protocol": "ACP",
                "method": "EXECUTE",
                "path": f"/acp/{name}",
                "name": name,
                **server.snapshot().told(),
                "agents": list(server.manifests),
                "changed_agents": sorted(server.changed),
            }
            for name, server in sorted(self._servers.items())
        ]

    def definition(self, upstream: str, name: str) -> Mapping[str, Any] | None:
        """The approved and the present manifest of an agent; None where there is none."""
        server = self._servers.get(upstream)
        return None if server is None else server.pins.shown(name, server.pinned.get(name))

    def upstreams(self) -> Sequence[Mapping[str, object]]:
        """Everything there is to know of each server, for operators."""
        return [_full(server) for _, server in sorted(self._servers.items())]

    async def end(self, link: OwnedTask) -> str:
        """
        Cancel a run upstream, whoever began it; its status afterwards.

        :raises UpstreamFailure: for every other outcome; :class:`AlreadyOver` where there is nothing to cancel.
        """
        server = self._servers.get(link.upstream)
        if server is None:
            raise AlreadyOver("the upstream is no longer configured")
        try:
            run = await server.ask("POST", ("runs", link.remote_id, "cancel"), server.settings.timeout)
        except Refused as refused:
            if refused.status in (403, 404, 409):
                raise AlreadyOver(str(refused)) from None
            raise
        if not isinstance(run, dict) or run.get("run_id") != link.remote_id or not isinstance(run.get("status"), str):
            raise Unreadable("its answer is not the run that was asked for")
        return str(run["status"])[:32]

    def _of(self, name: str) -> dict[str, Binding]:
        """The bindings, made anew once the manifests are others."""
        server = self._servers[name]
        if self._made_of[name] is not server.manifests:
            self._made_of[name] = server.manifests
            self._bindings[name] = bindings_of(server, self._links)
        return self._bindings[name]

    def _named(self, payload: Mapping[str, Any], server: str | None) -> str:
        given = payload.get("server")
        named = server if server is not None else given if isinstance(given, str) else None
        if named is None and len(self._servers) == 1:
            return next(iter(self._servers))
        if named is None:
            listing = [name for name, each in self._servers.items() if payload.get("agent_name") in each.manifests]
            if len(listing) == 1:
                return listing[0]
            raise Refusal(Reason.AMBIGUOUS_SERVER, details={"candidates": sorted(self._servers)})
        if named not in self._servers:
            raise Refusal(Reason.UNKNOWN_ACP_SERVER, details={"acp_servers": sorted(self._servers)})
        return named


def _full(server: ACPServer) -> dict[str, object]:
    return {
        **server.snapshot().full(),
        "approved": {name: server.pins.approved(name) for name in (*server.manifests, *server.changed)},
        "waiting_for_approval": dict(server.changed),
        "unmatched_rules": [f"agent {name}" for name in server.unmatched],
    }


def _approving(server: ACPServer, authorization: Authorization) -> Binding:
    name = server.settings.name
    handler = Approve("acp", name, server.pins, lambda: server.changed, authorization)
    return approve_binding(APPROVE, f"/acp/{name}", handler)
