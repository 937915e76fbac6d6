"""Show features and listeners the host under the configuration in force."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from zope.interface import implementer

from agtphost.adapters.mcp.bindings import tool_address
from agtphost.audit.lifecycle import LifecycleTable
from agtphost.client.manifests import MAX_TOKENS
from agtphost.config import Config
from agtphost.contract.carried_call import ToolAddress
from agtphost.dispatch.dispatcher import Dispatcher
from agtphost.dispatch.running_calls import RunningCalls
from agtphost.features import IRunningHost
from agtphost.handlers.peer_hosts import PeerHost
from agtphost.host.publication import Publication
from agtphost.http_clients import principal_check
from agtphost.iagtp import IDispatcher, IGate, IToolAddresses
from agtphost.identity.keys import VerifyingKey
from agtphost.identity.peer import PeerCertificate
from agtphost.methods.inspection.traffic import Traffic
from agtphost.upstream.service import UpstreamService
from agtphost.vocabulary import jsontext
from agtphost.vocabulary.steps import Executor
from agtphost.vocabulary.vitals import Vitals, VitalsReader


@implementer(IDispatcher)
class Front:
    """A dispatcher that listeners call; it has the methods of the dispatcher in force."""

    dispatch: Callable[..., Any]
    refuse: Callable[..., Any]
    turn_away: Callable[..., Any]

    def turn_to(self, dispatcher: Dispatcher) -> None:
        """Hand further requests to another dispatcher."""
        self.dispatch = dispatcher.dispatch
        self.refuse = dispatcher.refuse
        self.turn_away = dispatcher.turn_away


class ConnectedUpstreams(Protocol):
    """The part of :class:`agtphost.host.upstreams.Upstreams` that is used here."""

    @property
    def services(self) -> Sequence[UpstreamService]: ...

    @property
    def adapters(self) -> Sequence[IToolAddresses]: ...


@implementer(IRunningHost)
class RunningHost:
    """The host under the configuration in force; see :class:`agtphost.features.IRunningHost`."""

    config: Config

    def __init__(
        self,
        calls: RunningCalls,
        traffic: Traffic,
        states: LifecycleTable,
        offload: Executor,
        peers: Sequence[PeerHost],
    ) -> None:
        self.dispatcher = Front()
        self.offload = offload
        self.peers = peers
        self.watch_agents = states.watch
        self.state_of = states.state_of
        self._calls = calls
        self._traffic = traffic
        self._read_vitals: VitalsReader | None = None
        self._decoded: tuple[bytes, Mapping[str, Any]] | None = None
        """The manifest that was decoded last, with its octets."""

    def turn_to(
        self,
        config: Config,
        dispatcher: Dispatcher,
        connected: ConnectedUpstreams,
        witness_keys: Callable[[], Sequence[tuple[str, VerifyingKey]]],
        is_valid: Callable[[PeerCertificate], bool],
        publication: Publication,
        principal: IGate | None,
        render_agis_summary: Callable[[], bytes | None],
    ) -> None:
        """Show a configuration that comes into force."""
        self.config = config
        self.dispatcher.turn_to(dispatcher)
        self._connected = connected
        self._witness_keys = witness_keys
        self._is_valid = is_valid
        self._publication = publication
        self._principal = principal
        self._render_agis_summary = render_agis_summary

    def read_vitals_with(self, reader: VitalsReader) -> None:
        """Read vital signs with this reader from now on."""
        self._read_vitals = reader

    def read_vitals(self) -> Vitals:
        """Return the present vital signs."""
        assert self._read_vitals is not None, "the host is not assembled yet"
        return self._read_vitals()

    def render_traffic(self) -> Mapping[str, Any]:
        """Return the calls of the last hour by the minute."""
        return self._traffic.to_json()

    def witness_keys(self) -> Sequence[tuple[str, VerifyingKey]]:
        """Return addresses and known keys of the witnesses."""
        return self._witness_keys()

    async def read_manifest(self) -> Mapping[str, Any]:
        """Return the published manifest, which is decoded once for all readers: with many endpoints it is megabytes."""
        form = await self._publication.find_form(disclosed=False)
        if form.further:
            return form.document  # Decoding the response would hold the parts twice.
        octets = form.response.body
        assert isinstance(octets, bytes), "it is encoded once"
        if self._decoded is not None and self._decoded[0] is octets:
            return self._decoded[1]
        found: Mapping[str, Any] = await self.offload(self._decode_once, octets)
        return found

    def _decode_once(self, octets: bytes) -> Mapping[str, Any]:
        # A concurrent caller may have decoded these octets.
        known = self._decoded
        if known is None or known[0] is not octets:
            self._decoded = known = octets, jsontext.decode(octets, max_tokens=MAX_TOKENS)
        return known[1]

    def render_agis_summary(self) -> bytes | None:
        """Return the content of ``agis.json``, or None if anonymous clients may not see it."""
        return self._render_agis_summary()

    def tool_address(self, upstream: str, tool: str) -> ToolAddress:
        """Return where a tool is called; the first adapter with an upstream of the name decides."""
        for adapter in self._connected.adapters:
            found: ToolAddress | None = adapter.address_of(upstream, tool)
            if found is not None:
                return found
        return tool_address(upstream, tool)

    def check_principal(self, token: str) -> str:
        """Verify a token of an identity provider."""
        assert self._principal is not None, "only a configuration with identity providers has clients with their tokens"
        return principal_check(self._principal)(token)

    def is_valid(self, certificate: PeerCertificate) -> bool:
        """Return whether a client certificate counts now."""
        return self._is_valid(certificate)

    def end_call(self, response_id: str) -> bool:
        """End a call that waits."""
        return self._calls.end(response_id)

    def restart_upstream(self, name: str) -> bool:
        """Restart an upstream; an idle one starts at its next call."""
        service = next((each for each in self._connected.services if str(each.name) == name), None)
        if service is None:
            return False
        service.note_loss("an operator restarts it")
        service.attempt_again()
        return True
