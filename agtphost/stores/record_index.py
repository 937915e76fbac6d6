"""
What is stored next to a record so that it can be found: values that its signed payload has, too.

One function, :func:`index_record`, says what each column must be. The writer calls it for each record, an upgrade for
each record of an earlier version, and ``agtp audit verify`` compares the stored columns with what it returns.

A facet has only values that the host knows: each search reads all facets, so callers must not be able to add to them. A
name that a caller may have invented is left out of the facet. The record's own row has it where a search needs it.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Any, NamedTuple

from agtphost.identity import envelope
from agtphost.stores.rows import UNPROVEN, Facet, RecordFormat
from agtphost.vocabulary import jsontext
from agtphost.vocabulary.display_names import UNLISTED, UPSTREAMS, name_upstream_target

MOST_CHARACTERS = 200
"""Characters of a value that are stored; the rest of a longer one can be found as text only."""


FLOOR_METHODS = frozenset(
    {
        *("QUERY", "DISCOVER", "DESCRIBE", "INSPECT", "SUMMARIZE", "PLAN", "PROPOSE"),
        *("EXECUTE", "DELEGATE", "ESCALATE", "CONFIRM", "SUSPEND", "NOTIFY"),
        *("ACTIVATE", "DEACTIVATE", "REINSTATE", "REVOKE", "DEPRECATE"),
    }
)
"""
Methods that a facet always has. Other methods it has only where the host knew what was called.

These are the methods of every host, written out: stored facets depend on them, so they must not change with a catalog.
"""

MOST_KNOWN = 4_096
"""Facets that are kept in memory, of some 700 octets each."""


class RecordIndex(NamedTuple):
    """The values by which a record is found, besides its time and its place."""

    facet: Facet
    method: str
    path: str
    caller: bytes
    session: str
    task: str


def index_record(payload: Mapping[str, object]) -> RecordIndex:
    """
    Return what the index columns of a record must be.

    :raises ValueError: the payload has a status or an Agent-ID that no column can hold.
    :raises TypeError: for the same reason.
    """
    # Subscripts and "in" cost no function call; this function runs for every record.
    method = known_method = str(payload["method"]) if "method" in payload else ""
    tool = reason = session = task = person = name = key = ""
    agent, caller = payload.get("agent_id"), payload.get("caller_id")
    claimed = False
    if "operator" in payload and isinstance(operator := payload["operator"], dict):
        name, key = to_index_text(operator.get("name")), to_index_text(operator.get("key"))
    if "acting_principal_id" in payload:
        person = to_index_text(payload["acting_principal_id"])
    # An event's reason explains what an agent became; that of a record, why a call was refused.
    if "event_type" not in payload:
        if (
            "extra" in payload
            and type(extra := payload["extra"]) is dict
            # A QUERY with a modality names an upstream, too.
            and (method == "EXECUTE" or not _UPSTREAMS.isdisjoint(extra))
        ):
            tool = to_index_text(_find_tool(method, payload, extra))
        if "reason" in payload:
            reason = to_index_text(payload["reason"])
            if "tier" not in payload and method not in FLOOR_METHODS:
                known_method = ""
        if "session_id" in payload:
            given = payload["session_id"]
            plain = type(given) is str and len(given) <= MOST_CHARACTERS and "\0" not in given
            session = given if plain else to_index_text(given)  # type: ignore[assignment]
        if "task_id" in payload:
            given = payload["task_id"]
            plain = type(given) is str and len(given) <= MOST_CHARACTERS and "\0" not in given
            task = given if plain else to_index_text(given)  # type: ignore[assignment]
        if caller and "caller_principal_id" not in payload and "identity_assurance" in payload:
            claimed = payload["identity_assurance"] == "header"
    status = ("status" in payload and payload["status"]) or 0
    values = (agent, UNPROVEN_TEXT if claimed else caller, status, known_method, tool, reason, person, name, key)
    try:
        facet = _known[values]
    except KeyError:
        facet = _make_facet(values)
    path = str(payload["path"]) if "path" in payload else ""
    called_by = bytes.fromhex(str(caller)) if claimed else facet.caller
    return tuple.__new__(RecordIndex, (facet, method, path, called_by, session, task))


UNPROVEN_TEXT = UNPROVEN.hex()


def _find_tool(method: str, payload: Mapping[str, object], extra: Mapping[str, Any]) -> str:
    """Return the name of the tool or action that was called, if the host lists it; empty for anything else."""
    # A tool that was called with success is there, also where its server had not listed it when the call began.
    if UNLISTED in extra and ("reason" in payload or "mcp_tool" not in extra):
        return ""
    if named := name_upstream_target(extra):
        return named
    # A record of the host's own methods has the action that the request asked for, whether there is one or not.
    known = method == "EXECUTE" and "tier" in payload and payload["tier"] != "A"
    return str(extra["action"]) if known and extra.get("action") else ""


_UPSTREAMS = frozenset(name for name, _ in UPSTREAMS)
"""Members of ``extra`` that name an upstream."""

_known: dict[tuple[Any, ...], Facet] = {}
"""The newest facets by the members that they are made of: to make one takes longer than all the rest."""


def _make_facet(values: tuple[Any, ...]) -> Facet:
    agent, caller, status, *texts = values
    facet = Facet(
        bytes.fromhex(str(agent)) if agent else b"",
        bytes.fromhex(str(caller)) if caller else b"",
        int(status),
        *texts,
    )
    if len(_known) >= MOST_KNOWN:
        _known.clear()
    _known[values] = facet
    return facet


def index_signed(form: int, signed: bytes) -> RecordIndex | None:
    """
    Return what the index columns of a stored record must be; None where its octets cannot be read.

    :param form: a value of :class:`agtphost.stores.rows.RecordFormat`.
    """
    try:
        members = read_members(RecordFormat(form).label, signed)
        return None if members is None else index_record(members)
    except (ValueError, TypeError):
        return None


def read_members(form: str, signed: bytes) -> Mapping[str, Any] | None:
    """
    Return the members that a record has signed, without a check of its signature; None where they cannot be read.

    :param form: ``jws`` or ``cose``.
    """
    try:
        return envelope.parse_unverified(form, signed)
    except ValueError:
        return None


def digest_facet(facet: Facet) -> bytes:
    """Return the SHA-256 over the values of a facet, by which its row is found."""
    values: list[Any] = [value.hex() if isinstance(value, bytes) else value for value in facet]
    return sha256(jsontext.encode(values)).digest()


def to_index_text(value: object) -> str:
    """Return a value as it is stored: PostgreSQL takes no NUL, and no index entry of any length."""
    if value is None:
        return ""
    text = str(value)
    if len(text) <= MOST_CHARACTERS and "\0" not in text:
        return text
    return text[:MOST_CHARACTERS].replace("\0", "\ufffd")
