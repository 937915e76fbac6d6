"""
Delegated tasks that go on after their DELEGATE was answered 202 (core v08 sections 5.6 and 7.2.9).

Theory of operation. A task is a state item from the moment on that its hop is
accepted. Its outcome is committed together with the notification that
tells of it, so its delegator, or the agent named as callback, either finds the
outcome in its inbox or the task still running. A host that dies in between
does not know how far the task had come: at its next start every task that was
running is marked as failed, with a signed event, and is never begun again.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from twisted.internet.defer import CancelledError, Deferred, DeferredList
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from agtphost.audit.drafts import HOST_CHAIN, Change, Draft, LedgerUnavailable, StaleChange, StreamEvent
from agtphost.audit.state import StateItem, StateTable
from agtphost.dispatch.gates.identity import StoppedAgent
from agtphost.dispatch.invocation import Invocation
from agtphost.errors import Refusal, not_found
from agtphost.handlers import parameters
from agtphost.handlers.authorization import Authorization
from agtphost.handlers.built_in import Answer, BuiltInContext, IBuiltInHandler
from agtphost.handlers.operators import OperatorAction
from agtphost.iagtp import IAgentDirectory, ILedger
from agtphost.identity.agents import Agent
from agtphost.identity.delegation import Lineage
from agtphost.methods.continuation import Continuations
from agtphost.methods.delegation.decision import Hop
from agtphost.methods.delegation.execution import Done, shown_hop
from agtphost.methods.oversight import notification
from agtphost.upstream.queue import CallQueue
from agtphost.vocabulary import jsontext, times
from agtphost.vocabulary.identifiers import is_agent_id, is_agent_name
from agtphost.vocabulary.quotas import ITEM_KINDS
from agtphost.vocabulary.reasons import Reason
from agtphost.vocabulary.status import Status

TASK = "delegated-task"
"""The kind of state item, and the INSPECT target."""

PATH = "/delegations"
RUNNING, FINISHED, FAILED = "running", "finished", "failed"
STATES = (RUNNING, FINISHED, FAILED)

INBOX = "inbox"
"""The callback value that names the delegator's own inbox."""

MOST_RUNNING = 16
"""Tasks of one delegator at a time, those that wait for their turn too."""

AT_WORK = 32
"""Tasks of all delegators whose calls are made at the same time."""

AT_WORK_OF_ONE = 4
"""Of them, of one delegator: what it leaves to be done is done behind what others ask now."""

MOST_KEPT = ITEM_KINDS[TASK].per_owner
"""Tasks of one delegator, running and ended; beyond, the one that ended first is forgotten."""

KEPT = 86_400
"""Seconds that what a task came to is kept."""

LONGEST_RESULT = 65_536
"""Octets of a result that is kept; a longer one is in the answers of the task's own calls alone."""

TOPIC = "delegation-outcome"
INTERRUPTED = "delegation-interrupted"
"""The signed event of a task that the host did not live to see the end of."""

SAID = "Only operators see the tasks of all agents; a registrar sees those of the agents that it issued."

RETRY_SECONDS = 2.0
"""Until an outcome is committed again, where the store would not take it."""

log = Logger()


@dataclass(frozen=True, kw_only=True)
class Ticket:
    """A task that may begin."""

    key: str
    value: Mapping[str, Any]
    owner: str
    changes: tuple[Change, ...]
    """To be committed with the hop."""


class AsynchronousTasks:
    """
    Runs delegated tasks in the background, and stores their outcomes.

    :param ledger: marks what an earlier process left running.
    :param clock: for another try at committing an outcome.
    :param turns: queue of running tasks, by delegator; None: no task waits.
    :param now: seconds since the epoch.
    """

    def __init__(
        self,
        held: StateTable,
        directory: IAgentDirectory,
        ledger: ILedger,
        clock: IReactorTime,
        turns: CallQueue | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.turns = turns
        self._held = held
        self._directory = directory
        self._ledger = ledger
        self._clock = clock
        self._now = now
        self._running: dict[str, Deferred[None]] = {}
        self._working: dict[str, Deferred[Done]] = {}
        self._stopping = False
        self._process = os.urandom(8).hex()

    # Beginning

    def admit(self, hop: Hop, token_hash: str, task_id: str, lineage: Lineage) -> Ticket:
        """
        Check everything that must be true before the hop is committed.

        :raises Refusal: 422 for a callback that is not an agent, 429 for too many tasks, 503 while the host stops.
        """
        recipient = self.recipient(hop)
        owner = hop.delegator.agent_id
        own = self._held.items_of(TASK, owner)
        running = sum(1 for item in own if item.brief["state"] == RUNNING)
        if running >= MOST_RUNNING:
            raise _full()
        if self._stopping:
            raise Refusal(Reason.HOST_STOPPING, headers=(("Retry-After", "30"),))
        value = {
            "delegation_id": f"dlg-{token_hash[:32]}",
            "task_id": task_id,
            "state": RUNNING,
            "process": self._process,
            "delegator": owner,
            "delegatee": hop.target.agent_id,
            "authority_scope": sorted(lineage.scope),
            "chain": list(lineage.chain),
            "callback": recipient,
            "accepted_at": times.stamp(self._now()),
        }
        key = str(value["delegation_id"])
        begun = Change(kind=TASK, key=key, value=value, owner=owner, expected=0)
        return Ticket(key=key, value=value, owner=owner, changes=(begun,))

    def notice(self, hop: Hop, recipient: str, lineage: Lineage, task_id: str, done: Done) -> Change | None:
        """
        Return the notification to the callback of a task that was answered directly; None where its inbox is full.
        """
        content: dict[str, Any] = {
            "task_id": task_id,
            "state": FINISHED,
            "delegatee": hop.target.agent_id,
            "accepted_audit_id": lineage.audit_id,
        }
        outcome = {name: done.result[name] for name in ("result", "results") if name in done.result}
        if len(jsontext.encode({**content, **outcome})) <= notification.CONTENT:
            content.update(outcome)
        else:
            content["omitted"] = "the delegator has the answer"
        owner = hop.delegator.agent_id
        return notification.deposit(
            self._held, recipient=recipient, sender=owner, topic=TOPIC, content=content, now=self._now()
        )

    def recipient(self, hop: Hop) -> str:
        """
        Return the Agent-ID whose inbox gets the outcome.

        :raises Refusal: 422 for a callback that is not an agent.
        """
        named = hop.asked.callback
        if named is None or named == INBOX:
            return hop.delegator.agent_id
        agent: Agent | None = None
        if is_agent_id(named):
            agent = self._directory.by_id(named)
        elif is_agent_name(named):
            agent = self._directory.by_name(named)
        if agent is None:
            raise parameters.invalid(
                "callback",
                "callback must be an agent of this host; outcomes go to its inbox, not to an address.",
                "Send inbox, an Agent-ID, the name of a hosted agent, or its agtp: URI.",
            )
        return agent.agent_id

    def begin(
        self, ticket: Ticket, hop: Hop, lineage: Lineage, invocation: Invocation, work: Coroutine[Any, Any, Done]
    ) -> Answer:
        """Start the task, now that it and its hop are durable, and say so."""
        working = self._working[ticket.key] = Deferred.fromCoroutine(work)
        carrying = Deferred.fromCoroutine(self._carry(ticket, lineage, invocation, working))
        if not carrying.called:
            # Its calls are judged as DELEGATE was, even if the configuration changes before.
            under_way = invocation.under_way
            under_way.hold()
            self._running[ticket.key] = carrying
            carrying.addBoth(self._finish_task, ticket.key)
            carrying.addBoth(lambda _: under_way.let_go())
        shown = {**shown_hop(hop, lineage), **{name: ticket.value[name] for name in ("delegation_id", "callback")}}
        return Answer(
            status=Status.ACCEPTED,
            result={**shown, "task_id": ticket.value["task_id"], "state": RUNNING},
            extra={"delegation": {**hop.record_members(), "delegation_id": ticket.key, "accepted": lineage.audit_id}},
        )

    # Ending

    def _finish_task(self, outcome: object, key: str) -> None:
        del self._running[key]
        if isinstance(outcome, Failure):
            log.failure(
                "the outcome of {key} could not be recorded; the next start records it", failure=outcome, key=key
            )

    async def _carry(self, ticket: Ticket, lineage: Lineage, invocation: Invocation, working: Deferred[Done]) -> None:
        outcome: dict[str, Any]
        try:
            done = await working
            outcome = {"state": FINISHED, "result": dict(done.result)}
        except Refusal as refusal:
            outcome = {"state": FAILED, "error": _error(refusal)}
        except CancelledError:
            outcome = {"state": FAILED, "error": _interruption_error("host-stopped", "The host was stopped.")}
        except Exception:
            log.failure("the delegated task {key} failed", key=ticket.key)
            error = {"status": int(Status.SERVER_ERROR), "reason": "server-error", "explanation": "The host failed."}
            outcome = {"state": FAILED, "error": error}
        del self._working[ticket.key]
        if len(jsontext.encode(outcome.get("result"))) > LONGEST_RESULT:
            outcome["result"] = {**_without_results(outcome["result"]), "omitted": "longer than is kept"}
        ended = {**ticket.value, **outcome, "ended_at": times.stamp(self._now())}
        ended["accepted_audit_id"] = lineage.audit_id
        while not await self._commit_outcome(ended, ticket.owner, lineage, invocation) and not self._stopping:
            await _pause(self._clock, RETRY_SECONDS)

    async def _commit_outcome(
        self, ended: Mapping[str, Any], owner: str, lineage: Lineage, invocation: Invocation
    ) -> bool:
        changes, said = self._outcome_changes(ended, owner, lineage)
        try:
            event = {"type": "delegation-ended", "state": ended["state"]}
            try:
                await invocation.commit(event, changes, said, answered=True)
            except StoppedAgent as stopped:
                # The outcome could not be delivered to the delegator: that, too, has to be on record.
                failed = {**ended, "state": FAILED, "error": _error(stopped)}
                failed.pop("result", None)
                changes, said = self._outcome_changes(failed, owner, lineage)
                await invocation.withdraw(stopped, changes, said)
        except Refusal as refusal:
            # Nothing of it is true yet. A host that ends before it is marks the task at its next start.
            log.warn("the outcome of {key} waits: {why}", key=ended["delegation_id"], why=refusal.explanation)
            return False
        return True

    def _outcome_changes(
        self, ended: Mapping[str, Any], owner: str, lineage: Lineage
    ) -> tuple[tuple[Change, ...], dict[str, object]]:
        """Return the state changes at the end of a task, and the members of its record."""
        changes, delivery = self._ending(ended, owner)
        said = {**lineage.members(), "delegation_id": ended["delegation_id"], "state": ended["state"], **delivery}
        if "error" in ended:
            said["error"] = {name: ended["error"].get(name, "") for name in ("status", "reason", "audit_id")}
        return changes, {"delegation": said}

    def _ending(self, ended: Mapping[str, Any], owner: str) -> tuple[tuple[Change, ...], dict[str, object]]:
        """Return the changes that store a task's result and notify about it, and the delivery for the record."""
        names = ("delegation_id", "task_id", "state", "delegatee", "ended_at", "result", "error", "accepted_audit_id")
        content = {name: ended[name] for name in names if name in ended}
        if len(jsontext.encode(content)) > notification.CONTENT:
            content = {name: value for name, value in content.items() if name not in ("result", "error")}
            content["omitted"] = f"INSPECT with target {TASK} has the rest"
        told = notification.deposit(
            self._held, recipient=ended["callback"], sender=owner, topic=TOPIC, content=content, now=self._now()
        )
        delivery = {"delivered": told is not None, **({} if told is None else {"notification_id": told.key})}
        if told is None:
            delivery["reason"] = "inbox-full"
        kept = Change(
            kind=TASK,
            key=ended["delegation_id"],
            value={**ended, "delivery": delivery},
            owner=owner,
            expires_at=int((self._now() + KEPT) * 1000),
        )
        return ((kept,) if told is None else (kept, told)), {"callback": ended["callback"], **delivery}

    # The process

    def start(self) -> None:
        """Start marking tasks that an earlier process left running, as soon as the ledger reports them."""
        self._held.watch(TASK, self._note_task)

    def _note_task(self, key: str, item: StateItem | None) -> None:
        if item is not None and self._is_left_over(item):
            # Not within the commit that tells of it.
            self._clock.callLater(0, self._mark, key)

    def _is_left_over(self, item: StateItem) -> bool:
        return bool(item.brief["state"] == RUNNING and item.brief["process"] != self._process)

    def _mark(self, key: str) -> None:
        item = self._held.get(TASK, key)
        if item is None or not self._is_left_over(item) or self._stopping:
            return
        why = "The host stopped while the task ran; whether the task took effect is unknown."
        ended = {
            **item.value,
            "state": FAILED,
            "error": _interruption_error("host-restarted", why),
            "ended_at": times.stamp(self._now()),
        }
        changes, delivery = self._ending(ended, item.owner)
        names = ("delegation_id", "task_id", "delegator", "delegatee", "chain")
        event = StreamEvent(
            chain=HOST_CHAIN,
            event_type=INTERRUPTED,
            fields={**{name: item.value[name] for name in names}, **delivery},
        )
        draft = Draft(chain=HOST_CHAIN, payload={}, changes=changes, events=(event,), performed=True)
        Deferred.fromCoroutine(self._submit_mark(draft, key))

    async def _submit_mark(self, draft: Draft, key: str) -> None:
        try:
            await self._ledger.submit(draft)
        except (LedgerUnavailable, StaleChange) as error:
            log.error("{key} could not be marked as interrupted: {why}", key=key, why=str(error))
            self._clock.callLater(RETRY_SECONDS, self._mark, key)

    async def stop(self, seconds: float) -> None:
        """Let what runs end, then end it, and wait until all of it is on record."""
        self._stopping = True
        if not self._running:
            return
        late = self._clock.callLater(seconds, self._end)
        await DeferredList(list(self._running.values()))
        if late.active():
            late.cancel()

    def _end(self) -> None:
        # The latest first: who waits for a turn of the same delegator is never begun by the end of another.
        for working in reversed(tuple(self._working.values())):
            working.cancel()


@implementer(IBuiltInHandler)
class TaskReading:
    """
    ``QUERY /delegations``, and INSPECT of one task.

    :param authorization: who may read whose.
    """

    kind = "built_in"

    def __init__(self, held: StateTable, authorization: Authorization, continuations: Continuations) -> None:
        self._held = held
        self._authorization = authorization
        self._continuations = continuations

    def handle(self, context: BuiltInContext) -> Answer:
        """
        Return the caller's own tasks, in the order in which they were accepted.

        ``agent_id`` asks for those of an agent in its place, what was delegated to it included.

        :raises Refusal: 403 for an agent that the caller neither is nor looks after.
        """
        self._authorization.actor(context)
        state = parameters.choice(context.input, "state", (*STATES, "all"), "all")
        limit = parameters.count(context.input, "limit", 50, MOST_KEPT)
        listed = [item for item in self._requested_tasks(context) if state in ("all", item.brief["state"])]
        listed.sort(key=_place)
        part = self._continuations.part(context, listed, limit, _place)
        shown = [_brief(item.value) for item in part.items]
        return Answer(result={"delegations": shown, "count": len(listed)}, headers=part.headers)

    def _requested_tasks(self, context: BuiltInContext) -> Iterator[StateItem]:
        caller = self._authorization.find_caller(context)
        wanted = None if context.input.get("agent_id") is None else parameters.agent_id(context.input)
        if wanted is None:
            yield from () if caller is None else self._held.items_of(TASK, caller.agent_id)
            return
        own = caller is not None and caller.agent_id == wanted
        if not own and not self._authorization.manages(context, wanted):
            self._authorization.require_looking(context, SAID)
        yield from self._held.items_of(TASK, wanted)
        yield from (item for item in self._held.items_by(TASK, "delegatee", wanted) if item.owner != wanted)

    async def read(self, context: BuiltInContext) -> Mapping[str, Any]:
        """
        Answer INSPECT of one task with its outcome, by ``delegation_id`` or ``task_id``.

        :raises Refusal: 404 where the caller has no such task.
        """
        self._authorization.actor(context)
        wanted, by = context.input.get("delegation_id"), "delegation_id"
        if wanted is None:
            wanted, by = parameters.identifier(context.input, "task_id"), "task_id"
        for item in self._find_tasks(wanted, by):
            if self._may_read(context, item):
                return {name: value for name, value in item.value.items() if name != "process"}
        raise not_found(Reason.DELEGATION_NOT_FOUND)

    def _find_tasks(self, wanted: str, by: str) -> list[StateItem]:
        """Return the tasks with that identifier, newest first."""
        if by == "task_id":
            return list(self._held.items_by(TASK, by, wanted))[::-1]
        item = self._held.get(TASK, wanted) if isinstance(wanted, str) else None
        return [] if item is None else [item]

    def _may_read(self, context: BuiltInContext, item: StateItem) -> bool:
        caller = self._authorization.find_caller(context)
        return (caller is not None and caller.agent_id == item.owner) or self._authorization.manages(
            context, item.owner, OperatorAction.READ
        )


def _place(item: StateItem) -> list[str]:
    return [item.brief["accepted_at"], item.key]


def _brief(value: Mapping[str, Any]) -> dict[str, Any]:
    return {name: entry for name, entry in value.items() if name not in ("result", "error", "process")}


def _without_results(result: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in result.items() if name not in ("result", "results")}


def _error(refusal: Refusal) -> dict[str, Any]:
    return {
        "status": int(refusal.status),
        "reason": refusal.reason,
        "explanation": refusal.explanation,
        "remedy": refusal.remedy,
        **refusal.details,
    }


def _interruption_error(reason: str, explanation: str) -> dict[str, Any]:
    return {
        "status": int(Status.UNAVAILABLE),
        "reason": reason,
        "explanation": explanation,
        "remedy": "Search the records for the Task-ID, and delegate again with a new token if it was not done.",
    }


def _full() -> Refusal:
    return Refusal(
        Reason.TOO_MANY_DELEGATIONS,
        f"The delegator has {MOST_RUNNING} running tasks, which is the limit.",
        remedy="Wait until one of them has ended.",
        headers=(("Retry-After", "30"),),
        details={"scope": "delegation", "retry_after_seconds": 30},
    )


def _pause(clock: IReactorTime, seconds: float) -> Deferred[None]:
    waited: Deferred[None] = Deferred()
    clock.callLater(seconds, waited.callback, None)
    return waited
