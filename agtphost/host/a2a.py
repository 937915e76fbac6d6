"""Build the services of ``[[a2a.agent]]`` entries."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from agtphost.adapters.a2a import A2AAgent, CardKey
from agtphost.adapters.a2a.agent import pins_of
from agtphost.adapters.a2a.card_keys import card_keys
from agtphost.config import Config
from agtphost.config.web_upstreams import A2AAgentSection, ACPServerSection
from agtphost.contract.binding import Binding
from agtphost.host.server_pool import ServiceSupply, make_new
from agtphost.upstream.pins import Pins, PinStore

W = TypeVar("W", A2AAgentSection, ACPServerSection)


def apply_approval_rule(entry: W, irreversible: bool) -> W:
    """Require a person's approval of calls to an upstream where ``irreversible`` calls need one."""
    return entry.model_copy(update={"approval": "required"}) if irreversible else entry


def a2a_agents(reactor: Any, config: Config, store: PinStore, supply: ServiceSupply = make_new) -> list[A2AAgent]:
    """
    Return a service for each ``[[a2a.agent]]`` entry.

    :param store: keeps approvals of changed definitions.
    :param supply: returns a running service again where its entry is unchanged.
    :raises agtphost.errors.ConfigurationError: a key of a card cannot be used.
    """
    agents = []
    for entry in (apply_approval_rule(entry, config.approvals.irreversible) for entry in config.a2a.agent):
        keys = card_keys(entry, config)

        def make(entry: A2AAgentSection = entry, keys: Mapping[str, CardKey] = keys) -> A2AAgent:
            return A2AAgent(reactor, entry, keys=keys, pins=Pins("a2a", entry.name, pins_of(entry), store))

        made_of = entry, {kid: key.thumbprint() for kid, key in keys.items()}
        agents.append(supply("a2a", entry.name, made_of, make))
    return agents


def bind_execute_at(built_ins: Iterable[Binding], *paths: str, operators: bool = True) -> tuple[Binding, ...]:
    """
    Return bindings of EXECUTE to further paths, each of which names one upstream.

    :param operators: whether operators without an agent may call them, as they may EXECUTE.
    """
    floor = next(binding for binding in built_ins if (binding.method, binding.path) == ("EXECUTE", "/"))
    return tuple(replace(floor, path=path, operators=floor.operators and operators) for path in paths)


def relay_bindings(built_ins: Iterable[Binding], config: Config) -> tuple[Binding, ...]:
    """
    Return the binding by which the A2A front forwards operations to agents behind the host, if it forwards any.

    Clients of every front may call it. What an action requires is checked after this, so the operator has to set
    ``min_assurance`` of the agent to ``gateway``, or to ``header`` for a front that asks for no credentials.
    """
    if all(entry.upstream is None for entry in config.a2a.front.agent):
        return ()
    return bind_execute_at(built_ins, "/a2a-relay/{server}", operators=False)
