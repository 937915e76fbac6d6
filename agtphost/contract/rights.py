"""
The rights of agents: grants, which narrow what an agent's document and certificate allow, and never widen it.

:mod:`agtphost.vocabulary.grants` defines how a grant names things; this module names what can be called.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from agtphost.contract import reserved
from agtphost.contract.binding import Binding
from agtphost.vocabulary.grants import ANY

ALWAYS = frozenset({"DISCOVER", "DESCRIBE", "INSPECT", "ESCALATE", "SUSPEND", "RESUME", *reserved.LIFECYCLE})
"""
Methods of the host itself that need no grant.

By them an agent learns what it may do, hands a decision to a person, and suspends itself. Lifecycles are decided by the
registrar's key. Each of these methods shows only what its caller may see.
"""

CARRIER = "EXECUTE"
"""The method that only carries calls to other bindings, which are checked themselves."""

UPSTREAMS = ("mcp_server", "a2a_agent", "acp_server")
"""Members of a binding's record that name its upstream."""

_PARTS = (
    ("mcp_tool", ""),
    ("a2a_action", ""),
    ("acp_action", ""),
    ("mcp_resource", "resource:"),
    ("mcp_prompt", "prompt:"),
)
_PLACE = re.compile(r"\{[^{}]*\}")


def is_free(binding: Binding) -> bool:
    """Return whether a binding needs no grant: what no host may withhold, and what checks each part."""
    if binding.piecewise:
        return True
    if binding.tier != "A":
        return False
    if binding.method in ALWAYS or binding.method == CARRIER or (binding.method, binding.path) in _THEIRS:
        return True
    # These show an agent its own items, and documents and cards that it may call.
    return binding.method in ("QUERY", "FETCH", "FIND") and binding.path != "/"


_THEIRS = frozenset((*reserved.PAGE, *reserved.GRANTS, *reserved.CONFIGURATION))
"""Paths of operators, whose key is required; agents read their own grants there."""


def names_of(binding: Binding) -> tuple[str, ...]:
    """Return the names by which a grant can name a binding; the first one is for people."""
    upstream = next((binding.extra[member] for member in UPSTREAMS if member in binding.extra), None)
    if upstream is not None:
        part = next((f"{prefix}{binding.extra[member]}" for member, prefix in _PARTS if member in binding.extra), "")
        return (f"{upstream}.{part}",)
    if binding.tier == "B" and binding.name:
        return (f"{CARRIER} {binding.name}",)
    return (*at_place(binding.method, binding.path), *((binding.method,) if binding.tier == "A" else ()))


def at_place(method: str, path: str) -> tuple[str, str]:
    """Return the names by which a grant can name what answers a method at a path."""
    template = _PLACE.sub("{}", path)
    return f"{method} {template}", f"* {template}"


def format_grant(binding: Binding) -> str:
    """Return the grant of a binding as people write it, with the names of the path's parameters."""
    if any(member in binding.extra for member in UPSTREAMS) or (binding.tier == "B" and binding.name):
        return names_of(binding)[0]
    return binding.method if binding.tier == "A" else f"{binding.method} {binding.path}"


@dataclass(frozen=True, slots=True)
class GrantSet:
    """
    The most that an agent may call: its grants in force. Without grants, only what needs none.

    :param agent_id: the agent.
    :param grants: what the grants name.
    """

    agent_id: str
    grants: frozenset[str]
    _whole: frozenset[str] = field(init=False, repr=False, compare=False)
    _beginnings: tuple[str, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        named = [_PLACE.sub("{}", text) if " /" in text else text for text in self.grants]
        object.__setattr__(self, "_whole", frozenset(text for text in named if not text.endswith(ANY)))
        object.__setattr__(self, "_beginnings", tuple(text[:-1] for text in named if text.endswith(ANY)))

    def allows(self, binding: Binding) -> bool:
        """Return whether a binding needs no grant or is named by one, and so are all its parts."""
        if not all(self.allows(each) for each in binding.parts):
            return False
        return is_free(binding) or self.names(names_of(binding))

    def names(self, names: Iterable[str]) -> bool:
        """Return whether a grant names something by one of ``names``."""
        return any(name in self._whole or name.startswith(self._beginnings) for name in names)
