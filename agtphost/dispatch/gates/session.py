"""The gate of sessions and tasks: each is its agent's own, and a stopped one does no work."""

from __future__ import annotations

from functools import partial

from zope.interface import implementer

from agtphost.dispatch.exchange import Exchange
from agtphost.dispatch.interfaces import IGate
from agtphost.dispatch.sessions import SessionRegistry, Suspensions
from agtphost.errors import Refusal
from agtphost.vocabulary.reasons import Reason

WORK = frozenset({"EXECUTE", "DELEGATE"})
"""Built-in methods that a stopped session or task may not call; what reads or resolves stays open to it."""


@implementer(IGate)
class SessionGate:
    """
    Checks that a session belongs to the caller, and that neither it nor the task is suspended (core v08 sections
    7.2.10, 7.2.12).

    The owner depends on the caller's assurance: see :mod:`agtphost.dispatch.sessions`.
    """

    name = "session"

    def __init__(self, sessions: SessionRegistry, suspensions: Suspensions) -> None:
        self._sessions = sessions
        self._suspensions = suspensions

    def check(self, exchange: Exchange) -> None:
        session_id, caller = exchange.session_id, exchange.caller
        if caller is None or (session_id is None and exchange.task_id is None):
            return
        if session_id is not None:
            certificate = exchange.peer.certificate
            identity = "" if certificate is None else certificate.fingerprint or certificate.sha256
            table = self._sessions.tables[exchange.assurance]
            session = table.note(session_id, caller.agent_id, identity)
            if session is None:
                if self._sessions.has_ended(session_id, caller.agent_id, exchange.assurance):
                    raise _session_ended()
                raise Refusal(Reason.SESSION_BINDING_MISMATCH)
            if session.needs_item:
                exchange.opens = partial(self._sessions.changes, session)
        binding = exchange.binding
        if self._suspensions and (binding is None or binding.tier != "A" or exchange.method in WORK):
            self._suspensions.refuse(exchange.owner, session_id, exchange.task_id)


def _session_ended() -> Refusal:
    return Refusal(Reason.SESSION_ENDED)
