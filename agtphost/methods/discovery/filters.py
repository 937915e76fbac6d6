"""The ``filter`` of a candidate search: what a candidate has to be, besides meeting the criteria."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from agtphost.contract.binding import Binding
from agtphost.handlers import parameters
from agtphost.identity.agents import Agent
from agtphost.vocabulary import scopes

KINDS = ("agent", "endpoint", "tool")

RESULT_TYPES = ("agent", "merchant", "any")
"""``result_type`` of DISCOVER: core v08 section 9."""

Check = Callable[[Agent | Binding], bool]


def _texts(name: str, value: Any) -> frozenset[str]:
    """Read a text or a list of texts."""
    listed = [value] if isinstance(value, str) else value
    if not isinstance(listed, list) or not listed or not all(isinstance(text, str) and text for text in listed):
        raise parameters.invalid(f"filter.{name}", f"{name} is not a text or a list of texts.", "Send one or several.")
    return frozenset(listed)


def _tier(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 3:
        raise parameters.invalid(f"filter.{name}", f"{name} is not a trust tier.", "Send 1 (the strictest), 2 or 3.")
    return value


def _semantic(binding: Binding, name: str) -> str:
    return str(binding.details.get("semantic", {}).get(name, ""))


def _of_agent(read: Callable[[Agent], str | None]) -> Callable[[str, Any], Check]:
    def make(name: str, value: Any) -> Check:
        wanted = _texts(name, value)
        return lambda thing: isinstance(thing, Agent) and (read(thing) or "") in wanted

    return make


def _of_binding(read: Callable[[Binding], str]) -> Callable[[str, Any], Check]:
    def make(name: str, value: Any) -> Check:
        wanted = _texts(name, value)
        return lambda thing: isinstance(thing, Binding) and read(thing) in wanted

    return make


def _capability(name: str, value: Any) -> Check:
    """Match capabilities in an agent's document, or in an endpoint's semantic block."""
    wanted = _texts(name, value)

    def check(thing: Agent | Binding) -> bool:
        if isinstance(thing, Binding):
            return _semantic(thing, "capability") in wanted
        told = thing.document.get("capabilities")
        return isinstance(told, (list, tuple)) and not wanted.isdisjoint([text for text in told if type(text) is str])

    return check


def _category(categories: Callable[[str], Collection[str]]) -> Callable[[str, Any], Check]:
    def make(name: str, value: Any) -> Check:
        wanted = _texts(name, value)
        return lambda thing: isinstance(thing, Binding) and not wanted.isdisjoint(categories(thing.method))

    return make


def _trust(name: str, value: Any) -> Check:
    weakest = _tier(name, value)
    return lambda thing: isinstance(thing, Agent) and thing.posture.trust_tier <= weakest


def _scopes(name: str, value: Any) -> Check:
    """Match endpoints that these scopes suffice for, and agents that hold every one of them."""
    named = _texts(name, value)

    def check(thing: Agent | Binding) -> bool:
        if isinstance(thing, Binding):
            return frozenset(thing.required_scopes) <= named
        return all(scopes.covers(thing.scopes, token) for token in named)

    return check


def _geography(name: str, value: Any) -> Check:
    """Match an agent's ``geography`` or ``registered_jurisdiction``."""
    wanted = {text.casefold() for text in _texts(name, value)}

    def check(thing: Agent | Binding) -> bool:
        if not isinstance(thing, Agent):
            return False
        told = [thing.document.get(member) for member in ("geography", "registered_jurisdiction")]
        places = [place for each in told for place in (each if isinstance(each, (list, tuple)) else [each])]
        return any(isinstance(place, str) and place.casefold() in wanted for place in places)

    return check


def result_type(given: Mapping[str, Any]) -> str:
    """
    ``result_type`` of DISCOVER (core v08 section 9); empty where the request has none.

    :raises agtphost.errors.Refusal: 422 for another word.
    """
    return parameters.choice(given, "result_type", RESULT_TYPES) if "result_type" in given else ""


CHECKS: Mapping[str, Callable[[str, Any], Check]] = {
    "role": _of_agent(lambda agent: agent.role),
    "governance_zone": _of_agent(lambda agent: agent.governance_zone),
    "zone": _of_agent(lambda agent: agent.governance_zone),
    "org_domain": _of_agent(lambda agent: str(agent.document.get("org_domain", ""))),
    "principal": _of_agent(lambda agent: agent.principal),
    "tier": _trust,
    "trust_tier": _trust,
    "trust_tier_min": _trust,
    "method": _of_binding(lambda binding: binding.method),
    "path": _of_binding(lambda binding: binding.path),
    "geography": _geography,
    "capabilities": _capability,
    "capability": _capability,
    "capability_domains": _capability,
    "impact": _of_binding(lambda binding: _semantic(binding, "impact")),
    "namespace": _of_binding(lambda binding: str(binding.details.get("namespace", ""))),
    "scopes": _scopes,
}
"""
By name. One about agents leaves only agents, one about endpoints only endpoints and tools;
capabilities and scopes are of all. ``category`` is besides, for it needs the catalog.
"""

_USABLE = ", ".join(("kinds", "category", *CHECKS))


@dataclass(frozen=True, slots=True)
class Filter:
    """A filter that was read."""

    kinds: frozenset[str]
    checks: tuple[Check, ...]

    def only(self, kind: str) -> Filter:
        """Return this filter for agents of a ``result_type`` alone: merchants, others or any; unchanged without one."""
        if not kind:
            return self
        role: tuple[Check, ...] = ()
        if kind != "any":
            role = (lambda thing: isinstance(thing, Agent) and thing.role == kind,)
        return Filter(self.kinds & {"agent"}, (*self.checks, *role))

    @classmethod
    def read(cls, given: Any, categories: Callable[[str], Collection[str]] = lambda method: ()) -> Filter:
        """
        Read the parameter.

        :param categories: a method's categories in the catalog.
        :raises agtphost.errors.Refusal: 422 naming the member that cannot be read, or is not known.
        """
        if given is None:
            return cls(frozenset(KINDS), ())
        if not isinstance(given, dict):
            raise parameters.invalid("filter", "filter is not an object.", f"Use {_USABLE}.")
        kinds = _texts("kinds", given["kinds"]) if "kinds" in given else frozenset(KINDS)
        if kinds - frozenset(KINDS):
            raise parameters.invalid("filter.kinds", "That kind is not known.", f"Use {', '.join(KINDS)}.")
        checks = []
        for name, value in given.items():
            if name == "kinds":
                continue
            make = _category(categories) if name == "category" else CHECKS.get(name)
            if make is None:
                raise parameters.invalid(f"filter.{name[:40]}", "The filter is not known.", f"Use {_USABLE}.")
            checks.append(make(name, value))
        return cls(kinds, tuple(checks))

    @property
    def narrows(self) -> bool:
        """Whether there is anything that does not pass."""
        return bool(self.checks) or self.kinds != frozenset(KINDS)

    def admits(self, kind: str, thing: Agent | Binding) -> bool:
        """Return whether a candidate passes the filters."""
        return kind in self.kinds and all(check(thing) for check in self.checks)
