"""LINK and EMBED: relations between what there is here (methods v01 sections 6.2 and 6.7)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from zope.interface import implementer

from agtphost.errors import Refusal
from agtphost.handlers import parameters
from agtphost.handlers.built_in import Answer, BuiltInContext, IBuiltInHandler
from agtphost.methods.standard.collections.fetch import Resources
from agtphost.methods.standard.collections.index import BINDINGS, RELATIONS
from agtphost.methods.standard.collections.store import Collection, binding_key, is_item_id, key_of
from agtphost.methods.standard.services import MethodServices
from agtphost.vocabulary.reasons import Reason

METADATA = 16_384
"""Octets of ``metadata``."""


def _entity(resources: Resources, context: BuiltInContext, name: str) -> str:
    found = resources.canonical_name(context, str(context.input[name]))
    if found is None:
        raise Refusal(
            Reason.RESOURCE_UNKNOWN,
            remedy="Name an item as collection/id, an agent, or a tool as server.tool.",
            details={"parameter": name},
        )
    return found


def _collection(parts: MethodServices, name: str) -> Collection:
    found = parts.collections.find(name)
    assert found is not None
    return found


@implementer(IBuiltInHandler)
class Linking:
    """The handler of LINK."""

    kind = "built_in"

    def __init__(self, parts: MethodServices, resources: Resources) -> None:
        self._relations = _collection(parts, RELATIONS)
        self._resources = resources

    def handle(self, context: BuiltInContext) -> Any:
        """
        Answer the LINK call.

        :raises Refusal: 404 for an unknown entity; 409 where the two are related like that.
        """
        given = context.input
        source, target = (_entity(self._resources, context, name) for name in ("source", "target"))
        data: dict[str, Any] = {"source": source, "target": target, "relationship": given["relationship"]}
        metadata = parameters.read_json(given, "metadata", METADATA)
        if metadata is not None:
            data["metadata"] = metadata
        key = key_of(context, source, target, data["relationship"])
        if self._relations.get(key) is not None:
            raise Refusal(Reason.LINK_EXISTS, details={"link_id": key})
        self._relations.require_room(context, 1)
        value, change = self._relations.put(context, key, data)
        told = {"link_id": key, **data, "resource_id": f"{RELATIONS}/{key}", "created_at": value["created_at"]}
        return Answer(result=told, changes=(change,), extra={"link_id": key})


@implementer(IBuiltInHandler)
class Embedding:
    """The handler of EMBED."""

    kind = "built_in"

    def __init__(self, parts: MethodServices, resources: Resources) -> None:
        self._bindings = _collection(parts, BINDINGS)
        self._resources = resources

    def handle(self, context: BuiltInContext) -> Any:
        """
        Answer the EMBED call.

        :raises Refusal: 404 for an unknown source, target or version; 409 where the name is taken.
        """
        given = context.input
        source = _entity(self._resources, context, "source")
        container = self._resources.item(context, str(given["target"]))
        if container is None:
            raise Refusal(Reason.RESOURCE_UNKNOWN, details={"parameter": "target"})
        target = f"{container.value['collection']}/{container.id}"
        name = given.get("binding") or source.rpartition("/")[2]
        if not is_item_id(name):
            raise parameters.invalid("binding", "binding is not a name.", "Use letters, digits and . _ : @ -.")
        data = self._data(context, source, target, name)
        key = binding_key(context, target, name)
        if self._bindings.get(key) is not None:
            raise Refusal(Reason.BINDING_TAKEN, details={"parameter": "binding", "binding_id": key})
        self._bindings.require_room(context, 1)
        _, change = self._bindings.put(context, key, data)
        told = {"binding_id": key, **data, "resource_id": f"{target}/{name}"}
        return Answer(result=told, changes=(change,), extra={"binding_id": key})

    def _data(self, context: BuiltInContext, source: str, target: str, name: str) -> Mapping[str, Any]:
        item = self._resources.item(context, source)
        version = None if item is None else item.value["version"]
        wanted = context.input.get("version")
        if wanted is not None and str(wanted) != str(version):
            raise Refusal(Reason.RESOURCE_UNKNOWN, details={"parameter": "version", "version": version})
        return {"source": source, "target": target, "binding": name, "version": version}
