"""Readers of the calls given to CHAIN, BATCH and RETRY, which check limits before any call is made."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from agtphost.contract.binding import Binding
from agtphost.contract.endpoint_table import Match
from agtphost.dispatch import scope_dimensions
from agtphost.dispatch.exchange import Exchange
from agtphost.errors import Refusal
from agtphost.handlers import parameters
from agtphost.vocabulary.identifiers import is_opaque_id

NESTED: Final = frozenset({"BATCH", "CHAIN", "RETRY"})
"""Methods that none of these calls may name: calls inside calls inside calls would be thousands for one."""

MEMBERS: Final = ("method", "path", "parameters", "idempotency_key")
LONGEST_PATH: Final = 1_024

_METHOD = re.compile(r"[A-Z][A-Z0-9_-]{0,31}", re.ASCII)
_PATH = re.compile(r"/[!->@-~]*", re.ASCII)

Find = Callable[[str, str], Match | None]
"""What a method on a path is bound to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ordered:
    """A requested call."""

    number: int
    """From 1."""

    method: str
    path: str
    parameters: Mapping[str, Any]
    key: str = ""
    """Its Idempotency-Key; empty for none."""


def read_list(given: Mapping[str, Any], name: str, most: int) -> Sequence[Any]:
    """
    Read a required list of 1 to ``most`` entries.

    :raises Refusal: 422 naming the parameter.
    """
    value = given.get(name)
    if value is None:
        raise parameters.invalid(name, f"The parameter {name} is missing.", f"Send {name} as a list.", missing=True)
    if not isinstance(value, list) or not value:
        raise parameters.invalid(name, f"{name} is not a list of calls.", f"Send {name} as a list of objects.")
    if len(value) > most:
        raise parameters.invalid(name, f"{name} has {len(value)} entries; {most} are possible.", "Send fewer.")
    return value


def read_call(entry: Any, name: str, number: int, members: Sequence[str] = MEMBERS) -> Ordered:
    """
    Read one entry of the list ``name``.

    :param number: its place, from 1.
    :param members: that it may have.
    :raises Refusal: 422 naming the parameter and the entry.
    """
    if not isinstance(entry, dict):
        raise wrong(name, number, "is not an object", "Send method, path and parameters.")
    for member in entry:
        if member not in members:
            raise wrong(name, number, f"has the member {str(member)[:40]!r}", f"Known here: {', '.join(members)}.")
    method, path = entry.get("method"), entry.get("path", "/")
    if not isinstance(method, str) or not _METHOD.fullmatch(method):
        raise wrong(name, number, "names no method", "Send method, in capitals.")
    if method in NESTED:
        raise wrong(name, number, f"is {method}, which a call inside another call may not be", "Call it separately.")
    if not isinstance(path, str) or len(path) > LONGEST_PATH or not _PATH.fullmatch(path):
        raise wrong(
            name,
            number,
            "has an invalid path",
            "Send a path that begins with /, and parameters as a separate member.",
        )
    given, key = entry.get("parameters", {}), entry.get("idempotency_key", "")
    if _is_card_batch(method, path, given):
        raise wrong(
            name, number, "is a batch of a card, which a call inside another call may not be", "Call it separately."
        )
    if not isinstance(given, dict):
        raise wrong(name, number, "has parameters that are not an object", "Send parameters as an object.")
    if key != "" and not is_opaque_id(key):
        raise wrong(name, number, "has an invalid idempotency_key", "Send 1 to 128 visible ASCII characters.")
    return Ordered(number=number, method=method, path=path, parameters=given, key=key)


def _is_card_batch(method: str, path: str, given: object) -> bool:
    """Return whether a call is a card's batch of inputs, which counts as many calls."""
    return method == "EXECUTE" and "/cards/" in path and isinstance(given, dict) and "batch" in given


def wrong(name: str, number: int, says: str, remedy: str) -> Refusal:
    """Return the refusal of one entry of a list of calls."""
    refusal = parameters.invalid(name, f"{name}: entry {number} {says}.", remedy)
    refusal.details = {**refusal.details, "entry": number}
    return refusal


def find_binding(find: Find, method: str, path: str) -> Binding | None:
    """Return the binding of a call; None where method and path alone name nothing on this host."""
    if path.startswith("/agents/"):
        path = "/" + path[len("/agents/") :].partition("/")[2]
    match = find(method, path)
    return None if match is None else match.binding


def require_affordable(find: Find, exchange: Exchange, made: Iterable[tuple[str, str]]) -> None:
    """
    Require that all calls together cost no more than the request may.

    :param made: method and path of each that is certainly made.
    :raises Refusal: 456.
    """
    if "budget-limit" not in exchange.request.headers.by_name:
        return
    bindings = (find_binding(find, method, path) for method, path in made)
    scope_dimensions.require_affordable(exchange, (each.cost for each in bindings if each is not None))


def repeatable(find: Find, method: str, path: str) -> bool:
    """Return whether a call may be repeated after any outcome, because it is idempotent."""
    binding = find_binding(find, method, path)
    # What an EXECUTE does is in its body.
    return binding is not None and binding.idempotent and method not in ("EXECUTE", "DELEGATE")
