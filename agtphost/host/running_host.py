"""Show features and listeners the host under the configuration in force."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from zope.interface import implementer

from agtphost.config import Config
from agtphost.dispatch.dispatcher import Dispatcher
from agtphost.dispatch.running_calls import RunningCalls
from agtphost.features import IRunningHost
from agtphost.iagtp import IDispatcher
from agtphost.identity.keys import VerifyingKey
from agtphost.identity.peer import PeerCertificate
from agtphost.methods.inspection.traffic import Traffic
from agtphost.upstream.service import UpstreamService
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


@implementer(IRunningHost)
class RunningHost:
    """The host under the configuration in force; see :class:`agtphost.features.IRunningHost`."""

    config: Config

    def __init__(self, calls: RunningCalls, traffic: Traffic) -> None:
        self.dispatcher = Front()
        self._calls = calls
        self._traffic = traffic
        self._read_vitals: VitalsReader | None = None

    def turn_to(
        self,
        config: Config,
        dispatcher: Dispatcher,
        upstreams: Sequence[UpstreamService],
        witness_keys: Callable[[], Sequence[tuple[str, VerifyingKey]]],
        is_valid: Callable[[PeerCertificate], bool],
    ) -> None:
        """Show a configuration that comes into force."""
        self.config = config
        self.dispatcher.turn_to(dispatcher)
        self._upstreams = {str(service.name): service for service in upstreams}
        self._witness_keys = witness_keys
        self._is_valid = is_valid

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

    def is_valid(self, certificate: PeerCertificate) -> bool:
        """Return whether a client certificate counts now."""
        return self._is_valid(certificate)

    def end_call(self, response_id: str) -> bool:
        """End a call that waits."""
        return self._calls.end(response_id)

    def restart_upstream(self, name: str) -> bool:
        """Restart an upstream; an idle one starts at its next call."""
        service = self._upstreams.get(name)
        if service is None:
            return False
        service.note_loss("an operator restarts it")
        service.attempt_again()
        return True
