"""Which hosted agents a caller may be shown: AGTP-API section 5.8.2, core v08 section 7.2.2."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from agtphost.handlers.built_in import BuiltInContext
from agtphost.identity.agents import Agent

ANY_ZONE = "*"
"""In ``[policies.zones]``: callers of every zone, and of none."""

Sees = Callable[[Agent], bool]


class Zones:
    """
    Governance zones, and who may look into which.

    :param opened: zone to the further zones that its agents may look into; those of ``*`` are open to every caller.
    :param filtering: whether lists follow zones too, and callers of no zone are kept out of all that are not open.
    """

    def __init__(self, opened: Mapping[str, Sequence[str]] | None = None, *, filtering: bool = False) -> None:
        self._opened = opened or {}
        self._filtering = filtering

    def in_lists(self, context: BuiltInContext) -> Sees:
        """
        Return the filter for lists and the manifest: every agent but those of tier 3, unless the operator filters.
        """
        return self.in_searches(context) if self._filtering else _is_listed

    def in_searches(self, context: BuiltInContext) -> Sees:
        """
        Return the filter of candidates: agents of the caller's zone, of zones open to it, and of no zone.

        A caller of no zone is kept out of zones where the operator filters, so
        that leaving Agent-ID out opens none. Where he does not, zones bound
        those callers alone that have one.
        """
        own = (context.caller.governance_zone if context.caller is not None else None) or ""
        if not own and not self._filtering:
            return _is_listed
        permitted = {"", own, *self._opened.get(own, ()), *self._opened.get(ANY_ZONE, ())}
        return lambda agent: agent.is_listed and (agent.governance_zone or "") in permitted


def _is_listed(agent: Agent) -> bool:
    return agent.is_listed
