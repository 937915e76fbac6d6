"""What bounds calls on this host: rates, budgets, scope dimensions, and delegations within them."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Sequence

from twisted.internet.interfaces import IReactorTime

from agtphost.audit.held import HeldTable
from agtphost.config import Config
from agtphost.contract.binding import Binding
from agtphost.dispatch.rate_gate import RateGate, Rates
from agtphost.dispatch.scope_dimensions import BudgetGate, ScopeDimension, ScopeDimensionGate
from agtphost.host.materials import Materials
from agtphost.iagtp import IGate
from agtphost.identity.peer import Assurance
from agtphost.methods.delegation import Delegation, DelegationRules, States
from agtphost.methods.hops import Hops

SECONDS_TO_ANSWER = 5.0
"""How long after the longest task DELEGATE itself may go on: it still has to say that the task was late."""


def rate_gate(config: Config) -> RateGate:
    """The gate that ``[limits]`` describes."""
    limits = config.limits

    def exempt(address: str) -> bool:
        try:
            parsed = ipaddress.ip_address(address.partition("%")[0])
        except ValueError:
            return False
        return any(parsed in network for network in limits.exempt_addresses)

    rates = Rates(
        agent=limits.requests_per_minute,
        principal=limits.requests_per_minute_per_principal,
        anonymous=limits.anonymous_requests_per_minute,
        burst=limits.rate_burst,
    )
    return RateGate(rates, exempt)


def bounds(config: Config, endpoints: Iterable[Binding]) -> Sequence[IGate]:
    """The gates for scope dimensions and budgets, where there is anything for them to do."""
    rules = [
        ScopeDimension(
            name=rule.name,
            method=rule.method,
            path=rule.path,
            parameter=rule.parameter,
            maximum=rule.maximum,
            allowed=None if rule.allowed is None else frozenset(rule.allowed),
            default=rule.default,
            unless_scope=rule.unless_scope,
        )
        for rule in config.policies.scope_dimensions
    ]
    found: list[IGate] = []
    if rules:
        found.append(ScopeDimensionGate(rules))
    if any(binding.cost is not None for binding in endpoints):
        found.append(BudgetGate())
    return found


def delegation(materials: Materials, held: HeldTable, states: States, clock: IReactorTime) -> Binding:
    """DELEGATE, as ``[delegation]`` describes it."""
    given = materials.config.delegation
    handler = Delegation(
        materials.directory,
        states,
        Hops(held),
        server_id=materials.config.host.server_id,
        key=materials.key,
        clock=clock,
        rules=DelegationRules(
            max_depth=given.max_depth,
            max_deadline=given.max_deadline,
            zone_bound=given.zone_bound,
            governance=given.governance,
        ),
    )
    return delegate_binding(handler, given.max_deadline + SECONDS_TO_ANSWER, _statement(materials))


def delegate_binding(handler: Delegation, timeout: float, description: str = "DELEGATE") -> Binding:
    """
    DELEGATE on ``/``.

    Its token proves who delegates, and each call of its task is held to what that call needs.
    """
    return Binding(
        method="DELEGATE",
        path="/",
        handler=handler,
        tier="A",
        description=description,
        min_assurance=Assurance.HEADER,
        timeout=timeout,
    )


def _statement(materials: Materials) -> str:
    entry = materials.catalog.entry("DELEGATE")
    return entry.description if entry is not None else "DELEGATE"
