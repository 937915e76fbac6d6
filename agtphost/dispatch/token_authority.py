"""What another agent authorized a caller to do: AUTHORIZE (methods v01 section 5.4), as a request runs under it."""

from __future__ import annotations

from dataclasses import dataclass

from agtphost.contract.binding import Binding
from agtphost.contract.rights import CARRIER, GrantSet, names_of
from agtphost.identity.delegation import Lineage

NEVER = frozenset({"AUTHORIZE", "CONFIRM", "DELEGATE", "PROPOSE"})
"""
Built-in methods that a grant never allows: a grant must not be passed on, and an agent must not have another decide
about its own matters.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Granted:
    """A grant that is in force, presented by the agent that it is for."""

    grant_id: str
    lineage: Lineage
    scopes: frozenset[str]
    """What of the granted scope the grantor has now: all that the request may use."""

    bound: GrantSet
    """What may be called."""

    token: str
    """As it was presented: calls inside this one are judged by it again."""

    @property
    def resources(self) -> tuple[str, ...]:
        """The names of what may be called under the grant."""
        return tuple(sorted(self.bound.grants))

    def names(self, binding: Binding) -> bool:
        """Return whether the token allows a call: for EXECUTE its action, for a recipe also every step."""
        if binding.method in NEVER and binding.tier == "A":
            return False
        if binding.tier == "A" and binding.method == CARRIER:
            return True
        return self.bound.names(names_of(binding)) and all(self.names(each) for each in binding.parts)
