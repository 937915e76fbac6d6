"""Masking of secret members of an input, for approvers and for records; what records of RUN and TRANSFER contain."""

from __future__ import annotations

import re
from hashlib import sha256
from typing import Any

from agtphost.config.approvals import HIDDEN
from agtphost.contract.binding import Binding
from agtphost.contract.method_parameters import PROCEDURE
from agtphost.dispatch.exchange import Exchange
from agtphost.vocabulary import jsontext

_SECRET = re.compile("|".join(map(re.escape, HIDDEN)), re.IGNORECASE)

_UNRECORDED = re.compile(
    _SECRET.pattern
    + r"|passwd|passphrase|credential|cookie|bearer|^(?:proxy-)?authorization$"
    + r"|(?:api|access|private|secret|signing|encryption)[-_ ]?key",
    re.IGNORECASE,
)
"""What a member's name says that does not come into a record, which is kept: more than approvers are not shown."""


def visible(value: Any, place: str, hidden: list[str], secret: re.Pattern[str] = _SECRET) -> Any:
    """
    Return a value without the members whose names say that they are secret.

    :param place: path of the value, a prefix for ``hidden``; empty for the whole input.
    :param hidden: the path of each removed member is appended to it.
    :param secret: matches in names of secret members.
    """
    if isinstance(value, dict):
        found = {}
        for name, inner in value.items():
            if secret.search(name):
                hidden.append(f"{place}.{name}" if place else name)
            elif isinstance(inner, (dict, list)):
                found[name] = visible(inner, f"{place}.{name}" if place else name, hidden, secret)
            else:
                found[name] = inner
        return found
    if isinstance(value, list):
        return [
            visible(inner, f"{place}[{at}]", hidden, secret) if isinstance(inner, (dict, list)) else inner
            for at, inner in enumerate(value)
        ]
    return value


LONGEST_INPUT = 4_096
"""Octets of the input of a procedure, in the record; of a longer one the record has the hash."""

DEEPEST_INPUT = jsontext.SIGNED_DEPTH - 3
"""Arrays and objects of it inside each other: the record, its ``extra`` and ``procedure`` are around it."""


DEMANDED = frozenset({"RUN", "TRANSFER"})
"""Methods for which the drafts prescribe members of the record; see :func:`prescribed_members`."""

PARTIES = ("from_principal", "to_principal")


def prescribed_members(exchange: Exchange, binding: Binding) -> dict[str, object]:
    """
    Return the members that the drafts prescribe for the record of a call of RUN or TRANSFER.

    For RUN that is the procedure, and for TRANSFER both principals (methods v01 section 10.6). The built-in TRANSFER
    adds the principals that it has found itself; for an operator's endpoint they are taken from the input.

    :param binding: has one of the methods :data:`DEMANDED`.
    """
    if binding.method == "RUN":
        return {"procedure": procedure_of(exchange)}
    if binding.tier == "A":
        return {}
    return {name: said[:128] for name in PARTIES if isinstance(said := exchange.input.get(name), str)}


def procedure_of(exchange: Exchange) -> dict[str, object]:
    """Return what was run, by whom, and with what (methods v01 section 10.3)."""
    hidden: list[str] = []
    asked = {name: value for name, value in exchange.input.items() if name != PROCEDURE}
    given = visible(asked, "", hidden, _UNRECORDED)
    octets = jsontext.encode(given)
    procedure: dict[str, object] = {
        PROCEDURE: str(exchange.input.get(PROCEDURE, ""))[:128],
        "agent_id": "" if exchange.caller is None else exchange.caller.agent_id,
    }
    if len(octets) <= LONGEST_INPUT and not jsontext.is_deep(given, DEEPEST_INPUT):
        procedure["input"] = given
    else:
        procedure["input_hash"], procedure["input_octets"] = sha256(octets).hexdigest(), len(octets)
    if hidden:
        procedure["hidden"] = [name[:64] for name in hidden[:64]]
    return procedure
