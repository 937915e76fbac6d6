"""
Access lines: one JSON object a request, for what reads logs; ``[log] access`` switches them on.

Every kind of request writes them by :func:`access_log`, with the member ``kind`` to tell them apart. They are what the
operator asked for, line by line, and so none is left out: :mod:`agtphost.host.log_throttle` passes their namespace.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping

from twisted.logger import Logger

from agtphost.audit.ledger import Ledger
from agtphost.audit.observed import ObservedGroup
from agtphost.audit.watching import Watcher
from agtphost.http.access import LONGEST_PATH

NAMESPACE = "agtphost.access"
AT_ONCE = 16
"""Lines, until others may have their turn."""


def access_log() -> Callable[[Mapping[str, object]], None]:
    """What writes the line of one request, from its members."""
    log = Logger(namespace=NAMESPACE)

    def write(told: Mapping[str, object]) -> None:
        # ASCII alone, and no control character: what a client chose stays inside its member.
        log.info("{line}", line=json.dumps(told, separators=(",", ":")))

    return write


def of_calls(write: Callable[[Mapping[str, object]], None]) -> Watcher:
    """What watches the ledger and tells of each call as it ends, whether its record could be stored or not."""

    def saw(group: ObservedGroup) -> Iterator[None]:
        for number, record in enumerate(group.records):
            if number and not number % AT_ONCE:
                yield
            if record.seconds is None:
                continue
            write(
                {
                    "kind": "agtp",
                    "caller": record.caller,
                    "caller_id": record.caller_id,
                    "person": record.person[:LONGEST_PATH],
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
                }
            )

    return saw


class AccessLog:
    """
    Tells of calls, or does not, as ``[log] access`` says at the moment.

    :param ledger: watched while it does.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._watcher = of_calls(access_log())
        self._on = False

    def turn(self, on: bool) -> None:
        """On, or off."""
        if on != self._on:
            self._on = on
            (self._ledger.watch if on else self._ledger.unwatch)(self._watcher)
