"""
The call that a line of the log belongs to.

The dispatcher sets the call for everything that runs in its course: gates, handlers, and what they await. The Audit-ID
of a call is the hash of its record, and so is known only once it is sealed: what is logged before waits for it, unless
that takes too long (:mod:`agtphost.logs.call_events`).
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import TYPE_CHECKING

from agtphost.handlers.tracing import Attributes, CallTrace, ClientSpan
from agtphost.vocabulary.display_names import UNPROVEN

if TYPE_CHECKING:
    from agtphost.contract.binding import Binding


class Call:
    """A call that is in the dispatcher."""

    __slots__ = (
        "agent_id",
        "audit_id",
        "bound",
        "caller",
        "early",
        "held",
        "operator",
        "proven",
        "response_id",
        "task_id",
        "trace",
        "trial",
    )

    def __init__(self) -> None:
        self.response_id = ""
        """Given when it is first needed; the response carries it too."""

        self.agent_id = ""
        """The caller's, or the one that the request claims."""

        self.caller = ""
        """Its label; empty while it is not known to be an agent's."""

        self.proven = False
        """Whether something proved that this agent makes the call: not its Agent-ID header alone."""

        self.operator = ""
        """The name of the operator who calls as no agent; empty where none does."""

        self.trial = ""
        """The label of the agent with whose rights an operator tries a tool; empty for all other calls."""

        self.bound: Binding | None = None
        """What is called, once that is known."""

        self.task_id = ""
        self.audit_id = ""
        """Empty until the record is made."""

        self.held: list[Callable[[], None]] | None = None
        """Writes what was logged and waits for the Audit-ID."""

        self.early = False
        """Whether something was written before the Audit-ID was known."""

        self.trace: CallTrace | None = None
        """Its span; None where nothing is traced."""

    def let_go(self) -> None:
        """Write what waits."""
        held, self.held = self.held, None
        for write in held or ():
            write()

    @property
    def text(self) -> str:
        """Return the text that the call's lines in the log end with."""
        caller = f"{self.caller} ({UNPROVEN})" if self.caller and not self.proven else self.caller
        who = caller or (f"the operator {self.operator}" if self.operator else "an unnamed caller")
        if self.trial:
            who = f"{who if self.operator else 'an operator'}, with the rights of {self.trial},"
        called = "" if self.bound is None else f"{who} called {self.bound.display_name}"
        named = (
            ("Audit-ID", self.audit_id),
            ("Response-ID", self.response_id),
            ("Agent-ID", self.agent_id),
            ("Task-ID", self.task_id),
        )
        identifiers = (f"{name} {value}" for name, value in named if value)
        return ", ".join(((called,) if called else ()) + tuple(identifiers))


CALL: ContextVar[Call | None] = ContextVar("agtphost-call", default=None)
"""The call in whose course this runs; None outside any."""


def is_traced() -> bool:
    """Return whether the present call has a trace; without one, data for spans need not be gathered."""
    call = CALL.get()
    return call is not None and call.trace is not None


def client_span(name: str, attributes: Attributes) -> ClientSpan | None:
    """
    Begin a span for a request to an upstream that is about to be sent in the course of the present call.

    :param name: which kind of request; one of few.
    :return: None where the call has no trace.
    """
    call = CALL.get()
    if call is None or call.trace is None:
        return None
    return call.trace.client(name, attributes)
