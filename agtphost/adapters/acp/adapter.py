"""Resolve ACP payloads of EXECUTE: core v08 sections 7.2.8 and 8.4, adapters section 1.3."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from zope.interface import implementer

from agtphost.adapters.acp.bindings import ACTIONS, MEMBER, PAYLOAD_TYPE, bindings_of
from agtphost.adapters.acp.server import ACPServer
from agtphost.adapters.web_adapter import WebAdapter
from agtphost.contract.binding import Binding
from agtphost.iagtp import IPayloadAdapter, IToolAddresses
from agtphost.upstream.cancellation import AlreadyOver
from agtphost.upstream.failures import UnreadableAnswer, UpstreamRefused
from agtphost.upstream.ownership import OwnedTask
from agtphost.vocabulary.reasons import Reason


@implementer(IPayloadAdapter, IToolAddresses)
class ACPAdapter(WebAdapter[ACPServer]):
    """The payload adapter for servers of the Agent Communication Protocol (IBM/BeeAI)."""

    name = "acp"
    payload_types = frozenset({PAYLOAD_TYPE})
    member = MEMBER
    ambiguous = Reason.AMBIGUOUS_SERVER
    unknown = Reason.UNKNOWN_ACP_SERVER
    example = '{"agent_name": "NAME", "input": [{"parts": [{"content": "..."}]}]}'
    approve_action = "acp.agents.approve"
    actions = ACTIONS

    def _bind(self, upstream: ACPServer) -> Mapping[str, Binding]:
        return bindings_of(upstream, self._links)

    def _describe_for_manifest(self, upstream: ACPServer) -> Mapping[str, object]:
        return {"agents": list(upstream.manifests), "changed_agents": sorted(upstream.changed)}

    def _describe_for_operators(self, upstream: ACPServer) -> Mapping[str, object]:
        return {
            "approved": {
                name: upstream.pins.approved_digest(name) for name in (*upstream.manifests, *upstream.changed)
            },
            "waiting_for_approval": dict(upstream.changed),
            "unmatched_rules": [f"agent {name}" for name in upstream.unmatched],
        }

    def _guess_upstream(self, payload: Mapping[str, Any]) -> str | None:
        agent = payload.get("agent_name")
        listing = [name for name, each in self.by_name.items() if agent in each.manifests]
        return listing[0] if len(listing) == 1 else None

    def definition(self, upstream: str, name: str) -> Mapping[str, Any] | None:
        """Return the approved and the present manifest of an agent; None for an unknown one."""
        server = self.by_name.get(upstream)
        return None if server is None else server.pins.describe(name, server.pinned.get(name))

    async def end(self, link: OwnedTask) -> str:
        """
        Cancel a run of any owner at the upstream, and return its status.

        :raises agtphost.upstream.failures.UpstreamFailure: for every other outcome; :class:`AlreadyOver` where there is
            nothing to cancel.
        """
        server = self._upstream_of(link)
        try:
            run = await server.ask("POST", ("runs", link.remote_id, "cancel"), server.settings.timeout)
        except UpstreamRefused as refused:
            if refused.status in (403, 404, 409):
                raise AlreadyOver(str(refused)) from None
            raise
        if not isinstance(run, dict) or run.get("run_id") != link.remote_id or not isinstance(run.get("status"), str):
            raise UnreadableAnswer("its answer is not the run that was asked for")
        return str(run["status"])[:32]
