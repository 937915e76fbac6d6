"""
Names of tools, resources and prompts that name no server, on a host with several servers.

Whether one of the servers has the thing is told to callers that may use it. For all others the answer is that of a name
that no server has: a refusal that says what the found one asks for would tell that it is there, and where.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from agtphost.adapters.mcp.bindings import standing_in
from agtphost.adapters.mcp.requests import SendsRequests
from agtphost.contract.binding import Binding
from agtphost.errors import NamingRefusal, Refusal
from agtphost.vocabulary.reasons import Reason

Admits = Callable[[Binding], bool]


def bare_binding(searched: Sequence[SendsRequests], name: str, missing: Callable[[Admits], Refusal]) -> Binding:
    """
    Stand in for a bare name that no server has, or that several have.

    It asks for no scopes, and for the least assurance that one of the servers asks for.

    :param searched: the servers that could have it, one at least.
    :param missing: makes the refusal, of what tells which bindings the caller may use.
    """
    least = min(standing_in(server, name).min_assurance for server in searched)
    return replace(standing_in(searched[0], name), required_scopes=(), min_assurance=least, missing=missing)


def guard(found: Binding, bare: Binding) -> Binding:
    """Have a binding that a bare name led to refuse as ``bare`` does, unless the caller may use its neighbours."""
    if found.alike is None:
        return replace(found, alike=bare)
    return replace(found, alike=replace(found.alike, alike=bare))


def tell_ambiguity(
    reason: Reason, there: Sequence[tuple[str, Binding]], unknown: Callable[[Admits], Refusal]
) -> Callable[[Admits], Refusal]:
    """
    Make the ``missing`` of a bare name that several servers have.

    :param there: what is told of each of them, and what decides whether it is.
    :param unknown: the refusal for callers that may use none of them.
    """

    def missing(admits: Admits) -> Refusal:
        if not any(admits(binding) for _, binding in there):
            return unknown(admits)
        found = NamingRefusal(
            reason, among=lambda may: {"candidates": sorted(name for name, binding in there if may(binding))}
        )
        found.name_to(admits)
        return found

    return missing
