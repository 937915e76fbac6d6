"""
Access lines: one JSON object a request, for what reads logs; ``[log] access`` switches them on.

Every kind of request writes them by :func:`access_log`, with the member ``kind`` to tell them apart. They are what the
operator asked for, line by line, and so none is left out: :mod:`agtphost.host.log_throttle` passes their namespace.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

from twisted.logger import Logger

NAMESPACE = "agtphost.access"


def access_log() -> Callable[[Mapping[str, object]], None]:
    """What writes the line of one request, from its members."""
    log = Logger(namespace=NAMESPACE)

    def write(told: Mapping[str, object]) -> None:
        # ASCII alone, and no control character: what a client chose stays inside its member.
        log.info("{line}", line=json.dumps(told, separators=(",", ":")))

    return write
