"""
Translate ``POST /tools/SERVER/TOOL`` of the gateway: a call of one hosted tool, whose body is the tool's arguments.

It becomes the EXECUTE that calls the tool over AGTP. The path is not parsed by AGTP's grammar first, so a server may be
called ``fetch``. Whether the tool exists, and for whom, is decided as for every EXECUTE.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from agtphost.contract.carried_call import CarriedCall, ToolAddress
from agtphost.errors import Refusal
from agtphost.vocabulary.reasons import Reason
from agtphost.vocabulary.tool_paths import is_tool_path, parse_tool_path
from agtphost.wire.events import Enclosed

AddressFinder = Callable[[str, str], ToolAddress]
"""Returns the address of a tool, given the names of its upstream and its own, without a check that it exists."""

VERB = "POST"
"""The HTTP method that calls a tool."""

OTHER_VERBS = frozenset({"GET", "PUT", "PATCH", "DELETE", "QUERY"})
"""HTTP methods that no tool accepts; QUERY is one of HTTP too, which OpenAPI 3.2 describes."""


def address_of(path: str, address: AddressFinder) -> ToolAddress | None:
    """
    Return the address of the tool that a path names, or None if it names none.

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
    Refuse another HTTP method at the path of a tool, unless an endpoint is registered there.

    The tool need not exist.

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


def enclose_arguments(call: CarriedCall, body: bytes) -> tuple[bytes, Enclosed]:
    """
    Return the body of the EXECUTE, and how the decoded arguments are put into it.

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
                f"The path already sets {named!r}.",
                remedy=f"Leave {named} out.",
                details={"parameter": named},
            )
        return {"parameters": call.parameters(arguments)}

    return call.body(content), Enclosed(content, enclose)
