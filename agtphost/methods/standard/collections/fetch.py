"""FETCH: one resource by its identifier (methods v01 section 3.1)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from functools import partial
from itertools import islice, takewhile
from typing import Any, Final

from zope.interface import implementer

from agtphost.audit.state import StateItem
from agtphost.errors import Refusal
from agtphost.handlers import parameters
from agtphost.handlers.built_in import BuiltInContext, IBuiltInHandler
from agtphost.identity.agents import Agent
from agtphost.methods.standard.collections.index import BINDINGS
from agtphost.methods.standard.collections.store import Collection, Item, binding_key, place_of
from agtphost.methods.standard.services import MethodServices
from agtphost.vocabulary.identifiers import is_agent_id
from agtphost.vocabulary.reasons import Reason

JSON: Final = ("json", "application/json")
"""What ``format`` may ask for."""

FEW = 64
"""What is embedded in one item, up to which it is not worth a thread."""

_NUMBER = re.compile(r"[1-9][0-9]{0,8}", re.ASCII)

NAMESPACE, STATUS = "/agents", "/status"


class Resources:
    """Resolves identifiers on this host."""

    def __init__(self, parts: MethodServices) -> None:
        self.parts = parts

    def local(self, identifier: str) -> str:
        """Return an identifier without the address of this host in front of it."""
        path = self.parts.address.local_path(identifier)
        return (identifier if path is None else path[1:]).removeprefix("collections/")

    def item(self, context: BuiltInContext, identifier: str) -> Item | None:
        """Return the item that ``collection/id`` names, if the caller may read it."""
        return self.parts.collections.item(context, self.local(identifier))

    def agent(self, context: BuiltInContext, identifier: str) -> Agent | None:
        """
        Return the agent that an Agent-ID, a label, or ``/agents/NAME`` names, if the caller is shown it.

        An agent that is known and not hosted here is shown to itself and to operators alone: who calls here is no
        matter of other callers.
        """
        name = self.local(identifier).removeprefix("/").removeprefix("agents/")
        directory = self.parts.directory
        agent: Agent | None = directory.by_id(name) if is_agent_id(name) else directory.by_name(name)
        if agent is None:
            return None
        visibility = self.parts.visibility
        shown = visibility.documents_of(context, agent) if agent.hosted else visibility.is_own(context, agent)
        return agent if shown else None

    def canonical_name(self, context: BuiltInContext, identifier: str) -> str | None:
        """
        Return the permanent name of an entity, which LINK relates and EMBED embeds.

        :return: ``collection/id``, an Agent-ID or ``server.tool``; None for what the caller does not see.
        """
        item = self.item(context, identifier)
        if item is not None:
            return f"{item.value['collection']}/{item.id}"
        agent = self.agent(context, identifier)
        if agent is not None:
            return agent.agent_id
        tools = (tool for adapter in self.parts.adapters for tool in adapter.tools())
        return next((tool.name for tool in tools if tool.name == identifier and context.admits(tool)), None)


@implementer(IBuiltInHandler)
class Fetch:
    """The handler of FETCH."""

    kind = "built_in"

    def __init__(self, resources: Resources) -> None:
        self._resources = resources

    async def handle(self, context: BuiltInContext) -> Any:
        """
        Answer the FETCH call.

        :raises Refusal: 404 for what the caller may not read, in that version; 422 for a format that there is not.
        """
        given = context.input
        parameters.choice(given, "format", JSON, JSON[0])
        identifier = str(given["resource_id"])
        item = self._resources.item(context, identifier) or self._find_embedded(context, identifier)
        if item is not None:
            return await self._item(context, item)
        found = await self._fetch_document(context, identifier)
        self._require_version(context, found.get("version"))
        return {"resource_id": identifier, "modified": True, **found}

    async def _item(self, context: BuiltInContext, item: Item) -> Mapping[str, Any]:
        value = self._version_of(context, item)
        told = {
            "resource_id": f"{value['collection']}/{value['id']}",
            "version": value["version"],
            "latest_version": item.value["version"],
            "owner": value["owner"],
            "owners": value["owners"],
            "created_at": value["created_at"],
            "last_modified": value["updated_at"],
        }
        since = parameters.moment(context.input, "if_modified_since")
        if since is not None and datetime.fromisoformat(value["updated_at"]).timestamp() <= since:
            return {**told, "modified": False}
        embedded = await self._list_bindings(context, f"{value['collection']}/{value['id']}")
        beside = {"embedded": embedded} if embedded else {}
        return {**told, "modified": True, "content_type": "application/json", "content": value["data"], **beside}

    def _version_of(self, context: BuiltInContext, item: Item) -> Mapping[str, Any]:
        """
        Return the value of an item in the version that the caller asks for; the last one where it asks for none.

        :raises Refusal: 404 for a version that there is not, or that is kept no longer.
        """
        current, wanted = item.value, _asked_version(context)
        if wanted in (None, str(current["version"])):
            return current
        collection = self._resources.parts.collections.find(current["collection"])
        number = int(wanted) if wanted is not None and _NUMBER.fullmatch(wanted) else 0
        former = None if collection is None else collection.former(item, number)
        if former is None:
            self._require_version(context, current["version"])
        assert former is not None
        return former

    @property
    def _bindings(self) -> Collection:
        bindings = self._resources.parts.collections.find(BINDINGS)
        assert bindings is not None
        return bindings

    async def _list_bindings(self, context: BuiltInContext, target: str) -> dict[str, str]:
        """Return the embedded sources of an item, by the names of the bindings."""
        place = place_of(context, target)
        behind = self._bindings.items_after(context, place)
        together = list(islice(takewhile(partial(_is_at, place), behind), FEW + 1))
        if len(together) > FEW:
            found: dict[str, str] = await self._resources.parts.offload(
                _binding_sources, takewhile(partial(_is_at, place), behind)
            )
            return found
        return _binding_sources(together)

    def _find_embedded(self, context: BuiltInContext, identifier: str) -> Item | None:
        """Return the item that ``collection/id/binding`` names."""
        target, slash, name = self._resources.local(identifier).rpartition("/")
        binding = self._bindings.get(binding_key(context, target, name)) if slash and "/" in target else None
        return None if binding is None else self._resources.item(context, binding.value["data"]["source"])

    async def _fetch_document(self, context: BuiltInContext, identifier: str) -> dict[str, Any]:
        """Fetch documents about agents, and resources of hosted MCP servers, through the gates as the caller itself."""
        path = f"/{self._resources.local(identifier).removeprefix('/')}"
        label, status = path.removesuffix(STATUS), path.endswith(STATUS)
        if path == NAMESPACE:
            return {"content": await self._invoke(context, "DESCRIBE", NAMESPACE, {})}
        agent = self._resources.agent(context, label)
        if agent is not None:
            document = await self._invoke(
                context, "DESCRIBE", f"{NAMESPACE}/{agent.name}{STATUS if status else ''}", {}
            )
            return {"content": document}
        if "://" in identifier:
            asked = {"modality": "mcp.resource", "mcp_resource_uri": identifier}
            return {"content": await self._invoke(context, "QUERY", "/", asked)}
        raise Refusal(Reason.RESOURCE_UNKNOWN, details={"parameter": "resource_id"})

    async def _invoke(self, context: BuiltInContext, method: str, path: str, given: Mapping[str, Any]) -> Any:
        try:
            return await context.invoke(method, path, given)
        except Refusal as refusal:
            if refusal.status in (403, 408, 262, 401):
                raise
            if refusal.reason == Reason.AGENT_NOT_HOSTED:
                # An agent that is known and not hosted here answers as an unknown one.
                raise Refusal(Reason.RESOURCE_UNKNOWN, details={"parameter": "resource_id"}) from None
            raise Refusal(
                Reason.RESOURCE_UNKNOWN,
                details={"parameter": "resource_id", "because": str(refusal.reason), **refusal.details},
            ) from None

    @staticmethod
    def _require_version(context: BuiltInContext, version: Any) -> None:
        wanted = _asked_version(context)
        if wanted is not None and wanted != str(version):
            told = {"version": version} if version is not None else {}
            raise Refusal(Reason.RESOURCE_UNKNOWN, details={"parameter": "version", **told})


def _asked_version(context: BuiltInContext) -> str | None:
    """Return the version that the caller asks for, as text; 2.0 is the integer 2 in JSON Schema."""
    wanted = context.input.get("version")
    if isinstance(wanted, float) and wanted.is_integer():
        wanted = int(wanted)
    return None if wanted is None else str(wanted)


def _is_at(place: str, binding: StateItem) -> bool:
    return str(binding.brief["id"]).startswith(place)


def _binding_sources(bindings: Iterable[StateItem]) -> dict[str, str]:
    return {each["binding"]: each["source"] for each in (binding.value["data"] for binding in bindings)}
