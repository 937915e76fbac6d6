"""Build the rest of the floor methods: QUERY, SUMMARIZE, PLAN, ESCALATE, CONFIRM, SUSPEND, NOTIFY and RESUME."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from agtphost.audit.lifecycle import LifecycleState
from agtphost.audit.state import StateTable
from agtphost.contract.binding import Binding
from agtphost.dispatch.approvals import Approvals
from agtphost.dispatch.gates.session import SessionGate
from agtphost.dispatch.sessions import SessionRegistry, Suspensions
from agtphost.handlers.authorization import Authorization
from agtphost.handlers.built_in import Answer, BuiltInContext, IBuiltInHandler
from agtphost.iagtp import IAgentDirectory, IGate, IPayloadAdapter, IRecordStore
from agtphost.identity.agents import Agent
from agtphost.identity.peer import Assurance
from agtphost.identity.required_assurance import default_assurance
from agtphost.methods.cognitive.documents import Library
from agtphost.methods.cognitive.plan import Planning
from agtphost.methods.cognitive.query import Corpus, Query
from agtphost.methods.cognitive.summary import Summary
from agtphost.methods.continuation import Continuations
from agtphost.methods.discovery.visibility import Visibility
from agtphost.methods.oversight.approvals import ApprovalDecisions
from agtphost.methods.oversight.confirmation import Confirmation
from agtphost.methods.oversight.escalation import Escalation
from agtphost.methods.oversight.notification import Notification
from agtphost.methods.oversight.suspension import Release, Suspension, Workflows
from agtphost.vocabulary.catalog import Catalog
from agtphost.vocabulary.own_address import NOWHERE, OwnAddress
from agtphost.vocabulary.steps import Executor


@dataclass(frozen=True, kw_only=True)
class Floor:
    """The bindings of the floor methods, and the gate that holds suspended sessions."""

    bindings: tuple[Binding, ...]
    gate: IGate
    notification: Notification
    confirmation: Confirmation
    sessions: SessionRegistry
    suspensions: Suspensions


def floor_methods(
    catalog: Catalog,
    *,
    directory: IAgentDirectory,
    held: StateTable,
    records: IRecordStore,
    listed: Callable[[], Iterable[Binding]],
    adapters: Sequence[IPayloadAdapter],
    endpoints: Iterable[Binding],
    library: Library,
    offload: Executor,
    visibility: Visibility,
    authorization: Authorization,
    approvals: Approvals,
    states: Callable[[Agent], LifecycleState],
    assurance: Assurance = Assurance.CERTIFICATE,
    release: Release | None = None,
    continuations: Continuations | None = None,
    hosts: Collection[str] = (),
    address: OwnAddress = NOWHERE,
    now: Callable[[], float] = time.time,
    sessions: SessionRegistry,
    suspensions: Suspensions,
    workflows: Workflows = lambda context, workflow_id: None,
    cancel: Callable[[BuiltInContext], Answer | None] = lambda context: None,
) -> Floor:
    """
    Build the methods.

    :param listed: returns everything that can be called; asked at every call.
    :param endpoints: the operator's; one on ``/`` replaces QUERY, SUMMARIZE or PLAN.
    :param offload: calls a function off the reactor; ``authorization`` decides who acts for people.
    :param approvals: calls that wait for a person; ``visibility``: which hosted agents a caller may see.
    :param states: returns an agent's present lifecycle state; ``assurance``: the least of callers that change state.
    :param continuations: makes the cursors of long lists; ``address``: the names and the port of the host's own URIs.
    :param hosts: Agent-IDs by which other hosts notify the operator of lifecycles and certificates.
    :param sessions: all; ``suspensions``: which are suspended; ``release`` answers SUSPEND with ``synthesis_id``.
    :param workflows: resumes what is neither session nor task; ``cancel`` answers a NOTIFY that ends a subscription.
    """
    corpus = Corpus(directory, listed, adapters, library, visibility, offload)
    escalation = Escalation(held, directory, authorization, offload, states, now, continuations, address)
    suspension = Suspension(held, sessions, suspensions, release, now, workflows)
    notices = Notification(
        held, directory, authorization, listed, offload, states, now, continuations, hosts, cancel, address
    )
    pages = continuations or Continuations(now=now)
    decisions = ApprovalDecisions(held, approvals, authorization, pages, offload, directory)
    confirmation = Confirmation(held, records, authorization, decisions, now)

    def read(method: str, path: str, handler: IBuiltInHandler, least: Assurance) -> Binding:
        return _binding(catalog, method, path, handler, least, changes=False)

    def change(method: str, handler: IBuiltInHandler, least: Assurance = assurance) -> Binding:
        return _binding(catalog, method, "/", handler, least, changes=True)

    taken = {(binding.method, binding.path) for binding in endpoints}
    cognitive = (
        read("QUERY", "/", Query(corpus), default_assurance(assurance, changes=False)),
        read("SUMMARIZE", "/", Summary(library, offload, address), default_assurance(assurance, changes=False)),
        read("PLAN", "/", Planning(corpus), default_assurance(assurance, changes=False)),
    )
    return Floor(
        bindings=(
            *(binding for binding in cognitive if (binding.method, binding.path) not in taken),
            change("ESCALATE", escalation),
            # Operators and registrars are not agents: the handlers decide who reads and confirms.
            read("QUERY", "/escalations", escalation, Assurance.NONE),
            read("QUERY", "/approvals", decisions, Assurance.NONE),
            replace(change("CONFIRM", confirmation, Assurance.NONE), vital=True),
            change("SUSPEND", suspension),
            change("RESUME", suspension),
            change("NOTIFY", notices),
            read("QUERY", "/notifications", notices, Assurance.NONE),
        ),
        gate=SessionGate(sessions, suspensions),
        notification=notices,
        confirmation=confirmation,
        sessions=sessions,
        suspensions=suspensions,
    )


_STATEMENTS = {
    ("QUERY", "/escalations"): "Escalations of the calling agent, and those that the caller may decide.",
    (
        "QUERY",
        "/approvals",
    ): "Calls of the calling agent that wait for a person, and those to approve.",
    ("QUERY", "/notifications"): "Messages to the calling agent that it has not confirmed yet.",
}


def _binding(
    catalog: Catalog, method: str, path: str, handler: IBuiltInHandler, least: Assurance, *, changes: bool
) -> Binding:
    statement = _STATEMENTS.get((method, path)) or catalog.statement(method)
    binding = Binding.native(method, path, handler, statement, least, changes=changes)
    return replace(binding, idempotent=True) if method in ("ESCALATE", "CONFIRM") else binding
