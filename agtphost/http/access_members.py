"""Collect the members of an access line for one HTTP request, without query, header fields or body."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from agtphost.http.bounded_request import BoundedRequest

Access = Callable[[Mapping[str, object]], None]
"""Takes the members of one line."""

LONGEST_PATH = 256
"""Characters of a path that are logged; clients choose their number."""


def access_members(request: BoundedRequest, now: float, *, answered: bool) -> Mapping[str, object]:
    """
    Return the members of a request's access line.

    :param now: the clock's seconds.
    :param answered: whether the answer was written completely; otherwise its status is 0.
    """
    told: dict[str, object] = {
        "kind": "http",
        "surface": "" if request.mount is None else request.mount.surface,
        "address": request.channel.address,
        "method": request.method.decode("ascii", "replace"),
        "path": request.path.decode("ascii", "replace")[:LONGEST_PATH],
        "status": int(request.code) if answered else 0,
        "ms": round((now - (request.arrived_at or now)) * 1000, 3),
    }
    if request.audit_id:
        told["audit_id"] = request.audit_id
    return told
