"""What the refusal of an undeclared action names: the actions and tools that its caller may use (AGTP-337)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any

from agtphost.contract.binding import Binding
from agtphost.contract.interfaces import IPayloadAdapter
from agtphost.dispatch import authority
from agtphost.dispatch.exchange import Exchange
from agtphost.dispatch.trial_calls import is_tool
from agtphost.vocabulary import jsontext

MAX_NAMED = 64
"""Actions that a refusal names, and tools."""

MAX_OCTETS = 8_192
"""Octets of the actions that it names, and of the tools."""

MAX_LOOKED_AT = 1_000
"""Actions that are looked at for it, and tools: this runs on the reactor."""

MAX_IN_REMEDY = 8
"""Names in the sentence that says what to do."""

LISTS = {"actions": "DISCOVER /methods", "tools": "DISCOVER /tools"}
"""Where all actions and all tools are listed."""


@dataclass(frozen=True, slots=True)
class UsableActions:
    """The actions and tools that a caller may use, in the form of a refusal."""

    details: Mapping[str, Any]
    """
    ``supported_actions`` has names, ``supported_tools`` what a call needs. Where there are more than these,
    ``omitted_actions`` and ``omitted_tools`` say how many and where they are listed.
    """

    remedy: str


def find_usable_actions(
    exchange: Exchange, actions: Mapping[str, Binding], adapters: Iterable[IPayloadAdapter]
) -> UsableActions:
    """
    Return the actions and tools that the caller of an exchange may use, within the bounds of a refusal.

    :param actions: the operator's own, by name.
    :param adapters: whose tools are named.
    """
    trial = bool(exchange.peer.rights_of)
    own = [] if trial else sorted(actions.items())
    offered = chain.from_iterable(adapter.tools() for adapter in adapters)
    tools = ((tool.name, tool) for tool in offered if is_tool(tool) or not trial)
    details: dict[str, Any] = {}
    called = _add(details, "actions", exchange, own)
    named = _add(details, "tools", exchange, tools)
    said = [f"actions: {_join(called)}"] if called else []
    said += [f"tools, with their payload_type: {_join([str(each['name']) for each in named])}"] if named else []
    listed = f"{' and '.join(LISTS.values())} list what the caller may use"
    return UsableActions(details, f"Use one of these {'; '.join(said)}. {listed}." if said else f"{listed}.")


def _add(
    details: dict[str, Any], kind: str, exchange: Exchange, offered: Iterable[tuple[str, Binding]]
) -> Sequence[Any]:
    """Add the members of a kind to the details, and return what is named."""
    rest = iter(offered)
    looked_at = islice(rest, MAX_LOOKED_AT)
    usable = [(name, each) for name, each in looked_at if authority.admits(exchange.for_lists, each)]
    named: list[Any] = []
    octets = 0
    for name, binding in usable[:MAX_NAMED]:
        entry = name if binding.call is None else {"name": name, "path": binding.path, **binding.call.to_json()}
        octets += len(jsontext.encode(entry))
        if octets > MAX_OCTETS:
            break
        named.append(entry)
    details[f"supported_{kind}"] = named
    left, unseen = len(usable) - len(named), next(rest, None) is not None
    if left or unseen:
        # It is not known how many of the rest the caller may use.
        bound = "at_least" if unseen else "count"
        details[f"omitted_{kind}"] = {bound: left, "listed_by": LISTS[kind]}
    return named


def _join(names: Sequence[str]) -> str:
    return ", ".join(names[:MAX_IN_REMEDY])
