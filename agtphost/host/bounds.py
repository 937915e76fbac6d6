"""What bounds calls on this host: rates, budgets and scope dimensions."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Sequence

from agtphost.config import Config
from agtphost.contract.binding import Binding
from agtphost.dispatch.gates.limits import RateGate, Rates
from agtphost.dispatch.scope_dimensions import BudgetGate, ScopeDimension, ScopeDimensionGate
from agtphost.iagtp import IGate


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
