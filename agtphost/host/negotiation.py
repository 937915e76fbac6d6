"""Build the negotiator of this host from its configuration."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from agtphost.audit.state import StateTable
from agtphost.contract.binding import Binding
from agtphost.contract.recipes.recipe_loading import RecipeRules
from agtphost.contract.recipes.selection import NEVER
from agtphost.handlers.authorization import Authorization
from agtphost.handlers.composition import Composition
from agtphost.handlers.turn_executor import TurnExecutor
from agtphost.host.host_loader import LoadedHost
from agtphost.identity.peer import Assurance
from agtphost.negotiation.negotiator import Negotiator
from agtphost.negotiation.process_state import NegotiationState
from agtphost.negotiation.settings import NegotiationSettings


def build_negotiator(
    loaded: LoadedHost,
    held: StateTable,
    bindings: Callable[[], Sequence[Binding]],
    authorization: Authorization,
    reactor: Any,
    computing: TurnExecutor,
    now: Callable[[], float] = time.time,
    lasting: NegotiationState | None = None,
) -> Negotiator:
    """
    Return the negotiator. What is switched off, it refuses.

    :param bindings: returns everything registered; complete before the first request.
    :param computing: runs what recipes compute off the reactor.
    :param now: returns seconds since the Unix epoch.
    :param lasting: see :class:`agtphost.negotiation.negotiator.Negotiator`.
    """
    config = loaded.config
    relaxed = config.host.development and config.listen.loopback
    return Negotiator(
        NegotiationSettings(
            policies=config.policies,
            data_classes={entry.name: entry for entry in config.data_class},
            # In development on loopback, agents known by header only may negotiate.
            min_assurance=Assurance.HEADER if relaxed else Assurance.CERTIFICATE,
        ),
        held,
        book=loaded.recipes,
        rules=RecipeRules(catalog=loaded.catalog, custom=loaded.policy.custom, never=NEVER),
        graph=loaded.graph,
        bindings=bindings,
        policy=loaded.policy,
        authorization=authorization,
        compose=lambda recipe: Composition(recipe, reactor, computing),
        now=now,
        lasting=lasting,
    )
