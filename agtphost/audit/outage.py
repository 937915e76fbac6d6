"""The failures of a store from one that stopped the ledger until it works again, for the log."""

from __future__ import annotations

from typing import Final

from agtphost.stores.rows import StoreError

MOST_KINDS: Final = 8
"""Kinds of failures that are reported of one outage."""


class Outage:
    """
    Tells which failures of one outage the log has not had yet.

    A database that fails over is away at first, and may then lack records: who reads of the first failure alone waits
    for what does not come. Failures with one SQLSTATE are of one kind; other errors are, if they have one text.

    :param error: the failure that began it, which is reported already.
    """

    def __init__(self, error: BaseException | None = None) -> None:
        self._kinds = set() if error is None else {_kind_of(error)}

    def is_news(self, error: BaseException) -> bool:
        """Return whether to report a failure; only those of a store, which say what to do, and each kind once."""
        kind = _kind_of(error)
        if not isinstance(error, StoreError) or kind in self._kinds or len(self._kinds) >= MOST_KINDS:
            return False
        self._kinds.add(kind)
        return True


def _kind_of(error: BaseException) -> str:
    """Return the SQLSTATE of a database's error, which is empty where the connection failed; else its text."""
    state: str | None = getattr(error, "sqlstate", None)
    return f"{type(error).__name__} {error}" if state is None else state
