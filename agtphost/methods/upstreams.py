"""``INSPECT target=upstreams``: what the host's upstreams are up to, for operators (design decision 16)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from agtphost.handlers.authorization import INSPECT_ALL, Authorization
from agtphost.handlers.built_in import BuiltInContext

Report = Callable[[], Sequence[Mapping[str, object]]]


class UpstreamReport:
    """
    Tells operators of upstreams.

    :param reports: each gives one entry for every upstream of its kind.
    :param authorization: tells operators, and agents with the scope ``inspect:all``.
    """

    def __init__(self, reports: Sequence[Report], authorization: Authorization) -> None:
        self._reports = reports
        self._authorization = authorization

    async def read(self, context: BuiltInContext) -> Mapping[str, Any]:
        """
        ``{"upstreams": [...]}``, with state, restarts, next attempt, latency, and the last lines of stderr.

        :raises Refusal: 403 for everyone but operators: stderr may say anything.
        """
        self._authorization.require(
            context, INSPECT_ALL, "Upstreams are shown to operators; DESCRIBE tells agents what concerns them."
        )
        return {"upstreams": [dict(entry) for report in self._reports for entry in report()]}
