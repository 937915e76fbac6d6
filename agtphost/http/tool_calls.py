"""
``POST /tools/SERVER/TOOL``, for the gateway: a call of one hosted tool, whose body is the tool's arguments.

It becomes the EXECUTE that calls the tool over AGTP, before any look at the path by AGTP's grammar: a server may be
called ``fetch`` here. Whether there is such a tool, and for whom, is decided there, as for every EXECUTE.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from agtphost.contract.carried import CarriedCall, ToolAddress
from agtphost.errors import Refusal
from agtphost.iagtp import IToolAddresses
from agtphost.vocabulary.reasons import Reason
from agtphost.vocabulary.tool_paths import is_tool_path, parse_tool_path
from agtphost.wire.events import Enclosed

Address = Callable[[str, str], ToolAddress]
"""Returns where a tool is called, by its upstream's name and its own; whether there is one is not looked at."""

VERB = "POST"
"""The method of HTTP that calls a tool."""

OTHER_VERBS = frozenset({"GET", "PUT", "PATCH", "DELETE"})
"""Methods of HTTP that no tool takes."""


def tool_addresses(adapters: Iterable[IToolAddresses], unknown: Address) -> Address:
    """
    Return a function that finds where tools are called.

    :param adapters: are asked in this order; the first one that has an upstream of the name counts.
    :param unknown: returns where a tool is called whose upstream no adapter has: the refusal comes from there.
    """
    known = tuple(adapters)

    def address(upstream: str, tool: str) -> ToolAddress:
        for adapter in known:
            found: ToolAddress | None = adapter.address_of(upstream, tool)
            if found is not None:
                return found
        return unknown(upstream, tool)

    return address


def address_of(path: str, address: Address) -> ToolAddress | None:
    """
    Return where the tool of a path is called; None for a path that is no tool's.

    :param path: as it was sent, without the query.
    """
    named = parse_tool_path(path)
    if named is None:
        return None
    found = address(named.server, named.tool)
    if not named.agent:
        return found
    return ToolAddress(path=f"/agents/{named.agent}{found.path.rstrip('/')}", call=found.call)


def check_verb(verb: str, path: str, registered: Callable[[str], Collection[str]]) -> None:
    """
    Refuse another method of HTTP at the path of a tool, unless an endpoint is registered there.

    Whether there is such a tool is not looked at.

    :param registered: returns the methods that endpoints have at a path.
    :raises Refusal: 405, which names POST.
    """
    if verb not in OTHER_VERBS or not is_tool_path(path) or registered(path):
        return
    raise Refusal(
        Reason.METHOD_NOT_ALLOWED,
        f"A tool is called by {VERB}.",
        remedy=f"Send a {VERB} with the tool's arguments as its body.",
        details={
            "method": verb,
            "path": path,
            "allowed_methods_for_path": [VERB],
            "redirects_for_path": {},
        },
    )


def enclosed(call: CarriedCall, body: bytes) -> tuple[bytes, Enclosed]:
    """
    Return the body of the EXECUTE, and how the arguments are put into it once they are decoded.

    :param body: the arguments, as JSON; empty for none.
    """
    content = body or b"{}"

    def enclose(arguments: Any) -> Mapping[str, Any]:
        if not isinstance(arguments, dict):
            raise Refusal(Reason.MALFORMED_BODY, "The body is not a JSON object.", remedy="Send the tool's arguments.")
        named = None if call.member else next((name for name in call.constants if name in arguments), None)
        if named is not None:
            raise Refusal(
                Reason.UNKNOWN_PARAMETER,
                f"The path says what {named!r} is.",
                remedy=f"Leave {named} out.",
                details={"parameter": named},
            )
        return {"parameters": call.parameters(arguments)}

    return call.body(content), Enclosed(content, enclose)
