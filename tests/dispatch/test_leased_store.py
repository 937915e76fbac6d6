"""A host that shares its store runs no handler once its lease may be over; a host that does not asks nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from agtphost.dispatch.gates.idempotency import LeasedStoreGate, StoreGate
from agtphost.host.services import HostServices
from tests.dispatch.hosts import DispatchHost, document
from tests.dispatch.test_gate_order import GOOD


class LeasedHost(DispatchHost):
    """A host with a lease that a test declares over."""

    fresh = True
    asked = 0

    def foundation(self, on: HostServices) -> HostServices:
        services = super().foundation(on)
        return replace(services, evidence=replace(services.evidence, is_fresh=self._is_fresh))

    def _is_fresh(self) -> bool:
        self.asked += 1
        return self.fresh


def test_no_handler_runs_without_a_fresh_lease() -> None:
    """503, although the ledger takes records; and again as before once the lease is confirmed."""
    host = LeasedHost()
    for fresh, status in ((True, 200), (False, 503), (True, 200)):
        host.fresh = fresh
        before = len(host.recorder.calls)
        response = host.ask(**GOOD)
        assert response.status == status
        assert len(host.recorder.calls) == before + fresh
        if not fresh:
            assert document(response)["reason"] == "store-unavailable"
    assert host.asked == 3


def test_a_ledger_that_is_down_refuses_with_a_fresh_lease_too() -> None:
    """The gate is that of every store, with one more question."""
    host = LeasedHost()
    host.ledger.healthy, host.ledger.failing = False, True
    assert host.ask(**GOOD).status == 503
    assert not host.recorder.calls


def test_a_host_that_shares_no_store_has_the_plain_gate() -> None:
    """Nothing more is called for each request."""
    kinds: list[Any] = [type(host.gates[-1]) for host in (DispatchHost(), LeasedHost())]
    assert kinds == [StoreGate, LeasedStoreGate]
