"""
Report sealed records to watchers: metrics, a live view, the access log and an operator's observers. Without watchers
nothing is made for them, so that a host without them pays one test for each group.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from types import GeneratorType

from twisted.logger import Logger

from agtphost.audit.drafts import Draft, Sealed
from agtphost.audit.observed_records import ObservedGroup, ObservedRecord
from agtphost.audit.writer import Entry, Submission
from agtphost.vocabulary.steps import run_to_end

Watcher = Callable[[ObservedGroup], object]
"""Takes a group; one that does much for each record is a generator, and others have their turn where it yields."""

Steps = Generator[None, None, None]

log = Logger()


class Watchers:
    """The watchers, in the order in which they were added."""

    def __init__(self) -> None:
        self._watchers: tuple[Watcher, ...] = ()

    def add(self, watcher: Watcher) -> None:
        """Call a watcher for each further group."""
        self._watchers = (*self._watchers, watcher)

    def discard(self, watcher: Watcher) -> None:
        """Stop calling a watcher."""
        self._watchers = tuple(each for each in self._watchers if each != watcher)

    def report_group(self, entries: Sequence[Entry], now: float, seconds: float) -> Steps:
        """
        Report a committed group, in steps between which other work can run.

        :param now: when the reactor learned of it, in seconds since the Unix epoch.
        :param seconds: how long the transaction took.
        """
        if not self._watchers:
            return
        records = []
        for entry in entries:
            if entry.__class__ is not Submission:
                continue
            sealed = entry.outcome
            # Of state items alone there is nothing to tell, nor of what could not be written.
            if isinstance(sealed, Sealed) and sealed.audit_id:
                records.append(_observe(entry.draft, sealed, now, entry.draft.chain, True))
        yield from self._notify(ObservedGroup(records, seconds))

    def undurable(self, draft: Draft, sealed: Sealed, now: float) -> None:
        """Report a record that was signed, but is in no chain."""
        if self._watchers:
            run_to_end(self._notify(ObservedGroup((_observe(draft, sealed, now, "", False),), None)))

    def _notify(self, group: ObservedGroup) -> Steps:
        for watcher in self._watchers:
            try:
                going = watcher(group)
                if isinstance(going, GeneratorType):  # The abstract class asks in Python.
                    yield from going
            except Exception:
                self.discard(watcher)
                log.failure("{watcher!r}, which watched the ledger, failed: it is not called any more", watcher=watcher)


def _observe(draft: Draft, sealed: Sealed, now: float, chain: str, durable: bool) -> ObservedRecord:
    # The clock may have gone back: a duration is never negative.
    seconds = None if draft.began is None else max(now - draft.began, 0.0)
    named = draft.caller, draft.payload, draft.called, draft.rule
    values = (sealed.audit_id, sealed.issued_at, sealed.jws, sealed.number, chain, durable, seconds, *named)
    return tuple.__new__(ObservedRecord, values)  # Without a Python function for each record.
