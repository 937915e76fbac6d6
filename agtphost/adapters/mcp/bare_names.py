"""
Resolve names of tools, resources and prompts without a server, on a host with several servers.

Only callers that may use a thing learn whether a server has it. All others get the answer for a name that no server
has: a refusal that lists the demanded rights would reveal that the thing exists, and where.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from agtphost.adapters.mcp.bindings import stand_in_binding
from agtphost.adapters.mcp.requests import IsMcpServer
from agtphost.contract.binding import Binding
from agtphost.errors import NamingRefusal, Refusal
from agtphost.vocabulary.reasons import Reason

Admits = Callable[[Binding], bool]


def bare_binding(searched: Sequence[IsMcpServer], name: str, missing: Callable[[Admits], Refusal]) -> Binding:
    """
    Return a binding for a bare name that no server has, or that several have.

    The binding demands no scopes, and the lowest assurance level that one of the servers demands.

    :param searched: the servers that could have it, at least one.
    :param missing: makes the refusal; it gets a function that tells which bindings the caller may use.
    """
    least = min(stand_in_binding(server, name).min_assurance for server in searched)
    return replace(stand_in_binding(searched[0], name), required_scopes=(), min_assurance=least, missing=missing)


def hide_behind(found: Binding, bare: Binding) -> Binding:
    """
    Make a binding that was found by a bare name refuse as ``bare`` does, unless the caller may use similar bindings.
    """
    if found.alike is None:
        return replace(found, alike=bare)
    return replace(found, alike=replace(found.alike, alike=bare))


def tell_ambiguity(
    reason: Reason, there: Sequence[tuple[str, Binding]], unknown: Callable[[Admits], Refusal]
) -> Callable[[Admits], Refusal]:
    """
    Return the ``missing`` function of a bare name that several servers have.

    :param there: the qualified names, each with the binding that decides whether the caller learns of it.
    :param unknown: makes the refusal for callers that may use none of them.
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
