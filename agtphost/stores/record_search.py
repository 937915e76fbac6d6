"""Records across all chains, newest first: the conditions of a search, the limits of one look, and its result."""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import Any, Final

from agtphost.stores.record_index import (
    FLOOR_METHODS,
    RecordIndex,
    index_record,
    read_members,
    to_index_text,
)
from agtphost.stores.rows import UNPROVEN, Facet, StoredRecord
from agtphost.vocabulary.display_names import CONFIRMED_AS, display_name

LOOK_SECONDS: Final = 0.12
"""Seconds of its thread's processor after which a look ends, with the place where the next one goes on."""

WAITING_SECONDS: Final = 0.4
"""Seconds that a look may take longer than its processor's time: for a database of another process, or a busy one."""

LOOKED_INSIDE: Final = 3_000
"""Records that one look reads at most: 40 ms of a processor, and 90 where all have the words and are decoded."""

TEXT_MEMBERS: Final = (
    *("action", "tool", "mcp_server", "mcp_tool", "mcp_resource", "mcp_prompt"),
    *("a2a_agent", "a2a_action", "acp_server", "acp_action", CONFIRMED_AS),
)
"""Members of a record's ``extra`` that a search for text reads."""


_PLAIN: Final = re.compile(r"[A-Za-z0-9._:-]{4,}", re.ASCII)
"""A text that JSON never escapes, so that its octets occur unchanged."""

_JOINED_BY: Final = re.compile(r"[^A-Za-z0-9_:-]+", re.ASCII)
"""What may stand between parts of a text that a record has in separate members, or in escaped form."""


def traces(text: str) -> tuple[bytes, ...]:
    """
    Return the parts of a text that its base64url contains, one for each offset in a group of three octets.

    :return: octets that contain the text have at least one of these in their base64url; empty if the text may be
        escaped.
    """
    if _PLAIN.fullmatch(text) is None:
        return ()
    octets = text.encode("ascii")
    return tuple(
        urlsafe_b64encode(bytes(before) + octets)[-(-before * 8 // 6) : (before + len(octets)) * 8 // 6]
        for before in range(3)
    )


class CountedBy(Enum):
    """The property by which matching records are counted."""

    TOOL = "tool"
    """See :attr:`agtphost.stores.rows.Facet.call_name`."""

    AGENT = "agent"
    """Agent-ID of the caller; empty for none, ``(unproven)`` for claimed ones, ``(event)`` for events without one."""

    OPERATOR = "operator"
    """Name of the operator; empty where none called."""

    STATUS = "status"
    HOUR = "hour"
    """The hour in UTC, such as ``2026-11-27T10:00Z``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """The conditions of a search for records; each narrows the search."""

    chain: str | None = None
    """Agent-ID of the responding agent, ``""`` for the host's own chain."""

    caller: str | None = None
    """Agent-ID of the caller, ``""`` for calls without one, which excludes events."""

    agent: str | None = None
    """Agent-ID of the caller or of the responding agent."""

    method: str | None = None
    path: str | None = None
    """Whole, without a query."""

    status: int | None = None
    status_class: int | None = None
    """The first digit of the status."""

    reason: str | None = None
    """Why a call was refused. No lifecycle event has one in this sense."""

    task_id: str | None = None
    session_id: str | None = None
    tool: str | None = None
    """
    The tool or action, such as ``files.read_file``, as the host lists it; one that ends with ``.*`` means all of a
    server. A call that was refused before the host knew what it was for is found by its text.
    """

    person: str | None = None
    operator: str | None = None
    """Name of the operator, or fingerprint of the key."""

    since: int | None = None
    """Issued at this time or later, in milliseconds since the Unix epoch."""

    until: int | None = None
    """Issued before this time."""

    reads: bool = True
    """Whether what operators only read is found as well: see :func:`is_operator_read`."""

    text: Sequence[str] = ()
    """Texts that a record has in its reason, its path, its names or the declared members of ``extra``, in any case."""

    @property
    def has_facet(self) -> bool:
        """Whether a condition is about values of facets."""
        asked = (self.chain, self.caller, self.agent, self.method, self.status, self.status_class)
        others = (self.reason, self.tool, self.person, self.operator)
        return not self.reads or any(value is not None for value in (*asked, *others))

    @property
    def index_only(self) -> bool:
        """Whether the index columns decide, so that no record has to be decoded."""
        return not self.text

    def matches_facet(self, facet: Facet) -> bool:
        """
        Return whether records of a facet can meet the conditions about its values.

        Where :meth:`needs_method` or :meth:`needs_caller` is true, the record's own column decides.
        """
        if not self.needs_method(facet) and self.method not in (None, facet.method):
            return False
        caller = facet.caller
        if self.needs_caller(facet) and (wanted := self.caller or self.agent) is not None:
            caller = bytes.fromhex(wanted)
        return self._matches_shared(facet) and self._matches_caller(facet, caller)

    def needs_method(self, facet: Facet) -> bool:
        """Return whether the facet lacks the method of its records, and this search asks for one that it may be."""
        return not facet.method and self.method is not None and self.method not in FLOOR_METHODS

    def needs_caller(self, facet: Facet) -> bool:
        """Return whether the facet lacks the caller of its records, and this search asks for the caller."""
        if facet.caller != UNPROVEN:
            return False
        return self.caller is not None or (self.agent is not None and self.agent != facet.agent.hex())

    def _matches_caller(self, facet: Facet, caller: bytes) -> bool:
        if self.caller == "" and facet.is_event:
            return False
        agent, called_by = facet.agent.hex(), caller.hex()
        return self.caller in (None, called_by) and (self.agent is None or self.agent in (agent, called_by))

    def _matches_shared(self, facet: Facet) -> bool:
        """Return whether the values that a facet has of each of its records meet the conditions."""
        pairs = (
            (self.chain, facet.agent.hex()),
            (self.status, facet.status),
            (self.status_class, facet.status // 100),
            (_to_index(self.reason), facet.reason),
            (_to_index(self.person), facet.person),
        )
        if any(wanted is not None and wanted != value for wanted, value in pairs):
            return False
        if not self.reads and is_operator_read(facet):
            return False
        if self.operator is not None and _to_index(self.operator) not in (facet.operator, facet.operator_key):
            return False
        if self.tool is None:
            return True
        prefix = self.tool_prefix
        return facet.tool == _to_index(self.tool) if prefix is None else facet.tool.startswith(prefix)

    @property
    def tool_prefix(self) -> str | None:
        """Return the beginning of the names of a server's tools; None where one tool is meant, or none."""
        tool = self.tool
        return tool[:-1] if tool is not None and tool.endswith(".*") else None

    def matches_index(self, index: RecordIndex) -> bool:
        """Return whether the index columns of a record meet the conditions."""
        pairs = (
            (self.method, index.method),
            (self.path, index.path),
            (_to_index(self.session_id), index.session),
            (_to_index(self.task_id), index.task),
        )
        if any(wanted is not None and wanted != value for wanted, value in pairs):
            return False
        return self._matches_shared(index.facet) and self._matches_caller(index.facet, index.caller)

    def matches(self, payload: Mapping[str, Any]) -> bool:
        """Return whether a record meets every condition, by what it has signed alone."""
        try:
            if not self.matches_index(index_record(payload)):
                return False
        except (ValueError, TypeError):
            return False
        if (self.since is not None or self.until is not None) and not self._is_within(payload.get("issued_at")):
            return False
        return self.has_text(payload)

    def _is_within(self, issued_at: object) -> bool:
        try:
            moment = round(datetime.fromisoformat(str(issued_at)).timestamp() * 1000)
        except (ValueError, OverflowError):
            return False
        return (self.since is None or moment >= self.since) and (self.until is None or moment < self.until)

    def has_text(self, payload: Mapping[str, Any]) -> bool:
        """Return whether a record has every text that is looked for."""
        if not self.text:
            return True
        said = "\n".join(_texts(payload)).casefold()
        return all(text.casefold() in said for text in self.text)

    @property
    def words(self) -> Sequence[bytes]:
        """Return the parts of the texts, in lower case, that occur unchanged in each record that has these texts."""
        said = " ".join(text.lower() for text in self.text if text.isascii())
        return [word.encode() for word in _JOINED_BY.split(said) if word]

    def says(self, record: StoredRecord, words: Sequence[bytes] = ()) -> bool:
        """
        Return whether what was signed has the texts that are looked for.

        :param words: :attr:`words`; most records lack one, and need not be decoded.
        """
        if not self.text:
            return True
        if words and _lacks(record, words):
            return False
        members = read_members(record.format, record.signed)
        return members is not None and self.has_text(members)


def _lacks(record: StoredRecord, words: Sequence[bytes]) -> bool:
    """
    Return whether the payload of a JWS lacks a word.

    One that is not ASCII may have letters that are equal to the word's in another case.
    """
    parts = record.signed.split(b".")
    if record.format != "jws" or len(parts) != 3:
        return False
    try:
        said = urlsafe_b64decode(parts[1] + b"==").lower()
    except ValueError:
        return False
    return said.isascii() and not all(word in said for word in words)


READING_METHODS: Final = frozenset({"INSPECT", "QUERY", "DISCOVER", "DESCRIBE"})
"""The methods by which an operator looks at a host."""


def is_operator_read(facet: Facet) -> bool:
    """Return whether an operator read something of the host: a command that shows something, or a view of the page."""
    return bool(facet.operator or facet.operator_key) and facet.method in READING_METHODS and not facet.tool


def _to_index(text: str | None) -> str | None:
    """Return a value as the index has it."""
    return None if text is None else to_index_text(text)


def _texts(payload: Mapping[str, Any]) -> Iterator[str]:
    """Yield the texts of a record that a search reads."""
    for name in ("reason", "path", "acting_principal_id", "explanation"):
        if isinstance(value := payload.get(name), str):
            yield value
    yield display_name(payload)
    operator, extra = payload.get("operator"), payload.get("extra")
    if isinstance(operator, dict):
        yield str(operator.get("name", ""))
    if isinstance(extra, dict):
        yield from (str(extra[name]) for name in TEXT_MEMBERS if extra.get(name))


@dataclass(frozen=True, slots=True, kw_only=True)
class LatestRecords:
    """The result of one look."""

    records: Sequence[tuple[int, StoredRecord]]
    """With their places among all records, newest first."""

    damaged: Sequence[tuple[int, str]]
    """The places of records that would be among them and are not what was signed, and what is wrong with each."""

    before: int | None
    """Where to go on; None where everything was looked at."""

    reached: int | None = None
    """The time of the record at that place, in milliseconds since the Unix epoch: how far back the look came."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordCounts:
    """The result of one look that counts."""

    counts: Mapping[str, int]
    """Records by what they are counted by."""

    before: int | None
    """Where to go on; None where everything was counted."""
