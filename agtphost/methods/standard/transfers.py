"""
TRANSFER: a resource of one agent becomes another's (methods v01 sections 5.6 and 10.6).

Resources are the items of collections. Each has the chain of all its owners, which grows in the transaction of the
record that tells of the transfer; that record names both principals.
"""

from __future__ import annotations

from typing import Any

from zope.interface import implementer

from agtphost.errors import Refusal
from agtphost.handlers import parameters
from agtphost.handlers.authorization import owner_of
from agtphost.handlers.built_in import Answer, BuiltInContext, IBuiltInHandler
from agtphost.identity.agents import Agent
from agtphost.identity.peer import Assurance, state_owner
from agtphost.methods.standard.collections.store import Collection, Item
from agtphost.methods.standard.services import MethodServices
from agtphost.vocabulary import scopes
from agtphost.vocabulary.identifiers import is_agent_id
from agtphost.vocabulary.reasons import Reason
from agtphost.vocabulary.status import Status

REASON = 1_024
"""Octets of a structured reason: it stays with the item for good."""

MOST_OWNERS = 500
"""Links of a chain of owners."""

IN_RECORD = 16
"""Links of the chain, the last ones, that the record has itself: each transfer before has its own."""


@implementer(IBuiltInHandler)
class Transferring:
    """The handler of TRANSFER."""

    kind = "built_in"

    def __init__(self, parts: MethodServices) -> None:
        self._parts = parts

    def handle(self, context: BuiltInContext) -> Answer:
        """
        Hand an item over.

        :raises Refusal: 403 for whose it is not, 404, 409 where ``from_principal`` is not the owner, 422, 455 without
            the scopes of the collection.
        """
        caller, given = owner_of(context), context.input
        collection, item = self._resource(parameters.require_text(given, "resource_id"))
        origin = self._principal(given, "from_principal")
        target = self._principal(given, "to_principal")
        reason = parameters.read_json(given, "reason", REASON)
        parties = {"from_principal": origin.agent_id, "to_principal": target.agent_id}
        # Checked before the answer can reveal whether the item exists.
        self._require_scope(context, collection, parties)
        if item is None:
            raise _unknown()
        resource_id = f"{collection.name}/{item.id}"
        if item.owner != origin.agent_id or len(item.value["owners"]) >= MOST_OWNERS:
            raise Refusal(
                Reason.NOT_THE_OWNER, details={"resource_id": resource_id, "owner": item.owner}, extra=parties
            )
        own = origin.agent_id == caller.agent_id and item.held.owner == context.owner
        if not own and not self._parts.authorization.manages(context, origin.agent_id):
            raise Refusal(
                Reason.NOT_ENTITLED,
                "Only its owner can transfer a resource.",
                status=Status.FORBIDDEN,
                remedy="Ask the owner to TRANSFER it.",
                extra=parties,
            )
        if target.agent_id == origin.agent_id:
            raise parameters.invalid(
                "to_principal", "The resource already belongs to this agent.", "Name another agent."
            )
        change = collection.transfer(item, target, state_owner(target.agent_id, Assurance.CERTIFICATE), reason)
        assert change.value is not None, "an item stays"
        chain = [dict(each) for each in change.value["owners"]]
        return Answer(
            result={
                "resource_id": resource_id,
                **parties,
                "version": change.value["version"],
                "ownership_chain": chain,
            },
            changes=(change, *collection.keep_version(item)),
            extra={
                **parties,
                "transfer": {
                    "resource_id": resource_id,
                    "version": change.value["version"],
                    "owners": len(chain),
                    "ownership_chain": [each["agent_id"] for each in chain[-IN_RECORD:]],
                },
            },
        )

    def _resource(self, reference: str) -> tuple[Collection, Item | None]:
        """Return the collection and the item that ``collection/id`` names; the item is None if it is missing."""
        name, _, item_id = reference.partition("/")
        collection = self._parts.collections.find(name)
        if collection is None or collection.own:
            raise _unknown()
        return collection, collection.get(item_id)

    def _principal(self, given: Any, name: str) -> Agent:
        named = parameters.identifier(given, name)
        directory = self._parts.directory
        agent = directory.by_id(named) if is_agent_id(named) else directory.by_name(named)
        if agent is None:
            raise Refusal(
                Reason.RECIPIENT_UNKNOWN,
                f"{name} is not an agent that this host knows.",
                remedy="Send an Agent-ID, or a hosted agent's name.",
                details={"parameter": name},
            )
        return agent

    @staticmethod
    def _require_scope(context: BuiltInContext, collection: Collection, parties: dict[str, str]) -> None:
        lacking = scopes.missing(context.scopes, collection.section.write)
        if lacking:
            raise Refusal(
                Reason.SCOPE_REQUIRED,
                f"Transferring what is in {collection.name} needs scopes that this request does not claim.",
                status=Status.SCOPE_VIOLATION,
                remedy="Claim the scopes, if the caller's Identity Document has them.",
                details={"missing_scopes": list(lacking)},
                extra=parties,
                scopes=lacking,
            )


def _unknown() -> Refusal:
    return Refusal(Reason.RESOURCE_UNKNOWN, details={"parameter": "resource_id"})
