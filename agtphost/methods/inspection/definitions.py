"""
``INSPECT target=endpoint``: the definition of one endpoint, as in the manifest, in a separate document.

Its media type is that of an endpoint definition (AGTP-API section 17.2, core
v08 section 11.4). A caller that could not call the endpoint does not learn that there
is one: the lists of DISCOVER do not show it to that caller either.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from agtphost.contract.binding import Binding
from agtphost.contract.endpoint import Endpoint
from agtphost.contract.manifest import project_binding
from agtphost.errors import not_found
from agtphost.handlers import parameters
from agtphost.handlers.authorization import Authorization
from agtphost.handlers.built_in import Answer, BuiltInContext
from agtphost.vocabulary import media_types
from agtphost.vocabulary.catalog import Catalog
from agtphost.vocabulary.reasons import Reason

TARGET, ALL = "endpoint", "endpoints"

MOST_LISTED = 1_000
"""Endpoints of one list; the operator's own are the last to be left out."""


class Definitions:
    """
    Definitions of what can be called.

    :param bindings: everything registered; read at every call.
    :param authorization: tells overseers, who are shown what they could not call themselves.
    :param endpoints: the operator's, whose definitions say more than their bindings.
    """

    def __init__(
        self,
        bindings: Callable[[], Iterable[Binding]],
        endpoints: Iterable[Endpoint],
        catalog: Catalog,
        authorization: Authorization,
    ) -> None:
        self._bindings = bindings
        self._endpoints = {(endpoint.method, endpoint.path): endpoint for endpoint in endpoints}
        self._catalog = catalog
        self._authorization = authorization

    async def read(self, context: BuiltInContext) -> Answer:
        """Return one definition, by ``method`` and ``path`` as they are registered."""
        named = parameters.require_text(context.input, "method"), parameters.require_text(context.input, "path")
        looks = self._authorization.looks(context)
        for binding in self._bindings():
            if (binding.method, binding.path) == named and (looks or context.admits(binding)):
                return Answer(result=self._definition(binding), enveloped=False, content_type=media_types.ENDPOINT_JSON)
        raise not_found(Reason.ENDPOINT_UNKNOWN)

    async def read_all(self, context: BuiltInContext) -> Mapping[str, Any]:
        """
        Return all registered endpoints by method and path, as ``{"endpoints": [...], "count": N}``.

        :raises agtphost.errors.Refusal: 403 for everyone but overseers; DISCOVER lists agents what they can call.
        """
        self._authorization.require_looking(
            context, "Only operators see all endpoints; DISCOVER /methods shows agents what they can call."
        )
        found = {(each.method, each.path): each for each in self._bindings()}
        shown = [
            {"method": method, "path": path, "description": found[method, path].description, "tier": tier}
            for tier, method, path in sorted((each.tier, *place) for place, each in found.items())[-MOST_LISTED:]
        ]
        return {"endpoints": shown, "count": len(found)}

    def _definition(self, binding: Binding) -> dict[str, Any]:
        endpoint = self._endpoints.get((binding.method, binding.path))
        return project_binding(binding, self._catalog) if endpoint is None else endpoint.projection()
