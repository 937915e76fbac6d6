"""
What the host's own methods receive and return: more than an operator's code does.

Built-in methods and payload adapters read header fields and certificates,
change held state, and write further members into records. An operator's
function, handler or recipe gets none of this, and an answer of it that has
some is refused (:func:`require_plain_answer`).
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from zope.interface import Attribute

from agtphost.contract.binding import IBindingHandler
from agtphost.errors import Refusal
from agtphost.handlers.context import EndpointContext, EndpointResponse
from agtphost.handlers.interface import IHandler
from agtphost.identity.peer import Peer, state_owner, trial_owner
from agtphost.vocabulary.given_values import copy_given

if TYPE_CHECKING:
    from agtphost.audit.drafts import Change, StreamEvent


@dataclass(slots=True, kw_only=True, eq=False)
class BuiltInContext(EndpointContext):
    """A call, as a built-in method sees it."""

    named: bool = False
    """Whether the request itself carried Agent-ID; a caller may also be known by its certificate alone."""

    headers: Any = None
    """The request's header fields, for methods whose parameters are there."""

    peer: Peer | None = None
    """The connection's other end; operators and registrars are known by its certificate."""

    admits: Callable[[Any], bool] = None  # type: ignore[assignment]
    """Whether the gates would let this caller call a Binding: what lists are filtered by (design decision 14)."""

    authority: Callable[[], tuple[Any, ...]] = None  # type: ignore[assignment]
    """What decides :attr:`admits`, as a key: lists made for it hold for everybody with the same."""

    invocation: Any = None
    """The :class:`~agtphost.dispatch.invocation.Invocation` behind ``emit`` and ``invoke``."""

    @property
    def owner(self) -> str:
        """
        Return the owner of the state that the call may use; empty where it has no caller.

        The caller's Agent-ID if a certificate proved it, otherwise a separate name. State of callers is always kept
        under this name, and never under the Agent-ID (:func:`~agtphost.identity.peer.state_owner`).
        """
        if self.caller is None:
            return ""
        if self.peer is not None and self.peer.rights_of:
            return trial_owner(self.caller.agent_id)
        return state_owner(self.caller.agent_id, self.assurance)

    def narrow(self) -> EndpointContext:
        """Return the context of the same call for the operator's code, for a built-in that calls such code."""
        return EndpointContext(
            input=copy_given(self.input),
            method=self.method,
            path=self.path,
            path_parameters=copy_given(self.path_parameters),
            caller=self.caller,
            assurance=self.assurance,
            acting_principal=self.acting_principal,
            scopes=self.scopes,
            agent=self.agent,
            session_id=self.session_id,
            task_id=self.task_id,
            request_id=self.request_id,
            idempotency_key=self.idempotency_key,
            forwarded=copy_given(self.forwarded),
            deadline=self.deadline,
            emit=self.emit,
            invoke=self.invoke,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer(EndpointResponse):
    """A built-in's answer: with what changes, and what its record says besides."""

    enveloped: bool = True
    """False: ``result`` is the body itself, as discovery documents are."""

    changes: tuple[Change, ...] = ()
    """State items that change in the transaction of this answer's record: see :mod:`agtphost.audit.state`."""

    events: tuple[StreamEvent, ...] = ()
    """Signed events committed just before that record."""

    extra: Mapping[str, Any] = field(default_factory=dict)
    """Further members of the record: extension fields such as ``negotiation_id``."""

    beside: Mapping[str, Any] = field(default_factory=dict)
    """Further members of the response body, next to ``result``."""

    encoded: bytes = b""
    """
    The JSON of ``result``, where it came as JSON that was decoded by :mod:`agtphost.vocabulary.jsontext`; it is sent as
    it is.
    """

    conflict: Callable[[], Refusal | None] | None = None
    """
    Returns the refusal if another request changed one of the items first, from what they are then; None: the usual
    one.
    """


Target = Callable[[BuiltInContext], Awaitable[Mapping[str, Any] | Answer]]
"""Answers INSPECT for one value of ``target``; it decides who may read it, and raises a Refusal for others."""


class IBuiltInHandler(IBindingHandler):
    """The handler of a binding of the host itself, or of a feature."""

    kind = Attribute("str: built_in, or the adapter's name")

    def handle(context: BuiltInContext) -> Any:
        """
        Do the work.

        :return: an Answer or EndpointResponse, a mapping (the result), or an awaitable of either.
        :raises agtphost.errors.Refusal: for any other specified status.
        """


HOST_FIELDS = frozenset(
    {
        "agent-id",
        "attribution-record",
        "audit-id",
        "audit-summary",
        "content-length",
        "content-type",
        "continuation-token",
        "owner-id",
        "request-id",
        "response-id",
        "server-id",
        "supported-methods",
        "task-id",
        "trust-tier",
        "trust-warning",
        "verification-path",
    }
)
"""Header fields of a response that the host alone writes: they say whose answer it is, and how that is proven."""


class Overstepped(Exception):
    """An operator's code answered with what is the host's to say; the message tells its author."""


def require_plain_answer(answer: Any) -> Any:
    """
    Check that the answer of an operator's code is only an answer, and return it.

    :raises Overstepped: it would change held state, or write members of the record or the host's header fields.
    """
    if isinstance(answer, EndpointResponse):
        if isinstance(answer, Answer):
            raise Overstepped(f"it returned {type(answer).__name__}, which is for built-ins: return EndpointResponse")
        for name, _ in answer.headers:
            if name.lower() in HOST_FIELDS:
                raise Overstepped(f"it returned the header field {name}, which the host itself writes")
    return answer


def require_plain_refusal(refusal: Refusal) -> None:
    """
    Check that a refusal that an operator's code raised is only a refusal.

    :raises Overstepped: as for :func:`require_plain_answer`.
    """
    if refusal.changes or refusal.extra or refusal.cause or refusal.cure:
        raise Overstepped("it raised a Refusal with changes, extra or cause, which are for built-ins")
    for name, _ in refusal.headers:
        if name.lower() in HOST_FIELDS:
            raise Overstepped(f"it raised a Refusal with the header field {name}, which the host itself writes")


async def ask_handler(handler: IHandler, context: BuiltInContext) -> Any:
    """
    Have an operator's handler answer a built-in method, as it would answer a call.

    :raises Overstepped: see :func:`require_plain_answer` and :func:`require_plain_refusal`.
    """
    try:
        answer = handler.handle(context.narrow())
        return require_plain_answer(await answer if inspect.isawaitable(answer) else answer)
    except Refusal as refusal:
        require_plain_refusal(refusal)
        raise
