"""One request's progress through dispatch: what is proven so far, and nothing that is merely claimed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from agtphost.audit.drafts import Change, ReservationKey
from agtphost.audit.lifecycle import LifecycleState
from agtphost.contract.binding import Binding, IBindingHandler
from agtphost.contract.endpoint_table import Match
from agtphost.contract.rights import GrantSet
from agtphost.dispatch.purchase import Purchase
from agtphost.dispatch.release import Release
from agtphost.dispatch.token_authority import Granted
from agtphost.errors import Refusal
from agtphost.handlers.context import EndpointResponse
from agtphost.handlers.log_context import Call
from agtphost.identity.agents import Agent
from agtphost.identity.delegation import Lineage
from agtphost.identity.peer import Assurance, Peer, state_owner, trial_owner
from agtphost.wire.events import Request


class _Empty(Mapping[str, Any]):
    """A mapping without members. It has a hash, so that the fields of a dataclass may have it without a factory."""

    __slots__ = ()
    __hash__ = object.__hash__

    def __getitem__(self, name: str) -> Any:
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


_NOTHING: Mapping[str, Any] = _Empty()


@dataclass(slots=True)
class CallTree:
    """All calls that are made in the course of one request from outside."""

    made: int = 0


@dataclass(frozen=True, slots=True)
class Place:
    """The place of an inner call in its tree; every call that one handler makes has the same."""

    tree: CallTree
    listed: bool
    """Whether it is, or is inside of, a call of a list: of a BATCH, or of a batch of inputs of a card."""


@dataclass(slots=True)
class Exchange:
    """
    Gates read what earlier gates wrote here and add what they prove.

    A member that no gate has reached yet holds its least powerful value, so
    that a gate left out by mistake refuses rather than admits.
    """

    request: Request
    peer: Peer
    now: float
    """Seconds since the epoch at arrival."""

    call: Call = field(default_factory=Call)
    """What the lines of the log name it by."""

    place: Place | None = None
    """Of an inner call: where it is among the calls of the request from outside; None of all others."""

    stored: int = 0
    """Octets that the store has taken because of it, records of interim messages included."""

    unpaid: int = 0
    """Octets of records that its handler has made; they are charged for with the record of its answer."""

    waited: float = 0.0
    """Seconds for which its refusal was kept back because the caller asked for that: its latency counts from later."""

    # Written by the framing gate, once their syntax is known to be good.
    agent_id: str | None = None
    """The Agent-ID header, echoed byte for byte."""

    task_id: str | None = None
    session_id: str | None = None
    request_id: str | None = None
    idempotency_key: str | None = None

    # Identity.
    caller: Agent | None = None
    assurance: Assurance = Assurance.NONE
    unseen: bool = False
    """
    Whether the handler does not see the caller: it is known by a header alone, and what it calls is open to everybody
    (:mod:`agtphost.identity.required_assurance`). The record names the caller as it named itself.
    """

    nameless: bool = False
    """
    Whether gates and lists, too, take such a caller for one without a name, but where the operator opened something to
    callers known by a header: everywhere but in development.
    """

    as_named: Exchange | None = None
    """The exchange that this is one without a caller of; None for all others."""

    doubted: Refusal | None = None
    """
    Why a caller who only names an agent is refused: the agent is unknown, or stopped. The last gate of authority
    discloses this if a name is enough to call; otherwise the answer is the same for every name.
    """

    counted: bool = False
    """Whether the request was counted for its caller's rate, or for its address's."""

    operator: bool = False
    """Whether the client certificate is an operator's, and names no agent."""

    person: bool = False
    """Whether the client certificate is that of a person of ``[notify.people]``, and names no agent."""

    acting_principal: str | None = None
    """On whose behalf the caller acts, by a credential that was validated."""

    agent: Agent | None = None
    """The addressed agent."""

    agent_state: LifecycleState | None = None
    """Its lifecycle state, for the methods that reach an agent which is stopped; other methods were refused by then."""

    deprecated: LifecycleState | None = None
    """The state of an addressed agent that serves on, but will go; None of any other."""

    narrowings: tuple[GrantSet, ...] = ()
    """
    The grants that narrow the caller, and each agent of the delegation that the call runs under. Empty where none is
    narrowed; set with :attr:`caller`, before which nothing is allowed that needs a grant.
    """

    granted: Granted | None = None
    """What another agent authorized the caller to do, where the request is made under that; None: under its own."""

    scopes: frozenset[str] = frozenset()
    """Effective scopes: declared, claimed and committed, intersected."""

    # Target.
    method: str = ""
    """Canonical, after aliases and redirects."""

    path: str = "/"
    """Below the addressed agent: ``/agents/NAME`` is taken off."""

    requested_method: str | None = None
    """The wire verb, where an alias was resolved."""

    catalog_warnings: Mapping[str, str] | None = None
    """Deprecated methods of the catalog version that the request asked for; None: of the host's own."""

    binding: Binding | None = None
    admitted: Binding | None = None
    """The binding whose scopes and assurance were checked."""

    path_parameters: Mapping[str, str] = _NOTHING

    contract: Callable[[str, str], Match | None] | None = None
    """What a presented contract answers, by method and path; None where the request presents none."""

    # Body.
    media_type: str | None = None
    """The type that Content-Type names, without parameters; None where the request has none."""

    parameters: Mapping[str, Any] = _NOTHING
    """The body's ``parameters``, or the bare body."""

    parameter_text: bytes = b""
    """
    The JSON of :attr:`parameters` as it was in the body; empty where they are not from there, or something was added.
    """

    context: Mapping[str, Any] = _NOTHING
    """The envelope's ``context``."""

    input: Mapping[str, Any] = _NOTHING
    """What the handler gets: valid against the binding's input schema."""

    handler: IBindingHandler | None = None
    """The handler of this call alone: :attr:`agtphost.contract.binding.Resolution.handler`; None: the binding's."""

    beside: Mapping[str, Any] = _NOTHING
    """What the caller sends to it besides: :attr:`agtphost.contract.binding.Resolution.beside`."""

    invoked: list[str] | None = None
    """Audit-IDs of the calls that the handler made in the caller's name, in the order in which they ended."""

    # Idempotency.
    reservation: ReservationKey | None = None
    """Set once this request holds the reservation for its key."""

    approval: Release | None = None
    """The approval that lets the call pass; None where it needs none, or has none."""

    purchase: Purchase | None = None
    """A PURCHASE whose counterparty was verified, and what is proven of it."""

    replay: EndpointResponse | None = None
    """The stored answer to an earlier request with the same key."""

    opens: Callable[[], tuple[Change, ...]] | None = None
    """Returns the changes that make a new session durable, for the record of a success; None: there are none."""

    when_over: Callable[[], None] | None = None
    """Called when the call is over, or begins anew; None where nothing waits for that."""

    @property
    def is_binding_final(self) -> bool:
        """Whether :attr:`binding` is final: the body of an EXECUTE or a QUERY may name another one."""
        return self.method != "EXECUTE" and self.method != "QUERY"

    @property
    def owner(self) -> str:
        """
        The owner of the state that this request may touch: see :func:`state_owner`; empty where it names no caller.
        """
        if self.caller is None:
            return ""
        if self.peer.rights_of:
            return trial_owner(self.caller.agent_id)
        return state_owner(self.caller.agent_id, self.assurance)

    @property
    def accountable(self) -> Agent | None:
        """
        The agent that the call is recorded for and counted for: the caller, but for an operator's call with the rights
        of an agent, which is none of that agent's.
        """
        return None if self.peer.rights_of else self.caller

    @property
    def lineage(self) -> Lineage | None:
        """The delegation that the request runs under; None where its caller acts on its own."""
        return self.peer.delegation if self.granted is None else self.granted.lineage

    def without_caller(self) -> Exchange:
        """
        Return the exchange of the same request as one of a caller without a name.

        What is called in its course is noted in both: the record is made of this one.
        """
        if self.invoked is None:
            self.invoked = []
        return replace(self, caller=None, assurance=Assurance.NONE, scopes=frozenset(), narrowings=(), as_named=self)

    @property
    def for_lists(self) -> Exchange:
        """The exchange for whose caller lists are made: as the caller named itself."""
        return self.as_named or self

    def restart(self, now: float) -> None:
        """
        Forget all that the gates have found: they look at the same request once more.

        :param now: seconds since the epoch.
        """
        if self.when_over is not None:
            self.when_over()
        fresh = Exchange(self.request, self.peer, now, self.call, self.place, self.stored)
        for each in fields(fresh):
            setattr(self, each.name, getattr(fresh, each.name))
