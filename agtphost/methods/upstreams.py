"""``INSPECT target=upstreams``: what the host's upstreams are up to, for operators (design decision 16)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from agtphost.errors import Refusal
from agtphost.handlers.context import EndpointContext
from agtphost.identity.peer import Assurance
from agtphost.vocabulary import scopes
from agtphost.vocabulary.status import Status

OVERSEER = "inspect:all"
"""The scope of agents that may see them."""

Report = Callable[[], Sequence[Mapping[str, object]]]


class UpstreamReport:
    """
    Tells operators of upstreams.

    :param reports: each gives one entry for every upstream of its kind.
    :param operators: key fingerprints of operators.
    """

    def __init__(self, reports: Sequence[Report], operators: frozenset[str]) -> None:
        self._reports = reports
        self._operators = operators

    async def read(self, context: EndpointContext) -> Mapping[str, Any]:
        """
        ``{"upstreams": [...]}``, with state, restarts, next attempt, latency, and the last lines of stderr.

        :raises Refusal: 403 for everyone but operators: stderr may say anything.
        """
        certificate = context.peer.certificate if context.peer is not None else None
        operator = certificate is not None and certificate.fingerprint in self._operators
        overseer = context.assurance is Assurance.CERTIFICATE and not scopes.missing(context.scopes, (OVERSEER,))
        if not operator and not overseer:
            raise Refusal(
                Status.FORBIDDEN,
                "operators-only",
                "Upstreams are shown to operators; DESCRIBE tells agents what concerns them.",
                remedy=f"Connect with the certificate of an operator, or of an agent that has the scope {OVERSEER}.",
            )
        return {"upstreams": [dict(entry) for report in self._reports for entry in report()]}
