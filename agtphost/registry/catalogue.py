"""
The catalogue of all cards: it decides who is shown which card and who may call what.

Seeing a card and calling it are two questions. A card is shown to callers who may call at least one of its operations,
to the agent that registered it, and to overseers. A call is authorized by the URL that is called, at the moment of the
call, for every caller: :meth:`Cards.require_call` asks for the scopes of the provider that the URL belongs to. Neither
the card's contents nor its owner change that. What is hosted is called through the gates, as without its card.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from heapq import merge
from typing import Any
from urllib.parse import urlsplit

from agtphost.contract.binding import Binding
from agtphost.contract.schemas import CompiledSchema, compile_schema
from agtphost.errors import Refusal, not_found
from agtphost.handlers.authorization import Authorization
from agtphost.handlers.built_in import BuiltInContext, IBuiltInHandler
from agtphost.identity.agents import Agent
from agtphost.identity.peer import Assurance
from agtphost.registry import card_reader
from agtphost.registry.card import WITHDRAWN
from agtphost.registry.endpoints import EndpointChecker
from agtphost.registry.entry import LOST, REGISTERED, CardEntry
from agtphost.registry.generated import GeneratedCard, HostedCards
from agtphost.registry.leases import Leases
from agtphost.registry.registered import RegisteredCards
from agtphost.vocabulary.reasons import Reason

REGISTER = "registry:register"
"""The scope that lets an agent register cards under its own name."""

RETRY = 60
"""Seconds after which a caller may retry an agent whose lease is lost."""

Scopes = Callable[[str], tuple[str, ...]]
"""Return the scopes that callers of a URL must hold, from the provider that the URL belongs to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """A card together with its state, as one caller sees it."""

    entry: CardEntry
    state: str
    tier: int | None
    """Trust tier of the card's agent; None if no agent is known."""

    seen: float | None
    """When its agent was last seen, in seconds since the Unix epoch."""

    generated: GeneratedCard | None = None
    """The generated card of what is hosted here; None for registered cards."""

    def to_json(self) -> dict[str, Any]:
        """Return the JSON object of this card in lists."""
        return self.entry.to_json(self.state, self.tier, self.seen)


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetOperation:
    """An operation that can be called."""

    method: str
    path: str
    input_schema: CompiledSchema | None
    output_schema: CompiledSchema | None
    binding: Binding | None
    """The binding to call; None if the agent is not hosted here."""

    endpoint: str = ""
    """URL of the operation, if the agent is not hosted here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The agent or server that a card leads to, with its operations."""

    kind: str
    """``agent``, ``mcp``, ``a2a`` or ``acp`` if hosted here; otherwise ``https`` or ``agtp``."""

    name: str
    operations: Mapping[str, TargetOperation]
    """Operations by name; the first is the default."""

    state: str
    endpoint: str
    provider: str
    entry: CardEntry = field(repr=False)
    agent: Agent | None = field(default=None, repr=False)
    """The hosted agent that the card describes."""

    @property
    def is_remote(self) -> bool:
        """Return whether the card was registered, and its agent is not hosted here."""
        return self.entry.kind == REGISTERED


class Cards:
    """
    All cards, registered and generated.

    :param scopes: returns the scopes that callers of a URL must hold; see :data:`Scopes`.
    :param find: returns the agent of an Agent-ID, if this host knows it.
    :param handler: placeholder handler of bindings that are only checked and never run.
    """

    def __init__(
        self,
        registered: RegisteredCards,
        leases: Leases,
        hosted: HostedCards,
        authorization: Authorization,
        find: Callable[[str], Agent | None],
        handler: IBuiltInHandler,
        scopes: Scopes = lambda endpoint: (),
    ) -> None:
        self.registered = registered
        self.leases = leases
        self.hosted = hosted
        self._authorization = authorization
        self._find = find
        self._handler = handler
        self._scopes = scopes

    # Who is shown what

    def all(self, context: BuiltInContext, after: str = "") -> Iterator[Listed]:
        """
        Return the cards that the caller is shown, in the order of their ids, starting behind the id ``after``.

        Call this in the reactor's thread. The iterator can be consumed in any thread; with thousands of cards that
        takes long.
        """
        shows = self._shows(context)
        hosted = map(self._list_generated, self.hosted.all(context, after))
        registered = (self._of_registered(entry) for entry in self.registered.entries_after(after) if shows(entry))
        return merge(hosted, registered, key=lambda each: each.entry.id)

    def get(self, context: BuiltInContext, card_id: str) -> Listed:
        """
        Return one card.

        :raises Refusal: 404, the same if the card does not exist and if the caller may not see it.
        """
        entry = self.registered.get(card_id)
        if entry is not None and self._shows(context)(entry):
            return self._of_registered(entry)
        found = None if entry is not None else self.hosted.get(context, card_id)
        if found is None:
            raise not_found(Reason.CARD_UNKNOWN)
        return self._list_generated(found)

    def entry(self, context: BuiltInContext, card_id: str) -> CardEntry:
        """Return the entry of one card; see :meth:`get`."""
        return self.get(context, card_id).entry

    def octets(self, listed: Listed) -> bytes:
        """Return the card itself as octets."""
        generated = listed.generated
        return self.registered.octets(listed.entry.id) if generated is None else generated.octets

    def owns(self, context: BuiltInContext, entry: CardEntry) -> bool:
        """Return whether the caller registered the card and proves its Agent-ID by certificate."""
        caller = context.caller
        proven = context.assurance is Assurance.CERTIFICATE
        return proven and caller is not None and bool(entry.owner) and caller.agent_id == entry.owner

    def _shows(self, context: BuiltInContext) -> Callable[[CardEntry], bool]:
        """
        Return a function that tells whether a registered card is shown to this caller; equal cases are checked once.
        """
        if self._authorization.looks(context):
            return lambda entry: True
        judged: dict[tuple[bool, tuple[str, ...]], bool] = {}
        # Grants and authorizations by other agents name single cards, so the result cannot be shared.
        apart = any(context.authority()[-2:])

        def admits(entry: CardEntry, url: str) -> bool:
            if apart:
                return context.admits(self.binding(entry, url))
            rule = entry.public, self._scopes(url)
            known = judged.get(rule)
            if known is None:
                known = judged[rule] = context.admits(self.binding(entry, url))
            return known

        def shows(entry: CardEntry) -> bool:
            if self.owns(context, entry):
                return True
            return admits(entry, entry.endpoint) and any(admits(entry, url) for url in entry.called_urls)

        return shows

    def binding(self, entry: CardEntry, url: str) -> Binding:
        """
        Return the binding that represents calling one URL of a registered card.

        Strangers can call what an operator made public, unless the provider of the URL asks for scopes: a scope needs
        more proof than a name in a header.
        """
        scopes = self._scopes(url)
        return Binding(
            method="EXECUTE",
            path=f"/cards/{entry.id}",
            handler=self._handler,
            tier="B",
            description=entry.description,
            required_scopes=scopes,
            min_assurance=Assurance.NONE if entry.public and not scopes else Assurance.GATEWAY,
        )

    def require_call(self, context: BuiltInContext, entry: CardEntry, url: str) -> None:
        """
        Refuse a caller who may not call a URL by a registered card.

        This is asked immediately before each request to the URL. Neither ownership of the card nor the right to look
        into everything (``inspect:all``, operators, viewers) replaces the scopes of the URL's provider.

        :raises Refusal: as the gates refuse a call: 262 without the scopes, 401 where the caller is not known surely
            enough, 262 without a grant where the operator narrowed the caller.
        """
        context.invocation.require(self.binding(entry, url))

    def require_fetch(self, context: BuiltInContext, url: str) -> None:
        """
        Refuse an agent that has the host fetch a card from a provider whose scopes the agent lacks.

        The fetch sends the operator's credentials, as a call does. Operators name any URL: the credentials are theirs.

        :raises Refusal: 262 without the scopes.
        """
        if not self._authorization.operates(context):
            context.invocation.require(
                Binding(
                    method="REGISTER",
                    path="/cards",
                    handler=self._handler,
                    tier="A",
                    required_scopes=self._scopes(url),
                    piecewise=True,
                )
            )

    def _list_generated(self, found: GeneratedCard) -> Listed:
        return Listed(entry=found.entry, state=found.state, tier=found.tier, seen=None, generated=found)

    def _of_registered(self, entry: CardEntry) -> Listed:
        seen = self.leases.seen_at(entry.id)
        return Listed(entry=entry, state=self.leases.state(entry.id), tier=self.tier(entry), seen=seen)

    def tier(self, entry: CardEntry) -> int | None:
        """Trust tier of the agent that registered a card; None where none is known."""
        agent = self._find(entry.owner) if entry.owner else None
        return None if agent is None else agent.posture.trust_tier

    # What is invoked

    def target(self, context: BuiltInContext, card_id: str) -> Target:
        """
        Return the target of a card that the caller is shown; :meth:`require_call` checks who may call it.

        :raises Refusal: see :meth:`get`; 410 if the card is withdrawn, 503 if its lease is lost.
        """
        listed = self.get(context, card_id)
        entry, generated = listed.entry, listed.generated
        if entry.status == WITHDRAWN:
            raise Refusal(Reason.CARD_WITHDRAWN, details={"successor": entry.successor} if entry.successor else None)
        if listed.state == LOST:
            raise Refusal(Reason.CARD_LOST, headers=(("Retry-After", str(RETRY)),))
        if generated is not None:
            operations = {
                name: TargetOperation(
                    method=each.method,
                    path=each.path,
                    input_schema=each.input_schema,
                    output_schema=each.output_schema,
                    binding=each,
                )
                for name, each in generated.operations.items()
            }
            kind = entry.kind
        else:
            operations = self._remote_operations(entry)
            kind = "agtp" if urlsplit(entry.endpoint).scheme == "agtp" else "https"
        return Target(
            kind=kind,
            name=entry.id.partition(":")[2] if generated is not None else entry.name,
            operations=operations,
            state=listed.state,
            endpoint=entry.endpoint,
            provider=entry.provider,
            entry=entry,
            agent=None if generated is None else generated.agent,
        )

    def _remote_operations(self, entry: CardEntry) -> dict[str, TargetOperation]:
        octets = self.registered.octets(entry.id)
        try:
            card = card_reader.read(octets, EndpointChecker.allow_all())
        except card_reader.CardFaults as error:
            # The card was valid when it registered; the rules have become stricter since.
            raise Refusal(Reason.CARD_INVALID, f"The card violates the present rules: {error}.") from None
        return {
            each.name: TargetOperation(
                method="POST",
                path="",
                input_schema=None if each.input_schema is None else _compile(each.input_schema),
                output_schema=None if each.output_schema is None else _compile(each.output_schema),
                binding=None,
                endpoint=each.endpoint or card.endpoint,
            )
            for each in card.operations
        }


def _compile(schema: Mapping[str, Any]) -> CompiledSchema:
    return compile_schema(schema, role="tool" if schema.get("type", "object") == "object" else "output")
