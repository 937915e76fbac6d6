"""What an access line tells of one HTTP request: no query, no field, nothing of a body."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from agtphost.http.exchange import BoundedRequest

Access = Callable[[Mapping[str, object]], None]
"""Takes the members of one line."""

LONGEST_PATH = 256
"""Signs of a path that are told; a client chooses them."""


def told_of(request: BoundedRequest, now: float, *, answered: bool) -> Mapping[str, object]:
    """
    The members of its line.

    :param now: the clock's seconds.
    :param answered: whether the answer was written whole; its status is 0 otherwise.
    """
    told: dict[str, object] = {
        "kind": "http",
        "surface": "" if request.mount is None else request.mount.surface,
        "address": request.channel.address,
        "method": request.method.decode("ascii", "replace"),
        "path": request.path.decode("ascii", "replace")[:LONGEST_PATH],
        "status": int(request.code) if answered else 0,
        "ms": round((now - (request.arrived or now)) * 1000, 3),
    }
    if request.audit_id:
        told["audit_id"] = request.audit_id
    return told
