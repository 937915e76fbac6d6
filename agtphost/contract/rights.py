"""
What the host lets an agent do: grants, which narrow what its document and its certificate give it, and never widen it.

How a grant names things is in :mod:`agtphost.vocabulary.grants`; here is how what can be called is named.
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
Methods of the host itself that no grant is asked for: by them an agent learns what it may do, hands a decision to a
person, and stands still; lifecycles are decided by the registrar's key. Each shows what its caller may see.
"""

CARRIER = "EXECUTE"
"""Of the host itself it does nothing: what it carries is a binding of its own, and is looked at as such."""

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
    """Whether a binding is called without any grant: what no host may withhold, and what decides piece by piece."""
    if binding.piecewise:
        return True
    if binding.tier != "A":
        return False
    if binding.method in ALWAYS or binding.method == CARRIER or (binding.method, binding.path) in _THEIRS:
        return True
    # What waits for the caller, and what it began: its own; documents and cards, which show each what it may call.
    return binding.method in ("QUERY", "FETCH", "FIND") and binding.path != "/"


_THEIRS = frozenset((*reserved.PAGE, *reserved.GRANTS, *reserved.CONFIGURATION))
"""For operators, whose key is asked for; of grants an agent reads its own here."""


def names_of(binding: Binding) -> tuple[str, ...]:
    """What a grant may call a binding; the first is what people are told."""
    upstream = next((binding.extra[member] for member in UPSTREAMS if member in binding.extra), None)
    if upstream is not None:
        part = next((f"{prefix}{binding.extra[member]}" for member, prefix in _PARTS if member in binding.extra), "")
        return (f"{upstream}.{part}",)
    if binding.tier == "B" and binding.name:
        return (f"{CARRIER} {binding.name}",)
    return (*at_place(binding.method, binding.path), *((binding.method,) if binding.tier == "A" else ()))


def at_place(method: str, path: str) -> tuple[str, str]:
    """What a grant may call what answers a method at a path."""
    template = _PLACE.sub("{}", path)
    return f"{method} {template}", f"* {template}"


def told(binding: Binding) -> str:
    """What a grant of a binding would be, for people: with the names of its path's parameters."""
    if any(member in binding.extra for member in UPSTREAMS) or (binding.tier == "B" and binding.name):
        return names_of(binding)[0]
    return binding.method if binding.tier == "A" else f"{binding.method} {binding.path}"


@dataclass(frozen=True, slots=True)
class Narrowing:
    """
    What an agent may call at most: the grants of it that are in force. Without one, nothing but what is free.

    :param agent_id: whose they are.
    :param grants: what they name.
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
        """Whether a binding is free or named, and whatever else it leads to with it."""
        if not all(self.allows(each) for each in binding.parts):
            return False
        return is_free(binding) or self.names(names_of(binding))

    def names(self, names: Iterable[str]) -> bool:
        """Whether a grant names what is called by any of ``names``."""
        return any(name in self._whole or name.startswith(self._beginnings) for name in names)
