"""What a handler author receives, returns and raises: interface.md section 4."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from agtphost.audit.drafts import Change, StreamEvent
from agtphost.identity.peer import Assurance, Peer, state_owner

if TYPE_CHECKING:
    from agtphost.contract.binding import Binding
    from agtphost.identity.agents import Agent


LAST_WORD = 0.02
"""Seconds before a call's deadline when an upstream's time is over, so that its caller is told whose fault it was."""


@dataclass(slots=True, kw_only=True, eq=False)
class EndpointContext:
    """
    One call, after every gate: what a handler may rely on.

    Made for every request, and therefore not frozen: that would take three
    times as long. Nobody reads it again once the handler has it.
    """

    input: Mapping[str, Any]
    """Body, query and path parameters merged, valid against the input schema."""

    method: str
    path: str
    """The path as requested."""

    path_parameters: Mapping[str, str] = field(default_factory=dict)
    """Percent-decoded values of the ``{name}`` segments."""

    caller: Agent | None = None
    """The calling agent; None for an anonymous call."""

    named: bool = False
    """Whether the request itself carried Agent-ID; a caller may also be known by its certificate alone."""

    assurance: Assurance = Assurance.NONE
    """How the caller's identity was established."""

    acting_principal: str | None = None
    """On whose behalf the caller acts: the lifted claim of a credential that was validated (core v08 section 8.6)."""

    scopes: frozenset[str] = frozenset()
    """What the caller may do here and now: declared, committed and claimed, intersected."""

    agent: Agent | None = None
    """The addressed (responding) agent; None for a server-level call."""

    session_id: str | None = None
    task_id: str | None = None
    request_id: str | None = None
    idempotency_key: str | None = None
    """The caller's, where it sent one; unique for that caller alone."""

    deadline: float = 0.0
    """Reactor time by which the call ends with 408."""

    headers: Any = None
    """The request's header fields, for built-in methods whose parameters are there."""

    peer: Peer | None = None
    """The connection's other end; built-in methods decide by its certificate."""

    admits: Callable[[Binding], bool] = None  # type: ignore[assignment]
    """Whether the gates would let this caller call that binding: what lists are filtered by (design decision 14)."""

    authority: Callable[[], tuple[Any, ...]] = None  # type: ignore[assignment]
    """What decides :attr:`admits`, as a key: lists made for it hold for everybody with the same."""

    emit: Callable[[Mapping[str, Any]], Awaitable[None]] = None  # type: ignore[assignment]
    """``await context.emit(event)`` sends an interim message, if the caller asked for a stream."""

    invoke: Callable[[str, str, Mapping[str, Any]], Awaitable[Mapping[str, Any]]] = None  # type: ignore[assignment]
    """``await context.invoke(method, path, input)`` calls another endpoint as the same caller."""

    invocation: Any = None
    """The :class:`~agtphost.dispatch.invocation.Invocation` behind ``emit`` and ``invoke``: for built-in methods."""

    @property
    def owner(self) -> str:
        """
        Whose state the call may touch; empty where it has no caller.

        The caller's Agent-ID where a certificate proved it, else a name apart from it: whoever keeps something for
        callers keeps it under this, and never under the Agent-ID (:func:`~agtphost.identity.peer.state_owner`).
        """
        return "" if self.caller is None else state_owner(self.caller.agent_id, self.assurance)


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointResponse:
    """A handler's answer where a plain mapping does not say enough."""

    result: Any = None
    """The ``result`` member of the response body, or the whole body where ``enveloped`` is False."""

    status: int = 200
    enveloped: bool = True
    """False: ``result`` is the body itself, as discovery documents are."""

    content_type: str = ""
    """Empty: the request's carried type, or ``application/vnd.agtp+json``."""

    headers: tuple[tuple[str, str], ...] = ()
    """Further response header fields."""

    changes: tuple[Change, ...] = ()
    """Held items that change in the transaction of this answer's record: see :mod:`agtphost.audit.held`."""

    events: tuple[StreamEvent, ...] = ()
    """Signed events committed just before that record."""

    extra: Mapping[str, Any] = field(default_factory=dict)
    """Further members of the record: extension fields such as ``negotiation_id``."""

    beside: Mapping[str, Any] = field(default_factory=dict)
    """Further members of the response body, beside ``result``."""

    body: bytes | None = None
    """Ready octets to send instead of ``result``: documents that are served as received."""


class EndpointError(Exception):
    """
    An error that the endpoint declares, answered 422 (AGTP-API section 6.4).

    May be raised or returned.

    :param name: one of the endpoint's ``errors``.
    :param details: further members of the response body.
    """

    def __init__(self, name: str, details: Mapping[str, Any] | None = None) -> None:
        super().__init__(name)
        self.name = name
        self.details: Mapping[str, Any] = details or {}
