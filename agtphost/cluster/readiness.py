"""Serve ``/healthz`` and ``/readyz`` on a standby."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from agtphost.cluster.standby import Sighting
from agtphost.http.bounded_request import BoundedRequest, tail_of
from agtphost.metrics.resource import ProbeResource, query_of, unready_status
from agtphost.vocabulary import jsontext

STANDBY_COUNTS = b"standby=ok"
"""The query with which a standby is ready, too: for programs that replace hosts one after the other."""


class StandbyResource(ProbeResource):
    """
    The HTTP resource for monitoring a standby.

    :param last: returns the newest sighting of the lease.
    """

    def __init__(self, last: Callable[[], Sighting]) -> None:
        super().__init__()
        self._last = last

    def answer_metrics(self, request: Any) -> bytes:
        """Answer with the one metric that a standby has."""
        octets = (
            b"# HELP agtphost_ready 1 while /readyz answers 200.\n# TYPE agtphost_ready gauge\nagtphost_ready 0.0\n"
        )
        return tail_of(request, 200, octets, kind="text/plain; version=0.0.4; charset=utf-8")

    def answer_readiness(self, request: BoundedRequest) -> bytes:
        """Answer that it is not ready, and who serves; 200 if a standby counts as ready and would take over."""
        seen = self._last()
        said: dict[str, Any] = {"status": "standby", "serving": seen.serving, "term": seen.term}
        if seen.fault:
            said["reasons"] = [{"what": "takeover", "why": seen.summary}]
        counts = STANDBY_COUNTS in query_of(request) and not seen.fault
        status = 200 if counts else unready_status(request)
        return tail_of(request, status, jsontext.encode(said), kind="application/json")
