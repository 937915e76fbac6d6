"""``INSPECT target=upstreams``: what the host's upstreams are up to, for operators (design decision 16)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from agtphost.errors import Refusal
from agtphost.handlers import parameters
from agtphost.handlers.authorization import INSPECT_ALL, Authorization
from agtphost.handlers.built_in import BuiltInContext
from agtphost.vocabulary.reasons import Reason

Find = Callable[[str, str], Mapping[str, Any] | None]
"""By the upstream's name and the definition's: both definitions; None where there is nothing of these names."""

APPROVERS = {"mcp": "mcp:tools:approve", "a2a": "a2a:upstreams:approve", "acp": "acp:upstreams:approve"}
"""The scopes of those who may approve a definition, and therefore look at it."""

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
        List upstreams as ``{"upstreams": [...]}``, with state, restarts, latency and the last lines of stderr.

        :raises Refusal: 403 for everyone but operators: stderr may say anything.
        """
        self._authorization.require_looking(
            context, "Only operators see upstreams; DESCRIBE shows agents those that they may use."
        )
        return {"upstreams": [dict(entry) for report in self._reports for entry in report()]}


class UpstreamDefinition:
    """
    Shows overseers an upstream's definition as it was approved, and as it is now.

    :param find: by protocol.
    """

    def __init__(self, find: Mapping[str, Find], authorization: Authorization) -> None:
        self._find = find
        self._authorization = authorization

    async def read(self, context: BuiltInContext) -> Mapping[str, Any]:
        """
        ``upstream`` is ``PROTOCOL.NAME``; ``name`` a tool of an MCP server or an agent of an ACP server.

        A definition is the JSON text whose SHA-256 the digest is, so that readers can verify the host's digest.

        :raises Refusal: 403 for everyone but operators and those who may approve; 404 for an unknown upstream or name.
        """
        upstream, name = parameters.require_text(context.input, "upstream"), context.input.get("name", "")
        protocol, _, known = upstream.partition(".")
        scope = APPROVERS.get(protocol, INSPECT_ALL)
        if not self._authorization.looks(context):
            self._authorization.require(
                context, scope, "Only operators, and agents that may approve them, see the definitions of upstreams."
            )
        find = self._find.get(protocol)
        both = None if find is None or not isinstance(name, str) else find(known, name)
        if both is None:
            raise Refusal(Reason.UNKNOWN_UPSTREAM_DEFINITION)
        shown = {"protocol": protocol.upper(), "upstream": known, **({"name": name} if name else {})}
        return {"upstream_definition": {**shown, **both}}
