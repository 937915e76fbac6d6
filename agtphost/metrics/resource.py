"""Serve ``/metrics``, ``/healthz`` and ``/readyz``, which machines read several times a minute."""

from __future__ import annotations

from typing import Any

from twisted.web.resource import Resource

from agtphost.http.bounded_request import BoundedRequest, field_of, tail_of
from agtphost.metrics.exposition import Exposition
from agtphost.vocabulary import jsontext
from agtphost.vocabulary.vitals import VitalsReader, obstacles

METRICS, HEALTH, READINESS = "/metrics", "/healthz", "/readyz"

STATUS_OPTION = b"unready=404"
"""
The query with which a host that is not ready answers 404 instead of 503: for a load balancer that tells a host that is
alive, and finishes its calls, from one that is dead or frozen (``http-check disable-on-404`` of HAProxy).
"""


def unready_status(request: BoundedRequest) -> int:
    """Return the status with which a host that is not ready answers a probe."""
    return 404 if STATUS_OPTION in query_of(request) else 503


def query_of(request: BoundedRequest) -> list[bytes]:
    """Return the options in the query of a probe."""
    return request.uri.partition(b"?")[2].split(b"&")


class ProbeResource(Resource):
    """The HTTP resource of ``/metrics``, ``/healthz`` and ``/readyz``, for a host in any state."""

    isLeaf = True

    longest_body = 0
    """Requests for metrics have no body."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._answers = {METRICS: self.answer_metrics, HEALTH: self._answer_health, READINESS: self.answer_readiness}

    def admit(self, request: BoundedRequest) -> bytes | None:
        """Admit a request by its head; see :class:`agtphost.http.bounded_request.Gatekeeper`."""
        if request.method not in (b"GET", b"HEAD"):
            return tail_of(request, 405, b"Only GET and HEAD are answered.\n", ("Allow", "GET, HEAD"))
        if request.path.decode("ascii", "replace") not in self._answers:
            return tail_of(request, 404, b"There is nothing at this path.\n")
        return None

    def render(self, request: BoundedRequest) -> bytes:
        """Answer a request by its path."""
        refusal = self.admit(request)
        return self._answers[request.path.decode("ascii")](request) if refusal is None else refusal

    def answer_metrics(self, request: Any) -> bytes:
        """Answer with the metrics."""
        raise NotImplementedError

    def answer_readiness(self, request: Any) -> bytes:
        """Answer whether calls can be sent here."""
        raise NotImplementedError

    def _answer_health(self, request: Any) -> bytes:
        """Answer that the process is alive, and nothing else."""
        return tail_of(request, 200, jsontext.encode({"status": "ok"}), kind="application/json")


class MonitoringResource(ProbeResource):
    """
    The HTTP resource for monitoring.

    :param exposition: the metrics.
    :param look: reads the present vitals.
    """

    def __init__(self, exposition: Exposition, look: VitalsReader) -> None:
        super().__init__()
        self._exposition = exposition
        self._look = look

    def answer_metrics(self, request: Any) -> bytes:
        """Answer with the metrics, in the format that the client prefers."""
        kind, octets = self._exposition.render(field_of(request, "accept") or "")
        return tail_of(request, 200, octets, kind=kind)

    def answer_readiness(self, request: Any) -> bytes:
        """Answer 503, or 404 if the query asks for that, with the reasons while the host should get no calls."""
        found = [{"what": each.what, "why": each.why} for each in obstacles(self._look())]
        said = {"status": "not ready" if found else "ready", **({"reasons": found} if found else {})}
        return tail_of(
            request, unready_status(request) if found else 200, jsontext.encode(said), kind="application/json"
        )
