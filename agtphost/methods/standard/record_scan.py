"""
Records far back: a look into the store passes so many records of all agents, and what is wanted may lie behind them.

SEARCH, REPORT and REPLY read the records of one agent. On a host where others call a lot, the newest ten thousand may
be of a minute in which it made no call.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from agtphost.audit.drafts import StoredRecord
from agtphost.iagtp import IRecordStore, Search

LOOKS: Final = 100
"""Looks for one call; each passes 10,000 records at most, off the reactor."""


class RecordScan:
    """
    The records that a search finds, page by page, the newest first.

    :param most: records of a page.
    :param looks: after so many, no more.
    """

    def __init__(self, records: IRecordStore, search: Search, most: int, looks: int = LOOKS) -> None:
        self._records = records
        self._search = search
        self._most = most
        self._looks = looks
        self._before: int | None = None
        self._ended = False

    @property
    def is_exhausted(self) -> bool:
        """Whether older records remain unread, because reading them would take too long."""
        return not self._looks and not self._ended

    async def further(self) -> Sequence[StoredRecord]:
        """Return the next, older records; none at the end, or after as many looks as there may be."""
        while self._looks and not self._ended:
            self._looks -= 1
            found = await self._records.latest(self._before, self._most, self._search)
            self._before = found.before
            self._ended = found.before is None
            if found.records:
                return [record for _, record in found.records]
        return ()
