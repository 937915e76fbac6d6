"""
What a handler author receives, returns and raises: ``docs/extending/handler.rst``.

This is all that an operator's function sees of the host, and all that it may
rely on. Built-in methods see more: :mod:`agtphost.handlers.built_in`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from agtphost.identity.peer import Assurance

if TYPE_CHECKING:
    from agtphost.identity.agents import Agent


LAST_WORD = 0.02
"""Seconds before a call's deadline at which an upstream's time is over, so that the error can name the upstream."""


@dataclass(slots=True, kw_only=True, eq=False)
class EndpointContext:
    """
    A call that has passed every gate, with all that a handler may rely on.

    Made for every request, and therefore not frozen: that would take three times as long. The host does not read it
    again once the handler has it.
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

    forwarded: Mapping[str, str] = field(default_factory=dict)
    """Header fields of a call over HTTP, by name in lower case: those of ``[gateway] forward``, and no others."""

    deadline: float = 0.0
    """Reactor time by which the call ends with 408."""

    emit: Callable[[Mapping[str, Any]], Awaitable[None]] = None  # type: ignore[assignment]
    """``await context.emit(event)`` sends an interim message, if the caller asked for a stream."""

    invoke: Callable[[str, str, Mapping[str, Any]], Awaitable[Mapping[str, Any]]] = None  # type: ignore[assignment]
    """``await context.invoke(method, path, input)`` calls another endpoint as the same caller."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointResponse:
    """A handler's answer where a plain mapping does not say enough."""

    result: Any = None
    """The ``result`` member of the response body."""

    status: int = 200
    content_type: str = ""
    """Empty: the request's carried type, or ``application/vnd.agtp+json``."""

    headers: tuple[tuple[str, str], ...] = ()
    """Further response header fields, such as ``Retry-After``; none of those that the host itself writes."""

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
