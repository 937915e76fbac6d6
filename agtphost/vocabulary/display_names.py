"""
Names of calls for people to read: ``files.read_file``, ``QUERY /library/978``.

The one place that turns a record, a binding or a question into that name. EXECUTE is the way by which tools, agents and
actions are called and not what was called, and so it is named by these; everything else by method and path.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import pairwise
from typing import Any, Final

from agtphost.vocabulary.status import Status

UPSTREAMS = (
    ("mcp_server", ("mcp_tool", "mcp_resource", "mcp_prompt")),
    ("a2a_agent", ("a2a_action",)),
    ("acp_server", ("acp_action",)),
)
"""Members of a record's ``extra``: the upstream that was called, and what of it."""


UNLISTED = "unlisted"
"""Member of ``extra`` of a call whose tool or action the host does not list: the caller may have invented its name."""


def name_execute_target(named: Mapping[str, Any]) -> str:
    """
    Return the name of what an EXECUTE called: ``server.tool``, an upstream's action, or an action alone; empty where
    nothing is named.

    :param named: members of a record's ``extra``, or of a list of records, which has them among the others.
    """
    return name_upstream_target(named) or str(named.get("tool") or named.get("action") or "")


def name_upstream_target(named: Mapping[str, Any]) -> str:
    """
    Return the name of what was called of an upstream, such as ``server.tool``; empty where no upstream is named.

    :param named: as for :func:`name_execute_target`.
    """
    for upstream, members in UPSTREAMS:
        server = named.get(upstream)
        if server:
            for member in members:
                if named.get(member):
                    return f"{server}.{named[member]}"
    return ""


def name_tool(record: Mapping[str, Any]) -> str:
    """
    Return the name of the tool or action that a record reports; empty where it reports something else.

    :param record: a record's payload, or what a list shows of it.
    """
    extra = record.get("extra")
    named = extra if isinstance(extra, Mapping) else record
    # A QUERY with a modality reads from an upstream as an EXECUTE does.
    if record.get("method") == "EXECUTE":
        return name_execute_target(named)
    for upstream, _ in UPSTREAMS:
        if named.get(upstream):
            return name_execute_target(named)
    return ""


def display_name(record: Mapping[str, Any]) -> str:
    """
    Return the name of what a record reports: of a call its target, of an event its kind.

    :param record: a record's payload, or what a list shows of it.
    """
    if record.get("event_type"):
        return str(record["event_type"])
    method = str(record.get("requested_method") or record.get("method") or "")
    return name_tool(record) or call(method, str(record.get("path") or ""))


CONFIRMED_AS = "confirmed_as"
"""The member of a record's ``extra`` with the name in ``[notify.people]`` of the person who decided."""

UNNAMED = "unnamed"
"""The text in lists for a caller that named no agent and is not an operator."""

EVENT = "(event)"
UNKNOWN = "(unknown)"
"""Names under which records are counted that have neither a tool nor a known method."""

CLAIMED = "(unproven)"
"""The name under which calls are counted whose caller only claimed an Agent-ID, in a header: it may be any agent's."""

NAMES_BELIEVED = "This host believes names in headers: calls that only named an agent count as calls of that agent."
"""The note under counts by agent of a development host on loopback."""

NO_CALLER = "-"
"""The text in lists in place of the caller of an event: the record of the call behind it tells who called."""


UNPROVEN = "unproven"
"""The word in lists for a caller that is known by its Agent-ID header alone: it may be anyone."""


_TOLD_APART: Final = re.compile(r"(\S+) \(([0-9a-f]{8,64})\.\.\.\)")

SHOWN_DIGITS = 8
"""Digits of the Agent-ID with a name that several agents have; more where these are equal, too."""


def find_shared_names(names: Mapping[str, str]) -> dict[str, int]:
    """
    Return the agents whose name others have, by Agent-ID, each with how many of its digits tell these apart.

    A person who creates an agent can try keys until the first digits of its Agent-ID are those of another one.

    :param names: names by Agent-ID.
    """
    of_name: dict[str, list[str]] = {}
    for agent_id, name in names.items():
        of_name.setdefault(name, []).append(agent_id)
    digits: dict[str, int] = {}
    for agent_ids in of_name.values():
        if len(agent_ids) > 1:
            agent_ids.sort()
            most = max(_count_equal(first, second) for first, second in pairwise(agent_ids)) + 1
            digits.update(dict.fromkeys(agent_ids, max(SHOWN_DIGITS, most)))
    return digits


def _count_equal(first: str, second: str) -> int:
    """Return with how many equal characters two texts begin."""
    return next((at for at, pair in enumerate(zip(first, second, strict=False)) if pair[0] != pair[1]), len(first))


def tell_apart(name: str, agent_id: str, digits: int) -> str:
    """
    Return the name of an agent in lists.

    :param digits: of :func:`find_shared_names`; 0: no other agent has the name.
    """
    return f"{name} ({agent_id[:digits]}...)" if digits else name


def split_told_apart(text: str) -> tuple[str, str]:
    """Return the name and the digits of the Agent-ID in a text of :func:`tell_apart`; no digits if it has none."""
    found = _TOLD_APART.fullmatch(text)
    return (text, "") if found is None else (found[1], found[2])


def is_unproven(record: Mapping[str, Any]) -> bool:
    """
    Return whether nothing proved that the agent which a record names as its caller made the call.

    :param record: a record's payload, or what a list shows of it.
    """
    return bool(record.get("caller_id")) and record.get("identity_assurance") in ("header", "none")


def caller_notes(record: Mapping[str, Any]) -> str:
    """Return what lists add to the name of a calling agent: that it is unproven, for whom it acts, and the operator."""
    name, person = operator_name(record), record.get("acting_principal_id")
    notes = (f" ({UNPROVEN})" if is_unproven(record) else "", f" for {person}" if person else "")
    return "".join(notes) + (f" (operator {name})" if name else "")


def outcome_word(record: Mapping[str, Any]) -> str:
    """
    Return ``refused``, ``held`` for a call that waits for a person, or empty text for a call that was answered.

    An event is never refused: its reason is why an agent was suspended, for example.

    :param record: a record's payload, or what a list shows of it.
    """
    if record.get("event_type") or not record.get("reason") or not record.get("status"):
        return ""
    return "held" if record["status"] == Status.ACCEPTED else "refused"


def operator_name(record: Mapping[str, Any]) -> str:
    """
    Return the name of the operator whose request a record is about; empty where an agent or a stranger called.

    :param record: a record's payload, or what a list shows of it.
    """
    operator = record.get("operator")
    return str(operator.get("name", "")) if isinstance(operator, Mapping) else ""


def person_name(record: Mapping[str, Any]) -> str:
    """
    Return the person of ``[notify.people]`` who decided, as lists show it; empty for every other record.

    Only records of CONFIRM count: the host writes all of their ``extra``.
    """
    extra = record.get("extra") if record.get("method") == "CONFIRM" else None
    person = extra.get(CONFIRMED_AS) if isinstance(extra, Mapping) else None
    return f"{person} (person)" if person else ""


def caller_name(record: Mapping[str, Any], agent: str) -> str:
    """
    Return who called, for a list: an agent, an operator, an operator's agent, or a person who decided; empty for a
    stranger. An agent that is not proven to be the caller is marked as :data:`UNPROVEN`.

    :param record: a record's payload, or what a list shows of it.
    :param agent: what the calling agent is called; empty where none called.
    """
    if agent:
        return f"{agent}{caller_notes(record)}"
    name = operator_name(record)
    return f"{name} (operator)" if name else person_name(record)


def caller_or_unnamed(record: Mapping[str, Any], agent: str = "") -> str:
    """Return the :func:`caller_name`, :data:`UNNAMED` for a stranger, or :data:`NO_CALLER` for an event."""
    return caller_name(record, agent) or (NO_CALLER if record.get("event_type") else UNNAMED)


def call(method: str, path: str, name: str = "") -> str:
    """
    Return the name of a call for people: that of its binding, or method and path.

    :param name: what its binding is called where method and path do not tell; empty where they do.
    """
    return name or f"{method} {path}".strip()
