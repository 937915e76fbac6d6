"""Records across all chains, newest first: what is looked for, how far one look goes, and what it found."""

from __future__ import annotations

import re
from base64 import urlsafe_b64encode
from collections.abc import Sequence
from dataclasses import dataclass

from agtphost.audit.drafts import StoredRecord
from agtphost.audit.observed_records import members_of
from agtphost.stores.rows import RecordKind

LOOKED_AT = 10_000
"""Records that one look passes at most, found or not: what was looked for in vain ends as soon as what was found."""

LOOKED_INSIDE = 3_000
"""The same where what was signed has to be read for it: 11 ms of a processor, and no view is to cost more than 20."""


_PLAIN = re.compile(r"[A-Za-z0-9._:-]{4,}", re.ASCII)
"""A text that JSON never escapes, so that its octets occur unchanged."""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """The conditions of a search for records; each narrows the search."""

    chain: str | None = None
    """Agent-ID of the responding agent, ``""`` for the host's own chain."""

    caller: str | None = None
    """Agent-ID of the caller, ``""`` for none."""

    method: str | None = None
    path: str | None = None
    """Whole, without a query."""

    status: int | None = None
    reason: str | None = None
    """Why a call was refused. No lifecycle event has one in this sense."""

    task_id: str | None = None

    @property
    def needs_signed_octets(self) -> bool:
        """Whether the signed octets of each record must be read."""
        return self.reason is not None or self.task_id is not None

    @property
    def reach(self) -> int:
        """Records that one look for it passes at most."""
        return LOOKED_INSIDE if self.needs_signed_octets else LOOKED_AT

    @property
    def traces(self) -> Sequence[Sequence[bytes]]:
        """Return, for each text sought in the signed octets, its forms there; see :func:`traces`."""
        found = (traces(text) for text in (self.reason, self.task_id) if text is not None)
        return [each for each in found if each]

    def says(self, record: StoredRecord) -> bool:
        """Whether what was signed has what is looked for inside."""
        if not self.needs_signed_octets:
            return True
        if record.kind != RecordKind.RECORD.label:
            return False
        members = members_of(record.signed.decode("ascii"))
        asked = (("reason", self.reason), ("task_id", self.task_id))
        return all(value is None or members.get(name, "") == value for name, value in asked)


@dataclass(frozen=True, slots=True, kw_only=True)
class LatestRecords:
    """The result of one search."""

    records: Sequence[tuple[int, StoredRecord]]
    """With their places among all records, newest first."""

    damaged: Sequence[tuple[int, str]]
    """The places of records that would be among them and are not what was signed, and what is wrong with each."""

    before: int | None
    """Where to go on; None where everything was looked at."""
