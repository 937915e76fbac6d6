"""
Write access lines, one JSON object per request; ``[log] access`` switches them on.

Every kind of request writes them by :func:`access_line_writer`, with its own value of the member ``kind``. The operator
asked for each of these lines, so none is left out: :mod:`agtphost.logs.log_throttle` lets their namespace pass.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping

from twisted.logger import Logger

from agtphost.audit.ledger import Ledger
from agtphost.audit.observed_records import ObservedGroup
from agtphost.audit.watchers import Watcher
from agtphost.http.access_members import LONGEST_PATH
from agtphost.vocabulary.display_names import is_unproven, split_told_apart

NAMESPACE = "agtphost.access"
MEMBERS = "access"
"""Member of the log event that has the members of the line."""

LINES_PER_TURN = 16
"""Lines that are written in one reactor turn."""


def access_line_writer() -> Callable[[Mapping[str, object]], None]:
    """Return a function that writes the line of one request, given its members."""
    log = Logger(namespace=NAMESPACE)

    def write(told: Mapping[str, object]) -> None:
        # JSON in ASCII has no control characters: text chosen by a client cannot leave its member.
        log.info("{line}", **{"line": json.dumps(told, separators=(",", ":")), MEMBERS: told})

    return write


def watch_calls(write: Callable[[Mapping[str, object]], None]) -> Watcher:
    """Return a ledger watcher that writes a line for each finished call, whether its record could be stored or not."""

    def saw(group: ObservedGroup) -> Iterator[None]:
        for number, record in enumerate(group.records):
            if number and not number % LINES_PER_TURN:
                yield
            if record.seconds is None:
                continue
            write(
                {
                    "kind": "agtp",
                    # A program that filters by a label must not miss lines once a second agent has it, too.
                    "caller": split_told_apart(record.caller)[0],
                    "caller_id": record.caller_id,
                    **({"caller_proven": not is_unproven(record.members)} if record.caller_id else {}),
                    "person": record.person[:LONGEST_PATH],
                    "operator": record.operator,
                    "method": record.method[:LONGEST_PATH],
                    "path": record.path[:LONGEST_PATH],
                    "tool": record.tool[:LONGEST_PATH],
                    "called": record.called[:LONGEST_PATH],
                    "status": record.status,
                    "reason": record.reason,
                    "scopes": list(record.lacking),
                    "rule": record.rule,
                    "ms": round(record.seconds * 1000, 3),
                    "audit_id": record.audit_id,
                    "durable": record.durable,
                    **({"carrier": carrier} if (carrier := record.carrier) else {}),
                }
            )

    return saw


class AccessLog:
    """
    A switch that starts and stops the access lines as ``[log] access`` says.

    :param ledger: watched while lines are written.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._watcher = watch_calls(access_line_writer())
        self._is_on = False

    def switch(self, on: bool) -> None:
        """Switch the lines on or off."""
        if on != self._is_on:
            self._is_on = on
            (self._ledger.watch if on else self._ledger.unwatch)(self._watcher)
