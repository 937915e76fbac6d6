"""
All cards together, who is shown which, and who may call what: what lists, searches and invocations ask.

To be shown a card and to call it are two questions. A card is shown to callers who may call something of it, and also
to the agent that registered it and to overseers. A call is judged by the URL that is called, at the moment of the
call, for every caller: :meth:`Cards.require_call` asks for the scopes of the provider that the URL belongs to,
whatever the card says and whoever owns it. What is hosted is called through the gates, as without its card.
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
from agtphost.registry import reading
from agtphost.registry.card import WITHDRAWN
from agtphost.registry.endpoints import Endpoints
from agtphost.registry.entry import LOST, REGISTERED, Entry
from agtphost.registry.generated import Generated, HostedCards
from agtphost.registry.leases import Leases
from agtphost.registry.registered import Registered
from agtphost.vocabulary.reasons import Reason

REGISTER = "registry:register"
"""The scope by which an agent registers cards under its own name."""

RETRY = 60
"""Seconds after which an agent that was lost may be there again."""

Scopes = Callable[[str], tuple[str, ...]]
"""The scopes that callers of a URL must hold, as the provider that the URL belongs to has them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """A card that a caller is shown."""

    entry: Entry
    state: str
    tier: int | None
    """Trust tier of the agent behind it; None where none is known."""

    seen: float | None
    """When it was heard of last, in seconds since the Unix epoch."""

    generated: Generated | None = None
    """What it is, where it is hosted here."""

    def shown(self) -> dict[str, Any]:
        """As lists show it."""
        return self.entry.shown(self.state, self.tier, self.seen)


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetOperation:
    """One thing that can be invoked."""

    method: str
    path: str
    input_schema: CompiledSchema | None
    output_schema: CompiledSchema | None
    binding: Binding | None
    """What is called; None where the agent is elsewhere."""

    endpoint: str = ""
    """Where the operation is, of an agent elsewhere."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What a card leads to."""

    kind: str
    """``agent``, ``mcp``, ``a2a``, ``acp`` of what is hosted; else ``https`` or ``agtp``."""

    name: str
    operations: Mapping[str, TargetOperation]
    """By name; the first is what is meant where none is named."""

    state: str
    endpoint: str
    provider: str
    entry: Entry = field(repr=False)
    agent: Agent | None = field(default=None, repr=False)
    """The hosted agent whose card it is."""

    @property
    def elsewhere(self) -> bool:
        """Whether the card was registered, and its agent is not hosted here."""
        return self.entry.kind == REGISTERED


class Cards:
    """
    Every card that there is.

    :param scopes: what callers of a URL must hold; see :data:`Scopes`.
    :param find: an agent that this host knows, by its Agent-ID.
    :param handler: stands in bindings that are only judged.
    """

    def __init__(
        self,
        registered: Registered,
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
        Those that the caller is shown, in the order of their ids, after one of them.

        Asked for in the reactor's thread, and gone through in any: with thousands that takes its time.
        """
        shows = self._shows(context)
        hosted = map(self._of_host, self.hosted.all(context, after))
        registered = (self._of_registered(entry) for entry in self.registered.after(after) if shows(entry))
        return merge(hosted, registered, key=lambda each: each.entry.id)

    def get(self, context: BuiltInContext, card_id: str) -> Listed:
        """
        One of them.

        :raises Refusal: 404, the same for what is not there and for what the caller may not know of.
        """
        entry = self.registered.get(card_id)
        if entry is not None and self._shows(context)(entry):
            return self._of_registered(entry)
        found = None if entry is not None else self.hosted.get(context, card_id)
        if found is None:
            raise not_found(Reason.CARD_UNKNOWN)
        return self._of_host(found)

    def entry(self, context: BuiltInContext, card_id: str) -> Entry:
        """The entry of one; see :meth:`get`."""
        return self.get(context, card_id).entry

    def octets(self, listed: Listed) -> bytes:
        """The card itself."""
        generated = listed.generated
        return self.registered.octets(listed.entry.id) if generated is None else generated.octets

    def owns(self, context: BuiltInContext, entry: Entry) -> bool:
        """Whether an agent, which its certificate proves, registered it."""
        caller = context.caller
        proven = context.assurance is Assurance.CERTIFICATE
        return proven and caller is not None and bool(entry.owner) and caller.agent_id == entry.owner

    def _shows(self, context: BuiltInContext) -> Callable[[Entry], bool]:
        """Whether a registered card is shown to this caller: what is the same for many is judged once."""
        if self._authorization.looks(context):
            return lambda entry: True
        judged: dict[tuple[bool, tuple[str, ...]], bool] = {}
        # Grants name cards one by one, and what another agent authorized does as well.
        apart = any(context.authority()[-2:])

        def admits(entry: Entry, url: str) -> bool:
            if apart:
                return context.admits(self.binding(entry, url))
            rule = entry.public, self._scopes(url)
            known = judged.get(rule)
            if known is None:
                known = judged[rule] = context.admits(self.binding(entry, url))
            return known

        def shows(entry: Entry) -> bool:
            if self.owns(context, entry):
                return True
            return admits(entry, entry.endpoint) and any(admits(entry, url) for url in entry.called)

        return shows

    def binding(self, entry: Entry, url: str) -> Binding:
        """
        Return what stands for calling one URL by a registered card.

        Strangers call what an operator made public, unless the provider of the URL asks for scopes: those are proven
        by more than a name in a header.
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

    def require_call(self, context: BuiltInContext, entry: Entry, url: str) -> None:
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

    def _of_host(self, found: Generated) -> Listed:
        return Listed(entry=found.entry, state=found.state, tier=found.tier, seen=None, generated=found)

    def _of_registered(self, entry: Entry) -> Listed:
        seen = self.leases.seen(entry.id)
        return Listed(entry=entry, state=self.leases.state(entry.id), tier=self.tier(entry), seen=seen)

    def tier(self, entry: Entry) -> int | None:
        """Trust tier of the agent that registered a card; None where none is known."""
        agent = self._find(entry.owner) if entry.owner else None
        return None if agent is None else agent.posture.trust_tier

    # What is invoked

    def target(self, context: BuiltInContext, card_id: str) -> Target:
        """
        What a card leads to, of those that the caller is shown: who may call it, :meth:`require_call` decides.

        :raises Refusal: see :meth:`get`; 410 where it is withdrawn, 503 where nothing was heard of the agent for long.
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
            operations = self._elsewhere(entry)
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

    def _elsewhere(self, entry: Entry) -> dict[str, TargetOperation]:
        octets = self.registered.octets(entry.id)
        try:
            card = reading.read(octets, Endpoints.everywhere())
        except reading.CardFaults as error:
            # It was read when it registered; what a card may hold has become less since.
            raise Refusal(Reason.CARD_INVALID, f"The card is none any more: {error}.") from None
        return {
            each.name: TargetOperation(
                method="POST",
                path="",
                input_schema=None if each.input_schema is None else _compiled(each.input_schema),
                output_schema=None if each.output_schema is None else _compiled(each.output_schema),
                binding=None,
                endpoint=each.endpoint or card.endpoint,
            )
            for each in card.operations
        }


def _compiled(schema: Mapping[str, Any]) -> CompiledSchema:
    return compile_schema(schema, role="tool" if schema.get("type", "object") == "object" else "output")
